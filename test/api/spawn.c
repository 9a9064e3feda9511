/* spawn.c - starting tasks: what they get, what they leave, what is refused. */
#include "fixture.h"

/* -- Results ---------------------------------------------------------------------------------------------- */

static weft_poll leave(weft_task *self, void *state) { return weft_done(self, -*(int *)state, state); }

API_TEST(spawn_result, "B33 B55", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    int number[100];
    weft_task *task[100];
    for (int i = 0; i < 100; i++) {
        number[i] = i;
        task[i] = fixture_go(rt, leave, &number[i]);
    }
    for (int i = 99; i >= 0; i--) {
        weft_result result = {1, NULL}, again = {1, NULL};
        REQUIRE_EQ(weft_join(task[i], &result, fixture_soon()), 0);
        CHECK(weft_task_is_done(task[i]));
        CHECK_STR(weft_task_state(task[i]), "complete");
        CHECK_EQ(result.status, -i);
        CHECK_EQ(result.value, &number[i]);
        CHECK_EQ(weft_join(task[i], &again, WEFT_NOW), 0); /* it stays readable */
        CHECK_EQ(again.status, -i);
        CHECK_EQ(again.value, &number[i]);
        CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(task[i]);
    }
    fixture_end(rt);
}

static weft_poll just_ready(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_READY;
}

API_TEST(spawn_plain_ready, "B33") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_result result = fixture_finish(fixture_go(rt, just_ready, NULL));
    CHECK_EQ(result.status, 0);
    CHECK_EQ(result.value, NULL);
    fixture_end(rt);
}

static weft_poll leave_early(weft_task *self, void *state) {
    unsigned *polls = state;
    weft_poll ready = weft_done(self, -9, polls); /* and then think better of it */
    return ++*polls < 3 ? WEFT_YIELD : *polls == 3 ? WEFT_READY : ready;
}

API_TEST(spawn_result_is_of_the_last_poll, "B33") {
    weft_runtime *rt = fixture_begin(NULL);
    unsigned polls = 0;
    CHECK_EQ(fixture_finish(fixture_go(rt, leave_early, &polls)).status, -9);
    CHECK_EQ(polls, 3);
    fixture_end(rt);
}

/* -- State ------------------------------------------------------------------------------------------------ */

static size_t state_size_now;
static unsigned char state_first_now;

static weft_poll check_state(weft_task *self, void *state) {
    unsigned char *byte = state;
    /* Aligned for any type of that size. */
    CHECK_EQ((uintptr_t)state % (state_size_now > 8 ? _Alignof(max_align_t) : 8), 0);
    for (size_t i = 0; i < state_size_now; i++)
        REQUIRE_EQ(byte[i], (unsigned char)(state_first_now + (state_first_now ? i : 0)));
    memset(state, 0xee, state_size_now); /* all of it is the task's */
    return weft_done(self, 0, state);
}

API_TEST(spawn_inline_state, "B2", .workers = {2}) {
    weft_runtime *rt = fixture_begin(NULL);
    unsigned char bytes[WEFT_STATE_MAX];
    for (size_t size = 1; size <= WEFT_STATE_MAX; size++) {
        for (unsigned first = 0; first < 2; first++) {
            weft_spec spec = WEFT_SPEC_INIT;
            weft_task *task = NULL;
            state_size_now = size;
            state_first_now = (unsigned char)(first ? 1 + size % 200 : 0);
            for (size_t i = 0; i < size; i++)
                bytes[i] = (unsigned char)(state_first_now + i);
            spec.poll = check_state;
            spec.state = first ? bytes : NULL; /* NULL: zeros */
            spec.state_size = size;
            REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
            memset(bytes, 0, sizeof bytes); /* it was copied */
            weft_result result = {1, NULL};
            REQUIRE_EQ(weft_join(task, &result, fixture_soon()), 0);
            CHECK_NE(result.value, bytes);
            weft_task_drop(task);
        }
    }
    fixture_end(rt);
}

static weft_poll same_pointer(weft_task *self, void *state) { return weft_done(self, 0, state); }

API_TEST(spawn_pointer_state, "") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    int thing;
    spec.poll = same_pointer;
    spec.state = &thing; /* state_size 0: the pointer itself */
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).value, &thing);
    fixture_end(rt);
}

/* What a poll writes is there in the next one, on whatever worker that is. */
struct fields {
    unsigned polls;
    uint64_t sum;
    unsigned *out;
};

