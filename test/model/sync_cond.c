/* sync_cond.c - the condition: no signal is lost. */
#include "sync.h"

static weft_mutex mutex;
static weft_cond *cond;
static int items; /* plain: the mutex orders it */

static void begin(void) {
    cond = wefti_alloc(sizeof *cond);
    weft_cond_init(cond);
}

static void end(void) {
    mc_assert(weft_cond_destroy(cond) == 0);
    wefti_free(cond, sizeof *cond);
    mc_assert(weft_mutex_destroy(&mutex) == 0);
}

static void produce(void) {
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0);
    items++;
    mc_assert(weft_mutex_unlock(&mutex) == 0);
    mc_assert(weft_cond_signal(cond) == 0); /* without the mutex: harder */
}

static void consumer(void *unused) {
    (void)unused;
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0);
    while (!items)
        mc_assert(weft_cond_wait(cond, &mutex, WEFT_NEVER) == 0);
    items--;
    mc_assert(weft_mutex_unlock(&mutex) == 0);
}

MC_TEST(sync_cond_signal, .proves = "B52", .bound = 3, .seconds = 4) {
    begin();
    int a = mc_spawn(consumer, NULL);
    produce();
    mc_join(a);
    end();
}

MC_TEST(sync_cond_two_signals, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin();
    int a = mc_spawn(consumer, NULL), b = mc_spawn(consumer, NULL);
    produce();
    produce();
    mc_join(a), mc_join(b);
    end();
}

/* One of two gives up: the signal is the other's, or he has taken what it was about. */
static void late_consumer(void *unused) {
    (void)unused;
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0);
    int error = 0;
    while (!items && !error)
        error = weft_cond_wait(cond, &mutex, SOON);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    if (!error) {
        items--;
        add_relaxed(&count, 1);
    }
    mc_assert(weft_mutex_unlock(&mutex) == 0);
}

MC_TEST(sync_cond_signal_against_timeout, .proves = "B52", .bound = 2, .timeouts = 1, .idle_timeouts = 2,
        .stale_counts = true, .seconds = 6) {
    begin();
    int a = mc_spawn(late_consumer, NULL), b = mc_spawn(consumer, NULL);
    produce();
    mc_join(a);
    if (load_relaxed(&count))
        produce();
    mc_join(b);
    end();
}
static void signal_pct(void) {
    begin();
    int a = mc_spawn(late_consumer, NULL), b = mc_spawn(consumer, NULL);
    produce();
    mc_join(a);
    if (load_relaxed(&count))
        produce();
    mc_join(b);
    end();
}
MC_CASE(sync_cond_signal_against_timeout_pct, signal_pct, .proves = "B52", .mode = MC_PCT, .depth = 4, .timeouts = 1,
        .idle_timeouts = 2, .max_exec = 20000);

/* All of them; more than are served at once.  The last one frees it. */
static void follower(void *unused) {
    (void)unused;
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0);
    while (!items)
        mc_assert(weft_cond_wait(cond, &mutex, WEFT_NEVER) == 0);
    bool last = ++items == 4;
    mc_assert(weft_mutex_unlock(&mutex) == 0);
    if (last) {
        mc_assert(weft_cond_destroy(cond) == 0);
        wefti_free(cond, sizeof *cond);
    }
}

MC_TEST(sync_cond_broadcast, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    begin();
    int a = mc_spawn(follower, NULL), b = mc_spawn(follower, NULL), c = mc_spawn(follower, NULL);
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0);
    items = 1;
    mc_assert(weft_cond_broadcast(cond) == 0);
    mc_assert(weft_mutex_unlock(&mutex) == 0);
    mc_join(a), mc_join(b), mc_join(c);
    mc_assert(weft_mutex_destroy(&mutex) == 0);
}

/* Cancelled with the signal on its way, or while it waits for the mutex: it is passed on. */
struct taker {
    weft_wait wait;
    bool waits;
};

static weft_poll taker_poll(weft_task *self, void *state) {
    struct taker *t = state;
    for (;;) {
        int error =
            t->waits ? weft_cond_wait_poll(cond, &mutex, self, &t->wait) : weft_mutex_lock_poll(&mutex, self, &t->wait);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        mc_assert(error == 0);
        if (items) {
            items--;
            add_relaxed(&count, 1);
            mc_assert(weft_mutex_unlock(&mutex) == 0);
            return weft_done(self, 0, NULL);
        }
        t->waits = true;
    }
}

static void taker_drop(void *state) { weft_wait_end(&((struct taker *)state)->wait); }

static int fiber_taker(void *unused) {
    (void)unused;
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0 || weft_task_is_cancelled(weft_task_self()));
    if (!weft_mutex_is_mine(&mutex))
        return -ECANCELED;
    int error = 0;
    while (!items && !error)
        error = weft_cond_wait(cond, &mutex, WEFT_NEVER);
    mc_assert(weft_mutex_is_mine(&mutex));
    if (!error) {
        items--;
        add_relaxed(&count, 1);
    }
    mc_assert(weft_mutex_unlock(&mutex) == 0);
    return error;
}

static void canceller(void *task) { weft_task_cancel(task); }

static void against_cancel(void) {
    begin();
    rt_start(1);
    weft_task *task;
    if (mc_arg()) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = taker_poll;
        spec.drop = taker_drop;
        spec.state_size = sizeof(struct taker);
        mc_assert(weft_spawn(rt, &spec, &task) == 0);
    } else {
        task = rt_fiber(fiber_taker, NULL);
    }
    until_waits(&cond->room);
    int a = mc_spawn(canceller, task), b = mc_spawn(consumer, NULL);
    produce();
    mc_join(a);
    int status = rt_finish(task);
    mc_assert((status == 0) == (load_relaxed(&count) == 1));
    if (status == 0)
        produce();
    mc_join(b);
    rt_stop();
    end();
}
MC_CASE(sync_cond_cancel_fiber, against_cancel, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 4,
        .max_exec = 4000);
MC_CASE(sync_cond_cancel_poll, against_cancel, .arg = 1, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 4000);

/* The same while it waits for the mutex, with the signal behind it. */
static void until_two_wait(void) {
    struct wefti_sync *s = wefti_sync_of(&cond->room);
    for (bool two = false; !two; wefti_relax()) {
        wefti_lock_take(&s->lock);
        two = s->waiters.first != s->waiters.last;
        wefti_lock_give(&s->lock);
    }
}

static void cancelled_at_the_mutex(void) {
    begin();
    rt_start(1);
    weft_task *task;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = taker_poll;
    spec.drop = taker_drop;
    spec.state_size = sizeof(struct taker);
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    until_waits(&cond->room);
    int b = mc_spawn(consumer, NULL);
    until_two_wait();
    mc_assert(weft_mutex_lock(&mutex, WEFT_NEVER) == 0);
    items++;
    mc_assert(weft_cond_signal(cond) == 0); /* to the task, which is first */
    until_waits(&mutex.room);
    weft_task_cancel(task);
    mc_assert(weft_mutex_unlock(&mutex) == 0);
    if (rt_finish(task) == 0)
        produce();
    mc_join(b);
    rt_stop();
    end();
}
MC_CASE(sync_cond_cancel_at_mutex, cancelled_at_the_mutex, .proves = "B52", .mode = MC_PCT, .max_exec = 2000);
