/* metered.c - a loop that never waits, and still lets others run: compiled with weft-cc. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static int spin(void *arg) {
    volatile unsigned *turns = arg;
    for (;;) /* no wait, no call: the others run all the same */
        ++*turns;
    return 0;
}

static int main_fiber(void *arg) {
    volatile unsigned turns = 0;
    weft_task *task;
    weft_result result;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    (void)arg;

    spec.fn = spin;
    spec.arg = (void *)&turns;
    spec.discard = true; /* it owns nothing: it may be ended where it is */
    if (weft_fiber_spawn(NULL, &spec, &task) < 0)
        return -1;
    while (turns == 0)
        weft_yield(); /* one worker: now it spins */
    printf("still here\n");

    weft_task_cancel(task);
    int error = weft_join(task, &result, WEFT_NEVER);
    printf("the loop has ended: %s\n", !error && result.status == -ECANCELED ? "cancelled" : "no");
    printf("it did some turns: %s\n", turns > 0 ? "yes" : "no");
    weft_task_drop(task);
    return 0;
}

int main(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    return weft_fiber_run(&config, main_fiber, NULL, NULL) < 0;
}
