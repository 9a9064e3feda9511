/* embed.c - a runtime inside a program that has its own loop.
 * The loop sleeps in poll(2) on a pipe of its own and on an eventfd, through which weft says that it has work. */
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <weft/weft.h>

struct reader {
    weft_waker waker; /* kept by the loop, to wake the task with */
    char byte;        /* 0: nothing there */
};

/* Prints what the loop hands over; ends at the full stop. */
static weft_poll reader(weft_task *self, void *state) {
    struct reader *r = state;
    char byte = r->byte;
    r->byte = 0;
    if (!r->waker.target)
        r->waker = weft_waker_of(self);
    if (byte)
        printf("task got '%c'\n", byte);
    return byte == '.' ? WEFT_READY : WEFT_PENDING;
}

/* From any thread, must not block. */
static void work_again(void *arg) {
    if (eventfd_write(*(int *)arg, 1) < 0)
        perror("eventfd");
}

int main(void) {
    struct reader r = {{NULL}, 0};
    int input[2], event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt;
    weft_task *task;

    config.workers = 1;
    config.driven = true;
    config.wake = work_again;
    config.wake_arg = &event;
    if (event < 0 || pipe(input) < 0 || write(input[1], "abc.", 4) != 4)
        return 1;
    if (weft_runtime_create(&config, &rt) < 0 || weft_go(rt, reader, &r, &task) < 0)
        return 1;

    while (weft_drive(rt, 0) >= 0 && !weft_task_is_done(task)) {
        struct pollfd fds[2] = {{event, POLLIN, 0}, {input[0], POLLIN, 0}};
        eventfd_t count;
        if (poll(fds, 2, -1) < 0)
            break;
        if (fds[0].revents)
            eventfd_read(event, &count); /* go round and drive */
        else if (fds[1].revents && read(input[0], &r.byte, 1) == 1)
            weft_waker_wake_keep(r.waker);
    }
    printf("task is %s\n", weft_task_state(task));
    weft_waker_drop(r.waker);
    weft_task_drop(task);
    return weft_runtime_destroy(rt) < 0;
}
