/* yield.c - two tasks, or two fibers, on one worker yield to each other: ns a yield. */
#include "../harness/bench.h"

struct pair;

struct yielder {
    struct pair *pair;
    uint64_t left; /* yields to do */
};

/* Plain fields: everything here runs on the one worker. */
struct pair {
    struct yielder yielder[2];
    const struct yielder *last; /* who ran before */
    uint64_t repeats;           /* how often that was the same one */
    int64_t start, end;
    unsigned ended, failed;
};

static void note_turn(struct yielder *y) {
    y->pair->repeats += y->pair->last == y;
    y->pair->last = y;
}

static void note_end(struct pair *pair) {
    if (++pair->ended == 2)
        pair->end = bench_now();
}

static weft_poll yielding(weft_task *self, void *state) {
    struct yielder *y = state;
    note_turn(y);
    if (y->left-- > 0)
        return WEFT_YIELD;
    note_end(y->pair);
    return weft_done(self, 0, NULL);
}

static int yielding_fiber(void *arg) {
    struct yielder *y = arg;
    for (note_turn(y); y->left-- > 0; note_turn(y))
        weft_yield();
    note_end(y->pair);
    return 0;
}

/* Both are spawned by one task, so that they start together. */
static weft_poll starter(weft_task *self, void *state) {
    struct pair *pair = state;
    for (int i = 0; i < 2; i++)
        pair->failed += weft_go(NULL, yielding, &pair->yielder[i], NULL) != 0;
    pair->start = bench_now();
    return weft_done(self, 0, NULL);
}

static int starting_fiber(void *arg) {
    struct pair *pair = arg;
    for (int i = 0; i < 2; i++)
        pair->failed += weft_fiber_go(NULL, yielding_fiber, &pair->yielder[i], NULL) != 0;
    pair->start = bench_now();
    return 0;
}

static void yield(struct bench_run *run) {
    uint64_t count = run->quick ? 1000000 : 10000000;
    if (run->sched == WEFT_SCHED_REACTOR)
        count /= 50; /* each one goes to another thread and back */
    struct pair pair = {0};
    for (int i = 0; i < 2; i++)
        pair.yielder[i] = (struct yielder){&pair, count / 2};
    bench_in_kind(run, starter, starting_fiber, &pair, 3);
    bench_check(run, pair.failed == 0 && pair.ended == 2, "%u of 2 tasks ended", pair.ended);
    /* A yield lets the others go first: one that comes straight back would be measured for nothing.  sim
     * draws who is next, so half of its turns repeat. */
    bench_check(run, run->sched == WEFT_SCHED_SIM || pair.repeats < count / 100,
                "the two did not take turns: %llu of %llu yields came straight back", (unsigned long long)pair.repeats,
                (unsigned long long)count);
    run->value[0] = (double)(pair.end - pair.start) / (double)count;
}

const struct bench_workload bench_yield = {
    .name = "yield",
    .about = "two tasks on one worker yield to each other, 10 M times: ns/yield",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"yield", "ns/yield", "floor_switch"}},
    .skip = bench_skip_not_alone,
    .run = yield,
};
