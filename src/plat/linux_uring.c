/* linux_uring.c - the poller on io_uring: readiness by multishot polls, and operations that the kernel carries out.
 *
 * What.   One ring a poller.  Submissions are written into shared memory and told to the kernel together, by the wait that follows; what
 *         is done comes back through shared memory too, so that a look at it is no system call unless the kernel says that it has
 *         something to do for us (IORING_SQ_TASKRUN).
 * Who.    The ring is its owner's alone (SINGLE_ISSUER, where the kernel knows it).  Other threads only poke, and ask for descriptors to be
 *         removed: `removed`, a stack that the owner takes as a whole.
 * Names.  A poll is known by its descriptor's number and a generation, an operation by its tag.  The low two bits say which.  What comes
 *         back for an earlier generation is nobody's.
 * Ends.   A multishot poll may end by itself (when there is no room for its completion): it is armed again, and tells first of what is
 *         ready by then, so nothing is missed.
 * Files.  A poll holds on to its file: a socket that another thread closes is open until the owner has heard of it.  The owner's own
 *         remove tells the kernel at once.  A ring that is closed lets go of its files at leisure, on a thread of the kernel's: so its owner
 *         has them all let go before it ends.
 * Room.   When the completion queue is full the kernel keeps the rest (FEAT_NODROP), and says so: the next enter brings them in.
 * Checked by.  test/model/uring.c (`removed`)
 */
#define _GNU_SOURCE
#include "plat/poller.h"

#include <errno.h>

#include "plat/uring.h"
#ifdef WEFTI_HAS_URING

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 256u   /* slots */
#define CHUNKS 4096u /* descriptors up to a million */
#define SIZE_MAX_OP ((size_t)1 << 30)
#define QUIT_TURNS 1000u /* the second finds nothing more, unless completions overflow */

/* The low bits of user_data. */
enum { IS_OP = 0, IS_POLL = 1, IS_POKE = 2, IS_NOTHING = 3, IS_MASK = 3 };

/* A descriptor that is polled. */
struct slot {
    void *tag;
    uint32_t generation;
    uint32_t events;       /* 0: it is not */
    bool again;            /* multishot */
    bool armed;            /* the kernel has it, or will */
    struct slot *rearm;    /* in that list */
    struct slot *removed;  /* in that stack */
    _Atomic bool removing; /* ... where it is */
    int fd;
};

struct ring {
    struct wefti_uring shared; /* with the kernel */
    _Atomic uint64_t owner; /* 0: it has quit */
    bool poke_armed;
    struct slot *rearm;
    _Atomic(struct slot *) removed;
    struct slot *_Atomic chunk[CHUNKS];
};

#define RING_MAP 65536u /* mostly the table of chunks, of which few are used */
_Static_assert(sizeof(struct ring) <= RING_MAP, "a ring");

/* -- Making and unmaking ------------------------------------------------------------------------------------- */

static void close_uring(struct wefti_poller *poller) {
    struct ring *ring = poller->room;
    wefti_uring_close(&ring->shared);
    if (poller->poke >= 0)
        close(poller->poke);
    poller->poll = poller->poke = -1;
    poller->room = NULL;
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct slot *chunk = load_relaxed(&ring->chunk[i]); /* nobody else uses it any more */
        if (chunk)
            wefti_free(chunk, CHUNK * sizeof *chunk);
    }
    wefti_unmap(ring, RING_MAP);
}

static int open_uring(struct wefti_poller *poller) {
    poller->poll = poller->poke = -1;
    poller->pending = 0;
    struct ring *ring = wefti_map(RING_MAP);
    if (!ring)
        return -ENOMEM;
    int error = wefti_uring_open(&ring->shared);
    if (error) {
        wefti_unmap(ring, RING_MAP);
        return error;
    }
    store_relaxed(&ring->owner, wefti_thread_id()); /* whoever compares it with himself wrote it, or is another */
    poller->room = ring;
    poller->poll = ring->shared.fd;
    poller->poke = wefti_poke_open();
    if (poller->poke >= 0)
        return 0;
    error = poller->poke;
    close_uring(poller);
    return error;
}

