/* sim.c - the simulator: the seed decides everything, time is virtual, and a deadlock is found at once. */
#include "fixture.h"
#include "sched/sched.h"

#define ON_SIM .sched = "sim"

/* -- A program with choices: tasks that yield, spawn, wake each other ----------------------------------------- */

enum { TASKS = 20, STEPS = 400 };

struct program {
    unsigned char order[STEPS * 4];
    unsigned count;
    bool started;
    weft_waker sleeper[TASKS];
    int64_t end_time;
    uint64_t hash;
};

struct actor {
    struct program *program;
    unsigned char number, steps;
};

static weft_poll act(weft_task *self, void *state) {
    struct actor *a = state;
    struct program *p = a->program;
    REQUIRE_LT(p->count, sizeof p->order);
    p->order[p->count++] = a->number;
    for (int i = 0; i < TASKS; i++) { /* wake who sleeps, one at a time */
        if (p->sleeper[i].target) {
            weft_waker waker = p->sleeper[i];
            p->sleeper[i].target = NULL;
            weft_waker_wake(waker);
            break;
        }
    }
    if (a->steps-- == 0)
        return weft_done(self, 0, NULL);
    if (a->number % 3 == 0 && a->steps == 5) {
        weft_spec spec = WEFT_SPEC_INIT;
        struct actor child = {p, (unsigned char)(100 + a->number), 3};
        spec.poll = act;
        spec.state = &child;
        spec.state_size = sizeof child;
        REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    }
    if (a->number % 2 && a->steps % 2 && a->number < TASKS && !p->sleeper[a->number].target) {
        bool others = false; /* never the last to fall asleep */
        for (int i = 0; i < TASKS; i++)
            others |= p->sleeper[i].target != NULL;
        if (!others) {
            p->sleeper[a->number] = weft_waker_of(self);
            weft_waker_wake_keep(p->sleeper[a->number]); /* and not for ever */
            return WEFT_PENDING;
        }
    }
    return WEFT_YIELD;
}

static weft_poll start_program(weft_task *self, void *state) {
    struct program *p = state;
    if (!p->started) {
        p->started = true;
        for (unsigned char i = 0; i < TASKS; i++) {
            struct actor actor = {p, i, 10};
            weft_spec spec = WEFT_SPEC_INIT;
            spec.poll = act;
            spec.state = &actor;
            spec.state_size = sizeof actor;
            REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
        }
        return WEFT_YIELD;
    }
    weft_runtime *rt = weft_runtime_current();
    if (weft_stats_live(rt) > 1)
        return WEFT_YIELD;
    p->end_time = weft_now();
    p->hash = weft_sim_hash(rt);
    return weft_done(self, 0, NULL);
}

static void run_program(struct program *p, uint64_t seed) {
    weft_config config = WEFT_CONFIG_INIT;
    *p = (struct program){.count = 0};
    config.seed = seed;
    REQUIRE_EQ(weft_run(&config, start_program, p, NULL), 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(p->sleeper[i].target, NULL);
}

API_TEST(sim_same_seed_same_order, "J6", ON_SIM) {
    static struct program a, b;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run_program(&a, seed);
        run_program(&b, seed);
        CHECK_EQ(a.count, b.count);
        CHECK(memcmp(a.order, b.order, a.count) == 0);
        CHECK_EQ(a.hash, b.hash);
        CHECK_EQ(a.end_time, b.end_time);
        CHECK_NE(a.hash, 0);
    }
}

API_TEST(sim_other_seed_other_order, "J6", ON_SIM) {
    static struct program first, other;
    run_program(&first, 1);
    for (uint64_t seed = 2; seed <= 20; seed++) {
        run_program(&other, seed);
        CHECK(first.count != other.count || memcmp(first.order, other.order, first.count) != 0);
        CHECK_NE(first.hash, other.hash);
        unsigned seen[256] = {0}; /* whatever the order: everybody had all of its steps */
        for (unsigned i = 0; i < other.count; i++)
            seen[other.order[i]]++;
        for (int i = 0; i < TASKS; i++)
            CHECK_EQ(seen[i], 11);
    }
}

/* 0 is a seed like any other, and always the same one. */
API_TEST(sim_default_seed, "J6", ON_SIM) {
    static struct program a, b;
    run_program(&a, 0);
    run_program(&b, 1);
    CHECK_EQ(a.hash, b.hash);
}

API_TEST(sim_seed_from_environment, "J6", ON_SIM) {
    static struct program a, b;
    run_program(&a, 77);
    setenv("WEFT_SEED", "77", 1);
    run_program(&b, 5);
    CHECK_EQ(a.hash, b.hash);
}

/* Any order can happen: of two tasks each is first sometimes. */
static weft_poll be_first(weft_task *self, void *state) {
    struct actor *a = state;
    if (a->program->count++ == 0)
        a->program->order[0] = a->number;
    return weft_done(self, 0, NULL);
}

static weft_poll start_two(weft_task *self, void *state) {
    for (unsigned char i = 0; i < 2; i++) {
        struct actor actor = {state, i, 0};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = be_first;
        spec.state = &actor;
        spec.state_size = sizeof actor;
        REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    }
    return weft_done(self, 0, NULL);
}

