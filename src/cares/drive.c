/* drive.c - who leads: waiting for c-ares's sockets on behalf of all who wait for an answer (cares.h has the protocol). */
#include <errno.h>

#include "cares/cares.h"

#define MICROSECOND 1000

/* -- Those who wait -------------------------------------------------------------------------------------------- */

/* Under the lock. */
static void append(struct weft_cares *cares, struct wefti_cares_lookup *lookup) {
    lookup->at = cares->last;
    lookup->next = NULL;
    *cares->last = lookup;
    cares->last = &lookup->next;
    *cares->freshest = lookup;
    cares->freshest = &lookup->later;
}

static void take_out(struct weft_cares *cares, struct wefti_cares_lookup *lookup) {
    if (!lookup->at)
        return;
    *lookup->at = lookup->next;
    if (lookup->next)
        lookup->next->at = lookup->at;
    else
        cares->last = lookup->at;
    lookup->at = NULL;
}

/* The next to be started, or NULL. */
static struct wefti_cares_lookup *take_fresh(struct weft_cares *cares) {
    for (;;) {
        pthread_mutex_lock(&cares->lock);
        struct wefti_cares_lookup *first = cares->fresh;
        if (first && !(cares->fresh = first->later))
            cares->freshest = &cares->fresh;
        bool left = first && first->is_left;
        pthread_mutex_unlock(&cares->lock);
        if (!left)
            return first;
        wefti_cares_done(first, -ECANCELED); /* its caller has gone before */
    }
}

void wefti_cares_done(struct wefti_cares_lookup *lookup, int result) {
    struct weft_cares *cares = lookup->cares;
    pthread_mutex_lock(&cares->lock);
    take_out(cares, lookup);
    lookup->result = result;
    lookup->is_done = true;
    weft_event_set(&lookup->changed);
    pthread_mutex_unlock(&cares->lock);
    wefti_cares_unref(lookup);
}

/* -- The leader ------------------------------------------------------------------------------------------------- */

void wefti_cares_socket_changed(void *arg, ares_socket_t fd, int readable, int writable) {
    struct weft_cares *cares = arg;
    int events = (readable ? WEFT_FD_READ : 0) | (writable ? WEFT_FD_WRITE : 0);
    unsigned i = 0;
    while (i < cares->socket_count && cares->sockets[i].fd != fd)
        i++;
    if (!events) { /* it is closed */
        if (i < cares->socket_count)
            cares->sockets[i] = cares->sockets[--cares->socket_count];
    } else if (i < WEFTI_CARES_SOCKETS) { /* beyond: as if that server did not answer */
        cares->sockets[i] = (struct wefti_cares_socket){fd, events};
        cares->socket_count += i == cares->socket_count;
    }
}

/* L1, L2. */
static void start_fresh(struct weft_cares *cares) {
    weft_event_clear(&cares->news);
    for (struct wefti_cares_lookup *lookup; (lookup = take_fresh(cares));) {
        cares->asked++;
        wefti_cares_start(lookup);
    }
}

static int64_t next_time(struct weft_cares *cares) {
    struct timeval room, *left = ares_timeout(cares->channel, NULL, &room);
    return left ? weft_after(((int64_t)left->tv_sec * 1000000 + left->tv_usec + 1) * MICROSECOND) : WEFT_NEVER;
}

/* L3: wait until there is something to do for c-ares, and let it.  0; a negative error. */
static int work_once(struct weft_cares *cares, weft_deadline until) {
    weft_case cases[1 + WEFTI_CARES_SOCKETS];
    unsigned count = 0;
    cases[count++] = weft_case_event(&cares->news);
    for (unsigned i = 0; i < cares->socket_count; i++)
        cases[count++] = weft_case_fd(cares->sockets[i].fd, cares->sockets[i].events);
    int64_t next = next_time(cares);
    int index = weft_select(cases, count, next < until ? next : until);
    if (index > 0) {
        int ready = cases[index].result; /* negative: then c-ares is to learn of it */
        ares_socket_t fd = cares->sockets[index - 1].fd;
        ares_process_fd(cares->channel, ready < 0 || (ready & WEFT_FD_READ) ? fd : ARES_SOCKET_BAD,
                        ready < 0 || (ready & WEFT_FD_WRITE) ? fd : ARES_SOCKET_BAD);
    } else if (index == -ETIMEDOUT) {
        ares_process_fd(cares->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    } else if (index < 0) {
        return index;
    }
    return 0;
}

/* Until our own answer is there. */
static int lead(struct wefti_cares_lookup *lookup, weft_deadline until) {
    struct weft_cares *cares = lookup->cares;
    for (;;) {
        start_fresh(cares);
        if (lookup->is_done) /* only who leads sets it */
            return 0;
        if (until != WEFT_NEVER && (until <= 0 || weft_now() >= until))
            return -ETIMEDOUT;
        int error = weft_in_fiber() ? weft_checkpoint() : 0; /* a server may keep us busy */
        error = error ? error : work_once(cares, until);
        if (error)
            return error;
    }
}

/* Under the lock, which it may give back meanwhile. */
static void hand_over(struct weft_cares *cares) {
    for (;;) {
        struct wefti_cares_lookup *next = cares->waiting;
        if (next) {
            next->leads = true;
            weft_event_set(&next->changed);
            return;
        }
        if (!cares->asked && !cares->fresh) {
            cares->led = false;
            return;
        }
        pthread_mutex_unlock(&cares->lock);
        if (cares->asked)
            ares_cancel(cares->channel); /* those who wanted to know have left */
        else
            start_fresh(cares); /* drops those who left; one who has come since waits, and leads */
        pthread_mutex_lock(&cares->lock);
    }
}

/* -- The call ---------------------------------------------------------------------------------------------------- */

int wefti_cares_run(struct wefti_cares_lookup *lookup, weft_deadline until) {
    struct weft_cares *cares = lookup->cares;
    int error = 0;
    pthread_mutex_lock(&cares->lock);
    append(cares, lookup); /* N1 */
    lookup->leads = !cares->led;
    cares->led = true;
    bool leads = lookup->leads, done = false;
    pthread_mutex_unlock(&cares->lock);
    if (!leads)
        weft_event_set(&cares->news); /* N2 */
    if (!leads) {
        error = weft_event_wait(&lookup->changed, until);
        pthread_mutex_lock(&cares->lock);
        leads = lookup->leads;
        done = lookup->is_done;
        pthread_mutex_unlock(&cares->lock);
    }
    if (leads && !done && !error)
        error = lead(lookup, until);
    pthread_mutex_lock(&cares->lock);
    take_out(cares, lookup);
    lookup->is_left = true;
    done = lookup->is_done;
    if (lookup->leads) /* also: it was handed to us while we were leaving */
        hand_over(cares);
    pthread_mutex_unlock(&cares->lock);
    return done ? 0 : error;
}
