/* pass_fd.c - a descriptor goes to somebody else over a Unix socket: a pipe's writing end, with a line that says what it is for. */
#include <stdio.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

/* Another process, in earnest: whoever has the other end of the socket. */
static int helper(void *arg) {
    weft_io *socket = arg, *out;
    char task[32];
    int fd = -1;
    unsigned count = 1; /* room for one */
    ssize_t n = weft_recv_fds(socket, task, sizeof task, &fd, &count, weft_after(10 * SECOND));
    if (n > 0 && fd >= 0) {
        printf("asked to %.*s, with %u descriptor\n", (int)n, task, count);
        int error = weft_io_open(fd, 0, &out); /* which owns it now */
        if (error)
            return error;
        weft_write(out, "hello from the helper\n", 22, weft_after(10 * SECOND));
        weft_close(out);
    }
    return weft_close(socket);
}

static int run(void *arg) {
    (void)arg;
    weft_io *ours, *theirs, *in, *out;
    weft_task *task;
    char text[64];
    int error = weft_socketpair(&ours, &theirs);
    if (error || (error = weft_pipe(&in, &out)) || (error = weft_fiber_go(NULL, helper, theirs, &task)))
        return error;
    int fd = weft_io_fd(out);
    if (weft_send_fds(ours, "greet", 5, &fd, 1, weft_after(10 * SECOND)) == 5) {
        weft_close(out); /* theirs is a copy: when both are closed, the pipe ends */
        ssize_t n = weft_read_exact(in, text, sizeof text, weft_after(10 * SECOND));
        printf("%.*s", n > 0 ? (int)n : 0, text);
    }
    weft_join(task, NULL, WEFT_NEVER);
    weft_task_drop(task);
    weft_close(in);
    return weft_close(ours);
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
