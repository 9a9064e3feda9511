/* idle.h - who sleeps and who searches: how workers stop without missing work.
 *
 * What.   A worker that finds nothing announces itself in a bitmap and sleeps; whoever publishes work wakes the
 *         lowest sleeper, unless somebody is searching, who will find it.
 * Words.  parked: bit i = worker i may be woken.  searching: workers that look at other queues, counting those that were
 *         woken to do so.  worker->claimed: "you were counted into searching; go".
 * Race.   submit: S1 publish a task               sleep: P1 set my bit
 *                 S2 fence F1                            P2 stop searching: searching -= 1
 *                 S3 somebody searches: done             P3 fence F2
 *                 S4 take the lowest bit: claim          P4 nobody searches: look at every public queue again
 *                 S5 searching += 1, claimed             P5 sleep
 *                 S6 wake that worker                    P6 clear my bit; if somebody claimed it, wait for S5
 *         found:  G1 searching -= 1;  G2 it was the last: fence F2;  G3 work is left: submit from S3
 * Claim.  A published task is never left with every worker asleep.
 * Why.    F1 and F2 are full fences, and one comes first.  F2 first: S3 sees the count after P2, S4 sees the bit of P1.  F1
 *         first: P4 (or G3) sees the task.  Who skips P4 because of a searcher, or S4 for the same reason, leaves the
 *         task to that searcher; its own P2 or G1 is later than the read that saw it, so its F2 is after F1 and its
 *         look is one that sees the task.  Acquire and release would not do: each side writes one word and
 *         reads the other's.
 * Watch.  watcher: 1 + which sleeper looks now and then (worker.c), 0 if none does.  Who lies down and finds none becomes it, W2; it is that until
 *         it gets up, W1, or is claimed, S5.  If it finds something to do it owes the others a successor, unless there is one by then:
 *                 get up: W1 watcher = 0                          sleep: P1 set my bit
 *                         W3 fence F3                                    P3 fence F2
 *                         W4 nobody watches: claim a sleeper,            W2 nobody watches: watcher = me
 *                            watcher = that one, wake it
 *         A worker that is up and still the watcher, by W4, owes that as well: else all would rely on one who does not look.
 *         F3 first: W2 sees that it is needed.  F2 first: W4 sees the sleeper.  The successor is named by W4: else who wakes it would often
 *         lie down before it, and be the watcher again.
 * Rejected.  The highest sleeper as the watcher: where a fiber of that one is woken again and again, it woke another each time.
 *         A count of sleepers beside the bitmap: the two disagree between their updates, and that is where published
 *         runtimes hung.  The number of sleepers is the number of bits.
 *         Waking another worker at G2 whether or not work is left: on two cores each wake costs more than a short task.
 * Not covered.  A task in a worker's LIFO slot or batch (lifo.h): its owner is awake, and flushes both before P1.
 * Checked by.  test/model/idle.c
 */
#ifndef WEFTI_SCHED_IDLE_H
#define WEFTI_SCHED_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

#define WEFTI_WORKERS_MAX 1024u

struct wefti_idle {
    _Alignas(64) _Atomic uint32_t searching;
    uint32_t workers;
    _Alignas(64) _Atomic uint64_t parked[WEFTI_WORKERS_MAX / 64];
    _Alignas(64) _Atomic uint64_t
        forking[WEFTI_WORKERS_MAX / 64]; /* bit i: worker i waits for a stolen job, and would run others */
    _Alignas(64) _Atomic uint32_t watcher;
};

/* B44: at most half of the workers search. */
static inline bool wefti_idle_try_search(struct wefti_idle *idle) {
    if (2 * load_relaxed(&idle->searching) >= idle->workers) /* a cap, not a promise */
        return false;
    add_relaxed(&idle->searching, 1); /* F2 orders it for those who rely on us */
    return true;
}

/* P2, G1.  True: it was the last. */
static inline bool wefti_idle_end_search(struct wefti_idle *idle) {
    uint32_t found = sub_relaxed(&idle->searching, 1); /* F2 orders it */
    /* A worker between P1 and P2 may be claimed, and counts twice for that moment. */
    wefti_assert(found > 0 && found <= 2 * idle->workers, found);
    return found == 1;
}

/* P1 */
static inline void wefti_idle_announce(struct wefti_idle *idle, uint32_t worker) {
    /* Release, to the claimer: our `claimed = 0` is over before he sets it again.  F2 does the rest. */
    uint64_t found = or_release(&idle->parked[worker / 64], UINT64_C(1) << worker % 64);
    wefti_assert(!(found >> worker % 64 & 1), found);
}

