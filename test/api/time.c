/* time.c - timers: sleeping in fibers and polls, never early, intervals without drift, driven and virtual clocks. */
#include "fixture.h"

#define MS INT64_C(1000000)
#define HOUR (3600 * INT64_C(1000000000))

static bool on_sim(void) { return fixture_on("sim"); }

/* -- A poll task that sleeps ------------------------------------------------------------------------------------ */

struct sleeper {
    weft_wait wait;
    int64_t ns;
    weft_deadline until;
    atomic_uint *woke;
};

static weft_poll sleep_once(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->until)
        s->until = weft_after(s->ns);
    int why = weft_sleep_poll(self, &s->wait, s->until);
    if (why == -EAGAIN)
        return WEFT_PENDING;
    CHECK_EQ(why, 0);
    CHECK_GE(weft_now(), s->until);
    if (s->woke)
        atomic_fetch_add(s->woke, 1);
    return weft_done(self, 0, NULL);
}

static void end_wait(void *state) { weft_wait_end(&((struct sleeper *)state)->wait); }

static int spawn_sleeper(weft_runtime *rt, int64_t ns, atomic_uint *woke, weft_task **task) {
    struct sleeper sleeper = {.ns = ns, .woke = woke};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = sleep_once;
    spec.state = &sleeper;
    spec.state_size = sizeof sleeper;
    spec.drop = end_wait;
    spec.name = "sleeper";
    return weft_spawn(rt, &spec, task);
}

