/* process_slice.c - a fiber that sends and sends keeps neither those it sends to nor the others from running. */
#include "process.h"

enum { ENOUGH = 1000, SMALL = 8, LARGE = 100 };

/* -- A flood --------------------------------------------------------------------------------------------- */

static struct {
    int way;
    atomic_uint received;
    unsigned sent;
    atomic_uint released;
} flood;

static void released(void *data) {
    (void)data;
    atomic_fetch_add(&flood.released, 1);
}

static int send_one(weft_pid to) {
    static char bytes[LARGE];
    switch (flood.way) {
    case 0: return weft_send(NULL, to, 0, bytes, SMALL);
    case 1: return weft_send(NULL, to, 0, bytes, LARGE);
    default: return weft_send_ref(NULL, to, 0, bytes, LARGE, released);
    }
}

static int note(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    unsigned before = atomic_fetch_add(&flood.received, (unsigned)count);
    out->status = before + count >= ENOUGH ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class notes = {.size = sizeof notes, .name = "notes", .step = note};

static int note_in_fiber(void *unused) {
    (void)unused;
    weft_message m;
    while (atomic_load(&flood.received) < ENOUGH) {
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
        atomic_fetch_add(&flood.received, 1);
    }
    return 0;
}

/* Until it hears no more: on one worker that is when it has run. */
static int send_on(void *is_fiber) {
    weft_pid to;
    atomic_store(&flood.received, 0);
    if (is_fiber)
        to = go_process(NULL, note_in_fiber, NULL);
    else
        REQUIRE_EQ(spawn_class(NULL, &notes, NULL, 0, &to, NULL), 0);
    weft_deadline until = weft_after(harness_patience());
    for (flood.sent = 0; send_one(to) == 0; flood.sent++)
        REQUIRE(flood.sent % 1024 || fixture_on("sim") || weft_after(0) < until);
    CHECK(atomic_load(&flood.received) >= ENOUGH);
    return 0;
}

API_TEST(process_flood_is_received, "W29", .workers = {1}) {
    for (flood.way = 0; flood.way < 3; flood.way++) {
        in_process(send_on, NULL);
        in_process(send_on, &flood);
    }
    CHECK(atomic_load(&flood.released) > 2 * ENOUGH - 1);
}

/* -- Those that must not wait ------------------------------------------------------------------------------ */

static int try_on(void *unused) {
    (void)unused;
    weft_pid to;
    weft_task *other;
    atomic_store(&flood.received, 0);
    REQUIRE_EQ(spawn_class(NULL, &notes, NULL, 0, &to, &other), 0);
    for (int i = 0; i < 20 * ENOUGH; i++)
        REQUIRE_EQ(weft_try_send(NULL, to, 0, &i, sizeof i), 0);
    CHECK_EQ(atomic_load(&flood.received), 0);
    CHECK(!weft_task_is_done(other));
    CHECK_EQ(fixture_finish(other).status, 0);
    return 0;
}

API_TEST(process_try_send_keeps_the_slice, "", .workers = {1}, .sched = "ring deque fifo sim") {
    in_process(try_on, NULL);
}

/* -- ... but spend the slice ------------------------------------------------------------------------------------ */

static int try_and_send(void *unused) {
    (void)unused;
    weft_pid to;
    weft_task *other;
    atomic_store(&flood.received, 0);
    REQUIRE_EQ(spawn_class(NULL, &notes, NULL, 0, &to, &other), 0);
    for (int i = 0; i < 100; i++) {
        static const char bytes[LARGE];
        REQUIRE_EQ(weft_try_send(NULL, to, 0, bytes, SMALL), 0);
        REQUIRE_EQ(weft_try_send(NULL, to, 0, bytes, LARGE), 0);
    }
    CHECK_EQ(atomic_load(&flood.received), 0);
    REQUIRE_EQ(weft_send(NULL, to, 0, &to, sizeof to), 0); /* the first that may yield does */
    CHECK_EQ(atomic_load(&flood.received), 200);
    unsigned sent = 0;
    for (int error = 0; !error && sent < 100 * ENOUGH; sent++)
        if (!(error = weft_try_send(NULL, to, 0, &sent, sizeof sent)))
            error = weft_send(NULL, to, 0, &sent, sizeof sent);
    CHECK_LT(sent, 100 * ENOUGH);
    CHECK_EQ(fixture_finish(other).status, 0);
    return 0;
}

API_TEST(process_try_send_spends, "", .workers = {1}, .sched = "ring deque fifo") { in_process(try_and_send, NULL); }

static void count_up(void *count) { atomic_fetch_add((atomic_uint *)count, 1); }

/* A fiber between a fork and its join, or that must not be preempted, sends what it has to. */
static int send_undisturbed(void *forked) {
    weft_pid to;
    weft_task *other;
    weft_job job;
    atomic_uint done = 0;
    atomic_store(&flood.received, 0);
    REQUIRE_EQ(spawn_class(NULL, &notes, NULL, 0, &to, &other), 0);
    if (forked)
        weft_fork(&job, count_up, &done);
    else
        weft_preempt_off();
    for (int i = 0; i < 2 * ENOUGH; i++)
        REQUIRE_EQ(weft_send(NULL, to, 0, &i, sizeof i), 0);
    CHECK_EQ(atomic_load(&flood.received), 0);
    if (forked)
        weft_join_job(&job);
    else
        weft_preempt_on();
    CHECK_EQ(atomic_load(&done), forked != NULL);
    CHECK_EQ(fixture_finish(other).status, 0);
    return 0;
}

API_TEST(process_send_undisturbed, "", .workers = {1}, .sched = "ring deque fifo sim") {
    in_process(send_undisturbed, NULL);
    in_process(send_undisturbed, &flood);
}

/* -- One that is sent to -------------------------------------------------------------------------------------- */

static unsigned backlog;

static int send_to_one(void *unused) {
    (void)unused;
    weft_pid to;
    const unsigned most = 100 * ENOUGH;
    static const weft_process_class counts = {.size = sizeof counts, .name = "counts", .step = note};
    atomic_store(&flood.received, 0);
    REQUIRE_EQ(spawn_class(NULL, &counts, NULL, 0, &to, NULL), 0);
    for (unsigned sent = 0; sent < most && weft_send(NULL, to, 0, &sent, sizeof sent) == 0; sent++) {
        unsigned behind = sent + 1 - atomic_load(&flood.received);
        backlog = behind > backlog ? behind : backlog;
    }
    CHECK(atomic_load(&flood.received) >= ENOUGH);
    return 0;
}

/* Also the newest of those that it has made ready, which is the only one here, comes before it goes on. */
API_TEST(process_flood_of_one_is_small, "", .workers = {1}, .sched = "ring deque") {
    for (int i = 0; i < 5; i++)
        in_process(send_to_one, NULL);
    if (backlog > 600)
        harness_note(__FILE__, __LINE__, "%u messages were unread", backlog);
}

/* -- Many that live for one message ------------------------------------------------------------------------ */

static uint64_t most_alive;

static int once(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE; /* it may run before its message comes */
    return 0;
}
static const weft_process_class ephemeral = {.size = sizeof ephemeral, .name = "ephemeral", .step = once};

static int spawn_many(void *unused) {
    (void)unused;
    unsigned count = fixture_is_slow() ? 5000 : 50000;
    for (unsigned i = 0; i < count; i++) {
        weft_pid pid;
        REQUIRE_EQ(spawn_class(NULL, &ephemeral, NULL, 0, &pid, NULL), 0);
        REQUIRE_EQ(weft_send(NULL, pid, 0, &i, sizeof i), 0);
        uint64_t alive = weft_process_count(NULL);
        most_alive = alive > most_alive ? alive : most_alive;
    }
    return 0;
}

/* Who makes others ready lets all of them run, not one in a while: there are never many (300, if nothing comes between). */
API_TEST(process_storm_is_small, "", .workers = {1}, .sched = "ring deque") {
    in_process(spawn_many, NULL);
    CHECK(most_alive > 100);
    if (most_alive > 10000 && !fixture_is_slow())
        harness_note(__FILE__, __LINE__, "%llu were alive at once", (unsigned long long)most_alive);
}

/* -- The others' slices ------------------------------------------------------------------------------------- */

enum { TASKS = 40, VALUES = 20000 };

static struct {
    atomic_bool stop;
    bool is_long;
    unsigned polls; /* of tasks; one worker */
    unsigned most; /* ... between two runs of a fiber */
    weft_chan *ch;
} mix;

static weft_poll poll_on(weft_task *self, void *state) {
    (void)state;
    mix.polls++;
    for (weft_deadline until = weft_after(mix.is_long ? 200000 : 0); weft_after(0) < until;)
        ;
    return atomic_load(&mix.stop) ? weft_done(self, 0, NULL) : WEFT_YIELD;
}

static int use_up_slices(void *unused) {
    (void)unused;
    for (int i = 0, value; i < VALUES; i++)
        REQUIRE_EQ(weft_chan_recv(mix.ch, &value, WEFT_NEVER), 0);
    atomic_store(&mix.stop, true);
    return 0;
}

static int run_sometimes(void *unused) {
    (void)unused;
    for (unsigned last = mix.polls; !atomic_load(&mix.stop); last = mix.polls) {
        REQUIRE_EQ(weft_yield(), 0);
        unsigned between = mix.polls - last;
        mix.most = between > mix.most ? between : mix.most;
    }
    return 0;
}

static int run_mix(void *unused) {
    (void)unused;
    weft_task *fiber[2], *task[TASKS];
    atomic_store(&mix.stop, false);
    mix.polls = mix.most = 0;
    for (int i = 0; i < VALUES; i++)
        REQUIRE_EQ(weft_chan_send(mix.ch, &i, WEFT_NOW), 0);
    for (int i = 0; i < TASKS; i++)
        task[i] = fixture_go(NULL, poll_on, NULL);
    REQUIRE_EQ(weft_fiber_go(NULL, use_up_slices, NULL, &fiber[0]), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, run_sometimes, NULL, &fiber[1]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(fixture_finish(fiber[i]).status, 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    return 0;
}

/* When a fiber has used up its slice the tasks that wait come first: each once, and if they are long not even that. */
API_TEST(fiber_slices_among_tasks, "", .workers = {1}, .sched = "ring deque") {
    REQUIRE_EQ(weft_chan_create(sizeof(int), WEFT_UNBOUNDED, &mix.ch), 0);
    REQUIRE_EQ(weft_fiber_run(NULL, run_mix, NULL, NULL), 0);
    if (mix.most < TASKS / 2 || mix.most > 2 * TASKS)
        harness_note(__FILE__, __LINE__, "up to %u polls between two runs", mix.most);
    mix.is_long = true;
    REQUIRE_EQ(weft_fiber_run(NULL, run_mix, NULL, NULL), 0);
    if (mix.most > TASKS / 4)
        harness_note(__FILE__, __LINE__, "up to %u long polls between two runs", mix.most);
    CHECK_EQ(weft_chan_destroy(mix.ch), 0);
}

/* -- Ever more that are new -------------------------------------------------------------------------------------- */

static struct {
    unsigned begun, ended;
    double most; /* begun between two runs of another, for each that was alive */
    weft_pid to;
} crowd;

static int go_on_crowding(void *left) {
    crowd.begun++;
    if (--*(unsigned *)left)
        REQUIRE_EQ(weft_fiber_go(NULL, go_on_crowding, left, NULL), 0);
    else
        atomic_store(&mix.stop, true);
    for (int i = 0; i < 300; i++)
        REQUIRE_EQ(weft_send(NULL, crowd.to, 0, &i, sizeof i), 0);
    crowd.ended++;
    return 0;
}

static int run_in_a_crowd(void *unused) {
    (void)unused;
    while (!atomic_load(&mix.stop)) {
        unsigned last = crowd.begun, alive = last - crowd.ended + 1;
        REQUIRE_EQ(weft_yield(), 0);
        double between = (double)(crowd.begun - last) / alive;
        crowd.most = between > crowd.most ? between : crowd.most;
    }
    return 0;
}

static int swallow(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].tag == TAG_END)
            out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class swallows = {.size = sizeof swallows, .name = "swallows", .step = swallow};

static int begin_crowd(void *unused) {
    (void)unused;
    static unsigned left;
    weft_task *other;
    left = fixture_is_slow() ? 300 : 2000;
    atomic_store(&mix.stop, false);
    REQUIRE_EQ(spawn_class(NULL, &swallows, NULL, 0, &crowd.to, NULL), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, run_in_a_crowd, NULL, &other), 0);
    REQUIRE_EQ(weft_yield(), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, go_on_crowding, &left, NULL), 0);
    CHECK_EQ(fixture_finish(other).status, 0);
    UNTIL(crowd.ended == crowd.begun);
    end_server(NULL, crowd.to, 0);
    return 0;
}

