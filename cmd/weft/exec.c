/* exec.c - what executors do with state: paid for, bounded, traced. */
#include "exec.h"

#include <stdarg.h>
#include <stdio.h>

bool exec_pay(struct exec *exec, uint64_t gas) {
    if (gas <= exec->limit - exec->gas) {
        exec->gas += gas;
        return true;
    }
    exec->gas = exec->limit;
    exec_fail(exec, "out of gas");
    return false;
}

int exec_fail(struct exec *exec, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(exec->reason, sizeof exec->reason, format, args);
    va_end(args);
    size_t size = strlen(exec->reason);
    while (size && !text_is_utf8(exec->reason, size)) /* cut in a character, or made of a client's bytes */
        exec->reason[--size] = 0;
    return 1;
}

/* One more step, of so many bytes: 0, or 1 if the trace is too long then. */
static int step(struct exec *exec, enum step_kind kind, const void *key, size_t key_size, const void *value,
                size_t size) {
    if (exec->block->bytes.size - exec->block->record + key_size + size > TRACE_MAX)
        return exec_fail(exec, "its trace has more than %d bytes", TRACE_MAX);
    block_step(exec->block, kind, key, key_size, value, size);
    return 0;
}

/* The key as the keep has it; 0: it is not allowed. */
static size_t state_key(const void *key, size_t key_size, unsigned char *out) {
    if (key_size == 0 || key_size > STATE_KEY_MAX)
        return 0;
    out[0] = 's';
    memcpy(out + 1, key, key_size);
    return key_size + 1;
}

int exec_get(struct exec *exec, const void *key, size_t key_size, const void **value, size_t *size) {
    unsigned char full[STATE_KEY_MAX + 1];
    size_t full_size = state_key(key, key_size, full);
    if (!full_size)
        return exec_fail(exec, "a key has 1 to %d bytes", STATE_KEY_MAX);
    if (!exec_pay(exec, GAS_READ))
        return 1;
    int found = overlay_get(exec->overlay, full, full_size, value, size);
    if (found < 0)
        return found;
    if (step(exec, STEP_GET, key, key_size, *value, *size) || !exec_pay(exec, (key_size + *size) / GAS_BYTES))
        return 1;
    return found ? EXEC_FOUND : 0;
}

int exec_put(struct exec *exec, const void *key, size_t key_size, const void *value, size_t size) {
    unsigned char full[STATE_KEY_MAX + 1];
    size_t full_size = state_key(key, key_size, full);
    if (!full_size)
        return exec_fail(exec, "a key has 1 to %d bytes", STATE_KEY_MAX);
    if (size > STATE_VALUE_MAX)
        return exec_fail(exec, "a value has at most %d bytes", STATE_VALUE_MAX);
    if (!exec_pay(exec, GAS_WRITE + (key_size + size) / GAS_BYTES))
        return 1;
    if (step(exec, STEP_PUT, key, key_size, value, size))
        return 1;
    return overlay_put(exec->overlay, full, full_size, value ? value : "", size);
}

int exec_del(struct exec *exec, const void *key, size_t key_size) {
    unsigned char full[STATE_KEY_MAX + 1];
    size_t full_size = state_key(key, key_size, full);
    if (!full_size)
        return exec_fail(exec, "a key has 1 to %d bytes", STATE_KEY_MAX);
    if (!exec_pay(exec, GAS_WRITE + key_size / GAS_BYTES))
        return 1;
    if (step(exec, STEP_DEL, key, key_size, NULL, 0))
        return 1;
    return overlay_put(exec->overlay, full, full_size, NULL, 0);
}

int exec_note(struct exec *exec, enum step_kind kind, const void *key, size_t key_size, const void *value,
              size_t size) {
    if (!exec_pay(exec, GAS_WRITE + (key_size + size) / GAS_BYTES))
        return 1;
    return step(exec, kind, key, key_size, value, size);
}
