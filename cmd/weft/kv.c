/* kv.c - the executor `kv`: keys, integers, and accounts.
 *
 *     noop                     nothing
 *     set KEY VALUE
 *     get KEY                  outputs the value, or null
 *     del KEY
 *     add KEY NUMBER           to an integer (none: 0); outputs the sum
 *     transfer TO AMOUNT       from the sender's account, the key of its name, which must hold as much
 *     cas KEY OLD NEW          NEW if the value is OLD, else it fails
 *     cas KEY NEW              NEW if there is none, else it fails
 *
 * Integers are decimal text of 64 bits.  Keys that begin with "lua:" are contracts' (lua.c).
 */
#include <inttypes.h>
#include <stdio.h>

#include "exec.h"

static bool parse(const void *text, size_t size, int64_t *out) {
    const char *at = text;
    bool negative = size && at[0] == '-';
    uint64_t value = 0, limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    size_t i = negative;
    if (i == size || size - i > 19)
        return false;
    for (; i < size; i++) {
        unsigned digit = (unsigned)(unsigned char)at[i] - '0';
        if (digit > 9 || (value = value * 10 + digit) > limit)
            return false;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* The integer at a key; 0 if there is none. */
static int load(struct exec *exec, const struct tx_arg *key, int64_t *out) {
    const void *value;
    size_t size;
    int found = exec_get(exec, key->data, key->size, &value, &size);
    *out = 0;
    if (found == EXEC_FOUND && !parse(value, size, out))
        return exec_fail(exec, "the value is not an integer");
    return found == EXEC_FOUND ? 0 : found;
}

static int save(struct exec *exec, const struct tx_arg *key, int64_t value) {
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRId64, value);
    return exec_put(exec, key->data, key->size, text, (size_t)size);
}

static int run_noop(struct exec *exec, const struct tx_arg *args) {
    (void)exec, (void)args;
    return 0;
}

static int run_set(struct exec *exec, const struct tx_arg *args) {
    return exec_put(exec, args[0].data, args[0].size, args[1].data, args[1].size);
}

static int run_get(struct exec *exec, const struct tx_arg *args) {
    const void *value;
    size_t size;
    int found = exec_get(exec, args[0].data, args[0].size, &value, &size);
    if (found == EXEC_FOUND)
        json_put(&exec->output, value, size);
    else if (found == 0)
        json_put_text(&exec->output, "null");
    return found == EXEC_FOUND ? 0 : found;
}

static int run_del(struct exec *exec, const struct tx_arg *args) { return exec_del(exec, args[0].data, args[0].size); }

static int run_add(struct exec *exec, const struct tx_arg *args) {
    int64_t value, more;
    if (!parse(args[1].data, args[1].size, &more))
        return exec_fail(exec, "not an integer");
    int error = load(exec, &args[0], &value);
    if (error)
        return error;
    if (__builtin_add_overflow(value, more, &value))
        return exec_fail(exec, "the sum has more than 64 bits");
    json_format(&exec->output, "%" PRId64, value);
    return save(exec, &args[0], value);
}

static int run_transfer(struct exec *exec, const struct tx_arg *args) {
    struct tx_arg from = {exec->tx->sender, strlen(exec->tx->sender)};
    int64_t amount, has, gets;
    if (!parse(args[1].data, args[1].size, &amount) || amount < 0)
        return exec_fail(exec, "not an amount");
    int error = load(exec, &from, &has);
    if (error)
        return error;
    if (has < amount)
        return exec_fail(exec, "balance is %" PRId64, has);
    if ((error = save(exec, &from, has - amount)) || (error = load(exec, &args[0], &gets)))
        return error;
    if (__builtin_add_overflow(gets, amount, &gets))
        return exec_fail(exec, "the sum has more than 64 bits");
    return save(exec, &args[0], gets);
}

static int run_cas(struct exec *exec, const struct tx_arg *args) {
    const void *value;
    size_t size;
    bool none = exec->tx->count == 2;
    int found = exec_get(exec, args[0].data, args[0].size, &value, &size);
    if (found != 0 && found != EXEC_FOUND)
        return found;
    if (none ? found == EXEC_FOUND
             : found != EXEC_FOUND || size != args[1].size || (size && memcmp(value, args[1].data, size)))
        return exec_fail(exec, none ? "there is a value" : "the value is another");
    const struct tx_arg *fresh = &args[exec->tx->count - 1];
    return exec_put(exec, args[0].data, args[0].size, fresh->data, fresh->size);
}

static const struct {
    const char *name;
    unsigned least, most; /* arguments; the first is a key */
    int (*run)(struct exec *exec, const struct tx_arg *args);
} methods[] = {{"noop", 0, 0, run_noop}, {"set", 2, 2, run_set}, {"get", 1, 1, run_get},
               {"del", 1, 1, run_del},   {"add", 2, 2, run_add}, {"transfer", 2, 2, run_transfer},
               {"cas", 2, 3, run_cas}};

static bool is_contract(const void *key, size_t size) { return size >= 4 && !memcmp(key, "lua:", 4); }

int kv_run(struct exec *exec) {
    const struct tx *tx = exec->tx;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, tx->method))
            continue;
        if (tx->count < methods[i].least || tx->count > methods[i].most)
            return exec_fail(exec, "%s wants %u arguments", tx->method, methods[i].least);
        if (strcmp(tx->method, "get") && ((tx->count && is_contract(tx->args[0].data, tx->args[0].size)) ||
                                          is_contract(tx->sender, strlen(tx->sender))))
            return exec_fail(exec, "keys that begin with lua: are contracts'");
        return methods[i].run(exec, tx->args);
    }
    return exec_fail(exec, "kv has no method %s", tx->method);
}
