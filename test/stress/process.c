/* process.c - processes under load: many senders, floods, a million that wait.
 *
 * WEFT_STRESS_MESSAGES (each of sixteen senders; 10^7 is the goal) and WEFT_STRESS_SECONDS (of each flood; 60) make it longer. */
#include "../api/process.h"

static uint64_t how_much(const char *name, uint64_t usual) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : usual;
}

/* -- Sixteen senders: nothing is lost, told twice, or out of order. */

enum { SENDERS = 16, AHEAD = 1000000 };

static weft_pid sink;
static uint64_t each;
static _Atomic uint64_t sent, received;
static uint64_t wrong, next_of[SENDERS]; /* the receiver's */

static int receive_all(void *arg) {
    (void)arg;
    for (uint64_t count = 0; count < SENDERS * each;) {
        weft_message m;
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        uint64_t number;
        memcpy(&number, m.data, sizeof number);
        wrong += number != next_of[m.tag]++;
        if (++count % 1024 == 0)
            atomic_store_explicit(&received, count, memory_order_relaxed);
    }
    return 0;
}
static int receive_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    uint64_t *all = state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        if (events[i].type != WEFT_MESSAGE)
            continue;
        uint64_t number;
        memcpy(&number, events[i].data, sizeof number);
        wrong += number != next_of[events[i].tag]++;
        ++*all;
    }
    atomic_store_explicit(&received, *all, memory_order_relaxed);
    if (*all == SENDERS * each)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class receiving = {
    .size = sizeof receiving, .name = "sink", .state_size = sizeof(uint64_t), .step = receive_step};

/* The senders together are at most so many ahead: what waits is memory. */
static void send_all(uint64_t sender) {
    for (uint64_t i = 0; i < each; i++) {
        REQUIRE_EQ(weft_send(NULL, sink, sender, &i, sizeof i), 0);
        if (i % 64 == 63) {
            uint64_t all = atomic_fetch_add_explicit(&sent, 64, memory_order_relaxed);
            do
                weft_yield();
            while (all > atomic_load_explicit(&received, memory_order_relaxed) + AHEAD);
        }
    }
}
static int send_as_fiber(void *arg) {
    send_all((uintptr_t)arg);
    return 0;
}

static void sixteen(bool fiber, uint64_t usual) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task, *sender[SENDERS];
    each = how_much("WEFT_STRESS_MESSAGES", harness_is_slow() ? usual / 20 : usual);
    if (fiber)
        spec.fn = receive_all;
    else
        spec.class_ = &receiving;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &sink, &task), 0);
    for (uintptr_t i = 0; i < SENDERS; i++)
        REQUIRE_EQ(weft_fiber_go(rt, send_as_fiber, (void *)i, &sender[i]), 0);
    for (int i = 0; i < SENDERS; i++) {
        REQUIRE_EQ(weft_join(sender[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(sender[i]);
    }
    REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(next_of[i], each);
    fixture_end(rt);
}
API_TEST(process_sixteen_senders_to_class, "W29 W40", .workers = {1, 2, 4}, .sched = "ring deque fifo",
         .timeout = 900) {
    sixteen(false, 60000);
}
API_TEST(process_sixteen_senders_to_fiber, "W29 W40", .workers = {1, 2}, .sched = "ring deque", .timeout = 900) {
    sixteen(true, 60000);
}

/* The same from threads. */
static weft_runtime *outside;
static void *send_as_thread(void *arg) {
    uint64_t sender = (uintptr_t)arg;
    for (uint64_t i = 0; i < each; i++)
        REQUIRE_EQ(weft_send(outside, sink, sender, &i, sizeof i), 0);
    return NULL;
}
API_TEST(process_sixteen_threads, "W29 W40", .workers = {2}, .sched = "ring", .timeout = 900) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    pthread_t thread[SENDERS];
    weft_task *task;
    outside = fixture_begin(NULL);
    each = harness_is_slow() ? 500 : 10000;
    spec.class_ = &receiving;
    REQUIRE_EQ(weft_process_spawn(outside, &spec, &sink, &task), 0);
    for (uintptr_t i = 0; i < SENDERS; i++)
        REQUIRE_EQ(pthread_create(&thread[i], NULL, send_as_thread, (void *)i), 0);
    for (int i = 0; i < SENDERS; i++)
        REQUIRE_EQ(pthread_join(thread[i], NULL), 0);
    REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_EQ(wrong, 0);
    fixture_end(outside);
}

/* -- A flood of a hundred times what the mailbox holds, again and again: memory stays bounded, and the system's lane is quick. */

enum { BOUND = 1000, FLOODERS = 4 };

static atomic_bool over;
static _Atomic int64_t answered;
static _Atomic uint64_t flooded;

/* Slow: it lets all others run after each message. */
static int drown(void *arg) {
    weft_message m;
    int error;
    (void)arg;
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0) {
        if (m.type == WEFT_MESSAGE_CANCEL)
            atomic_store(&answered, weft_now());
        else if (m.type == WEFT_MESSAGE)
            weft_yield();
    }
    return error;
}
static int flood(void *arg) { /* arg: it waits for room */
    static const char water[200];
    while (!atomic_load(&over)) {
        for (int i = 0; i < 100 * BOUND / FLOODERS && !atomic_load(&over); i++) {
            int error =
                arg ? weft_send(NULL, sink, 0, water, sizeof water) : weft_try_send(NULL, sink, 0, water, sizeof water);
            if (error == -ESRCH)
                return 0; /* it has been ended */
            REQUIRE(error == 0 || error == -ENOBUFS);
            if (i % 100 == 0)
                weft_yield();
        }
        atomic_fetch_add(&flooded, 100 * BOUND / FLOODERS);
    }
    return 0;
}

