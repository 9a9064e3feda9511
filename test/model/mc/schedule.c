/* schedule.c - who goes next: each visible operation is a choice among the threads that could do theirs.
 *
 * What.   A thread runs alone until it is about to do a visible operation (an atomic access, a fence, a futex
 *         call, a turn of a spin loop).  There it calls mc_point(), which decides who goes on.
 * Words.  visible: another thread could notice when it happens.  raw: a thread that may run but is not at a
 *         visible operation yet (just made, or just woken).  Raw threads run up to their next one before any
 *         decision is made: what is between two visible operations is seen by nobody, or is a data race, and those
 *         are found by happens-before (shadow.c), whatever the order.
 *         preemption: going on with another thread although the last one could have continued.
 * Spin.   A thread that relaxes is taken out until something that it read has another value.  When all are out, all
 *         get another turn (loops that give up after a while do), at most MC_GRACE times.  After `spins` turns it
 *         must also let every thread run that could: fairness, without which two threads that hand a lock to and
 *         fro would keep a third from ever running.
 * Not covered.  Loops that wait without relaxing: they end in the step limit.
 */
#include <stdio.h>

#include "internal.h"

static bool may_resume(const struct mc_thread *t, unsigned ready) { return !(t->owed & ready) && mc_may_spin_on(t); }

/* The threads that could go on now. */
static unsigned enabled(void) {
    unsigned can = mc.ready;
    for (unsigned s = mc.spun; s; s &= s - 1) {
        int i = __builtin_ctz(s);
        if (may_resume(&mc.t[i], mc.ready))
            can |= 1u << i;
    }
    if (unlikely(mc.spurious > 0))
        can |= mc.asleep;
    if (unlikely(mc.timeouts > 0)) {
        for (unsigned s = mc.asleep; s; s &= s - 1)
            if (mc.t[__builtin_ctz(s)].until != INT64_MAX)
                can |= s & -s;
    }
    return can;
}

/* Could doing one before the other make a difference to anybody? */
static bool independent(const struct mc_op *a, const struct mc_op *b) {
    if (a->kind == OP_RELAX || b->kind == OP_RELAX || a->kind == OP_HEAVY || b->kind == OP_HEAVY)
        return false;
    if (a->order == MO_SEQ_CST && b->order == MO_SEQ_CST)
        return false; /* both touch what all seq_cst operations share */
    if (a->kind == OP_WAIT && b->kind == OP_WAIT)
        return false; /* they share the number of time-outs that are left */
    if (a->kind == OP_FENCE || b->kind == OP_FENCE)
        return true;
    return a->addr != b->addr || (a->kind == OP_LOAD && b->kind == OP_LOAD);
}

/* A sleeping thread was chosen: it wakes for no reason, or because time is up. */
static void wake_by_itself(struct mc_thread *t) {
    bool timeout = mc.timeouts > 0 && t->until != INT64_MAX;
    if (timeout && mc.spurious > 0)
        timeout = mc_pick(2, -1) == 0;
    if (timeout) {
        mc.timeouts--;
        t->wait_result = -1;
        if (mc.clock < t->until)
            mc.clock = t->until;
    } else {
        mc.spurious--;
        t->wait_result = 0;
    }
}

static void make_ready(int thread) {
    unsigned bit = 1u << thread;
    mc.t[thread].state = MC_READY;
    mc.ready |= bit;
    mc.spun &= ~bit;
    mc.asleep &= ~bit;
}

static const char *const blocked_in[] = {"", "ready", "spinning", "asleep on a futex", "joining a thread", ""};

static _Noreturn void stuck(const char *what) {
    char who[700] = "";
    size_t n = 0;
    uintptr_t pc = 0;
    for (int i = 0; i < mc.count && n < sizeof who - 100; i++) {
        const struct mc_thread *t = &mc.t[i];
        if (t->state == MC_DONE)
            continue;
        pc = t->op.pc;
        n += (size_t)snprintf(who + n, sizeof who - n, "\n    T%d is %s", i, blocked_in[t->state]);
        if (t->state == MC_JOINING)
            n += (size_t)snprintf(who + n, sizeof who - n, ": T%d", t->joins);
        n += (size_t)snprintf(who + n, sizeof who - n, ", at {%p}", (void *)t->op.pc);
    }
    mc_fail_at(pc, 0, "%s%s", what, who);
}

/* Nobody can go on.  Give spinners another turn, let time pass, or find the test over or stuck. */
static void nobody(void) {
    if (mc.spun) {
        if (mc.changes != mc.grace_changes)
            mc.grace = 0;
        mc.grace_changes = mc.changes;
        if (++mc.grace > MC_GRACE)
            stuck("livelock: every thread that is not blocked spins, and none can make progress");
        mc.clock += 1000000;
        for (unsigned s = mc.spun; s; s &= s - 1) {
            mc_spin_resume(&mc.t[__builtin_ctz(s)]);
            mc.raw |= s & -s;
            make_ready(__builtin_ctz(s));
        }
        return;
    }
    int first = -1, unfinished = 0;
    for (int i = 0; i < mc.count; i++) {
        const struct mc_thread *t = &mc.t[i];
        unfinished += t->state != MC_DONE;
        if (t->state == MC_ASLEEP && t->until != INT64_MAX && (first < 0 || t->until < mc.t[first].until))
            first = i;
    }
    if (!unfinished)
        mc_leave();
    if (first < 0 || mc.idle_timeouts <= 0)
        stuck("deadlock or lost wake-up: no thread can go on");
    mc.idle_timeouts--;
    mc.t[first].wait_result = -1;
    if (mc.clock < mc.t[first].until)
        mc.clock = mc.t[first].until;
    mc.raw |= 1u << first;
    make_ready(first);
}

