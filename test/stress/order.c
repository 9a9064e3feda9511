/* order.c - many producers send messages and system events with sequence numbers to one process, and end: what each produced arrives in its order, into
 * every kind of mailbox; system events are never lost.
 *
 * WEFT_STRESS_ORDERS (runs of each kind) makes it longer. */
#include "how_much.h"

#include "../api/process.h"

#include <pthread.h>

enum { PRODUCERS = 12, THREADS = 2, ALL = PRODUCERS + THREADS, BOUND = 5 };

/* What the process has seen of one producer. */
struct seen {
    uint64_t last; /* sequence number */
    unsigned messages, events;
    bool ended;
};
static struct {
    struct seen of[ALL];
    unsigned finished;
    bool lossless;
} book;
static weft_runtime *runtime;
static _Atomic weft_pid sink;
static weft_pid pids[PRODUCERS];
static atomic_uint sent[ALL];

static unsigned steps(void) { return harness_is_slow() ? 52 : 502; } /* the last one is an event */
static unsigned events_of(unsigned total) { return (total + 2) / 3; } /* every third step, from the first on */

/* A tag is the producer and the sequence number.  Every third step is a system event; behind the last one it asks the process to end. */
static int produce(int which) {
    weft_pid to = atomic_load(&sink);
    uint64_t number = 0;
    for (unsigned i = 0; i < steps(); i++) {
        uint64_t tag = (uint64_t)which << 32 | (number + 1);
        int error = i % 3 ? weft_send(runtime, to, tag, NULL, 0) : weft_command_complete(runtime, to, tag, 0, NULL, 0);
        REQUIRE(error == 0 || (error == -ENOBUFS && i % 3));
        number += error == 0;
        atomic_fetch_add(&sent[which], error == 0 && i % 3);
        if (i % 16 == 0 && weft_runtime_current())
            weft_yield();
    }
    return weft_process_cancel(runtime, to);
}
static int produce_as_process(void *arg) { return produce((int)(intptr_t)arg); }
static void *produce_as_thread(void *arg) {
    int error = produce((int)(intptr_t)arg);
    CHECK(error == 0 || error == -ESRCH); /* all has been read */
    return NULL;
}

/* The last of a thread is known by its number of events, and that of a process by its end. */
static void end_of(struct seen *seen) {
    REQUIRE(!seen->ended);
    seen->ended = true;
    CHECK_EQ(seen->events, events_of(steps()));
    book.finished++;
}
/* Returns true if this is a request to end, and all producers have ended. */
static bool note(const weft_message *m) {
    if (m->type == WEFT_MESSAGE_CANCEL)
        return book.finished == ALL;
    if (m->type == WEFT_MESSAGE_DOWN) {
        int which = 0;
        while (pids[which] != m->from)
            which++;
        CHECK_EQ(m->error, 0);
        end_of(&book.of[which]);
        return false;
    }
    uint64_t which = m->tag >> 32, number = m->tag & UINT32_MAX;
    REQUIRE_LT(which, ALL);
    struct seen *seen = &book.of[which];
    REQUIRE(!seen->ended);
    if (book.lossless)
        REQUIRE_EQ(number, seen->last + 1);
    else
        REQUIRE_GT(number, seen->last);
    seen->last = number;
    seen->events += m->type == WEFT_MESSAGE_YIELD;
    seen->messages += m->type == WEFT_MESSAGE;
    if (which >= PRODUCERS && m->type == WEFT_MESSAGE_YIELD && seen->events == events_of(steps()))
        end_of(seen);
    return false;
}

/* In the process: the children; and who says to the threads whom to send to. */
static void begin(void) {
    atomic_store(&sink, weft_self());
    for (int i = 0; i < PRODUCERS; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        uint64_t monitor;
        spec.fn = produce_as_process;
        spec.arg = (void *)(intptr_t)i;
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pids[i], &monitor), 0);
    }
}
static int read_fiber(void *arg) {
    weft_message m;
    (void)arg;
    begin();
    bool all = false;
    while (!all) {
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        all = note(&m);
        if (!all && book.finished == ALL)
            REQUIRE_EQ(weft_process_cancel(NULL, weft_self()), 0);
    }
    return 0;
}
static int read_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    bool *begun = state, all = false;
    if (!*begun)
        begin();
    *begun = true;
    for (size_t i = 0; i < count && !all; i++)
        all = note(&events[i]);
    if (!all && book.finished == ALL)
        REQUIRE_EQ(weft_process_cancel(NULL, weft_self()), 0);
    out->status = all ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class reader = {.size = sizeof reader, .state_size = sizeof(bool), .step = read_step};

static void order(bool fiber, uint32_t bound, weft_mailbox_policy policy) {
    for (uint64_t run = 0; run < how_much("WEFT_STRESS_ORDERS", 3); run++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *task;
        pthread_t thread[THREADS];
        bool threads = !fixture_on("sim");
        memset(&book, 0, sizeof book);
        memset(sent, 0, sizeof sent);
        atomic_store(&sink, WEFT_PID_NONE);
        book.lossless = !bound || policy == WEFT_MAILBOX_REFUSE || policy == WEFT_MAILBOX_BLOCK;
        book.finished = threads ? 0 : THREADS;
        runtime = fixture_begin_patient();
        if (fiber)
            spec.fn = read_fiber;
        else
            spec.class_ = &reader;
        spec.max_messages = bound;
        spec.policy = policy;
        REQUIRE_EQ(weft_process_spawn(runtime, &spec, NULL, &task), 0);
        if (threads)
            REQUIRE_EVENTUALLY(atomic_load(&sink) != WEFT_PID_NONE);
        for (int i = 0; threads && i < THREADS; i++)
            REQUIRE_EQ(pthread_create(&thread[i], NULL, produce_as_thread, (void *)(intptr_t)(PRODUCERS + i)), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        for (int i = 0; threads && i < THREADS; i++)
            REQUIRE_EQ(pthread_join(thread[i], NULL), 0);
        for (int i = 0; i < PRODUCERS; i++)
            if (book.lossless)
                CHECK_EQ(book.of[i].messages, atomic_load(&sent[i]));
        fixture_end(runtime);
    }
}

#define ORDER(name, bound, policy)                                                                                     \
    API_TEST(process_order_##name##_fiber, "W29 W30 W40", .workers = {1, 2, 4}) { order(true, bound, policy); }        \
    API_TEST(process_order_##name##_class, "W29 W30 W40", .workers = {1, 2, 4}) { order(false, bound, policy); }
ORDER(unbounded, 0, WEFT_MAILBOX_REFUSE)
ORDER(refuse, BOUND, WEFT_MAILBOX_REFUSE)
ORDER(block, BOUND, WEFT_MAILBOX_BLOCK)
ORDER(drop_newest, BOUND, WEFT_MAILBOX_DROP_NEWEST)
ORDER(drop_oldest, BOUND, WEFT_MAILBOX_DROP_OLDEST)
