/* budget_meter.c - metered code where no fiber may yield. */
#include <weft/weft.h>

#include "fiber/meter.h"
#include "harness.h"
#include "metered/code.h"

/* A wake callback is called in the midst of somebody's call into weft: it has no current task. */
static atomic_uint woken, inside;
static void woke(void *arg) {
    (void)arg;
    atomic_fetch_add(&woken, 1);
    if (weft_task_self())
        atomic_fetch_add(&inside, 1);
    metered_sum(5000);
}

static int wake_driven(void *arg) {
    uint64_t before = weft_ops_used();
    for (int i = 0; i < 10; i++)
        wefti_worker_wake(&((struct weft_runtime *)arg)->worker[0]);
    return weft_ops_used() == before && weft_in_fiber() ? 0 : -EPROTO;
}

TEST(meter_wake_callback, "J5") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt;
    weft_task *task;
    weft_result result;
    config.workers = 1;
    config.driven = true;
    config.wake = woke;
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    REQUIRE_EQ(weft_fiber_go(rt, wake_driven, rt, &task), 0);
    while (!weft_task_is_done(task))
        REQUIRE_GE(weft_drive(rt, 0), 0);
    REQUIRE_EQ(weft_join(task, &result, WEFT_NOW), 0);
    CHECK_EQ(result.status, 0);
    weft_task_drop(task);
    CHECK_GE(atomic_load(&woken), 10);
    CHECK_EQ(atomic_load(&inside), 0);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}

/* What is owed is bounded: a fiber that never turns preemption on again does not count round to a credit. */
static int owe(void *arg) {
    (void)arg;
    struct wefti_fiber *self = wefti_fiber_self();
    weft_preempt_off();
    self->ops_left = INT32_MIN + 5;
    metered_sum(1000);
    bool owes = self->ops_left < INT32_MIN / 4;
    self->ops_left = 0;
    weft_preempt_on();
    return owes ? 0 : -EPROTO;
}

TEST(meter_owed_bounded, "J11") { CHECK_EQ(weft_fiber_run(NULL, owe, NULL, NULL), 0); }
