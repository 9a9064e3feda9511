/* fixture.h - what most API tests need: a runtime that is checked when it ends, tasks that wait, count or block. */
#ifndef WEFT_TEST_FIXTURE_H
#define WEFT_TEST_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "harness.h"

/* -- A runtime ------------------------------------------------------------------------------------------- */

static inline void fixture_dump(void *rt) { weft_dump(rt, STDERR_FILENO); }

/* Start a runtime; should the test hang, its tasks are shown. */
static inline weft_runtime *fixture_begin(const weft_config *config) {
    weft_runtime *rt = NULL;
    REQUIRE_EQ(weft_runtime_create(config, &rt), 0);
    harness_on_hang(fixture_dump, rt);
    return rt;
}

/* The same without any park timeout: what is missed stays missed. */
static inline weft_runtime *fixture_begin_patient(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = -1;
    config.name = "crew";
    return fixture_begin(&config);
}

/* The same for a test in which something does not end: it is given up soon. */
#define FIXTURE_GRACE INT64_C(500000000)
static inline weft_runtime *fixture_begin_hasty(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = -1;
    config.grace_ns = FIXTURE_GRACE;
    config.name = "crew";
    return fixture_begin(&config);
}

/* For a test that knows what a _poll call returns, or what has not run yet: under `sim`, no call that need not wait lets others run.  Before the runtime
 * is made. */
static inline void fixture_without_points(void) { setenv("WEFT_SIM_POINTS", "0", 1); }

static inline weft_deadline fixture_soon(void) { return weft_after(harness_patience()); }

static inline weft_stats fixture_stats(weft_runtime *rt) {
    weft_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_stats_read(rt, -1, &stats), 0);
    return stats;
}

/* All tasks must end by themselves; the counters must agree about it. */
static inline void fixture_end(weft_runtime *rt) {
    REQUIRE_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    weft_stats stats = fixture_stats(rt);
    CHECK_EQ(stats.completed, stats.spawned);
    CHECK_EQ(weft_stats_live(rt), 0);
    CHECK_EQ(weft_stats_searching(rt), 0);
    harness_on_hang(NULL, NULL);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}

/* Threads of this process whose name begins like that: the workers of a runtime with that name.  A thread is listed until
 * a moment after it was joined, and is named a moment after it was started: use REQUIRE_EVENTUALLY. */
static inline unsigned fixture_threads(const char *prefix) {
    unsigned count = 0;
    char path[300], name[32];
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file))
            count += strncmp(name, prefix, strlen(prefix)) == 0;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return count;
}

/* What fn(arg) writes to stderr; the next call overwrites it. */
static inline const char *fixture_said(void (*fn)(void *arg), void *arg) {
    static char text[8192];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    REQUIRE(file && before >= 0);
    dup2(fileno(file), STDERR_FILENO);
    fn(arg);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static inline bool fixture_on(const char *sched) { return strcmp(harness_sched(), sched) == 0; }

/* True where tests do less of the same: in sanitizer builds, and on the reactor, where each task is handed to its worker by another thread. */
static inline bool fixture_is_slow(void) { return harness_is_slow() || fixture_on("reactor"); }

/* -- Tasks ----------------------------------------------------------------------------------------------- */

static inline weft_task *fixture_go(weft_runtime *rt, weft_poll_fn poll, void *state) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_go(rt, poll, state, &task), 0);
    return task;
}

/* Join in time, drop, and say how it ended. */
static inline weft_result fixture_finish(weft_task *task) {
    weft_result result = {1, NULL};
    REQUIRE_EQ(weft_join(task, &result, fixture_soon()), 0);
    weft_task_drop(task);
    return result;
}

/* state: atomic_uint that counts the polls. */
static inline weft_poll fixture_count(weft_task *self, void *state) {
    atomic_fetch_add((atomic_uint *)state, 1);
    return weft_done(self, 0, NULL);
}

static inline weft_poll fixture_yield_for_ever(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_YIELD;
}

/* A task that keeps its worker inside one poll until it is released. */
struct blocker {
    atomic_bool entered, release;
};

static inline weft_poll fixture_block(weft_task *self, void *state) {
    struct blocker *blocker = state;
    atomic_store(&blocker->entered, true);
    while (!atomic_load(&blocker->release))
        harness_nap();
    return weft_done(self, 0, NULL);
}

/* -- A gate: tasks wait, somebody opens it ---------------------------------------------------------------- */

#define GATE_ROOM 1024

struct gate {
    pthread_mutex_t lock;
    bool open;
    unsigned waiting; /* wakers registered since the last opening */
    weft_waker waiter[GATE_ROOM];
};

#define GATE_INIT {.lock = PTHREAD_MUTEX_INITIALIZER}

/* In a poll: true once open; false: return WEFT_PENDING. */
static inline bool gate_pass(struct gate *gate, weft_task *self) {
    pthread_mutex_lock(&gate->lock);
    bool open = gate->open;
    if (!open) {
        REQUIRE_LT(gate->waiting, GATE_ROOM);
        gate->waiter[gate->waiting++] = weft_waker_of(self);
    }
    pthread_mutex_unlock(&gate->lock);
    return open;
}

static inline unsigned gate_waiting(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    unsigned waiting = gate->waiting;
    pthread_mutex_unlock(&gate->lock);
    return waiting;
}

/* Take the registered wakers out, and use each. */
static inline void gate_take(struct gate *gate, bool open, void (*use)(weft_waker)) {
    weft_waker *wakers = malloc(sizeof gate->waiter);
    REQUIRE(wakers);
    pthread_mutex_lock(&gate->lock);
    unsigned count = gate->waiting;
    memcpy(wakers, gate->waiter, count * sizeof *wakers);
    gate->waiting = 0;
    gate->open = open;
    pthread_mutex_unlock(&gate->lock);
    for (unsigned i = 0; i < count; i++)
        use(wakers[i]);
    free(wakers);
}

static inline void gate_open(struct gate *gate) { gate_take(gate, true, weft_waker_wake); }

/* Forget the waiters: their tasks will be cancelled. */
static inline void gate_abandon(struct gate *gate) { gate_take(gate, false, weft_waker_drop); }

/* state: a gate. */
static inline weft_poll fixture_wait_gate(weft_task *self, void *state) {
    return gate_pass(state, self) ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

#endif
