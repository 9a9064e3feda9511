/* cancel.c - ending tasks from outside, and the shield that puts it off. */
#include "fixture.h"

/* -- Cancelling --------------------------------------------------------------------------------------------- */

/* Cancelled while queued: never entered. */
API_TEST(cancel_queued, "J31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned workers = weft_runtime_workers(rt);
    struct blocker blocker[4] = {0};
    for (unsigned i = 0; i < workers; i++) {
        REQUIRE_EQ(weft_go(rt, fixture_block, &blocker[i], NULL), 0);
        REQUIRE_EVENTUALLY(blocker[i].entered);
    }
    enum { COUNT = 300 };
    static weft_task *task[COUNT];
    atomic_uint ran = 0;
    for (int i = 0; i < COUNT; i++)
        task[i] = fixture_go(rt, fixture_count, &ran);
    for (int i = 0; i < COUNT; i += 2) {
        CHECK(!weft_task_is_cancelled(task[i]));
        weft_task_cancel(task[i]);
        CHECK(weft_task_is_cancelled(task[i]));
        weft_task_cancel(task[i]); /* idempotent */
    }
    for (unsigned i = 0; i < workers; i++)
        blocker[i].release = true;
    for (int i = 0; i < COUNT; i++) {
        weft_result result = fixture_finish(task[i]);
        CHECK_EQ(result.status, i % 2 ? 0 : -ECANCELED);
        CHECK_EQ(result.value, NULL);
    }
    CHECK_EQ(ran, COUNT / 2);
    weft_stats stats = fixture_stats(rt);
    CHECK_EQ(stats.cancelled, COUNT / 2);
    CHECK_EQ(stats.polls, COUNT / 2 + workers); /* a cancelled task is not a poll */
    fixture_end(rt);
}

API_TEST(cancel_idle, "B48", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT;
    weft_task *task[100];
    for (int i = 0; i < 100; i++)
        task[i] = fixture_go(rt, fixture_wait_gate, &gate);
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 100);
    for (int i = 0; i < 100; i++)
        weft_task_cancel(task[i]); /* woken by it, so that it ends */
    for (int i = 0; i < 100; i++)
        CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    CHECK_EQ(fixture_stats(rt).polls, 100);
    gate_abandon(&gate);
    fixture_end(rt);
}

struct running {
    atomic_bool entered, release;
    weft_poll say;
    unsigned polls;
};

static weft_poll stay_inside(weft_task *self, void *state) {
    struct running *r = state;
    r->polls++;
    atomic_store(&r->entered, true);
    while (!atomic_load(&r->release))
        harness_nap();
    CHECK(weft_task_is_cancelled(self));
    return r->say == WEFT_READY ? weft_done(self, -3, r) : r->say;
}

/* A poll that is running finishes first.  If it ends the task, that was its end; otherwise it is not entered again. */
API_TEST(cancel_running, "B48", .workers = {1, 2}) {
    static const weft_poll say[] = {WEFT_PENDING, WEFT_YIELD, WEFT_READY};
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 3; i++) {
        struct running r = {.say = say[i]};
        weft_task *task = fixture_go(rt, stay_inside, &r);
        REQUIRE_EVENTUALLY(r.entered);
        weft_task_cancel(task);
        CHECK(!weft_task_is_done(task));
        r.release = true;
        weft_result result = fixture_finish(task);
        CHECK_EQ(result.status, say[i] == WEFT_READY ? -3 : -ECANCELED);
        CHECK_EQ(result.value, say[i] == WEFT_READY ? &r : NULL);
        CHECK_EQ(r.polls, 1);
    }
    fixture_end(rt);
}

static weft_poll cancel_itself(weft_task *self, void *state) {
    ++*(unsigned *)state;
    weft_task_cancel(self);
    return WEFT_PENDING;
}

API_TEST(cancel_itself, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned polls = 0;
    CHECK_EQ(fixture_finish(fixture_go(rt, cancel_itself, &polls)).status, -ECANCELED);
    CHECK_EQ(polls, 1);
    fixture_end(rt);
}

