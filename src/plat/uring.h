/* uring.h - a ring that is shared with the kernel: written, told, read.  Internal to plat. */
#ifndef WEFTI_PLAT_URING_H
#define WEFTI_PLAT_URING_H

#if defined(__has_include)
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif
#endif
#ifdef IORING_SETUP_DEFER_TASKRUN
#define WEFTI_HAS_URING 1

#include "plat/plat.h"

struct wefti_uring {
    int fd;
    uint32_t tail; /* of the submissions that are written */
    uint32_t sq_mask, cq_mask;
    _Atomic uint32_t *sq_head, *sq_tail, *sq_flags, *cq_head, *cq_tail;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    void *map, *sqe_map;
    size_t map_size, sqe_size;
};

/* 0, or why not: -ENOSYS (also: too old), -EPERM, -ENOMEM, -EMFILE, ...; then nothing is left. */
int wefti_uring_open(struct wefti_uring *ring);
void wefti_uring_close(struct wefti_uring *ring);
/* How many of what is written the kernel has not taken. */
static inline uint32_t wefti_uring_untold(const struct wefti_uring *ring) {
    return ring->tail - load_acquire(ring->sq_head); /* pairs with the kernel: it has read them */
}
/* Tell the kernel what is written, let it do what it has for us, and wait for `least` completions, at most `left` ns (INT64_MAX: no limit). */
void wefti_uring_enter(struct wefti_uring *ring, unsigned least, int64_t left);
/* The next submission, zeroed.  NULL: there is no room, and the kernel has no memory to make some. */
struct io_uring_sqe *wefti_uring_next(struct wefti_uring *ring);

#endif
#endif
