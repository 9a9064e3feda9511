/* sim.c - the simulator and what happens outside of it: it learns of its end. */
#include <weft/weft.h>

#include "model.h"
#include "sched/sched.h"

#define SOON INT64_C(1000000)

static struct weft_runtime rt;
static struct wefti_worker worker;
static struct weft_task task;
static struct wefti_alarm alarm;

static void start(bool driven) {
    rt.sched = &wefti_sched_sim;
    rt.workers = rt.idle.workers = 1;
    rt.worker = &worker;
    rt.park_timeout = INT64_MAX;
    rt.driven = worker.driven = driven;
    worker.rt = &rt;
    worker.sched = rt.sched;
    worker.tick_left = worker.global_left = worker.global_interval = 100;
    store_relaxed(&worker.timers_next, INT64_MAX);
    mc_assert(wefti_sim_init(&rt) == 0);
    wefti_sim_outside(&rt, +1);
}

/* With a task that it makes ready, or, as of a job that nobody waits for, without. */
static void end_outside(void *ready) {
    if (ready)
        wefti_inject_push_one(&rt.inject, &task.link);
    wefti_sim_outside(&rt, -1);
}

static void outside_ends(void) {
    bool ready = mc_arg();
    start(true); /* it does not sleep there, so that we see each step */
    int a = mc_spawn(end_outside, (void *)mc_arg());
    while (!wefti_sim_idle(&worker, SOON)) /* another waits for that time */
        wefti_park_sleep(&worker.park, INT64_MAX);
    mc_assert((wefti_sim_clock(&rt) == SOON) == !ready); /* no time is skipped while something is ready */
    mc_join(a);
    wefti_sim_fini(&rt);
}

/* A simulator with a thread of its own sleeps there. */
MC_TEST(sim_outside_wakes, .bound = 3) {
    start(false);
    int a = mc_spawn(end_outside, (void *)1);
    while (!wefti_inject_length(&rt.inject))
        wefti_sim_idle(&worker, INT64_MAX);
    mc_join(a);
    wefti_sim_fini(&rt);
}
MC_CASE(sim_outside_makes_ready, outside_ends, .arg = 1, .bound = 3);
MC_CASE(sim_outside_ends, outside_ends, .arg = 0, .bound = 3);

/* The same, driven from a loop that sleeps in our poller, and has asked for it in the midst of that: it is poked. */
MC_TEST(sim_outside_pokes, .bound = 2) {
    start(true);
    wefti_word_spawn(&task.word, false);
    wefti_word_enter(&task.word); /* a wake only notes itself */
    wefti_alarm_set(&worker, &alarm, &task, SOON);
    int a = mc_spawn(end_outside, NULL);
    mc_assert(weft_drive(&rt, 0) == 0);
    mc_assert(weft_drive_fd(&rt) >= 0);
    while (!load_relaxed(&alarm.timer.rang)) {
        wefti_poller_wait(&worker.watch->poller, worker.watch->events, INT64_MAX);
        mc_assert(weft_drive(&rt, 0) == 0);
    }
    mc_join(a);
    wefti_poller_close(&worker.watch->poller);
    wefti_free(worker.watch, sizeof *worker.watch);
    wefti_sim_fini(&rt);
}
