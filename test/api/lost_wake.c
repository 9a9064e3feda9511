/* lost_wake.c - nothing is missed: every test here runs without any park timeout, so that a lost wake is a hang.
 * They are run on a single CPU too, where nobody wakes a worker by chance. */
#include "fixture.h"

#include <sched.h>

static unsigned scaled(unsigned count) { return fixture_is_slow() ? count / 10 + 1 : count; }

/* -- From outside -------------------------------------------------------------------------------------------- */

/* All parked, then a burst and no further stimulus. */
API_TEST(lostwake_burst, "B41 B24 B38", .workers = {1, 2, 4}) {
    static const unsigned sizes[] = {1, 2, 3, 4, 5, 7, 10, 17, 64, 100, 257, 1000};
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    unsigned expected = 0;
    for (unsigned round = 0; round < scaled(100); round++) {
        unsigned burst = sizes[round % 12];
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
        for (unsigned i = 0; i < burst; i++)
            REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        expected += burst;
        REQUIRE_EVENTUALLY(ran == expected);
    }
    fixture_end(rt);
}

/* Single tasks, not waiting for anyone to be asleep: at every moment of the workers' falling asleep. */
API_TEST(lostwake_drip, "B41", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    for (unsigned i = 0; i < scaled(5000); i++) {
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        while (atomic_load(&ran) <= i) { /* no nap: the next one comes while the worker is on its way to sleep */
            int64_t until = harness_clock() + harness_patience();
            while (atomic_load(&ran) <= i && harness_clock() < until)
                sched_yield();
            REQUIRE(atomic_load(&ran) > i);
        }
    }
    fixture_end(rt);
}

