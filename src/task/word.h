/* word.h - the task word: every change of a task's state, each a function named after it.
 *
 * What.   One 64-bit word says everything about a task that two threads can disagree about.
 * Words.  bits 0-6    life: FREE, IDLE, SCHEDULED, RUNNING, COMPLETE
 *              7      ASKED: the process that the fiber runs has an unread request to end (process/shutdown.c): its waits fail, as those of a
 *                     cancelled task, until it has read the request
 *              8-15   flags: NOTIFIED (woken while it could not be queued), CANCELLED, JOINABLE (a handle exists),
 *                     JOINING (somebody fills task->joiner), JOINED (it is filled), and three bits that say why it was
 *                     CANCELLED (weft_reason), set in the same step
 *              16-23  shield depth: above 0, CANCELLED has no effect
 *              24-47  references: one for the scheduler until COMPLETE, one a handle, one a waker
 *              48-63  the kind's own sub-state
 *         IDLE -> SCHEDULED -> RUNNING -> IDLE | COMPLETE.  To others a task that runs is the same as one that waits for its turn: who wakes
 *         it leaves a mark, who cancels it too.  So a runner does not say in the word that he runs it, and saves a read-modify-write: it
 *         stays SCHEDULED, and is RUNNING in that a worker says so (wefti_worker.current).  RUNNING stands in the word where that does not tell
 *         enough: of a poll that waits in weft_join below others, of a shard.
 * Who.    1 Whoever makes it SCHEDULED puts it into a queue, once.  A queue holds no reference.
 *         2 Whoever takes it out of a queue runs it (enter); from then on its fields are the runner's.
 *         3 task->joiner belongs to whoever set JOINING; once COMPLETE with JOINED, to the completer.
 *         4 The result is written before COMPLETE and read after it.
 *         5 Who drops the last reference frees.
 * Race.   waker: W1 write what the task waits for     runner: R0 enter: NOTIFIED is spent
 *                W2 IDLE: make SCHEDULED, queue it            R1 poll: look at it, find nothing
 *                   else: set NOTIFIED                        R2 to_idle: IDLE, capturing NOTIFIED
 *                                                             R3 NOTIFIED was set: queue it again
 * Claim.  A wake is never lost and never queues a task twice.
 * Why.    W2 and R2 are read-modify-writes of one word: if W2 comes first R2 captures it; if R2 comes first W2 finds IDLE.
 *         W2 is made even when NOTIFIED is set already: its release is what makes W1 visible to the next poll.
 *         R0 only looks, unless it has something to clear: a W2 that it misses is captured by R2.
 * Checked by.  test/model/word.c, test/unit/task_word.c
 */
#ifndef WEFTI_TASK_WORD_H
#define WEFTI_TASK_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

enum wefti_life {
    WEFTI_FREE = 0, /* not a task: zeroed or given back memory */
    WEFTI_IDLE = 1,
    WEFTI_SCHEDULED = 2,
    WEFTI_RUNNING = 3,
    WEFTI_COMPLETE = 4,
};

#define WEFTI_LIFE_MASK UINT64_C(0x7f)
#define WEFTI_ASKED (UINT64_C(1) << 7)
#define WEFTI_NOTIFIED (UINT64_C(1) << 8)
#define WEFTI_CANCELLED (UINT64_C(1) << 9)
#define WEFTI_JOINABLE (UINT64_C(1) << 10)
#define WEFTI_JOINED (UINT64_C(1) << 11)
#define WEFTI_JOINING (UINT64_C(1) << 12)
#define WEFTI_WHY_SHIFT 13
#define WEFTI_WHY_MASK (UINT64_C(7) << WEFTI_WHY_SHIFT)
#define WEFTI_SHIELD_ONE (UINT64_C(1) << 16)
#define WEFTI_SHIELD_MASK (UINT64_C(0xff) << 16)
#define WEFTI_REF_ONE (UINT64_C(1) << 24)
#define WEFTI_REF_MASK (UINT64_C(0xffffff) << 24)
#define WEFTI_SUB_MASK (UINT64_C(0xffff) << 48)

