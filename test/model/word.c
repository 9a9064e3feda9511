/* word.c - the task word: wake, cancel, join, references and shields racing with the run and the end of a task. */
#include "task/word.h"

#include "model.h"
#include "plat/plat.h"
#include "sched/park.h"

static wefti_word word;
static _Atomic int queued; /* times it is in a queue: 0 or 1 */
static _Atomic int event[2];
static int polls;

static void enqueue(void) { mc_assert(add_release(&queued, 1) == 0); }

static bool dequeue(void) {
    int one = 1;
    return cas_acquire(&queued, &one, 0);
}

static void waker(void *i) {
    store_relaxed(&event[(intptr_t)i], 1); /* W1; only the wake makes it visible */
    if (wefti_word_wake(&word))
        enqueue();
}

/* A worker that runs the task whenever it is queued, until it has seen `events` events or was cancelled. */
static void run_until(int events) {
    for (;;) {
        while (!dequeue())
            wefti_relax();
        if (!wefti_word_enter(&word))
            return;
        polls++; /* plain: two runners at once are a race */
        int seen = 0;
        for (int i = 0; i < events; i++)
            seen += load_relaxed(&event[i]);
        if (seen == events)
            return;
        if (wefti_word_to_idle(&word))
            enqueue();
    }
}

MC_TEST(word_wake_against_idle, .proves = "B49 B50 B51 B52", .bound = 3) {
    wefti_word_spawn(&word, false);
    enqueue();
    int a = mc_spawn(waker, (void *)0);
    run_until(1);
    mc_join(a);
    mc_assert(polls <= 2);
}

/* Who claims an idle task has its fields, and queues it as it is; another wakes it meanwhile. */
static void claimer(void *arg) {
    (void)arg;
    while (!wefti_word_claim(&word)) {
        if (load_relaxed(&event[0]) &&
            wefti_word_life(load_relaxed(&word)) != WEFTI_IDLE) { /* it has been woken, too */
            store_relaxed(&event[1], 1);
            if (wefti_word_wake(&word))
                enqueue();
            return;
        }
        wefti_relax();
    }
    polls++; /* plain, as if we ran it */
    store_relaxed(&event[1], 1);
    enqueue();
}

MC_TEST(word_claim_against_wake, .proves = "B50 B52", .bound = 1, .seconds = 3) {
    wefti_word_spawn(&word, false);
    enqueue();
    int a = mc_spawn(waker, (void *)0), b = mc_spawn(claimer, NULL);
    run_until(2);
    mc_join(a), mc_join(b);
}

/* It is claimed, and before it runs another cancels or wakes it: what that one wrote before is seen by who enters it. */
static int written; /* plain */
static void cancel_it(void *arg) {
    (void)arg;
    written = 1;
    wefti_word_cancel(&word);
}
MC_TEST(word_claim_against_cancel, .proves = "J31", .bound = 3, .outcomes = "entered not") {
    store_relaxed(&word, WEFTI_IDLE | WEFTI_REF_ONE);
    mc_assert(wefti_word_claim(&word));
    int a = mc_spawn(cancel_it, NULL);
    bool entered = wefti_word_enter(&word);
    mc_assert(entered || written == 1);
    mc_outcome("%s", entered ? "entered" : "not");
    mc_join(a);
}
MC_TEST(word_claim_then_wake, .proves = "B50 B52", .bound = 3, .outcomes = "again once") {
    store_relaxed(&word, WEFTI_IDLE | WEFTI_REF_ONE);
    mc_assert(wefti_word_claim(&word));
    int a = mc_spawn(waker, (void *)0);
    mc_assert(wefti_word_enter(&word));
    bool seen = load_relaxed(&event[0]), again = wefti_word_to_idle(&word);
    mc_outcome("%s", again ? "again" : "once");
    mc_join(a);
    mc_assert(seen || again || dequeue()); /* the poll saw it, or there is another */
}

MC_TEST(word_two_wakers, .proves = "B50 B52") {
    wefti_word_spawn(&word, false);
    enqueue();
    int a = mc_spawn(waker, (void *)0), b = mc_spawn(waker, (void *)1);
    run_until(2);
    mc_join(a), mc_join(b);
    mc_assert(polls <= 3);
}

/* Two wakers of an idle task: it is queued once. */
MC_TEST(word_wakers_of_idle, .proves = "B49 K6 K7 W32", .bound = 3) {
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    mc_assert(!wefti_word_to_idle(&word));
    int a = mc_spawn(waker, (void *)0), b = mc_spawn(waker, (void *)1);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&queued) == 1);
    run_until(2);
    mc_assert(polls == 1);
}

static void cancel(void *unused) {
    (void)unused;
    if (wefti_word_cancel(&word))
        enqueue();
}

