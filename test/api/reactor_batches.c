/* reactor_batches.c - the reactor hands short tasks to a worker several at a time, and nobody waits for another in a batch. */
#include <errno.h>

#include "fixture.h"

#define ON_REACTOR .sched = "reactor"
#define DEPTH 14

static weft_reactor_stats figures(weft_runtime *rt) {
    weft_reactor_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_reactor_stats_read(rt, &stats), 0);
    return stats;
}

/* A binary tree of tasks. */
static atomic_uint visited;

static weft_poll visit(weft_task *self, void *state) {
    intptr_t depth = (intptr_t)state;
    for (int i = 0; i < 2 && depth > 0; i++)
        REQUIRE_EQ(weft_go(NULL, visit, (void *)(depth - 1), NULL), 0);
    return fixture_count(self, &visited);
}

/* Afterwards the reactor knows that polls are short. */
static void search(weft_runtime *rt) {
    visited = 0;
    REQUIRE_EQ(weft_go(rt, visit, (void *)DEPTH, NULL), 0);
    REQUIRE_EVENTUALLY(visited == (2u << DEPTH) - 1 && weft_stats_live(rt) == 0);
}

/* One at a time, each task takes a round of the control thread. */
API_TEST(reactor_batches_short_tasks, "R11 R25", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    search(rt);
    weft_reactor_stats stats = figures(rt);
    printf("%u tasks in %llu rounds, %llu taken back\n", visited, (unsigned long long)stats.steps[0],
           (unsigned long long)stats.taken_back);
    CHECK_EQ(stats.dispatched - stats.taken_back, visited);
    CHECK_LE(stats.active_max, weft_runtime_workers(rt));
    if (!harness_is_slow()) /* with a sanitizer tasks are not short */
        CHECK_LT(stats.steps[0], visited / 2);
    fixture_end(rt);
}

/* Both workers are in a task, so that what is spawned now is handed out together. */
struct hold {
    struct blocker blocker[2];
    weft_task *task[2];
};

static void hold_both(weft_runtime *rt, struct hold *hold) {
    for (int i = 0; i < 2; i++)
        hold->task[i] = fixture_go(rt, fixture_block, &hold->blocker[i]);
    REQUIRE_EVENTUALLY(hold->blocker[0].entered && hold->blocker[1].entered);
}

static void let_go(struct hold *hold) {
    hold->blocker[0].release = hold->blocker[1].release = true;
    for (int i = 0; i < 2; i++)
        fixture_finish(hold->task[i]);
}

/* A long task among short ones, at any place: all others run while it does. */
API_TEST(reactor_batches_a_long_one, "R11", ON_REACTOR, .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    search(rt);
    for (int place = 0; place < 12; place++) {
        struct hold hold = {0};
        struct blocker blocker = {0};
        atomic_uint ran = 0;
        weft_task *task = NULL;
        hold_both(rt, &hold);
        for (int i = 0; i < 12; i++)
            if (i == place)
                task = fixture_go(rt, fixture_block, &blocker);
            else
                REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        let_go(&hold);
        REQUIRE_EVENTUALLY(ran == 11);
        blocker.release = true;
        fixture_finish(task);
    }
    printf("%llu taken back\n", (unsigned long long)figures(rt).taken_back);
    fixture_end(rt);
}

/* A joined task ends, a timer is set, and then a long task of the same batch begins: who waits for them goes on meanwhile. */
struct late {
    weft_task *child;
    weft_wait wait;
    weft_deadline until;
    atomic_uint *done;
};

static weft_poll join_child(weft_task *self, void *state) {
    struct late *late = state;
    weft_result result;
    if (weft_join_poll(late->child, self, &result) == -EAGAIN)
        return WEFT_PENDING;
    return fixture_count(self, late->done);
}

static weft_poll sleep_shortly(weft_task *self, void *state) {
    struct late *late = state;
    if (!late->until)
        late->until = weft_after(1000000);
    if (weft_sleep_poll(self, &late->wait, late->until) == -EAGAIN)
        return WEFT_PENDING;
    return fixture_count(self, late->done);
}

API_TEST(reactor_batches_results, "R13 R15", ON_REACTOR, .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    search(rt);
    for (int round = 0; round < 10; round++) {
        struct hold hold = {0};
        struct blocker blocker = {0};
        atomic_uint children = 0, done = 0;
        struct late late[8] = {0};
        for (int i = 0; i < 8; i++)
            late[i].done = &done;
        hold_both(rt, &hold);
        for (int i = 0; i < 4; i++)
            REQUIRE_EQ(weft_go(rt, sleep_shortly, &late[4 + i], NULL), 0);
        for (int i = 0; i < 4; i++) {
            late[i].child = fixture_go(rt, fixture_count, &children);
            REQUIRE_EQ(weft_go(rt, join_child, &late[i], NULL), 0);
        }
        weft_task *task = fixture_go(rt, fixture_block, &blocker);
        let_go(&hold);
        REQUIRE_EVENTUALLY(done == 8);
        blocker.release = true;
        fixture_finish(task);
        for (int i = 0; i < 4; i++)
            weft_task_drop(late[i].child);
    }
    fixture_end(rt);
}

/* What a long task spawns runs on another worker while it is in its poll. */
static weft_poll spawn_and_stay(weft_task *self, void *state) {
    struct late *late = state;
    for (int i = 0; i < 10; i++) {
        unsigned before = atomic_load(late->done);
        REQUIRE_EQ(weft_go(NULL, fixture_count, late->done, NULL), 0);
        while (atomic_load(late->done) == before)
            harness_nap();
    }
    return weft_done(self, 0, NULL);
}

API_TEST(reactor_spawn_from_a_long_one, "R9 R35", ON_REACTOR, .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    search(rt);
    atomic_uint done = 0;
    struct late late = {.done = &done};
    fixture_finish(fixture_go(rt, spawn_and_stay, &late));
    CHECK_EQ(done, 10);
    fixture_end(rt);
}
