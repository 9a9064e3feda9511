/* litmus_table.c - the checker's memory against other people's litmus tests, a line each.
 *
 * Words.  A program is its threads, and after a colon the locations whose last values are shown too.  A step is a letter, a
 *         location, a number, an order (a, r, b: both, s; none: relaxed): Wx1r stores, Ry loads, Ax1 adds, Xx2
 *         exchanges, Cx12 puts 2 for 1, Fs is a fence, P1 writes plain memory, Q reads it; ?1 ends the thread unless the
 *         value read last was 1.
 *         An outcome is what R, A and X read, in the order of the text; - stands for what was not come to.
 * Claim.  Each set is what the axioms of RC11 allow (Lahav and others, PLDI 2017; release sequences as in C++20), less the
 *         executions in which sb, rf, mo and psc make a circle: the machine goes forward, and appends.  What RC11 allows
 *         beyond that stands behind the row.  The sets were worked out from the axioms by another program, whose numbers
 *         of executions are those that GenMC's tests expect, where these say one.
 * From.   The litmus tests of GenMC (tests/correct/litmus, tests/wrong/racy) and of herdtools7 (catalogue/c11popl15), and
 *         variations of them.
 */
#include "litmus.h"

static _Atomic int place[4]; /* x y z w */
static int plain;
static char read_by[4][8];

static memory_order order_of(char c) {
    return c == 'a'   ? memory_order_acquire
           : c == 'r' ? memory_order_release
           : c == 'b' ? memory_order_acq_rel
           : c == 's' ? memory_order_seq_cst
                      : memory_order_relaxed;
}
static _Atomic int *place_of(char c) { return &place[c == 'w' ? 3 : c - 'x']; }

/* One step.  The value that it read, or that of the step before. */
static int step(const char *s, int last) {
    int n = s[1] && s[2] >= '0' && s[2] <= '9' ? s[2] - '0' : 0;
    memory_order order = order_of(s[strcspn(s, " ") - 1]);
    switch (*s) {
    case 'F': atomic_thread_fence(order); return last;
    case 'P': plain = s[1] - '0'; return last;
    case 'Q': return plain;
    case 'C': cas_relaxed(place_of(s[1]), &n, s[3] - '0'); return n;
    case 'W': atomic_store_explicit(place_of(s[1]), n, order); return last;
    case 'A': return atomic_fetch_add_explicit(place_of(s[1]), n, order);
    case 'X': return atomic_exchange_explicit(place_of(s[1]), n, order);
    default: return atomic_load_explicit(place_of(s[1]), order);
    }
}

static const char *thread_of(int index) {
    const char *s = (const char *)mc_arg();
    while (s && index--)
        s = strchr(s, '|') ? strchr(s, '|') + 2 : NULL;
    return s;
}

static void walk(void *arg) {
    int me = (int)(intptr_t)arg, last = 0, reads = 0;
    bool on = true;
    for (const char *s = thread_of(me); *s && *s != '|' && *s != ':'; s += strcspn(s, " "), s += *s == ' ') {
        if (*s == '?')
            on = on && last == s[1] - '0';
        else if (on)
            last = step(s, last);
        if (strchr("RAX", *s))
            read_by[me][reads++] = on ? (char)('0' + last) : '-';
    }
}

static void table(void) {
    int id[4], n = 0;
    for (; n < 4 && thread_of(n); n++)
        id[n] = mc_spawn(walk, (void *)(intptr_t)n);
    for (int i = 0; i < n; i++)
        mc_join(id[i]);
    char text[48] = "";
    for (int i = 0; i < n; i++)
        strcat(text, read_by[i]);
    const char *shown = strchr((const char *)mc_arg(), ':');
    if (shown)
        strcat(text, "/");
    for (; shown && *++shown;)
        if (*shown != ' ')
            strncat(text, &(char){(char)('0' + load_relaxed(place_of(*shown)))}, 1);
    mc_outcome("%s", text);
}

