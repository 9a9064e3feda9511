/* stream.c - reading and writing: the calls of <weft/io.h>. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weft/stream.h>

#include "fiber/slice.h"
#include "io/mem.h"
#include "io/writer.h"

#define PARTS_MAX 1024 /* IOV_MAX */

static ssize_t or_error(ssize_t result) { return result < 0 ? -errno : result; }

struct buffer {
    void *bytes;
    size_t size;
};

static ssize_t read_once(struct weft_io *io, void *arg) {
    struct buffer *buffer = arg;
    if (WEFTI_UNLIKELY(io->mem))
        return wefti_mem_read(io->mem, buffer->bytes, buffer->size);
    return io->socket ? wefti_recv(io->fd, buffer->bytes, buffer->size)
                      : or_error(read(io->fd, buffer->bytes, buffer->size));
}

/* A socket's peer may have gone: that is an error of the call, not a signal. */
static ssize_t write_once(struct weft_io *io, void *arg) {
    struct buffer *buffer = arg;
    if (WEFTI_UNLIKELY(io->mem))
        return wefti_mem_write(io->mem, buffer->bytes, buffer->size);
    return io->socket ? wefti_send(io->fd, buffer->bytes, buffer->size)
                      : or_error(wefti_write_quietly(io->fd, buffer->bytes, buffer->size));
}

/* A stream above a descriptor: the same calls, by its own functions. */
static __attribute__((noinline)) ssize_t layered(weft_io *io, int direction, weft_stream_call call, const void *bytes,
                                                 size_t size) {
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    return direction == WEFTI_IN ? wefti_layer_read(io, &call, &part, 1) : wefti_layer_write(io, &call, &part, 1);
}

/* Nothing is asked: nothing is waited for, and no datagram taken.  0; -EBADF. */
static ssize_t read_nothing(weft_io *io) {
    int error = wefti_desc_enter(io);
    if (!error)
        wefti_desc_leave(io);
    return error;
}

ssize_t wefti_read_slow(weft_io *io, void *buffer, size_t size, weft_deadline until) {
    if (WEFTI_UNLIKELY(!io))
        return -EINVAL;
    if (WEFTI_UNLIKELY(size == 0)) {
        int error = wefti_desc_begin(until);
        return error ? error : read_nothing(io);
    }
    if (WEFTI_UNLIKELY(io->layer))
        return layered(io, WEFTI_IN, (weft_stream_call){.until = until}, buffer, size);
    if (WEFTI_LIKELY(io->plain))
        return wefti_desc_recv(io, buffer, size, until);
    struct buffer arg = {buffer, size};
    return wefti_desc_call(io, WEFTI_IN, read_once, &arg, size, until);
}

ssize_t weft_read_poll(weft_io *io, weft_task *self, weft_wait *wait, void *buffer, size_t size) {
    if (WEFTI_UNLIKELY(!io))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return layered(io, WEFTI_IN, (weft_stream_call){.self = self, .wait = wait}, buffer, size);
    struct buffer arg = {buffer, size};
    return wefti_desc_poll(io, self, wait, WEFTI_IN, read_once, &arg, size);
}

ssize_t weft_read_exact(weft_io *io, void *buffer, size_t size, weft_deadline until) {
    wefti_slice_use(until);
    size_t done = 0;
    ssize_t n = io ? wefti_desc_enter(io)
                   : -EINVAL; /* for all of it: closed between two reads, it could be another connection's */
    if (WEFTI_UNLIKELY(n))
        return n;
    for (n = 1; n > 0 && done < size; done += n > 0 ? (size_t)n : 0)
        n = weft_read(io, (char *)buffer + done, size - done, until);
    wefti_desc_leave(io);
    return n < 0 ? n : (ssize_t)done;
}

ssize_t wefti_write_held(struct weft_io *io, const void *bytes, size_t size, int64_t until) {
    if (WEFTI_LIKELY(io->plain))
        return wefti_desc_send(io, bytes, size, until);
    struct buffer arg = {(void *)(uintptr_t)bytes, size};
    return wefti_desc_call(io, WEFTI_OUT, write_once, &arg, size, until);
}

ssize_t weft_write_some(weft_io *io, const void *bytes, size_t size, weft_deadline until) {
    if (WEFTI_UNLIKELY(!io))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return layered(io, WEFTI_OUT, (weft_stream_call){.until = until}, bytes, size);
    int error = wefti_write_begin(io, until);
    if (error)
        return error;
    ssize_t n = wefti_write_held(io, bytes, size, until);
    wefti_write_end(io);
    return n;
}

