/* weft/context.h - what the starter of a process passes to its init: a deadline, a trace context, values, and a list of payloads.
 *
 *     weft_context_value values[] = {{"user", "ada", 3}};
 *     weft_context context = WEFT_CONTEXT_INIT;
 *     context.deadline = weft_after(1000000000);
 *     context.values = values;
 *     context.value_count = 1;
 *     spec.context = &context;                 // weft_process_spec; init_ctx of the class gets a copy
 *
 * Inheritance.  As in Go, a context is passed explicitly.  A process that is spawned without one has none, whatever its spawner has.  To
 * pass one on, give it as spec.context, or as `parent` of a new one.  A context with a parent has the parent's values, of which its own
 * hide those with the same key; the earlier of both deadlines; and the parent's trace context unless it has one of its own.
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

/* Bytes that a process is started with. */
typedef struct weft_payload {
    const void *data; /* NULL only with a size of 0 */
    size_t size;
} weft_payload;

/* A value by name. */
typedef struct weft_context_value {
    const char *key;
    const void *data; /* NULL only with a size of 0 */
    size_t size;
} weft_context_value;

typedef struct weft_context weft_context;
struct weft_context {
    size_t size; /* set by WEFT_CONTEXT_INIT */
    const weft_context *parent; /* NULL: none */
    weft_deadline deadline; /* 0 or WEFT_NEVER: none */
    const weft_context_value *values;
    size_t value_count;
    /* As in W3C Trace Context; a trace_id of zeros: none. */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t trace_flags;
};

#define WEFT_CONTEXT_INIT {sizeof(weft_context), 0, 0, 0, 0, {0}, {0}, 0}

/* Looks a value up by its key: in the context, then in its parents.
 *
 * Returns the value, or NULL if there is none with that key, or if the context or the key is NULL.  The value may be of size 0.
 * May be called from any thread.  Does not suspend. */
WEFT_API const weft_context_value *weft_context_find(const weft_context *context, const char *key);

WEFT_EXTERN_C_END
#endif
