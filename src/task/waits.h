/* waits.h - what a task waits for, in words: the same for fibers and poll tasks.  Internal.
 *
 * A fiber has the words themselves (task/fiber.h, `waits`).  A poll task has a number, beside since when, in the `status` of an IDLE one:
 *
 *     | since, in units of 2^24 ns: 26 bits | others: 1 bit | enum wefti_waits: 5 bits |
 *
 * one store at the end of a poll, and one load for a dump.  Every _poll call that says -EAGAIN leaves its number with the worker
 * (fiber/wait.h, wefti_poll_waits), for sched/worker.c to find when the poll has said WEFT_PENDING.
 */
#ifndef WEFTI_TASK_WAITS_H
#define WEFTI_TASK_WAITS_H

#include "base/assert.h"

enum wefti_waits {
    WEFTI_WAITS_UNKNOWN, /* for a waker */
    WEFTI_A_MUTEX,
    WEFTI_A_READ_LOCK,
    WEFTI_A_WRITE_LOCK,
    WEFTI_A_CONDITION,
    WEFTI_A_SEMAPHORE,
    WEFTI_AN_EVENT,
    WEFTI_A_BARRIER,
    WEFTI_DONE_ONCE,
    WEFTI_A_GROUP,
    WEFTI_A_VALUE,
    WEFTI_ROOM,
    WEFTI_A_BROADCAST,
    WEFTI_A_WATCH,
    WEFTI_A_TIMER,
    WEFTI_A_JOB,
    WEFTI_TO_READ,
    WEFTI_TO_WRITE,
    WEFTI_A_NURSERY, /* a fiber has its name instead, if it was given one */
    WEFTI_A_TASK,    /* a dump finds its name, if there are not too many */
    WEFTI_WAITS_END
};
#define WEFTI_WAITS_OTHERS 0x20u /* the last of several, in one poll */
#define WEFTI_WAITS_MASK 0x1fu
#define WEFTI_WAITS_BITS 6
_Static_assert(WEFTI_WAITS_END <= WEFTI_WAITS_MASK + 1, "as many as there are numbers");

/* NULL: unknown, or no such number. */
static inline const char *wefti_words(unsigned waits) {
    static const char *const words[WEFTI_WAITS_MASK + 1] = {
        [WEFTI_A_MUTEX] = "a mutex",
        [WEFTI_A_READ_LOCK] = "a read lock",
        [WEFTI_A_WRITE_LOCK] = "a write lock",
        [WEFTI_A_CONDITION] = "a condition",
        [WEFTI_A_SEMAPHORE] = "a semaphore",
        [WEFTI_AN_EVENT] = "an event",
        [WEFTI_A_BARRIER] = "a barrier",
        [WEFTI_DONE_ONCE] = "what is done once",
        [WEFTI_A_GROUP] = "a group",
        [WEFTI_A_VALUE] = "a value from a channel",
        [WEFTI_ROOM] = "room in a channel",
        [WEFTI_A_BROADCAST] = "a broadcast",
        [WEFTI_A_WATCH] = "a watch",
        [WEFTI_A_TIMER] = "a timer",
        [WEFTI_A_JOB] = "a blocking job",
        [WEFTI_TO_READ] = "a descriptor to read",
        [WEFTI_TO_WRITE] = "a descriptor to write",
        [WEFTI_A_NURSERY] = "a nursery",
        [WEFTI_A_TASK] = "a task",
    };
    return words[waits & WEFTI_WAITS_MASK];
}

#endif
