/* slice_many.c - a poll task that waits for more things than a slice has units. */
#include "io_fixture.h"

/* A poll task waits for all of them in each poll, and the last one is served: it must be seen, and waiting must not spin. */
enum { MANY_CHANNELS = 2500, MANY_SOCKETS = 300 };

static struct {
    weft_chan *chan[MANY_CHANNELS];
    weft_wait chan_wait[MANY_CHANNELS];
    weft_io *near[MANY_SOCKETS], *far[MANY_SOCKETS];
    weft_wait io_wait[MANY_SOCKETS];
    atomic_uint polls;
    bool sockets;
} many;

static weft_poll wait_for_many(weft_task *self, void *unused) {
    (void)unused;
    int result = -EAGAIN;
    uint64_t value;
    atomic_fetch_add(&many.polls, 1);
    for (int i = 0; !many.sockets && i < MANY_CHANNELS && result == -EAGAIN; i++)
        result = weft_chan_recv_poll(many.chan[i], self, &many.chan_wait[i], &value);
    for (int i = 0; many.sockets && i < MANY_SOCKETS && result == -EAGAIN; i++)
        result = (int)weft_read_poll(many.near[i], self, &many.io_wait[i], &value, 1);
    if (result == -EAGAIN)
        return WEFT_PENDING;
    for (int i = 0; i < MANY_CHANNELS; i++)
        weft_wait_end(&many.chan_wait[i]);
    for (int i = 0; i < MANY_SOCKETS; i++)
        weft_wait_end(&many.io_wait[i]);
    return weft_done(self, result == many.sockets ? 0 : result, NULL);
}

static int yield_on(void *stop) {
    while (!atomic_load((atomic_bool *)stop))
        REQUIRE_EQ(weft_yield(), 0);
    return 0;
}

static int see_the_last(void *sockets) {
    weft_task *task, *other;
    atomic_bool stop = false;
    uint64_t value = 7;
    many.sockets = *(bool *)sockets;
    atomic_store(&many.polls, 0);
    REQUIRE_EQ(weft_fiber_go(NULL, yield_on, &stop, &other), 0); /* another task is always ready */
    REQUIRE_EQ(weft_go(NULL, wait_for_many, NULL, &task), 0);
    unsigned before;
    do { /* until it waits for all of them */
        before = atomic_load(&many.polls);
        for (int i = 0; i < 1000; i++)
            REQUIRE_EQ(weft_yield(), 0);
    } while (before != atomic_load(&many.polls) || !before);
    CHECK_LE(before, 16);
    if (many.sockets)
        CHECK_EQ(weft_write(many.far[MANY_SOCKETS - 1], "x", 1, fixture_soon()), 1);
    else
        CHECK_EQ(weft_chan_send(many.chan[MANY_CHANNELS - 1], &value, fixture_soon()), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    atomic_store(&stop, true);
    CHECK_EQ(fixture_finish(other).status, 0);
    return 0;
}

API_TEST(slice_poll_waits_for_many, "B46", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < MANY_CHANNELS; i++)
        REQUIRE_EQ(weft_chan_create(8, 1, &many.chan[i]), 0);
    for (int i = 0; i < MANY_SOCKETS; i++)
        REQUIRE_EQ(weft_socketpair(&many.near[i], &many.far[i]), 0);
    for (int i = 0; i < 2; i++) {
        bool sockets = i;
        weft_task *task;
        REQUIRE_EQ(weft_fiber_go(rt, see_the_last, &sockets, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    for (int i = 0; i < MANY_CHANNELS; i++)
        weft_chan_drop(many.chan[i]);
    for (int i = 0; i < MANY_SOCKETS; i++) {
        weft_close(many.near[i]);
        weft_close(many.far[i]);
    }
    fixture_end(rt);
}
