/* join.c - waiting for a task, from threads and from polls. */
#include "fixture.h"

static weft_poll leave_seven(weft_task *self, void *state) { return weft_done(self, -7, state); }

static weft_poll join_and_leave_nothing(weft_task *self, void *state) {
    weft_task *child = NULL;
    weft_result result;
    (void)self;
    REQUIRE_EQ(weft_go(NULL, leave_seven, state, &child), 0);
    REQUIRE_EQ(weft_join(child, &result, WEFT_NEVER), 0);
    CHECK_EQ(result.status, -7);
    CHECK_EQ(result.value, state);
    weft_task_drop(child);
    return WEFT_READY; /* no weft_done: status 0, no value */
}

/* What a task leaves that ran on top of ours is not our result. */
API_TEST(join_helping_keeps_results_apart, "B33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    int thing = 0;
    weft_result result = fixture_finish(fixture_go(rt, join_and_leave_nothing, &thing));
    CHECK_EQ(result.status, 0);
    CHECK_EQ(result.value, NULL);
    fixture_end(rt);
}

/* -- From a plain thread ---------------------------------------------------------------------------------- */

API_TEST(join_deadline, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT;
    weft_task *task = fixture_go(rt, fixture_wait_gate, &gate);
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
    weft_result result = {5, &gate};
    CHECK_EQ(weft_join(task, &result, WEFT_NOW), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        int64_t before = harness_clock();
        CHECK_EQ(weft_join(task, &result, weft_after(5000000)), -ETIMEDOUT);
        CHECK_GE(harness_clock() - before, 5000000);
    }
    CHECK_EQ(result.status, 5); /* outputs are untouched, and the handle is still good */
    CHECK(!weft_task_is_done(task));
    gate_open(&gate);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

API_TEST(join_for_ever, "B33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 500; i++) {
        int thing;
        weft_task *task = fixture_go(rt, leave_seven, &thing);
        weft_result result;
        CHECK_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -7);
        CHECK_EQ(result.value, &thing);
        weft_task_drop(task);
    }
    fixture_end(rt);
}

/* Deadlines that pass just when the task ends: either answer, never a hang, never a lost result. */
API_TEST(join_deadline_races_end, "B33", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t random = harness_seed();
    for (int i = 0; i < 500; i++) {
        weft_result result = {1, NULL};
        weft_task *task = fixture_go(rt, leave_seven, rt);
        int64_t wait = 1000 + (int64_t)(harness_random(&random) % 30000);
        int error = weft_join(task, &result, weft_after(wait));
        REQUIRE(error == 0 || error == -ETIMEDOUT);
        if (error)
            REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        REQUIRE_EQ(result.status, -7);
        weft_task_drop(task);
    }
    fixture_end(rt);
}

struct two {
    weft_task *task;
    struct gate *gate;
};

static void two_waiters(unsigned index, void *arg) {
    struct two *two = arg;
    if (index == 0) {
        CHECK_EQ(weft_join(two->task, NULL, WEFT_NEVER), 0);
        return;
    }
    int error;
    do /* until the other has registered */
        error = weft_join(two->task, NULL, WEFT_NOW);
    while (error == -ETIMEDOUT);
    CHECK_EQ(error, -EBUSY);
    gate_open(two->gate);
}

/* One waiter at a time: the second is told. */
API_TEST(join_second_waiter, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT;
    struct two two = {fixture_go(rt, fixture_wait_gate, &gate), &gate};
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
    harness_threads(2, two_waiters, &two);
    weft_task_drop(two.task);
    fixture_end(rt);
}

/* Any number of threads at once: one of them waits, the others are told, or find it done. */
static struct {
    weft_task *task;
    struct gate gate;
    atomic_uint busy, joined;
} raced;

static void race_to_join(unsigned index, void *arg) {
    (void)arg;
    weft_result result = {1, NULL};
    int error = weft_join(raced.task, &result, WEFT_NEVER);
    REQUIRE(error == 0 || error == -EBUSY);
    atomic_fetch_add(error ? &raced.busy : &raced.joined, 1);
    if (error == 0)
        CHECK_EQ(result.status, 0);
    if (index == 0 || atomic_load(&raced.busy) == 3)
        gate_open(&raced.gate);
}

API_TEST(join_racing_waiters, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 50; i++) {
        raced.gate = (struct gate)GATE_INIT;
        raced.busy = raced.joined = 0;
        raced.task = fixture_go(rt, fixture_wait_gate, &raced.gate);
        harness_threads(4, race_to_join, NULL);
        CHECK_GE(raced.joined, 1);
        CHECK_EQ(raced.joined + raced.busy, 4);
        weft_task_drop(raced.task);
    }
    fixture_end(rt);
}