typedef _Atomic uint64_t wefti_word;

static inline enum wefti_life wefti_word_life(uint64_t word) { return (enum wefti_life)(word & WEFTI_LIFE_MASK); }
static inline uint32_t wefti_word_refs(uint64_t word) { return (uint32_t)((word & WEFTI_REF_MASK) >> 24); }
static inline uint64_t wefti_word_with(uint64_t word, enum wefti_life life) {
    return (word & ~WEFTI_LIFE_MASK) | (uint64_t)life;
}
/* Cancelled, and no shield puts it off (B56). */
static inline bool wefti_word_must_end(uint64_t word) {
    return (word & (WEFTI_CANCELLED | WEFTI_SHIELD_MASK)) == WEFTI_CANCELLED;
}

/* Spawn: FREE -> SCHEDULED with the scheduler's reference, and the handle's.  Only the spawner knows the task; the
 * release is for those who find it by walking the slabs (try_ref). */
static inline void wefti_word_spawn(wefti_word *word, bool handle) {
    uint64_t fresh = WEFTI_SCHEDULED | WEFTI_REF_ONE;
    if (handle)
        fresh += WEFTI_REF_ONE + WEFTI_JOINABLE;
    store_release(word, fresh);
}

/* Queued, or run by somebody. */
static inline bool wefti_word_is_active(uint64_t word) {
    return wefti_word_life(word) == WEFTI_SCHEDULED || wefti_word_life(word) == WEFTI_RUNNING;
}

/* SCHEDULED, and neither woken again nor cancelled nor asked to end: nothing to see to. */
static inline bool wefti_word_is_plain(uint64_t word) {
    return (word & (WEFTI_LIFE_MASK | WEFTI_ASKED | WEFTI_NOTIFIED | WEFTI_CANCELLED)) == WEFTI_SCHEDULED;
}

/* SCHEDULED -> RUNNING, for those who want it to be seen.  By who runs it.  Acquires, as enter. */
static inline void wefti_word_to_running(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    do
        wefti_assert(wefti_word_life(found) == WEFTI_SCHEDULED, found);
    while (!cas_acquire(word, &found, wefti_word_with(found, WEFTI_RUNNING))); /* pairs with W2, R2 */
}

/* By whoever has taken it out of a queue (R0).  True: run it.  False: it was cancelled meanwhile; one that has not begun is never entered (J31).
 * A NOTIFIED is spent: the poll that begins now sees what was written before that wake. */
static inline bool wefti_word_enter(wefti_word *word) {
    uint64_t found = load_acquire(word); /* pairs with W2, R2, cancel */
    if (WEFTI_LIKELY(wefti_word_is_plain(found)))
        return true; /* one test for what most are */
    wefti_assert(wefti_word_is_active(found), found);
    if (found & WEFTI_NOTIFIED)
        found = and_acquire(word, ~WEFTI_NOTIFIED); /* pairs with W2 */
    return !wefti_word_must_end(found);
}

/* As enter, of one that was SCHEDULED all the time and has not left its worker, when that has nothing to do.  False: it has. */
static inline bool wefti_word_enter_plain(wefti_word *word) {
    return wefti_word_is_plain(load_relaxed(word)); /* no mark, nothing behind it */
}