/* Cancelled at any moment, the task ends: it does not stay idle for ever. */
MC_TEST(word_cancel_against_idle, .proves = "B56 J31", .bound = 3) {
    wefti_word_spawn(&word, false);
    enqueue();
    int a = mc_spawn(cancel, NULL);
    run_until(1); /* the event never comes */
    mc_join(a);
}

MC_TEST(word_cancel_and_wake, .proves = "B50 J31") {
    wefti_word_spawn(&word, false);
    enqueue();
    int a = mc_spawn(cancel, NULL), b = mc_spawn(waker, (void *)0);
    run_until(2); /* the second never comes */
    mc_join(a), mc_join(b);
}

/* A task yields while it is cancelled: queued once more, and not entered. */
static void yield_until_cancelled(void) {
    for (;;) {
        while (!dequeue())
            wefti_relax();
        if (!wefti_word_enter(&word))
            return;
        wefti_word_to_yielded(&word);
        enqueue();
        if (++polls == 3)
            return;
    }
}

MC_TEST(word_cancel_against_yield, .proves = "J31") {
    wefti_word_spawn(&word, false);
    enqueue();
    int a = mc_spawn(cancel, NULL);
    yield_until_cancelled();
    mc_join(a);
}

/* A wake before the poll is answered by the poll. */
MC_TEST(word_enter_spends_wake, .proves = "B50 B51") {
    wefti_word_spawn(&word, false);
    int a = mc_spawn(waker, (void *)0);
    mc_join(a);
    mc_assert(load_relaxed(&queued) == 0 && wefti_word_enter(&word) && load_relaxed(&event[0]));
    mc_assert(!wefti_word_to_idle(&word));
}

/* What a poll wrote before it yielded is seen by the next one, on another worker. */
static int progress; /* plain */

static void second_worker(void *unused) {
    (void)unused;
    while (!dequeue())
        wefti_relax();
    wefti_word_enter(&word);
    progress++;
}

MC_TEST(word_yield_hands_over, .proves = "B33") {
    wefti_word_spawn(&word, false);
    int a = mc_spawn(second_worker, NULL);
    wefti_word_enter(&word);
    progress++;
    wefti_word_to_yielded(&word);
    enqueue();
    mc_join(a);
    mc_assert(progress == 2);
}

/* A shard's turn: what the last one wrote before it made it IDLE is seen by the next, whoever made it SCHEDULED. */
static void last_turn(void *unused) {
    (void)unused;
    progress++;
    store_release(&word, WEFTI_IDLE | WEFTI_REF_ONE);
}

MC_TEST(word_running_sees_last_turn, .proves = "K6") {
    store_relaxed(&word, WEFTI_RUNNING | WEFTI_REF_ONE);
    int a = mc_spawn(last_turn, NULL);
    uint64_t idle = WEFTI_IDLE | WEFTI_REF_ONE;
    while (!cas_relaxed(&word, &idle, WEFTI_SCHEDULED | WEFTI_REF_ONE)) {
        idle = WEFTI_IDLE | WEFTI_REF_ONE;
        wefti_relax();
    }
    wefti_word_to_running(&word);
    mc_assert(++progress == 2);
    mc_join(a);
}

static void second_worker_after_wake(void *unused) {
    (void)unused;
    if (!wefti_word_wake(&word))
        return;
    progress++; /* the waker queues the task by its link: the last runner must be done with it */
    wefti_word_enter(&word);
    progress++;
}

MC_TEST(word_idle_hands_over, .proves = "B33 B51") {
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    int a = mc_spawn(second_worker_after_wake, NULL);
    progress++;
    wefti_word_to_idle(&word);
    mc_join(a);
    mc_assert(progress == 1 || progress == 3);
}

static void cancel_idle(void *unused) {
    (void)unused;
    if (wefti_word_cancel(&word))
        progress++; /* as above */
}

MC_TEST(word_idle_hands_over_to_cancel, .proves = "B51") {
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    int a = mc_spawn(cancel_idle, NULL);
    progress++;
    wefti_word_to_idle(&word);
    mc_join(a);
}

/* What the canceller wrote is seen when the task ends, also when it was queued already. */
static void write_and_cancel(void *unused) {
    (void)unused;
    progress = 1;
    wefti_word_cancel(&word);
}

/* A second canceller brings a limit, while the task shields itself: that sees the limit as it lies down, or he sees the shield, and wakes it. */
static _Atomic int limit;
static bool saw_shield;
static void limit_and_cancel_again(void *unused) {
    (void)unused;
    store_relaxed(&limit, 1); /* the word orders it */
    wefti_word_cancel(&word);
    saw_shield = load_relaxed(&word) & WEFTI_SHIELD_MASK;
}

