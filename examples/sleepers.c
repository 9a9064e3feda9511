/* sleepers.c - sleep sort: each fiber sleeps as long as its number, then says it.
 * Then one that sleeps for ever is cancelled, and cleans up behind a shield. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

static int say_later(void *arg) {
    int error = weft_sleep((intptr_t)arg * 20 * 1000000); /* 20 ms each: others run meanwhile */
    if (!error)
        printf("%d\n", (int)(intptr_t)arg);
    return error;
}

static int sleep_for_ever(void *arg) {
    (void)arg;
    int error = weft_sleep_until(WEFT_NEVER); /* -ECANCELED: and so says every wait from now on ... */
    weft_task *self = weft_task_self();
    weft_shield(self);
    weft_sleep(1000000); /* ... but not behind a shield */
    weft_unshield(self);
    printf("cleaned up\n");
    return error;
}

static int sort(void *arg) {
    (void)arg;
    static const int numbers[] = {5, 2, 8, 1, 4};
    weft_task *task[5], *last;
    weft_result result;
    int error = 0;
    for (int i = 0; i < 5 && !error; i++)
        error = weft_fiber_go(NULL, say_later, (void *)(intptr_t)numbers[i], &task[i]);
    if (error || (error = weft_fiber_go(NULL, sleep_for_ever, NULL, &last)))
        return error;
    for (int i = 0; i < 5; i++) {
        weft_join(task[i], NULL, WEFT_NEVER);
        weft_task_drop(task[i]);
    }
    if (weft_join(last, &result, weft_after(1000000)) == -ETIMEDOUT)
        printf("one sleeps on\n");
    weft_task_cancel(last);
    weft_join(last, &result, WEFT_NEVER);
    weft_task_drop(last);
    printf("it was %s\n", result.status == -ECANCELED ? "cancelled" : "not cancelled");
    return 0;
}

int main(void) { return weft_fiber_run(NULL, sort, NULL, NULL) < 0; }
