/* select_io.c - one fiber serves two connections and listens for an event that tells it to stop. */
#include <stdio.h>
#include <weft/weft.h>

static weft_event stop = WEFT_EVENT_INIT;

static int relay(void *arg) {
    weft_io **from = arg;
    char text[32];
    for (;;) {
        weft_case cases[] = {
            weft_case_io(from[0], WEFT_FD_READ),
            weft_case_io(from[1], WEFT_FD_READ),
            weft_case_event(&stop),
        };
        int which = weft_select(cases, 3, weft_after(10 * INT64_C(1000000000)));
        if (which < 0 || which == 2)
            return which == 2 ? printf("asked to stop\n") : which;
        ssize_t n = weft_read(from[which], text, sizeof text, WEFT_NOW); /* ready: does not wait */
        if (n > 0)
            printf("from %d: %.*s\n", which, (int)n, text);
    }
}

static int run(void *arg) {
    (void)arg;
    weft_io *in[2], *out[2];
    weft_task *task;
    if (weft_socketpair(&in[0], &out[0]) < 0 || weft_pipe(&in[1], &out[1]) < 0 ||
        weft_fiber_go(NULL, relay, in, &task) < 0)
        return -1;
    (void)!weft_write(out[1], "a pipe", 6, WEFT_NEVER);
    (void)weft_sleep(20 * 1000000);
    (void)!weft_write(out[0], "a socket", 8, WEFT_NEVER);
    (void)weft_sleep(20 * 1000000);
    weft_event_set(&stop);
    weft_join(task, NULL, WEFT_NEVER);
    weft_task_drop(task);
    for (int i = 0; i < 2; i++)
        weft_close(in[i]), weft_close(out[i]);
    return 0;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
