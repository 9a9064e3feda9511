/* sleepers.c - a million tasks, each sleeps a random 1 to 1,000 ms: seconds until the last has woken, CPU seconds, most resident
 * megabytes.
 *
 * Each is checked: it woke once, and not early.  At best it takes a second, and the time to start them. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "../harness/bench.h"

enum { BATCH = 1000 };

struct crowd {
    uint64_t left, count, failed;
    uint64_t random;
    enum bench_kind kind;
    _Atomic uint64_t woke, early;
};

struct sleeper {
    weft_wait wait;
    weft_deadline until;
    struct crowd *crowd;
};

static int64_t duration(struct crowd *c) {
    c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(1 + (c->random >> 33) % 1000) * 1000000;
}

static void woke(struct crowd *c, weft_deadline until) {
    if (weft_now() < until)
        atomic_fetch_add_explicit(&c->early, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->woke, 1, memory_order_relaxed);
}

static weft_poll sleep_polled(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (weft_sleep_poll(self, &s->wait, s->until) == -EAGAIN)
        return WEFT_PENDING;
    woke(s->crowd, s->until);
    return WEFT_READY;
}

static int sleep_in_fiber(void *arg) {
    struct crowd *c = arg;
    weft_deadline until = weft_after(duration(c)); /* with several workers some draw the same: no matter */
    weft_sleep_until(until);
    woke(c, until);
    return 0;
}

static bool spawn_one(struct crowd *c) {
    if (c->kind == BENCH_FIBER)
        return weft_fiber_go(NULL, sleep_in_fiber, c, NULL) == 0;
    struct sleeper s = {.crowd = c, .until = weft_after(duration(c))};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = sleep_polled;
    spec.state = &s;
    spec.state_size = sizeof s;
    return weft_spawn(NULL, &spec, NULL) == 0;
}

static weft_poll start_all(weft_task *self, void *state) {
    struct crowd *c = state;
    for (unsigned i = 0; i < BATCH && c->left; i++, c->left--)
        c->failed += !spawn_one(c);
    if (c->left)
        return WEFT_YIELD;
    return weft_done(self, 0, NULL);
}

static void sleepers(struct bench_run *run) {
    struct crowd c = {.count = run->quick ? 50000 : 1000000, .random = 1, .kind = run->kind};
    c.left = c.count;
    double cpu = bench_cpu_ms();
    int64_t start = bench_now();
    bench_in_task(run, start_all, &c, c.count + 1);
    run->value[0] = (double)(bench_now() - start) / 1e9;
    run->value[1] = (bench_cpu_ms() - cpu) / 1e3;
    struct rusage usage;
    bench_check(run, getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    run->value[2] = (double)usage.ru_maxrss * 1024 / 1e6;
    bench_check(run, c.woke == c.count && c.failed == 0, "%llu of %llu tasks woke", (unsigned long long)c.woke,
                (unsigned long long)c.count);
    bench_check(run, c.early == 0, "%llu tasks woke early", (unsigned long long)c.early);
}

const struct bench_workload bench_sleepers = {
    .name = "sleepers",
    .about = "1 M tasks, each sleeps a random 1 to 1,000 ms: wall and CPU seconds, resident megabytes",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"sleepers_wall", "s", NULL}, {"sleepers_cpu", "s", NULL}, {"sleepers_rss", "MB", NULL}},
    .skip = bench_skip_sim,
    .run = sleepers,
};

/* -- A timer that is set and cleared again ----------------------------------------------------------------------- */

struct timers {
    uint64_t count, wrong;
    int64_t start, end;
};

static weft_poll set_and_clear(weft_task *self, void *state) {
    struct timers *t = state;
    struct crowd random = {.random = 1};
    weft_wait wait = {{0}};
    weft_deadline now = weft_now();
    t->start = bench_now();
    for (uint64_t i = 0; i < t->count; i++) {
        t->wrong += weft_sleep_poll(self, &wait, now + 3600000000000 + duration(&random)) != -EAGAIN;
        weft_wait_end(&wait);
    }
    t->end = bench_now();
    return weft_done(self, 0, NULL);
}

static void timer(struct bench_run *run) {
    struct timers t = {.count = run->quick ? 1000000 : 10000000};
    bench_in_task(run, set_and_clear, &t, 1);
    bench_check(run, t.wrong == 0, "%llu timers were not set", (unsigned long long)t.wrong);
    run->value[0] = (double)(t.end - t.start) / (double)t.count;
}

const struct bench_workload bench_timer = {
    .name = "timer",
    .about = "a timer an hour away, set and cleared: ns",
    .kinds = BENCH_POLL,
    .figures = {{"timer", "ns", "floor_clock"}},
    .run = timer,
};