ssize_t weft_write_poll(weft_io *io, weft_task *self, weft_wait *wait, const void *bytes, size_t size) {
    if (WEFTI_UNLIKELY(!io))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return layered(io, WEFTI_OUT, (weft_stream_call){.self = self, .wait = wait}, bytes, size);
    struct buffer arg = {(void *)(uintptr_t)bytes, size};
    return wefti_desc_poll(io, self, wait, WEFTI_OUT, write_once, &arg, size);
}

ssize_t wefti_write_rest(struct weft_io *io, const void *bytes, size_t done, size_t size, int64_t until) {
    ssize_t n = 0;
    while (n >= 0 && done < size) {
        n = wefti_write_held(io, (const char *)bytes + done, size - done, until);
        done += n > 0 ? (size_t)n : 0;
    }
    wefti_write_end(io);
    return n < 0 ? n : (ssize_t)done;
}

ssize_t wefti_write_slow(weft_io *io, const void *bytes, size_t size, weft_deadline until) {
    if (WEFTI_UNLIKELY(!io))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return layered(io, WEFTI_OUT, (weft_stream_call){.until = until, .all = true}, bytes, size);
    if (WEFTI_UNLIKELY(!size)) { /* no call of the system, which would spend */
        wefti_slice_use(until);
        return 0;
    }
    int error = wefti_write_begin(io, until);
    return error ? error : wefti_write_rest(io, bytes, 0, size, until);
}

/* -- Without waiting ---------------------------------------------------------------------------------------- */

ssize_t weft_try_read(weft_io *io, void *buffer, size_t size) {
    struct buffer arg = {buffer, size};
    if (WEFTI_UNLIKELY(!io || io->layer))
        return io ? -EOPNOTSUPP : -EINVAL;
    if (WEFTI_UNLIKELY(size == 0))
        return read_nothing(io);
    return wefti_desc_try(io, WEFTI_IN, read_once, &arg, size);
}

ssize_t weft_try_write(weft_io *io, const void *bytes, size_t size) {
    struct buffer arg = {(void *)(uintptr_t)bytes, size};
    if (WEFTI_UNLIKELY(!io || io->layer))
        return io ? -EOPNOTSUPP : -EINVAL;
    return wefti_desc_try(io, WEFTI_OUT, write_once, &arg, size);
}

/* Is it ready?  The system, or the network in memory, says. */
static ssize_t look_once(struct weft_io *io, void *arg) {
    int direction = *(int *)arg;
    bool ready = io->mem ? wefti_mem_is_ready(io->mem, direction)
                         : wefti_fd_state(io->fd, direction == WEFTI_IN ? WEFTI_READABLE : WEFTI_WRITABLE) != 0;
    return ready ? 0 : -EAGAIN;
}

bool wefti_io_is_silent(struct weft_io *io) {
    int in = WEFTI_IN;
    weft_stream_call call = {.until = WEFT_NOW};
    if (io->layer)
        return wefti_layer_wait(io, &call, WEFT_FD_READ) != 0;
    if (wefti_desc_enter(io))
        return true;
    bool silent = look_once(io, &in) != 0;
    wefti_desc_leave(io);
    return silent;
}

int weft_io_wait(weft_io *io, int events, weft_deadline until) {
    weft_stream_call call = {.until = until};
    if (!io || (events != WEFT_FD_READ && events != WEFT_FD_WRITE))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return wefti_layer_wait(io, &call, events);
    int direction = events == WEFT_FD_READ ? WEFTI_IN : WEFTI_OUT;
    /* An event may be of what was read before it was told (a ring does not ask again when it tells): so look, and wait again if need be. */
    return (int)wefti_desc_call(io, direction, look_once, &direction, 0, until);
}

/* -- Several parts ----------------------------------------------------------------------------------------- */

struct parts {
    const struct iovec *parts;
    int count;
};

static ssize_t readv_once(struct weft_io *io, void *arg) {
    struct parts *p = arg;
    const struct iovec *part = p->parts;
    if (io->mem) { /* the first of them: less is always allowed */
        for (int left = p->count; left > 1 && !part->iov_len; left--)
            part++;
        return p->count ? wefti_mem_read(io->mem, part->iov_base, part->iov_len) : 0;
    }
    return or_error(readv(io->fd, p->parts, p->count));
}

static ssize_t writev_once(struct weft_io *io, void *arg) {
    struct parts *p = arg;
    if (io->mem) /* the first is not empty */
        return wefti_mem_write(io->mem, p->parts->iov_base, p->parts->iov_len);
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)p->parts, .msg_iovlen = (size_t)p->count};
    return or_error(io->socket ? sendmsg(io->fd, &message, MSG_NOSIGNAL)
                               : wefti_writev_quietly(io->fd, p->parts, p->count));
}

