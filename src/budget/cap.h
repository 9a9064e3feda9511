/* cap.h - looking capabilities up.  Internal.
 *
 * What.   A key is the index of a grant, its generation, and a secret that was drawn when it was made.  Grants form trees: each was made from
 *         another.  A use counts for a grant and all above it, so that making many from one does not multiply the right.
 * Who.    All under the table's lock.
 * Life.   A revoked grant stays as long as something was started with it, or with one made from it; then its place is free for
 *         another generation.
 */
#ifndef WEFTI_BUDGET_CAP_H
#define WEFTI_BUDGET_CAP_H

#include <weft/cap.h>

#include "sched/sched.h"

/* A table with the first grants, whose keys go to `first` (may be NULL).  0; -ENOMEM. */
int wefti_caps_init(struct weft_runtime *rt, weft_caps *first);
void wefti_caps_fini(struct weft_runtime *rt);

/* In these, cap NULL means none: allowed, but under `sovereign`.  What is refused is counted.  All return 0; -EPERM. */

/* A fiber is to be spawned with `wanted` (NULL: with *granted, or less if the grant says so), which is then *granted.  *use is to be ended
 * with it, or 0.  Also -EDQUOT: as many as it allows are there. */
int wefti_cap_spawn(struct weft_runtime *rt, const weft_cap *cap, const weft_budget *wanted, weft_budget *granted,
                    uint32_t *use);
/* A channel is to be made with room for so many.  As above. */
int wefti_cap_channel(struct weft_runtime *rt, const weft_cap *cap, uint32_t buffer, uint32_t *use);
/* Of `amount`, *moved may be moved. */
int wefti_cap_budget(struct weft_runtime *rt, const weft_cap *cap, bool recharge, const weft_budget *amount,
                     weft_budget *moved);
/* What the library itself does, files and names, needs no right to threads: its address stands in for a key. */
extern const weft_cap wefti_cap_library;
/* May work run there: one WEFT_EXECUTOR_ bit? */
int wefti_cap_executor(struct weft_runtime *rt, const weft_cap *cap, uint32_t where);

#endif
