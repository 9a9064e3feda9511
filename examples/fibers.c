/* fibers.c - hello from three fibers: functions that wait as if they blocked, on one thread or many.
 * The sum of their results comes back to the one that joins them. */
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

static int greet(void *arg) {
    const char *name = arg;
    int steps = 0;
    while (name[steps]) {
        weft_yield(); /* let the others run */
        steps++;
    }
    return steps; /* 0 or more: my result.  Negative: an error */
}

static int hello(void *arg) {
    (void)arg;
    static const char *const names[] = {"ada", "grace", "barbara"};
    weft_task *task[3];
    intptr_t sum = 0;
    for (int i = 0; i < 3; i++) {
        int error = weft_fiber_go(NULL, greet, (void *)names[i], &task[i]);
        if (error < 0)
            return error; /* those that were started still end before the runtime does */
    }
    for (int i = 0; i < 3; i++) {
        weft_result result;
        int error = weft_join(task[i], &result, WEFT_NEVER); /* this fiber waits, its worker does not */
        if (error < 0)
            return error;
        printf("%s: %ld steps\n", names[i], (long)(intptr_t)result.value);
        sum += (intptr_t)result.value;
        weft_task_drop(task[i]);
    }
    printf("%ld in all\n", (long)sum);
    return 0;
}

int main(void) { return weft_fiber_run(NULL, hello, NULL, NULL) < 0; }