MC_TEST(word_cancel_again_publishes, .proves = "J24 J31") {
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    wefti_word_cancel(&word);
    int a = mc_spawn(limit_and_cancel_again, NULL);
    wefti_word_shield(&word);
    mc_assert(load_acquire(&word) & WEFTI_CANCELLED);
    bool saw_limit = load_relaxed(&limit);
    mc_join(a);
    mc_assert(saw_limit || saw_shield);
}

MC_TEST(word_cancel_publishes, .proves = "J31") {
    wefti_word_spawn(&word, false);
    int a = mc_spawn(write_and_cancel, NULL);
    if (!wefti_word_enter(&word))
        mc_assert(progress == 1);
    mc_join(a);
}

/* The same of one that was claimed, and went from hand to queue as it is. */
static void claimed(void) {
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    mc_assert(!wefti_word_to_idle(&word) && wefti_word_claim(&word));
}

MC_TEST(word_claimed_sees_cancel, .proves = "J31") {
    claimed();
    int a = mc_spawn(write_and_cancel, NULL);
    if (!wefti_word_enter(&word))
        mc_assert(progress == 1);
    mc_join(a);
}

/* ... and all who woke it meanwhile, when it begins: or it is told of them once more. */
MC_TEST(word_claimed_sees_wakers, .proves = "B50 B52") {
    claimed();
    int a = mc_spawn(waker, (void *)0), b = mc_spawn(waker, (void *)1);
    mc_assert(wefti_word_enter(&word));
    int seen = load_relaxed(&event[0]) + load_relaxed(&event[1]);
    mc_join(a), mc_join(b);
    mc_assert(seen == 2 || (load_relaxed(&word) & WEFTI_NOTIFIED));
}

/* While shielded a cancel waits; it takes effect at the end of the poll that removed the shield. */
MC_TEST(word_cancel_against_shield, .proves = "B56", .bound = 3) {
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    mc_assert(wefti_word_shield(&word));
    int a = mc_spawn(cancel, NULL);
    bool again = wefti_word_to_idle(&word); /* shielded: only a wake could bring it back */
    mc_assert(!again);
    mc_join(a);
    mc_assert(load_relaxed(&queued) == 0);
    if (wefti_word_wake(&word))
        enqueue();
    mc_assert(dequeue() && wefti_word_enter(&word)); /* entered: the shield still stands */
    wefti_word_unshield(&word);
    mc_assert(wefti_word_to_idle(&word));
    mc_assert(!wefti_word_enter(&word));
}

/* -- Join */

static struct wefti_park sleeper;
static _Atomic uintptr_t joiner;
static int result; /* plain: written before COMPLETE, read after */

static void complete(void *unused) {
    (void)unused;
    result = 42;
    uint64_t ended = wefti_word_to_complete(&word);
    if (ended & WEFTI_JOINED) {
        struct wefti_park *park = (struct wefti_park *)load_relaxed(&joiner);
        mc_assert(park == &sleeper);
        wefti_park_wake(park);
    }
}

/* As join.c does it. */
static bool register_sleeper(void) {
    if (!wefti_word_join_begin(&word)) {
        mc_assert(wefti_word_is_complete(&word));
        return false;
    }
    store_relaxed(&joiner, (uintptr_t)&sleeper);
    return wefti_word_join_register(&word);
}

MC_TEST(word_join_against_complete, .proves = "B33 B55", .bound = 3) {
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    int a = mc_spawn(complete, NULL);
    if (register_sleeper())
        wefti_park_sleep(&sleeper, INT64_MAX);
    mc_assert(wefti_word_is_complete(&word));
    mc_assert(result == 42);
    mc_join(a);
}

/* Whoever ends it looks at the joiner, and wakes it: until then its reference stays, and with it the task. */
MC_TEST(word_joined_keeps_reference, .proves = "B54 B55") {
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    mc_assert(register_sleeper());
    uint64_t ended = wefti_word_to_complete(&word);
    mc_assert((ended & WEFTI_JOINED) && wefti_word_refs(ended) == 2);
}

/* A wait that gives up: it takes its waker back, or is woken. */
MC_TEST(word_join_gives_up, .proves = "B55", .bound = 3) {
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    int a = mc_spawn(complete, NULL);
    if (register_sleeper() && !wefti_word_join_unregister(&word)) {
        wefti_park_sleep(&sleeper, INT64_MAX);
        mc_assert(result == 42);
    }
    mc_join(a);
    mc_assert(load_relaxed(&sleeper.word) == WEFTI_UNPARKED); /* nobody touches it after it was taken back */
}

MC_TEST(word_join_again_after_giving_up, .proves = "B55") {
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    int a = mc_spawn(complete, NULL);
    for (int i = 0; i < 2; i++) {
        if (!register_sleeper())
            break;
        if (i == 1 || !wefti_word_join_unregister(&word)) {
            wefti_park_sleep(&sleeper, INT64_MAX);
            break;
        }
    }
    mc_assert(result == 42);
    mc_join(a);
}

