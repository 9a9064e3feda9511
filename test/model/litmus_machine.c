/* litmus_machine.c - the checker's machine checked: futexes, allocations, loops, crashes; what is wrong with them is found. */
#include "litmus.h"

static _Atomic int x, y;
static int r1, r2, plain;

static void write_x(void *u) { (void)u, store_release(&x, 1); }

/* -- Futex ------------------------------------------------------------------------------------------- */
static _Atomic uint32_t word;

enum { MUTEX_OK, MUTEX_NO_WAITER_FLAG, MUTEX_RELAXED_UNLOCK };
static void mutex_user(void *u) {
    (void)u;
    uint32_t flag = mc_arg() == MUTEX_NO_WAITER_FLAG ? 1 : 2, zero = 0;
    if (!cas_acquire(&word, &zero, 1))
        while (xchg_acquire(&word, flag) != 0)
            wefti_futex_wait(&word, flag, INT64_MAX);
    plain++;
    uint32_t before = mc_arg() == MUTEX_RELAXED_UNLOCK ? xchg_relaxed(&word, 0) : xchg_release(&word, 0);
    if (before == 2)
        wefti_futex_wake(&word, 1);
}
static void mutex(void) {
    run(mutex_user, mutex_user, mutex_user, NULL);
    mc_assert(plain == 3);
}
MC_CASE(litmus_futex_mutex, mutex, .arg = MUTEX_OK, .bound = 3);
MC_CASE(litmus_futex_mutex_all, mutex, .arg = MUTEX_OK, .mode = MC_SLEEP_SETS);
MC_CASE(litmus_futex_mutex_spurious, mutex, .arg = MUTEX_OK, .bound = 2, .spurious = 1);
MC_CASE(litmus_futex_mutex_no_flag, mutex, .arg = MUTEX_NO_WAITER_FLAG, .expect = "lost wake-up");
MC_CASE(litmus_futex_mutex_relaxed, mutex, .arg = MUTEX_RELAXED_UNLOCK, .expect = "data race");

static void flag_set(void *u) {
    (void)u;
    store_release(&word, 1);
    wefti_futex_wake(&word, 1);
}
/* The value is compared when going to sleep; but a number that was read too late cannot protect. */
static void flag_wait(void *u) {
    (void)u;
    while (!load_acquire(&word))
        wefti_futex_wait(&word, mc_arg() ? load_relaxed(&word) : 0, INT64_MAX);
}
static void flag(void) { run(flag_set, flag_wait, NULL, NULL); }
MC_CASE(litmus_futex_flag, flag, .arg = 0, .mode = MC_SLEEP_SETS);
MC_CASE(litmus_futex_lost_wake, flag, .arg = 1, .expect = "lost wake-up");

static void wait_ms(void *u) {
    (void)u;
    int64_t until = wefti_clock() + 10000000;
    r1 = wefti_futex_wait(&word, 0, until);
    mc_assert(r1 != -ETIMEDOUT || wefti_clock() >= until);
}
static void timed(void) {
    if (mc_arg())
        run(flag_set, wait_ms, NULL, NULL);
    else
        run(wait_ms, NULL, NULL, NULL);
    mc_outcome(r1 == 0 ? "woken" : r1 == -EAGAIN ? "again" : r1 == -ETIMEDOUT ? "timeout" : "?");
}
MC_CASE(litmus_timeouts, timed, .arg = 1, .timeouts = 1, .mode = MC_SLEEP_SETS, .outcomes = "woken again timeout");
MC_CASE(litmus_no_timeouts, timed, .arg = 1, .mode = MC_SLEEP_SETS, .outcomes = "woken again");
MC_CASE(litmus_idle_timeout, timed, .arg = 0, .idle_timeouts = 1, .outcomes = "timeout");
MC_CASE(litmus_timeout_not_granted, timed, .arg = 0, .expect = "deadlock");

/* Which of two sleepers is woken is open. */
static _Atomic int first_woken;
static void sleeper(void *u) {
    if (wefti_futex_wait(&word, 0, INT64_MAX) == 0) {
        int none = 0;
        cas_relaxed(&first_woken, &none, (int)(intptr_t)u);
    }
}
MC_TEST(litmus_wake_chooses, .outcomes = "1 2 0", .bound = 3) {
    int a = mc_spawn(sleeper, (void *)1), b = mc_spawn(sleeper, (void *)2);
    wefti_futex_wake(&word, 1);
    store_relaxed(&word, 1);
    int saw = load_relaxed(&first_woken);
    wefti_futex_wake(&word, 2);
    mc_join(a);
    mc_join(b);
    mc_outcome("%d", saw);
}

/* -- Memory ------------------------------------------------------------------------------------------ */
struct node {
    _Atomic int refs;
    int value;
};
static struct node *node;

