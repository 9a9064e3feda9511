/* mc_known_bugs.c - bugs that shipped runtimes had, each in the smallest code that has it: the checker must
 * find them in seconds, and must find nothing in the version beside it that is right.
 *
 * These are kernels written for the purpose; the library's own code is tested in the files named after it.
 */
#include "base/atomic.h"
#include "mc/mc.h"
#include "plat/plat.h"

/* -- Chase-Lev deque --------------------------------------------------------------------------------- */
enum { CL_CAP = 4, CL_TASKS = 4 };
enum cl_bug { CL_RIGHT, CL_TAKE_RELAXED, CL_PUSH_RELAXED, CL_NO_TAKE_FENCE, CL_NO_STEAL_FENCE, CL_HALF_ONE_CAS };

struct payload {
    int number;
};
static struct {
    _Atomic int64_t top, bottom;
    _Atomic(struct payload *) slot[CL_CAP];
} dq;
static struct payload payload[CL_TASKS];
static _Atomic int ran[CL_TASKS];

static bool is(enum cl_bug bug) { return (mc_arg() & 15) == bug; }
static int thief_count(void) { return (int)(mc_arg() >> 4 & 15); }
static int steal_count(void) { return (int)(mc_arg() >> 8 & 15); }
static int push_count(void) { return (int)(mc_arg() >> 12 & 15); }
#define CL(bug, pushes, thieves, steals) ((bug) | (thieves) << 4 | (steals) << 8 | (pushes) << 12)

static bool cl_push(struct payload *p) {
    int64_t b = load_own(&dq.bottom), t = load_acquire(&dq.top);
    if (b - t >= CL_CAP)
        return false;
    store_relaxed(&dq.slot[b % CL_CAP], p);
    if (is(CL_PUSH_RELAXED))
        store_relaxed(&dq.bottom, b + 1);
    else
        store_release(&dq.bottom, b + 1); /* with the acquire in steal */
    return true;
}

static struct payload *cl_take(void) {
    int64_t b = load_own(&dq.bottom) - 1;
    /* Release, because C++20 ends push's release sequence at this store: a thief that reads it must still see
     * what push published (Le et al. 2013 has it relaxed). */
    if (is(CL_TAKE_RELAXED))
        store_relaxed(&dq.bottom, b);
    else
        store_release(&dq.bottom, b);
    if (!is(CL_NO_TAKE_FENCE))
        fence_seq_cst(); /* bottom | top, against steal's top | bottom */
    int64_t t = load_relaxed(&dq.top);
    struct payload *p = NULL;
    if (t <= b) {
        p = load_relaxed(&dq.slot[b % CL_CAP]);
        if (t < b)
            return p;
        if (!atomic_compare_exchange_strong_explicit(&dq.top, &t, t + 1, memory_order_seq_cst, memory_order_relaxed))
            p = NULL;
    }
    store_release(&dq.bottom, b + 1);
    return p;
}

static void run_payload(struct payload *p) {
    if (!p)
        return;
    if (add_relaxed(&ran[p->number], 1) != 0)
        mc_fail("task %d ran twice", p->number);
}

static void cl_steal(void) {
    int64_t t = load_acquire(&dq.top);
    if (!is(CL_NO_STEAL_FENCE))
        fence_seq_cst();
    int64_t b = load_acquire(&dq.bottom);
    int64_t n = is(CL_HALF_ONE_CAS) ? (b - t + 1) / 2 : b - t > 0 ? 1 : 0;
    if (n <= 0)
        return;
    struct payload *p[CL_CAP];
    for (int64_t i = 0; i < n; i++)
        p[i] = load_relaxed(&dq.slot[(t + i) % CL_CAP]);
    if (atomic_compare_exchange_strong_explicit(&dq.top, &t, t + n, memory_order_seq_cst, memory_order_relaxed))
        for (int64_t i = 0; i < n; i++)
            run_payload(p[i]);
}

