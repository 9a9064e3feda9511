/* wheel.h - timers: five levels of 64 slots at one millisecond, O(1) to add and to take out.
 *
 * What.   Level 0 has a slot a tick, level l a slot for 64^l ticks.  A timer lies at the level of the highest 6-bit digit in which
 *         its tick differs from the wheel's; when the wheel gets to that slot, its timers move down.  Beyond 64^5 ticks
 *         (12 days) they wait in the last slot of level 4 and are put in again.
 * Next.   Each slot remembers the earliest tick that was put into it since it was last empty: a sleeper wakes for a timer, or for one that
 *         was taken out since, but not for the moves between levels, which are made when somebody looks anyway.
 * Far.    Timers that were set long ago are in no cache, and each is found through the one before it.  So each also has a hint, the one that
 *         lay a few places behind it when it was put in, which is fetched while those in between are dealt with.  It is never followed: who
 *         was there may be gone.
 * Order.  Timers come out in the order of their ticks.  Within a tick (1 ms) the order is that of the slot's list, which is neither
 *         that of the deadlines nor that of arrival.  A wheel with `sorted` set sorts each slot by deadline when it expires, and the
 *         timers that were added late among themselves; equal deadlines keep no particular order.  Sorting touches every timer
 *         of the slot before the first one comes out, which costs cache misses with many timers per tick, so only the
 *         wheel of a control thread does it.
 * Claim.  A timer comes out at the first `expire` whose time is not before its tick, never earlier.
 * Who.    Whoever holds the wheel's lock (sched/timers.c), or the one worker of a runtime that has one.
 * Checked by.  test/unit/time_wheel.c
 */
#ifndef WEFTI_TIME_WHEEL_H
#define WEFTI_TIME_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define WEFTI_WHEEL_LEVELS 5u
#define WEFTI_WHEEL_SLOTS 64u
#define WEFTI_WHEEL_AHEAD 4u
#define WEFTI_WHEEL_TICK INT64_C(1000000) /* ns */

struct wefti_timer {
    struct wefti_timer *next, **at; /* at: the pointer that points here; NULL: in no wheel */
    uint64_t tick;
    const void *ahead; /* a hint */
    uint32_t early;    /* ns from the deadline to its tick: orders timers of one tick */
    _Atomic bool rang; /* the alarm's (alarm.h), which has no room left in its cache line */
};

struct wefti_wheel {
    uint64_t tick; /* everything before it has come out */
    _Atomic uint64_t count; /* written under the lock; who looks without it gets a hint */
    uint64_t filled[WEFTI_WHEEL_LEVELS]; /* bit i: slot i is not empty */
    struct wefti_timer *slot[WEFTI_WHEEL_LEVELS][WEFTI_WHEEL_SLOTS];
    uint64_t earliest[WEFTI_WHEEL_LEVELS]
                     [WEFTI_WHEEL_SLOTS]; /* of a slot that is not empty: no timer in it is before */
    const void *recent[WEFTI_WHEEL_LEVELS][WEFTI_WHEEL_SLOTS]
                      [WEFTI_WHEEL_AHEAD]; /* the last that were put into a slot, in turn: hints */
    uint8_t turn[WEFTI_WHEEL_LEVELS][WEFTI_WHEEL_SLOTS];
    struct wefti_timer *due; /* of ticks that the wheel has passed */
    struct wefti_timer *late; /* sorted: added when their tick had passed; they come out after `due` */
    bool sorted; /* timers of one tick come out in the order of their deadlines */
};

/* `timer` comes out at `deadline` (ns of the clock that expire is told). */
void wefti_wheel_add(struct wefti_wheel *wheel, struct wefti_timer *timer, int64_t deadline);
/* Nothing happens when it is in no wheel. */
void wefti_wheel_remove(struct wefti_wheel *wheel, struct wefti_timer *timer);
/* A timer whose deadline is not after `now`, taken out; NULL: none. */
struct wefti_timer *wefti_wheel_expire(struct wefti_wheel *wheel, int64_t now);
/* When to look again: no timer comes out before it.  INT64_MAX: there is none. */
int64_t wefti_wheel_next(const struct wefti_wheel *wheel);

#endif