static weft_poll add_up(weft_task *self, void *state) {
    struct fields *fields = state;
    fields->sum += ++fields->polls;
    if (fields->polls < 100)
        return WEFT_YIELD;
    CHECK_EQ(fields->sum, 5050);
    return weft_done(self, 0, NULL);
}

API_TEST(spawn_state_lasts, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (int i = 0; i < 100; i++) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = add_up;
        spec.state_size = sizeof(struct fields);
        REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    }
    fixture_end(rt);
}

/* -- Who and where ---------------------------------------------------------------------------------------- */

struct own {
    weft_runtime *rt;
    weft_task *handle;
    const char *name;
};

static weft_poll check_self(weft_task *self, void *state) {
    struct own *own = state;
    CHECK_EQ(weft_task_self(), self);
    CHECK_EQ(weft_runtime_current(), own->rt);
    CHECK_EQ(own->handle, self); /* the handle was there before the task could run */
    CHECK_STR(weft_task_name(self), own->name);
    CHECK_STR(weft_task_state(self), "running");
    CHECK(!weft_task_is_done(self));
    CHECK(!weft_task_is_cancelled(self));
    return weft_done(self, 0, NULL);
}

API_TEST(spawn_knows_itself, "K12", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (int i = 0; i < 200; i++) {
        struct own own = {rt, NULL, i % 2 ? "bob" : "task"};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = check_self;
        spec.state = &own;
        spec.name = i % 2 ? "bob" : NULL;
        REQUIRE_EQ(weft_spawn(rt, &spec, &own.handle), 0);
        fixture_finish(own.handle);
    }
    CHECK_EQ(weft_task_self(), NULL);
    CHECK_EQ(weft_runtime_current(), NULL);
    fixture_end(rt);
}

static atomic_uint tree_ran;

static weft_poll grow(weft_task *self, void *state) {
    uintptr_t depth = (uintptr_t)state;
    atomic_fetch_add(&tree_ran, 1);
    for (int i = 0; i < 2 && depth; i++)
        REQUIRE_EQ(weft_go(NULL, grow, (void *)(depth - 1), NULL), 0); /* rt NULL: this one */
    return weft_done(self, 0, NULL);
}

/* Detached tasks belong to the runtime: stopping waits for them, and for what they start. */
API_TEST(spawn_detached_tree, "W37", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EQ(weft_go(rt, grow, (void *)10, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(tree_ran, 2047);
}

static void spawn_many(unsigned index, void *arg) {
    static atomic_uint ran;
    (void)index;
    for (int i = 0; i < 2000; i++) {
        int error;
        while ((error = weft_go(arg, fixture_count, &ran, NULL)) == -EAGAIN)
            harness_nap();
        REQUIRE_EQ(error, 0);
    }
    REQUIRE_EVENTUALLY(atomic_load(&ran) == 8000);
}

API_TEST(spawn_from_many_threads, "B24", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    harness_threads(4, spawn_many, rt);
    CHECK_EQ(fixture_stats(rt).spawned, 8000);
    CHECK_EQ(fixture_stats(rt).polls, 8000);
    fixture_end(rt);
}

/* -- Refusals --------------------------------------------------------------------------------------------- */

struct newer_spec {
    weft_spec known;
    uint64_t unknown;
};

API_TEST(spawn_refuses, "") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task = (weft_task *)&rt, *before = task;
    weft_spec spec = WEFT_SPEC_INIT;
    unsigned char large[WEFT_STATE_MAX + 1] = {0};
    CHECK_EQ(weft_spawn(rt, NULL, &task), -EINVAL);
    CHECK_EQ(weft_spawn(rt, &spec, &task), -EINVAL); /* no poll */
    CHECK_EQ(weft_go(rt, NULL, NULL, &task), -EINVAL);
    CHECK_EQ(weft_go(NULL, just_ready, NULL, &task), -EINVAL); /* no runtime */
    spec.poll = just_ready;
    spec.state = large;
    spec.state_size = WEFT_STATE_MAX + 1;
    CHECK_EQ(weft_spawn(rt, &spec, &task), -EINVAL);
    spec.state_size = SIZE_MAX;
    CHECK_EQ(weft_spawn(rt, &spec, &task), -EINVAL);
    spec.state_size = 0;
    spec.size = 3;
    CHECK_EQ(weft_spawn(rt, &spec, &task), -EINVAL);
    spec.size = SIZE_MAX; /* never set */
    CHECK_EQ(weft_spawn(rt, &spec, &task), -EINVAL);
    CHECK_EQ(weft_stats_live(rt), 0);
    CHECK_EQ(task, before); /* outputs are untouched */
    fixture_end(rt);
}

API_TEST(spawn_other_versions, "") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task = NULL;
    struct newer_spec newer = {.known = WEFT_SPEC_INIT, .unknown = 0};
    newer.known.size = sizeof newer;
    newer.known.poll = same_pointer;
    newer.known.state = rt;
    REQUIRE_EQ(weft_spawn(rt, &newer.known, &task), 0); /* it sets nothing that we do not know */
    CHECK_EQ(fixture_finish(task).value, rt);
    newer.unknown = 1;
    CHECK_EQ(weft_spawn(rt, &newer.known, &task), -E2BIG);
    newer.known.size = offsetof(weft_spec, drop); /* an older header ended here */
    newer.known.drop = (void (*)(void *))(uintptr_t)1;
    REQUIRE_EQ(weft_spawn(rt, &newer.known, &task), 0);
    CHECK_EQ(fixture_finish(task).value, rt);
    fixture_end(rt);
}