#define ROW(name_, program, outcomes_)                                                                                 \
    MC_CASE(litmus_rc11_##name_, table, .arg = (intptr_t)(program), .mode = MC_SLEEP_SETS, .outcomes = outcomes_)
#define RACE(name_, program) MC_CASE(litmus_race_##name_, table, .arg = (intptr_t)(program), .expect = "data race")

ROW(iriw_acq_sc, "Wx1s | Rxa Rys | Rya Rxs | Wy1s",
    "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1011 1100 1101 1110 1111"); /* RC11 also: 1010 */
ROW(lb3, "Rx Wy1 | Ry Wz1 | Rz Wx1", "000 001 010 011 100 101 110");
ROW(rwc_syncs, "Wx1 | Rx Fs Ry | Wy1 Fs Rx", "000 001 010 011 101 110 111");
ROW(sb_2sc_scf, "Wx1s Rys | Wy1 Fs Rx", "01 10 11");
ROW(sb_3sc_acq, "Wx1s Rys | Wy1s Rxa", "00 01 10 11");
ROW(sb_3sc_rel, "Wx1s Rys | Wy1r Rxs", "00 01 10 11");
ROW(sb_rfis, "Wx1r Rxs Rys | Wy1r Rys Rxs", "1010 1011 1110 1111");
ROW(w_rwc, "Wx1 Wy1r | Rya Fs Rz | Wz1 Fs Rx", "000 001 010 011 101 110 111");
ROW(wwmerge2, "Rxa Rys | Wx2s | Wy1s Rxs", "000 002 010 012 202 210 212"); /* RC11 also: 200 */
ROW(z6_acq, "Wx1 Fs Wy1 | Rya Wz1 | Wz2 Fs Rx", "00 01 10 11");
ROW(atomicpo, "Wx1 Fb Wy1 | Xy1 Xx1", "00 01 11"); /* RC11 also: 10 */
ROW(inc2w, "Ax1 | Wx4r | Ax2", "01 04 20 40 45 64");
ROW(isa2, "Wx1 Wy1r | Rya Wz1r | Rza Rx", "000 001 010 011 100 101 111");
ROW(peterz, "Wx1 Fs Ry | Wy1 Wz1r | Rza Fs Rx", "000 001 011 100 101 110 111");
ROW(relacq_b_cumul, "Wx1 Wy1r | Rya Wz1 | Rz Fb Rx", "000 001 010 011 100 101 110 111");
ROW(relseq, "Wx1 Wy1r Wy2 | Xy3 | Ry Fb Rx",
    "000 001 011 020 021 030 031 100 101 111 120 121 131 200 201 211 220 221 230 231");
ROW(rinc_wr, "Ax1 | Wx2 Rx", "02 22 23");
ROW(riwi, "Rx Ay1 | Ay1 Wx1r", "001 010 110");
ROW(small0, "Rxa | Rxa Wx1r | Wx2r", "00 02 10 12 20 22");
ROW(w22_fences, "Wx1 Fs Wy2 | Wy1 Fs Wx2 : x y", "/12 /21 /22");
ROW(s, "Wx2 Wy1 | Ry Wx1 : x", "0/1 0/2 1/1"); /* RC11 also: 1/2 */
ROW(s_ra, "Wx2 Wy1r | Rya Wx1 : x", "0/1 0/2 1/1");
ROW(r, "Wx1 Wy1 | Wy2 Rx : y", "0/1 0/2 1/1 1/2");
ROW(r_fences, "Wx1 Fs Wy1 | Wy2 Fs Rx : y", "0/1 1/1 1/2");
ROW(r_ra, "Wx1 Wy1r | Wy2r Rxa : y", "0/1 0/2 1/1 1/2");
ROW(wrc_rlx, "Wx1 | Rx Wy1 | Ry Rx", "000 001 010 011 100 101 110 111");
ROW(wrc_ra, "Wx1r | Rxa Wy1r | Rya Rx", "000 001 010 011 100 101 111");
ROW(wrc_dep, "Wx1 | Rx ?1 Wy1 | Rya ?1 Rx", "00- 10- 110 111");
ROW(wrc_mid_acq, "Wx1r | Rxa ?1 Wy1 | Rya ?1 Rx", "00- 10- 110 111");
ROW(mp_rmw_chain, "Wx1 Wy1r | Ay1 | Rya Rx", "000 001 010 011 100 101 111 121");
ROW(mp_rmw_acq, "Wx1 Wy1r | Ay1a Rx", "00 01 11");
ROW(mp_xchg_rlx_breaks, "Wx1 Wy1r | Wy2 | Rya Rx", "00 01 11 20 21");
ROW(mp_relf_two, "Wx1 Fr Wy1 Wz1 | Rza Rx | Rya Rx", "0000 0001 0011 0100 0101 0111 1100 1101 1111");
ROW(mp_late_fence, "Wx1 Wy1 Fr | Rya Rx", "00 01 10 11");
ROW(mp_early_fence, "Wx1 Wy1r | Fa Ry Rx", "00 01 10 11");
ROW(psc_ar, "Ry ?1 Fs Rz | Wz1 Fs Wx1 | Rx ?1 Wy1", "0-0 0-1 111"); /* RC11 also: 101 */
ROW(iriw_fences_mixed, "Wx1 | Wy1 | Rx Fs Ry | Ry Fs Rx",
    "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1011 1100 1101 1110 1111");
ROW(sb_rmw, "Ax1b Ry | Ay1b Rx", "0000 0001 0100 0101");
ROW(sb3_fences, "Wx1 Fs Ry | Wy1 Fs Rz | Wz1 Fs Rx", "001 010 011 100 101 110 111");
ROW(z6_fences, "Wx1 Fs Wy1 | Wy2 Fs Wz1 | Rz Fs Rx : y", "00/1 00/2 01/1 01/2 10/1 11/1 11/2");
ROW(fence_chain, "Wx1 Fs Wy1 | Ry ?1 Fs Rz | Wz1 Fs Rx", "0-0 0-1 101 110 111");
ROW(cowr_rmw, "Wx1 Ax1 | Wx2 Rx : x", "11/2 12/2 22/3 23/3");
ROW(rmw_gap, "Ax1 Ax1 | Wx5 : x", "01/5 05/6 56/7");
ROW(lb_ctrl, "Rx ?1 Wy1 | Ry ?1 Wx1", "00");
ROW(lb_fences, "Rx Fs Wy1 | Ry Fs Wx1", "00 01 10");
ROW(a9, "Wz1 Wx1r | Rx ?1 Fa Fr Wy1 | Rya ?1 Rz", "00- 10- 111");
ROW(a9_reorder, "Wz1 Wx1r | Rx ?1 Fr Fa Wy1 | Rya ?1 Rz", "00- 10- 110 111");
ROW(a8_reorder, "Wy1 Wx1 Fr | Rxa ?1 Ry", "0- 10 11");
ROW(w_rwc_rlx, "Wx1 Wy1 | Rya Fs Rz | Wz1 Fs Rx", "000 001 010 011 100 101 110 111");
ROW(rwc_one_fence, "Wx1 | Rx Fs Ry | Wy1 Rx", "000 001 010 011 100 101 110 111");
ROW(relseq_two_rmw, "Wx1 Ay1r | Ay1 | Ay1a Rx", "0121 0211 1021 1200 1201 2010 2011 2100 2101");
ROW(fence_acq_of_fence, "Wx1 Fs Wy1 | Rya Rx", "00 01 11");
ROW(dekker_turn, "Wx1 Fs Ry Wx0 | Wy1 Fs Rx", "00 01 10 11");
ROW(b_cumul, "Wx1 Wy1r | Ry Wz1r | Rza Rx", "000 001 010 011 100 101 110 111");
ROW(relb, "Wx1 Wy1r | Ry ?1 Fs Wz1 | Rza ?1 Rx", "00- 10- 111");
ROW(acq_fence_picks_two, "Wx1 Wy1r | Wz1r | Ry Rz Fa Rx", "000 001 010 011 101 111");

/* -- Plain memory: published by y, through one or two read-modify-writes (MPU, MPU2), written or only read by the other -- */
ROW(mp_rel_acq, "P1 Wy1r | Rya ?1 Q", "0 1");
ROW(mp_rel_acqf, "P1 Wy1r | Ry ?1 Fa Q", "0 1");
RACE(mp_rel_rlx, "P1 Wy1r | Ry ?1 Q");
ROW(mp_relf_acq, "P1 Fr Wy1 | Rya ?1 Q", "0 1");
ROW(mp_relf_acqf, "P1 Fr Wy1 | Ry ?1 Fa Q", "0 1");
RACE(mp_relf_rlx, "P1 Fr Wy1 | Ry ?1 Q");
RACE(mp_rlx_acq, "P1 Wy1 | Rya ?1 Q");
RACE(mp_rlx_acqf, "P1 Wy1 | Ry ?1 Fa Q");
RACE(mp_rels_acq, "P1 Wy0r Wy1 | Rya ?1 Q"); /* C11 had it right, C++20 has not */
RACE(mp_rels_acqf, "P1 Wy0r Wy1 | Ry ?1 Fa Q"); /* C11 had it right, C++20 has not */
RACE(mp_rels_rlx, "P1 Wy0r Wy1 | Ry ?1 Q");
ROW(s_rel_acq, "P1 Wy1r | Rya ?1 P2", "0 1");
RACE(s_rel_rlx, "P1 Wy1r | Ry ?1 P2");
RACE(s_rlx_acq, "P1 Wy1 | Rya ?1 P2");
ROW(mpu_rel_acq, "P1 Wy1r | Ay1 | Rya ?2 P2", "00 01 10 11 12");
ROW(mpu_rel_acqf, "P1 Wy1r | Ay1 | Ry ?2 Fa P2", "00 01 10 11 12");
RACE(mpu_rel_rlx, "P1 Wy1r | Ay1 | Ry ?2 P2");
ROW(mpu_relf_acq, "P1 Fr Wy1 | Ay1 | Rya ?2 P2", "00 01 10 11 12");
ROW(mpu_relf_acqf, "P1 Fr Wy1 | Ay1 | Ry ?2 Fa P2", "00 01 10 11 12");
RACE(mpu_relf_rlx, "P1 Fr Wy1 | Ay1 | Ry ?2 P2");
RACE(mpu_rlx_acq, "P1 Wy1 | Ay1 | Rya ?2 P2");
RACE(mpu_rlx_acqf, "P1 Wy1 | Ay1 | Ry ?2 Fa P2");
RACE(mpu_rels_acq, "P1 Wy0r Wy1 | Ay1 | Rya ?2 P2"); /* C11 had it right, C++20 has not */
RACE(mpu_rels_acqf, "P1 Wy0r Wy1 | Ay1 | Ry ?2 Fa P2"); /* C11 had it right, C++20 has not */
RACE(mpu_rels_rlx, "P1 Wy0r Wy1 | Ay1 | Ry ?2 P2");
ROW(mpu2_rel_acq, "P1 Wy1r | Cy23 | Cy12 | Rya ?3 P2", "0 1 2 3");
ROW(mpu2_rel_acqf, "P1 Wy1r | Cy23 | Cy12 | Ry ?3 Fa P2", "0 1 2 3");
RACE(mpu2_rel_rlx, "P1 Wy1r | Cy23 | Cy12 | Ry ?3 P2");
ROW(mpu2_relf_acq, "P1 Fr Wy1 | Cy23 | Cy12 | Rya ?3 P2", "0 1 2 3");
ROW(mpu2_relf_acqf, "P1 Fr Wy1 | Cy23 | Cy12 | Ry ?3 Fa P2", "0 1 2 3");
RACE(mpu2_relf_rlx, "P1 Fr Wy1 | Cy23 | Cy12 | Ry ?3 P2");
RACE(mpu2_rlx_acq, "P1 Wy1 | Cy23 | Cy12 | Rya ?3 P2");
RACE(mpu2_rlx_acqf, "P1 Wy1 | Cy23 | Cy12 | Ry ?3 Fa P2");
RACE(mpu2_rels_acq, "P1 Wy0r Wy1 | Cy23 | Cy12 | Rya ?3 P2"); /* C11 had it right, C++20 has not */
RACE(mpu2_rels_acqf, "P1 Wy0r Wy1 | Cy23 | Cy12 | Ry ?3 Fa P2"); /* C11 had it right, C++20 has not */
RACE(mpu2_rels_rlx, "P1 Wy0r Wy1 | Cy23 | Cy12 | Ry ?3 P2");
