/* view.h - what a thread, or whoever reads a message, knows of the others (memory.c says what for).
 *
 * The first MC_THREADS numbers are how far in each thread's life ("clock", for plain data), the rest is one timestamp
 * for each atomic location.  Lengths are multiples of VIEW_STEP, so that joining is a loop of vector operations, and
 * grow with the locations that an execution uses; numbers past the end are 0.
 */
#ifndef MC_VIEW_H
#define MC_VIEW_H

#include <string.h>

#include "internal.h"

enum { VIEW_STEP = 16, VIEW_MAX = MC_THREADS + MC_LOCS };

struct mc_view {
    uint32_t n, unused[3];
    uint16_t t[];
};

/* Views that live as long as the process, with room for all locations. */
void mc_views_init(void);
struct mc_view *mc_view_make(void);
void mc_view_reset(struct mc_view *view);
void mc_view_join(struct mc_view *into, const struct mc_view *from);
/* Copies that live as long as the execution and never change. */
void mc_views_reset(void);
struct mc_view *mc_view_copy(const struct mc_view *view, uint32_t room);
/* Is all that `a` knows (NULL: nothing) also in `b`? */
bool mc_view_no_more(const struct mc_view *a, const struct mc_view *b);

static inline void mc_view_grow(struct mc_view *view, uint32_t n) {
    if (n > view->n) {
        memset(view->t + view->n, 0, (n - view->n) * sizeof view->t[0]);
        view->n = n;
    }
}

static inline uint16_t mc_view_get(const struct mc_view *view, uint32_t loc) {
    uint32_t i = MC_THREADS + loc;
    return i < view->n ? view->t[i] : 0;
}

static inline void mc_view_raise(struct mc_view *view, uint32_t loc, uint16_t ts) {
    uint32_t i = MC_THREADS + loc;
    mc_view_grow(view, (i + VIEW_STEP) / VIEW_STEP * VIEW_STEP);
    if (view->t[i] < ts)
        view->t[i] = ts;
}

/* The numbers from `i`, a multiple of 8, on. */
static inline void mc_view_join_from(struct mc_view *restrict into, const struct mc_view *restrict from, uint32_t i) {
    mc_view_grow(into, from->n);
    uint16_t *restrict a = into->t;
    const uint16_t *restrict b = from->t;
    for (uint32_t n = from->n; i < n; i += 8)
        for (uint32_t k = i; k < i + 8; k++)
            a[k] = a[k] > b[k] ? a[k] : b[k];
}

#endif
