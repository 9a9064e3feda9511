/* fifo.c - one shared queue in strict order: what is submitted first is started first.
 * Every submit appends to the back and wakes exactly one sleeping worker (K2, K3). */
#include "sched/sched.h"

static void submit(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why) {
    (void)why;
    wefti_inject_push_one(&w->rt->inject, &task->link);
    wefti_notify(w->rt, w);
}

static struct weft_task *next(struct wefti_worker *w) {
    struct wefti_chain chain = wefti_inject_take(&w->rt->inject, 1, NULL);
    return chain.count ? wefti_task_of(chain.first) : NULL;
}

static struct weft_task *steal(struct wefti_worker *w, bool last) {
    (void)w, (void)last;
    return NULL; /* nobody owns anything */
}

static bool has_work(struct wefti_worker *w) { return wefti_inject_length(&w->rt->inject) != 0; }

const struct wefti_sched wefti_sched_fifo = {
    .name = "fifo",
    .wake_each = true,
    .submit = submit,
    .next = next,
    .steal = steal,
    .has_work = has_work,
};
