/* wake_pingpong.c - two tasks wake each other in turn through wakers: ns a round trip.  The cheapest way for
 * one task to hand over to another, and so the floor of channels and locks. */
#include <stdatomic.h>

#include "../harness/bench.h"

struct table;

struct player {
    struct table *table;
    unsigned me;       /* 0 or 1 */
    weft_waker waker;  /* wakes this player; written by it before it sits, spent by the table's end */
    uint64_t hits;
};

struct table {
    struct player player[2];
    _Atomic unsigned seated;
    _Atomic uint64_t ball; /* returns so far; it is the turn of player ball % 2 */
    uint64_t returns;      /* how many end the game */
    int64_t start, end;
    unsigned failed;
};

static weft_poll play(weft_task *self, void *state) {
    struct player *p = state;
    struct table *t = p->table;
    if (!p->waker.target) {
        p->waker = weft_waker_of(self);
        atomic_fetch_add_explicit(&t->seated, 1, memory_order_release);
    }
    /* The other's waker may be used only once it is there. */
    if (atomic_load_explicit(&t->seated, memory_order_acquire) < 2)
        return WEFT_YIELD;
    uint64_t ball = atomic_load_explicit(&t->ball, memory_order_acquire);
    if (ball < t->returns && ball % 2 != p->me)
        return WEFT_PENDING;
    if (ball == 0)
        t->start = bench_now();
    if (ball < t->returns) {
        p->hits++;
        if (ball + 1 == t->returns)
            t->end = bench_now();
        atomic_store_explicit(&t->ball, ++ball, memory_order_release);
        weft_waker_wake_keep(t->player[1 - p->me].waker);
    }
    if (ball < t->returns)
        return WEFT_PENDING;
    return weft_done(self, 0, NULL);
}

static weft_poll starter(weft_task *self, void *state) {
    struct table *t = state;
    for (int i = 0; i < 2; i++)
        t->failed += weft_go(NULL, play, &t->player[i], NULL) != 0;
    return weft_done(self, 0, NULL);
}

static void wake_pingpong(struct bench_run *run) {
    uint64_t rounds = run->quick ? 100000 : 1000000;
    struct table table = {.returns = 2 * rounds};
    weft_task *first = NULL;
    weft_runtime *rt = bench_open(run);
    if (!rt)
        return;
    for (unsigned i = 0; i < 2; i++)
        table.player[i] = (struct player){.table = &table, .me = i};
    int code = weft_go(rt, starter, &table, &first);
    if (bench_check(run, code == 0, "weft_go: %s", weft_strerror(code))) {
        code = weft_join(first, NULL, WEFT_NEVER);
        bench_check(run, code == 0, "weft_join: %s", weft_strerror(code));
        weft_task_drop(first);
    }
    code = weft_runtime_stop(rt, weft_after(60 * INT64_C(1000000000)));
    bench_check(run, code == 0, "the game did not end: %s", weft_strerror(code));
    for (int i = 0; i < 2; i++) {
        bench_check(run, table.player[i].hits == rounds, "player %d hit the ball %llu times", i,
                    (unsigned long long)table.player[i].hits);
        if (table.player[i].waker.target)
            weft_waker_drop(table.player[i].waker);
    }
    bench_close(run, rt, 3);
    run->value[0] = (double)(table.end - table.start) / (double)rounds;
}

const struct bench_workload bench_wake_pingpong = {
    .name = "wake_pingpong",
    .about = "two tasks wake each other in turn, 1 M round trips: ns/round trip",
    .kinds = BENCH_POLL,
    .figures = {{"wake_pingpong", "ns/rtt", "floor_locked_add"}},
    .run = wake_pingpong,
};