API_TEST(sim_explores_orders, "J6", ON_SIM) {
    unsigned first[2] = {0};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        static struct program p;
        weft_config config = WEFT_CONFIG_INIT;
        config.seed = seed;
        p.count = 0;
        REQUIRE_EQ(weft_run(&config, start_two, &p, NULL), 0);
        first[p.order[0]]++;
    }
    CHECK_GT(first[0], 20);
    CHECK_GT(first[1], 20);
}

/* However many workers are asked for: one thread. */
API_TEST(sim_one_thread, "J6", ON_SIM, .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(weft_runtime_workers(rt), 1);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 1);
    CHECK_STR(weft_runtime_sched(rt), "sim");
    fixture_end(rt);
}

/* -- Time ------------------------------------------------------------------------------------------------------- */

static weft_poll never_woken(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

static weft_poll wait_an_hour(weft_task *self, void *state) {
    weft_task *child = NULL;
    int64_t before = weft_now();
    (void)state;
    REQUIRE_EQ(weft_go(NULL, never_woken, NULL, &child), 0);
    CHECK_EQ(weft_join(child, NULL, weft_after(INT64_C(3600000000000))), -ETIMEDOUT);
    CHECK_GE(weft_now() - before, INT64_C(3600000000000));
    weft_task_cancel(child);
    weft_task_drop(child);
    return weft_done(self, 0, NULL);
}

API_TEST(sim_virtual_time, "J6", ON_SIM) {
    int64_t before = harness_clock();
    CHECK_EQ(weft_run(NULL, wait_an_hour, NULL, NULL), 0);
    CHECK_LT(harness_clock() - before, INT64_C(5000000000));
}

/* -- Deadlock ----------------------------------------------------------------------------------------------------- */

struct watched {
    weft_poll_fn poll;
    void *state;
    int result;
};

static void run_watched(void *arg) {
    struct watched *w = arg;
    w->result = weft_run(NULL, w->poll, w->state, NULL);
}

static const char *capture_run(weft_poll_fn poll, void *state, int *result) {
    struct watched w = {poll, state, 0};
    const char *text = fixture_said(run_watched, &w);
    *result = w.result;
    return text;
}

API_TEST(sim_deadlock_alone, "J6", ON_SIM, .timeout = 10) {
    int result;
    const char *text = capture_run(never_woken, NULL, &result);
    CHECK_EQ(result, -EDEADLK);
    CHECK_CONTAINS(text, "deadlock");
    CHECK_CONTAINS(text, "\"main\" idle");
}

/* A report ends, however many there are. */
static weft_poll many_never_woken(weft_task *self, void *state) {
    static bool begun;
    for (int i = 0; i < 1004 && !begun; i++)
        REQUIRE_EQ(weft_go(NULL, never_woken, state, NULL), 0);
    begun = true;
    (void)self;
    return WEFT_PENDING;
}

static void run_many(void *result) { *(int *)result = weft_run(NULL, many_never_woken, NULL, NULL); }

API_TEST(sim_deadlock_of_many, "J6", ON_SIM, .timeout = 20) {
    int result = 0;
    static char text[1 << 18];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    REQUIRE(file && before >= 0);
    dup2(fileno(file), STDERR_FILENO);
    run_many(&result);
    dup2(before, STDERR_FILENO);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_EQ(result, -EDEADLK);
    CHECK_CONTAINS(text, "... and 5 more");
}

/* Two tasks wait for each other's end. */
struct lovers {
    weft_task *task[2];
    struct gate *gate;
};

static weft_poll wait_for_other(weft_task *self, struct lovers *l, int me) {
    return weft_join_poll(l->task[!me], self, NULL) == -EAGAIN ? WEFT_PENDING : weft_done(self, 0, NULL);
}
static weft_poll romeo(weft_task *self, void *state) { return wait_for_other(self, state, 0); }
static weft_poll juliet(weft_task *self, void *state) { return wait_for_other(self, state, 1); }

static weft_poll start_lovers(weft_task *self, void *state) {
    struct lovers *l = state;
    static const char *const names[] = {"romeo", "juliet"};
    for (int i = 0; i < 2 && !l->task[1]; i++) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = i ? juliet : romeo;
        spec.state = l;
        spec.name = names[i];
        REQUIRE_EQ(weft_spawn(NULL, &spec, &l->task[i]), 0);
    }
    weft_task_waits_for(self, "a happy end");
    return WEFT_PENDING;
}

static void join_deadlocked(void *task) { CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), -EDEADLK); }

