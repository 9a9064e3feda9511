/* profile.h - what a runtime's profile forbids.  Internal. */
#ifndef WEFTI_BUDGET_PROFILE_H
#define WEFTI_BUDGET_PROFILE_H

#include "sched/sched.h"

/* Count a refusal.  True, always. */
static inline bool wefti_denied(struct weft_runtime *rt) {
    add_relaxed(&rt->denied, 1); /* a figure */
    return true;
}

/* A nursery is to be opened: 0; -EPERM. */
int wefti_admit_nursery(struct weft_runtime *rt);
/* A process is to be spawned: 0; -EPERM. */
int wefti_admit_process(struct weft_runtime *rt);

#endif
