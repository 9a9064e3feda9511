/* alarm.h - a task that is to be woken at a time: a timer, and for whom.
 *
 * Where.  A fiber that waits has one beside its stack (stack/stack.h): not on it, since a wheel goes through a great many of them, and each
 *         touch of a stack that was left long ago is a page that is in no cache.  A poll task has it in its state.
 * Who.    sched/timers.c, which has the protocol. */
#ifndef WEFTI_TIME_ALARM_H
#define WEFTI_TIME_ALARM_H

#include "time/wheel.h"

struct weft_task;
struct wefti_worker;

struct wefti_alarm {
    struct wefti_timer timer;
    struct weft_task *task;
    struct wefti_worker *worker; /* whose wheel it is in */
};

#endif
