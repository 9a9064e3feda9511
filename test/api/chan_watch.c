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
