/* blocking_late.c - blocking work whose caller is late or cancelled: dropped, waited for, abandoned, or run all the same. */
#include "blocking.h"

API_TEST(blocking_late_in_queue, "", .workers = {1, 2}) {
    if (fixture_on("sim"))
        SKIP("its clock stands still while somebody waits for a job");
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job first = {0}, second = {0};
    occupy(pool, &first);
    struct asking a = {.spec = spec_of(pool, &second), .ns = 3 * MS};
    fixture_finish(start_asking(rt, &a));
    CHECK_EQ(a.error, -ETIMEDOUT);
    CHECK_EQ(a.after, 0);
    CHECK_EQ(second.dropped, 1);
    CHECK_EQ(weft_blocking_call(&a.spec, NULL, harness_clock() + 2 * MS), -ETIMEDOUT); /* a plain thread */
    CHECK_EQ(second.dropped, 2);
    CHECK_EQ(stats_of(pool).queued, 0);
    first.release = true;
    fixture_end(rt);
    end_pool(pool);
    CHECK_EQ(second.ran, 0);
    CHECK_EQ(first.ran, 1);
    CHECK_EQ(first.dropped, 1);
}

API_TEST(blocking_cancelled_in_queue, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool_hasty(0);
    struct job first = {0}, second = {0};
    occupy(pool, &first);
    struct asking a = {.spec = spec_of(pool, &second)};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(stats_of(pool).queued == 1);
    weft_task_cancel(task);
    fixture_finish(task);
    CHECK_EQ(a.error, -ECANCELED);
    CHECK_EQ(a.after, -ECANCELED);
    CHECK_EQ(second.dropped, 1);
    first.release = true;
    fixture_end(rt);
    end_pool(pool);
    CHECK_EQ(second.ran, 0);
}

/* Cancelled before it asks: never handed over, and dropped like one that was taken out of the queue. */
static int ask_cancelled(void *arg) {
    weft_task_cancel(weft_task_self());
    return weft_blocking_call(arg, NULL, WEFT_NEVER);
}

API_TEST(blocking_cancelled_before, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job job = {0};
    weft_blocking_spec spec = spec_of(pool, &job);
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, ask_cancelled, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(job.dropped, 1);
    CHECK_EQ(job.entered, 0);
    fixture_end(rt);
    end_pool(pool);
}

/* A plain thread that names no pool does it itself; it is over then as in a pool. */
TEST(blocking_on_this_thread, "") {
    struct job job = {.release = true};
    weft_blocking_spec spec = spec_of(NULL, &job);
    int result = 0;
    CHECK_EQ(weft_blocking_call(&spec, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, 41);
    CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), 0);
    CHECK_EQ(job.ran, 2);
    CHECK_EQ(job.dropped, 2);
}

/* A poll task that wants no result, and has no other room to wait in than one that is taken. */
struct careless {
    weft_blocking_spec spec;
    weft_wait wait;
    bool asked;
};

static weft_poll ask_carelessly(weft_task *self, void *state) {
    struct careless *c = state;
    if (!c->asked) {
        CHECK_EQ(weft_sleep_poll(self, &c->wait, weft_after(3600000 * MS)), -EAGAIN);
        CHECK_EQ(weft_blocking_poll(&c->spec, self, &c->wait, NULL), -EBUSY);
        weft_wait_end(&c->wait);
    }
    c->asked = true;
    int said = weft_blocking_poll(&c->spec, self, &c->wait, NULL);
    return said == -EAGAIN ? WEFT_PENDING : weft_done(self, said, NULL);
}

API_TEST(blocking_poll_without_result, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job job = {.release = true};
    struct careless careless = {.spec = spec_of(pool, &job)};
    CHECK_EQ(fixture_finish(fixture_go(rt, ask_carelessly, &careless)).status, 0);
    CHECK_EQ(job.ran, 1);
    CHECK_EQ(job.dropped, 1);
    fixture_end(rt);
    end_pool(pool);
}

/* What runs is waited for: the argument is the caller's. */
API_TEST(blocking_cancelled_while_running, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job job = {0};
    struct asking a = {.spec = spec_of(pool, &job)};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(job.entered);
    weft_task_cancel(task);
    for (int i = 0; i < 20; i++)
        harness_nap();
    CHECK(!a.left);
    job.release = true;
    fixture_finish(task);
    CHECK_EQ(a.error, 0);
    CHECK_EQ(a.result, 41);
    CHECK_EQ(a.after, -ECANCELED); /* it learns of it now */
    CHECK_EQ(job.dropped, 1);
    fixture_end(rt);
    end_pool(pool);
}

/* Unless it may be abandoned. */
API_TEST(blocking_abandoned, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool_hasty(0);
    struct job job = {0};
    struct asking a = {.spec = spec_of(pool, &job)};
    a.spec.abandon = true;
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(job.entered);
    weft_task_cancel(task);
    fixture_finish(task);
    CHECK_EQ(a.error, -ECANCELED);
    CHECK_EQ(job.dropped, 0);
    fixture_end(rt); /* the pool is not the runtime's */
    CHECK_EQ(weft_blocking_call(
                 &(weft_blocking_spec){.size = sizeof a.spec, .fn = hold, .arg = &job, .pool = pool, .abandon = true},
                 NULL, harness_clock() + 2 * MS),
             -ETIMEDOUT);
    job.release = true;
    end_pool(pool);
    CHECK_EQ(job.ran, 1);
    CHECK_EQ(job.dropped, 1);
}

/* A mandatory job is run whatever becomes of its caller. */
API_TEST(blocking_mandatory_cancelled, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job first = {0}, second = {.release = true};
    occupy(pool, &first);
    struct asking a = {.spec = spec_of(pool, &second)};
    a.spec.mandatory = true;
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(stats_of(pool).queued == 1);
    weft_task_cancel(task);
    for (int i = 0; i < 20; i++)
        harness_nap();
    CHECK(!a.left);
    first.release = true;
    fixture_finish(task);
    CHECK_EQ(a.error, 0);
    CHECK_EQ(second.ran, 1);
    fixture_end(rt);
    end_pool(pool);
}