static size_t total(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    return size;
}

ssize_t weft_readv(weft_io *io, const struct iovec *parts, int count, weft_deadline until) {
    struct parts arg = {parts, count < PARTS_MAX ? count : PARTS_MAX};
    weft_stream_call call = {.until = until};
    if (WEFTI_UNLIKELY(!io || count < 0))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return wefti_layer_read(io, &call, parts, count);
    return wefti_desc_call(io, WEFTI_IN, readv_once, &arg, total(parts, arg.count), until);
}

/* Between wefti_write_begin and wefti_write_end. */
static ssize_t writev_held(struct weft_io *io, const struct iovec *parts, int count, int64_t until) {
    size_t done = 0;
    for (;;) {
        for (; count && !parts->iov_len; parts++, count--)
            ;
        if (!count)
            return (ssize_t)done;
        struct parts arg = {parts, count < PARTS_MAX ? count : PARTS_MAX};
        ssize_t n = wefti_desc_call(io, WEFTI_OUT, writev_once, &arg, total(parts, arg.count), until);
        if (n < 0)
            return n;
        done += (size_t)n;
        for (; count && (size_t)n >= parts->iov_len; parts++, count--)
            n -= (ssize_t)parts->iov_len;
        if (!n)
            continue;
        size_t cut = (size_t)n; /* the rest of a part that was cut */
        while (cut < parts->iov_len) {
            n = wefti_write_held(io, (const char *)parts->iov_base + cut, parts->iov_len - cut, until);
            if (n < 0)
                return n;
            cut += (size_t)n;
            done += (size_t)n;
        }
        parts++;
        count--;
    }
}

ssize_t wefti_writev_some(struct weft_io *io, const struct iovec *parts, int count, int64_t until) {
    struct parts arg = {parts, count < PARTS_MAX ? count : PARTS_MAX};
    weft_stream_call call = {.until = until};
    if (WEFTI_UNLIKELY(io->layer))
        return wefti_layer_write(io, &call, parts, count);
    int error = wefti_write_begin(io, until);
    if (error)
        return error;
    ssize_t n = wefti_desc_call(io, WEFTI_OUT, writev_once, &arg, total(parts, arg.count), until);
    wefti_write_end(io);
    return n;
}

ssize_t weft_writev(weft_io *io, const struct iovec *parts, int count, weft_deadline until) {
    weft_stream_call call = {.until = until, .all = true};
    if (WEFTI_UNLIKELY(!io || count < 0))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return wefti_layer_write(io, &call, parts, count);
    int error = wefti_write_begin(io, until);
    if (error)
        return error;
    ssize_t n = writev_held(io, parts, count, until);
    wefti_write_end(io);
    return n;
}

/* -- The rest ---------------------------------------------------------------------------------------------- */

int weft_shutdown(weft_io *io, int how) {
    if (WEFTI_UNLIKELY(!io))
        return -EINVAL;
    if (WEFTI_UNLIKELY(io->layer))
        return wefti_layer_shutdown(io, how);
    int error = wefti_desc_enter(io);
    if (error)
        return error;
    error = io->mem ? wefti_mem_shutdown(io->mem, how) : shutdown(io->fd, how) ? -errno : 0;
    wefti_desc_leave(io);
    return error;
}

static int open_two(const int fd[2], int what, weft_io **a, weft_io **b) {
    weft_io *first, *second;
    int error = wefti_desc_new(fd[0], what, &first);
    if (error) {
        close(fd[0]);
        close(fd[1]);
        return error;
    }
    error = wefti_desc_new(fd[1], what, &second);
    if (error) {
        close(fd[1]);
        weft_close(first);
        return error;
    }
    *a = first;
    *b = second;
    return 0;
}

int weft_pipe(weft_io **in, weft_io **out) {
    int fd[2];
    if (!in || !out)
        return -EINVAL;
    struct wefti_net *net = wefti_net_here();
    if (net)
        return wefti_mem_pair(net, true, in, out);
    return pipe2(fd, O_CLOEXEC | O_NONBLOCK) ? -errno : open_two(fd, WEFTI_STREAM, in, out);
}

int weft_socketpair(weft_io **a, weft_io **b) {
    int fd[2];
    if (!a || !b)
        return -EINVAL;
    struct wefti_net *net = wefti_net_here();
    if (net)
        return wefti_mem_pair(net, false, a, b);
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) ? -errno
                                                                                  : open_two(fd, WEFTI_SOCKET, a, b);
}