API_TEST(cancel_complete, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    weft_task *task = fixture_go(rt, fixture_count, &ran);
    REQUIRE_EQ(weft_join(task, NULL, fixture_soon()), 0);
    weft_task_cancel(task);
    CHECK(!weft_task_is_cancelled(task));
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(fixture_stats(rt).cancelled, 0);
    fixture_end(rt);
}

static weft_poll yield_some(weft_task *self, void *state) {
    unsigned *left = state;
    return (*left)-- ? WEFT_YIELD : weft_done(self, 0, state);
}

/* A cancel that races the end: one of the two results, one drop, no hang. */
API_TEST(cancel_races_end, "B48", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned cancelled = 0;
    uint64_t random = harness_seed();
    for (int i = 0; i < 1000; i++) {
        unsigned left = (unsigned)(harness_random(&random) % 50);
        weft_task *task = fixture_go(rt, yield_some, &left);
        for (uint64_t spin = harness_random(&random) % 2000; spin; spin--)
            atomic_signal_fence(memory_order_seq_cst);
        weft_task_cancel(task);
        weft_result result = fixture_finish(task);
        REQUIRE(result.status == 0 || result.status == -ECANCELED);
        REQUIRE_EQ(result.value, result.status ? NULL : (void *)&left);
        cancelled += result.status != 0;
    }
    weft_stats stats = fixture_stats(rt);
    CHECK_EQ(stats.completed, 1000);
    CHECK_EQ(stats.cancelled, cancelled);
    fixture_end(rt);
}

struct target {
    weft_task *task;
    weft_waker waker;
    atomic_bool ready;
};

static weft_poll keep_waker(weft_task *self, void *state) {
    struct target *t = state;
    if (!t->waker.target)
        t->waker = weft_waker_of(self);
    atomic_store(&t->ready, true);
    return WEFT_PENDING;
}

static void cancel_or_wake(unsigned index, void *arg) {
    struct target *t = arg;
    for (int i = 0; i < 20; i++)
        index ? weft_waker_wake_keep(t->waker) : weft_task_cancel(t->task);
}

/* Cancels and wakes from several threads: it ends once. */
API_TEST(cancel_beside_wakes, "B48 B49", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 50; i++) {
        struct target target = {NULL, {NULL}, false};
        target.task = fixture_go(rt, keep_waker, &target);
        REQUIRE_EVENTUALLY(target.ready && strcmp(weft_task_state(target.task), "idle") == 0);
        harness_threads(3, cancel_or_wake, &target);
        CHECK_EQ(fixture_finish(target.task).status, -ECANCELED);
        weft_waker_drop(target.waker);
    }
    CHECK_EQ(fixture_stats(rt).completed, 50);
    fixture_end(rt);
}

/* A task of another worker, or the joiner of a cancelled task, gets the news. */
static weft_poll cancel_child(weft_task *self, void *state) {
    weft_task **child = state;
    if (!*child) {
        REQUIRE_EQ(weft_go(NULL, fixture_yield_for_ever, NULL, child), 0);
        return WEFT_YIELD;
    }
    weft_result result = {0, NULL};
    weft_task_cancel(*child);
    if (weft_join_poll(*child, self, &result) == -EAGAIN)
        return WEFT_PENDING;
    weft_task_drop(*child);
    return weft_done(self, result.status, NULL);
}

API_TEST(cancel_child, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 100; i++) {
        weft_task *child = NULL;
        CHECK_EQ(fixture_finish(fixture_go(rt, cancel_child, &child)).status, -ECANCELED);
    }
    fixture_end(rt);
}

/* -- Shields ------------------------------------------------------------------------------------------------ */

struct shielded {
    struct gate gate;
    atomic_uint polls;
    int depth;
};

