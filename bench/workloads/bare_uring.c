/* bare_uring.c - the other floor: a server of one thread on io_uring, without weft.  One operation a connection at a time. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net.h"

#if defined(__has_include)
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif
#endif
#ifdef IORING_SETUP_DEFER_TASKRUN

enum { BUFFER = 1024, SUBMISSIONS = 1024, COMPLETIONS = 4096 };

struct peer {
    int fd;
    bool sends;
    size_t done, size; /* of what was read: answered, all */
    char buffer[BUFFER];
};

static struct {
    int fd;
    unsigned *sq_head, *sq_tail, *cq_head, *cq_tail, tail, sq_mask, cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} ring;

static bool open_ring(void) {
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                              IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CQSIZE,
                                     .cq_entries = COMPLETIONS};
    ring.fd = (int)syscall(SYS_io_uring_setup, SUBMISSIONS, &params);
    if (ring.fd < 0)
        return false;
    size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq = params.cq_off.cqes + params.cq_entries * sizeof *ring.cqes, size = sq > cq ? sq : cq;
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
    ring.sqes = mmap(NULL, params.sq_entries * sizeof *ring.sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     ring.fd, IORING_OFF_SQES);
    if (map == MAP_FAILED || (void *)ring.sqes == MAP_FAILED)
        return false;
    ring.sq_head = (void *)(map + params.sq_off.head);
    ring.sq_tail = (void *)(map + params.sq_off.tail);
    ring.cq_head = (void *)(map + params.cq_off.head);
    ring.cq_tail = (void *)(map + params.cq_off.tail);
    ring.cqes = (void *)(map + params.cq_off.cqes);
    ring.sq_mask = params.sq_entries - 1;
    ring.cq_mask = params.cq_entries - 1;
    unsigned *array = (void *)(map + params.sq_off.array);
    for (unsigned i = 0; i < params.sq_entries; i++)
        array[i] = i;
    return true;
}

static void enter(unsigned least) {
    unsigned told = ring.tail - __atomic_load_n(ring.sq_head, __ATOMIC_ACQUIRE);
    __atomic_store_n(ring.sq_tail, ring.tail, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring.fd, told, least, IORING_ENTER_GETEVENTS, NULL, 0);
}

static void begin(struct peer *peer, int opcode, int fd, const void *bytes, size_t size) {
    if (ring.tail - __atomic_load_n(ring.sq_head, __ATOMIC_ACQUIRE) > ring.sq_mask)
        enter(0);
    struct io_uring_sqe *sqe = &ring.sqes[ring.tail++ & ring.sq_mask];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = (uint8_t)opcode;
    sqe->fd = fd;
    sqe->addr = (uint64_t)(uintptr_t)bytes;
    sqe->len = (uint32_t)size;
    sqe->msg_flags = opcode == IORING_OP_SEND ? MSG_NOSIGNAL : 0;
    sqe->user_data = (uint64_t)(uintptr_t)peer;
}

static void go_on(struct peer *peer, int result, size_t question, const char *answer, size_t size) {
    if (result <= 0) {
        close(peer->fd);
        free(peer);
        return;
    }
    if (peer->sends)
        peer->done += question;
    else
        peer->done = 0, peer->size = (size_t)result;
    peer->sends = peer->done < peer->size;
    if (peer->sends)
        begin(peer, IORING_OP_SEND, peer->fd, answer ? answer : peer->buffer + peer->done, size);
    else
        begin(peer, IORING_OP_RECV, peer->fd, peer->buffer, BUFFER);
}

void bench_serve_uring(int listener, size_t question, const char *answer, size_t size) {
    if (!open_ring())
        return;
    begin(NULL, IORING_OP_ACCEPT, listener, NULL, 0);
    for (;;) {
        enter(1);
        unsigned head = *ring.cq_head, tail = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
        for (; head != tail; head++) {
            struct io_uring_cqe *cqe = &ring.cqes[head & ring.cq_mask];
            struct peer *peer = (void *)(uintptr_t)cqe->user_data;
            int one = 1;
            if (peer) {
                go_on(peer, cqe->res, question, answer, size);
                continue;
            }
            if (cqe->res >= 0 && (peer = calloc(1, sizeof *peer))) {
                peer->fd = cqe->res;
                setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                begin(peer, IORING_OP_RECV, peer->fd, peer->buffer, BUFFER);
            }
            begin(NULL, IORING_OP_ACCEPT, listener, NULL, 0);
        }
        __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
    }
}

bool bench_has_uring(void) {
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    int fd = (int)syscall(SYS_io_uring_setup, 8, &params);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

#else

void bench_serve_uring(int listener, size_t question, const char *answer, size_t size) {
    (void)listener, (void)question, (void)answer, (void)size;
}
bool bench_has_uring(void) { return false; }

#endif