/* Those that wait once a fiber has used up its slice may be fibers, too, which use up theirs and have made others: the worker's own have run before
 * these come first again. */
API_TEST(process_storm_of_new_fibers_is_fair, "", .workers = {1}, .sched = "ring deque") {
    in_process(begin_crowd, NULL);
    if (crowd.most > 20)
        harness_note(__FILE__, __LINE__, "of each that was alive %g were begun between two runs of another",
                     crowd.most);
}

/* -- ... and that wait at once ------------------------------------------------------------------------------------- */

static int begin_and_yield(void *unused) {
    (void)unused;
    crowd.begun++;
    REQUIRE_EQ(weft_yield(), 0);
    crowd.ended++;
    return 0;
}

static int begin_many(void *unused) {
    (void)unused;
    weft_task *other;
    crowd.begun = crowd.ended = 0;
    atomic_store(&mix.stop, false);
    REQUIRE_EQ(spawn_class(NULL, &swallows, NULL, 0, &crowd.to, NULL), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, run_in_a_crowd, NULL, &other), 0);
    REQUIRE_EQ(weft_yield(), 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < TASKS; i++)
            REQUIRE_EQ(weft_fiber_go(NULL, begin_and_yield, NULL, NULL), 0);
        for (int i = 0; i < 300; i++)
            REQUIRE_EQ(weft_send(NULL, crowd.to, 0, &i, sizeof i), 0);
        UNTIL(crowd.ended == crowd.begun && crowd.begun % TASKS == 0);
    }
    atomic_store(&mix.stop, true);
    CHECK_EQ(fixture_finish(other).status, 0);
    end_server(NULL, crowd.to, 0);
    return 0;
}