/* -- Submitting ---------------------------------------------------------------------------------------------- */

static void enter(struct wefti_poller *poller, unsigned least, int64_t left) {
    struct ring *ring = poller->room;
    wefti_uring_enter(&ring->shared, least, left);
    poller->pending = wefti_uring_untold(&ring->shared);
}

static struct io_uring_sqe *next_sqe(struct wefti_poller *poller) {
    struct ring *ring = poller->room;
    struct io_uring_sqe *sqe = wefti_uring_next(&ring->shared);
    poller->pending = wefti_uring_untold(&ring->shared);
    return sqe;
}

static uint32_t poll_bits(uint32_t events) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return events << 16 | events >> 16;
#else
    return events;
#endif
}

static uint64_t name_of(const struct slot *slot) {
    return (uint64_t)slot->generation << 32 | (uint64_t)(uint32_t)slot->fd << 2 | IS_POLL;
}

static bool arm_slot(struct wefti_poller *poller, struct slot *slot) {
    struct io_uring_sqe *sqe = next_sqe(poller);
    if (!sqe)
        return false;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = slot->fd;
    sqe->len = slot->again ? IORING_POLL_ADD_MULTI : 0;
    sqe->poll32_events = poll_bits(slot->events);
    sqe->user_data = name_of(slot);
    return slot->armed = true;
}

static void later(struct ring *ring, struct slot *slot) {
    slot->armed = false;
    slot->rearm = ring->rearm;
    ring->rearm = slot;
}

static bool arm_poke(struct wefti_poller *poller) {
    struct ring *ring = poller->room;
    struct io_uring_sqe *sqe = ring->poke_armed ? NULL : next_sqe(poller);
    if (!sqe)
        return ring->poke_armed;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = poller->poke;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = poll_bits(EPOLLIN);
    sqe->user_data = IS_POKE;
    return ring->poke_armed = true;
}

/* Nobody's from now on.  True: the kernel is to be told. */
static bool forget(struct wefti_poller *poller, struct slot *slot) {
    bool armed = slot->armed;
    struct io_uring_sqe *sqe = armed ? next_sqe(poller) : NULL;
    if (sqe) {
        sqe->opcode = IORING_OP_ASYNC_CANCEL; /* POLL_REMOVE fails while an event is on its way, and the poll stays */
        sqe->fd = -1;
        sqe->addr = name_of(slot);
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        sqe->user_data = IS_NOTHING;
    }
    slot->generation++;
    slot->armed = false;
    slot->events = 0;
    return armed;
}

static void take_removed(struct wefti_poller *poller) {
    struct ring *ring = poller->room;
    if (!load_relaxed(&ring->removed)) /* a poke follows each */
        return;
    struct slot *next, *slot = xchg_acquire(&ring->removed, NULL); /* pairs with remove_fd */
    for (; slot; slot = next) {
        next = slot->removed;
        store_release(&slot->removing, false); /* pairs with remove_fd: `removed` was read */
        forget(poller, slot);
    }
}

/* All that was put off. */
static void catch_up(struct wefti_poller *poller) {
    struct ring *ring = poller->room;
    take_removed(poller);
    struct slot *slot = ring->rearm, *next;
    ring->rearm = NULL;
    for (; slot; slot = next) {
        next = slot->rearm;
        if (slot->events && !slot->armed && !arm_slot(poller, slot))
            later(ring, slot);
    }
    arm_poke(poller);
}

/* -- Descriptors --------------------------------------------------------------------------------------------- */

static struct slot *slot_of(struct ring *ring, int fd, bool make) {
    if (fd < 0 || (unsigned)fd >= CHUNK * CHUNKS)
        return NULL;
    struct slot *_Atomic *at = &ring->chunk[(unsigned)fd / CHUNK];
    struct slot *chunk = load_relaxed(at); /* who removes comes after the add: plat.h */
    if (!chunk && make && (chunk = wefti_alloc(CHUNK * sizeof *chunk)))
        store_relaxed(at, chunk); /* only the owner makes them; as above */
    return chunk ? &chunk[(unsigned)fd % CHUNK] : NULL;
}

