/* uring.c - the one thing of the io_uring poller that other threads touch: descriptors that they ask its owner to remove.  The source
 * itself, without a ring: its slots are armed by hand. */
#include "plat/uring.h"
#include "plat/poller.h"

#include "model.h"
#include "poke.h"

#ifdef WEFTI_HAS_URING

static unsigned cancelled; /* by the owner, at the kernel */
static struct io_uring_sqe submission;

#define wefti_uring_open(ring) ((void)(ring), -ENOSYS)
#define wefti_uring_close(ring) ((void)(ring))
#define wefti_uring_enter(ring, least, left) ((void)(ring), (void)(least), (void)(left))
#define wefti_uring_untold(ring) ((void)(ring), 0)
#define wefti_uring_next(ring) ((void)(ring), cancelled++, &submission)
#define wefti_poll_ready(bits) (bits)
#define wefti_poke poke_write
#define wefti_poller_uring model_poller_uring
#include "plat/linux_uring.c" /* NOLINT: its own functions, one by one */

static struct wefti_poller poller;
static struct ring *ring;

static void start(int count) {
    ring = wefti_alloc(sizeof *ring);
    ring->owner = wefti_thread_id();
    poller.room = ring;
    poller.poke = wefti_poke_open();
    for (int fd = 0; fd < count; fd++) {
        struct slot *slot = slot_of(ring, fd, true);
        slot->fd = fd;
        slot->events = EPOLLIN;
        slot->armed = true;
    }
}

static void finish(void) {
    wefti_free(load_own(&ring->chunk[0]), CHUNK * sizeof(struct slot));
    wefti_free(ring, sizeof *ring);
}

static void ask(void *fd) { remove_fd(&poller, (int)(intptr_t)fd); }

/* The owner, asleep in the kernel until it is poked, as often as it takes. */
static void hear(unsigned count) {
    while (take_removed(&poller), cancelled < count)
        poke_read(poller.poke);
}

/* Two at once: both are removed. */
MC_TEST(uring_two_removed, .bound = 2) {
    start(2);
    int a = mc_spawn(ask, (void *)0), b = mc_spawn(ask, (void *)1);
    hear(2);
    mc_join(a), mc_join(b);
    finish();
}

/* The same one, by two, while the owner takes it out: it is in the stack once, and each is heard. */
MC_TEST(uring_removed_twice, .bound = 2) {
    start(1);
    int a = mc_spawn(ask, (void *)0), b = mc_spawn(ask, (void *)0);
    hear(1);
    mc_join(a), mc_join(b);
    take_removed(&poller);
    mc_assert(cancelled == 1 && !load_relaxed(&ring->removed) && !load_relaxed(&slot_of(ring, 0, false)->removing));
    finish();
}

#endif
