/* io_lost_wake.c - workers that sleep in their pollers miss nothing: no park timeout, so that a lost wake is a hang. */
#include <sched.h>

#include "io_fixture.h"

static unsigned scaled(unsigned count) { return fixture_is_slow() ? count / 10 + 1 : count; }

static int wait_for_end(void *arg) {
    char byte;
    return weft_read(arg, &byte, 1, WEFT_NEVER) == 0 ? 0 : -EPROTO;
}

/* Every worker has a poller, and a fiber that waits there until `out` is closed. */
struct pollers {
    weft_io *in[64], *out[64];
    weft_task *task[64];
    unsigned count;
};

static void pollers_begin(struct pollers *pollers, weft_runtime *rt) {
    pollers->count = 8 * weft_runtime_workers(rt);
    for (unsigned i = 0; i < pollers->count; i++) {
        REQUIRE(io_pair(IO_PIPE, &pollers->in[i], &pollers->out[i]));
        pollers->task[i] = io_go(rt, wait_for_end, pollers->in[i]);
    }
    for (unsigned i = 0; i < pollers->count; i++)
        REQUIRE_EVENTUALLY(!strcmp(weft_task_state(pollers->task[i]), "idle"));
}

static void pollers_end(struct pollers *pollers) {
    for (unsigned i = 0; i < pollers->count; i++)
        weft_close(pollers->out[i]);
    for (unsigned i = 0; i < pollers->count; i++) {
        CHECK_EQ(fixture_finish(pollers->task[i]).status, 0);
        weft_close(pollers->in[i]);
    }
}

/* Tasks from outside, at every moment of the workers' falling asleep. */
API_TEST(io_lost_wake_drip, "B41", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct pollers pollers;
    pollers_begin(&pollers, rt);
    atomic_uint ran = 0;
    for (unsigned i = 0; i < scaled(5000); i++) {
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        for (int64_t until = harness_clock() + harness_patience(); atomic_load(&ran) <= i;) {
            REQUIRE(harness_clock() < until);
            sched_yield();
        }
    }
    pollers_end(&pollers);
    fixture_end(rt);
}

API_TEST(io_lost_wake_burst, "B41", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct pollers pollers;
    pollers_begin(&pollers, rt);
    atomic_uint ran = 0;
    unsigned expected = 0;
    for (unsigned round = 0; round < scaled(200); round++) {
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
        for (unsigned i = 0; i < round % 20 + 1; i++)
            REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        expected += round % 20 + 1;
        REQUIRE_EVENTUALLY(ran == expected);
    }
    pollers_end(&pollers);
    fixture_end(rt);
}

/* Events and wakes at once: a thread writes to fibers that answer, while others spawn. */
struct both {
    weft_runtime *rt;
    weft_io *far[3];
    atomic_uint ran;
};

static int answer(void *arg) {
    char byte;
    while (weft_read(arg, &byte, 1, WEFT_NEVER) == 1)
        REQUIRE_EQ(weft_write(arg, &byte, 1, WEFT_NEVER), 1);
    weft_close(arg);
    return 0;
}

static void ask_or_spawn(unsigned index, void *arg) {
    struct both *both = arg;
    for (unsigned i = 0; i < scaled(2000); i++) {
        if (index < 3) {
            char byte = (char)i;
            REQUIRE_EQ(weft_write(both->far[index], &byte, 1, fixture_soon()), 1);
            REQUIRE_EQ(weft_read(both->far[index], &byte, 1, fixture_soon()), 1);
            REQUIRE_EQ(byte, (char)i);
        } else {
            REQUIRE_EQ(weft_go(both->rt, fixture_count, &both->ran, NULL), 0);
            REQUIRE_EVENTUALLY(both->ran > i);
        }
    }
    if (index < 3)
        weft_close(both->far[index]);
}

API_TEST(io_lost_wake_events_and_wakes, "B41", .workers = {1, 2, 4}, .timeout = 60) {
    static struct both both;
    weft_task *task[3];
    both.rt = fixture_begin_patient();
    for (int i = 0; i < 3; i++) {
        weft_io *near;
        REQUIRE(io_pair(i ? IO_SOCKETPAIR : IO_TCP, &near, &both.far[i]));
        task[i] = io_go(both.rt, answer, near);
    }
    harness_threads(4, ask_or_spawn, &both);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(both.rt);
}

/* Fibers on different workers that wake each other through descriptors only. */
static int around(void *arg) {
    weft_io **end = arg; /* read from 0, write to 1 */
    unsigned left = 0;
    while (weft_read_exact(end[0], &left, sizeof left, WEFT_NEVER) == sizeof left && left) {
        left--;
        REQUIRE_EQ(weft_write(end[1], &left, sizeof left, WEFT_NEVER), sizeof left);
    }
    weft_close(end[1]); /* who found 0, or the end, tells the next one */
    return 0;
}

API_TEST(io_lost_wake_ring, "B41", .workers = {1, 2, 4}) {
    enum { PLACES = 5 };
    weft_runtime *rt = fixture_begin_patient();
    weft_io *in[PLACES], *out[PLACES], *end[PLACES][2];
    weft_task *task[PLACES];
    for (int i = 0; i < PLACES; i++)
        REQUIRE(io_pair(i % 2 ? IO_PIPE : IO_SOCKETPAIR, &in[i], &out[i]));
    for (int i = 0; i < PLACES; i++) {
        end[i][0] = in[i];
        end[i][1] = out[(i + 1) % PLACES];
        task[i] = io_go(rt, around, end[i]);
    }
    unsigned hops = scaled(10000);
    REQUIRE_EQ(weft_write(out[0], &hops, sizeof hops, fixture_soon()), sizeof hops);
    for (int i = 0; i < PLACES; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    for (int i = 0; i < PLACES; i++)
        weft_close(in[i]);
    fixture_end(rt);
}
