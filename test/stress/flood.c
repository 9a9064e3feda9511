/* flood.c - a flood of a hundred times what a mailbox holds, again and again: memory stays bounded, a request to end is read behind no more than
 * what the mailbox held, and an end comes at once.
 *
 * At once is a tenth of a second of this program's own CPU time, of all its threads: never less than what a clock shows where nobody else runs, since
 * the flood never rests, and no more where others do.
 *
 * WEFT_STRESS_SECONDS (of each flood; 60 is the goal) makes it longer. */
#include "how_much.h"

#include "../api/process.h"

#include <time.h>

enum { BOUND = 1000, FLOODERS = 4, CANCELS = 10 };
#define AT_ONCE INT64_C(100000000)

static weft_runtime *runtime;
static _Atomic weft_pid sink;
static atomic_bool over;
struct instant {
    int64_t wall, cpu;
};
static uint64_t read_at_answer;
static atomic_bool asked, answered;
static _Atomic uint64_t sent, read_so_far;

static struct instant now(void) {
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct instant){weft_now(), cpu.tv_sec * INT64_C(1000000000) + cpu.tv_nsec};
}
/* The worst so far. */
static void since(struct instant began, struct instant until, struct instant *worst) {
    worst->wall = until.wall - began.wall > worst->wall ? until.wall - began.wall : worst->wall;
    worst->cpu = until.cpu - began.cpu > worst->cpu ? until.cpu - began.cpu : worst->cpu;
}

static void hear(const weft_message *m) {
    if (m->type == WEFT_MESSAGE_CANCEL && atomic_exchange(&asked, false)) {
        read_at_answer = atomic_load(&read_so_far);
        atomic_store(&answered, true);
    } else {
        atomic_fetch_add(&read_so_far, m->type == WEFT_MESSAGE);
    }
}

/* Slow: it lets all others run after every 16th message. */
static int drown(void *arg) {
    weft_message m;
    int error;
    (void)arg;
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0) {
        hear(&m);
        if (m.type == WEFT_MESSAGE && atomic_load(&read_so_far) % 16 == 0)
            weft_yield();
    }
    return error;
}

/* The same as a class: 20 us for what it is given. */
static int drown_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    for (size_t i = 0; i < count; i++)
        hear(&events[i]);
    for (int64_t until = weft_now() + 20000; weft_now() < until;)
        ;
    out->status = WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class drowning = {.size = sizeof drowning, .name = "drowning", .step = drown_step};

/* As a fiber of the runtime, or a thread. */
static int flood(void *arg) {
    static const char water[200];
    (void)arg;
    for (uint64_t i = 1; !atomic_load(&over); i++) {
        int error = weft_send(runtime, atomic_load(&sink), 0, water, sizeof water);
        REQUIRE(error == 0 || error == -ENOBUFS || error == -ESRCH);
        atomic_fetch_add(&sent, 1);
        if (i % 100 == 0 && weft_runtime_current())
            weft_yield();
    }
    return 0;
}
static void *flood_outside(void *arg) {
    flood(arg);
    return NULL;
}

/* One that drowns: cancelled some times, and ended. */
static void one_life(const weft_process_spec *spec, uint64_t *behind, struct instant *end) {
    weft_task *task;
    weft_pid pid;
    REQUIRE_EQ(weft_process_spawn(runtime, spec, &pid, &task), 0);
    atomic_store(&sink, pid);
    for (int i = 0; i < CANCELS; i++) {
        uint64_t before = atomic_load(&sent);
        REQUIRE_EVENTUALLY(atomic_load(&sent) >= before + BOUND); /* it is full, or has been */
        atomic_store(&answered, false);
        atomic_store(&asked, true);
        CHECK_EQ(weft_process_cancel(runtime, pid), 0);
        uint64_t read = atomic_load(&read_so_far);
        REQUIRE_EVENTUALLY(atomic_load(&answered));
        if (read_at_answer > read + *behind)
            *behind = read_at_answer - read;
    }
    struct instant began = now();
    CHECK_EQ(weft_process_exit(runtime, pid, -EIO), 0);
    int status = fixture_finish(task).status;
    since(began, now(), end);
    CHECK(status == -ECANCELED || status == -EIO);
}

