/* cares.h - what the files of libweft-cares share.  Internal.
 *
 * What.   c-ares has a channel that one caller at a time may use, sockets that somebody has to wait for, and a time at which to call it.  There is no fiber
 *         or thread for that: of all who wait for an answer one leads.  It starts what others have asked, waits for the sockets, and lets c-ares
 *         work; the others wait for an event of their own.
 * Who.    channel, sockets, asked: the leader's.  All else: under the lock, which nobody holds while it waits.
 * Lead.   Who comes when nobody leads, leads.  Who leads and has its answer, is late, or is cancelled, hands the lead to one who waits; if there is
 *         none, it cancels what c-ares still has (the lookups of those who left), and nobody leads.
 * Race.   comer: N1 lock: append to fresh, waiting; unlock    leader: L1 clear `news`
 *                N2 somebody leads: set `news`                        L2 lock: take fresh; unlock; start them
 *                                                                     L3 select over the sockets and `news`
 * Claim.  What was asked is started, as long as somebody waits for an answer.
 * Why.    N1 before L2: started.  N1 after L2: N2 comes after L1, so L3 sees it.  A leader that leaves between them hands over under the lock, where it
 *         finds the comer waiting, or leaves the lead to be taken in N1.
 * Memory. A lookup has two references, its caller's and c-ares's: the caller may leave first.  It is not charged to a budget, since it may outlive
 *         the fund: hence calloc and not weft_alloc.
 * Lock.   The system's: a weft_mutex might suspend a fiber inside of c-ares, which must not wake up on another thread there.
 * Rejected.  A fiber of its own: it belongs to a runtime, which may be stopped while others use the channel; it costs a wake for every answer.
 *         A lock around c-ares: who waits for the sockets would have to be told of each that another opened or closed, and might wait for a stranger's. */
#ifndef WEFTI_CARES_CARES_H
#define WEFTI_CARES_CARES_H

#include <ares.h>
#include <pthread.h>
#include <weft/cares.h>
#include <weft/select.h>
#include <weft/weft.h>

#include "base/atomic.h"

#define WEFTI_CARES_ADDRS 16u
#define WEFTI_CARES_SERVERS 30u
#define WEFTI_CARES_SOCKETS (2u * WEFTI_CARES_SERVERS) /* UDP and TCP to each */
#define WEFTI_CARES_NAME 1026u
#define WEFTI_CARES_SERVICE 64u
_Static_assert(WEFTI_CARES_SOCKETS + 1 <= WEFT_SELECT_MAX, "the leader's select has them all");

struct wefti_cares_lookup {
    struct weft_cares *cares;
    struct wefti_cares_lookup *next, **at; /* of those who wait; at: NULL, it is not among them */
    struct wefti_cares_lookup *later;      /* asked after this, and not started */
    unsigned refs;
    bool is_done, leads, is_left; /* is_left: the caller has gone */
    weft_event changed;           /* it is done, or leads */
    int family;
    const char *service; /* NULL: none */
    int result;          /* how many addresses, or a negative error */
    weft_addr addrs[WEFTI_CARES_ADDRS];
    char name[WEFTI_CARES_NAME], service_text[WEFTI_CARES_SERVICE];
};

struct wefti_cares_socket {
    ares_socket_t fd;
    int events; /* WEFT_FD_READ, WEFT_FD_WRITE */
};

struct weft_cares {
    _Atomic uint32_t refs;
    ares_channel channel;
    struct wefti_cares_socket sockets[WEFTI_CARES_SOCKETS];
    unsigned socket_count;
    unsigned asked; /* lookups that c-ares has */

    pthread_mutex_t lock;
    bool led;
    struct wefti_cares_lookup *waiting, **last; /* for an answer */
    struct wefti_cares_lookup *fresh, **freshest;
    weft_event news; /* for the leader: there is a fresh one */
};

/* config.c */
struct weft_cares *wefti_cares_ref(struct weft_cares *cares);
/* drive.c.  Ask, and wait for the answer.  0: lookup->result is it; a negative error.  In any case the caller's reference is its own still. */
int wefti_cares_run(struct wefti_cares_lookup *lookup, weft_deadline until);
/* In a callback of c-ares: the lookup is over, and c-ares's reference. */
void wefti_cares_done(struct wefti_cares_lookup *lookup, int result);
/* c-ares has opened, closed, or wants to know of a socket. */
void wefti_cares_socket_changed(void *cares, ares_socket_t fd, int readable, int writable);
/* lookup.c.  Give it to c-ares, which may answer at once. */
void wefti_cares_start(struct wefti_cares_lookup *lookup);
void wefti_cares_unref(struct wefti_cares_lookup *lookup);

#endif
