/* process_records.c - monitors of those who have ended are not kept for ever; all others are told. */
#include "process/process.h"

#include <weft/weft.h>

#include "harness.h"

enum { WATCHERS = 20000, FAITHFUL = 100 };

static weft_pid watched;
static unsigned told;

static int sit(void *arg) {
    weft_message m;
    (void)arg;
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    return -EIO;
}

/* Monitors, and ends, or (arg) waits to be told. */
static int watch(void *arg) {
    uint64_t monitor;
    weft_message m;
    REQUIRE_EQ(weft_monitor(watched, &monitor), 0);
    if (!arg)
        return 0;
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    CHECK_EQ(m.type, WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.tag, monitor);
    CHECK_EQ(m.error, -EIO);
    told++; /* one worker */
    return 0;
}

static uint32_t records(void) {
    struct wefti_processes *table = wefti_processes_here(wefti_worker_here()->rt);
    struct wefti_process *process = wefti_process_lock(table, watched);
    REQUIRE(process);
    uint32_t count = wefti_rest(process)->records;
    wefti_lock_give(&process->lock);
    return count;
}

static int run(void *arg) {
    uint32_t most = 0;
    (void)arg;
    REQUIRE_EQ(weft_process_go(NULL, sit, NULL, &watched), 0);
    for (int i = 0; i < WATCHERS; i++) {
        bool stays = i % (WATCHERS / FAITHFUL) == 0;
        REQUIRE_EQ(weft_process_go(NULL, watch, stays ? &watched : NULL, NULL), 0);
        if (i % 8 == 7)
            weft_yield();
        most = records() > most ? records() : most;
    }
    while (weft_process_count(NULL) > FAITHFUL + 1)
        weft_yield();
    CHECK_LE(most, 4 * FAITHFUL + 256);
    CHECK_GE(records(), FAITHFUL);
    REQUIRE_EQ(weft_send(NULL, watched, 0, NULL, 0), 0);
    while (weft_process_count(NULL) > 0)
        weft_yield();
    CHECK_EQ(told, FAITHFUL);
    return 0;
}

/* So many that the next is looked at with all others, and none of those has anyone to tell. */
static int run_all_ended(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_process_go(NULL, sit, NULL, &watched), 0);
    for (uint32_t count = 1; count <= 64; count++) {
        REQUIRE_EQ(weft_process_go(NULL, watch, NULL, NULL), 0);
        while (weft_process_count(NULL) > 1)
            weft_yield();
        CHECK_EQ(records(), count);
    }
    REQUIRE_EQ(weft_process_go(NULL, watch, &watched, NULL), 0);
    while (records() != 1)
        weft_yield();
    REQUIRE_EQ(weft_send(NULL, watched, 0, NULL, 0), 0);
    while (weft_process_count(NULL) > 0)
        weft_yield();
    CHECK_EQ(told, 1);
    return 0;
}

static weft_chan *chan;

/* Waits for a value, which somebody fetches for it. */
static int receive_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    weft_command_chan from = {chan, sizeof(int), WEFT_NEVER};
    (void)state;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_YIELD;
    if (!count)
        return weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 7, &from, sizeof from);
    CHECK_EQ(events[0].type, WEFT_MESSAGE_YIELD);
    CHECK_EQ(events[0].tag, 7);
    CHECK_EQ(events[0].error, 0);
    CHECK_EQ(events[0].size, sizeof(int));
    told++;
    return 0;
}

/* Monitors that tell nobody are thrown out; who fetches something for the process is not one of them. */
static int run_helped(void *arg) {
    static const weft_process_class receiving = {.size = sizeof receiving, .name = "receiving", .step = receive_step};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    int value = 1;
    (void)arg;
    spec.class_ = &receiving;
    REQUIRE_EQ(weft_chan_create(sizeof value, 1, &chan), 0);
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &watched, NULL), 0);
    while (records() != 1)
        weft_yield();
    for (int i = 0; i < 100; i++) {
        REQUIRE_EQ(weft_process_go(NULL, watch, NULL, NULL), 0);
        while (weft_process_count(NULL) > 1)
            weft_yield();
    }
    CHECK_LT(records(), 100);
    REQUIRE_EQ(weft_chan_send(chan, &value, WEFT_NOW), 0);
    while (weft_process_count(NULL) > 0)
        weft_yield();
    CHECK_EQ(told, 1);
    return weft_chan_destroy(chan);
}

