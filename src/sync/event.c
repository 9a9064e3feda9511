/* event.c - something that has happened or not.
 *
 * Words.  SET, and WEFTI_WAITERS, and WEFTI_STRAY times the strays (sync.h).  The first two together only while a set serves those who wait.
 * Turns.  A set serves those who came before it, and not those who came after a clear that followed.
 * Checked by.  test/model/sync_event.c
 */
#include "sync/sync.h"

#include "fiber/select.h"

#define SET UINT64_C(2)

static struct wefti_sync *sync_of(const weft_event *event) { return wefti_sync_of(&event->room); }

static bool is_set(struct wefti_sync *s) { return load_acquire(&s->word) & SET; } /* pairs with set */

/* Under the lock.  0: it is set; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *s) {
    uint64_t found = load_acquire(&s->word); /* pairs with set */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    while (!(found & (SET | WEFTI_WAITERS)) &&
           !cas_acquire(&s->word, &found, found | WEFTI_WAITERS)) /* pairs with set */
        ;
    return found & SET ? 0 : -EAGAIN;
}

static __attribute__((noinline)) int wait_slow(weft_event *event, int64_t until) {
    struct wefti_sync *s = sync_of(event);
    struct wefti_waiter waiter;
    if (is_set(s))
        return 0;
    int error = until > 0 ? wefti_waiter_init(&waiter) : 0;
    if (error)
        return error;
    wefti_lock_take(&s->lock);
    error = until > 0 ? enter(s) : wefti_sync_is_dead(s) ? -EINVAL : -ETIMEDOUT;
    if (error == -EAGAIN) {
        wefti_sync_in_turn(&waiter, event->turn);
        wefti_waiters_append(&s->waiters, &waiter);
        error = wefti_sync_wait(s, &waiter, until, wefti_words(WEFTI_AN_EVENT));
        if (!error)
            return 0;
    }
    wefti_lock_give(&s->lock);
    return error;
}

static __attribute__((noinline)) int yield_and_wait(weft_event *event, int64_t until) {
    wefti_slice_end(until);
    return wait_slow(event, until);
}

int weft_event_wait(weft_event *event, weft_deadline until) {
    if (wefti_slice_spend(wefti_worker_self()))
        return yield_and_wait(event, until);
    return WEFTI_LIKELY(is_set(sync_of(event))) ? 0 : wait_slow(event, until);
}

int weft_event_set(weft_event *event) {
    struct wefti_sync *s = sync_of(event);
    uint64_t found = load_relaxed(&s->word); /* only compared */
    wefti_slice_note(wefti_worker_self());
    while (!(found & WEFTI_WAITERS))
        if (cas_release(&s->word, &found,
                        found | SET)) /* also when it is set: a clear may come; pairs with is_set, clear */
            return 0;
    wefti_lock_take(&s->lock);
    if (wefti_sync_is_dead(s)) {
        wefti_lock_give(&s->lock);
        return -EINVAL;
    }
    or_release(&s->word, SET); /* pairs with is_set, clear */
    wefti_sync_serve_turn(s, event->turn++);
    return 0;
}

int weft_event_clear(weft_event *event) {
    struct wefti_sync *s = sync_of(event);
    uint64_t found = load_relaxed(&s->word); /* only compared */
    wefti_slice_note(wefti_worker_self());
    while (!(found & WEFTI_WAITERS))
        if (cas_acquire(&s->word, &found, found & ~SET)) /* pairs with set */
            return (found & SET) != 0;
    wefti_lock_take(&s->lock);
    int was = wefti_sync_is_dead(s) ? -EINVAL : (and_acquire(&s->word, ~SET) & SET) != 0; /* pairs with set */
    wefti_lock_give(&s->lock);
    return was;
}

bool weft_event_is_set(const weft_event *event) { return is_set(sync_of(event)); }

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

int weft_event_wait_poll(weft_event *event, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(event);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int error = wefti_poll_begin(poll, self, wefti_poll_leave, s, WEFTI_AN_EVENT);
    if (error)
        return error < 0 ? error : 0;
    if (is_set(s))
        return 0;
    wefti_lock_take(&s->lock);
    error = enter(s);
    if (error == -EAGAIN) {
        error = wefti_poll_wait(s, poll, self, wefti_poll_leave, s, WEFTI_AN_EVENT);
        wefti_sync_in_turn(&poll->waiter, event->turn);
    }
    wefti_lock_give(&s->lock);
    return error;
}

/* -- In a select ----------------------------------------------------------------------------------------- */

static bool is_dead(struct wefti_sync *s) {
    if (!(load_relaxed(&s->word) & WEFTI_WAITERS)) /* a destroyed one has it */
        return false;
    wefti_lock_take(&s->lock);
    bool dead = wefti_sync_is_dead(s);
    wefti_lock_give(&s->lock);
    return dead;
}

static bool try_case(weft_case *c) {
    struct wefti_sync *s = sync_of(c->thing);
    bool dead = !is_set(s) && is_dead(s);
    c->result = dead ? -EINVAL : 0;
    return dead || is_set(s);
}

static int begin_case(weft_case *c, struct wefti_waiter *waiter) {
    const weft_event *event = c->thing;
    struct wefti_sync *s = sync_of(event);
    wefti_lock_take(&s->lock);
    bool in = enter(s) == -EAGAIN;
    if (in) {
        wefti_sync_in_turn(waiter, event->turn);
        wefti_waiters_append(&s->waiters, waiter);
    }
    wefti_lock_give(&s->lock);
    return in;
}

static bool end_case(weft_case *c, struct wefti_waiter *waiter) {
    struct wefti_sync *s = sync_of(c->thing);
    wefti_lock_take(&s->lock);
    if (wefti_waiters_end(&s->waiters, waiter))
        sub_relaxed(&s->word, WEFTI_STRAY); /* as it was added */
    wefti_lock_give(&s->lock);
    return false;
}

static bool served_case(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    c->result = 0;
    return true;
}

static const struct weft_case_kind kind = {
    .what = "an event", .try_now = try_case, .begin = begin_case, .end = end_case, .served = served_case};

weft_case weft_case_event(weft_event *event) { return (weft_case){.kind = &kind, .thing = event}; }

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_event_init(weft_event *event) { *event = (weft_event)WEFT_EVENT_INIT; }

int weft_event_destroy(weft_event *event) {
    struct wefti_sync *s = sync_of(event);
    wefti_sync_lock_alone(s);
    uint64_t found = load_relaxed(&s->word); /* compared again by the swap; strays change under the lock only */
    if (found >= WEFTI_STRAY) {
        wefti_lock_give(&s->lock);
        return -EBUSY;
    }
    return wefti_sync_end(s, found);
}
