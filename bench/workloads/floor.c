/* floor.c - what this machine costs without any runtime, so that the other figures can be read as ratios. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor.h"

enum { ADD, XCHG, FENCE, CLOCK, SWITCH, LINE, FUTEX_P50, FUTEX_P99, FUTEX_CALL };

/* An uncontended word on a line of its own. */
static _Alignas(128) _Atomic uint64_t word;
static _Alignas(128) _Atomic uint64_t turn;

static void uncontended(struct bench_run *run) {
    uint64_t count = run->quick ? 2000000 : 20000000;
    int64_t start = bench_now();
    for (uint64_t i = 0; i < count; i++)
        atomic_fetch_add(&word, 1);
    run->value[ADD] = (double)(bench_now() - start) / (double)count;
    bench_check(run, atomic_load(&word) == count, "locked adds were lost");

    uint64_t seen = 0;
    start = bench_now();
    for (uint64_t i = 0; i < count; i++)
        seen += atomic_exchange(&word, i);
    run->value[XCHG] = (double)(bench_now() - start) / (double)count;
    bench_check(run, seen == count + (count - 2) * (count - 1) / 2, "exchanges were lost");

    start = bench_now();
    for (uint64_t i = 0; i < count; i++) {
        atomic_store_explicit(&word, i, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    }
    run->value[FENCE] = (double)(bench_now() - start) / (double)count;

    int64_t last = start, backwards = 0;
    start = bench_now();
    for (uint64_t i = 0; i < count / 10; i++) {
        int64_t now = bench_now();
        backwards += now < last;
        last = now;
    }
    run->value[CLOCK] = (double)(bench_now() - start) / (double)(count / 10);
    bench_check(run, backwards == 0, "the monotonic clock went back");
}

struct player {
    uint64_t rounds;
    int cpu; /* the nth of the usable ones */
};

void bench_pin(int nth) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && nth-- == 0)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void play(uint64_t rounds, uint64_t mine) {
    for (uint64_t i = 0; i < rounds; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i + mine)
            ;
        atomic_store_explicit(&turn, 2 * i + mine + 1, memory_order_release);
    }
}

static void *answer(void *arg) {
    struct player *player = arg;
    bench_pin(player->cpu);
    play(player->rounds, 1);
    return NULL;
}

/* A word that travels between two pinned threads and back. */
static void line_round_trip(struct bench_run *run) {
    struct player other = {run->quick ? 200000 : 2000000, 1};
    pthread_t thread;
    cpu_set_t before;
    if (bench_cpus() < 2)
        return;
    if (!bench_check(run, pthread_create(&thread, NULL, answer, &other) == 0, "no thread"))
        return;
    sched_getaffinity(0, sizeof before, &before);
    bench_pin(0);
    play(1, 0); /* the other is running from here on */
    while (atomic_load_explicit(&turn, memory_order_acquire) != 2)
        ;
    int64_t start = bench_now();
    for (uint64_t i = 1; i < other.rounds; i++) {
        atomic_store_explicit(&turn, 2 * i + 1, memory_order_release);
        while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i + 2)
            ;
    }
    run->value[LINE] = (double)(bench_now() - start) / (double)(other.rounds - 1);
    pthread_join(thread, NULL);
    sched_setaffinity(0, sizeof before, &before);
    bench_check(run, atomic_load(&turn) == 2 * other.rounds, "the line was lost");
}

enum { WAKES = 1000 };
static _Alignas(128) _Atomic uint32_t posted;
static _Atomic int64_t posted_at;
static int64_t latency[WAKES];

static void *sleeper(void *arg) {
    uint32_t count = *(uint32_t *)arg;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t seen;
        while ((seen = atomic_load(&posted)) <= i)
            syscall(SYS_futex, &posted, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        latency[i] = bench_now() - atomic_load(&posted_at);
    }
    return NULL;
}

/* A thread that sleeps on a futex is woken once a millisecond, wherever the kernel runs the two. */
static void futex_wake(struct bench_run *run) {
    uint32_t count = run->quick ? WAKES / 5 : WAKES;
    int64_t in_call = 0;
    pthread_t thread;
    if (!bench_check(run, pthread_create(&thread, NULL, sleeper, &count) == 0, "no thread"))
        return;
    bench_sleep_us(10000);
    for (uint32_t i = 0; i < count; i++) {
        bench_sleep_us(1000);
        int64_t start = bench_now();
        atomic_store(&posted_at, start);
        atomic_store(&posted, i + 1);
        syscall(SYS_futex, &posted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        in_call += bench_now() - start;
    }
    pthread_join(thread, NULL);
    run->value[FUTEX_P50] = bench_percentile(latency, count, 50) / 1e3;
    run->value[FUTEX_P99] = bench_percentile(latency, count, 99) / 1e3;
    run->value[FUTEX_CALL] = (double)in_call / count / 1e3;
    bench_check(run, latency[0] >= 0, "woken before the wake");
}

static void floors(struct bench_run *run) {
    uncontended(run);
    run->value[SWITCH] = bench_floor_switch(run);
    line_round_trip(run);
    futex_wake(run);
}

const struct bench_workload bench_floor_workload = {
    .name = "floor",
    .about = "the machine alone: locked add, exchange, fence, clock, context switch, cache line, futex",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .of_machine = true,
    .figures =
        {
            [ADD] = {"floor_locked_add", "ns", NULL},
            [XCHG] = {"floor_xchg", "ns", NULL},
            [FENCE] = {"floor_fence", "ns", NULL},
            [CLOCK] = {"floor_clock", "ns", NULL},
            [SWITCH] = {"floor_switch", "ns", NULL},
            [LINE] = {"floor_line", "ns", NULL},
            [FUTEX_P50] = {"floor_futex_p50", "us", NULL},
            [FUTEX_P99] = {"floor_futex_p99", "us", NULL},
            [FUTEX_CALL] = {"floor_futex_call", "us", NULL},
        },
    .run = floors,
};
