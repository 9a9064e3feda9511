/* process.c - processes under load: many senders, a million that wait.
 *
 * WEFT_STRESS_MESSAGES (each of sixteen senders; 10^7 is the goal) makes it longer. */
#include "how_much.h"

#include "../api/process.h"

/* -- Sixteen senders: nothing is lost, told twice, or out of order. */

enum { SENDERS = 16, AHEAD = 1000000 };

static weft_runtime *runtime;
static weft_pid sink;
static uint64_t each;
static _Atomic uint64_t sent, received;
static uint64_t wrong, next_of[SENDERS]; /* the receiver's */

static void note(const weft_message *m) {
    uint64_t number;
    REQUIRE(m->tag < SENDERS && m->size == sizeof number);
    memcpy(&number, m->data, sizeof number);
    wrong += number != next_of[m->tag]++;
}

static int receive_all(void *arg) {
    (void)arg;
    for (uint64_t count = 0; count < SENDERS * each;) {
        weft_message m;
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        note(&m);
        if (++count % 1024 == 0)
            atomic_store_explicit(&received, count, memory_order_relaxed);
    }
    return 0;
}
static int receive_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    uint64_t *all = state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        note(&events[i]);
    *all += count;
    atomic_store_explicit(&received, *all, memory_order_relaxed);
    if (*all == SENDERS * each)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class receiving = {
    .size = sizeof receiving, .name = "sink", .state_size = sizeof(uint64_t), .step = receive_step};

/* The senders together are at most so many ahead: what waits is memory. */
static bool may_send(void) {
    uint64_t all = atomic_load_explicit(&sent, memory_order_relaxed);
    return all <= atomic_load_explicit(&received, memory_order_relaxed) + AHEAD;
}

/* A few messages.  False: they are too far ahead. */
static bool send_some(uint64_t sender, uint64_t *next) {
    if (!may_send())
        return false;
    uint64_t some = each - *next < 64 ? each - *next : 64;
    atomic_fetch_add_explicit(&sent, some, memory_order_relaxed);
    for (uint64_t i = 0; i < some; i++, ++*next)
        REQUIRE_EQ(weft_send(runtime, sink, sender, next, sizeof *next), 0);
    return true;
}

/* As a fiber, which may be a process. */
static int send_as_fiber(void *arg) {
    for (uint64_t next = 0; next < each;) {
        send_some((uintptr_t)arg, &next);
        weft_yield();
    }
    return 0;
}
static void *send_as_thread(void *arg) {
    for (uint64_t next = 0; next < each;)
        if (!send_some((uintptr_t)arg, &next))
            REQUIRE_EVENTUALLY(may_send());
    return NULL;
}
struct sender {
    uint64_t number, next;
};
static int send_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    struct sender *me = state;
    (void)self, (void)method, (void)size;
    me->number = (uint64_t)*(const int *)input;
    return 0;
}
static int send_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct sender *me = state;
    (void)events, (void)count;
    send_some(me->number, &me->next);
    out->status = me->next < each ? WEFT_STEP_CONTINUE : WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class sending = {.size = sizeof sending,
                                           .name = "sender",
                                           .state_size = sizeof(struct sender),
                                           .init = send_init,
                                           .step = send_step};

enum senders { FIBERS, THREADS, PROCESSES };

static void sixteen(bool to_fiber, enum senders kind) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT, by = WEFT_PROCESS_SPEC_INIT;
    weft_task *task, *sender[SENDERS];
    pthread_t thread[SENDERS];
    uint64_t usual = fixture_is_slow() ? 1000 : 20000;
    runtime = fixture_begin(NULL);
    each = how_much("WEFT_STRESS_MESSAGES", usual);
    if (to_fiber)
        spec.fn = receive_all;
    else
        spec.class_ = &receiving;
    REQUIRE_EQ(weft_process_spawn(runtime, &spec, &sink, &task), 0);
    for (uintptr_t i = 0; i < SENDERS; i++) {
        by.fn = send_as_fiber;
        by.arg = (void *)i;
        if (kind == THREADS)
            REQUIRE_EQ(pthread_create(&thread[i], NULL, send_as_thread, (void *)i), 0);
        else if (kind == FIBERS)
            REQUIRE_EQ(weft_fiber_go(runtime, send_as_fiber, (void *)i, &sender[i]), 0);
        else if (i % 2)
            REQUIRE_EQ(weft_process_spawn(runtime, &by, NULL, &sender[i]), 0);
        else
            REQUIRE_EQ(spawn_class(runtime, &sending, NULL, (int)i, NULL, &sender[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        if (kind == THREADS) {
            REQUIRE_EQ(pthread_join(thread[i], NULL), 0);
            continue;
        }
        REQUIRE_EQ(weft_join(sender[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(sender[i]);
    }
    REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(next_of[i], each);
    fixture_end(runtime);
}

#define SIXTEEN(name, to_fiber, kind)                                                                                  \
    API_TEST(process_sixteen_##name, "W29 W40", .workers = {1, 4}, .sched = "ring deque fifo reactor",                 \
             .timeout = 900) {                                                                                         \
        sixteen(to_fiber, kind);                                                                                       \
    }
SIXTEEN(fibers_to_class, false, FIBERS)
SIXTEEN(fibers_to_fiber, true, FIBERS)
SIXTEEN(threads_to_class, false, THREADS)
SIXTEEN(threads_to_fiber, true, THREADS)
SIXTEEN(processes_to_class, false, PROCESSES)
SIXTEEN(processes_to_fiber, true, PROCESSES)

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

static weft_pid *crowd;
static int spawn_crowd(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &waiting;
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) {
        REQUIRE_EQ(weft_process_spawn(NULL, &spec, &crowd[i], NULL), 0);
        if (i % 1000 == 0)
            weft_yield();
    }
    return 0;
}
static size_t start_crowd(weft_runtime *rt, uintptr_t count, size_t before) {
    weft_task *spawner;
    REQUIRE_EQ(weft_fiber_go(rt, spawn_crowd, (void *)count, &spawner), 0);
    REQUIRE_EQ(weft_join(spawner, NULL, WEFT_NEVER), 0);
    weft_task_drop(spawner);
    CHECK_EQ(weft_process_count(rt), count);
    size_t rss = harness_rss();
    printf("%zu processes, %zu bytes each\n", (size_t)count, (rss - before) / count);
    return rss;
}
API_TEST(process_million_idle, "W22", .workers = {2}, .sched = "ring", .timeout = 240) {
    size_t fit = (size_t)sysconf(_SC_AVPHYS_PAGES) * 4096 / 2 / 600;
    uintptr_t count = harness_is_slow() ? 10000 : fit < 1000000 ? fit : 1000000;
    weft_runtime *rt = fixture_begin(NULL);
    crowd = calloc(count, sizeof *crowd);
    REQUIRE(crowd);
    memset(crowd, 1, count * sizeof *crowd); /* it is there before anything is measured */
    size_t before = harness_rss(), first = start_crowd(rt, count, before), most = first;
    if (!harness_is_slow())
        CHECK_LE((first - before) / count, 600);
    for (int i = 0; i < 2; i++) { /* the next ones have the memory of those that ended */
        for (uintptr_t k = 0; k < count; k++)
            REQUIRE_EQ(weft_process_cancel(rt, crowd[k]), 0);
        REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
        printf("ended: %zu bytes for each of them\n", (harness_rss() - before) / count);
        most = start_crowd(rt, count, before);
    }
    if (!harness_is_slow())
        CHECK_LE((most - before) / count, 600);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0); /* each is told, and ends */
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    free(crowd);
}