static void cl_owner(void *unused) {
    (void)unused;
    for (int i = 0; i < push_count(); i++) {
        payload[i].number = i;
        while (!cl_push(&payload[i]))
            run_payload(cl_take());
    }
    for (int i = 0; i < push_count(); i++)
        run_payload(cl_take());
}

static void cl_thief(void *unused) {
    (void)unused;
    for (int i = 0; i < steal_count(); i++)
        cl_steal();
}

static void cl_test(void) {
    int owner = mc_spawn(cl_owner, NULL), thief[4];
    for (int i = 0; i < thief_count(); i++)
        thief[i] = mc_spawn(cl_thief, NULL);
    mc_join(owner);
    for (int i = 0; i < thief_count(); i++)
        mc_join(thief[i]);
    for (struct payload *p; (p = cl_take()) != NULL;)
        run_payload(p);
    for (int i = 0; i < push_count(); i++)
        if (load_relaxed(&ran[i]) != 1)
            mc_fail("task %d lost", i);
}
MC_CASE(known_deque_right, cl_test, .arg = CL(CL_RIGHT, 2, 1, 1), .mode = MC_SLEEP_SETS);
MC_CASE(known_deque_right_two_steals, cl_test, .arg = CL(CL_RIGHT, 2, 1, 2), .bound = 3);
MC_CASE(known_deque_right_two_thieves, cl_test, .arg = CL(CL_RIGHT, 3, 2, 1), .bound = 2);
MC_CASE(known_deque_take_relaxed, cl_test, .arg = CL(CL_TAKE_RELAXED, 2, 1, 1), .expect = "data race");
MC_CASE(known_deque_push_relaxed, cl_test, .arg = CL(CL_PUSH_RELAXED, 2, 1, 1), .expect = "data race");
MC_CASE(known_deque_no_take_fence, cl_test, .arg = CL(CL_NO_TAKE_FENCE, 2, 1, 2), .expect = "ran twice");
MC_CASE(known_deque_no_steal_fence, cl_test, .arg = CL(CL_NO_STEAL_FENCE, 2, 1, 2), .expect = "ran twice");
/* Half of a plain Chase-Lev deque with one compare-and-swap: the owner takes items of that half without one. */
MC_CASE(known_deque_half_one_cas, cl_test, .arg = CL(CL_HALF_ONE_CAS, 4, 1, 1), .expect = "ran twice");
/* The same by chance, where a bound would be too small. */
MC_CASE(known_deque_no_take_fence_pct, cl_test, .arg = CL(CL_NO_TAKE_FENCE, 3, 2, 2), .mode = MC_PCT,
        .expect = "ran twice");

/* -- Park: announce, look again, sleep --------------------------------------------------------------- */
enum park_bug { PARK_RIGHT, PARK_NO_SECOND_LOOK, PARK_NO_SUBMIT_FENCE, PARK_NO_SLEEP_FENCE };
static _Atomic uint32_t park_word;
static _Atomic int park_work, park_sleepers;

static void park_submit(void *unused) {
    (void)unused;
    store_release(&park_work, 1);
    if (mc_arg() != PARK_NO_SUBMIT_FENCE)
        fence_seq_cst();
    if (load_relaxed(&park_sleepers)) {
        add_release(&park_word, 1);
        wefti_futex_wake(&park_word, 1);
    }
}
static void park_worker(void *unused) {
    (void)unused;
    while (!load_acquire(&park_work)) {
        uint32_t ticket = load_acquire(&park_word);
        store_relaxed(&park_sleepers, 1);
        if (mc_arg() != PARK_NO_SLEEP_FENCE)
            fence_seq_cst();
        if (mc_arg() == PARK_NO_SECOND_LOOK || !load_acquire(&park_work))
            wefti_futex_wait(&park_word, ticket, INT64_MAX);
        store_relaxed(&park_sleepers, 0);
    }
}
static void park_test(void) {
    int submit = mc_spawn(park_submit, NULL), worker = mc_spawn(park_worker, NULL);
    mc_join(submit);
    mc_join(worker);
}
MC_CASE(known_park_right, park_test, .arg = PARK_RIGHT, .mode = MC_SLEEP_SETS);
MC_CASE(known_park_no_second_look, park_test, .arg = PARK_NO_SECOND_LOOK, .expect = "lost wake-up");
MC_CASE(known_park_no_submit_fence, park_test, .arg = PARK_NO_SUBMIT_FENCE, .expect = "lost wake-up");
MC_CASE(known_park_no_sleep_fence, park_test, .arg = PARK_NO_SLEEP_FENCE, .expect = "lost wake-up");