static void flood_with(weft_mailbox_policy policy) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task, *flooder[FLOODERS];
    int64_t end = weft_now() + (int64_t)(how_much("WEFT_STRESS_SECONDS", 0) * 1000000000), worst = 0;
    if (!getenv("WEFT_STRESS_SECONDS"))
        end = weft_now() + INT64_C(500000000);
    spec.fn = drown;
    spec.max_messages = BOUND;
    spec.policy = policy;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &sink, &task), 0);
    size_t before = harness_rss();
    for (int i = 0; i < FLOODERS; i++)
        REQUIRE_EQ(weft_fiber_go(rt, flood, policy == WEFT_MAILBOX_BLOCK ? rt : NULL, &flooder[i]), 0);
    while (weft_now() < end) {
        atomic_store(&answered, 0);
        int64_t began = weft_now();
        CHECK_EQ(weft_process_cancel(rt, sink), 0);
        REQUIRE_EVENTUALLY(atomic_load(&answered) != 0);
        int64_t took = atomic_load(&answered) - began;
        worst = took > worst ? took : worst;
        usleep(10000);
    }
    CHECK_LT(harness_rss(), before + ((size_t)32 << 20));
    int64_t began = weft_now();
    CHECK_EQ(weft_process_exit(rt, sink, -EIO), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    int64_t took = weft_now() - began;
    atomic_store(&over, true);
    for (int i = 0; i < FLOODERS; i++)
        CHECK_EQ(fixture_finish(flooder[i]).status, 0);
    printf("cancel within %lld us, exit within %lld us\n", (long long)worst / 1000, (long long)took / 1000);
    if (!harness_is_slow()) {
        CHECK_LE(worst, INT64_C(100000000));
        CHECK_LE(took, INT64_C(100000000));
    }
    fixture_end(rt);
}
API_TEST(process_flood_refuse, "W29", .workers = {2}, .sched = "ring deque", .timeout = 200) {
    flood_with(WEFT_MAILBOX_REFUSE);
}
API_TEST(process_flood_block, "W29", .workers = {1, 2}, .sched = "ring", .timeout = 200) {
    flood_with(WEFT_MAILBOX_BLOCK);
}
API_TEST(process_flood_drop_newest, "W29", .workers = {2}, .sched = "ring", .timeout = 200) {
    flood_with(WEFT_MAILBOX_DROP_NEWEST);
}
API_TEST(process_flood_drop_oldest, "W29", .workers = {2}, .sched = "ring", .timeout = 200) {
    flood_with(WEFT_MAILBOX_DROP_OLDEST);
}

/* -- A million that wait: under 600 bytes each. */

static int wait_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    uint64_t *seen = state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        *seen += events[i].type == WEFT_MESSAGE;
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class waiting = {
    .size = sizeof waiting, .name = "waiting", .state_size = 4 * sizeof(uint64_t), .step = wait_step};

static int spawn_crowd(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &waiting;
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) {
        REQUIRE_EQ(weft_process_spawn(NULL, &spec, NULL, NULL), 0);
        if (i % 1000 == 0)
            weft_yield();
    }
    return 0;
}
API_TEST(process_million_idle, "W22", .workers = {2}, .sched = "ring", .timeout = 240) {
    size_t fit = (size_t)sysconf(_SC_AVPHYS_PAGES) * 4096 / 2 / 600;
    uintptr_t count = harness_is_slow() ? 10000 : fit < 1000000 ? fit : 1000000;
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *spawner;
    size_t before = harness_rss();
    REQUIRE_EQ(weft_fiber_go(rt, spawn_crowd, (void *)count, &spawner), 0);
    REQUIRE_EQ(weft_join(spawner, NULL, WEFT_NEVER), 0);
    weft_task_drop(spawner);
    CHECK_EQ(weft_process_count(rt), count);
    size_t bytes = (harness_rss() - before) / count;
    printf("%zu processes, %zu bytes each\n", (size_t)count, bytes);
    if (!harness_is_slow())
        CHECK_LE(bytes, 600);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0); /* each is told, and ends */
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
