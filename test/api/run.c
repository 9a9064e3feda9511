/* run.c - weft_run: create, run one task, wait for it and what it started, destroy. */
#include "fixture.h"

static weft_poll leave(weft_task *self, void *state) { return weft_done(self, *(int *)state, state); }

API_TEST(run_result, "B33", .workers = {1, 2}) {
    weft_result result = {7, NULL};
    int zero = 0, minus = -EDOM;
    CHECK_EQ(weft_run(NULL, leave, &zero, &result), 0);
    CHECK_EQ(result.status, 0);
    CHECK_EQ(result.value, &zero);
    CHECK_EQ(weft_run(NULL, leave, &minus, &result), -EDOM);
    CHECK_EQ(result.status, -EDOM);
    CHECK_EQ(result.value, &minus);
    CHECK_EQ(weft_run(NULL, leave, &minus, NULL), -EDOM);
    REQUIRE_EVENTUALLY(fixture_threads("weft-0") == 0);
}

struct late {
    atomic_uint *ran;
    int left;
};

static weft_poll yield_then_count(weft_task *self, void *state) {
    struct late *s = state;
    return s->left-- ? WEFT_YIELD : fixture_count(self, s->ran);
}

static weft_poll start_others(weft_task *self, void *state) {
    for (int i = 0; i < 50; i++) {
        struct late s = {state, i};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = yield_then_count;
        spec.state = &s;
        spec.state_size = sizeof s;
        REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    }
    CHECK_STR(weft_task_name(self), "main");
    return weft_done(self, 0, NULL);
}

/* The first task's end is not the end: the rest finishes. */
API_TEST(run_waits_for_the_rest, "W37", .workers = {1, 2, 4}) {
    atomic_uint ran = 0;
    CHECK_EQ(weft_run(NULL, start_others, &ran, NULL), 0);
    CHECK_EQ(ran, 50);
}

static weft_poll cancel_self(weft_task *self, void *state) {
    (void)state;
    weft_task_cancel(self);
    return WEFT_YIELD;
}

API_TEST(run_cancelled, "", .workers = {1}) {
    weft_result result = {0, &result};
    CHECK_EQ(weft_run(NULL, cancel_self, NULL, &result), -ECANCELED);
    CHECK_EQ(result.value, NULL);
}

API_TEST(run_errors, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result = {7, &config};
    CHECK_EQ(weft_run(NULL, NULL, NULL, &result), -EINVAL); /* no poll */
    config.size = 1;
    CHECK_EQ(weft_run(&config, leave, NULL, &result), -EINVAL);
    CHECK_EQ(result.status, 7); /* untouched */
    CHECK_EQ(result.value, &config);
}

/* One inside another: a task may run a whole runtime of its own. */
static weft_poll run_inner(weft_task *self, void *state) {
    int zero = 0;
    weft_runtime *outer = weft_runtime_current();
    CHECK_EQ(weft_run(NULL, leave, &zero, state), 0);
    CHECK_EQ(weft_runtime_current(), outer);
    return weft_done(self, 0, NULL);
}

API_TEST(run_nested, "", .workers = {1, 2}) {
    weft_result inner = {1, NULL};
    CHECK_EQ(weft_run(NULL, run_inner, &inner, NULL), 0);
    CHECK_EQ(inner.status, 0);
}
