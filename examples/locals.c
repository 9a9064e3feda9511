/* locals.c - fiber-locals: a log prefix that every fiber has for itself, freed when the fiber ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

static unsigned prefix;
static int freed; /* by fibers of one worker */

static void free_prefix(void *value) {
    free(value);
    freed++;
}

static void say(const char *text) { printf("[%s] %s\n", (const char *)weft_local_get(prefix), text); }

static int serve(void *arg) {
    char *text = malloc(16);
    if (!text)
        return -ENOMEM;
    snprintf(text, 16, "request %d", *(int *)arg);
    int error = weft_local_set(prefix, text);
    if (error)
        return free(text), error;
    say("begins");
    weft_yield(); /* whoever runs meanwhile has its own */
    say("ends");
    return 0;
}

static int start(void *arg) {
    int *number = arg;
    for (int i = 0; i < 2; i++) {
        weft_task *task;
        int error = weft_fiber_go(NULL, serve, &number[i], &task);
        if (error)
            return error;
        weft_join(task, NULL, WEFT_NEVER);
        weft_task_drop(task);
    }
    return 0;
}

int main(void) {
    int number[] = {1, 2};
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    if (weft_local_create(&prefix, free_prefix) < 0 || weft_fiber_run(&config, start, number, NULL) < 0)
        return 1;
    printf("%d freed\n", freed);
    return 0;
}
