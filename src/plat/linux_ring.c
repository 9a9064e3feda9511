/* linux_ring.c - io_uring's system calls: setting up a ring, telling the kernel what is written. */
#define _GNU_SOURCE
#include "plat/uring.h"

#include <errno.h>

#include "plat/plat.h"

static _Atomic int refused; /* tests */
static _Atomic unsigned completions;

void wefti_uring_limit(int error, unsigned count) {
    store_relaxed(&refused, error); /* before any poller that it is for */
    store_relaxed(&completions, count);
}

static _Atomic uint64_t overflows; /* tests */
uint64_t wefti_uring_overflows(void) { return load_relaxed(&overflows); } /* a figure */

#ifdef WEFTI_HAS_URING

#include <linux/time_types.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plat/fault.h"

#define SUBMISSIONS 256u
#define COMPLETIONS 4096u
#define NEEDED (IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP)

static int setup(unsigned entries, struct io_uring_params *params) {
    static const unsigned flags[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, /* before 6.1; before 5.19: epoll */
    };
    int error = load_relaxed(&refused); /* tests */
    if (error || wefti_fault_here())
        return error ? -error : -ENOMEM;
    for (unsigned i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        unsigned room = load_relaxed(&completions); /* tests */
        memset(params, 0, sizeof *params);
        params->flags = flags[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        params->cq_entries = room ? room : COMPLETIONS;
        if (entries > params->cq_entries)
            entries = params->cq_entries;
        int fd = (int)syscall(SYS_io_uring_setup, entries, params); /* close-on-exec as it is */
        if (fd < 0) {
            error = -errno;
            if (error == -EINVAL)
                continue;
            return error;
        }
        if ((params->features & NEEDED) == NEEDED)
            return fd;
        close(fd);
        return -ENOSYS;
    }
    return -ENOSYS;
}

int wefti_uring_probe(void) {
    struct io_uring_params params;
    int fd = setup(8, &params);
    if (fd < 0)
        return fd;
    /* A filter may allow to make one, and forbid to use it. */
    int error = syscall(SYS_io_uring_enter, fd, 0, 0, 0, NULL, 0) < 0 ? -errno : 0;
    close(fd);
    return error;
}

static void *map(int fd, size_t size, off_t what) {
    void *memory =
        wefti_fault_here() ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, size, MADV_DONTFORK); /* a child that forks to exec has no business here */
    return memory;
}

static bool map_all(struct wefti_uring *ring, const struct io_uring_params *params) {
    size_t sq = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t cq = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->map_size = sq > cq ? sq : cq;
    ring->sqe_size = params->sq_entries * sizeof(struct io_uring_sqe);
    ring->map = map(ring->fd, ring->map_size, IORING_OFF_SQ_RING);
    ring->sqe_map = map(ring->fd, ring->sqe_size, IORING_OFF_SQES);
    if (!ring->map || !ring->sqe_map)
        return false;
    char *at = ring->map;
    ring->sq_head = (void *)(at + params->sq_off.head);
    ring->sq_tail = (void *)(at + params->sq_off.tail);
    ring->sq_flags = (void *)(at + params->sq_off.flags);
    ring->cq_head = (void *)(at + params->cq_off.head);
    ring->cq_tail = (void *)(at + params->cq_off.tail);
    ring->sq_mask = params->sq_entries - 1;
    ring->cq_mask = params->cq_entries - 1;
    ring->sqes = ring->sqe_map;
    ring->cqes = (void *)(at + params->cq_off.cqes);
    uint32_t *array = (void *)(at + params->sq_off.array);
    for (uint32_t i = 0; i < params->sq_entries; i++)
        array[i] = i;
    return true;
}

void wefti_uring_close(struct wefti_uring *ring) {
    if (ring->fd >= 0)
        close(ring->fd);
    if (ring->map)
        munmap(ring->map, ring->map_size);
    if (ring->sqe_map)
        munmap(ring->sqe_map, ring->sqe_size);
    ring->map = ring->sqe_map = NULL;
    ring->fd = -1;
}

int wefti_uring_open(struct wefti_uring *ring) {
    struct io_uring_params params;
    ring->map = ring->sqe_map = NULL;
    ring->tail = 0;
    ring->fd = setup(SUBMISSIONS, &params);
    if (ring->fd < 0)
        return ring->fd;
    if (map_all(ring, &params))
        return 0;
    wefti_uring_close(ring);
    return -ENOMEM;
}

void wefti_uring_enter(struct wefti_uring *ring, unsigned least, int64_t left) {
    if (load_relaxed(ring->sq_flags) & IORING_SQ_CQ_OVERFLOW) /* a hint */
        add_relaxed(&overflows, 1); /* a figure */
    struct __kernel_timespec time = {left / 1000000000, left % 1000000000};
    struct io_uring_getevents_arg arg = {.sigmask_sz = _NSIG / 8,
                                         .ts = left == INT64_MAX ? 0 : (uint64_t)(uintptr_t)&time};
    store_release(ring->sq_tail, ring->tail); /* pairs with the kernel */
    /* An error (a signal, the time, no memory) leaves untold what it leaves: the next one tells it. */
    syscall(SYS_io_uring_enter, ring->fd, wefti_uring_untold(ring), least,
            IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
}

struct io_uring_sqe *wefti_uring_next(struct wefti_uring *ring) {
    if (wefti_uring_untold(ring) > ring->sq_mask) {
        wefti_uring_enter(ring, 0, 0);
        if (wefti_uring_untold(ring) > ring->sq_mask)
            return NULL;
    }
    struct io_uring_sqe *sqe = &ring->sqes[ring->tail++ & ring->sq_mask];
    memset(sqe, 0, sizeof *sqe);
    return sqe;
}

#else

int wefti_uring_probe(void) { return -ENOSYS; }

#endif
