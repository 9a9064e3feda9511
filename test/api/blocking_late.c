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
