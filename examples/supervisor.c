/* supervisor.c - a worker that crashes now and then, and is started again. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

#define MS INT64_C(1000000)

static int tries;

static int worker(void *arg) {
    printf("%s: try %d\n", (const char *)arg, ++tries);
    return tries < 3 ? -EIO : 0;
}

static void report(void *arg, size_t child, weft_supervised what, int status) {
    (void)arg;
    if (what == WEFT_SUPERVISED_ENDED)
        printf("child %zu ended: %s\n", child, weft_strerror(status));
}

static int run(void *arg) {
    (void)arg;
    static const weft_supervised_fiber children[] = {{"worker", worker, "worker", WEFT_RESTART_TRANSIENT, 0}};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    config.intensity = 5; /* more than five failures in 5 s: give up */
    config.backoff_min = 1 * MS; /* pauses of 1 ms, 2 ms, 4 ms ... (usually from a second on) */
    config.report = report;
    return weft_supervise(&config, children, 1);
}

int main(void) {
    int error = weft_fiber_run(NULL, run, NULL, NULL);
    printf("the supervisor returned: %s\n", weft_strerror(error));
    return error < 0;
}
