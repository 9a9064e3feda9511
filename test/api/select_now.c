/* select_now.c - a select that does not wait finds a value that is always in one of its channels, wherever it is called. */
#include "chan.h"

/* A value moves from `from` to `to`: it is in `to` before it has left `from`.  Meanwhile a select looks at both. */
static struct {
    weft_chan *from, *to, *idle[6];
    weft_event never;
    int descriptors[2];
    int64_t began;
    atomic_int phase; /* 1: select and move; 2: moved; 3: over */
} stage;

static void open_stage(void) {
    stage.from = chan_of_ints(4);
    stage.to = chan_of_ints(4);
    for (int i = 0; i < 6; i++)
        stage.idle[i] = chan_of_ints(1);
    weft_event_init(&stage.never);
    REQUIRE_EQ(pipe(stage.descriptors), 0);
    atomic_store(&stage.phase, 0);
    stage.began = harness_clock();
}

static void close_stage(void) {
    CHECK_EQ(weft_chan_destroy(stage.from), 0);
    CHECK_EQ(weft_chan_destroy(stage.to), 0);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(weft_chan_destroy(stage.idle[i]), 0);
    CHECK_EQ(weft_event_destroy(&stage.never), 0);
    close(stage.descriptors[0]);
    close(stage.descriptors[1]);
}

static void move_one(weft_deadline until) {
    int one = 1, value;
    REQUIRE_EQ(weft_chan_send(stage.to, &one, until), 0);
    int error = weft_chan_recv(stage.from, &value, WEFT_NOW);
    REQUIRE(error == 0 || error == -ETIMEDOUT);
    atomic_store(&stage.phase, 2);
}

/* One round, up to the select.  Cases that never happen make it take longer. */
static void look(int round, bool in_poll) {
    int one = 1, value;
    weft_case cases[10] = {weft_case_recv(stage.from, &value), weft_case_recv(stage.to, &value)};
    for (int i = 0; i < 6; i++)
        cases[2 + i] = weft_case_recv(stage.idle[i], &value);
    cases[8] = weft_case_event(&stage.never);
    cases[9] = weft_case_fd(stage.descriptors[0], WEFT_FD_READ);
    REQUIRE_EQ(weft_chan_send(stage.from, &one, WEFT_NOW), 0);
    atomic_store(&stage.phase, 1);
    for (volatile int spin = round % 300; spin > 0; spin--)
        ;
    int index = weft_select(cases, round % 4 ? 9 : 10, in_poll || round % 3 ? WEFT_NOW : 1); /* 1: long past */
    REQUIRE(index == 0 || index == 1);
    REQUIRE_EQ(cases[index].result, 0);
}

static void clear(void) {
    int value;
    while (weft_chan_recv(stage.from, &value, WEFT_NOW) == 0 || weft_chan_recv(stage.to, &value, WEFT_NOW) == 0)
        ;
    atomic_store(&stage.phase, 0);
}

/* On a busy machine each round may cost two turns of the system's scheduler. */
static bool is_enough(int round) {
    return round == 3000 || (round % 16 == 0 && harness_clock() > stage.began + INT64_C(200000000));
}

static void *mover_thread(void *arg) {
    for (int phase; (phase = atomic_load(&stage.phase)) != 3;)
        if (phase == 1)
            move_one(WEFT_NOW);
        else
            sched_yield();
    return arg;
}

static int mover_fiber(void *arg) {
    (void)arg;
    for (int phase; (phase = atomic_load(&stage.phase)) != 3;)
        if (phase == 1)
            move_one(WEFT_NEVER); /* it need not wait; but under a control thread it leaves serving others to that */
        else
            weft_yield();
    return 0;
}

static int look_often(void *arg) {
    for (int i = 0; !is_enough(i); i++) {
        look(i, false);
        while (atomic_load(&stage.phase) != 2)
            if (arg)
                weft_yield();
            else
                sched_yield();
        clear();
    }
    atomic_store(&stage.phase, 3);
    return 0;
}

static weft_poll look_in_poll(weft_task *self, void *state) {
    int *round = state;
    if (*round && atomic_load(&stage.phase) != 2)
        return WEFT_YIELD;
    clear();
    if (is_enough(*round)) {
        atomic_store(&stage.phase, 3);
        return weft_done(self, 0, NULL);
    }
    look((*round)++, true);
    return WEFT_YIELD;
}

TEST(select_now_in_a_thread, "R26 R27") {
    pthread_t mover;
    open_stage();
    REQUIRE_EQ(pthread_create(&mover, NULL, mover_thread, NULL), 0);
    look_often(NULL);
    REQUIRE_EQ(pthread_join(mover, NULL), 0);
    close_stage();
}

/* Who moves the value: a thread, or a fiber of the same runtime. */
static void with_runtime(bool by_thread, bool in_poll) {
    pthread_t thread;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *mover = NULL, *looker;
    int round = 0;
    open_stage();
    if (by_thread)
        REQUIRE_EQ(pthread_create(&thread, NULL, mover_thread, NULL), 0);
    else
        REQUIRE_EQ(weft_fiber_go(rt, mover_fiber, NULL, &mover), 0);
    if (in_poll)
        REQUIRE_EQ(weft_go(rt, look_in_poll, &round, &looker), 0);
    else
        REQUIRE_EQ(weft_fiber_go(rt, look_often, rt, &looker), 0);
    CHECK_EQ(fixture_finish(looker).status, 0);
    if (by_thread)
        REQUIRE_EQ(pthread_join(thread, NULL), 0);
    else
        CHECK_EQ(fixture_finish(mover).status, 0);
    close_stage();
    fixture_end(rt);
}

API_TEST(select_now_in_a_fiber, "R26 R27", .workers = {1, 2}) {
    with_runtime(true, false);
    with_runtime(false, false);
}

API_TEST(select_now_in_a_poll, "R26 R27", .workers = {1, 2}) {
    with_runtime(true, true);
    with_runtime(false, true);
}