/* After a poll that waits: IDLE.  True: it was woken or cancelled meanwhile, is SCHEDULED still, and the caller queues it (R2, R3). */
static inline bool wefti_word_to_idle(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    for (;;) {
        bool again = false;
        uint64_t next = wefti_word_with(found, WEFTI_IDLE);
        if (WEFTI_UNLIKELY(!wefti_word_is_plain(found))) {
            wefti_assert(wefti_word_is_active(found), found);
            again = (found & WEFTI_NOTIFIED) || wefti_word_must_end(found);
            next = wefti_word_with(found, again ? WEFTI_SCHEDULED : WEFTI_IDLE) & ~WEFTI_NOTIFIED;
        } /* else what most are, as in enter */
        /* Release: what this poll wrote, to wake, which queues it for the next.  What a waker wrote before its NOTIFIED is
         * not lost by clearing that: its release goes on through this swap to the next enter. */
        if (cas_release(word, &found, next))
            return again;
    }
}

/* After a poll that yields, for those who go by the word: SCHEDULED, and a NOTIFIED is spent; the caller queues it. */
static inline void wefti_word_to_yielded(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    do
        wefti_assert(wefti_word_is_active(found), found);
    while (
        !cas_relaxed(word, &found, wefti_word_with(found, WEFTI_SCHEDULED) & ~WEFTI_NOTIFIED)); /* the queue orders */
}

/* A wake (W2) that a task which is idle with that sub-state (0: none) sleeps through.  True: it was IDLE, is SCHEDULED now, and the caller
 * queues it. */
static inline bool wefti_word_wake_unless(wefti_word *word, uint16_t sub) {
    uint64_t found = load_relaxed(word); /* only compared */
    for (;;) {
        enum wefti_life life = wefti_word_life(found);
        if (life == WEFTI_COMPLETE || life == WEFTI_FREE) /* FREE: a loose wake, wake.c */
            return false;
        bool idle = life == WEFTI_IDLE, sleeps = idle && sub && (uint16_t)(found >> 48) == sub;
        uint64_t next = sleeps ? found : idle ? wefti_word_with(found, WEFTI_SCHEDULED) : found | WEFTI_NOTIFIED;
        /* Release: W1 is visible to the next poll, also when nothing changes.  Acquire: the last runner is done with the link we
         * queue it by. */
        if (cas_acq_rel(word, &found, next))
            return idle && !sleeps;
    }
}

static inline bool wefti_word_wake(wefti_word *word) { return wefti_word_wake_unless(word, 0); }

/* To an idle task without a sub-state: IDLE -> SCHEDULED.  True: it is the caller's now, with all its fields, as if he ran it, and he puts
 * it into a queue.  Who wakes it meanwhile sets NOTIFIED. */
static inline bool wefti_word_claim(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    return (found & (WEFTI_LIFE_MASK | WEFTI_SUB_MASK)) == WEFTI_IDLE &&
           cas_acquire(word, &found,
                       wefti_word_with(found, WEFTI_SCHEDULED)); /* pairs with to_idle: what the last run left */
}

/* A wake by the only worker that may run it.  True: it was IDLE, is SCHEDULED now, and the caller puts it into its own queue.  Relaxed: who was the last runner, and will be the next, is the caller; what other wakers wrote before they set
 * NOTIFIED goes on through this swap to the next to_idle. */
static inline bool wefti_word_wake_here(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    for (;;) {
        bool idle = wefti_word_life(found) == WEFTI_IDLE;
        wefti_assert(idle || wefti_word_is_active(found), found);
        if (cas_relaxed(word, &found, idle ? wefti_word_with(found, WEFTI_SCHEDULED) : found | WEFTI_NOTIFIED))
            return idle;
    }
}

/* Why it was cancelled: 1 to 7 (weft_reason); 0: it was not. */
static inline unsigned wefti_word_why(uint64_t word) { return (unsigned)((word & WEFTI_WHY_MASK) >> WEFTI_WHY_SHIFT); }

