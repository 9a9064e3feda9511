/* ring.c - the default scheduler: a ring and a LIFO slot a worker, a shared queue for what comes from outside.
 *
 * A task that is spawned or woken by a worker goes into that worker's LIFO slot, and the one before it to the back of the
 * ring: the newest is hot in the cache, and often the other half of a conversation.  At most three polls in a row come
 * from the slot (B19).  Everything else is first in, first out.
 */
#include "sched/sched.h"

#define INLINE inline __attribute__((always_inline))

static uint32_t waiting(struct wefti_worker *w) {
    return wefti_ring_length(&w->ring) + load_own(&w->lifo.batch_left) + wefti_inject_length(&w->rt->inject);
}

/* Out of the way of those who push: they need no frame of their own. */
static __attribute__((noinline)) void notify_if_worth(struct wefti_worker *w) { wefti_notify_if_worth(w, waiting(w)); }

static inline void notify(struct wefti_worker *w, bool shared) {
    if (shared && wefti_idle_has_parked(&w->rt->idle)) /* a hint, as there */
        notify_if_worth(w);
}

/* The ring is full: its older half goes to the global queue (B9), or while a thief copies, the new item (B16). */
static __attribute__((noinline)) void push_full(struct wefti_worker *w, struct wefti_link *item) {
    do {
        struct wefti_chain half[2];
        if (wefti_ring_overflow(&w->ring, half) == 0) {
            if (!wefti_ring_push(&w->ring, item))
                wefti_inject_spill(&w->rt->inject, &(struct wefti_chain){item, item, 1}, 1, w);
            return;
        }
        wefti_count(&w->counters.overflows, 1);
        wefti_inject_spill(&w->rt->inject, half, 2, w);
        wefti_notify_if_worth(w, wefti_inject_length(&w->rt->inject));
    } while (!wefti_ring_push(&w->ring, item));
}

static inline void push_back(struct wefti_worker *w, struct wefti_link *item) {
    if (WEFTI_UNLIKELY(!wefti_ring_push(&w->ring, item)))
        push_full(w, item);
}

/* `shared`: there are other workers, who may take something.  A constant in all that runs often: see the two sets of functions at the end.
 * The lock of lifo.h, where there are thieves at all.  try_enter: what is called at every poll does no more than that, and leaves it to a
 * function that is called last, with all that is rare, to wait: so it needs no frame of its own. */
static inline void enter(struct wefti_worker *w, bool shared) {
    if (shared)
        wefti_lifo_enter(&w->lifo);
}
static inline bool try_enter(struct wefti_worker *w, bool shared) { return !shared || wefti_lifo_try_enter(&w->lifo); }
static inline void leave(struct wefti_worker *w, bool shared) {
    if (shared)
        wefti_lifo_leave(&w->lifo);
}

static __attribute__((noinline)) void push_full_and_notify(struct wefti_worker *w, struct wefti_link *item) {
    push_full(w, item);
    notify(w, w->shared);
}

static inline void push_and_notify(struct wefti_worker *w, struct wefti_link *item, bool shared) {
    if (WEFTI_LIKELY(wefti_ring_push(&w->ring, item)))
        notify(w, shared);
    else
        push_full_and_notify(w, item);
}

/* Inside: it is the newest (B17). */
static inline void put_newest(struct wefti_worker *w, struct wefti_link *item, bool shared) {
    struct wefti_link *evicted = wefti_lifo_put(&w->lifo, item);
    leave(w, shared);
    if (evicted) /* else it is one task, and we are about to run it: nobody is woken */
        push_and_notify(w, evicted, shared);
}

static __attribute__((noinline)) void enter_and_put(struct wefti_worker *w, struct wefti_link *item) {
    enter(w, true);
    put_newest(w, item, true);
}

static INLINE void submit_to(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why, bool shared) {
    if (why == WEFTI_SUBMIT_AGAIN)
        push_and_notify(w, &task->link, shared);
    else if (WEFTI_LIKELY(try_enter(w, shared)))
        put_newest(w, &task->link, shared);
    else
        enter_and_put(w, &task->link);
}

/* A batch from the global queue (B25 to B27): one to run, the others are kept; where there are others, up to 32, and the rest goes to the
 * ring, where they can take it.  So do long tasks. */
static struct weft_task *fetch(struct wefti_worker *w, const void *own) {
    struct weft_runtime *rt = w->rt;
    uint32_t length = wefti_inject_length(&rt->inject);
    if (length == 0)
        return NULL;
    struct wefti_chain chain = wefti_inject_take(&rt->inject, wefti_inject_share(length, rt->workers), own);
    struct wefti_link *first = wefti_chain_take(&chain);
    if (!first)
        return NULL;
    wefti_count(&w->counters.global_fetches, 1);
    if (w->shared) {
        uint32_t kept = chain.count * w->average < WEFTI_WAKE_WORTH ? chain.count : 0;
        struct wefti_chain batch = wefti_chain_cut(&chain, kept < WEFTI_BATCH_MAX ? kept : WEFTI_BATCH_MAX);
        enter(w, true);
        wefti_lifo_fill(&w->lifo, &batch);
        leave(w, true);
        for (struct wefti_link *item; (item = wefti_chain_take(&chain));)
            push_back(w, item);
    } else {
        wefti_lifo_fill(&w->lifo, &chain);
    }
    w->global_left += load_own(&w->lifo.batch_left); /* after these, an interval for what is our own */
    return wefti_task_of(first);
}