/* -- From a poll ------------------------------------------------------------------------------------------ */

struct child {
    intptr_t n;
    int left; /* yields before it answers */
};

struct parent {
    unsigned count, started, joined, polls;
    intptr_t sum;
    weft_task *task[64];
};

static weft_poll square(weft_task *self, void *state) {
    struct child *child = state;
    return child->left-- ? WEFT_YIELD : weft_done(self, 0, (void *)(child->n * child->n));
}

static weft_poll join_children(weft_task *self, void *state) {
    struct parent *p = state;
    weft_result result;
    p->polls++;
    for (; p->started < p->count; p->started++) {
        struct child child = {p->started, (int)p->started % 5};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = square;
        spec.state = &child;
        spec.state_size = sizeof child;
        REQUIRE_EQ(weft_spawn(NULL, &spec, &p->task[p->started]), 0);
    }
    for (; p->joined < p->count; p->joined++) {
        int error = weft_join_poll(p->task[p->joined], self, &result);
        if (error == -EAGAIN) /* asking again is allowed */
            error = weft_join_poll(p->task[p->joined], self, &result);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        p->sum += (intptr_t)result.value;
        weft_task_drop(p->task[p->joined]);
    }
    return weft_done(self, 0, NULL);
}

API_TEST(join_poll, "B33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 40; i++) {
        struct parent parent = {.count = 64};
        fixture_finish(fixture_go(rt, join_children, &parent));
        CHECK_EQ(parent.sum, 63 * 64 * 127 / 6);
        CHECK_LE(parent.polls, 1 + 2 * 64);
    }
    fixture_end(rt);
}

static weft_poll join_itself(weft_task *self, void *state) {
    weft_result result;
    (void)state;
    CHECK_EQ(weft_join(self, &result, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_join_poll(self, self, &result), -EDEADLK);
    return weft_done(self, 0, NULL);
}

API_TEST(join_itself, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, join_itself, NULL));
    fixture_end(rt);
}

struct rivals {
    weft_task *child;
    struct gate *gate, *second;
    atomic_uint answers;
};

static weft_poll first_rival(weft_task *self, void *state) {
    struct rivals *r = state;
    int error = weft_join_poll(r->child, self, NULL);
    if (error == -EAGAIN) {
        atomic_store(&r->answers, 1); /* registered */
        return WEFT_PENDING;
    }
    CHECK_EQ(error, 0);
    return weft_done(self, 0, NULL);
}

static weft_poll second_rival(weft_task *self, void *state) {
    struct rivals *r = state;
    CHECK_EQ(weft_join_poll(r->child, self, NULL), -EBUSY);
    CHECK_EQ(weft_join(r->child, NULL, WEFT_NEVER), -EBUSY);
    return weft_done(self, 0, NULL);
}

API_TEST(join_poll_second_waiter, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT;
    struct rivals rivals = {.child = fixture_go(rt, fixture_wait_gate, &gate)};
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
    weft_task *first = fixture_go(rt, first_rival, &rivals);
    REQUIRE_EVENTUALLY(rivals.answers == 1);
    fixture_finish(fixture_go(rt, second_rival, &rivals));
    CHECK_EQ(weft_join(rivals.child, NULL, WEFT_NEVER), -EBUSY);
    gate_open(&gate);
    fixture_finish(first);
    weft_task_drop(rivals.child);
    fixture_end(rt);
}

/* A handle may be dropped with a waiter registered: the child goes on, the parent is not woken by it. */
static weft_poll ask_and_drop(weft_task *self, void *state) {
    struct rivals *r = state;
    if (r->child) {
        CHECK_EQ(weft_join_poll(r->child, self, NULL), -EAGAIN);
        weft_task_drop(r->child);
        r->child = NULL;
    }
    atomic_fetch_add(&r->answers, 1);
    return gate_pass(r->second, self) ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

API_TEST(join_poll_then_drop, "B54", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT, second = GATE_INIT;
    struct rivals rivals = {.child = fixture_go(rt, fixture_wait_gate, &gate), .second = &second};
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
    weft_task *parent = fixture_go(rt, ask_and_drop, &rivals);
    REQUIRE_EVENTUALLY(gate_waiting(&second) == 1);
    gate_open(&gate);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 1);
    gate_open(&second);
    fixture_finish(parent);
    CHECK_EQ(rivals.answers, 2);
    fixture_end(rt);
}