/* One that comes first and yields does not let the worker's own run before the others that come first. */
API_TEST(process_storm_comes_first, "", .workers = {1}, .sched = "ring deque") {
    in_process(begin_many, NULL);
    if (crowd.most < TASKS / 2)
        harness_note(__FILE__, __LINE__, "of %d never more than %g were begun between two runs", TASKS, crowd.most);
}

/* -- Between a fork and its join ----------------------------------------------------------------------------------- */

static atomic_bool job_runs, job_may_end;

static void wait_in_job(void *unused) {
    (void)unused;
    for (atomic_store(&job_runs, true); !atomic_load(&job_may_end);)
        ;
}

static __attribute__((noinline)) pthread_t this_thread(void) { return pthread_self(); }

static int send_and_join(void *unused) {
    (void)unused;
    weft_pid to;
    REQUIRE_EQ(spawn_class(NULL, &swallows, NULL, 0, &to, NULL), 0);
    for (int round = 0; round < 50; round++) {
        weft_job job;
        atomic_store(&job_may_end, false);
        atomic_store(&job_runs, false);
        pthread_t before = this_thread();
        weft_fork(&job, wait_in_job, NULL);
        weft_deadline until = weft_after(1000000); /* else nobody has taken it: no matter */
        while (!atomic_load(&job_runs) && weft_after(0) < until)
            ;
        for (int i = 0; i < 2000; i++)
            REQUIRE_EQ(weft_send(NULL, to, 0, &i, sizeof i), 0);
        bool same = pthread_equal(before, this_thread());
        atomic_store(&job_may_end, true);
        REQUIRE(same); /* who has the job will wake that worker, not us */
        weft_join_job(&job);
    }
    end_server(NULL, to, 0);
    return 0;
}

static int spawn_forker(void *unused) {
    (void)unused;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = send_and_join;
    spec.migrate = true;
    REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    return 0;
}

/* A job that somebody has taken is no longer seen in the worker's queue.  A fiber that may move when it waits has not waited. */
API_TEST(process_send_before_join_stays, "", .workers = {4}, .sched = "ring deque fifo reactor") {
    in_process(spawn_forker, NULL);
}