/* Two threads that want to wait: one does, the other is told so. */
static _Atomic int refused;

static void join_too(void *unused) {
    (void)unused;
    if (!wefti_word_join_begin(&word)) {
        add_relaxed(&refused, 1);
        return;
    }
    mc_exclusive(&joiner, sizeof joiner);
    store_relaxed(&joiner, 1);
    wefti_word_join_register(&word);
}

MC_TEST(word_two_joiners, .proves = "B55", .bound = 3) {
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    int a = mc_spawn(join_too, NULL);
    join_too(NULL);
    mc_join(a);
    mc_assert(load_relaxed(&refused) == 1);
}

/* -- References */

/* Freed by whoever drops the last reference, who reads what every other holder wrote into a cell of his. */
static int *object;

static void free_object(void) {
    for (int i = 0; i < 4; i++)
        mc_assert(object[i] >= 0);
    wefti_free(object, 64);
    object = NULL;
}

static void drop(uint64_t clear) {
    if (wefti_word_unref(&word, clear))
        free_object();
}

static void use_and_drop(void *cell) {
    object[(intptr_t)cell] = 7;
    drop(0);
}

MC_TEST(word_last_reference_frees, .proves = "B54", .bound = 3) {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, true);
    wefti_word_ref(&word);
    int a = mc_spawn(use_and_drop, (void *)1), b = mc_spawn(use_and_drop, (void *)2);
    drop(WEFTI_JOINABLE);
    mc_join(a), mc_join(b);
    mc_assert(object == NULL);
}

static void end_task(void *unused) {
    (void)unused;
    object[0] = 5;
    if (wefti_word_refs(wefti_word_to_complete(&word)) == 0)
        free_object();
}

/* The end of the task, the handle and a waker: freed once, and after everybody's use. */
MC_TEST(word_end_against_drop, .proves = "B54", .bound = 3) {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    int a = mc_spawn(end_task, NULL);
    drop(WEFTI_JOINABLE);
    mc_join(a);
    mc_assert(object == NULL);
}

MC_TEST(word_end_against_two_drops, .proves = "B54") {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, true);
    wefti_word_ref(&word);
    wefti_word_enter(&word);
    int a = mc_spawn(end_task, NULL), b = mc_spawn(use_and_drop, (void *)2);
    drop(WEFTI_JOINABLE);
    mc_join(a), mc_join(b);
    mc_assert(object == NULL);
}

/* A holder writes, drops; the one who frees must see it: also through the shortcut that does not write. */
MC_TEST(word_shortcut_sees_all, .proves = "B54", .bound = 3) {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, true);
    wefti_word_enter(&word);
    wefti_word_ref(&word);
    wefti_word_to_complete(&word);
    int a = mc_spawn(use_and_drop, (void *)1);
    drop(WEFTI_JOINABLE);
    mc_join(a);
    mc_assert(object == NULL);
}

static void walk(void *unused) {
    (void)unused;
    if (wefti_word_try_ref(&word)) {
        object[1] = 3;
        drop(0);
    }
}

/* A walk finds the task by its address while it ends. */
MC_TEST(word_walk_against_end, .proves = "B54", .bound = 3) {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    int a = mc_spawn(walk, NULL);
    end_task(NULL);
    mc_join(a);
    mc_assert(object == NULL);
}

static void walk_new(void *unused) {
    (void)unused;
    if (wefti_word_try_ref(&word)) {
        mc_assert(result == 42); /* a field that was written before the spawn */
        wefti_word_unref(&word, 0);
    }
}

MC_TEST(word_walk_against_spawn, .proves = "B54", .bound = 3) {
    int a = mc_spawn(walk_new, NULL);
    result = 42;
    wefti_word_spawn(&word, false);
    mc_join(a);
}

/* A wake of a task that has just ended does nothing. */
static void wake_and_drop(void *unused) {
    (void)unused;
    mc_assert(!wefti_word_wake(&word));
    drop(0);
}

MC_TEST(word_wake_against_complete, .proves = "B53", .bound = 3) {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    wefti_word_ref(&word);
    int a = mc_spawn(wake_and_drop, NULL);
    end_task(NULL);
    mc_join(a);
    mc_assert(object == NULL);
}

static void cancel_and_drop(void *unused) {
    (void)unused;
    mc_assert(!wefti_word_cancel(&word));
    drop(0);
}

MC_TEST(word_cancel_against_complete, .proves = "B53", .bound = 3) {
    object = wefti_alloc(64);
    wefti_word_spawn(&word, false);
    wefti_word_enter(&word);
    wefti_word_ref(&word);
    int a = mc_spawn(cancel_and_drop, NULL);
    end_task(NULL);
    mc_join(a);
    mc_assert(object == NULL);
}
