/* lua.c - the executor `lua`: contracts, in a sandbox (sandbox.c).
 *
 *     deploy NAME SOURCE            by its first sender, who alone may replace it.  Runs nothing.
 *     invoke NAME FUNCTION ARG...   calls the global function with its arguments as strings; its result is the output
 *
 * Keys.   lua:NAME!code, lua:NAME!owner, and lua:NAME:KEY for a contract's KEY.
 */
#include <lauxlib.h>
#include <lua.h>

#include "sandbox.h"

/* "lua:NAME" and what follows; 0: it is too long. */
static size_t key_of(const struct tx_arg *name, char mark, const void *rest, size_t size, char key[STATE_KEY_MAX]) {
    size_t total = 4 + name->size + 1 + size;
    if (total > STATE_KEY_MAX)
        return 0;
    memcpy(key, "lua:", 4);
    memcpy(key + 4, name->data, name->size);
    key[4 + name->size] = mark;
    memcpy(key + 5 + name->size, rest, size);
    return total;
}

size_t contract_key(const struct sandbox *box, const char *rest, size_t size, char key[STATE_KEY_MAX]) {
    return key_of(&box->exec->tx->args[0], ':', rest, size, key);
}

static bool name_is_valid(const struct tx_arg *name) {
    const char *at = name->data;
    for (size_t i = 0; i < name->size; i++)
        if (!((at[i] >= 'a' && at[i] <= 'z') || (at[i] >= '0' && at[i] <= '9') || at[i] == '_' || at[i] == '-'))
            return false;
    return name->size > 0 && name->size <= TX_NAME_MAX;
}

static int deploy(struct exec *exec) {
    const struct tx *tx = exec->tx;
    const struct tx_arg *name = &tx->args[0], *source = &tx->args[1];
    char key[STATE_KEY_MAX];
    const void *owner;
    size_t size, key_size;
    if (tx->count != 2)
        return exec_fail(exec, "deploy wants a name and a source");
    key_size = key_of(name, '!', "owner", 5, key);
    int found = exec_get(exec, key, key_size, &owner, &size);
    if (found != 0 && found != EXEC_FOUND)
        return found;
    if (found && (size != strlen(tx->sender) || memcmp(owner, tx->sender, size)))
        return exec_fail(exec, "%.*s is another's", (int)name->size, (const char *)name->data);
    int error = found ? 0 : exec_put(exec, key, key_size, tx->sender, strlen(tx->sender));
    if (!error)
        error = sandbox_compiles(exec, source->data, source->size);
    if (!error)
        error = exec_put(exec, key, key_of(name, '!', "code", 4, key), source->data, source->size);
    return error;
}

static int invoke(struct exec *exec) {
    const struct tx *tx = exec->tx;
    char key[STATE_KEY_MAX];
    const void *code;
    size_t size;
    if (tx->count < 2)
        return exec_fail(exec, "invoke wants a name and a function");
    int found = exec_get(exec, key, key_of(&tx->args[0], '!', "code", 4, key), &code, &size);
    if (found != EXEC_FOUND)
        return found ? found
                     : exec_fail(exec, "no contract %.*s", (int)tx->args[0].size, (const char *)tx->args[0].data);
    return sandbox_call(exec, code, size);
}

int lua_run(struct exec *exec) {
    if (exec->tx->count && !name_is_valid(&exec->tx->args[0]))
        return exec_fail(exec, "a contract's name: 1 to 32 of a-z 0-9 _ -");
    if (!strcmp(exec->tx->method, "deploy"))
        return deploy(exec);
    if (!strcmp(exec->tx->method, "invoke"))
        return invoke(exec);
    return exec_fail(exec, "lua has no method %s", exec->tx->method);
}
