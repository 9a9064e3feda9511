/* runtimes.c - several runtimes in one process share nothing, and their tasks may still deal with each other. */
#define _GNU_SOURCE
#include "fixture.h"

enum { RUNTIMES = 4 };

static struct {
    weft_runtime *rt[RUNTIMES];
    atomic_uint ran[RUNTIMES];
} many;

static weft_poll count_here(weft_task *self, void *state) {
    uintptr_t index = (uintptr_t)state;
    CHECK_EQ(weft_runtime_current(), many.rt[index]);
    return fixture_count(self, &many.ran[index]);
}

static weft_runtime *begin_as(weft_sched sched) { /* the environment would decide for all of them alike */
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = sched;
    config.workers = 2;
    config.park_timeout_ns = -1;
    return fixture_begin(&config);
}

TEST(runtimes_of_every_kind, "") {
    for (uintptr_t i = 0; i < RUNTIMES; i++)
        many.rt[i] = begin_as((weft_sched)(i + 1));
    static const char *const names[] = {"ring", "deque", "fifo", "sim", "reactor"};
    for (uintptr_t i = 0; i < RUNTIMES; i++) {
        CHECK_STR(weft_runtime_sched(many.rt[i]), names[i]);
        CHECK_EQ(weft_runtime_workers(many.rt[i]), i == 3 ? 1 : 2);
    }
    for (uintptr_t k = 0; k < 400; k++)
        REQUIRE_EQ(weft_go(many.rt[k % RUNTIMES], count_here, (void *)(k % RUNTIMES), NULL), 0);
    for (uintptr_t i = 0; i < RUNTIMES; i++) {
        fixture_end(many.rt[i]); /* one after the other, the rest working on */
        CHECK_EQ(many.ran[i], 100);
    }
}

/* A task of one runtime spawns on another, and is woken from there when the child has ended. */
struct across {
    uintptr_t from, to;
    weft_task *child;
};

static weft_poll spawn_across(weft_task *self, void *state) {
    struct across *s = state;
    CHECK_EQ(weft_runtime_current(), many.rt[s->from]);
    if (!s->child)
        REQUIRE_EQ(weft_go(many.rt[s->to], count_here, (void *)s->to, &s->child), 0);
    if (weft_join_poll(s->child, self, NULL) == -EAGAIN)
        return WEFT_PENDING;
    weft_task_drop(s->child);
    return weft_done(self, 0, NULL);
}

TEST(runtimes_spawn_across, "B24 B33") {
    for (uintptr_t i = 0; i < RUNTIMES - 1; i++)
        many.rt[i] = begin_as((weft_sched)(i + 1));
    weft_task *task[297];
    for (uintptr_t i = 0; i < 297; i++) {
        struct across s = {i % 3, (i / 3) % 3, NULL};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = spawn_across;
        spec.state = &s;
        spec.state_size = sizeof s;
        REQUIRE_EQ(weft_spawn(many.rt[s.from], &spec, &task[i]), 0);
    }
    for (int i = 0; i < 297; i++)
        fixture_finish(task[i]);
    for (uintptr_t i = 0; i < RUNTIMES - 1; i++) {
        CHECK_EQ(many.ran[i], 99);
        fixture_end(many.rt[i]);
    }
}

/* Joining a task of another runtime from a poll: the worker sleeps, as any thread would. */
static weft_poll join_across(weft_task *self, void *state) {
    weft_task *child = NULL;
    (void)state;
    REQUIRE_EQ(weft_go(many.rt[1], count_here, (void *)1, &child), 0);
    CHECK_EQ(weft_join(child, NULL, WEFT_NEVER), 0);
    weft_task_drop(child);
    CHECK_EQ(weft_runtime_current(), many.rt[0]);
    return weft_done(self, 0, NULL);
}

API_TEST(runtimes_join_across, "", .workers = {1, 2}) {
    for (int i = 0; i < 2; i++)
        many.rt[i] = fixture_begin_patient();
    for (int i = 0; i < 100; i++)
        fixture_finish(fixture_go(many.rt[0], join_across, NULL));
    CHECK_EQ(many.ran[1], 100);
    for (int i = 0; i < 2; i++)
        fixture_end(many.rt[i]);
}

/* A task of one stops the other. */
static weft_poll stop_other(weft_task *self, void *state) {
    CHECK_EQ(weft_runtime_stop(state, WEFT_NEVER), 0);
    CHECK_EQ(weft_runtime_destroy(state), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(runtimes_stop_across, "W37", .workers = {2}) {
    many.rt[0] = fixture_begin_patient();
    many.rt[1] = fixture_begin_patient();
    for (int i = 0; i < 100; i++)
        REQUIRE_EQ(weft_go(many.rt[1], count_here, (void *)1, NULL), 0);
    fixture_finish(fixture_go(many.rt[0], stop_other, many.rt[1]));
    CHECK_EQ(many.ran[1], 100);
    fixture_end(many.rt[0]);
}

/* Threads are called after their runtime. */
static weft_poll read_name(weft_task *self, void *state) {
    REQUIRE_EQ(pthread_getname_np(pthread_self(), state, 16), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(runtimes_thread_names, "", .workers = {1}) {
    static const char *const names[][2] = {{NULL, "weft-0"}, {"db", "db-0"}, {"a-very-long-prefix", "a-very-long-0"}};
    for (int i = 0; i < 3; i++) {
        char name[16] = "", prefix[32];
        weft_config config = WEFT_CONFIG_INIT;
        if (names[i][0])
            config.name = strcpy(prefix, names[i][0]);
        weft_runtime *rt = fixture_begin(&config);
        memset(prefix, 0, sizeof prefix); /* it was copied */
        fixture_finish(fixture_go(rt, read_name, name));
        CHECK_STR(name, names[i][1]);
        fixture_end(rt);
    }
}
