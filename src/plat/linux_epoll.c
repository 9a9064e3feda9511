/* linux_epoll.c - the poller on epoll: edge-triggered readiness. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "plat/fault.h"
#include "plat/poller.h"

static void close_epoll(struct wefti_poller *poller) {
    if (poller->poke >= 0)
        close(poller->poke);
    if (poller->poll >= 0)
        close(poller->poll);
    if (poller->room)
        wefti_free(poller->room, poller->batch * sizeof(struct epoll_event));
    poller->poll = poller->poke = -1;
    poller->room = NULL;
}

static int open_epoll(struct wefti_poller *poller) {
    poller->poll = poller->poke = -1;
    poller->room = wefti_alloc(poller->batch * sizeof(struct epoll_event));
    int error = poller->room ? 0 : -ENOMEM;
    if (!error && wefti_fault_here())
        error = -EMFILE;
    if (!error && (poller->poll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        error = -errno;
    if (!error && (poller->poke = wefti_poke_open()) < 0)
        error = poller->poke;
    /* Edge-triggered: each write is told once, and nobody has to read it away. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    if (!error && epoll_ctl(poller->poll, EPOLL_CTL_ADD, poller->poke, &event))
        error = -errno;
    if (error)
        close_epoll(poller);
    return error;
}

static int add(struct wefti_poller *poller, int fd, void *tag) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = tag};
    return epoll_ctl(poller->poll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int arm(struct wefti_poller *poller, int fd, void *tag, uint32_t what, bool again) {
    struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = tag};
    event.events |= what & WEFTI_READABLE ? EPOLLIN | EPOLLRDHUP : 0;
    event.events |= what & WEFTI_WRITABLE ? EPOLLOUT : 0;
    return epoll_ctl(poller->poll, again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void remove_fd(struct wefti_poller *poller, int fd) {
    struct epoll_event unused; /* old kernels want one */
    epoll_ctl(poller->poll, EPOLL_CTL_DEL, fd, &unused);
}

/* epoll_pwait2 has nanoseconds; kernels before 5.11 have milliseconds, rounded up. */
static int wait_until(int epoll, struct epoll_event *events, int room, int64_t until) {
    if (until == 0 || until == INT64_MAX)
        return epoll_wait(epoll, events, room, until == 0 ? 0 : -1);
    int64_t left = until - wefti_clock();
    if (left <= 0)
        return epoll_wait(epoll, events, room, 0);
#ifdef SYS_epoll_pwait2
    static _Atomic bool absent;
    if (!load_relaxed(&absent)) { /* a hint */
        struct timespec timeout = {left / 1000000000, left % 1000000000};
        int count = (int)syscall(SYS_epoll_pwait2, epoll, events, room, &timeout, NULL, 0);
        if (count >= 0 || errno != ENOSYS)
            return count;
        store_relaxed(&absent, true);
    }
#endif
    int64_t ms = (left + 999999) / 1000000;
    return epoll_wait(epoll, events, room, ms < INT_MAX ? (int)ms : INT_MAX);
}

static int wait_events(struct wefti_poller *poller, struct wefti_poll_event *events, int64_t until) {
    struct epoll_event *raw = poller->room;
    int count = wait_until(poller->poll, raw, (int)poller->batch, until), kept = 0;
    for (int i = 0; i < count; i++) {
        if (raw[i].data.ptr)
            events[kept++] = (struct wefti_poll_event){raw[i].data.ptr, wefti_poll_ready(raw[i].events), 0};
    }
    return kept; /* an interrupted wait is one without events */
}

const struct wefti_poller_kind wefti_poller_epoll = {
    .name = "epoll",
    .open = open_epoll,
    .close = close_epoll,
    .add = add,
    .arm = arm,
    .remove = remove_fd,
    .wait = wait_events,
};
