/* fence.c - fences: they make known what loads have picked up, and fix what later stores publish.
 *
 * Rules.  An acquire fence adds acq, the views of the messages that relaxed loads returned, to cur.  A release
 *         fence makes a copy of cur, rel, which goes with all later relaxed stores (memory.c).
 *         A seq_cst fence does both, and exchanges what is known of locations with `order_view`, which all such
 *         fences share: of two of them, the later one knows all that the earlier one knew.
 *         It does not exchange the clocks: fences alone order atomics, not plain data.
 */
#include "view.h"

/* What the thread publishes is complete: its later plain accesses have a later clock. */
void mc_tick(struct mc_thread *t) {
    if (unlikely(++t->cur->t[t - mc.t] == UINT16_MAX))
        mc_fail_at(t->op.pc, 0, "too many release operations in one thread");
}

static void fence_full(struct mc_thread *t) {
    mc_view_join(t->cur, t->acq);
    mc_view_join_from(t->cur, mc.order_view, MC_THREADS);
    mc_view_join_from(mc.order_view, t->cur, MC_THREADS);
    t->rel = mc_view_copy(t->cur, 0);
    mc_tick(t);
}

void mc_fence(int order, uintptr_t pc) {
    mc_point(OP_FENCE, 0, 0, order, pc);
    struct mc_thread *t = mc_me();
    if (unlikely(mc.tracing))
        mc_trace(OP_FENCE, order, 0, 0, 0, 0, 0, pc);
    if (order == MO_SEQ_CST) {
        fence_full(t);
        return;
    }
    if (mc_acquires(order))
        mc_view_join(t->cur, t->acq);
    if (mc_releases(order)) {
        t->rel = mc_view_copy(t->cur, 0);
        mc_tick(t);
    }
}

/* membarrier: as if every thread passed a full fence now.  Twice, so that each gets what all others had. */
void mc_fence_heavy(uintptr_t pc) {
    mc_point(OP_HEAVY, 0, 0, MO_SEQ_CST, pc);
    if (unlikely(mc.tracing))
        mc_trace(OP_HEAVY, 0, 0, 0, 0, 0, 0, pc);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < mc.count; i++)
            fence_full(&mc.t[i]); /* also of those that have ended: what they did is done */
}