/* The highest priority among `can`; at the change points the running one drops below all others. */
static int by_priority(unsigned can) {
    for (int i = 0; i < mc.depth - 1; i++)
        if (mc.change_points[i] == mc.steps)
            mc.t[mc.last].priority = --mc.lowest;
    if ((can & mc.ready) && mc_draw() % 8)
        can &= ~mc.asleep; /* time-outs are rare */
    int best = __builtin_ctz(can);
    for (unsigned s = can; s; s &= s - 1)
        if (mc.t[__builtin_ctz(s)].priority > mc.t[best].priority)
            best = __builtin_ctz(s);
    return best;
}

/* Choose one of the enabled threads: the last one first, so that choice 0 is never a preemption. */
static int choose_thread(unsigned can) {
    int order[MC_THREADS] = {0}, n = 0;
    bool stay = mc.ready >> mc.last & 1;
    if (stay)
        order[n++] = mc.last;
    if (stay && mc.mode == MC_BOUNDED && mc.bound >= 0 && mc.preemptions >= mc.bound) {
        mc.bound_hit |= (can & (can - 1)) != 0;
    } else {
        for (int k = 1; k <= mc.count; k++) {
            int i = (mc.last + k) % mc.count;
            if ((can >> i & 1) && !(stay && i == mc.last))
                order[n++] = i;
        }
    }
    if (mc.mode == MC_BOUNDED && stay && n > 1 && !mc.replaying && !mc_op_is_shared(&mc.t[mc.last].op)) {
        mc_pick_none();
        return mc.last;
    }
    if (mc.mode == MC_SLEEP_SETS) {
        int m = 0;
        for (int i = 0; i < n; i++)
            if (!(mc.sleeping >> order[i] & 1))
                order[m++] = order[i];
        n = m;
        if (n == 0) { /* whatever comes now was seen in another order */
            mc.out_of_sleep = true;
            mc_leave();
        }
    }
    int hint = -1;
    if (mc.mode == MC_PCT && !mc.replaying) {
        int best = by_priority(can);
        for (hint = 0; order[hint] != best;)
            hint++;
    } else if (mc.mode == MC_RANDOM && stay && mc_draw() % 2) {
        hint = 0;
    }
    int c = mc_pick(n, hint), pick = order[c];
    if (mc.mode == MC_SLEEP_SETS) {
        unsigned asleep = 0;
        for (int i = 0; i < c; i++)
            mc.sleeping |= 1u << order[i];
        for (unsigned s = mc.sleeping & ~(1u << pick); s; s &= s - 1)
            if (independent(&mc.t[__builtin_ctz(s)].op, &mc.t[pick].op))
                asleep |= s & -s;
        mc.sleeping = asleep;
    }
    mc.preemptions += stay && pick != mc.last;
    return pick;
}

/* Returns in a thread when it is that thread's turn. */
void mc_decide(void) {
    unsigned can;
    while (mc.raw || !(can = enabled())) {
        if (mc.raw) {
            int thread = __builtin_ctz(mc.raw);
            mc.raw &= mc.raw - 1;
            mc_enter(thread); /* it comes to its own mc_decide(); we return here when chosen */
            return;
        }
        nobody();
    }
    bool forced = (can & (can - 1)) == 0 && mc.mode != MC_SLEEP_SETS;
    int pick = forced ? __builtin_ctz(can) : choose_thread(can);
    struct mc_thread *t = &mc.t[pick];
    if (unlikely(t->state != MC_READY)) {
        if (t->state == MC_SPUN)
            mc_spin_resume(t);
        else
            wake_by_itself(t);
        make_ready(pick);
    }
    for (unsigned s = mc.spun; s; s &= s - 1)
        mc.t[__builtin_ctz(s)].owed &= ~(1u << pick);
    mc.last = pick;
    mc_enter(pick);
}

void mc_point(enum mc_kind kind, uintptr_t addr, int size, int order, uintptr_t pc) {
    struct mc_thread *t = mc_me();
    t->op = (struct mc_op){addr, pc, (uint8_t)kind, (uint8_t)order, (uint8_t)size};
    if (unlikely(++mc.steps > mc.max_steps))
        mc_fail_at(pc, 0, "the execution did not end after %d steps (a loop that waits without relaxing?)",
                   mc.max_steps);
    bool alone = mc.ready == 1u << mc.run && !mc.raw && !mc.spun && !(mc.asleep && (mc.timeouts | mc.spurious));
    if (alone || t->quiet)
        mc.last = mc.run;
    else
        mc_decide();
}

void mc_block(enum mc_state state, uintptr_t pc) {
    struct mc_thread *t = mc_me();
    t->state = state;
    t->op.pc = pc;
    mc.ready &= ~(1u << mc.run);
    if (state == MC_SPUN)
        mc.spun |= 1u << mc.run;
    else if (state == MC_ASLEEP)
        mc.asleep |= 1u << mc.run;
    mc_decide();
}

void mc_unblock(int thread) {
    make_ready(thread);
    mc.raw |= 1u << thread;
}

void mc_relax(uintptr_t pc) {
    struct mc_thread *t = mc_me();
    t->op = (struct mc_op){0, pc, OP_RELAX, 0, 0};
    if (unlikely(++mc.steps > mc.max_steps))
        mc_fail_at(pc, 0, "the execution did not end after %d steps", mc.max_steps);
    if (mc.tracing)
        mc_trace(OP_RELAX, 0, 0, 0, 0, 0, 0, pc);
    t->changes = mc.changes;
    t->owed = t->relaxes++ >= (unsigned)mc.spins ? enabled() & ~(1u << mc.run) : 0;
    t->priority = --mc.lowest;
    mc_block(MC_SPUN, pc);
}