/* Can it be waited for at all?  A file that is always ready would be told of for ever. */
static int is_pollable(int fd) {
    struct stat about;
    if (fstat(fd, &about))
        return -errno;
    if (S_ISSOCK(about.st_mode) || S_ISFIFO(about.st_mode))
        return 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC); /* which knows */
    struct epoll_event event = {.events = EPOLLIN};
    int error = epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
    if (epoll >= 0)
        close(epoll);
    return error;
}

static int poll_fd(struct wefti_poller *poller, int fd, void *tag, uint32_t events, bool again) {
    struct ring *ring = poller->room;
    take_removed(poller); /* the number may have had another meaning */
    struct slot *slot = slot_of(ring, fd, true);
    if (!slot)
        return -ENOMEM;
    int error = slot->events ? 0 : is_pollable(fd);
    if (error)
        return error;
    forget(poller, slot);
    slot->fd = fd;
    slot->tag = tag;
    slot->again = again;
    slot->events = events;
    if (arm_slot(poller, slot))
        return 0;
    slot->events = 0;
    return -ENOMEM;
}

static int add(struct wefti_poller *poller, int fd, void *tag) {
    return poll_fd(poller, fd, tag, EPOLLIN | EPOLLOUT | EPOLLRDHUP, true);
}

static int arm(struct wefti_poller *poller, int fd, void *tag, uint32_t what, bool again) {
    (void)again; /* what was armed before is forgotten in any case */
    uint32_t events = what & WEFTI_READABLE ? EPOLLIN | EPOLLRDHUP : 0;
    return poll_fd(poller, fd, tag, events | (what & WEFTI_WRITABLE ? EPOLLOUT : 0), false);
}

static void remove_fd(struct wefti_poller *poller, int fd) {
    struct ring *ring = poller->room;
    struct slot *slot = slot_of(ring, fd, false);
    if (!slot)
        return;
    if (wefti_thread_id() == load_relaxed(&ring->owner)) { /* as in open_uring */
        if (forget(poller, slot))
            enter(poller, 0, 0); /* now: whoever listens here next wants the port */
        return;
    }
    if (xchg_acquire(&slot->removing, true)) /* pairs with take_removed */
        return;
    struct slot *first = load_relaxed(&ring->removed); /* the exchange orders it */
    do
        slot->removed = first;
    while (!cas_release(&ring->removed, &first, slot)); /* pairs with take_removed */
    wefti_poke(poller->poke);
}

/* -- Operations ---------------------------------------------------------------------------------------------- */

static bool begin(struct wefti_poller *poller, const struct wefti_poll_op *op, void *tag) {
    struct io_uring_sqe *sqe = next_sqe(poller);
    if (!sqe)
        return false;
    sqe->fd = op->fd;
    sqe->addr = (uint64_t)(uintptr_t)op->bytes;
    sqe->user_data = (uint64_t)(uintptr_t)tag | IS_OP;
    sqe->len = (uint32_t)(op->size < SIZE_MAX_OP ? op->size : SIZE_MAX_OP);
    switch (op->what) {
    case WEFTI_OP_RECV: sqe->opcode = IORING_OP_RECV; break;
    case WEFTI_OP_SEND:
        sqe->opcode = IORING_OP_SEND;
        sqe->msg_flags = MSG_NOSIGNAL;
        break;
    default: /* every kernel whose ring we take has them */
        sqe->opcode = op->what == WEFTI_OP_READV ? IORING_OP_READV : IORING_OP_WRITEV;
        sqe->off = (uint64_t)op->at;
    }
    return true;
}

static bool cancel(struct wefti_poller *poller, void *tag) {
    struct io_uring_sqe *sqe = next_sqe(poller);
    if (!sqe)
        return false;
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->addr = (uint64_t)(uintptr_t)tag | IS_OP;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = IS_NOTHING;
    return true;
}

/* -- Waiting ------------------------------------------------------------------------------------------------- */