/* -- A wake that tries its compare-and-swap only once ------------------------------------------------ */
/* The word also counts references, so the compare-and-swap fails for a reason that has nothing to do with the task's
 * state: who gives up then, strands it. */
enum { TASK_IDLE = 0, TASK_SCHEDULED = 1, TASK_STATE = 3, TASK_REF = 4 };
static _Atomic uint32_t task_word;
static _Atomic int task_queued;

static void task_wake(void *unused) {
    (void)unused;
    uint32_t w = load_relaxed(&task_word);
    while ((w & TASK_STATE) == TASK_IDLE) {
        if (cas_acq_rel(&task_word, &w, w | TASK_SCHEDULED)) {
            add_relaxed(&task_queued, 1);
            return;
        }
        if (mc_arg())
            return;
    }
}
static void task_ref(void *unused) {
    (void)unused;
    add_relaxed(&task_word, TASK_REF);
}
static void wake_test(void) {
    int wake = mc_spawn(task_wake, NULL), ref = mc_spawn(task_ref, NULL);
    mc_join(wake);
    mc_join(ref);
    if (load_relaxed(&task_queued) != 1)
        mc_fail("task stranded: woken, but not queued");
}
MC_CASE(known_wake_right, wake_test, .arg = 0, .mode = MC_SLEEP_SETS);
MC_CASE(known_wake_single_shot, wake_test, .arg = 1, .expect = "task stranded");

/* -- Look at the pool, then store Idle (K23) --------------------------------------------------------- */
enum { SHARD_IDLE, SHARD_PENDING, SHARD_RUNNING };
static _Atomic int shard_state, shard_pool, shard_queue;

static void shard_schedule(void) {
    int idle = SHARD_IDLE;
    if (cas_acq_rel(&shard_state, &idle, SHARD_PENDING))
        add_release(&shard_queue, 1);
}
static void shard_add(void *unused) {
    (void)unused;
    add_release(&shard_pool, 1);
    fence_seq_cst(); /* pool | state, against the worker's state | pool */
    shard_schedule();
}
static void shard_turn(void) {
    sub_acquire(&shard_queue, 1);
    store_relaxed(&shard_state, SHARD_RUNNING);
    while (load_acquire(&shard_pool) > 0)
        sub_acq_rel(&shard_pool, 1);
    if (mc_arg()) {
        bool again = load_acquire(&shard_pool) > 0;
        store_release(&shard_state, SHARD_IDLE);
        if (again)
            shard_schedule();
    } else {
        store_release(&shard_state, SHARD_IDLE);
        fence_seq_cst();
        if (load_acquire(&shard_pool) > 0)
            shard_schedule();
    }
}
static void shard_test(void) {
    store_relaxed(&shard_pool, 1);
    store_relaxed(&shard_state, SHARD_PENDING);
    store_relaxed(&shard_queue, 1);
    int add = mc_spawn(shard_add, NULL);
    shard_turn();
    mc_join(add);
    if (load_relaxed(&shard_state) == SHARD_IDLE && load_relaxed(&shard_pool) > 0)
        mc_fail("shard stranded: idle, with %d in its pool", load_relaxed(&shard_pool));
}
MC_CASE(known_shard_right, shard_test, .arg = 0, .mode = MC_SLEEP_SETS, .proves = "K23");
MC_CASE(known_shard_look_then_idle, shard_test, .arg = 1, .expect = "shard stranded");