API_TEST(time_poll_never_early, "R15", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t random = harness_seed();
    atomic_uint woke = 0;
    for (int i = 0; i < 500; i++)
        REQUIRE_EQ(spawn_sleeper(rt, (int64_t)(harness_random(&random) % (uint64_t)(70 * MS)), &woke, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(woke, 500);
}

/* Far from the last tick is not always far: this poll has kept its worker from one for more than a second.  What is over then is told at once, or
 * rung; what is not is not rung early. */
static weft_poll sleep_after_stall(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->until) {
        for (int64_t from = weft_now(); weft_now() < from + 1100 * MS;)
            harness_nap();
        s->until = weft_now() + s->ns;
    }
    return sleep_once(self, state);
}

API_TEST(time_poll_after_stall, "R15", .workers = {1}, .sched = "ring deque fifo reactor") {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[2];
    for (int i = 0; i < 2; i++) {
        struct sleeper sleeper = {.ns = i ? MS : 0};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = sleep_after_stall;
        spec.state = &sleeper;
        spec.state_size = sizeof sleeper;
        spec.drop = end_wait;
        REQUIRE_EQ(weft_spawn(rt, &spec, &task[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

static int fiber_sleeps(void *arg) {
    uint64_t random = *(uint64_t *)arg;
    for (int i = 0; i < 5; i++) {
        weft_deadline until = weft_after((int64_t)(harness_random(&random) % (uint64_t)(15 * MS)));
        CHECK_EQ(weft_sleep_until(until), 0);
        CHECK_GE(weft_now(), until);
    }
    return 0;
}

API_TEST(time_fiber_never_early, "R15", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t seeds[200], random = harness_seed();
    for (int i = 0; i < 200; i++) {
        seeds[i] = harness_random(&random);
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = fiber_sleeps;
        spec.arg = &seeds[i];
        spec.migrate = i % 2;
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, NULL), 0);
    }
    fixture_end(rt);
}

static weft_poll at_once(weft_task *self, void *state) {
    weft_wait wait = {{0}};
    (void)state;
    CHECK_EQ(weft_sleep_poll(self, &wait, WEFT_NOW), 0);
    CHECK_EQ(weft_sleep_poll(self, &wait, weft_now()), 0);
    CHECK_EQ(weft_sleep_poll(self, &wait, INT64_MIN), 0);
    CHECK_EQ(weft_sleep_poll(self, &wait, WEFT_NEVER), -EAGAIN);
    weft_wait_end(&wait);
    for (int i = 0; i < 3; i++) { /* the same room, again and again */
        weft_deadline until = weft_after(HOUR);
        CHECK_EQ(weft_sleep_poll(self, &wait, until), -EAGAIN);
        CHECK_EQ(weft_sleep_poll(self, &wait, until), -EAGAIN);
        weft_wait_end(&wait);
        weft_wait_end(&wait);
    }
    CHECK_EQ(weft_sleep_poll(self, &wait, INT64_MAX - 1), -EAGAIN); /* in 292 years */
    weft_wait_end(&wait);
    CHECK_EQ(weft_sleep(MS), -EINVAL); /* it would stop the worker */
    CHECK_EQ(weft_sleep_poll(NULL, &wait, WEFT_NOW), -EINVAL);
    return weft_done(self, 0, NULL);
}

static int poll_in_fiber(void *arg) {
    weft_wait wait = {{0}};
    CHECK_EQ(weft_sleep_poll(weft_task_self(), &wait, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_sleep_poll(arg, &wait, WEFT_NOW), -EINVAL); /* another's */
    CHECK_EQ(weft_sleep(0), 0);
    CHECK_EQ(weft_sleep(-5), 0);
    CHECK_EQ(weft_sleep_until(WEFT_NOW), 0);
    return 0;
}

API_TEST(time_edges, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_wait wait = {{0}};
    weft_task *task = fixture_go(rt, at_once, NULL), *fiber;
    REQUIRE_EQ(weft_fiber_go(rt, poll_in_fiber, task, &fiber), 0);
    CHECK_EQ(weft_sleep_poll(task, &wait, WEFT_NOW), -EINVAL); /* not its poll */
    fixture_finish(fiber);
    fixture_finish(task);
    int64_t before = harness_clock();
    CHECK_EQ(weft_sleep(2 * MS), 0); /* a plain thread */
    CHECK_GE(harness_clock(), before + 2 * MS);
    fixture_end(rt);
}

/* -- Cancelling, and ending a wait --------------------------------------------------------------------------------- */

static int sleep_long(void *arg) {
    atomic_fetch_add((atomic_uint *)arg, 1);
    return weft_sleep(HOUR);
}

API_TEST(time_cancel, "", .workers = {1, 2}) {
    if (on_sim())
        SKIP("an hour passes at once");
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint asleep = 0;
    weft_task *poll, *fiber;
    REQUIRE_EQ(spawn_sleeper(rt, HOUR, NULL, &poll), 0);
    REQUIRE_EQ(weft_fiber_go(rt, sleep_long, &asleep, &fiber), 0);
    REQUIRE_EVENTUALLY(asleep == 1 && strcmp(weft_task_state(poll), "idle") == 0);
    weft_task_cancel(poll);
    weft_task_cancel(fiber);
    CHECK_EQ(fixture_finish(poll).status, -ECANCELED);
    CHECK_EQ(fixture_finish(fiber).status, -ECANCELED);
    fixture_end(rt);
}

/* A runtime that is stopped does not wait for its sleepers. */
API_TEST(time_stop, "", .workers = {1, 2, 4}) {
    if (on_sim())
        SKIP("an hour passes at once");
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint asleep = 0;
    for (int i = 0; i < 100; i++) {
        REQUIRE_EQ(spawn_sleeper(rt, HOUR + i, NULL, NULL), 0);
        REQUIRE_EQ(weft_fiber_go(rt, sleep_long, &asleep, NULL), 0);
    }
    REQUIRE_EVENTUALLY(asleep == 100);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Woken, moved to another worker, ended, set again: what rings is always the last one. */
struct restless {
    weft_wait wait;
    uint64_t random;
    weft_deadline until;
    unsigned rounds;
};

static weft_poll toss(weft_task *self, void *state) {
    struct restless *r = state;
    while (r->rounds) {
        if (!r->until)
            r->until = weft_after((int64_t)(harness_random(&r->random) % (uint64_t)(3 * MS)));
        else if (harness_random(&r->random) % 2) {
            weft_wait_end(&r->wait);
            r->until = weft_after((int64_t)(harness_random(&r->random) % (uint64_t)(2 * MS)));
        }
        if (weft_sleep_poll(self, &r->wait, r->until) == -EAGAIN) {
            if (harness_random(&r->random) % 2)
                return WEFT_YIELD; /* others may take it */
            return WEFT_PENDING;
        }
        CHECK_GE(weft_now(), r->until);
        r->until = 0;
        r->rounds--;
    }
    return weft_done(self, 0, NULL);
}

API_TEST(time_lost_wake_poll, "R15", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t random = harness_seed();
    for (int i = 0; i < 100; i++) {
        struct restless r = {.random = harness_random(&random), .rounds = 10};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = toss;
        spec.state = &r;
        spec.state_size = sizeof r;
        REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    }
    fixture_end(rt);
}

/* A join with a deadline: the alarm and the end of the task meet. */
static int join_in_time(void *arg) {
    (void)arg;
    uint64_t random = harness_seed();
    for (int i = 0; i < 40; i++) {
        weft_task *task;
        REQUIRE_EQ(spawn_sleeper(NULL, (int64_t)(harness_random(&random) % (uint64_t)(2 * MS)), NULL, &task), 0);
        weft_deadline until = weft_after((int64_t)(harness_random(&random) % (uint64_t)(2 * MS)));
        int error = weft_join(task, NULL, until);
        if (error) {
            CHECK_EQ(error, -ETIMEDOUT);
            CHECK_GE(weft_now(), until);
        }
        weft_task_drop(task);
    }
    return 0;
}

API_TEST(time_lost_wake_join, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 20; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = join_in_time;
        spec.migrate = i % 2;
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, NULL), 0);
    }
    fixture_end(rt);
}

/* -- A worker that is stuck -------------------------------------------------------------------------------------- */

static struct {
    pthread_t thread;
    atomic_uint woke, blocked;
    atomic_bool release;
    struct sleeper sleeper;
} stuck;

/* On the worker whose timer it is: stay here.  Elsewhere: try again. */
static weft_poll get_stuck(weft_task *self, void *state) {
    (void)state;
    if (pthread_equal(stuck.thread, pthread_self())) {
        atomic_store(&stuck.blocked, 1);
        while (!atomic_load(&stuck.release))
            harness_nap();
    } else {
        atomic_store(&stuck.blocked, 2);
    }
    return weft_done(self, 0, NULL);
}

static weft_poll set_and_stick(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->until) {
        stuck.thread = pthread_self();
        REQUIRE_EQ(weft_go(NULL, get_stuck, NULL, NULL), 0);
    }
    return sleep_once(self, state);
}

API_TEST(time_stuck_worker, "B46", .sched = "ring deque fifo", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    do {
        atomic_store(&stuck.blocked, 0);
        stuck.sleeper = (struct sleeper){.ns = 20 * MS, .woke = &stuck.woke};
        weft_task *task = fixture_go(rt, set_and_stick, &stuck.sleeper);
        REQUIRE_EVENTUALLY(stuck.blocked != 0);
        fixture_finish(task); /* though the worker that it slept on is blocked */
    } while (stuck.blocked == 2);
    CHECK(!stuck.release);
    atomic_store(&stuck.release, true);
    fixture_end(rt);
}

/* -- Intervals -------------------------------------------------------------------------------------------------- */

static int tick(void *arg) {
    (void)arg;
    weft_interval interval;
    int64_t period = 3 * MS + 1, begin = weft_now(), passed = 0;
    weft_interval_init_at(&interval, begin + period, period);
    for (int i = 0; i < 15; i++) {
        if (i == 7)
            weft_sleep(10 * MS); /* it misses a few */
        int got = weft_interval_wait(&interval);
        REQUIRE_GE(got, 1);
        passed += got;
        CHECK_GE(weft_now(), begin + passed * period);
        CHECK_EQ(interval.next, begin + (passed + 1) * period); /* no drift */
        if (on_sim())
            CHECK_EQ(got, i == 7 ? 3 : 1);
    }
    return 0;
}

static weft_poll tick_polled(weft_task *self, void *state) {
    struct polled {
        weft_wait wait;
        weft_interval interval;
        int64_t begin, passed;
    } *p = state;
    if (!p->begin) {
        p->begin = weft_now() + 1;
        weft_interval_init_at(&p->interval, p->begin, 2 * MS); /* the first at once */
    }
    while (p->passed < 10) {
        int got = weft_interval_poll(&p->interval, self, &p->wait);
        if (got == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_GE(got, 1);
        p->passed += got;
        CHECK_GE(weft_now(), p->begin + (p->passed - 1) * 2 * MS);
        CHECK_EQ(p->interval.next, p->begin + p->passed * 2 * MS);
    }
    return weft_done(self, 0, NULL);
}

API_TEST(time_interval, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_fiber_go(rt, tick, NULL, NULL), 0);
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = tick_polled;
    spec.state_size = sizeof(weft_wait) + sizeof(weft_interval) + 16;
    REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    fixture_end(rt);
    weft_interval interval;
    weft_interval_init(&interval, -3);
    CHECK_EQ(interval.period, 1);
    weft_interval_init(&interval, INT64_MAX);
    CHECK_EQ(interval.next, WEFT_NEVER);
    weft_interval_init_at(&interval, INT64_MIN, INT64_MAX - 1);
    CHECK_EQ(weft_interval_wait(&interval), 2); /* a plain thread; they are long past: INT64_MIN and -2 */
    CHECK_EQ(interval.next, INT64_MAX - 3);
    weft_interval_init_at(&interval, -7, 10); /* in step with others of its period */
    CHECK_GT(weft_interval_wait(&interval), 0);
    CHECK_EQ(interval.next % 10, 3);
    weft_interval_init_at(&interval, WEFT_NOW, 1);
    CHECK_EQ(weft_interval_wait(&interval), INT32_MAX); /* more than fit */
    CHECK_GT(interval.next, harness_clock() - 1000 * MS);
    interval = (weft_interval){0, weft_now()}; /* never set up: a period of 1 */
    CHECK_GE(weft_interval_wait(&interval), 1);
}

static int cancelled_interval(void *arg) {
    weft_interval *interval = arg;
    weft_interval_init(interval, HOUR);
    weft_deadline next = interval->next;
    weft_task_cancel(weft_task_self());
    int error = weft_interval_wait(interval);
    CHECK_EQ(interval->next, next);
    return error;
}

API_TEST(time_interval_cancel, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_interval interval;
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, cancelled_interval, &interval, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* -- Clocks that somebody else moves --------------------------------------------------------------------------------- */

static int sleep_years(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_deadline until = weft_after(365 * 24 * HOUR);
        CHECK_EQ(weft_sleep_until(until), 0);
        CHECK_GE(weft_now(), until);
        CHECK_LE(weft_now(), until + 2 * MS);
    }
    return 0;
}

API_TEST(time_virtual, "J7", .sched = "sim") {
    int64_t before = harness_clock();
    CHECK_EQ(weft_fiber_run(NULL, sleep_years, NULL, NULL), 0);
    CHECK_LT(harness_clock() - before, HOUR);
}

static weft_runtime *begin_driven(unsigned workers) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.workers = workers;
    return fixture_begin(&config);
}

/* A loop of one's own asks how long it may sleep. */
API_TEST(time_drive_next, "") {
    weft_runtime *rt = begin_driven(1);
    CHECK_EQ(weft_drive_next(rt), WEFT_NEVER);
    atomic_uint woke = 0;
    weft_deadline after = harness_clock() + 5 * MS;
    REQUIRE_EQ(spawn_sleeper(rt, 5 * MS, &woke, NULL), 0);
    REQUIRE_EQ(spawn_sleeper(rt, 12 * MS, &woke, NULL), 0);
    while (woke < 2) {
        CHECK_GE(weft_drive(rt, 0), 0);
        weft_deadline next = weft_drive_next(rt);
        if (woke < 2 && !on_sim()) {
            CHECK_GE(next, after);
            CHECK_LE(next, harness_clock() + 13 * MS);
        }
        if (next != WEFT_NEVER)
            CHECK_EQ(weft_sleep_until(next), 0);
    }
    CHECK_EQ(weft_drive_next(rt), WEFT_NEVER);
    fixture_end(rt);
    rt = fixture_begin(NULL);
    CHECK_EQ(weft_drive_next(rt), WEFT_NEVER); /* not driven */
    fixture_end(rt);
}

API_TEST(time_drive_wait, "") {
    weft_runtime *rt = begin_driven(1);
    atomic_uint woke = 0;
    REQUIRE_EQ(spawn_sleeper(rt, 5 * MS, &woke, NULL), 0);
    int64_t begin = harness_clock();
    while (woke == 0)
        REQUIRE_GT(weft_drive_wait(rt, 0, fixture_soon()), 0); /* it sleeps until the timer, not until then */
    CHECK_LT(harness_clock() - begin, harness_patience());
    REQUIRE_EQ(spawn_sleeper(rt, 5 * MS, &woke, NULL), 0);
    fixture_end(rt); /* and so does the stopper, who drives it */
    CHECK_EQ(woke, 2);
}
