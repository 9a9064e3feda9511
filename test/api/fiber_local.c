/* fiber_local.c - fiber-locals: one's own, with destructors. */
#include "fiber.h"

static atomic_uint destroyed;
static unsigned keys[64];

static void destroy(void *value) {
    CHECK(value != NULL);
    atomic_fetch_add(&destroyed, 1);
}

static int own_values(void *arg) {
    for (int k = 0; k < 3; k++) {
        CHECK_EQ(weft_local_get(keys[k]), NULL);
        CHECK_EQ(weft_local_set(keys[k], (char *)arg + k), 0);
    }
    for (int i = 0; i < 20; i++) {
        weft_yield();
        for (int k = 0; k < 3; k++)
            CHECK_EQ(weft_local_get(keys[k]), (char *)arg + k);
    }
    CHECK_EQ(weft_local_set(keys[1], NULL), 0); /* not destroyed any more */
    return 0;
}

API_TEST(fiber_local_values, "", .workers = {1, 2, 4}) {
    static char base[64];
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[12];
    for (int k = 0; k < 3; k++)
        REQUIRE_EQ(weft_local_create(&keys[k], k == 2 ? NULL : destroy), 0);
    for (int i = 0; i < 12; i++)
        task[i] = (i % 2 ? fiber_go : fiber_go_migrating)(rt, own_values, base + i);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(destroyed, 12);
    fixture_end(rt);
}

/* Newest key first; a destructor may set others again, which are destroyed in turn, but not for ever. */
static struct {
    unsigned key[16];
    unsigned count;
} order;

#define DESTROY(n)                                                                                                     \
    static void destroy_##n(void *value) {                                                                             \
        CHECK_EQ(weft_local_get(keys[n]), NULL);                                                                       \
        order.key[order.count++] = n;                                                                                  \
        if (value == &keys && order.count < 16)                                                                        \
            CHECK_EQ(weft_local_set(keys[(n + 1) % 3], value), 0);                                                     \
    }
DESTROY(0)
DESTROY(1)
DESTROY(2)

static int set_three(void *arg) {
    for (int k = 0; k < 3; k++)
        CHECK_EQ(weft_local_set(keys[k], &order), 0);
    if (arg)
        CHECK_EQ(weft_local_set(keys[0], arg), 0);
    return 0;
}

API_TEST(fiber_local_destructor_order, "", .workers = {1}) {
    static void (*const fn[])(void *) = {destroy_0, destroy_1, destroy_2};
    for (int k = 0; k < 3; k++)
        REQUIRE_EQ(weft_local_create(&keys[k], fn[k]), 0);
    CHECK_EQ(fiber_run(set_three, NULL).status, 0);
    CHECK_EQ(order.count, 3);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(order.key[i], 2 - i);
    order.count = 0;
    CHECK_EQ(fiber_run(set_three, keys).status, 0); /* each makes the next: given up after some rounds */
    CHECK_GT(order.count, 3);
    CHECK_LE(order.count, 12);
}

/* A destructor runs in the fiber, before anybody learns of its end, and may wait. */
static atomic_bool waited;

static void wait_a_little(void *value) {
    CHECK(weft_in_fiber());
    CHECK_STR(weft_task_name(weft_task_self()), value);
    weft_yield();
    CHECK_EQ(weft_sleep(100000), 0);
    atomic_store(&waited, true);
}

static int set_waiting(void *arg) { return weft_local_set(keys[0], arg); }

API_TEST(fiber_local_destructor_waits, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_local_create(&keys[0], wait_a_little), 0);
    for (int migrate = 0; migrate < 2; migrate++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_task *task;
        spec.fn = set_waiting;
        spec.arg = (void *)"tidy";
        spec.name = "tidy";
        spec.migrate = migrate;
        atomic_store(&waited, false);
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        CHECK(waited);
    }
    fixture_end(rt);
}

static int set_and_wait(void *arg) {
    CHECK_EQ(weft_local_set(keys[0], arg), 0);
    return weft_sleep_until(WEFT_NEVER);
}

/* Cancelled while it waits: destroyed.  Cancelled before it began: there is nothing to destroy. */
API_TEST(fiber_local_cancelled, "J31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_local_create(&keys[0], destroy), 0);
    weft_task *task = fiber_go(rt, set_and_wait, &order);
    REQUIRE_EVENTUALLY(!strcmp(weft_task_state(task), "idle"));
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(destroyed, 1);
    fixture_end(rt);
}

static int set_all(void *arg) {
    for (int k = 0; k < 64; k++)
        CHECK_EQ(weft_local_set(keys[k], (char *)arg + k), 0);
    weft_yield();
    for (int k = 0; k < 64; k++)
        CHECK_EQ(weft_local_get(keys[k]), (char *)arg + k);
    CHECK_EQ(weft_local_set(64, arg), -EINVAL);
    CHECK_EQ(weft_local_set(UINT32_MAX, arg), -EINVAL);
    CHECK_EQ(weft_local_get(64), NULL);
    return 0;
}

API_TEST(fiber_local_all_keys, "", .workers = {1, 2}) {
    static char base[128];
    unsigned none = 12345;
    for (int k = 0; k < 64; k++)
        REQUIRE_EQ(weft_local_create(&keys[k], destroy), 0);
    CHECK_EQ(weft_local_create(&none, destroy), -ENOSPC);
    CHECK_EQ(none, 12345);
    CHECK_EQ(fiber_run(set_all, base).status, 0);
    CHECK_EQ(destroyed, 64);
}

/* Threads that make keys at once get different ones. */
static void make_keys(unsigned index, void *arg) {
    (void)arg;
    for (unsigned i = 0; i < 16; i++)
        REQUIRE_EQ(weft_local_create(&keys[index * 16 + i], NULL), 0);
}

TEST(fiber_local_keys_are_different, "") {
    uint64_t seen = 0;
    harness_threads(4, make_keys, NULL);
    for (int k = 0; k < 64; k++) {
        REQUIRE_LT(keys[k], 64);
        seen |= UINT64_C(1) << keys[k];
    }
    CHECK_EQ(seen, UINT64_MAX);
}