static void spawn_some(unsigned index, void *arg) {
    static atomic_uint ran;
    (void)index;
    for (unsigned i = 0; i < scaled(2000); i++)
        REQUIRE_EQ(weft_go(arg, fixture_count, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(ran == 3 * scaled(2000));
}

API_TEST(lostwake_many_spawners, "B41", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    harness_threads(3, spawn_some, rt);
    fixture_end(rt);
}

API_TEST(lostwake_join, "B33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    for (unsigned i = 0; i < scaled(5000); i++)
        fixture_finish(fixture_go(rt, fixture_count, &ran));
    CHECK_EQ(ran, scaled(5000));
    fixture_end(rt);
}

/* -- One task and its wakers ----------------------------------------------------------------------------------- */

/* A mailbox: senders push, then wake; the task takes everything, then waits. */
struct mailbox {
    pthread_mutex_t lock;
    unsigned waiting; /* messages */
    weft_waker waker;
    atomic_uint received;
    unsigned expected, each;
    atomic_uint polls;
};

static weft_poll receive(weft_task *self, void *state) {
    struct mailbox *box = state;
    atomic_fetch_add(&box->polls, 1);
    pthread_mutex_lock(&box->lock);
    if (!box->waker.target)
        box->waker = weft_waker_of(self);
    unsigned received = atomic_load(&box->received) + box->waiting;
    box->waiting = 0;
    pthread_mutex_unlock(&box->lock);
    atomic_store(&box->received, received);
    return received < box->expected ? WEFT_PENDING : weft_done(self, 0, NULL);
}

static void send(unsigned index, void *arg) {
    struct mailbox *box = arg;
    (void)index;
    for (unsigned i = 0; i < box->each; i++) {
        pthread_mutex_lock(&box->lock);
        box->waiting++;
        weft_waker waker = weft_waker_clone(box->waker);
        pthread_mutex_unlock(&box->lock);
        weft_waker_wake(waker);
    }
}

/* Messages that arrive while the task is running and about to go idle. */
API_TEST(lostwake_mailbox, "B49 B50 B51 B52", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct mailbox box = {.lock = PTHREAD_MUTEX_INITIALIZER};
    box.each = scaled(10000);
    box.expected = 3 * box.each;
    weft_task *task = fixture_go(rt, receive, &box);
    harness_threads(3, send, &box);
    fixture_finish(task);
    CHECK_EQ(box.received, box.expected);
    CHECK_LE(box.polls, 1 + box.expected);
    weft_waker_drop(box.waker);
    fixture_end(rt);
}

/* One message at a time, the next after the answer: the wake comes at every moment of the task's going idle. */
static void ask(unsigned index, void *arg) {
    struct mailbox *box = arg;
    (void)index;
    for (unsigned i = 1; i <= box->each; i++) {
        pthread_mutex_lock(&box->lock);
        box->waiting++;
        weft_waker waker = weft_waker_clone(box->waker);
        pthread_mutex_unlock(&box->lock);
        weft_waker_wake(waker);
        for (int64_t until = harness_clock() + harness_patience(); atomic_load(&box->received) < i;) {
            REQUIRE(harness_clock() < until);
            sched_yield();
        }
    }
}

API_TEST(lostwake_question_and_answer, "B49 B51", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct mailbox box = {.lock = PTHREAD_MUTEX_INITIALIZER};
    box.expected = box.each = scaled(5000);
    weft_task *task = fixture_go(rt, receive, &box);
    harness_threads(1, ask, &box);
    fixture_finish(task);
    weft_waker_drop(box.waker);
    fixture_end(rt);
}

/* N wakes of one idle task, all at once: queued once, polled, and idle again. */
static struct {
    weft_waker waker;
    atomic_uint polls;
    atomic_bool end;
} target;

static weft_poll be_target(weft_task *self, void *state) {
    (void)state;
    if (!target.waker.target)
        target.waker = weft_waker_of(self);
    bool end = target.end;
    atomic_fetch_add(&target.polls, 1);
    return end ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static void wake_target(unsigned index, void *arg) {
    (void)index, (void)arg;
    weft_waker_wake_keep(target.waker);
}

API_TEST(lostwake_racing_wakers, "B49 B50", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, be_target, NULL);
    unsigned before = 0;
    for (unsigned i = 0; i < scaled(200); i++) {
        REQUIRE_EVENTUALLY(target.polls > before && strcmp(weft_task_state(task), "idle") == 0);
        before = target.polls;
        harness_threads(4, wake_target, NULL);
        REQUIRE_EVENTUALLY(target.polls > before && strcmp(weft_task_state(task), "idle") == 0);
        CHECK_LE(target.polls, before + 4);
        before = target.polls - 1;
    }
    target.end = true;
    weft_waker_wake(target.waker);
    fixture_finish(task);
    fixture_end(rt);
}

/* -- Tasks among themselves ---------------------------------------------------------------------------------- */

/* A lock that tasks wait for: first come, first served; the unlocker wakes the next. */
struct task_lock {
    pthread_mutex_t guard;
    bool held;
    unsigned first, last;
    weft_waker queue[256];
};

static bool lock_or_wait(struct task_lock *lock, weft_task *self) {
    pthread_mutex_lock(&lock->guard);
    bool got = !lock->held;
    lock->held = true;
    if (!got)
        lock->queue[lock->last++ % 256] = weft_waker_of(self);
    pthread_mutex_unlock(&lock->guard);
    return got;
}

static void unlock(struct task_lock *lock) {
    weft_waker next = {NULL};
    pthread_mutex_lock(&lock->guard);
    lock->held = false;
    if (lock->first != lock->last)
        next = lock->queue[lock->first++ % 256];
    pthread_mutex_unlock(&lock->guard);
    weft_waker_wake(next);
}

static struct {
    struct task_lock lock;
    uint64_t counter; /* the lock's */
    atomic_uint inside, done;
    unsigned rounds;
} contended = {.lock = {.guard = PTHREAD_MUTEX_INITIALIZER}};

static weft_poll contend(weft_task *self, void *state) {
    struct {
        unsigned done;
        bool holding;
    } *my = state;
    for (;;) {
        if (!my->holding && !lock_or_wait(&contended.lock, self))
            return WEFT_PENDING;
        my->holding = true;
        REQUIRE_EQ(atomic_fetch_add(&contended.inside, 1), 0);
        contended.counter++;
        REQUIRE_EQ(atomic_fetch_sub(&contended.inside, 1), 1);
        my->holding = false;
        unlock(&contended.lock);
        if (++my->done == contended.rounds)
            return fixture_count(self, &contended.done);
        if (my->done % 3 == 0)
            return WEFT_YIELD;
    }
}

/* 128 tasks on one mutex: none is left behind. */
API_TEST(lostwake_contended_lock, "B52", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    contended.rounds = scaled(300);
    for (int i = 0; i < 128; i++) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = contend;
        spec.state_size = 8;
        REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    }
    REQUIRE_EVENTUALLY(contended.done == 128);
    CHECK_EQ(contended.counter, 128 * contended.rounds);
    fixture_end(rt);
}

/* A token goes round a circle of tasks. */
enum { CIRCLE = 5 };

static struct {
    pthread_mutex_t lock;
    weft_waker waker[CIRCLE];
    unsigned holder, passed, rounds;
} token = {.lock = PTHREAD_MUTEX_INITIALIZER};

static weft_poll pass_token(weft_task *self, void *state) {
    uintptr_t me = (uintptr_t)state;
    weft_waker next = {NULL};
    pthread_mutex_lock(&token.lock);
    if (!token.waker[me].target)
        token.waker[me] = weft_waker_of(self);
    bool end = token.passed >= token.rounds;
    if (token.holder == me && token.waker[(me + 1) % CIRCLE].target) {
        token.holder = (me + 1) % CIRCLE;
        token.passed++;
        next = weft_waker_clone(token.waker[token.holder]);
    } else if (token.holder == me) {
        end = false;
        next = weft_waker_clone(token.waker[me]); /* the neighbour has not come yet: look again */
    }
    pthread_mutex_unlock(&token.lock);
    weft_waker_wake(next);
    return end ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

API_TEST(lostwake_token_ring, "B49 B51", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    token.rounds = scaled(20000);
    for (uintptr_t i = 0; i < CIRCLE; i++)
        REQUIRE_EQ(weft_go(rt, pass_token, (void *)i, NULL), 0);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    CHECK_GE(token.passed, token.rounds);
    for (int i = 0; i < CIRCLE; i++)
        weft_waker_drop(token.waker[i]);
    fixture_end(rt);
}

/* A task makes others, waits until the last has woken it, and begins again. */
struct round {
    atomic_uint left;
    unsigned rounds, width;
    weft_waker waker;
};

static weft_poll child_of_round(weft_task *self, void *state) {
    struct round *round = state;
    if (atomic_fetch_sub(&round->left, 1) == 1)
        weft_waker_wake_keep(round->waker);
    return weft_done(self, 0, NULL);
}

static weft_poll run_rounds(weft_task *self, void *state) {
    struct round *round = state;
    if (!round->waker.target)
        round->waker = weft_waker_of(self);
    if (atomic_load(&round->left))
        return WEFT_PENDING;
    if (round->rounds-- == 0) {
        weft_waker_drop(round->waker);
        return weft_done(self, 0, NULL);
    }
    unsigned width = 1 + round->rounds % round->width;
    atomic_store(&round->left, width);
    for (unsigned i = 0; i < width; i++)
        REQUIRE_EQ(weft_go(NULL, child_of_round, round, NULL), 0);
    return WEFT_PENDING;
}

API_TEST(lostwake_rounds, "B41 B49 B51", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct round round[2];
    weft_task *task[2];
    for (int i = 0; i < 2; i++) {
        round[i] = (struct round){.rounds = scaled(fixture_on("reactor") ? 400 : 2000), .width = i ? 300 : 8};
        task[i] = fixture_go(rt, run_rounds, &round[i]);
    }
    for (int i = 0; i < 2; i++)
        fixture_finish(task[i]);
    fixture_end(rt);
}

/* Parents that wait for children by join_poll, many at once. */
struct parent {
    unsigned left;
    weft_task *child;
};

static weft_poll yield_once(weft_task *self, void *state) {
    return ++*(unsigned char *)state % 2 ? WEFT_YIELD : weft_done(self, 0, NULL);
}

static weft_poll join_many(weft_task *self, void *state) {
    struct parent *p = state;
    for (;;) {
        if (!p->child) {
            weft_spec spec = WEFT_SPEC_INIT;
            spec.poll = yield_once;
            spec.state_size = 1;
            if (p->left-- == 0)
                return weft_done(self, 0, NULL);
            REQUIRE_EQ(weft_spawn(NULL, &spec, &p->child), 0);
        }
        if (weft_join_poll(p->child, self, NULL) == -EAGAIN)
            return WEFT_PENDING;
        weft_task_drop(p->child);
        p->child = NULL;
    }
}

API_TEST(lostwake_join_poll, "B33 B51", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct parent parent[16];
    weft_task *task[16];
    for (int i = 0; i < 16; i++) {
        parent[i] = (struct parent){.left = scaled(500)};
        task[i] = fixture_go(rt, join_many, &parent[i]);
    }
    for (int i = 0; i < 16; i++)
        fixture_finish(task[i]);
    fixture_end(rt);
}

/* -- Cancelling and stopping --------------------------------------------------------------------------------- */

API_TEST(lostwake_cancel, "B48", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (unsigned i = 0; i < scaled(1000); i++) {
        struct gate gate = GATE_INIT;
        weft_task *task = fixture_go(rt, fixture_wait_gate, &gate);
        if (i % 3)
            REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
        weft_task_cancel(task); /* queued, running or idle */
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        gate_abandon(&gate);
    }
    fixture_end(rt);
}

/* A stop that begins while the last tasks end, or when all is asleep: it hears of the end. */
API_TEST(lostwake_stop, "W37 K38", .workers = {1, 2, 4}) {
    for (unsigned i = 0; i < scaled(200); i++) {
        weft_runtime *rt = fixture_begin_patient();
        atomic_uint ran = 0;
        for (unsigned k = 0; k < i % 20; k++)
            REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        if (i % 3 == 0)
            REQUIRE_EVENTUALLY(ran == i % 20);
        CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
        CHECK_EQ(ran, i % 20);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
}
