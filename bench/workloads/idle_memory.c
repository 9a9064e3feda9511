/* idle_memory.c - resident bytes a parked poll task or fiber, at 100 k and 1 M of them.
 *
 * Each task does what a real waiter does: it puts itself into the wait list of the thing it waits for, with
 * the node of the list and its waker in its inline state, and returns WEFT_PENDING.  Then all are woken, and
 * must end.  Fibers wait for an event, each on a stack of its own.
 */
#include <stdatomic.h>

#include "../harness/bench.h"

enum { SIZES = 2, BATCH = 1000 };

struct gate;

struct waiter {
    struct gate *gate;
    struct waiter *next;
    weft_waker waker;
};

struct gate {
    _Atomic(struct waiter *) list; /* pushed by waiters, emptied by the one that opens */
    _Atomic bool open;
    _Atomic uint64_t parked, passed;
    uint64_t sizes[SIZES]; /* ascending */
    unsigned looked;       /* how many of the sizes are done */
    uint64_t spawned, failed;
    double before, after[SIZES];
};

static weft_poll wait_at_gate(weft_task *self, void *state) {
    struct waiter *w = state;
    struct gate *gate = w->gate;
    if (atomic_load_explicit(&gate->open, memory_order_acquire)) {
        atomic_fetch_add_explicit(&gate->passed, 1, memory_order_relaxed);
        return WEFT_READY;
    }
    if (w->waker.target) /* called without reason: still in the list */
        return WEFT_PENDING;
    w->waker = weft_waker_of(self);
    w->next = atomic_load_explicit(&gate->list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&gate->list, &w->next, w, memory_order_release, memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&gate->parked, 1, memory_order_relaxed);
    return WEFT_PENDING;
}

/* A waiter may end, and its state go, as soon as it has been woken: read first. */
static void open_gate(struct gate *gate) {
    atomic_store_explicit(&gate->open, true, memory_order_release);
    struct waiter *w = atomic_exchange_explicit(&gate->list, NULL, memory_order_acquire);
    while (w) {
        struct waiter *next = w->next;
        weft_waker_wake(w->waker);
        w = next;
    }
}

/* Park the next tasks until `count` are.  True when they are. */
static bool park(struct gate *gate, uint64_t count) {
    struct waiter waiter = {.gate = gate};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = wait_at_gate;
    spec.state = &waiter;
    spec.state_size = sizeof waiter;
    for (unsigned i = 0; i < BATCH && gate->spawned < count; i++) {
        gate->failed += weft_spawn(NULL, &spec, NULL) != 0;
        gate->spawned++;
    }
    return atomic_load_explicit(&gate->parked, memory_order_relaxed) >= count;
}

/* The first task: park some, look, park more, look, open the gate, wait until all have passed.  The sizes
 * share one process, the larger on top of the smaller: memory that an earlier one had freed would not be
 * seen. */
static weft_poll keeper(weft_task *self, void *state) {
    struct gate *gate = state;
    if (gate->spawned == 0)
        gate->before = bench_rss();
    for (; gate->looked < SIZES; gate->looked++) {
        if (!park(gate, gate->sizes[gate->looked]) && gate->failed == 0)
            return WEFT_YIELD;
        gate->after[gate->looked] = bench_rss();
    }
    if (!atomic_load_explicit(&gate->open, memory_order_relaxed))
        open_gate(gate);
    if (atomic_load_explicit(&gate->passed, memory_order_relaxed) + gate->failed < gate->spawned)
        return WEFT_YIELD;
    return weft_done(self, 0, NULL);
}

/* The same in fibers. */
static weft_event opened;

static int wait_for_event(void *arg) {
    struct gate *gate = arg;
    atomic_fetch_add_explicit(&gate->parked, 1, memory_order_relaxed);
    int error = weft_event_wait(&opened, WEFT_NEVER);
    atomic_fetch_add_explicit(&gate->passed, 1, memory_order_relaxed);
    return error;
}

/* Let others run until that many are there.  False: for seconds no more have come, since the system refuses stacks. */
static bool reached(struct gate *gate, _Atomic uint64_t *there, uint64_t count) {
    uint64_t now, before = 0;
    weft_deadline patience = weft_after(2000000000);
    while (gate->failed == 0 && (now = atomic_load_explicit(there, memory_order_relaxed)) < count) {
        if (now != before)
            patience = weft_after(2000000000);
        else if (weft_now() > patience)
            gate->failed++;
        before = now;
        weft_yield();
    }
    return gate->failed == 0;
}

static int keeper_fiber(void *arg) {
    struct gate *gate = arg;
    weft_event_init(&opened);
    gate->before = bench_rss();
    for (; gate->looked < SIZES && gate->failed == 0; gate->looked++) {
        uint64_t count = gate->sizes[gate->looked];
        while (gate->spawned < count && gate->failed == 0) {
            for (unsigned i = 0; i < BATCH; i++, gate->spawned++)
                gate->failed += weft_fiber_go(NULL, wait_for_event, gate, NULL) != 0;
            weft_yield();
        }
        if (reached(gate, &gate->parked, count))
            gate->after[gate->looked] = bench_rss();
    }
    weft_event_set(&opened);
    reached(gate, &gate->passed, gate->spawned); /* if not, those there are end all the same */
    return 0;
}

static void idle_memory(struct bench_run *run) {
    struct gate gate = {.sizes = {100000, run->quick ? 200000 : 1000000}};
    uint64_t all = gate.sizes[SIZES - 1];
    bench_in_kind(run, keeper, keeper_fiber, &gate, all + 1);
    bench_check(run, gate.passed == all && gate.failed == 0, "%llu of %llu tasks passed",
                (unsigned long long)gate.passed, (unsigned long long)all);
    bench_check(run, gate.failed || (gate.before > 0 && gate.after[0] > gate.before), "the resident size is not known");
    for (int i = 0; i < SIZES; i++)
        run->value[i] = gate.failed ? 0 : (gate.after[i] - gate.before) / (double)gate.sizes[i];
}

const struct bench_workload bench_idle_memory = {
    .name = "idle_memory",
    .about = "tasks parked on a waker, fibers on an event: resident bytes a task, at 100 k and at 1 M",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"idle_memory_100k", "bytes", NULL}, {"idle_memory_1m", "bytes", NULL}},
    .run = idle_memory,
};