/* Nothing is kept: first in, first out. */
static __attribute__((noinline)) struct weft_task *fetch_last(struct wefti_worker *w) {
    w->busy_intervals = 0;
    return fetch(w, w);
}

static INLINE struct weft_task *next_in_order(struct wefti_worker *w, bool shared) {
    w->lifo_polls = 0;
    struct wefti_link *item = wefti_ring_pop(&w->ring, shared);
    return WEFTI_LIKELY(item != NULL) ? wefti_task_of(item) : fetch_last(w);
}

static __attribute__((noinline)) struct weft_task *next_but(struct wefti_worker *w, struct wefti_link *item) {
    push_back(w, item); /* B20: it has had its turns; to the back */
    return next_in_order(w, w->shared);
}

/* It came out of the slot. */
static inline struct weft_task *newest(struct wefti_worker *w, struct wefti_link *item) {
    if (WEFTI_UNLIKELY(w->lifo_polls >= WEFTI_LIFO_MAX))
        return next_but(w, item);
    w->lifo_polls++;
    wefti_count(&w->counters.lifo_hits, 1);
    return wefti_task_of(item);
}

/* Inside: of what we keep, a batched one first. */
static INLINE struct weft_task *take_kept(struct wefti_worker *w, bool shared) {
    struct wefti_link *item = wefti_lifo_take_batched(&w->lifo);
    if (item) {
        leave(w, shared);
        return wefti_task_of(item);
    }
    item = wefti_lifo_take(&w->lifo);
    leave(w, shared);
    return WEFTI_LIKELY(item != NULL) ? newest(w, item) : next_in_order(w, shared); /* a thief was faster */
}

static __attribute__((noinline)) struct weft_task *enter_and_take(struct wefti_worker *w) {
    enter(w, true);
    return take_kept(w, true);
}

static INLINE struct weft_task *next_of_own(struct wefti_worker *w, bool shared) {
    struct wefti_link *slot = load_own(&w->lifo.slot);
    if (WEFTI_LIKELY(load_own(&w->lifo.batch_left) == 0)) {
        if (!slot)
            return next_in_order(w, shared);
        if (!shared) { /* nobody to keep out, and what we see is so */
            wefti_lifo_take(&w->lifo);
            return newest(w, slot);
        }
    }
    return WEFTI_LIKELY(try_enter(w, shared)) ? take_kept(w, shared) : enter_and_take(w);
}

/* The global queue's turn. */
static __attribute__((noinline)) struct weft_task *next_of_all(struct wefti_worker *w) {
    struct weft_task *task;
    w->global_left = w->global_interval;
    if (w->global_interval < WEFTI_TICK_POLLS) /* polls are long, and the next tick may be far */
        wefti_worker_help(w, wefti_clock());
    if (load_own(&w->lifo.batch_left) == 0 && wefti_global_is_due(w) &&
        (task = fetch(w, NULL))) /* B27: not before the last batch is used up */
        return task;
    return next_of_own(w, w->shared);
}

static INLINE struct weft_task *next_for(struct wefti_worker *w, bool shared) {
    return WEFTI_UNLIKELY(--w->global_left == 0) ? next_of_all(w) : next_of_own(w, shared);
}

/* What `w` got from another: count it. */
static struct weft_task *stolen(struct wefti_worker *w, struct wefti_link *item, uint32_t taken) {
    wefti_count(&w->counters.steals, 1);
    wefti_count(&w->counters.stolen, taken);
    return wefti_task_of(item);
}

/* A worker that has been in one poll for a while keeps what is in its slot and batch waiting.  A search suspects one worker, from
 * its first pass to its last; the watch compares all of them from one look to the next, and hands its finding to a search. */
static void suspect(struct wefti_worker *w, uint32_t index) {
    w->watched = index != w->index ? index : (index + 1) % w->rt->workers;
    w->watched_polls = load_relaxed(&w->rt->worker[w->watched].counters.polls); /* a hint */
}

static bool stuck(struct wefti_worker *w) {
    if (!w->rt->lifo_stealing)
        return false;
    struct wefti_others others = wefti_others_from(w, 0);
    for (struct wefti_worker *other; (other = wefti_others_next(&others));) {
        _Atomic uint64_t *seen = &w->rt->seen[other->index];
        uint64_t polls = load_relaxed(&other->counters.polls); /* hints, all of them */
        if (load_relaxed(seen) == polls && wefti_lifo_holds(&other->lifo)) {
            w->watched = other->index;
            w->watched_polls = polls;
            return w->watch_found = true;
        }
        store_relaxed(seen, polls);
    }
    return false;
}