/* Ask it to end; the first reason stays.  True: it was IDLE and unshielded, is SCHEDULED now, and the caller queues it. */
static inline bool wefti_word_cancel_for(wefti_word *word, unsigned why) {
    uint64_t found = load_relaxed(word); /* only compared */
    for (;;) {
        enum wefti_life life = wefti_word_life(found);
        wefti_assert(life != WEFTI_FREE, found);
        if (life == WEFTI_COMPLETE)
            return false;
        if (found &
            WEFTI_CANCELLED) { /* who comes again has an earlier limit: seen with a shield that is not seen here */
            if (cas_release(word, &found, found)) /* pairs with who looks at the limit */
                return false;
            continue;
        }
        uint64_t next = found | WEFTI_CANCELLED | (uint64_t)why << WEFTI_WHY_SHIFT;
        bool idle = life == WEFTI_IDLE && wefti_word_must_end(next);
        if (idle)
            next = wefti_word_with(next, WEFTI_SCHEDULED);
        /* As wake; the release is for the drop function, which sees what the canceller wrote. */
        if (cas_acq_rel(word, &found, next))
            return idle;
    }
}

static inline bool wefti_word_cancel(wefti_word *word) { return wefti_word_cancel_for(word, 1); }

/* ASKED, under the lock of the process; the caller then wakes the task. */
static inline void wefti_word_ask(wefti_word *word) {
    or_relaxed(word, WEFTI_ASKED); /* the lock orders the request before the bit; the wake changes the same word */
}
/* The running process has read a request; under its lock. */
static inline void wefti_word_unask(wefti_word *word) {
    and_relaxed(word, ~WEFTI_ASKED); /* only the process itself looks at the bit */
}
/* The waits of the task fail, or will when its shields are gone. */
static inline bool wefti_word_is_to_end(uint64_t word) { return word & (WEFTI_CANCELLED | WEFTI_ASKED); }

/* By the running task only: what it will wait for, a number for dumps. */
static inline void wefti_word_set_sub(wefti_word *word, uint16_t sub) {
    uint64_t found = load_relaxed(word); /* only compared */
    while (!cas_relaxed(word, &found, (found & ~WEFTI_SUB_MASK) | (uint64_t)sub << 48)) /* a figure */
        ;
}
static inline uint16_t wefti_word_sub(uint64_t word) { return (uint16_t)(word >> 48); }

/* By the running task only.  False: 255 deep already. */
static inline bool wefti_word_shield(wefti_word *word) {
    if ((load_relaxed(word) & WEFTI_SHIELD_MASK) == WEFTI_SHIELD_MASK) /* only the runner changes the depth */
        return false;
    add_relaxed(word, WEFTI_SHIELD_ONE); /* nothing is handed over */
    return true;
}
static inline bool wefti_word_unshield(wefti_word *word) {
    if ((load_relaxed(word) & WEFTI_SHIELD_MASK) == 0)
        return false;
    sub_relaxed(word, WEFTI_SHIELD_ONE);
    return true;
}

/* The last step of a run: COMPLETE.  Returns the word as it became.
 * With JOINED in it, task->joiner is now the caller's, who wakes it and then drops the scheduler's reference himself: until
 * then the waiter's handle must not be the last.  Without JOINED that reference has been dropped in the same step. */
static inline uint64_t wefti_word_to_complete(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    for (;;) {
        wefti_assert(wefti_word_is_active(found) && wefti_word_refs(found) > 0, found);
        uint64_t next = wefti_word_with(found, WEFTI_COMPLETE);
        if (!(found & WEFTI_JOINED))
            next -= WEFTI_REF_ONE;
        /* Release: the result, to whoever reads COMPLETE.  Acquire: the joiner, from join_register, and all that other
         * holders did before they dropped their references. */
        if (cas_acq_rel(word, &found, next))
            return next;
    }
}

/* True once COMPLETE; then the result may be read. */
static inline bool wefti_word_is_complete(wefti_word *word) {
    return wefti_word_life(load_acquire(word)) == WEFTI_COMPLETE; /* pairs with to_complete */
}