/* -- Ring: a thief that gives up its releasing compare-and-swap -------------------------------------- */
/* head = {steal, real}: a steal in progress keeps `steal` behind `real`.  The owner's pop moves `real` meanwhile,
 * so that the release must be tried again; else the ring says "being stolen from" for ever. */
static _Atomic uint64_t ring_head;
static _Atomic uint32_t ring_tail;
static _Atomic int ring_slot[4];
static uint64_t pack(uint32_t steal, uint32_t real) { return (uint64_t)steal << 32 | real; }

static void ring_steal(void *unused) {
    (void)unused;
    uint64_t head = load_acquire(&ring_head);
    uint32_t steal, real, n;
    do {
        steal = (uint32_t)(head >> 32);
        real = (uint32_t)head;
        n = (load_acquire(&ring_tail) - real + 1) / 2;
        if (steal != real || n == 0 || n > 4)
            return;
    } while (!cas_acq_rel(&ring_head, &head, pack(steal, real + n)));
    for (uint32_t i = 0; i < n; i++)
        add_relaxed(&ran[load_relaxed(&ring_slot[(real + i) % 4])], 1);
    head = pack(steal, real + n);
    while (!cas_acq_rel(&ring_head, &head, pack((uint32_t)head, (uint32_t)head)))
        if (mc_arg())
            return;
}
static void ring_pop_all(void) {
    uint64_t head = load_acquire(&ring_head);
    while ((uint32_t)head != load_own(&ring_tail)) {
        uint32_t steal = (uint32_t)(head >> 32), real = (uint32_t)head;
        if (cas_acq_rel(&ring_head, &head, pack(steal == real ? real + 1 : steal, real + 1))) {
            add_relaxed(&ran[load_relaxed(&ring_slot[real % 4])], 1);
            head = load_acquire(&ring_head);
        }
    }
}
static void ring_test(void) {
    for (int i = 0; i < 3; i++)
        store_relaxed(&ring_slot[i], i);
    store_release(&ring_tail, 3);
    int thief = mc_spawn(ring_steal, NULL);
    ring_pop_all();
    mc_join(thief);
    uint64_t head = load_acquire(&ring_head);
    for (int i = 0; i < 3; i++)
        mc_assert(load_relaxed(&ran[i]) == 1);
    if (head >> 32 != (uint32_t)head)
        mc_fail("ring blocked: a steal that never ends");
}
MC_CASE(known_ring_right, ring_test, .arg = 0, .mode = MC_SLEEP_SETS);
MC_CASE(known_ring_release_abandoned, ring_test, .arg = 1, .expect = "ring blocked");

/* -- A wake that runs a fiber which is still on its stack -------------------------------------------- */
/* One worker suspends the fiber, the other one wakes and runs it.  Right: the fiber becomes wakeable only when its
 * worker has left the stack.  `stack` stands for the memory that both would use. */
enum { FIBER_RUNNING, FIBER_IDLE, FIBER_NOTIFIED };
static _Atomic int fiber_state;
static int stack;

static void fiber_run(void) { stack++; }
static void fiber_suspend(void *unused) {
    (void)unused;
    int running = FIBER_RUNNING;
    if (mc_arg()) {
        store_release(&fiber_state, FIBER_IDLE); /* too early */
        stack++;                                 /* saving registers, switching away */
        return;
    }
    stack++;
    if (!cas_acq_rel(&fiber_state, &running, FIBER_IDLE))
        fiber_run(); /* woken meanwhile */
}
static void fiber_wake(void *unused) {
    (void)unused;
    if (xchg_acq_rel(&fiber_state, FIBER_NOTIFIED) == FIBER_IDLE)
        fiber_run();
}
static void fiber_test(void) {
    int a = mc_spawn(fiber_suspend, NULL), b = mc_spawn(fiber_wake, NULL);
    mc_join(a);
    mc_join(b);
    if (!mc_arg())
        mc_assert(stack == 2);
}
MC_CASE(known_fiber_right, fiber_test, .arg = 0, .mode = MC_SLEEP_SETS);
MC_CASE(known_fiber_on_its_stack, fiber_test, .arg = 1, .expect = "data race");
