/* known.h - a struct from a caller, as this library knows it. */
#ifndef WEFTI_BASE_KNOWN_H
#define WEFTI_BASE_KNOWN_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define WEFTI_STRUCT_MAX 4096u /* one that says it is larger was not initialised */

/* The first field of `given` is its size.  One from an older header is shorter: the rest is zero.  One from a newer header may be
 * longer, as long as what we do not know is zero.  Returns 0; -EINVAL; -E2BIG. */
static inline int wefti_known_struct(const void *given, size_t least, void *known, size_t size) {
    size_t said = *(const size_t *)given;
    if (said < least || said > WEFTI_STRUCT_MAX)
        return -EINVAL;
    for (size_t i = size; i < said; i++)
        if (((const unsigned char *)given)[i])
            return -E2BIG;
    memset(known, 0, size);
    memcpy(known, given, said < size ? said : size);
    return 0;
}

#endif
