/* sync_poll.c - the poll forms when there is nothing to wait for, when asked again, and when asked in the wrong place. */
#include <weft/chan.h>
#include <weft/nursery.h>

#include "sync.h"

static weft_once once;
static unsigned ran;

/* In the function that runs once: it is under way, and its own task can only wait for ever. */
static void under_way(void *self) {
    weft_wait wait = {{0}};
    ran++;
    CHECK_EQ(weft_once_run_poll(&once, under_way, self, self, &wait), -EDEADLK);
    CHECK_EQ(weft_once_destroy(&once), -EBUSY);
    CHECK_EQ(weft_once_destroy(&once), -EBUSY); /* the first has let go of it */
}

static weft_poll at_once(weft_task *self, void *state) {
    weft_wait wait = {{0}};
    weft_event event;
    weft_group group;
    weft_barrier barrier = WEFT_BARRIER_INIT(0), alone = WEFT_BARRIER_INIT(1);
    (void)state;
    weft_event_init(&event);
    CHECK_EQ(weft_event_set(&event), 0);
    CHECK_EQ(weft_event_wait_poll(&event, self, &wait), 0);
    weft_group_init(&group);
    CHECK_EQ(weft_group_wait_poll(&group, self, &wait), 0);
    CHECK_EQ(weft_barrier_wait_poll(&alone, self, &wait), 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_barrier_wait_poll(&barrier, self, &wait), -EINVAL); /* one of nobody */
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_once_run_poll(&once, under_way, self, self, &wait), 0);
    CHECK_EQ(ran, 1);
    CHECK(weft_once_is_done(&once));
    CHECK_EQ(weft_join_poll(NULL, self, NULL), -EINVAL);
    CHECK_EQ(weft_join_poll(self, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_join_poll(self, self, NULL), -EDEADLK);
    return weft_done(self, 0, NULL);
}

API_TEST(poll_at_once, "B52", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_once_init(&once);
    CHECK_EQ(fixture_finish(fixture_go(rt, at_once, NULL)).status, 0);
    CHECK_EQ(weft_once_destroy(&once), 0);
    fixture_end(rt);
}

/* -- Woken for no reason, and asks again: it keeps its place, and those behind it theirs ---------------------- */

struct watcher {
    weft_watch *watch;
    weft_wait wait;
    weft_waker waker;
    uint64_t version;
    int value;
    atomic_int asked;
};

static weft_poll ask_again(weft_task *self, void *state) {
    struct watcher *w = state;
    int said = weft_watch_wait_poll(w->watch, self, &w->wait, &w->version, &w->value);
    if (said != -EAGAIN)
        return weft_done(self, said, NULL);
    if (atomic_load(&w->asked) == 0)
        w->waker = weft_waker_of(self);
    atomic_fetch_add(&w->asked, 1);
    return WEFT_PENDING;
}

API_TEST(poll_asked_again, "R29", .workers = {1, 2}) {
    enum { WATCHERS = 3 };
    weft_runtime *rt = fixture_begin_patient();
    static struct watcher watcher[WATCHERS];
    weft_task *task[WATCHERS];
    weft_watch *watch;
    int value = 7;
    REQUIRE_EQ(weft_watch_create(sizeof value, NULL, &watch), 0);
    for (int i = 0; i < WATCHERS; i++) {
        watcher[i] = (struct watcher){.watch = watch, .version = 1};
        task[i] = fixture_go(rt, ask_again, &watcher[i]);
        REQUIRE_EVENTUALLY(atomic_load(&watcher[i].asked) == 1);
    }
    weft_waker_wake(watcher[0].waker);
    REQUIRE_EVENTUALLY(atomic_load(&watcher[0].asked) == 2);
    CHECK_EQ(weft_watch_set(watch, &value), 0);
    for (int i = 0; i < WATCHERS; i++) {
        CHECK_EQ(fixture_finish(task[i]).status, 0);
        CHECK_EQ(watcher[i].value, 7);
        if (i)
            weft_waker_drop(watcher[i].waker);
    }
    weft_watch_drop(watch);
    fixture_end(rt);
}

/* -- A nursery whose owner waits for it in two places, and gives it up without ending the wait --------------- */

static int until_cancelled(void *arg) {
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

static weft_poll give_up(weft_task *self, void *state) {
    weft_wait first = {{0}}, second = {{0}};
    weft_nursery *n;
    int result;
    (void)state;
    REQUIRE_EQ(weft_nursery_create(NULL, NULL, &n), 0);
    REQUIRE_EQ(weft_nursery_go(n, until_cancelled, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_await_poll(n, self, &first, &result), -EAGAIN);
    CHECK_EQ(weft_nursery_await_poll(n, self, &first, &result), -EAGAIN);
    CHECK_EQ(weft_nursery_await_poll(n, self, &second, &result), -EBUSY);
    CHECK_EQ(weft_nursery_destroy(n), 0);
    weft_wait_end(&first); /* nobody knows of it any more */
    weft_wait_end(&second);
    return weft_done(self, 0, NULL);
}

API_TEST(poll_gives_up_nursery, "J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(fixture_go(rt, give_up, NULL)).status, 0);
    fixture_end(rt); /* its child has ended too */
}