/* Shielded it goes on although cancelled; without, it is not entered again. */
static weft_poll work_shielded(weft_task *self, void *state) {
    struct shielded *s = state;
    if (atomic_fetch_add(&s->polls, 1) == 0)
        for (int i = 0; i < s->depth; i++)
            REQUIRE_EQ(weft_shield(self), 0);
    if (!gate_pass(&s->gate, self))
        return WEFT_PENDING;
    for (; s->depth; s->depth--) {
        CHECK(!weft_task_is_cancelled(self)); /* not in effect */
        REQUIRE_EQ(weft_unshield(self), 0);
    }
    CHECK(weft_task_is_cancelled(self)); /* back at 0 it is */
    return WEFT_PENDING;
}

API_TEST(cancel_shielded, "B56", .workers = {1, 2, 4}) {
    static const int depths[] = {1, 2, 255};
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 3; i++) {
        struct shielded s = {.gate = GATE_INIT, .depth = depths[i]};
        weft_task *task = fixture_go(rt, work_shielded, &s);
        REQUIRE_EVENTUALLY(gate_waiting(&s.gate) == 1);
        weft_task_cancel(task);
        CHECK(!weft_task_is_cancelled(task));
        CHECK_EQ(weft_join(task, NULL, weft_after(1000000)), -ETIMEDOUT);
        gate_open(&s.gate);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(s.polls, 2);
        CHECK_EQ(s.depth, 0);
    }
    fixture_end(rt);
}

static weft_poll finish_under_shield(weft_task *self, void *state) {
    unsigned *polls = state;
    if (++*polls == 1) {
        REQUIRE_EQ(weft_shield(self), 0);
        weft_task_cancel(self);
    }
    return *polls < 10 ? WEFT_YIELD : weft_done(self, 0, state); /* it may also end under its shield */
}

API_TEST(cancel_ends_under_shield, "B56", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned polls = 0;
    weft_result result = fixture_finish(fixture_go(rt, finish_under_shield, &polls));
    CHECK_EQ(result.status, 0);
    CHECK_EQ(result.value, &polls);
    CHECK_EQ(polls, 10);
    fixture_end(rt);
}

static weft_poll shield_limits(weft_task *self, void *state) {
    (void)state;
    CHECK_EQ(weft_unshield(self), -EINVAL);
    CHECK_EQ(weft_shield(NULL), -EINVAL); /* weft_task_self() of a plain thread */
    CHECK_EQ(weft_unshield(NULL), -EINVAL);
    CHECK_EQ(weft_shield_until(NULL, WEFT_NEVER), -EINVAL);
    for (int i = 0; i < 255; i++)
        REQUIRE_EQ(weft_shield(self), 0);
    CHECK_EQ(weft_shield(self), -EOVERFLOW);
    CHECK_EQ(weft_shield(self), -EOVERFLOW);
    for (int i = 0; i < 255; i++)
        REQUIRE_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_unshield(self), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(cancel_shield_limits, "B47 B56") {
    weft_runtime *rt = fixture_begin(NULL);
    fixture_finish(fixture_go(rt, shield_limits, NULL));
    fixture_end(rt);
}

/* -- Cancel at every suspension ------------------------------------------------------------------------------ */

struct steps {
    unsigned polls, drops, cancel_at, length;
};

static void step_dropped(void *state) { (*(struct steps **)state)->drops++; }

static weft_poll step(weft_task *self, void *state) {
    struct steps *s = *(struct steps **)state;
    if (s->polls == s->cancel_at)
        weft_task_cancel(self);
    return ++s->polls < s->length ? WEFT_YIELD : weft_done(self, 0, NULL);
}

API_TEST(cancel_at_every_point, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (unsigned at = 0; at <= 20; at++) {
        struct steps steps = {.cancel_at = at, .length = 20}, *p = &steps;
        weft_spec spec = WEFT_SPEC_INIT;
        weft_task *task = NULL;
        spec.poll = step;
        spec.state = &p;
        spec.state_size = sizeof p;
        spec.drop = step_dropped;
        REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
        CHECK_EQ(fixture_finish(task).status, at + 1 < 20 ? -ECANCELED : 0);
        CHECK_EQ(steps.polls, at + 1 < 20 ? at + 1 : 20);
        CHECK_EQ(steps.drops, 1);
    }
    fixture_end(rt);
}