/* What it tells a poll's owner; false: nothing. */
static bool heard(struct ring *ring, const struct io_uring_cqe *cqe, struct wefti_poll_event *event) {
    uint64_t name = cqe->user_data;
    struct slot *slot = slot_of(ring, (int)((uint32_t)name >> 2), false);
    if (!slot || !slot->events || slot->generation != (uint32_t)(name >> 32))
        return false;
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        slot->armed = false;
        if (slot->again && cqe->res >= 0)
            later(ring, slot);
    }
    *event = (struct wefti_poll_event){slot->tag, wefti_poll_ready(cqe->res < 0 ? EPOLLERR : (uint32_t)cqe->res), 0};
    return true;
}

static int collect(struct wefti_poller *poller, struct wefti_poll_event *events) {
    struct ring *ring = poller->room;
    uint32_t head = load_own(ring->shared.cq_head),
             tail = load_acquire(ring->shared.cq_tail); /* pairs with the kernel */
    int count = 0;
    for (; head != tail && count < (int)poller->batch; head++) {
        const struct io_uring_cqe *cqe = &ring->shared.cqes[head & ring->shared.cq_mask];
        switch (cqe->user_data & IS_MASK) {
        case IS_OP:
            events[count++] = (struct wefti_poll_event){(void *)(uintptr_t)cqe->user_data, WEFTI_DONE, cqe->res};
            break;
        case IS_POLL: count += heard(ring, cqe, &events[count]); break;
        case IS_POKE: ring->poke_armed = cqe->flags & IORING_CQE_F_MORE; break;
        default: break;
        }
    }
    store_release(ring->shared.cq_head, head); /* pairs with the kernel: it may write there again */
    return count;
}

static int wait_events(struct wefti_poller *poller, struct wefti_poll_event *events, int64_t until) {
    struct ring *ring = poller->room;
    catch_up(poller);
    bool any = load_own(ring->shared.cq_head) != load_relaxed(ring->shared.cq_tail); /* collect orders it */
    uint32_t flags = load_relaxed(ring->shared.sq_flags); /* hints */
    int64_t left = any || until == 0 ? 0 : until == INT64_MAX ? INT64_MAX : until - wefti_clock();
    left = left > 0 ? left : 0;
    if (left || poller->pending || (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)))
        enter(poller, left > 0, left);
    return collect(poller, events);
}

/* -- The end ------------------------------------------------------------------------------------------------- */

#define LAST ((uint64_t)4 | IS_NOTHING) /* user_data of the cancellations below */

/* Take all completions away.  True: a cancellation found nothing more to end. */
static bool drain(struct ring *ring) {
    uint32_t head = load_own(ring->shared.cq_head),
             tail = load_acquire(ring->shared.cq_tail); /* pairs with the kernel */
    bool none = false;
    for (; head != tail; head++) {
        const struct io_uring_cqe *cqe = &ring->shared.cqes[head & ring->shared.cq_mask];
        none = none || (cqe->user_data == LAST && cqe->res <= 0);
    }
    store_release(ring->shared.cq_head, head); /* pairs with the kernel: it may write there again */
    return none;
}

/* Its polls are all there is: whoever had an operation under way has waited for it. */
static void quit(struct wefti_poller *poller) {
    struct ring *ring = poller->room;
    bool none = false;
    store_relaxed(&ring->owner, 0); /* from now on whoever has our thread's address is another */
    for (unsigned turn = 0; turn < QUIT_TURNS && !none; turn++) {
        struct io_uring_sqe *sqe = next_sqe(poller);
        if (sqe) {
            sqe->opcode = IORING_OP_ASYNC_CANCEL;
            sqe->fd = -1;
            sqe->cancel_flags = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY;
            sqe->user_data = LAST;
        }
        enter(poller, 0, 0);
        none = drain(ring);
    }
}

const struct wefti_poller_kind wefti_poller_uring = {
    .name = "uring",
    .open = open_uring,
    .quit = quit,
    .close = close_uring,
    .add = add,
    .arm = arm,
    .remove = remove_fd,
    .wait = wait_events,
    .begin = begin,
    .cancel = cancel,
};

#else

static int open_uring(struct wefti_poller *poller) {
    (void)poller;
    return -ENOSYS;
}

const struct wefti_poller_kind wefti_poller_uring = {.name = "uring", .open = open_uring};

#endif