static void flood_with(weft_mailbox_policy policy, bool to_fiber) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *flooder[FLOODERS];
    pthread_t outside;
    struct instant end = {0, 0};
    uint64_t behind = 0;
    unsigned lives = 0;
    size_t most = 0;
    runtime = fixture_begin(NULL);
    if (to_fiber)
        spec.fn = drown;
    else
        spec.class_ = &drowning;
    spec.max_messages = BOUND;
    spec.policy = policy;
    for (int i = 0; i < FLOODERS; i++)
        REQUIRE_EQ(weft_fiber_go(runtime, flood, NULL, &flooder[i]), 0);
    REQUIRE_EQ(pthread_create(&outside, NULL, flood_outside, NULL), 0);
    one_life(&spec, &behind, &end); /* has what it needs */
    size_t before = harness_rss();
    int64_t until = weft_now() + (int64_t)how_much("WEFT_STRESS_SECONDS", 0) * 1000000000;
    while (lives++ < 5 || weft_now() < until) {
        one_life(&spec, &behind, &end);
        most = harness_rss() > most ? harness_rss() : most;
    }
    atomic_store(&over, true);
    for (int i = 0; i < FLOODERS; i++)
        CHECK_EQ(fixture_finish(flooder[i]).status, 0);
    REQUIRE_EQ(pthread_join(outside, NULL), 0);
    printf("%llu sent, %llu read by %u, %zu KiB more than at first\n", (unsigned long long)sent,
           (unsigned long long)read_so_far, lives, most > before ? (most - before) >> 10 : 0);
    printf("of %u cancels the worst behind %llu messages; of ends %lld us, %lld of CPU\n", lives * CANCELS,
           (unsigned long long)behind, (long long)end.wall / 1000, (long long)end.cpu / 1000);
    CHECK_LE(behind, 2 * BOUND); /* as many as it had taken out, and as many as were waiting */
    if (!harness_is_slow()) { /* sanitizers keep what is freed */
        CHECK_LT(most, before + ((size_t)8 << 20));
        CHECK_LE(end.cpu, AT_ONCE);
    }
    fixture_end(runtime);
}

#define FLOOD(name, policy)                                                                                            \
    API_TEST(process_flood_##name##_class, "W29 W35", .workers = {1, 2}, .sched = "ring deque fifo reactor",           \
             .timeout = 300) {                                                                                         \
        flood_with(policy, false);                                                                                     \
    }                                                                                                                  \
    API_TEST(process_flood_##name##_fiber, "W29 W35", .workers = {1, 2}, .sched = "ring deque fifo reactor",           \
             .timeout = 300) {                                                                                         \
        flood_with(policy, true);                                                                                      \
    }
FLOOD(refuse, WEFT_MAILBOX_REFUSE)
FLOOD(block, WEFT_MAILBOX_BLOCK)
FLOOD(drop_newest, WEFT_MAILBOX_DROP_NEWEST)
FLOOD(drop_oldest, WEFT_MAILBOX_DROP_OLDEST)

/* -- All are stopped in the flood: who reads is told and ends; who never reads, and who will not end, is ended by force, and named. */

static atomic_uint told;

static int end_when_told(void *state, const weft_message *events, size_t count, weft_step *out) {
    drown_step(state, events, count, out);
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL && events[i].error == -ESHUTDOWN) {
            atomic_fetch_add(&told, 1);
            out->status = WEFT_STEP_DONE;
        }
    return 0;
}
static const weft_process_class obedient = {.size = sizeof obedient, .name = "obedient", .step = end_when_told};

/* arg: two to flood, one of which stays. */
static int flood_until_cancelled(void *arg) {
    const weft_pid *target = arg;
    do
        for (int i = 0; i < 100; i++)
            (void)weft_try_send(NULL, target[i % 2], 0, NULL, 0);
    while (weft_yield() == 0);
    return 0;
}

static bool is_named(const weft_process_left *left, int count, weft_pid pid, const char *name) {
    for (int i = 0; i < count; i++)
        if (left[i].pid == pid)
            return strcmp(left[i].name, name) == 0;
    return false;
}

API_TEST(process_flood_stopped, "W35 W36", .workers = {1, 2}, .sched = "ring deque fifo reactor", .timeout = 60) {
    enum { ROCKS = 2, LEFT = ROCKS + FLOODERS };
    weft_process_left left[LEFT + 1];
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid target[2], other, flooder[FLOODERS];
    int64_t patience = fixture_is_slow() ? INT64_C(3000000000) : INT64_C(500000000);
    runtime = fixture_begin(NULL);
    spec.class_ = &obedient;
    spec.max_messages = BOUND;
    REQUIRE_EQ(weft_process_spawn(runtime, &spec, &target[0], NULL), 0);
    spec.class_ = &drowning; /* does not mind */
    REQUIRE_EQ(weft_process_spawn(runtime, &spec, &target[1], NULL), 0);
    spec.class_ = NULL;
    spec.fn = drown;
    spec.name = "a rock";
    REQUIRE_EQ(weft_process_spawn(runtime, &spec, &other, NULL), 0);
    spec.fn = flood_until_cancelled;
    spec.arg = target;
    spec.name = "flooder";
    spec.trap_exit = true; /* so that the request does not interrupt their yields */
    for (int i = 0; i < FLOODERS; i++)
        REQUIRE_EQ(weft_process_spawn(runtime, &spec, &flooder[i], NULL), 0);
    REQUIRE_EVENTUALLY(atomic_load(&read_so_far) > BOUND);
    int64_t began = weft_now();
    CHECK_EQ(weft_process_stop_all(runtime, weft_after(patience), left, LEFT + 1), LEFT);
    CHECK_GE(weft_now() - began, patience);
    CHECK_EQ(atomic_load(&told), 1);
    CHECK(is_named(left, LEFT, target[1], "drowning"));
    CHECK(is_named(left, LEFT, other, "a rock"));
    for (int i = 0; i < FLOODERS; i++)
        CHECK(is_named(left, LEFT, flooder[i], "flooder"));
    CHECK_EQ(weft_process_count(runtime), 0);
    fixture_end(runtime);
}
