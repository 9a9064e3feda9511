/* deque.c - the LIFO scheduler: each worker runs its newest task first, others take the oldest half.
 *
 * Order of looking (W11): own deque, global queue, a random victim.  All but the newest task are public at once, so that
 * nothing waits behind a worker that is stuck.  Short tasks leave the newest to its owner, who will get to it before a thief
 * could; long ones do not.
 */
#include "sched/sched.h"

#define TRANSFER 16u                 /* W14 */
#define OLDEST_MAX 8u                /* oldest tasks that run in a row */
#define OLDEST_TIME INT64_C(100000) /* ns after which no further one is begun */

static uint32_t waiting(struct wefti_worker *w) {
    return wefti_deque_length(&w->deque) + wefti_inject_length(&w->rt->inject);
}

static void push(struct wefti_worker *w, struct weft_task *task) {
    struct wefti_deque *deque = &w->deque;
    while (WEFTI_UNLIKELY(!wefti_deque_push(deque, task))) {
        /* Full: the older half goes to the global queue, in order (J: no task is ever dropped). */
        void *oldest[WEFTI_DEQUE_CAP / 2];
        uint32_t count;
        struct wefti_chain chain = {NULL, NULL, 0};
        wefti_count(&w->counters.overflows, 1);
        wefti_deque_take_oldest(deque, WEFTI_DEQUE_CAP / 2, oldest, &count);
        for (uint32_t i = 0; i < count; i++)
            wefti_chain_append(&chain, oldest[i]);
        if (chain.count) {
            wefti_inject_spill(&w->rt->inject, &chain, 1, w);
            wefti_notify_if_worth(w, wefti_inject_length(&w->rt->inject));
        }
    }
    if (w->shared) {
        uint32_t own = wefti_deque_private(deque), keep = w->average < WEFTI_WAKE_WORTH;
        if (own > keep) {
            wefti_deque_publish(deque, own - keep);
            wefti_notify_if_worth(w, waiting(w));
        }
    }
}

static void submit(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why) {
    if (why != WEFTI_SUBMIT_AGAIN) {
        push(w, task);
        return;
    }
    /* A task that wants to run again goes behind the others: newest first would give it straight back (B46). */
    wefti_inject_push_one(&w->rt->inject, &task->link);
    wefti_notify_if_worth(w, wefti_inject_length(&w->rt->inject));
}

/* W14: one to run and up to 16 more for the local deque; the oldest is run first. */
static struct weft_task *fetch(struct wefti_worker *w, const void *own) {
    struct wefti_chain chain = wefti_inject_take(&w->rt->inject, 1 + TRANSFER, own);
    struct wefti_link *first = wefti_chain_take(&chain);
    if (!first)
        return NULL;
    wefti_count(&w->counters.global_fetches, 1);
    for (struct wefti_link *item; (item = wefti_chain_take(&chain));)
        push(w, wefti_task_of(item));
    return wefti_task_of(first);
}

static struct weft_task *take_oldest(struct wefti_worker *w) {
    void *oldest;
    uint32_t count;
    wefti_deque_take_oldest(&w->deque, 1, &oldest, &count);
    return count ? oldest : NULL;
}

/* An interval of about 1 ms is over: newest first must starve neither the global queue (B30) nor the older tasks of this deque
 * (B46).  The global queue comes first, then the oldest tasks of the deque for OLDEST_TIME: at least one, at most OLDEST_MAX.
 * Returns NULL if the newest task is next.
 *
 * While polls are so short that a tick takes less than an interval, the oldest task that `next` takes per tick is enough. */
static __attribute__((noinline)) struct weft_task *next_due(struct wefti_worker *w) {
    struct weft_task *task;
    w->global_left = w->global_interval;
    if (!w->oldest_left) {
        task = wefti_global_is_due(w) ? fetch(w, NULL) : NULL;
        if (w->global_interval >= WEFTI_TICK_POLLS)
            return task;
        int64_t now = wefti_clock();
        wefti_worker_help(w, now);
        w->oldest_left = OLDEST_MAX;
        w->oldest_until = now + OLDEST_TIME;
        if (task) {
            w->global_left = 1; /* the oldest of the deque is next */
            return task;
        }
    } else if (w->oldest_left < OLDEST_MAX && wefti_clock() >= w->oldest_until) {
        w->oldest_left = 0;
        return NULL;
    }
    task = take_oldest(w);
    w->oldest_left = task ? w->oldest_left - 1 : 0;
    if (w->oldest_left)
        w->global_left = 1;
    return task;
}

static struct weft_task *next(struct wefti_worker *w) {
    struct weft_task *task;
    if (WEFTI_UNLIKELY(--w->global_left == 0) && (task = next_due(w)))
        return task;
    if (WEFTI_UNLIKELY(w->tick_left == 1) && (task = take_oldest(w))) /* B46, while polls are short */
        return task;
    task = wefti_deque_pop(&w->deque, 1); /* the others stay public */
    if (task)
        return task;
    w->busy_intervals = 0;
    return fetch(w, w);
}

static struct weft_task *steal_from(struct wefti_worker *w, struct wefti_worker *victim) {
    void *items[WEFTI_DEQUE_CAP / 2];
    uint32_t count = wefti_deque_steal(&victim->deque, items, WEFTI_DEQUE_CAP / 2);
    if (count == 0)
        return NULL;
    wefti_count(&w->counters.steals, 1);
    wefti_count(&w->counters.stolen, count);
    for (uint32_t k = 1; k < count; k++)
        push(w, items[k]);
    return items[0];
}

static struct weft_task *steal(struct wefti_worker *w, bool last) {
    (void)last;
    struct wefti_others others = wefti_others_randomly(w);
    struct weft_task *task = NULL;
    for (struct wefti_worker *victim; !task && (victim = wefti_others_next(&others));)
        task = steal_from(w, victim);
    return task;
}

static struct wefti_line line(struct wefti_worker *other) {
    uint64_t shared = load_relaxed(&other->deque.shared); /* a hint */
    uint16_t top = wefti_deque_top_of(shared);
    return (struct wefti_line){top, (uint16_t)(wefti_deque_split_of(shared) - top)};
}

static bool has_work(struct wefti_worker *w) {
    if (wefti_inject_length(&w->rt->inject))
        return true;
    struct wefti_others others = wefti_others_from(w, 0);
    for (struct wefti_worker *other; (other = wefti_others_next(&others));)
        if (wefti_deque_has_public(&other->deque))
            return true;
    return false;
}

const struct wefti_sched wefti_sched_deque = {
    .name = "deque",
    .submit = submit,
    .next = next,
    .steal = steal,
    .has_work = has_work,
    .waiting = waiting,
    .line = line,
    .steal_from = steal_from,
};
