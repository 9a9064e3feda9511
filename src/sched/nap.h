/* nap.h - to look for a while before one sleeps, where that has paid lately.
 *
 * What.   To be woken on another CPU takes the system 5 to 30 us, and costs the waker 5 of them.  Who was woken again and again after less than
 *         that looks for its token before it really sleeps, about as long as being woken takes: its waker then finds no sleeper, and calls
 *         nobody.
 * When.   After a few short sleeps in a row.  One look in vain, and it begins to count again.  Only where there is a CPU that no worker
 *         needs: who looks takes one.
 * Claim.  None: it only reads the word of park.h.
 */
#ifndef WEFTI_SCHED_NAP_H
#define WEFTI_SCHED_NAP_H

#include "base/assert.h"
#include "sched/park.h"

#ifndef WEFTI_NAP_STREAK
#define WEFTI_NAP_STREAK 3u /* short sleeps in a row */
#endif
#define WEFTI_NAP 30000       /* ns: how long it looks ... */
#define WEFTI_NAP_SHORT 60000 /* ... and which sleeps are short: this, and the time that it takes to be woken */

struct wefti_nap {
    uint32_t streak; /* short ones in a row, of late */
};

/* Look for the token.  False: in vain. */
static inline bool wefti_nap_look(struct wefti_park *park, int64_t began, int64_t until) {
    int64_t limit = until - began < WEFTI_NAP ? until : began + WEFTI_NAP;
    while (!wefti_park_has_token(park)) {
        for (int pause = 0; pause < 8; pause++)
            wefti_relax();
        if (wefti_clock() >= limit)
            return false;
    }
    return true;
}

/* As wefti_park_sleep.  `spare`: there is a CPU for it, as far as one knows. */
static inline bool wefti_nap_or_sleep(struct wefti_nap *nap, struct wefti_park *park, int64_t until, bool spare) {
    int64_t began = wefti_clock();
    bool vain = spare && nap->streak >= WEFTI_NAP_STREAK && !wefti_nap_look(park, began, until);
    bool token = wefti_park_sleep(park, until);
    bool brief = token && !vain && wefti_clock() - began < WEFTI_NAP_SHORT;
    nap->streak = brief ? nap->streak + (nap->streak < WEFTI_NAP_STREAK) : 0;
    return token;
}

#endif