static void unref(void *u) {
    (void)u;
    int v = node->value;
    (void)v;
    int before = mc_arg() ? sub_relaxed(&node->refs, 1) : sub_acq_rel(&node->refs, 1);
    if (before == 1)
        wefti_free(node, sizeof *node);
}
static void refcount(void) {
    node = wefti_alloc(sizeof *node);
    store_relaxed(&node->refs, 2);
    run(unref, unref, NULL, NULL);
}
MC_CASE(litmus_refcount, refcount, .arg = 0, .mode = MC_SLEEP_SETS);
MC_CASE(litmus_refcount_relaxed, refcount, .arg = 1, .expect = "data race: freeing");

static void free_node(void *u) {
    (void)u;
    if (xchg_acq_rel(&x, 1) == 0 || mc_arg() == 1)
        wefti_free(node, sizeof *node);
    else
        node->value = 1;
}
static void frees(void) {
    node = wefti_alloc(sizeof *node);
    run(free_node, free_node, NULL, NULL);
}
MC_CASE(litmus_use_after_free, frees, .arg = 0, .expect = "use after free");
MC_CASE(litmus_double_free, frees, .arg = 1, .expect = "double free");

MC_TEST(litmus_atomic_use_after_free, .expect = "use after free") {
    node = wefti_alloc(sizeof *node);
    wefti_free(node, sizeof *node);
    add_relaxed(&node->refs, 1);
}
MC_TEST(litmus_leak, .expect = "leak: 1 object") { node = wefti_alloc(sizeof *node); }
MC_TEST(litmus_leak_allowed, .leaks_ok = true) { node = wefti_alloc(sizeof *node); }
MC_TEST(litmus_overflow, .expect = "past the end") {
    char *p = wefti_alloc(24);
    p[24] = 1;
}
MC_TEST(litmus_dead_memory, .expect = "use of dead memory") {
    char *p = wefti_alloc(64);
    wefti_memory_dead(p + 16, 32);
    p[0] = 1;
    p[47] = 1;
}
MC_TEST(litmus_live_again) {
    _Atomic int *p = wefti_map(1 << 17);
    mc_assert(load_relaxed(p) == 0);
    store_relaxed(p, 3);
    wefti_memory_dead(p, 1 << 17);
    wefti_memory_live((char *)p + 64, 64);
    mc_assert(load_relaxed(p + 16) == 0);
    wefti_memory_live(p, 64);
    mc_assert(load_relaxed(p) == 3);
    wefti_unmap(p, 1 << 17);
}

/* Allocations and thread starts that fail. */
static void nothing(void *u) { (void)u; }
MC_TEST(litmus_failures, .failures = 1, .outcomes = "both first second nothread") {
    void *a = wefti_alloc(8), *b = wefti_map(4096);
    struct wefti_thread t;
    bool started = a && b && wefti_thread_start(&t, nothing, NULL, "t") == 0;
    mc_outcome(started ? "both" : !a ? "first" : !b ? "second" : "nothread");
    if (started)
        wefti_thread_join(&t);
    if (a)
        wefti_free(a, 8);
    if (b)
        wefti_unmap(b, 4096);
}

/* Stacks are memory too: a record on the waiter's stack must not be touched after the waiter went on. */
static _Atomic(struct waiter *) waiting;
struct waiter {
    _Atomic int done;
    int after;
};
static void wait_on_stack(void *u) {
    (void)u;
    struct waiter w = {0, 0};
    store_release(&waiting, &w);
    while (!load_acquire(&w.done))
        wefti_relax();
}
static void complete(void *u) {
    (void)u;
    struct waiter *w = load_acquire(&waiting);
    if (!w)
        return;
    if (!mc_arg())
        w->after = 1;
    store_release(&w->done, 1);
    if (mc_arg())
        w->after = 1;
}
static void stack_record(void) {
    mc_spawn(wait_on_stack, NULL);
    while (!load_relaxed(&waiting))
        wefti_relax();
    complete(NULL);
}
MC_CASE(litmus_stack_record, stack_record, .arg = 0);
MC_CASE(litmus_use_after_return, stack_record, .arg = 1, .expect = "use after return");

