/* cancel.c - end a task from outside, and keep a piece of work whole with a shield. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

/* Runs for ever, unless it is cancelled. */
static weft_poll pump(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_YIELD;
}

/* Called once when the task has ended, however it ended. */
static void pump_drop(void *state) { printf("%s: cleaned up\n", (const char *)state); }

/* Writes three records that belong together, although it is asked to end after the first. */
static weft_poll writer(weft_task *self, void *state) {
    int *written = state;
    switch (++*written) {
    case 1:
        if (weft_shield(self) < 0)
            return WEFT_READY;
        weft_task_cancel(self); /* anybody with a handle could do this */
        return WEFT_YIELD;
    case 3: weft_unshield(self); return WEFT_YIELD; /* the request takes effect: no fourth call */
    default: return WEFT_YIELD;
    }
}

static const char *how(int status) { return status == -ECANCELED ? "cancelled" : status < 0 ? "failed" : "finished"; }

int main(void) {
    weft_runtime *rt;
    weft_task *task;
    weft_result result;
    weft_spec spec = WEFT_SPEC_INIT;
    int written = 0;

    if (weft_runtime_create(NULL, &rt) < 0)
        return 1;
    spec.poll = pump;
    spec.state = "pump";
    spec.drop = pump_drop;
    if (weft_spawn(rt, &spec, &task) < 0)
        return 1;
    weft_task_cancel(task);
    weft_join(task, &result, WEFT_NEVER);
    printf("pump: %s\n", how(result.status));
    weft_task_drop(task);

    if (weft_go(rt, writer, &written, &task) < 0)
        return 1;
    weft_join(task, &result, WEFT_NEVER);
    printf("writer: %s after %d records\n", how(result.status), written);
    weft_task_drop(task);
    return weft_runtime_destroy(rt) < 0;
}
