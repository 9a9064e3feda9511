/* label.c - copied names of tasks (label.h has the design). */
#include "sched/label.h"

bool wefti_label_put(struct weft_runtime *rt, struct weft_task *task, void (*release)(void *arg)) {
    struct wefti_label *label = wefti_nodes_take_outside(&rt->labels);
    if (!label)
        return false;
    label->release = release;
    size_t i = 0;
    for (; task->name[i] && i + 1 < WEFTI_LABEL_TEXT; i++)
        store_relaxed((_Atomic char *)&label->text[i], task->name[i]); /* a late dump may read it: a look */
    store_relaxed((_Atomic char *)&label->text[i], 0); /* as above */
    task->name = label->text;
    task->owns |= WEFTI_LABELLED;
    return true;
}

void wefti_label_take(struct weft_runtime *rt, struct weft_task *task) {
    task->owns &= (uint8_t)~WEFTI_LABELLED;
    wefti_nodes_give_outside(&rt->labels, wefti_label_of(task));
}
