/* wake.c - wakers: one poll for any number of wakes, none lost, none after the end. */
#include "fixture.h"

/* A task that counts its polls and ends when told to. */
struct counted {
    atomic_uint polls;
    atomic_bool end;
    pthread_mutex_t lock;
    weft_waker waker; /* made in the first poll, kept */
};
#define COUNTED_INIT {.lock = PTHREAD_MUTEX_INITIALIZER}

static weft_poll count_polls(weft_task *self, void *state) {
    struct counted *counted = state;
    pthread_mutex_lock(&counted->lock);
    if (!counted->waker.target)
        counted->waker = weft_waker_of(self);
    pthread_mutex_unlock(&counted->lock);
    bool end = atomic_load(&counted->end);
    atomic_fetch_add(&counted->polls, 1);
    return end ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static void until_idle(weft_task *task) { REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0); }

static void end_counted(weft_task *task, struct counted *counted) {
    atomic_store(&counted->end, true);
    weft_waker_wake(counted->waker);
    fixture_finish(task);
}

API_TEST(wake_idle_polls_once, "B49", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct counted counted = COUNTED_INIT;
    weft_task *task = fixture_go(rt, count_polls, &counted);
    for (unsigned i = 1; i <= 200; i++) {
        REQUIRE_EVENTUALLY(counted.polls >= i);
        until_idle(task);
        REQUIRE_EQ(counted.polls, i);
        weft_waker_wake_keep(counted.waker);
    }
    end_counted(task, &counted);
    CHECK_LE(counted.polls, 202);
    fixture_end(rt);
}

static weft_poll wake_during_poll(weft_task *self, void *state) {
    unsigned *polls = state;
    if (++*polls == 10)
        return weft_done(self, 0, NULL);
    weft_waker waker = weft_waker_of(self);
    for (int i = 0; i < 5; i++)
        weft_waker_wake_keep(waker);
    weft_waker_wake(waker);
    return WEFT_PENDING; /* woken six times: once more */
}

API_TEST(wake_running_polls_once_more, "B50 B51", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned polls = 0;
    fixture_finish(fixture_go(rt, wake_during_poll, &polls));
    CHECK_EQ(polls, 10);
    CHECK_EQ(fixture_stats(rt).polls, 10);
    fixture_end(rt);
}

/* With every worker busy, any number of wakes makes one queue entry. */
API_TEST(wake_scheduled_polls_once, "B50", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct counted counted = COUNTED_INIT;
    weft_task *task = fixture_go(rt, count_polls, &counted);
    REQUIRE_EVENTUALLY(counted.polls == 1);
    until_idle(task);
    unsigned workers = weft_runtime_workers(rt);
    struct blocker blocker[4] = {0};
    for (unsigned i = 0; i < workers; i++) {
        REQUIRE_EQ(weft_go(rt, fixture_block, &blocker[i], NULL), 0);
        REQUIRE_EVENTUALLY(blocker[i].entered);
    }
    for (int i = 0; i < 100; i++)
        weft_waker_wake_keep(counted.waker);
    CHECK_STR(weft_task_state(task), "scheduled");
    for (unsigned i = 0; i < workers; i++)
        blocker[i].release = true;
    REQUIRE_EVENTUALLY(counted.polls == 2);
    until_idle(task);
    CHECK_EQ(counted.polls, 2);
    CHECK_EQ(fixture_stats(rt).polls, 2 + workers);
    end_counted(task, &counted);
    fixture_end(rt);
}

API_TEST(wake_complete_is_nothing, "B53 W38", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct counted counted = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = true};
    weft_task *task = fixture_go(rt, count_polls, &counted);
    REQUIRE_EQ(weft_join(task, NULL, fixture_soon()), 0);
    for (int i = 0; i < 10; i++)
        weft_waker_wake_keep(counted.waker);
    weft_task_drop(task); /* the waker alone keeps it now */
    weft_waker clone = weft_waker_clone(counted.waker);
    weft_waker_wake(counted.waker);
    weft_waker_wake(clone);
    fixture_end(rt);
    CHECK_EQ(counted.polls, 1);
}

/* A stale waker does not reach the task that lives in the same memory next. */
API_TEST(wake_stale_misses_reused_memory, "B53 B54 W38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 50; i++) {
        struct counted old = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = true}, new = COUNTED_INIT;
        fixture_finish(fixture_go(rt, count_polls, &old)); /* ended, and its waker still held */
        weft_task *task = fixture_go(rt, count_polls, &new);
        REQUIRE_EVENTUALLY(new.polls == 1);
        until_idle(task);
        weft_waker_wake(old.waker);
        CHECK_STR(weft_task_state(task), "idle");
        end_counted(task, &new);
        CHECK_EQ(new.polls, 2);
    }
    fixture_end(rt);
}

API_TEST(wake_empty_waker, "") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_waker none = {NULL};
    weft_waker_wake(none);
    weft_waker_wake_keep(none);
    weft_waker_drop(none);
    CHECK_EQ(weft_waker_clone(none).target, NULL);
    fixture_end(rt);
}

/* Wakers of a task that was cancelled or is gone may still be used and dropped, in any order. */
API_TEST(wake_after_cancel, "B53 B54", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 100; i++) {
        struct counted counted = COUNTED_INIT;
        weft_task *task = fixture_go(rt, count_polls, &counted);
        REQUIRE_EVENTUALLY(counted.polls == 1);
        weft_waker clone[3];
        for (int k = 0; k < 3; k++)
            clone[k] = weft_waker_clone(counted.waker);
        weft_task_cancel(task);
        weft_waker_wake(clone[0]); /* races the end */
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        weft_waker_wake_keep(clone[1]);
        weft_waker_drop(counted.waker);
        weft_waker_drop(clone[2]);
        weft_waker_wake(clone[1]);
        CHECK_EQ(counted.polls, 1);
    }
    fixture_end(rt);
}

/* -- Many wakers at once --------------------------------------------------------------------------------- */

struct storm {
    struct counted counted;
    atomic_uint written, seen, wakes;
    unsigned each;
};

static weft_poll see_written(weft_task *self, void *state) {
    struct storm *storm = state;
    atomic_store(&storm->seen, atomic_load(&storm->written));
    return count_polls(self, &storm->counted);
}

static void write_and_wake(unsigned index, void *arg) {
    struct storm *storm = arg;
    (void)index;
    for (unsigned i = 0; i < storm->each; i++) {
        atomic_fetch_add(&storm->written, 1);
        weft_waker_wake_keep(storm->counted.waker);
        atomic_fetch_add(&storm->wakes, 1);
    }
}

/* Whatever was written before a wake is seen by a poll, without further stimulus; no wake makes two polls. */
API_TEST(wake_storm, "B49 B50 B51 B52", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct storm storm = {.counted = COUNTED_INIT};
    storm.each = fixture_is_slow() ? 1000 : 10000;
    weft_task *task = fixture_go(rt, see_written, &storm);
    REQUIRE_EVENTUALLY(storm.counted.polls == 1);
    harness_threads(4, write_and_wake, &storm);
    REQUIRE_EVENTUALLY(storm.seen == 4 * storm.each);
    until_idle(task);
    CHECK_LE(storm.counted.polls, 1 + 4 * storm.each);
    end_counted(task, &storm.counted);
    fixture_end(rt);
}
