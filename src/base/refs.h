/* refs.h - counts of references that fit into 32 bits: too many end the process, and say why. */
#ifndef WEFTI_BASE_REFS_H
#define WEFTI_BASE_REFS_H

#include "base/assert.h"
#include "base/atomic.h"

/* One more, by the holder of one.  `call`: the public call. */
static inline void wefti_refs_add(_Atomic uint32_t *refs, const char *call) {
    uint32_t found = add_relaxed(refs, 1); /* a handle is passed on by other means */
    if (WEFTI_UNLIKELY(found == 0))
        wefti_misuse(call, "the last handle has been dropped");
    if (WEFTI_UNLIKELY(found == UINT32_MAX))
        wefti_misuse(call, "there are 4,294,967,295 handles, which is the limit: handles must be dropped");
}

#endif
