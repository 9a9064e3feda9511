/* million.c - many tasks: a million run, each once; a million live at the same time. */
#include "../api/fixture.h"

/* Under `reactor` one thread hands over each of them, at some microseconds. */
static unsigned count_of(unsigned full) { return full / (harness_is_slow() ? 20 : fixture_on("reactor") ? 10 : 1); }

static struct {
    atomic_uchar *seen;
    atomic_uint ran;
} run;

static weft_poll see(weft_task *self, void *state) {
    REQUIRE_EQ(atomic_fetch_add(&run.seen[(uintptr_t)state], 1), 0);
    return fixture_count(self, &run.ran);
}

struct range {
    unsigned begin, end;
};

/* Halves its range until it is small, then spawns a task for each number. */
static weft_poll spread(weft_task *self, void *state) {
    struct range *range = state;
    if (range->end - range->begin <= 300) {
        for (uintptr_t i = range->begin; i < range->end; i++)
            REQUIRE_EQ(weft_go(NULL, see, (void *)i, NULL), 0);
        return weft_done(self, 0, NULL);
    }
    unsigned middle = range->begin + (range->end - range->begin) / 2;
    struct range half[2] = {{range->begin, middle}, {middle, range->end}};
    for (int i = 0; i < 2; i++) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = spread;
        spec.state = &half[i];
        spec.state_size = sizeof half[i];
        REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    }
    return weft_done(self, 0, NULL);
}

API_TEST(million_from_inside, "B9 B15", .workers = {1, 2, 4}, .timeout = 60) {
    unsigned count = count_of(1000000);
    run.seen = calloc(count, 1);
    REQUIRE(run.seen);
    weft_runtime *rt = fixture_begin_patient();
    weft_spec spec = WEFT_SPEC_INIT;
    struct range all = {0, count};
    spec.poll = spread;
    spec.state = &all;
    spec.state_size = sizeof all;
    REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(run.ran, count);
    weft_stats stats = fixture_stats(rt);
    CHECK_EQ(stats.spawned, stats.completed);
    CHECK_EQ(stats.polls, stats.completed);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    for (unsigned i = 0; i < count; i++)
        REQUIRE_EQ(run.seen[i], 1);
    free((void *)run.seen);
}

static void spawn_part(unsigned index, void *arg) {
    unsigned each = count_of(1000000) / 4;
    for (uintptr_t i = index * each; i < (index + 1) * each; i++) {
        int error;
        while ((error = weft_go(arg, see, (void *)i, NULL)) == -EAGAIN)
            harness_nap(); /* back-pressure */
        REQUIRE_EQ(error, 0);
    }
}

API_TEST(million_from_outside, "B24 B57", .workers = {2}, .timeout = 60) {
    unsigned count = count_of(1000000) / 4 * 4;
    run.seen = calloc(count, 1);
    REQUIRE(run.seen);
    weft_runtime *rt = fixture_begin_patient();
    harness_threads(4, spawn_part, rt);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(run.ran, count);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    for (unsigned i = 0; i < count; i++)
        REQUIRE_EQ(run.seen[i], 1);
    free((void *)run.seen);
}

static weft_poll sleep_once(weft_task *self, void *state) {
    weft_waker *waker = state;
    if (waker->target)
        return fixture_count(self, &run.ran);
    *waker = weft_waker_of(self);
    return WEFT_PENDING;
}

/* A million live tasks fit; then all of them are woken. */
API_TEST(million_alive, "B2 B49", .sched = "ring deque", .workers = {2}, .timeout = 60) {
    unsigned count = count_of(1000000);
    weft_waker *waker = calloc(count, sizeof *waker);
    weft_config config = WEFT_CONFIG_INIT;
    REQUIRE(waker);
    memset((void *)waker, 0, count * sizeof *waker);
    config.global_capacity = count + 1;
    weft_runtime *rt = fixture_begin(&config);
    size_t before = harness_rss();
    for (unsigned i = 0; i < count; i++)
        REQUIRE_EQ(weft_go(rt, sleep_once, &waker[i], NULL), 0);
    REQUIRE_EVENTUALLY(fixture_stats(rt).polls == count);
    CHECK_EQ(weft_stats_live(rt), count);
    if (!harness_is_slow()) {
        size_t each = (harness_rss() - before) / count;
        printf("%zu bytes a task\n", each);
        CHECK_LE(each, 192);
    }
    for (unsigned i = 0; i < count; i++)
        weft_waker_wake_keep(waker[i]);
    REQUIRE_EVENTUALLY(run.ran == count);
    for (unsigned i = 0; i < count; i++)
        weft_waker_drop(waker[i]);
    fixture_end(rt);
    free(waker);
}
