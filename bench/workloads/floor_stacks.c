/* floor_stacks.c - what the memory of half a million fibers costs without any runtime: a page each, 64 KiB apart, written for the first time,
 * written again in random order when it has left the caches, and given back. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "../harness/bench.h"

enum { APART = 65536, PAGE = 4096, LINE = 64, CHUNK = 64 };

enum { FIRST, AGAIN, END };

/* Three lines of its last page: a saved context, and a frame or two. */
static uint64_t touch(char *stack) {
    uint64_t seen = 0;
    for (int line = 1; line <= 3; line++)
        seen += ((volatile uint64_t *)(void *)(stack + APART - line * LINE))[0]++;
    return seen;
}

static void floor_stacks(struct bench_run *run) {
    size_t count = run->quick ? 1 << 15 : 1 << 19, made = 0; /* a power of two: see `next` */
    char **chunk = calloc(count / CHUNK, sizeof *chunk);
    bench_check(run, chunk, "no memory");
    if (!chunk)
        return;
    uint64_t seen = 0;
    int64_t start = bench_now();
    for (; made < count / CHUNK; made++) {
        size_t size = (size_t)CHUNK * APART;
        chunk[made] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (chunk[made] == MAP_FAILED)
            break;
        madvise(chunk[made], size, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < CHUNK; i++)
            seen += touch(chunk[made] + i * APART);
    }
    run->value[FIRST] = (double)(bench_now() - start) / (double)count;
    bench_check(run, made == count / CHUNK, "the system gave memory for %zu of %zu stacks", made * CHUNK, count);
    if (made == count / CHUNK) {
        start = bench_now();
        for (size_t i = 0, next = 1; i < count; i++, next = (next * 1664525 + 1013904223) & (count - 1)) /* each once */
            seen += touch(chunk[next / CHUNK] + next % CHUNK * APART);
        run->value[AGAIN] = (double)(bench_now() - start) / (double)count;
        bench_check(run, seen == 3 * count, "%llu of %zu lines were found as they were left", (unsigned long long)seen,
                    3 * count);
    }
    start = bench_now();
    for (size_t i = 0; i < made; i++)
        munmap(chunk[i], (size_t)CHUNK * APART);
    run->value[END] = (double)(bench_now() - start) / (double)count;
    free(chunk);
}

const struct bench_workload bench_floor_stacks = {
    .name = "floor_stacks",
    .about = "the memory of 500 k fibers without fibers: a page each, written, written again at random, given back: ns",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .of_machine = true,
    .figures = {[FIRST] = {"floor_stack_first", "ns", NULL},
                [AGAIN] = {"floor_stack_again", "ns", NULL},
                [END] = {"floor_stack_end", "ns", NULL}},
    .run = floor_stacks,
};
