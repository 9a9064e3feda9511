/* timer.c - the command that waits for a time: a poll task with an alarm. */
#include "process/helper.h"

struct timer {
    struct wefti_helper helper;
    struct wefti_alarm alarm;
    int64_t at;
    bool set;
};
_Static_assert(sizeof(struct timer) <= WEFT_STATE_MAX, "room enough");

static weft_poll poll(weft_task *self, void *state) {
    struct timer *timer = state;
    if (!timer->set) {
        wefti_alarm_set(wefti_worker_self(), &timer->alarm, self, timer->at);
        timer->set = true;
        return WEFT_PENDING;
    }
    if (!load_relaxed(&timer->alarm.timer.rang)) /* drop acquires it */
        return WEFT_PENDING;
    timer->helper.error = 0;
    return WEFT_READY;
}

static void drop(void *state) {
    struct timer *timer = state;
    if (timer->set)
        wefti_alarm_clear(&timer->alarm);
    wefti_helper_end(&timer->helper);
}

int wefti_command_timer(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_timer *asked = command->data;
    if (command->size != sizeof *asked)
        return -EINVAL;
    struct wefti_room room;
    int error = wefti_spawn_room(command->rt, sizeof(struct timer), &room);
    if (error)
        return error;
    struct weft_task *task = room.task;
    task->name = "timer";
    task->poll = poll;
    task->drop = drop;
    task->home = 0;
    task->layout |= WEFTI_STATE_LARGE;
    struct timer *timer = wefti_task_state(task);
    memset(timer, 0, sizeof *timer);
    timer->at = asked->at;
    return wefti_helper_begin(&timer->helper, command, &room);
}