/* P6.  True: the bit was still ours.  False: claimed. */
static inline bool wefti_idle_retract(struct wefti_idle *idle, uint32_t worker) {
    uint64_t bit = UINT64_C(1) << worker % 64;
    return and_relaxed(&idle->parked[worker / 64], ~bit) & bit; /* `claimed` hands over */
}

/* S4, for a particular worker.  True: it was parked, and is the caller's to wake. */
static inline bool wefti_idle_claim_one(struct wefti_idle *idle, uint32_t worker) {
    uint64_t bit = UINT64_C(1) << worker % 64;
    return and_acquire(&idle->parked[worker / 64], ~bit) & bit; /* pairs with announce */
}

/* S4.  The lowest parked worker, now the caller's to wake, or -1.  last_0: worker 0 only if no other is parked. */
static inline int wefti_idle_claim(struct wefti_idle *idle, bool last_0) {
    uint64_t skip = last_0;
    for (uint32_t i = 0; i < (idle->workers + 63) / 64; i++, skip = 0) {
        uint64_t word;
        while ((word = load_relaxed(&idle->parked[i]) & ~skip)) { /* F1 orders it */
            uint32_t worker = i * 64 + (uint32_t)__builtin_ctzll(word);
            if (wefti_idle_claim_one(idle, worker))
                return (int)worker; /* else somebody else got that one */
        }
    }
    return last_0 && wefti_idle_claim_one(idle, 0) ? 0 : -1;
}

/* W2, W4.  True: this one watches, from now on or still. */
static inline bool wefti_idle_keep_watch(struct wefti_idle *idle, uint32_t worker) {
    uint32_t found = load_relaxed(&idle->watcher); /* F2 orders it */
    return (found == 0 && cas_relaxed(&idle->watcher, &found, worker + 1)) || found == worker + 1;
}

/* W1; S5, for one that is claimed; and for a successor that has found something to do. */
static inline void wefti_idle_leave_watch(struct wefti_idle *idle, uint32_t worker) {
    uint32_t found = worker + 1;
    if (load_relaxed(&idle->watcher) == found) /* as it was when its bit was set, or by the caller himself */
        (void)cas_relaxed(&idle->watcher, &found, 0); /* F3 orders it; not if it has been left and taken meanwhile */
}

/* Workers that wait for a stolen job (fork.c).  They run jobs and nothing else, so they are not parked: a wake that is meant
 * for tasks must not end with them.  All hints: a job that nobody takes is run by who forked it. */
static inline void wefti_idle_set_forking(struct wefti_idle *idle, uint32_t worker) {
    or_relaxed(&idle->forking[worker / 64], UINT64_C(1) << worker % 64);
}
static inline void wefti_idle_clear_forking(struct wefti_idle *idle, uint32_t worker) {
    and_relaxed(&idle->forking[worker / 64], ~(UINT64_C(1) << worker % 64));
}
/* One of them, no longer marked, or -1. */
static inline int wefti_idle_take_forking(struct wefti_idle *idle) {
    for (uint32_t i = 0; i < (idle->workers + 63) / 64; i++) {
        uint64_t word = load_relaxed(&idle->forking[i]), bit = word & -word;
        if (word && (and_relaxed(&idle->forking[i], ~bit) & bit))
            return (int)(i * 64 + (uint32_t)__builtin_ctzll(word));
    }
    return -1;
}

/* Hints, without a fence.  The highest parked worker, or -1. */
static inline int wefti_idle_highest(struct wefti_idle *idle) {
    for (uint32_t i = (idle->workers + 63) / 64; i-- > 0;) {
        uint64_t word = load_relaxed(&idle->parked[i]);
        if (word)
            return (int)(i * 64 + 63 - (uint32_t)__builtin_clzll(word));
    }
    return -1;
}
static inline bool wefti_idle_has_parked(struct wefti_idle *idle) {
    for (uint32_t i = 0; i < (idle->workers + 63) / 64; i++)
        if (load_relaxed(&idle->parked[i]))
            return true;
    return false;
}
static inline uint32_t wefti_idle_parked(struct wefti_idle *idle) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < (idle->workers + 63) / 64; i++)
        count += (uint32_t)__builtin_popcountll(load_relaxed(&idle->parked[i]));
    return count;
}

#endif
