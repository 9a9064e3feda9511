/* signals.c - signals interrupt every wait, a thousand times a second, and nothing notices. */
#include "fixture.h"

#include <signal.h>
#include <sys/time.h>

static atomic_uint signals;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void storm(long us) {
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    struct itimerval timer = {{0, us}, {0, us}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

API_TEST(signals_interrupt_nothing, "", .workers = {1, 4}) {
    storm(500);
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    for (unsigned i = 1; i <= 100; i++) {
        struct gate gate = GATE_INIT;
        weft_task *task = fixture_go(rt, fixture_wait_gate, &gate);
        int64_t before = harness_clock();
        CHECK_EQ(weft_join(task, NULL, weft_after(500000)), -ETIMEDOUT); /* not earlier, for all the signals */
        CHECK_GE(harness_clock() - before, 500000);
        REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
        gate_open(&gate);
        CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        REQUIRE_EVENTUALLY(ran == i);
    }
    CHECK_GT(signals, 10);
    storm(0);
    fixture_end(rt);
}

/* Aimed at a worker asleep in its park: it goes on sleeping. */
static weft_poll say_thread(weft_task *self, void *state) {
    *(pthread_t *)state = pthread_self();
    return weft_done(self, 0, NULL);
}

API_TEST(signals_to_a_sleeping_worker, "B35", .workers = {1}) {
    if (harness_is_slow())
        SKIP("a sanitizer keeps signals back from a sleeping thread");
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t worker;
    sigaction(SIGUSR2, &action, NULL);
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, say_thread, &worker));
    for (unsigned i = 0; i < 50; i++) {
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 1);
        uint64_t polls = fixture_stats(rt).polls;
        REQUIRE_EQ(pthread_kill(worker, SIGUSR2), 0);
        REQUIRE_EVENTUALLY(signals > i);
        CHECK_EQ(weft_stats_parked(rt), 1);
        CHECK_EQ(fixture_stats(rt).polls, polls);
    }
    fixture_finish(fixture_go(rt, say_thread, &worker)); /* and is woken by what it waits for */
    fixture_end(rt);
}