/* -- Drop functions ---------------------------------------------------------------------------------------- */

struct dropped {
    atomic_uint polls, drops;
    struct gate *gate;
};

static void on_drop(void *state) {
    struct dropped *d = *(struct dropped **)state;
    atomic_fetch_add(&d->drops, 1);
}

static weft_poll wait_inline(weft_task *self, void *state) {
    struct dropped *d = *(struct dropped **)state;
    atomic_fetch_add(&d->polls, 1);
    CHECK_EQ(d->drops, 0);
    return !d->gate || gate_pass(d->gate, self) ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static weft_task *go_dropped(weft_runtime *rt, struct dropped *d) {
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = wait_inline;
    spec.state = &d;
    spec.state_size = sizeof d;
    spec.drop = on_drop;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

API_TEST(spawn_drop_at_end, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (int i = 0; i < 200; i++) {
        struct dropped d = {0};
        weft_task *task = go_dropped(rt, &d);
        REQUIRE_EQ(weft_join(task, NULL, fixture_soon()), 0);
        CHECK_EQ(d.drops, 1); /* before the result can be seen */
        weft_task_drop(task);
        CHECK_EQ(d.drops, 1);
        CHECK_EQ(d.polls, 1);
    }
    fixture_end(rt);
}

API_TEST(spawn_drop_when_cancelled_idle, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (int i = 0; i < 50; i++) {
        static struct gate gate = GATE_INIT;
        struct dropped d = {.gate = &gate};
        weft_task *task = go_dropped(rt, &d);
        REQUIRE_EVENTUALLY(gate_waiting(&gate) == 1);
        weft_task_cancel(task);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(d.drops, 1);
        CHECK_EQ(d.polls, 1);
        gate_abandon(&gate);
    }
    fixture_end(rt);
}

API_TEST(spawn_drop_when_never_polled, "J31", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct blocker blocker = {0};
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    struct dropped d = {0};
    weft_task *task = go_dropped(rt, &d);
    weft_task_cancel(task);
    CHECK_EQ(d.drops, 0); /* on a worker, not here */
    blocker.release = true;
    weft_result result = fixture_finish(task);
    CHECK_EQ(result.status, -ECANCELED);
    CHECK_EQ(result.value, NULL);
    CHECK_EQ(d.polls, 0);
    CHECK_EQ(d.drops, 1);
    fixture_end(rt);
}

static void drop_pointer(void *state) { atomic_fetch_add((atomic_uint *)state, 1); }

API_TEST(spawn_drop_gets_the_pointer, "") {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_uint drops = 0;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = just_ready;
    spec.state = &drops;
    spec.drop = drop_pointer;
    REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(drops, 1);
}

/* -- Size ------------------------------------------------------------------------------------------------- */

static weft_poll wait_for_cancel(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

/* Many waiting tasks: each costs at most its 512 bytes (the smallest one cache line). */
API_TEST(spawn_memory_of_waiting_tasks, "B2", .workers = {1}) {
    enum { COUNT = 50000 };
    if (harness_is_slow())
        SKIP("a sanitizer's shadow would be measured too");
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = COUNT + 1;
    weft_runtime *rt = fixture_begin(&config);
    size_t before = harness_rss();
    for (int i = 0; i < COUNT; i++)
        REQUIRE_EQ(weft_go(rt, wait_for_cancel, NULL, NULL), 0);
    REQUIRE_EVENTUALLY(fixture_stats(rt).polls == COUNT);
    size_t each = (harness_rss() - before) / COUNT;
    CHECK_LE(each, 192);
    CHECK_EQ(weft_stats_live(rt), COUNT);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