/* A client that monitors the server and links to it, and ends: the link's record is the one that makes the list grow. */
static int watch_and_link(void *arg) {
    uint64_t monitor;
    (void)arg;
    REQUIRE_EQ(weft_monitor(watched, &monitor), 0);
    REQUIRE_EQ(weft_link(watched), 0);
    return 0;
}

static int run_linked(void *arg) {
    uint32_t most = 0;
    (void)arg;
    REQUIRE_EQ(weft_process_go(NULL, sit, NULL, &watched), 0);
    for (int i = 0; i < WATCHERS; i++) {
        REQUIRE_EQ(weft_process_go(NULL, watch_and_link, NULL, NULL), 0);
        while (weft_process_count(NULL) > 1)
            weft_yield();
        most = records() > most ? records() : most;
    }
    CHECK_LE(most, 128);
    REQUIRE_EQ(weft_send(NULL, watched, 0, NULL, 0), 0);
    while (weft_process_count(NULL) > 0)
        weft_yield();
    return 0;
}

/* Each message makes it ask for a timer; the timer's helper is the record that makes the list grow. */
static int tick_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    weft_command_timer timer = {weft_after(0)};
    int error = 0;
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count && !error; i++) {
        told += events[i].type == WEFT_MESSAGE_YIELD;
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
        else if (events[i].type == WEFT_MESSAGE)
            error = weft_yield_command(out, WEFT_COMMAND_TIMER, 1, &timer, sizeof timer);
    }
    return error;
}

/* Monitors the server, and has it ask for a timer before the next client comes. */
static int watch_and_tick(void *arg) {
    uint64_t monitor;
    (void)arg;
    REQUIRE_EQ(weft_monitor(watched, &monitor), 0);
    REQUIRE_EQ(weft_send(NULL, watched, 0, NULL, 0), 0);
    return 0;
}

static int run_ticking(void *arg) {
    static const weft_process_class ticking = {.size = sizeof ticking, .name = "ticking", .step = tick_step};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    uint32_t most = 0;
    (void)arg;
    spec.class_ = &ticking;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &watched, NULL), 0);
    for (unsigned i = 1; i <= 2000; i++) {
        REQUIRE_EQ(weft_process_go(NULL, watch_and_tick, NULL, NULL), 0);
        while (told < i)
            weft_yield();
        most = records() > most ? records() : most;
    }
    CHECK_LE(most, 128);
    REQUIRE_EQ(weft_process_cancel(NULL, watched), 0);
    while (weft_process_count(NULL) > 0)
        weft_yield();
    return 0;
}

static void run_alone(weft_fiber_fn fn) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result;
    config.workers = 1;
    REQUIRE_EQ(weft_fiber_run(&config, fn, NULL, &result), 0);
    CHECK_EQ(result.status, 0);
}

TEST(process_monitors_of_linked_clients, "W6 W38") { run_alone(run_linked); }
TEST(process_monitors_of_a_helped_server, "W6 W28 W38") { run_alone(run_ticking); }

TEST(process_monitors_of_the_helped, "W6 W7 W28") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result;
    config.workers = 1;
    REQUIRE_EQ(weft_fiber_run(&config, run_helped, NULL, &result), 0);
    CHECK_EQ(result.status, 0);
}

TEST(process_monitors_all_ended, "W6 W38") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result;
    config.workers = 1;
    REQUIRE_EQ(weft_fiber_run(&config, run_all_ended, NULL, &result), 0);
}

TEST(process_monitors_of_the_ended, "W6 W38") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result;
    config.workers = 1;
    REQUIRE_EQ(weft_fiber_run(&config, run, NULL, &result), 0);
}
