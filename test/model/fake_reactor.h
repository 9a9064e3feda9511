/* fake_reactor.h - a reactor made by hand: its steps are made by the test, or by one of its threads. */
#ifndef WEFT_TEST_MODEL_FAKE_REACTOR_H
#define WEFT_TEST_MODEL_FAKE_REACTOR_H

#include "model.h"
#include "sched/reactor.h"

static struct weft_runtime fake;
static struct wefti_worker fake_worker[3];
static struct weft_task *tasks[3];
static _Atomic int polled;

static inline weft_poll wait_for_ever(weft_task *self, void *state) {
    (void)self, (void)state;
    add_relaxed(&polled, 1);
    return WEFT_PENDING;
}

static inline void fake_begin(uint32_t count) {
    fake.sched = &wefti_sched_reactor;
    fake.workers = fake.idle.workers = count;
    fake.worker = fake_worker;
    fake.park_timeout = INT64_MAX;
    fake.global_capacity = 8;
    for (uint32_t i = 0; i <= count; i++) {
        fake_worker[i].rt = &fake;
        fake_worker[i].sched = fake.sched;
        fake_worker[i].index = i;
        fake_worker[i].central = true;
        fake_worker[i].shared = count > 1;
        fake_worker[i].average = fake_worker[i].length = WEFTI_AVERAGE_START;
        fake_worker[i].tick_left = fake_worker[i].global_left = fake_worker[i].global_interval = 100;
        fake_worker[i].watched_polls = UINT64_MAX;
        store_relaxed(&fake_worker[i].timers_next, INT64_MAX);
    }
    fake.control = &fake_worker[count];
    mc_assert(fake.sched->init(&fake) == 0);
    wefti_slab_init(&fake.slab, &fake);
    for (int i = 0; i < 3; i++) {
        tasks[i] = wefti_slab_take(&fake.slab, NULL, 0);
        mc_assert(tasks[i] != NULL);
        tasks[i]->poll = wait_for_ever;
        tasks[i]->home = 0;
        wefti_word_spawn(&tasks[i]->word, false);
    }
}

static inline void fake_end(void) {
    fake.sched->fini(&fake);
    wefti_slab_fini(&fake.slab);
}

static inline void turn(void) {
    for (int step = 1; step <= 8; step++)
        wefti_reactor_step(fake.reactor, step);
}

/* As the control thread: sleep without limit, then make a round. */
static inline void wait_and_turn(void) {
    fake.reactor->idle_look = INT64_MAX;
    wefti_reactor_step(fake.reactor, 9);
    turn();
}

#endif