static struct weft_task *steal_from_stuck(struct wefti_worker *w, uint32_t first, bool last) {
    if (!w->rt->lifo_stealing)
        return NULL;
    if (last || w->watch_found) {
        struct wefti_worker *victim = &w->rt->worker[w->watched];
        bool same = load_relaxed(&victim->counters.polls) == w->watched_polls; /* a hint */
        struct wefti_link *item = same ? wefti_lifo_steal(&victim->lifo) : NULL;
        w->watched_polls = UINT64_MAX;
        w->watch_found = false;
        if (item)
            return stolen(w, item, 1);
    } else if (w->watched_polls == UINT64_MAX) {
        suspect(w, first);
    }
    return NULL;
}

/* A few tasks are left to their owner as long as he gets to them, which he does if he has begun another poll since our last look: they
 * are young, what they need is in his cache, and a fiber stays where it begins.  He whom nobody drives makes none. */
static bool leave_alone(struct wefti_worker *w, struct wefti_worker *victim) {
    uint32_t length = wefti_ring_length(&victim->ring);
    if (length == 0 || length > WEFTI_YOUNG_MAX)
        return length == 0;
    uint64_t look = load_relaxed(&victim->counters.polls) << 11 | (victim->index + 1); /* a hint */
    bool gets_on = w->last_look != look;
    w->last_look = look;
    return gets_on;
}

static struct weft_task *steal_from_ring(struct wefti_worker *w, struct wefti_worker *victim) {
    uint32_t taken;
    struct wefti_link *item = wefti_ring_steal(&victim->ring, &w->ring, &taken);
    return item ? stolen(w, item, taken) : NULL;
}

static struct weft_task *steal(struct wefti_worker *w, bool last) {
    struct wefti_others others = wefti_others_randomly(w);
    uint32_t first = others.at;
    for (struct wefti_worker *victim; (victim = wefti_others_next(&others));) {
        struct weft_task *task = !last && leave_alone(w, victim) ? NULL : steal_from_ring(w, victim);
        if (task)
            return task;
    }
    return w->shared ? steal_from_stuck(w, first, last) : NULL;
}

/* The tasks in the ring, whose oldest is known by the ring's head.  If there are none, the tasks in the slot and the batch: the
 * owner has not come to them as long as it is in the same poll.  (The lowest bit tells the two apart.) */
static struct wefti_line line(struct wefti_worker *other) {
    uint32_t length = wefti_ring_length(&other->ring);
    if (length)
        return (struct wefti_line){2 * (uint64_t)wefti_ring_real_of(load_relaxed(&other->ring.head)), length};
    uint64_t polls = load_relaxed(&other->counters.polls); /* a hint */
    return (struct wefti_line){2 * polls + 1, other->rt->lifo_stealing && wefti_lifo_holds(&other->lifo)};
}

static struct weft_task *steal_from(struct wefti_worker *w, struct wefti_worker *victim) {
    struct weft_task *task = steal_from_ring(w, victim);
    struct wefti_link *item = task || !w->rt->lifo_stealing ? NULL : wefti_lifo_steal(&victim->lifo);
    return item ? stolen(w, item, 1) : task;
}

static bool has_work(struct wefti_worker *w) {
    if (wefti_inject_length(&w->rt->inject))
        return true;
    struct wefti_others others = wefti_others_from(w, 0);
    for (struct wefti_worker *other; (other = wefti_others_next(&others));)
        if (wefti_ring_length(&other->ring))
            return true;
    return false;
}

/* B22, B23: a worker never sleeps on a task.  (`next` found both empty; a wake between cannot come from elsewhere.) */
static void flush(struct wefti_worker *w) {
    enter(w, w->shared);
    struct wefti_link *slot = wefti_lifo_take(&w->lifo), *item;
    if (slot)
        push_back(w, slot);
    while ((item = wefti_lifo_take_batched(&w->lifo)))
        push_back(w, item);
    leave(w, w->shared);
}

static void submit(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why) {
    submit_to(w, task, why, true);
}
static struct weft_task *next(struct wefti_worker *w) { return next_for(w, true); }

static void submit_alone(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why) {
    submit_to(w, task, why, false);
}
static struct weft_task *next_alone(struct wefti_worker *w) { return next_for(w, false); }

#define RING(submit_fn, next_fn)                                                                                       \
    .name = "ring", .submit = submit_fn, .next = next_fn, .steal = steal, .has_work = has_work, .waiting = waiting,    \
    .stuck = stuck, .flush = flush, .line = line, .steal_from = steal_from

static const struct wefti_sched alone = {RING(submit_alone, next_alone)};
const struct wefti_sched wefti_sched_ring = {RING(submit, next), .alone = &alone};