/* The parent is cancelled while it waits: its registration is harmless. */
API_TEST(join_poll_then_cancelled, "B54", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT;
    struct rivals rivals = {.child = fixture_go(rt, fixture_wait_gate, &gate)};
    weft_task *parent = fixture_go(rt, first_rival, &rivals);
    REQUIRE_EVENTUALLY(rivals.answers == 1);
    weft_task_cancel(parent);
    CHECK_EQ(fixture_finish(parent).status, -ECANCELED);
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
    gate_open(&gate);
    REQUIRE_EVENTUALLY(weft_task_is_done(rivals.child));
    weft_task_drop(rivals.child);
    fixture_end(rt);
}

/* -- Helping ---------------------------------------------------------------------------------------------- */

static weft_poll sum_tree(weft_task *self, void *state) {
    intptr_t depth = (intptr_t)state, sum = 0;
    weft_task *child[2];
    if (depth == 0)
        return weft_done(self, 0, (void *)1);
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(weft_go(NULL, sum_tree, (void *)(depth - 1), &child[i]), 0);
    for (int i = 0; i < 2; i++) {
        weft_result result = {1, NULL};
        REQUIRE_EQ(weft_join(child[i], &result, WEFT_NEVER), 0); /* runs other tasks meanwhile */
        CHECK_EQ(weft_task_self(), self);                        /* and is itself again afterwards */
        CHECK_STR(weft_task_state(self), "running");
        sum += (intptr_t)result.value;
        weft_task_drop(child[i]);
    }
    return weft_done(self, 0, (void *)sum);
}

API_TEST(join_helping_tree, "B33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 5; i++) /* 255 joins, which may all be nested */
        CHECK_EQ(fixture_finish(fixture_go(rt, sum_tree, (void *)8)).value, 256);
    fixture_end(rt);
}

struct gated {
    struct gate gate;
    atomic_bool timed_out;
};

/* A worker that helps sleeps when there is nothing to help with, and is woken by what it waits for. */
static weft_poll join_gated(weft_task *self, void *state) {
    struct gated *gated = state;
    weft_task *child = NULL;
    REQUIRE_EQ(weft_go(NULL, fixture_wait_gate, &gated->gate, &child), 0);
    CHECK_EQ(weft_join(child, NULL, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_join(child, NULL, WEFT_NOW), -ETIMEDOUT);
    gated->timed_out = true;
    int error = weft_join(child, NULL, WEFT_NEVER);
    weft_task_drop(child);
    return weft_done(self, error, NULL);
}

API_TEST(join_helping_sleeps, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 20; i++) {
        struct gated gated = {.gate = GATE_INIT};
        weft_task *task = fixture_go(rt, join_gated, &gated);
        REQUIRE_EVENTUALLY(gated.timed_out);
        for (int k = 0; k < i; k++) /* before, while and after it falls asleep */
            harness_nap();
        gate_open(&gated.gate);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
}

static bool too_deep; /* one worker */

static weft_poll nest(weft_task *self, void *state) {
    intptr_t depth = (intptr_t)state;
    weft_task *child = NULL;
    weft_result result = {0, NULL};
    if (depth == 0 || too_deep)
        return weft_done(self, 0, NULL);
    REQUIRE_EQ(weft_go(NULL, nest, (void *)(depth - 1), &child), 0);
    int error = weft_join(child, &result, WEFT_NEVER);
    too_deep = too_deep || error;
    weft_task_drop(child);
    return weft_done(self, error ? error : result.status, NULL);
}

/* Helping is nested on one stack, so it ends somewhere: with an error, not with an overflow. */
API_TEST(join_helping_too_deep, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(fixture_go(rt, nest, (void *)500)).status, 0);
    CHECK_EQ(fixture_finish(fixture_go(rt, nest, (void *)100000)).status, -EDEADLK);
    fixture_end(rt); /* the tasks that nobody joined any more have ended, too */
}

/* A task that runs on top of another must not wait for it. */
struct below {
    weft_task *task;
    int error;
};

static weft_poll join_below(weft_task *self, void *state) {
    struct below *below = state;
    below->error = weft_join(below->task, NULL, WEFT_NEVER);
    return weft_done(self, 0, NULL);
}

static weft_poll help_above(weft_task *self, void *state) {
    struct below *below = state;
    weft_task *above = NULL;
    REQUIRE_EQ(weft_go(NULL, join_below, below, &above), 0);
    CHECK_EQ(weft_join(above, NULL, WEFT_NEVER), 0);
    weft_task_drop(above);
    return weft_done(self, 0, NULL);
}

API_TEST(join_below_on_own_stack, "", .workers = {1}) {
    struct below below = {NULL, 0};
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, help_above, &below, &below.task), 0);
    REQUIRE_EVENTUALLY(weft_task_is_done(below.task)); /* no join from here: one waiter at a time */
    CHECK_EQ(below.error, -EDEADLK);
    weft_task_drop(below.task);
    fixture_end(rt);
}