API_TEST(sim_deadlock_names_who_waits_for_whom, "J6", ON_SIM, .timeout = 10) {
    struct lovers lovers = {{NULL, NULL}, NULL};
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *main_task = fixture_go(rt, start_lovers, &lovers);
    const char *text = fixture_said(join_deadlocked, main_task);
    CHECK_CONTAINS(text, "\"romeo\" idle joined, waits for task \"juliet\"");
    CHECK_CONTAINS(text, "\"juliet\" idle joined, waits for task \"romeo\"");
    CHECK_CONTAINS(text, "waits for a happy end");
    /* The handle is still good, and the tasks are still there. */
    CHECK_EQ(weft_join(main_task, NULL, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_stats_live(rt), 3);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    for (int i = 0; i < 2; i++)
        weft_task_drop(lovers.task[i]);
    weft_task_drop(main_task);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* A helping join on the worker itself is told too, and the program may go on. */
static weft_poll join_the_hopeless(weft_task *self, void *state) {
    weft_task *child = NULL;
    weft_result result;
    (void)state;
    REQUIRE_EQ(weft_go(NULL, never_woken, NULL, &child), 0);
    CHECK_EQ(weft_join(child, &result, WEFT_NEVER), -EDEADLK);
    weft_task_cancel(child);
    CHECK_EQ(weft_join(child, &result, WEFT_NEVER), 0);
    CHECK_EQ(result.status, -ECANCELED);
    weft_task_drop(child);
    return weft_done(self, 0, NULL);
}

API_TEST(sim_deadlock_in_helping_join, "J6", ON_SIM, .timeout = 10) {
    int result;
    const char *text = capture_run(join_the_hopeless, NULL, &result);
    CHECK_EQ(result, 0);
    CHECK_CONTAINS(text, "deadlock");
}

/* So is one in code that is called for a fiber which has been cancelled before it began, and can be seen nowhere. */
static unsigned hopeless_joins;

static void join_in_release(void *child) {
    CHECK_EQ(weft_join(child, NULL, WEFT_NEVER), -EDEADLK);
    weft_task_cancel(child);
    CHECK_EQ(weft_join(child, NULL, WEFT_NEVER), 0);
    weft_task_drop(child);
    hopeless_joins++;
}

static int never_begun(void *arg) {
    (void)arg;
    CHECK(false);
    return 0;
}

static weft_poll cancel_unbegun(weft_task *self, void *state) {
    weft_task *child = NULL;
    weft_pid pid;
    (void)state;
    REQUIRE_EQ(weft_go(NULL, never_woken, NULL, &child), 0);
    REQUIRE_EQ(weft_process_go(NULL, never_begun, NULL, &pid), 0);
    REQUIRE_EQ(weft_send_ref(NULL, pid, 1, child, 1, join_in_release), 0);
    REQUIRE_EQ(weft_process_exit(NULL, pid, -EPIPE), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(sim_deadlock_in_release, "J6", ON_SIM, .timeout = 10) {
    int result;
    const char *text = capture_run(cancel_unbegun, NULL, &result);
    CHECK_EQ(result, 0);
    CHECK_EQ(hopeless_joins, 1);
    CHECK_CONTAINS(text, "deadlock");
}

/* Stopping without a deadline would wait for ever, too: it cancels instead. */
API_TEST(sim_deadlock_in_stop, "J6", ON_SIM, .timeout = 10) {
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EQ(weft_go(rt, never_woken, NULL, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* A waker that somebody holds is hope: no verdict, and the wake arrives. */
static void join_or_wake(unsigned index, void *arg) {
    struct lovers *l = arg;
    if (index == 0) {
        CHECK_EQ(weft_join(l->task[0], NULL, WEFT_NEVER), 0);
        return;
    }
    REQUIRE_EVENTUALLY(gate_waiting(l->gate) == 1);
    for (int i = 0; i < 100; i++)
        harness_nap();
    gate_open(l->gate);
}

static void join_and_wake(void *lovers) { harness_threads(2, join_or_wake, lovers); }

API_TEST(sim_no_deadlock_with_wakers_outside, "J6", ON_SIM, .timeout = 10) {
    static struct gate gate = GATE_INIT;
    weft_runtime *rt = fixture_begin(NULL);
    struct lovers l = {{fixture_go(rt, fixture_wait_gate, &gate), NULL}, &gate};
    CHECK_STR(fixture_said(join_and_wake, &l), "");
    weft_task_drop(l.task[0]);
    fixture_end(rt);
}

/* The others have no fingerprint. */
API_TEST(sim_hash_elsewhere, "", .sched = "ring deque fifo reactor") {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(weft_sim_hash(rt), 0);
    fixture_end(rt);
}

/* -- Times of the simulation in real ones ------------------------------------------------------------------------- */

static int real_times(void *arg) {
    (void)arg;
    weft_runtime *rt = weft_runtime_current();
    static const int64_t passed[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1};
    REQUIRE_EQ(weft_sleep(1000000000), 0); /* its clock is past 0 */
    for (unsigned i = 0; i < 5; i++) {
        int64_t before = wefti_clock(), real = wefti_real(rt, passed[i]);
        CHECK(before <= real && real <= wefti_clock());
    }
    CHECK_EQ(wefti_real(rt, WEFT_NEVER), WEFT_NEVER);
    CHECK_GT(wefti_real(rt, weft_now() + 1000000000), wefti_clock());
    return 0;
}

API_TEST(sim_real_times, "", .sched = "sim") {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, real_times, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
