/* litmus.c - the checker's memory checked: small programs whose every outcome under C11 is known.
 *
 * A test with .outcomes passes when the executions end in exactly these ways; one with .expect when that bug is
 * found.  Where the model is weaker or stronger than C11 (mc/memory.c, "Not covered"), the test says so.
 */
#include "litmus.h"

static _Atomic int x, y;
static int r1, r2, r3, r4;

/* -- Store buffering: each writes one word and reads the other's ------------------------------------- */
enum { SB_RELAXED, SB_REL_ACQ, SB_FENCES, SB_ONE_FENCE, SB_ASYMMETRIC, SB_LIGHT_ONLY, SB_SEQ_CST };

static void sb_side(_Atomic int *mine, _Atomic int *other, int *result, bool heavy) {
    switch (mc_arg()) {
    case SB_SEQ_CST:
        atomic_store(mine, 1);
        *result = atomic_load(other);
        return;
    case SB_REL_ACQ:
        store_release(mine, 1);
        *result = load_acquire(other);
        return;
    }
    store_relaxed(mine, 1);
    if (mc_arg() == SB_FENCES || (mc_arg() == SB_ONE_FENCE && heavy))
        fence_seq_cst();
    else if (mc_arg() == SB_ASYMMETRIC && heavy)
        wefti_fence_heavy();
    else if (mc_arg() >= SB_ASYMMETRIC)
        fence_light();
    *result = load_relaxed(other);
}
static void sb_1(void *u) { (void)u, sb_side(&x, &y, &r1, true); }
static void sb_2(void *u) { (void)u, sb_side(&y, &x, &r2, false); }
static void sb(void) {
    run(sb_1, sb_2, NULL, NULL);
    mc_outcome("%d%d", r1, r2);
}
MC_CASE(litmus_sb_relaxed, sb, .arg = SB_RELAXED, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
MC_CASE(litmus_sb_release_acquire, sb, .arg = SB_REL_ACQ, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
MC_CASE(litmus_sb_fences, sb, .arg = SB_FENCES, .mode = MC_SLEEP_SETS, .outcomes = "01 10 11");
MC_CASE(litmus_sb_one_fence, sb, .arg = SB_ONE_FENCE, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
MC_CASE(litmus_sb_seq_cst, sb, .arg = SB_SEQ_CST, .mode = MC_SLEEP_SETS, .outcomes = "01 10 11");
MC_CASE(litmus_sb_heavy_light, sb, .arg = SB_ASYMMETRIC, .mode = MC_SLEEP_SETS, .outcomes = "01 10 11");
MC_CASE(litmus_sb_light_light, sb, .arg = SB_LIGHT_ONLY, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
/* The same sets by bounded search and by chance. */
MC_CASE(litmus_sb_fences_bounded, sb, .arg = SB_FENCES, .bound = 3, .outcomes = "01 10 11");
MC_CASE(litmus_sb_relaxed_unbounded, sb, .bound = MC_UNBOUNDED, .outcomes = "00 01 10 11");
MC_CASE(litmus_sb_without_stale_reads, sb, .stale_depth = MC_NO_STALE, .outcomes = "01 10 11");

/* -- Message passing: data, then flag ---------------------------------------------------------------- */
enum { MP_RELAXED, MP_REL_ACQ, MP_REL_ONLY, MP_ACQ_ONLY, MP_FENCES, MP_REL_FENCE_ONLY };

static void mp_write(void *u) {
    (void)u;
    store_relaxed(&x, 1);
    if (mc_arg() >= MP_FENCES)
        atomic_thread_fence(memory_order_release);
    if (mc_arg() == MP_REL_ACQ || mc_arg() == MP_REL_ONLY)
        store_release(&y, 1);
    else
        store_relaxed(&y, 1);
}
static void mp_read(void *u) {
    (void)u;
    r1 = mc_arg() == MP_REL_ACQ || mc_arg() == MP_ACQ_ONLY ? load_acquire(&y) : load_relaxed(&y);
    if (mc_arg() == MP_FENCES)
        atomic_thread_fence(memory_order_acquire);
    r2 = load_relaxed(&x);
}
static void mp(void) {
    run(mp_write, mp_read, NULL, NULL);
    mc_outcome("%d%d", r1, r2);
}
MC_CASE(litmus_mp_relaxed, mp, .arg = MP_RELAXED, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
MC_CASE(litmus_mp_release_acquire, mp, .arg = MP_REL_ACQ, .mode = MC_SLEEP_SETS, .outcomes = "00 01 11");
MC_CASE(litmus_mp_release_only, mp, .arg = MP_REL_ONLY, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
MC_CASE(litmus_mp_acquire_only, mp, .arg = MP_ACQ_ONLY, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");
MC_CASE(litmus_mp_fences, mp, .arg = MP_FENCES, .mode = MC_SLEEP_SETS, .outcomes = "00 01 11");
MC_CASE(litmus_mp_one_fence, mp, .arg = MP_REL_FENCE_ONLY, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10 11");

/* A reader that spins for the flag may still read the data too early: relaxing makes only the flag fresh. */
static void mp_spin(void *u) {
    (void)u;
    while (!load_relaxed(&y))
        wefti_relax();
    r2 = load_relaxed(&x);
}
static void mp_spinning(void) {
    run(mp_write, mp_spin, NULL, NULL);
    mc_outcome("%d", r2);
}
MC_CASE(litmus_mp_spin_relaxed, mp_spinning, .arg = MP_RELAXED, .mode = MC_SLEEP_SETS, .outcomes = "0 1");

/* -- Load buffering: C11 allows 11 with relaxed accesses, the machine never produces it --------------- */
static void lb_1(void *u) {
    (void)u;
    r1 = load_relaxed(&x);
    store_relaxed(&y, 1);
}
static void lb_2(void *u) {
    (void)u;
    r2 = load_relaxed(&y);
    store_relaxed(&x, 1);
}
MC_TEST(litmus_lb_not_covered, .mode = MC_SLEEP_SETS, .outcomes = "00 01 10") {
    run(lb_1, lb_2, NULL, NULL);
    mc_outcome("%d%d", r1, r2);
}

/* -- Independent reads of independent writes: do two readers agree on the order? ---------------------- */
static void write_x(void *u) { (void)u, store_release(&x, 1); }
static void write_y(void *u) { (void)u, store_release(&y, 1); }
static void iriw_read(_Atomic int *first, _Atomic int *second, int *a, int *b) {
    *a = load_acquire(first);
    if (mc_arg())
        fence_seq_cst();
    *b = load_acquire(second);
}
static void iriw_1(void *u) { (void)u, iriw_read(&x, &y, &r1, &r2); }
static void iriw_2(void *u) { (void)u, iriw_read(&y, &x, &r3, &r4); }
static void iriw(void) {
    run(write_x, write_y, iriw_1, iriw_2);
    mc_outcome(r1 && !r2 && r3 && !r4 ? "disagree" : "agree");
}
MC_CASE(litmus_iriw_acquire, iriw, .arg = 0, .mode = MC_SLEEP_SETS, .outcomes = "agree disagree");
MC_CASE(litmus_iriw_fences, iriw, .arg = 1, .mode = MC_SLEEP_SETS, .outcomes = "agree");

/* -- Coherence of one location ----------------------------------------------------------------------- */
static void write_12(void *u) {
    (void)u;
    store_relaxed(&x, 1);
    store_relaxed(&x, 2);
}
static void read_twice(void *u) {
    (void)u;
    r1 = load_relaxed(&x);
    r2 = load_relaxed(&x);
}
MC_TEST(litmus_corr, .mode = MC_SLEEP_SETS, .outcomes = "00 01 02 11 12 22") {
    run(write_12, read_twice, NULL, NULL);
    mc_outcome("%d%d", r1, r2);
}
MC_TEST(litmus_coww, .mode = MC_SLEEP_SETS, .outcomes = "2") {
    run(write_12, NULL, NULL, NULL);
    mc_outcome("%d", load_relaxed(&x));
}
static void write_read_back(void *u) {
    (void)u;
    store_relaxed(&x, 3);
    r1 = load_relaxed(&x);
}
MC_TEST(litmus_cowr, .mode = MC_SLEEP_SETS, .outcomes = "12 22 32 33") {
    run(write_12, write_read_back, NULL, NULL);
    mc_outcome("%d%d", r1, load_relaxed(&x)); /* never a store from before its own */
}
/* Two threads increment: nothing is lost, whatever the order. */
static void increment(void *u) { (void)u, add_relaxed(&x, 1); }
MC_TEST(litmus_rmw_atomic, .mode = MC_SLEEP_SETS, .outcomes = "3") {
    run(increment, increment, increment, NULL);
    mc_outcome("%d", load_relaxed(&x));
}
/* 2+2W: C11 allows x == y == 1 at the end.  The machine appends stores, and never produces it. */
static void w22_1(void *u) {
    (void)u;
    store_relaxed(&x, 1);
    store_relaxed(&y, 2);
}
static void w22_2(void *u) {
    (void)u;
    store_relaxed(&y, 1);
    store_relaxed(&x, 2);
}
MC_TEST(litmus_2_2w_not_covered, .mode = MC_SLEEP_SETS, .outcomes = "12 21 22") {
    run(w22_1, w22_2, NULL, NULL);
    mc_outcome("%d%d", load_relaxed(&x), load_relaxed(&y));
}

/* -- Release sequences (C++20) ----------------------------------------------------------------------- */
static int plain;
static void rs_write(void *u) {
    (void)u;
    plain = 1;
    store_release(&y, 1);
    if (mc_arg())
        store_relaxed(&y, 2); /* by the same thread, but no read-modify-write: ends the sequence */
}
static void rs_bump(void *u) {
    (void)u;
    int one = 1;
    cas_relaxed(&y, &one, 2);
}
static void rs_read(void *u) {
    (void)u;
    if (load_acquire(&y) == 2)
        r1 = plain;
}
MC_TEST(litmus_release_sequence_rmw, .mode = MC_SLEEP_SETS) { run(rs_write, rs_bump, rs_read, NULL); }
static void rs_same_thread(void) { run(rs_write, rs_read, NULL, NULL); }
MC_CASE(litmus_release_sequence_store, rs_same_thread, .arg = 1, .expect = "data race");

/* -- Compare and swap -------------------------------------------------------------------------------- */
static void cas_fail(void *u) {
    (void)u;
    int expect = 5;
    cas_relaxed(&x, &expect, 6);
    r1 = expect;
}
MC_TEST(litmus_failed_cas_reads_stale, .mode = MC_SLEEP_SETS, .outcomes = "0 1 2") {
    run(write_12, cas_fail, NULL, NULL);
    mc_outcome("%d", r1);
}

/* -- A claimed slot: its user must be done before the next one overwrites it -------------------------- */
static _Atomic int slot;
static void slot_read(void *u) {
    (void)u;
    r1 = load_relaxed(&slot);
    store_release(&y, 1); /* done with it */
}
static void slot_reuse(void *u) {
    (void)u;
    if (mc_arg() ? load_relaxed(&y) : load_acquire(&y))
        store_relaxed(&slot, 2);
}
static void slot_test(void) {
    mc_exclusive(&slot, sizeof slot);
    run(slot_read, slot_reuse, NULL, NULL);
}
MC_CASE(litmus_exclusive, slot_test, .arg = 0, .mode = MC_SLEEP_SETS);
MC_CASE(litmus_exclusive_relaxed, slot_test, .arg = 1, .expect = "not exclusive");

/* -- Plain data -------------------------------------------------------------------------------------- */
static void publish(void *u) {
    (void)u;
    plain = 42;
    if (mc_arg())
        store_release(&y, 1);
    else
        store_relaxed(&y, 1);
}
static void consume(void *u) {
    (void)u;
    if (load_acquire(&y))
        mc_assert(plain == 42);
}
static void plain_mp(void) { run(publish, consume, NULL, NULL); }
MC_CASE(litmus_plain_published, plain_mp, .arg = 1, .mode = MC_SLEEP_SETS);
MC_CASE(litmus_plain_race, plain_mp, .arg = 0, .expect = "data race");

/* Full fences order atomics only: between them plain data still races. */
static void fence_write(void *u) {
    (void)u;
    plain = 1;
    fence_seq_cst();
}
static void fence_read(void *u) {
    (void)u;
    fence_seq_cst();
    r1 = plain;
}
MC_TEST(litmus_plain_fences_alone, .expect = "data race") { run(fence_write, fence_read, NULL, NULL); }

static struct {
    char a, b;
    _Atomic char c;
    short d;
} packed;
static void bytes_1(void *u) {
    (void)u;
    packed.a = 1;
    add_relaxed(&packed.c, 1);
}
static void bytes_2(void *u) {
    (void)u;
    packed.b = 1;
    packed.d = 7;
    add_relaxed(&packed.c, 1);
}
MC_TEST(litmus_neighbouring_bytes, .mode = MC_SLEEP_SETS) {
    run(bytes_1, bytes_2, NULL, NULL);
    mc_assert(packed.a == 1 && packed.b == 1 && packed.d == 7 && load_relaxed(&packed.c) == 2);
}
static void plain_reset(void *u) {
    (void)u;
    memset(&packed, 0, sizeof packed);
}
MC_TEST(litmus_atomic_against_plain, .expect = "data race") { run(bytes_1, plain_reset, NULL, NULL); }
static void word_atomic(void *u) { (void)u, atomic_fetch_add((_Atomic int *)(void *)&packed, 1); }
MC_TEST(litmus_mixed_sizes, .expect = "mixed sizes") {
    run(bytes_1, NULL, NULL, NULL);
    packed.a = 0;
    add_relaxed(&packed.c, 1);
    word_atomic(NULL);
}
