/* blocking_end.c - the end of runtimes and pools with blocking work: waited for, named, or dropped. */
#include "blocking.h"
#include "dump_fixture.h"

/* Everything accepted is done, if there is time. */
API_TEST(blocking_stop_waits, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_hasty();
    struct job job[8] = {{0}};
    for (int i = 0; i < 8; i++) {
        weft_blocking_spec spec = spec_of(NULL, &job[i]);
        job[i].release = i > 0;
        REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
        REQUIRE_EVENTUALLY(job[i].entered);
    }
    CHECK_EQ(weft_runtime_stop(rt, harness_clock() + MS), -EBUSY); /* the first one runs */
    CHECK_EQ(weft_blocking_start(rt, &(weft_blocking_spec){.size = sizeof(weft_blocking_spec), .fn = hold}),
             -ESHUTDOWN);
    job[0].release = true;
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(job[i].dropped, 1);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
}

static void stop_busy(void *rt) { CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -EBUSY); }
static void destroy_busy(void *pool) { CHECK_EQ(weft_pool_destroy(pool, WEFT_NOW), -EBUSY); }

/* A job that does not end is named: both when a fiber waits for it, and when nobody does. */
API_TEST(blocking_names_the_stuck, "R36", .workers = {2}, .timeout = 40) {
    weft_runtime *rt = fixture_begin_hasty();
    struct job job = {0};
    struct asking a = {.spec = spec_of(NULL, &job)};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(job.entered);
    REQUIRE_CONTAINS(fixture_said(stop_busy, rt), "job \"holder\" has been running for");
    job.release = true;
    fixture_finish(task);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    weft_pool *pool = begin_pool_hasty(0);
    struct job other = {0};
    occupy(pool, &other);
    REQUIRE_CONTAINS(fixture_said(destroy_busy, pool), "weft: pool \"hands\": job \"holder\" has been running for");
    other.release = true;
    end_pool(pool);
    CHECK_EQ(other.dropped, 1);
}

static weft_pool *closing;

static void release_first(unsigned index, void *arg) {
    struct job *job = arg;
    if (index == 0) {
        CHECK_EQ(weft_pool_destroy(closing, WEFT_NOW), -ECANCELED);
    } else {
        REQUIRE_EVENTUALLY(job[1].dropped == 1); /* dropped although nothing else has ended yet */
        CHECK_EQ(job[2].dropped, 0);
        job[0].release = true;
    }
}

/* Closed at once: what has not begun is dropped, but for what is mandatory.  What runs is waited for, here for ever. */
API_TEST(blocking_mandatory, "B57", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    closing = begin_pool_with(1, 1, 0, 0, WEFT_NEVER);
    static struct job job[4];
    occupy(closing, &job[0]);
    weft_blocking_spec spec = spec_of(closing, &job[1]);
    REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
    spec = spec_of(closing, &job[2]);
    spec.mandatory = true;
    job[2].release = true;
    REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
    struct asking a = {.spec = spec_of(closing, &job[3])};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(stats_of(closing).queued == 3);
    harness_threads(2, release_first, job);
    fixture_finish(task);
    CHECK_EQ(a.error, -ECANCELED); /* its job was dropped */
    CHECK_EQ(a.after, 0); /* it was not cancelled itself */
    CHECK_EQ(job[0].ran, 1);
    CHECK_EQ(job[1].ran, 0);
    CHECK_EQ(job[2].ran, 1);
    CHECK_EQ(job[3].ran, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(job[i].dropped, 1);
    fixture_end(rt);
}

/* While the first is dropped, the only thread becomes free: it does not begin what is to be dropped next; and the one that is just being
 * dropped counts as one that runs. */
static struct job dropped[4];

static void free_the_thread(void *arg) {
    dropped[0].release = true;
    REQUIRE_EVENTUALLY(stats_of(closing).completed == 1);
    CHECK_EQ(stats_of(closing).running, 1);
    CHECK_EQ(stats_of(closing).queued, 2);
    on_drop(arg);
}

TEST(blocking_dropped_do_not_begin, "B57") {
    closing = begin_pool_with(1, 1, 0, 0, WEFT_NEVER);
    occupy(closing, &dropped[0]);
    for (int i = 1; i < 4; i++) {
        weft_blocking_spec spec = spec_of(closing, &dropped[i]);
        spec.drop = i == 1 ? free_the_thread : on_drop;
        dropped[i].release = true;
        REQUIRE_EQ(weft_blocking_start(NULL, &spec), 0);
    }
    CHECK_EQ(weft_pool_destroy(closing, WEFT_NOW), -ECANCELED);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(dropped[i].ran, i == 0);
        CHECK_EQ(dropped[i].dropped, 1);
    }
}

/* Who asked is cancelled while his job is dropped: he waits for the end of that, and does not drop it once more. */
struct cut {
    weft_runtime *rt;
    weft_task *task;
    struct asking asking;
    struct job job;
    atomic_bool begun;
};
static struct cut cut;

static void cancel_who_asked(void *arg) {
    CHECK_EQ(stats_of(closing).running, 2); /* as one that runs */
    if (!atomic_exchange(&cut.begun, true)) {
        weft_task_cancel(cut.task);
        REQUIRE_EVENTUALLY(cut.asking.left || strstr(dump(cut.rt), "a blocking job that has begun"));
        CHECK(!cut.asking.left);
    }
    on_drop(arg);
}

static void close_beside(unsigned index, void *arg) {
    struct job *running = arg;
    if (index == 0) {
        CHECK_EQ(weft_pool_destroy(closing, WEFT_NOW), -ECANCELED);
    } else {
        REQUIRE_EVENTUALLY(cut.job.dropped);
        running->release = true;
    }
}

API_TEST(blocking_cancelled_while_dropped, "R2", .workers = {1, 2}, .sched = "ring deque fifo reactor") {
    static struct job running;
    cut.rt = fixture_begin_patient();
    closing = begin_pool_with(1, 1, 0, 0, WEFT_NEVER);
    occupy(closing, &running);
    cut.asking.spec = spec_of(closing, &cut.job);
    cut.asking.spec.drop = cancel_who_asked;
    cut.task = start_asking(cut.rt, &cut.asking);
    REQUIRE_EVENTUALLY(stats_of(closing).queued == 1);
    harness_threads(2, close_beside, &running);
    fixture_finish(cut.task);
    CHECK_EQ(cut.asking.error, -ECANCELED);
    CHECK_EQ(cut.job.ran, 0);
    CHECK_EQ(cut.job.dropped, 1);
    CHECK_EQ(running.ran, 1);
    fixture_end(cut.rt);
}
