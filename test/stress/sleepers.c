/* sleepers.c - a million timers at a time: all ring, once, none early; or all are cleared. */
#include "../api/fixture.h"

#define MS INT64_C(1000000)

/* Under `reactor` each of them is handed over twice by one thread, at some microseconds. */
static unsigned count_of(unsigned full) { return full / (fixture_on("reactor") ? 200 : harness_is_slow() ? 20 : 1); }

static struct {
    atomic_uint woke, early, dropped;
} run;

struct sleeper {
    weft_wait wait;
    weft_deadline until;
};

static weft_poll sleep_once(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (weft_sleep_poll(self, &s->wait, s->until) == -EAGAIN)
        return WEFT_PENDING;
    if (weft_now() < s->until)
        atomic_fetch_add(&run.early, 1);
    return fixture_count(self, &run.woke);
}

static void end_wait(void *state) {
    weft_wait_end(&((struct sleeper *)state)->wait);
    atomic_fetch_add(&run.dropped, 1);
}

struct crowd {
    unsigned left;
    int64_t least, most; /* ns from now */
    uint64_t random;
    weft_deadline equal; /* the same for all, or 0 */
};

/* Starts them in portions, from inside. */
static weft_poll spawn_crowd(weft_task *self, void *state) {
    struct crowd *c = state;
    for (unsigned i = 0; i < 1000 && c->left; i++, c->left--) {
        struct sleeper s = {.until = c->equal ? c->equal
                                              : weft_after(c->least + (int64_t)(harness_random(&c->random) %
                                                                                (uint64_t)(c->most - c->least)))};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = sleep_once;
        spec.state = &s;
        spec.state_size = sizeof s;
        spec.drop = end_wait;
        REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    }
    return c->left ? WEFT_YIELD : weft_done(self, 0, NULL);
}

API_TEST(sleepers_million, "R15", .workers = {1, 2}, .timeout = 60) {
    struct crowd crowd = {count_of(1000000), MS, 1000 * MS, harness_seed(), 0};
    unsigned count = crowd.left;
    weft_runtime *rt = fixture_begin(NULL);
    fixture_finish(fixture_go(rt, spawn_crowd, &crowd));
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(run.woke, count);
    CHECK_EQ(run.dropped, count);
    CHECK_EQ(run.early, 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(sleepers_million_equal, "R15", .workers = {1, 2}, .timeout = 60) {
    struct crowd crowd = {.left = count_of(1000000)};
    unsigned count = crowd.left;
    weft_runtime *rt = fixture_begin(NULL);
    crowd.equal = fixture_on("sim") ? 5000 * MS : weft_after(500 * MS);
    fixture_finish(fixture_go(rt, spawn_crowd, &crowd));
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(run.woke, count);
    CHECK_EQ(run.early, 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Cancelled, each clears its own. */
API_TEST(sleepers_million_cancelled, "", .sched = "ring deque fifo", .workers = {1, 2}, .timeout = 60) {
    struct crowd crowd = {count_of(1000000), INT64_C(3600000) * MS, INT64_C(36000000) * MS, harness_seed(), 0};
    unsigned count = crowd.left;
    weft_runtime *rt = fixture_begin(NULL);
    fixture_finish(fixture_go(rt, spawn_crowd, &crowd));
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(run.woke, 0);
    CHECK_EQ(run.dropped, count);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
