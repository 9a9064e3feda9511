/* context.h - the library's copy of what a class is started with.  Internal. */
#ifndef WEFTI_PROCESS_CONTEXT_H
#define WEFTI_PROCESS_CONTEXT_H

#include <weft/process.h>

/* One block: this struct, the payloads, the values, and behind them the bytes that they point to. */
struct wefti_start {
    size_t bytes; /* of the block */
    weft_context context; /* without parent: its values and deadline are merged in */
    const weft_payload *inputs;
    size_t input_count;
};

/* Copies spec->context with all its parents, and the list of payloads.
 *
 * Returns 0, or
 *   -EINVAL     a context, a key or a payload is malformed
 *   -E2BIG      a context sets a field of a newer library
 *   -EMSGSIZE   the copy would be larger than 4 GiB
 *   -ETIMEDOUT  the deadline has passed
 *   -ENOMEM     no memory */
int wefti_start_copy(const weft_process_spec *spec, struct wefti_start **out);
/* NULL is allowed. */
void wefti_start_free(struct wefti_start *start);

#endif