/* -- Progress ---------------------------------------------------------------------------------------- */
static void spin_on_x(void *u) {
    (void)u;
    while (!load_relaxed(&x))
        wefti_relax();
}
MC_TEST(litmus_livelock, .expect = "livelock") { run(spin_on_x, spin_on_x, NULL, NULL); }
MC_TEST(litmus_spin_ends, .mode = MC_SLEEP_SETS) { run(spin_on_x, spin_on_x, write_x, NULL); }
/* Spinning that gives up is not a livelock. */
static void spin_a_while(void *u) {
    (void)u;
    for (int i = 0; i < 20 && !load_relaxed(&x); i++)
        wefti_relax();
}
MC_TEST(litmus_spin_gives_up, .mode = MC_SLEEP_SETS) { run(spin_a_while, spin_a_while, NULL, NULL); }
/* Two that wait for a lock do not keep its holder from running. */
static void spin_lock(void *u) {
    (void)u;
    while (xchg_acquire(&x, 1))
        wefti_thread_yield();
    plain++;
    store_release(&x, 0);
}
MC_TEST(litmus_spin_lock) {
    run(spin_lock, spin_lock, spin_lock, NULL);
    mc_assert(plain == 3);
}
static void lock_two(_Atomic int *first, _Atomic int *second) {
    while (xchg_acquire(first, 1))
        wefti_relax();
    while (xchg_acquire(second, 1))
        wefti_relax();
    store_release(second, 0);
    store_release(first, 0);
}
static void lock_xy(void *u) { (void)u, lock_two(&x, &y); }
static void lock_yx(void *u) { (void)u, lock_two(&y, &x); }
MC_TEST(litmus_deadlock_spinning, .expect = "livelock") { run(lock_xy, lock_yx, NULL, NULL); }
static void sleep_for_ever(void *u) { (void)u, wefti_futex_wait(&word, 0, INT64_MAX); }
MC_TEST(litmus_deadlock, .expect = "deadlock") { run(sleep_for_ever, NULL, NULL, NULL); }
static void loop_blind(void *u) {
    (void)u;
    while (!load_relaxed(&x)) {
    }
}
MC_TEST(litmus_loop_without_relax, .expect = "did not end", .max_steps = 500) { run(loop_blind, NULL, NULL, NULL); }

/* -- ABA: a stack whose pop is fooled when its top goes away and comes back ---------------------------- */
static _Atomic int next_of[3]; /* of cells 1 and 2; 0: none */
static _Atomic int top;
static int pop(void) {
    int t = load_acquire(&top);
    while (t) {
        if (cas_acq_rel(&top, &t, load_relaxed(&next_of[t])))
            break;
    }
    return t;
}
static void push(int t) {
    int old = load_relaxed(&top);
    do {
        store_relaxed(&next_of[t], old);
    } while (!cas_release(&top, &old, t));
}
static void aba_victim(void *u) { (void)u, r1 = pop(); }
static void aba_other(void *u) {
    (void)u;
    int a = pop(), b = pop();
    r2 = b;
    if (a)
        push(a);
}
MC_TEST(litmus_aba, .expect = "left != r1") {
    push(2);
    push(1);
    run(aba_victim, aba_other, NULL, NULL);
    int left = pop();
    mc_assert(!left || (left != r1 && left != r2));
    mc_assert(!r1 || r1 != r2);
}

/* -- Crashes, determinism, quiet regions ------------------------------------------------------------- */
MC_TEST(litmus_crash, .expect = "crash: signal 11") {
    int *volatile p = NULL;
    *p = 1;
}
static void quiet_add(void *u) {
    (void)u;
    mc_atomic_begin();
    int v = load_relaxed(&x);
    store_relaxed(&x, v + 1);
    mc_atomic_end();
}
MC_TEST(litmus_quiet_region, .bound = 3, .outcomes = "2") {
    run(quiet_add, quiet_add, NULL, NULL);
    mc_outcome("%d", load_relaxed(&x));
}
MC_TEST(litmus_globals_start_anew, .outcomes = "0 1 2") {
    mc_assert(plain == 0 && load_relaxed(&x) == 0);
    plain = mc_choose(3);
    store_relaxed(&x, 1);
    mc_outcome("%d", plain);
}
static __thread int local;
static void use_local(void *u) {
    local += (int)(intptr_t)u;
    add_relaxed(&x, 1);
    mc_assert(local == (int)(intptr_t)u && wefti_self() == NULL);
    wefti_self_set(u);
    add_relaxed(&x, 1);
    mc_assert(wefti_self() == u);
}
MC_TEST(litmus_thread_locals, .bound = 2) {
    wefti_self_set(&local);
    int a = mc_spawn(use_local, (void *)1), b = mc_spawn(use_local, (void *)2);
    mc_join(a);
    mc_join(b);
    mc_assert(local == 0 && wefti_self() == &local);
}

/* Memory is written when it is made: who gets it without an order may not even be the first to write. */
static _Atomic(int *) made;
static void make_one(void *u) {
    (void)u;
    int *p = wefti_alloc(sizeof *p);
    if (mc_arg())
        store_release(&made, p);
    else
        store_relaxed(&made, p);
}
static void use_made(void *u) {
    (void)u;
    int *p = mc_arg() ? load_acquire(&made) : load_relaxed(&made);
    if (p)
        *p = 18;
}
static void alloc_published(void) { run(make_one, use_made, NULL, NULL); }
MC_CASE(litmus_alloc_published, alloc_published, .arg = 1, .mode = MC_SLEEP_SETS, .leaks_ok = true);
MC_CASE(litmus_alloc_not_published, alloc_published, .arg = 0, .expect = "data race", .leaks_ok = true);
