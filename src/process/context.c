/* context.c - contexts and payloads of a process that is started, copied into one block.
 *
 * What.   A chain of contexts becomes one: the values of the nearest context win, the earliest deadline counts, and the nearest trace
 *         context is taken.  The copy is made in two passes over the same functions: the first counts bytes, the second writes them.
 * Why.    One block per process, and none for a process without context and with no list: that is what most are.
 */
#include "process/context.h"

#include <errno.h>
#include <string.h>

#include "base/known.h"
#include "plat/plat.h"

#define BYTES_MAX UINT32_MAX
#define DEPTH_MAX 1024u /* contexts in a chain: a longer one is taken for a cycle */

/* The fields of one context of a chain, as this library knows them. */
static int known(const weft_context *given, weft_context *out) {
    int error = wefti_known_struct(given, offsetof(weft_context, deadline), out, sizeof *out);
    return error ? error : out->deadline < 0 || (out->value_count && !out->values) ? -EINVAL : 0;
}

static const weft_context_value *find_in(const weft_context *context, const char *key) {
    for (size_t i = 0; i < context->value_count; i++)
        if (context->values[i].key && !strcmp(context->values[i].key, key))
            return &context->values[i];
    return NULL;
}

const weft_context_value *weft_context_find(const weft_context *context, const char *key) {
    const weft_context_value *found = NULL;
    weft_context own;
    for (unsigned depth = 0; context && key && !found && depth < DEPTH_MAX; depth++, context = own.parent) {
        if (known(context, &own))
            return NULL;
        found = find_in(&own, key);
    }
    return found;
}

/* -- Copying --------------------------------------------------------------------------------------------------- */

/* Counts the block's bytes if `start` is NULL, else fills it.  `at`: where the next bytes go. */
struct writer {
    struct wefti_start *start;
    weft_payload *inputs;
    weft_context_value *values;
    size_t input_count, value_count;
    uint64_t at; /* counts every byte: it cannot overflow, as each part is at most BYTES_MAX */
};

static const void *put(struct writer *writer, const void *bytes, size_t size) {
    unsigned char *to = writer->start ? (unsigned char *)writer->start + writer->at : NULL;
    if (to && size)
        memcpy(to, bytes, size);
    writer->at += (size + 15) & ~(size_t)15; /* aligned for any type */
    return to;
}

/* Only the first pass decides. */
static bool is_too_large(const struct writer *writer) { return !writer->start && writer->at > BYTES_MAX; }

static int put_payload(struct writer *writer, const void *data, size_t size) {
    if ((!data && size) || size > BYTES_MAX)
        return size > BYTES_MAX ? -EMSGSIZE : -EINVAL;
    const void *copy = put(writer, data, size);
    if (writer->inputs)
        writer->inputs[writer->input_count] = (weft_payload){copy, size};
    writer->input_count++;
    return is_too_large(writer) ? -EMSGSIZE : 0;
}

static int put_value(struct writer *writer, const weft_context_value *value) {
    size_t length = strlen(value->key) + 1;
    if ((!value->data && value->size) || value->size > BYTES_MAX || length > BYTES_MAX)
        return value->size > BYTES_MAX || length > BYTES_MAX ? -EMSGSIZE : -EINVAL;
    const char *key = put(writer, value->key, length);
    const void *data = put(writer, value->data, value->size);
    if (writer->values)
        writer->values[writer->value_count] = (weft_context_value){key, data, value->size};
    writer->value_count++;
    return is_too_large(writer) ? -EMSGSIZE : 0;
}

/* Does a context of the chain before `level`, or an earlier value of `level`, hide value `at` of it? */
static bool is_hidden(const weft_context *chain, const weft_context *level, size_t at, const char *key) {
    weft_context own;
    for (; chain != level; chain = own.parent)
        if (known(chain, &own) || find_in(&own, key))
            return true;
    return !known(level, &own) && find_in(&own, key) != &own.values[at];
}

static int put_context(struct writer *writer, const weft_context *chain, weft_context *merged) {
    static const uint8_t no_trace[16] = {0};
    weft_context own;
    unsigned depth = 0;
    for (const weft_context *level = chain; level; level = own.parent) {
        int error = depth++ == DEPTH_MAX ? -EINVAL : known(level, &own);
        if (error)
            return error;
        for (size_t i = 0; i < own.value_count && !error; i++) {
            if (!own.values[i].key)
                error = -EINVAL;
            else if (!is_hidden(chain, level, i, own.values[i].key))
                error = put_value(writer, &own.values[i]);
        }
        if (error)
            return error;
        if (own.deadline && own.deadline < merged->deadline)
            merged->deadline = own.deadline;
        if (!memcmp(merged->trace_id, no_trace, sizeof no_trace)) {
            memcpy(merged->trace_id, own.trace_id, sizeof own.trace_id);
            memcpy(merged->span_id, own.span_id, sizeof own.span_id);
            merged->trace_flags = own.trace_flags;
        }
    }
    return 0;
}

static int put_all(struct writer *writer, const weft_process_spec *spec, weft_context *merged) {
    int error = 0;
    if (spec->input || spec->input_size)
        error = put_payload(writer, spec->input, spec->input_size);
    for (size_t i = 0; i < spec->input_count && !error; i++)
        error = put_payload(writer, spec->inputs[i].data, spec->inputs[i].size);
    return error ? error : put_context(writer, spec->context, merged);
}

int wefti_start_copy(const weft_process_spec *spec, struct wefti_start **out) {
    weft_context merged = WEFT_CONTEXT_INIT;
    struct writer count = {0}, fill = {0};
    merged.deadline = WEFT_NEVER;
    int error = put_all(&count, spec, &merged);
    if (error)
        return error;
    if (merged.deadline != WEFT_NEVER && merged.deadline <= weft_after(0))
        return -ETIMEDOUT;
    size_t inputs = (sizeof **out + 15) & ~(size_t)15;
    size_t values = inputs + count.input_count * sizeof(weft_payload);
    size_t bytes = (values + count.value_count * sizeof(weft_context_value) + 15) & ~(size_t)15;
    struct wefti_start *start = wefti_alloc(bytes + (size_t)count.at);
    if (!start)
        return -ENOMEM;
    fill.start = start;
    fill.inputs = (weft_payload *)(void *)((char *)start + inputs);
    fill.values = (weft_context_value *)(void *)((char *)start + values);
    fill.at = bytes;
    (void)put_all(&fill, spec, &merged); /* cannot fail: the same as before */
    merged.values = count.value_count ? fill.values : NULL;
    merged.value_count = count.value_count;
    *start = (struct wefti_start){.bytes = bytes + (size_t)count.at,
                                  .context = merged,
                                  .inputs = count.input_count ? fill.inputs : NULL,
                                  .input_count = count.input_count};
    *out = start;
    return 0;
}

void wefti_start_free(struct wefti_start *start) {
    if (start)
        wefti_free(start, start->bytes);
}
