/* sync_event.c - the event: set, clear and wait. */
#include "sync.h"

static weft_event *event;

static void begin(void) {
    event = wefti_alloc(sizeof *event);
    weft_event_init(event);
}

static void end(void) {
    mc_assert(weft_event_destroy(event) == 0);
    wefti_free(event, sizeof *event);
}

static void set(void *unused) {
    (void)unused;
    data = 1;
    store_relaxed(&faint, 1); /* only the event makes it visible */
    mc_assert(weft_event_set(event) == 0);
}

static void waiter(void *unused) {
    (void)unused;
    mc_assert(weft_event_wait(event, WEFT_NEVER) == 0);
    mc_assert(load_relaxed(&faint) == 1 && data == 1);
}

MC_TEST(sync_event_set, .proves = "B52", .bound = 3) {
    begin();
    int a = mc_spawn(waiter, NULL);
    set(NULL);
    mc_join(a);
    end();
}

MC_TEST(sync_event_two_wait, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin();
    int a = mc_spawn(waiter, NULL), b = mc_spawn(waiter, NULL);
    set(NULL);
    mc_join(a), mc_join(b);
    end();
}

/* A set that is cleared at once: who was in the list goes on; a clear never loses what was set before. */
static void clearer(void *unused) {
    (void)unused;
    if (weft_event_clear(event) == 1)
        mc_assert(load_relaxed(&faint) == 1 && data == 1);
}

MC_TEST(sync_event_clear, .proves = "B52", .bound = 3) {
    begin();
    int a = mc_spawn(clearer, NULL);
    set(NULL);
    mc_join(a);
    end();
}

/* Set twice, by two: the clear that undoes both sees what both wrote. */
static int wrote[2];

static void setter(void *i) {
    wrote[(intptr_t)i] = 1;
    mc_assert(weft_event_set(event) == 0);
    add_relaxed(&count, 1);
}

MC_TEST(sync_event_two_sets, .proves = "B52", .bound = 2, .seconds = 4) {
    begin();
    int a = mc_spawn(setter, (void *)0), b = mc_spawn(setter, (void *)1);
    while (load_relaxed(&count) != 2)
        wefti_relax();
    mc_assert(weft_event_clear(event) == 1);
    mc_assert(wrote[0] + wrote[1] == 2);
    mc_join(a), mc_join(b);
    end();
}

MC_TEST(sync_event_set_clear_wait, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin();
    int a = mc_spawn(waiter, NULL);
    until_waits(&event->room);
    int b = mc_spawn(clearer, NULL);
    set(NULL); /* it was in the list: it goes on, whatever b does */
    mc_join(a), mc_join(b);
    end();
}

static void late_waiter(void *unused) {
    (void)unused;
    int error = weft_event_wait(event, SOON);
    mc_assert(error == -ETIMEDOUT || (error == 0 && load_relaxed(&faint) == 1));
}

/* A clear while a set is under way, and one who comes after it: he waits for the next set. */
static void clear_and_wait(void *unused) {
    (void)unused;
    if (weft_event_clear(event) == 1 && weft_event_wait(event, SOON) == 0)
        mc_assert(load_relaxed(&count) == 1);
}

MC_TEST(sync_event_turns, .proves = "B52", .mode = MC_PCT, .depth = 4, .idle_timeouts = 3, .max_exec = 20000) {
    begin();
    int a = mc_spawn(late_waiter, NULL), b = mc_spawn(late_waiter, NULL);
    until_waits(&event->room);
    int c = mc_spawn(clear_and_wait, NULL);
    set(NULL);
    mc_join(a), mc_join(b);
    store_relaxed(&count, 1); /* published by the set */
    mc_assert(weft_event_set(event) == 0);
    mc_join(c);
    end();
}

/* The bit goes away between a look at it and the lock: then a set that the clear undoes was made without the lock. */
static int undone, saw;

static void clear_and_look(void *unused) {
    (void)unused;
    undone = weft_event_clear(event);
    saw = load_relaxed(&count);
}

MC_TEST(sync_event_bit_gone, .proves = "B52", .bound = 2, .idle_timeouts = 1, .stale_counts = true, .seconds = 3) {
    begin();
    int a = mc_spawn(late_waiter, NULL);
    until_waits(&event->room);
    int b = mc_spawn(clear_and_look, NULL);
    set(NULL);
    int first = weft_event_clear(event);
    store_relaxed(&count, 1); /* only the event makes it visible */
    mc_assert(weft_event_set(event) == 0);
    mc_join(a), mc_join(b);
    mc_assert(!(first && undone) || saw == 1);
    end();
}

/* -- One gives up against the set; served, the last one frees it. */

MC_TEST(sync_event_timeout, .proves = "B52", .bound = 3, .timeouts = 1) {
    begin();
    int a = mc_spawn(late_waiter, NULL);
    set(NULL);
    mc_join(a);
    mc_assert(weft_event_wait(event, WEFT_NOW) == 0);
    end();
}

/* Whoever sets it may free it, also when the one who waits is just giving up. */
static void late_or_set(void *unused) {
    (void)unused;
    int error = weft_event_wait(event, SOON);
    mc_assert(error == 0 || error == -ETIMEDOUT);
}

MC_TEST(sync_event_freed_late, .proves = "B52", .mode = MC_PCT, .depth = 4, .timeouts = 1, .max_exec = 20000) {
    begin();
    int a = mc_spawn(late_or_set, NULL);
    while (!load_acquire(&wefti_sync_of(&event->room)->word)) /* it is in the list */
        wefti_relax();
    set(NULL);
    int error = weft_event_destroy(event);
    mc_assert(error == 0 || error == -EBUSY);
    if (!error)
        wefti_free(event, sizeof *event);
    mc_join(a);
    if (error)
        end();
}

static void waiter_frees(void *unused) {
    (void)unused;
    mc_assert(weft_event_wait(event, WEFT_NEVER) == 0);
    if (add_acq_rel(&count, 1) == 2)
        end();
}

MC_TEST(sync_event_freed, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    begin();
    int a = mc_spawn(waiter_frees, NULL), b = mc_spawn(waiter_frees, NULL), c = mc_spawn(waiter_frees, NULL);
    set(NULL);
    mc_join(a), mc_join(b), mc_join(c);
}

MC_TEST(sync_event_freed_one, .proves = "B52", .bound = 3) {
    begin();
    store_relaxed(&count, 2); /* before the threads */
    int a = mc_spawn(waiter_frees, NULL);
    set(NULL);
    mc_join(a);
}

/* -- Cancelled */

static int poll_waits(weft_task *self, weft_wait *wait) { return weft_event_wait_poll(event, self, wait); }

static void set_thread(void *unused) { set(unused); }

MC_TEST(sync_event_cancel_poll, .proves = "B52", .bound = 2, .stale_counts = true, .max_exec = 10000) {
    begin();
    rt_start(1);
    weft_task *task = rt_poller(poll_waits);
    int a = mc_spawn(set_thread, NULL);
    weft_task_cancel(task);
    int status = rt_finish(task);
    mc_assert(status == 0 || status == -ECANCELED);
    mc_join(a);
    rt_stop();
    end();
}
