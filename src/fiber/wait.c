/* wait.c - waiting for something that somebody will do (wait.h has the protocol). */
#include "fiber/wait.h"

/* A waker of a task, for which wefti_waiter_serve took a reference. */
#define COUNTED ((wefti_waker)2)
/* ... of a fiber that only the serving worker may run: it cannot go on before B3. */
#define LOCAL ((wefti_waker)4)

#define LOOKS 64u /* between two turns of other threads */

/* It waits as a thread. */
static void init_thread(struct wefti_waiter *waiter) {
    store_relaxed(&waiter->park.word, WEFTI_UNPARKED);
    waiter->waker = wefti_waker_thread(&waiter->park);
}

int wefti_waiter_init(struct wefti_waiter *waiter) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? wefti_current(w) : NULL;
    wefti_waiter_init_task(waiter, task);
    if (task) {
        if (!wefti_task_is_fiber(task))
            return -EINVAL;
    } else {
        if (WEFTI_UNLIKELY(wefti_is_forked())) /* nobody is left who could serve it */
            return -ENOTRECOVERABLE;
        init_thread(waiter);
    }
    return 0;
}

/* Of a poll task: should it be served before it has given up, its thread waits for the token, which is on its way. */
int wefti_waiter_init_now(struct wefti_waiter *waiter) {
    int error = wefti_waiter_init(waiter);
    if (error == -EINVAL) {
        init_thread(waiter);
        error = 0;
    }
    return error;
}

struct any {
    struct wefti_waiter *waiters;
    struct wefti_choice *choice;
};

static bool any_is_served(void *arg) {
    struct any *any = arg;
    uint32_t taken = load_relaxed(&any->choice->taken); /* `state` orders the rest */
    return taken && wefti_waiter_is_served(&any->waiters[taken - 1]);
}

/* A thread.  Each record of a choice has a park of its own; the first is the one it sleeps on. */
static int sleep_on(struct wefti_park *park, int64_t until) { return wefti_park_sleep(park, until) ? 0 : -ETIMEDOUT; }

int wefti_waiter_wait(struct wefti_waiter *waiter, int64_t until, const char *what) {
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_fiber *self = w ? wefti_fiber_on(w) : NULL;
    return self ? wefti_waiter_wait_fiber(waiter, w, self, until, what) : sleep_on(&waiter->park, until);
}

int wefti_waiter_wait_any(struct wefti_waiter *waiters, struct wefti_choice *choice, int64_t until, const char *what) {
    struct wefti_fiber *self = wefti_fiber_self();
    struct any any = {waiters, choice};
    return self ? wefti_fiber_wait(self, any_is_served, &any, until, what) : sleep_on(&waiters[0].park, until);
}

void wefti_waiter_settle(struct wefti_waiter *waiter) {
    if (waiter->waker & 1) /* the token is on its way to the stack of this thread */
        wefti_park_sleep((struct wefti_park *)(waiter->waker - 1), INT64_MAX);
}

/* Claimed by somebody: wait until it is served.  False: it was let go. */
static bool wait_until_served(struct wefti_choice *choice, struct wefti_waiter *waiter, uint32_t found) {
    wefti_waiter_settle(waiter);
    for (unsigned looks = 1; !wefti_waiter_is_served(waiter); looks++) { /* of a fiber: it is about to be */
        if (load_relaxed(&choice->taken) != found) /* the swap decides */
            return false;
        if (looks % LOOKS == 0)
            wefti_thread_yield(); /* to the thread that has claimed it, which does not run just now */
        else
            wefti_relax();
    }
    return true;
}

bool wefti_choice_give_up(struct wefti_choice *choice, struct wefti_waiter *waiters) {
    uint32_t found;
    do {
        found = 0;
        if (cas_relaxed(&choice->taken, &found, WEFTI_GIVEN_UP)) /* as claim */
            return true;
    } while (!wait_until_served(choice, &waiters[found - 1], found));
    return false;
}

bool wefti_waiter_claim_own(struct wefti_waiter *waiter) {
    struct wefti_worker *w = wefti_worker_self();
    uint32_t nobody = 0;
    return (w && wefti_waiter_is_here(waiter, w)) || cas_relaxed(&waiter->own.taken, &nobody, 1); /* as claim */
}

struct wefti_waiter *wefti_waiters_take_count(struct wefti_waiters *list, uint32_t *strays) {
    for (struct wefti_waiter *waiter; (waiter = list->first);) {
        wefti_waiters_remove_first(list);
        if (waiter->choice ? wefti_waiter_claim(waiter) : wefti_waiter_claim_own(waiter))
            return waiter;
        ++*strays;
    }
    return NULL;
}

struct wefti_waiter *wefti_waiters_take(struct wefti_waiters *list) {
    for (struct wefti_waiter *waiter; (waiter = list->first);) {
        wefti_waiters_remove_first(list);
        if (wefti_waiter_claim(waiter))
            return waiter;
    }
    return NULL;
}

wefti_waker wefti_waiter_serve(struct wefti_waiter *waiter) {
    wefti_waker waker = waiter->waker;
    if (!(waker & 1)) {
        struct weft_task *task = (struct weft_task *)waker;
        struct wefti_worker *w = wefti_worker_of(wefti_task_rt(task));
        if (!w) {
            wefti_word_ref(&task->word);
            waker |= COUNTED;
        } else if (wefti_waiter_is_here(waiter, w)) {
            waker |= LOCAL;
        }
    }
    store_release(&waiter->state, WEFTI_SERVED); /* B2, pairs with is_served */
    return waker;
}

void wefti_waiter_wake(wefti_waker waker) {
    if (waker & 1) /* first: a park is aligned to 4 bytes only */
        wefti_wake(waker);
    else if (WEFTI_LIKELY(waker & LOCAL))
        wefti_waiter_wake_here(wefti_worker_here(), (struct weft_task *)(waker & ~LOCAL)); /* as when it was served */
    else if (waker & COUNTED)
        wefti_wake(waker & ~COUNTED);
    else
        wefti_wake_loosely((struct weft_task *)waker);
}

void weft_wait_end(weft_wait *wait) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (poll->end)
        poll->end(poll);
}
