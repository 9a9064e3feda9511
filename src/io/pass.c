/* pass.c - descriptors that go to another process with the bytes of a Unix socket (SCM_RIGHTS). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/writer.h"

#define PASSED_MAX 253 /* of the system's: no message has more */

struct passed {
    struct iovec part;
    const int *fds; /* to send */
    unsigned count;
    int *into; /* to receive */
    unsigned room;
};

union control {
    struct cmsghdr head; /* aligns it */
    char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
};

static bool can_pass(const struct weft_io *io) {
    int domain = 0;
    socklen_t size = sizeof domain;
    return io->plain && !getsockopt(io->fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_UNIX;
}

static ssize_t send_once(struct weft_io *io, void *arg) {
    struct passed *p = arg;
    union control control;
    struct msghdr message = {.msg_iov = &p->part, .msg_iovlen = 1};
    if (!can_pass(io))
        return -EOPNOTSUPP;
    if (p->count) {
        size_t size = p->count * sizeof(int);
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(head), p->fds, size);
    }
    ssize_t n = sendmsg(io->fd, &message, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

/* One by one: what has no room is closed. */
static void take(struct passed *p, const struct cmsghdr *head) {
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        if (p->count < p->room)
            p->into[p->count] = fd;
        else
            close(fd);
        p->count++;
    }
}

static ssize_t recv_once(struct weft_io *io, void *arg) {
    struct passed *p = arg;
    union control control;
    struct msghdr message = {
        .msg_iov = &p->part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (!can_pass(io))
        return -EOPNOTSUPP;
    ssize_t n = recvmsg(io->fd, &message, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head))
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
            take(p, head);
    if (message.msg_flags & MSG_CTRUNC) { /* the system could not open them all */
        while (p->count < p->room)
            p->into[p->count++] = -1;
        p->count = p->count > p->room ? p->count : p->room + 1;
    }
    return n;
}

ssize_t weft_send_fds(weft_io *io, const void *bytes, size_t size, const int *fds, unsigned count,
                      weft_deadline until) {
    struct passed p = {.part = {(void *)(uintptr_t)bytes, size}, .fds = fds, .count = count};
    if (!io || !size || count > PASSED_MAX || (count && !fds))
        return -EINVAL;
    if (io->layer)
        return -EOPNOTSUPP;
    int error = wefti_write_begin(io, until);
    if (error)
        return error;
    ssize_t n = wefti_desc_call(io, WEFTI_OUT, send_once, &p, 0, until);
    if (n >= 0)
        return wefti_write_rest(io, bytes, (size_t)n, size, until);
    wefti_write_end(io);
    return n;
}

ssize_t weft_recv_fds(weft_io *io, void *buffer, size_t size, int *fds, unsigned *count, weft_deadline until) {
    if (!io || !size || !count || (*count && !fds))
        return -EINVAL;
    struct passed p = {.part = {buffer, size}, .into = fds, .room = *count};
    if (io->layer)
        return -EOPNOTSUPP;
    ssize_t n = wefti_desc_call(io, WEFTI_IN, recv_once, &p, 0, until);
    if (n >= 0)
        *count = p.count;
    return n;
}
