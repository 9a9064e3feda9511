/* io_slice.c - connections that always have something do not keep the others from running. */
#include "io_fixture.h"

#define MANY 10
#define RUNS 5

static struct {
    weft_io *in[MANY], *out[MANY];
    atomic_bool stop;
    atomic_ulong messages;
} crowd;

/* Writes to itself: there is always something to read. */
static int never_rests(void *arg) {
    weft_io *in = ((weft_io **)arg)[0], *out = ((weft_io **)arg)[MANY];
    char bytes[16];
    REQUIRE_EQ(weft_write(out, "0123456789abcdef", 16, fixture_soon()), 16);
    while (!crowd.stop) {
        REQUIRE_EQ(weft_read(in, bytes, 16, fixture_soon()), 16);
        REQUIRE_EQ(weft_write(out, bytes, 16, fixture_soon()), 16);
        crowd.messages++;
    }
    return 0;
}

static int run_sometimes(void *unused) {
    (void)unused;
    for (int i = 0; i < RUNS; i++)
        (void)weft_yield();
    while (crowd.messages < 2 * MANY) /* and they are not kept from it either */
        (void)weft_yield();
    return 0;
}

static int flood(void *unused) {
    (void)unused;
    weft_task *task[MANY];
    for (int i = 0; i < MANY; i++) {
        REQUIRE(io_pair(i % 2 ? IO_SOCKETPAIR : IO_TCP, &crowd.in[i], &crowd.out[i]));
        task[i] = io_go(NULL, never_rests, &crowd.in[i]);
    }
    CHECK_EQ(io_join(io_go(NULL, run_sometimes, NULL)), 0);
    CHECK_EQ(weft_sleep(1000000), 0); /* timers ring as well */
    crowd.stop = true;
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(io_join(task[i]), 0);
        weft_close(crowd.in[i]), weft_close(crowd.out[i]);
    }
    return 0;
}

API_TEST(io_slice_ends, "", .workers = {1, 2}) { io_run(flood, NULL); }