/* Somebody wants to wait: task->joiner is his to fill.  False: another does, or it is COMPLETE. */
static inline bool wefti_word_join_begin(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    do
        if ((found & (WEFTI_JOINING | WEFTI_JOINED)) || wefti_word_life(found) == WEFTI_COMPLETE)
            return false;
    while (!cas_relaxed(word, &found, found | WEFTI_JOINING)); /* a claim; nobody looks at the joiner before register */
    return true;
}

/* After join_begin, with task->joiner filled: publish it.  False: COMPLETE already, nobody will look at the joiner. */
static inline bool wefti_word_join_register(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    do {
        wefti_assert((found & (WEFTI_JOINING | WEFTI_JOINED)) == WEFTI_JOINING, found);
        if (wefti_word_life(found) == WEFTI_COMPLETE)
            return !wefti_word_is_complete(word); /* false, and the result may be read */
    } while (!cas_release(word, &found, (found & ~WEFTI_JOINING) | WEFTI_JOINED)); /* the joiner, to to_complete */
    return true;
}

/* Who registered: take the joiner back.  False: COMPLETE came first, the completer has it. */
static inline bool wefti_word_join_unregister(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    do
        if (wefti_word_life(found) == WEFTI_COMPLETE)
            return !wefti_word_is_complete(word); /* false, and the result may be read */
    while (!cas_relaxed(word, &found, found & ~WEFTI_JOINED)); /* nobody has looked at the joiner */
    return true;
}

/* `found` has room for another reference.  Programs run out of it by wakers that they never use or drop. */
static inline void wefti_word_check_refs(uint64_t found) {
    if (WEFTI_UNLIKELY((found & WEFTI_REF_MASK) == WEFTI_REF_MASK))
        wefti_misuse("weft_waker_of", "the task has 16,777,215 handles and wakers, which is the limit: wakers must be "
                                      "used or dropped");
}

/* One more reference, by the holder of one. */
static inline void wefti_word_ref(wefti_word *word) {
    uint64_t found = add_relaxed(word, WEFTI_REF_ONE); /* a reference is handed over by other means */
    wefti_assert(wefti_word_refs(found) > 0, found);
    wefti_word_check_refs(found);
}

/* One more reference, by somebody who found the memory and not a reference.  False: no task is there any more, or it has
 * ended (which lets unref know that a sole reference to a COMPLETE task stays the only one). */
static inline bool wefti_word_try_ref(wefti_word *word) {
    uint64_t found = load_relaxed(word); /* only compared */
    do {
        if (wefti_word_life(found) == WEFTI_FREE || wefti_word_life(found) == WEFTI_COMPLETE)
            return false;
        wefti_word_check_refs(found);
    } while (!cas_acquire(word, &found, found + WEFTI_REF_ONE)); /* pairs with spawn: the fields */
    return true;
}

/* The holder of a handle: is it COMPLETE, and his reference the only one?  Then nobody can make another, and he frees, with no
 * read-modify-write. */
static inline bool wefti_word_is_only(wefti_word *word) {
    uint64_t found = load_acquire(word); /* as unref */
    return (found & (WEFTI_LIFE_MASK | WEFTI_JOINABLE | WEFTI_REF_MASK)) ==
           (WEFTI_COMPLETE | WEFTI_JOINABLE | WEFTI_REF_ONE);
}

/* One reference less, and `clear` of the flags with it.  True: it was the last, the caller frees. */
static inline bool wefti_word_unref(wefti_word *word, uint64_t clear) {
    uint64_t found = load_acquire(word); /* pairs with the other holders' unref and to_complete */
    if (wefti_word_life(found) == WEFTI_COMPLETE && wefti_word_refs(found) == 1)
        return true; /* ours is the only one, and nobody can make another: no read-modify-write */
    found = sub_acq_rel(word, WEFTI_REF_ONE + clear); /* release: our use is over; acquire: so is everyone's */
    wefti_assert(wefti_word_refs(found) > 0, found);
    return wefti_word_refs(found) == 1;
}

#endif
