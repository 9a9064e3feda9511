/* blocking.c - work that blocks, on threads of its own: three lookups at a time, while the one worker runs everything else. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

struct lookup {
    const char *name;
    size_t answer;
};

/* Runs on a thread of the pool: here it may block. */
static int look_up(void *arg) {
    struct lookup *lookup = arg;
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    lookup->answer = strlen(lookup->name);
    return lookup->answer ? 0 : -1;
}

/* Runs as a fiber: it waits, its worker does not. */
static int ask(void *arg) {
    struct lookup lookup = {.name = arg};
    int found;
    int error = weft_blocking(look_up, &lookup, &found, WEFT_NEVER);
    if (error < 0)
        return error;
    weft_fiber_result((void *)lookup.answer);
    return found;
}

static int start(void *arg) {
    (void)arg;
    static char *const names[] = {"warp", "weft", "selvage"};
    weft_task *task[3];
    for (int i = 0; i < 3; i++)
        if (weft_fiber_go(NULL, ask, names[i], &task[i]) < 0)
            return -1;
    for (int i = 0; i < 3; i++) {
        weft_result result;
        if (weft_join(task[i], &result, WEFT_NEVER) < 0 || result.status < 0)
            return -1;
        printf("%s: %zu\n", names[i], (size_t)result.value);
        weft_task_drop(task[i]);
    }
    return 0;
}

int main(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    return weft_fiber_run(&config, start, NULL, NULL) < 0;
}
