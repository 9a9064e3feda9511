/* label.h - a task's name that was copied, and the function that releases the task's argument.  Internal.
 *
 * What.   A caller's string may be gone when a dump prints it, so the name of a process is copied into a block of the runtime.  The function
 *         that releases a fiber's argument is in the same block, since neither the task nor the fiber has room for it.
 * Who.    The block belongs to its task, and is given back when the task is freed (WEFTI_LABELLED in the task's `owns`).
 * Why.    Dumps keep names without a reference to their tasks.  Blocks are not unmapped before the runtime is destroyed, and their text is
 *         written and read with relaxed atomics.  So a dump may print another task's name, or parts of two, and nothing worse.
 */
#ifndef WEFTI_SCHED_LABEL_H
#define WEFTI_SCHED_LABEL_H

#include "queue/nodes.h"
#include "sched/runtime.h"

#define WEFTI_LABEL_TEXT 48u /* bytes of a name, with the zero at the end */

struct wefti_label {
    struct wefti_link link; /* while nobody has it */
    void (*release)(void *arg); /* may be NULL */
    char text[WEFTI_LABEL_TEXT];
};
_Static_assert(sizeof(struct wefti_label) == WEFTI_NODE_SIZE, "one block");

/* The label of a task that has one. */
static inline struct wefti_label *wefti_label_of(const struct weft_task *task) {
    return (struct wefti_label *)(uintptr_t)(task->name - offsetof(struct wefti_label, text));
}

/* Copies the name of a task that nobody else knows yet, and notes `release` (may be NULL).  False: no memory. */
bool wefti_label_put(struct weft_runtime *rt, struct weft_task *task, void (*release)(void *arg));
/* Gives back the label of a task that has one, and that nobody has a reference to. */
void wefti_label_take(struct weft_runtime *rt, struct weft_task *task);

#endif
