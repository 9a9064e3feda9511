/* parallel_for.c - a sum and a saxpy over 2^24 elements on all workers: speed-up against the plain loop.
 * Both are bound by memory, so the ideal is out of reach where the cores share one path to it. */
#include <stdlib.h>

#include "../harness/bench.h"

enum { REPEATS = 3 }; /* the least of these: what the loop costs, not what disturbed it */

struct arrays {
    size_t count;
    uint32_t *ints;
    float *x, *y;
    uint64_t sum;
    int64_t best[2]; /* least ns: sum, saxpy */
    int code;        /* of the first call that failed */
};

/* Never inlined: the plain loop and the parts must be the same machine code. */
__attribute__((noinline)) static uint64_t sum_part(const uint32_t *ints, size_t begin, size_t end) {
    uint64_t sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += ints[i];
    return sum;
}

__attribute__((noinline)) static void saxpy_part(float *y, const float *x, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        y[i] += 2.0f * x[i];
}

static void map_sum(size_t begin, size_t end, void *acc, void *arg) {
    *(uint64_t *)acc += sum_part(((struct arrays *)arg)->ints, begin, end);
}

static void combine_sum(void *left, const void *right, void *arg) {
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
}

static void saxpy(size_t begin, size_t end, void *arg) {
    struct arrays *a = arg;
    saxpy_part(a->y, a->x, begin, end);
}

static void keep_least(int64_t *best, int64_t start) {
    int64_t took = bench_now() - start;
    *best = took < *best ? took : *best;
}

static void reset(struct arrays *a) {
    a->best[0] = a->best[1] = INT64_MAX;
    for (size_t i = 0; i < a->count; i++) {
        a->ints[i] = (uint32_t)i;
        a->x[i] = (float)(i % 1000);
        a->y[i] = (float)(i % 7);
    }
}

static void plainly(struct arrays *a) {
    for (int r = 0; r < REPEATS; r++) {
        int64_t start = bench_now();
        a->sum = sum_part(a->ints, 0, a->count);
        keep_least(&a->best[0], start);
        start = bench_now();
        saxpy_part(a->y, a->x, 0, a->count);
        keep_least(&a->best[1], start);
    }
}

static int in_parallel(void *arg) {
    struct arrays *a = arg;
    const uint64_t zero = 0;
    for (int r = 0; r < REPEATS && a->code == 0; r++) {
        int64_t start = bench_now();
        a->code = weft_parallel_reduce(NULL, 0, a->count, 0, sizeof zero, &zero, map_sum, combine_sum, a, &a->sum);
        keep_least(&a->best[0], start);
        start = bench_now();
        if (a->code == 0)
            a->code = weft_parallel_for(NULL, 0, a->count, 0, saxpy, a);
        keep_least(&a->best[1], start);
    }
    return 0;
}

static weft_poll in_task(weft_task *self, void *state) { return weft_done(self, in_parallel(state), NULL); }

/* Small whole numbers: every float is exact, whatever the order. */
static void check(struct bench_run *run, const struct arrays *a) {
    uint64_t want = (uint64_t)a->count * (a->count - 1) / 2, wrong = 0;
    for (size_t i = 0; i < a->count; i++)
        wrong += a->y[i] != (float)(i % 7) + REPEATS * 2.0f * (float)(i % 1000);
    bench_check(run, a->code == 0, "a parallel loop failed: %s", weft_strerror(a->code));
    bench_check(run, a->sum == want, "the sum is %llu, not %llu", (unsigned long long)want, (unsigned long long)a->sum);
    bench_check(run, wrong == 0, "%llu elements are wrong", (unsigned long long)wrong);
}

static void parallel_for(struct bench_run *run) {
    struct arrays a = {.count = (size_t)1 << (run->quick ? 20 : 24)};
    a.ints = malloc(a.count * sizeof *a.ints);
    a.x = malloc(a.count * sizeof *a.x);
    a.y = malloc(a.count * sizeof *a.y);
    if (bench_check(run, a.ints && a.x && a.y, "no memory")) {
        int64_t plain[2];
        reset(&a);
        plainly(&a);
        check(run, &a);
        plain[0] = a.best[0];
        plain[1] = a.best[1];
        reset(&a);
        bench_in_kind(run, in_task, in_parallel, &a, 0);
        check(run, &a);
        for (int i = 0; i < 2; i++)
            run->value[i] = (double)plain[i] / (double)a.best[i];
    }
    free(a.ints);
    free(a.x);
    free(a.y);
}

const struct bench_workload bench_parallel_for = {
    .name = "parallel_for",
    .about = "sum and saxpy over 2^24 elements: speed-up against the plain loop",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"parallel_for_sum", "x", BENCH_IDEAL}, {"parallel_for_saxpy", "x", BENCH_IDEAL}},
    .skip = bench_skip_sim,
    .run = parallel_for,
};
