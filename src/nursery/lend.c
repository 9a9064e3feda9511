/* lend.c - borrowed handles: the nursery drops them, not the spawner.
 *
 * What.   A compiler that lowers `spawn f(x)` has no place where it would drop the handle.  So the
 *         nursery holds a reference to such a child from its spawn until the nursery has been
 *         awaited, and then drops the handle, too.  Until then the pointer is valid, also after the
 *         child's end.
 * Who.    fiber->lent: set before the child is a task.  n->lent: under the lock.  An ended child is
 *         out of the list of children, and next.c links what it keeps by `next`; so `prev` is free
 *         for this list.
 * Claim.  Each borrowed handle is dropped exactly once: by the spawner before it awaits, or else by
 *         the nursery.
 * Why.    The nursery's own reference keeps the slot, so JOINABLE still speaks of this task when
 *         the nursery looks.  All children are in n->lent when the owner has seen `live` at 0 (A3),
 *         because a child adds itself before it leaves (C1 before C2).
 * Checked by.  test/model/nursery_lend.c, test/api/nursery_lend.c
 */
#include "nursery/nursery.h"

void wefti_nursery_keep_lent(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    fiber->prev = n->lent;
    n->lent = fiber;
}

void wefti_nursery_drop_lent(struct wefti_fiber *lent) {
    for (struct wefti_fiber *next; lent; lent = next) {
        next = lent->prev; /* before its slot may go */
        if (load_relaxed(&lent->task.word) & WEFTI_JOINABLE) /* the spawner's drop comes before the await */
            weft_task_drop(&lent->task);
        wefti_task_unref(&lent->task, 0);
    }
}
