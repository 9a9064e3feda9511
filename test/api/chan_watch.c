/* chan_watch.c - a value that changes: who watches sees the newest, never an older one again. */
#include "chan.h"

TEST(watch_sees_the_newest, "R29") {
    weft_watch *w = NULL;
    int value = 10, got = 0;
    uint64_t version = 0;
    REQUIRE_EQ(weft_watch_create(sizeof value, &value, &w), 0);
    CHECK_EQ(weft_watch_get(w, &got), 1);
    CHECK_EQ(got, 10);
    CHECK_EQ(weft_watch_wait(w, &version, &got, WEFT_NEVER), 0); /* the first one */
    CHECK_EQ(version, 1);
    CHECK_EQ(weft_watch_wait(w, &version, &got, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_watch_wait(w, &version, &got, weft_after(1000)), -ETIMEDOUT);
    for (value = 11; value < 15; value++)
        CHECK_EQ(weft_watch_set(w, &value), 0);
    CHECK_EQ(weft_watch_wait(w, &version, &got, WEFT_NEVER), 0);
    CHECK_EQ(got, 14);
    CHECK_EQ(version, 5);
    CHECK_EQ(weft_watch_clone(w), w);
    weft_watch_drop(w);
    value = 20;
    CHECK_EQ(weft_watch_set(w, &value), 0);
    weft_watch_close(w);
    weft_watch_close(w);
    CHECK_EQ(weft_watch_set(w, &value), -EPIPE);
    CHECK_EQ(weft_watch_wait(w, &version, &got, WEFT_NEVER), 0); /* set before it was closed */
    CHECK_EQ(got, 20);
    CHECK_EQ(weft_watch_wait(w, &version, &got, WEFT_NEVER), -EPIPE);
    CHECK_EQ(weft_watch_get(w, &got), 6);
    weft_watch_drop(w);
    weft_watch_drop(NULL);
    REQUIRE_EQ(weft_watch_create(sizeof value, NULL, &w), 0);
    CHECK_EQ(weft_watch_get(w, &got), 1);
    CHECK_EQ(got, 0);
    weft_watch_drop(w);
    CHECK_EQ(weft_watch_create(WEFT_CHAN_VALUE_MAX + 1, NULL, &w), -EINVAL);
    REQUIRE_EQ(weft_watch_create(WEFT_CHAN_VALUE_MAX, NULL, &w), 0);
    weft_watch_drop(w);
}

struct watcher {
    weft_watch *watch;
    weft_wait wait;
    uint64_t version;
    int last;
};

static void seen(struct watcher *w, int value, uint64_t before) {
    REQUIRE_GT(value, w->last);
    REQUIRE_GT(w->version, before);
    REQUIRE_EQ(value, (int)w->version); /* they were set together */
    w->last = value;
}

static int watching(void *arg) {
    struct watcher *w = arg;
    for (;;) {
        int value;
        uint64_t before = w->version;
        int error = weft_watch_wait(w->watch, &w->version, &value, WEFT_NEVER);
        if (error == -EPIPE)
            return 0;
        REQUIRE_EQ(error, 0);
        seen(w, value, before);
    }
}

static weft_poll watching_poll(weft_task *self, void *state) {
    struct watcher *w = state;
    for (;;) {
        int value;
        uint64_t before = w->version;
        int error = weft_watch_wait_poll(w->watch, self, &w->wait, &w->version, &value);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        if (error == -EPIPE)
            return weft_done(self, 0, NULL);
        REQUIRE_EQ(error, 0);
        seen(w, value, before);
    }
}

static int change(void *arg) {
    for (int i = 2; i <= 500; i++) {
        REQUIRE_EQ(weft_watch_set(arg, &i), 0);
        if (i % 16 == 0)
            weft_yield();
    }
    return 0;
}

#define WATCHERS 30

API_TEST(watch_lost_wake, "R29 R30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_watch *watch = NULL;
    int one = 1;
    REQUIRE_EQ(weft_watch_create(sizeof one, &one, &watch), 0);
    static struct watcher watchers[WATCHERS];
    weft_task *tasks[WATCHERS];
    for (int i = 0; i < WATCHERS; i++) {
        watchers[i] = (struct watcher){.watch = watch};
        tasks[i] = i % 2 ? fiber_go(rt, watching, &watchers[i]) : fixture_go(rt, watching_poll, &watchers[i]);
    }
    fiber_run(rt, change, watch);
    weft_watch_close(watch);
    for (int i = 0; i < WATCHERS; i++) {
        fixture_finish(tasks[i]);
        CHECK_EQ(watchers[i].last, 500);
    }
    weft_watch_drop(watch);
    fixture_end(rt);
}

/* -- In a select --------------------------------------------------------------------------------------------- */

/* A crowd of which always some give up while the others are being told of a change: nobody is told of what he knows, nor misses anything. */
#define CROWD 60
#define CHANGES 400

struct crowd {
    weft_watch *watch;
    weft_broadcast *broadcast;
    atomic_uint begun;
};

static int of_the_crowd(void *arg) {
    struct crowd *crowd = arg;
    weft_subscriber *subscriber = NULL;
    REQUIRE_EQ(weft_subscribe(crowd->broadcast, &subscriber), 0);
    uint64_t version = 0, missed = 0, values = 0;
    int value = 0, heard = 0;
    bool watching = true, listening = true;
    atomic_fetch_add(&crowd->begun, 1);
    while (watching || listening) {
        weft_case cases[] = {weft_case_watch(crowd->watch, &version, &value),
                             weft_case_subscriber(subscriber, &heard, &missed)};
        if (!watching)
            cases[0].kind = NULL;
        if (!listening)
            cases[1].kind = NULL;
        int before = value, index = weft_select(cases, 2, hasty());
        if (index == -ETIMEDOUT)
            continue;
        REQUIRE(index == 0 || index == 1);
        if (cases[index].result == -EPIPE) {
            *(index ? &listening : &watching) = false;
        } else if (index == 0) {
            REQUIRE_EQ(cases[0].result, 0);
            REQUIRE(value > before || version == 1);
            REQUIRE_EQ(value, (int)version); /* they were set together */
        } else {
            REQUIRE_EQ(cases[1].result, 0);
            values += missed + 1;
            REQUIRE_EQ(heard, (int)values);
        }
    }
    CHECK_EQ(value, CHANGES + 1);
    CHECK_EQ(values, CHANGES);
    weft_unsubscribe(subscriber);
    return 0;
}

API_TEST(watch_crowd, "R28 R29", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct crowd crowd = {.begun = 0};
    int value = 1;
    REQUIRE_EQ(weft_watch_create(sizeof value, &value, &crowd.watch), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof value, 16, &crowd.broadcast), 0);
    weft_task *tasks[CROWD];
    for (int i = 0; i < CROWD; i++)
        tasks[i] = fiber_go(rt, of_the_crowd, &crowd);
    REQUIRE_EVENTUALLY(atomic_load(&crowd.begun) == CROWD);
    for (int i = 1; i <= CHANGES; i++) {
        value = i + 1;
        REQUIRE_EQ(weft_watch_set(crowd.watch, &value), 0);
        REQUIRE_EQ(weft_broadcast_send(crowd.broadcast, &i), 0);
        if (i % 4 == 0)
            harness_nap();
    }
    weft_watch_close(crowd.watch);
    weft_broadcast_close(crowd.broadcast);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(fixture_finish(tasks[i]).status, 0);
    weft_watch_drop(crowd.watch);
    weft_broadcast_drop(crowd.broadcast);
    fixture_end(rt);
}
