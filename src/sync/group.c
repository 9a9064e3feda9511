/* group.c - wait until all that is under way is done.
 *
 * Words.  Those under way times 2, and WEFTI_WAITERS (sync.h).
 * Turns.  The done that makes it none serves those who came before it, and not those who came after a new add.
 * Checked by.  test/model/sync_group.c
 */
#include "sync/sync.h"

#define ONE UINT64_C(2)

static struct wefti_sync *sync_of(const weft_group *group) { return wefti_sync_of(&group->room); }

/* 0 and what the word becomes, or the error. */
static int change(uint64_t word, int32_t more, uint64_t *next) {
    int64_t count = (int64_t)(word / ONE) + more;
    if (count < 0 || count > INT32_MAX)
        return count < 0 ? -ERANGE : -EOVERFLOW;
    *next = (uint64_t)count * ONE | (word & WEFTI_WAITERS);
    return 0;
}

int weft_group_add(weft_group *group, int32_t more) {
    struct wefti_sync *s = sync_of(group);
    uint64_t found = load_relaxed(&s->word), next; /* only compared */
    int error;
    wefti_slice_note(wefti_worker_self());
    while (!(found & WEFTI_WAITERS)) {
        if ((error = change(found, more, &next)))
            return error;
        if (WEFTI_LIKELY(cas_release(&s->word, &found, next))) /* pairs with is_none, add */
            return 0;
    }
    wefti_lock_take(&s->lock);
    do { /* the bit may be gone by now, and the word anybody's */
        error = wefti_sync_is_dead(s) ? -EINVAL : change(found, more, &next);
        if (error) {
            wefti_lock_give(&s->lock);
            return error;
        }
    } while (
        !cas_release(&s->word, &found, next)); /* pairs with is_none, enter; the lock has the rest for who is served */
    if (next < ONE)
        wefti_sync_serve_turn(s, group->turn++);
    else
        wefti_lock_give(&s->lock);
    return 0;
}

int weft_group_done(weft_group *group) { return weft_group_add(group, -1); }

/* None under way; not when destroyed. */
static bool is_none(struct wefti_sync *s) { return load_acquire(&s->word) == 0; } /* pairs with add */

/* Under the lock.  0: none; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *s) {
    uint64_t found = load_acquire(&s->word); /* pairs with add */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    while (found >= ONE && !(found & WEFTI_WAITERS) &&
           !cas_acquire(&s->word, &found, found | WEFTI_WAITERS)) /* pairs with add */
        ;
    return found < ONE ? 0 : -EAGAIN;
}

int weft_group_wait(weft_group *group, weft_deadline until) {
    struct wefti_sync *s = sync_of(group);
    struct wefti_waiter waiter;
    wefti_slice_use(until);
    if (is_none(s))
        return 0;
    int no_wait = until > 0 ? wefti_waiter_init(&waiter) : -ETIMEDOUT;
    wefti_lock_take(&s->lock);
    int error = enter(s);
    if (error == -EAGAIN && no_wait) {
        error = no_wait;
    } else if (error == -EAGAIN) {
        wefti_sync_in_turn(&waiter, group->turn);
        wefti_waiters_append(&s->waiters, &waiter);
        error = wefti_sync_wait(s, &waiter, until, wefti_words(WEFTI_A_GROUP));
        if (!error)
            return 0;
    }
    wefti_lock_give(&s->lock);
    return error;
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

int weft_group_wait_poll(weft_group *group, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(group);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int error = wefti_poll_begin(poll, self, wefti_poll_leave, s, WEFTI_A_GROUP);
    if (error)
        return error < 0 ? error : 0;
    if (is_none(s))
        return 0;
    wefti_lock_take(&s->lock);
    error = enter(s);
    if (error == -EAGAIN) {
        wefti_poll_wait(s, poll, self, wefti_poll_leave, s, WEFTI_A_GROUP);
        wefti_sync_in_turn(&poll->waiter, group->turn);
    }
    wefti_lock_give(&s->lock);
    return error;
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_group_init(weft_group *group) { *group = (weft_group)WEFT_GROUP_INIT; }

int weft_group_destroy(weft_group *group) {
    struct wefti_sync *s = sync_of(group);
    wefti_sync_lock_alone(s);
    uint64_t found = load_relaxed(&s->word); /* compared again by the swap */
    if (found >= ONE) {
        wefti_lock_give(&s->lock);
        return -EBUSY;
    }
    return wefti_sync_end(s, found);
}

uint32_t weft_group_count(const weft_group *group) {
    return (uint32_t)(load_relaxed(&sync_of(group)->word) / ONE); /* a figure */
}
