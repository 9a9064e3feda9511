/* debug.c - a handle or waker that is used after it was dropped ends the process and names its task: in debug builds everywhere, in others
 * where it costs nothing. */
#include "fixture.h"

static weft_poll just_ready(weft_task *self, void *state) { return weft_done(self, 0, state); }

static weft_poll leave_waker(weft_task *self, void *state) {
    *(weft_waker *)state = weft_waker_of(self);
    return weft_done(self, 0, NULL);
}

/* A task called "ghost" that is over; its handle has been dropped. */
static weft_task *ghost(weft_waker *waker) {
    static weft_waker unused;
    weft_spec spec = WEFT_SPEC_INIT;
    weft_runtime *rt = NULL;
    weft_task *task = NULL;
    REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
    spec.poll = waker ? leave_waker : just_ready;
    spec.state = waker ? waker : &unused;
    spec.name = "ghost";
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(weft_task_is_done(task)); /* not a join: then the worker might still hold it for a moment */
    weft_task_drop(task);
    return task;
}

static void drop_twice(void *arg) { weft_task_drop(ghost(arg)); }
static void join_dropped(void *arg) { CHECK(weft_join(ghost(arg), NULL, weft_after(1000000))); }

API_TEST(misuse_names_dropped_handle, "", .workers = {1}) {
    REQUIRE_ABORTS(drop_twice, NULL, "weft_task_drop: handle of task \"ghost\" used after it was dropped");
    REQUIRE_ABORTS(join_dropped, NULL, "weft_join: handle of task \"ghost\" used after it was dropped");
}

/* Also while the task goes on: dropping a handle is not the end of the task, but of the handle. */
static weft_task *let_go(void *state) {
    weft_spec spec = WEFT_SPEC_INIT;
    weft_runtime *rt = NULL;
    weft_task *task = NULL;
    REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
    spec.poll = fixture_yield_for_ever;
    spec.state = state;
    spec.name = "alive";
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    weft_task_drop(task);
    return task;
}

static void drop_alive_twice(void *arg) { weft_task_drop(let_go(arg)); }
static void join_alive_dropped(void *arg) { CHECK(weft_join(let_go(arg), NULL, weft_after(1000000))); }

API_TEST(misuse_names_dropped_handle_of_living_task, "", .workers = {1}) {
    REQUIRE_ABORTS(drop_alive_twice, NULL, "weft_task_drop: handle of task \"alive\" used after it was dropped");
    REQUIRE_ABORTS(join_alive_dropped, NULL, "weft_join: handle of task \"alive\" used after it was dropped");
}

#ifdef WEFTI_DEBUG

static void cancel_dropped(void *arg) { weft_task_cancel(ghost(arg)); }
static void ask_dropped(void *arg) { CHECK(!weft_task_is_done(ghost(arg))); }
static void ask_cancelled(void *arg) { CHECK(!weft_task_is_cancelled(ghost(arg))); }
static void state_of_dropped(void *arg) { CHECK(!weft_task_state(ghost(arg))); }

static void wake_spent(void *arg) {
    weft_waker waker = {NULL};
    (void)arg;
    ghost(&waker);
    weft_waker_drop(waker);
    weft_waker_wake(waker);
}

static void clone_spent(void *arg) {
    weft_waker waker = {NULL};
    (void)arg;
    ghost(&waker);
    weft_waker_wake(waker);
    waker = weft_waker_clone(waker);
}

API_TEST(debug_names_dropped_handle, "", .workers = {1}) {
    REQUIRE_ABORTS(cancel_dropped, NULL, "weft_task_cancel: handle of task \"ghost\"");
    REQUIRE_ABORTS(ask_dropped, NULL, "weft_task_is_done: handle of task \"ghost\"");
    REQUIRE_ABORTS(ask_cancelled, NULL, "weft_task_is_cancelled: handle of task \"ghost\"");
    REQUIRE_ABORTS(state_of_dropped, NULL, "weft_task_state: handle of task \"ghost\"");
}

API_TEST(debug_names_spent_waker, "", .workers = {1}) {
    REQUIRE_ABORTS(wake_spent, NULL, "weft_waker_wake: handle of task \"ghost\"");
    REQUIRE_ABORTS(clone_spent, NULL, "weft_waker_clone: handle of task \"ghost\"");
}

#else

TEST(debug_names_dropped_handle, "") { SKIP("not a debug build"); }

#endif
