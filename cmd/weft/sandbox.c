/* sandbox.c - gas, time and errors of a contract's call (sandbox.h). */
#include "sandbox.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>

#include "base/atomic.h"
#include "interrupt.h"

/* -- Gas ------------------------------------------------------------------------------------------------------------ */

struct sandbox *sandbox_of(lua_State *lua) { return *(struct sandbox **)lua_getextraspace(lua); }

_Noreturn static void stop(lua_State *lua) {
    sandbox_of(lua)->ended = true;
    lua_pushliteral(lua, "out of gas");
    lua_error(lua);
    abort(); /* lua_error does not return, but does not say so */
}

void sandbox_pay(lua_State *lua, uint64_t gas) {
    struct sandbox *box = sandbox_of(lua);
    gas += box->fresh / GAS_BYTES;
    box->fresh %= GAS_BYTES;
    if (box->ended || !exec_pay(box->exec, gas))
        stop(lua);
}

/* Each SANDBOX_STEP instructions; after the end, at every one, so that whatever caught it ends too. */
static void on_count(lua_State *lua, lua_Debug *about) {
    (void)about;
    struct sandbox *box = sandbox_of(lua);
    if (++box->looks % SANDBOX_LOOKS == 0)
        interrupt_look();
    sandbox_gc_look(lua);
    if (box->ended || box->exec->limit - box->exec->gas < SANDBOX_STEP)
        lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
    sandbox_pay(lua, SANDBOX_STEP);
}

/* -- Calling -------------------------------------------------------------------------------------------------------- */

struct call {
    struct exec *exec;
    struct sandbox *box;
    const char *source; /* or NULL: the chunk */
    size_t size;
    const struct chunk *chunk;
    struct bytes code; /* of the source, when it is compiled */
    int result;
};

/* Called by lua_dump. */
static int write_code(lua_State *lua, const void *data, size_t size, void *arg) {
    (void)lua;
    interrupt_hold();
    bytes_put(arg, data, size);
    interrupt_release();
    return 0;
}

/* In a protected call: everything here may end by an error. */
static int compile(lua_State *lua) {
    struct call *call = lua_touserdata(lua, 1);
    sandbox_gc_begin(lua);
    if (luaL_loadbufferx(lua, call->source, call->size, "=contract", "t"))
        return lua_error(lua);
    lua_dump(lua, write_code, &call->code, 0); /* with lines: they are in the messages of errors */
    return 0;
}

static int run(lua_State *lua) {
    struct call *call = lua_touserdata(lua, 1);
    const struct tx *tx = call->exec->tx;
    lua_settop(lua, 0);
    sandbox_gc_begin(lua);
    sandbox_open_libs(lua);
    sandbox_pay(lua, 0);
    lua_sethook(lua, on_count, LUA_MASKCOUNT, SANDBOX_STEP);
    if (luaL_loadbufferx(lua, (const char *)call->chunk->code, call->chunk->size, "=contract", "b"))
        return lua_error(lua);
    lua_call(lua, 0, 0);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    const char *name = lua_pushlstring(lua, tx->args[1].data, tx->args[1].size);
    lua_pushvalue(lua, -1);
    lua_rawget(lua, -3);
    if (!lua_isfunction(lua, -1))
        return luaL_error(lua, "no function %s", name);
    for (unsigned i = 2; i < tx->count; i++)
        lua_pushlstring(lua, tx->args[i].data, tx->args[i].size);
    lua_call(lua, (int)tx->count - 2, 1);
    if (!lua_isnil(lua, -1))
        sandbox_to_json(lua, &call->exec->output);
    sandbox_pay(lua, call->exec->output.size / GAS_BYTES);
    return 0;
}

static int result_of(struct sandbox *box, lua_State *lua, int status) {
    struct exec *exec = box->exec;
    if (box->error)
        return box->error;
    if (status == LUA_OK && !box->ended)
        return 0;
    if (status == LUA_ERRMEM || box->full) {
        exec->gas = exec->limit; /* what was paid depends on how much memory there was */
        return exec_fail(exec, "out of memory");
    }
    if (box->ended) { /* whatever became of the error on its way */
        exec->gas = exec->limit;
        return exec_fail(exec, "out of gas");
    }
    size_t size = 0;
    const char *text = lua_type(lua, -1) == LUA_TSTRING ? lua_tolstring(lua, -1, &size) : NULL;
    return text ? exec_fail(exec, "%.*s", (int)(size < 150 ? size : 150), text)
                : exec_fail(exec, "an error that is no text");
}

/* In interrupt_run. The state is not closed: its memory is released by the caller, as after an interrupt. */
static void call_in(void *arg) {
    struct call *call = arg;
    struct sandbox *box = call->box;
    lua_State *lua = lua_newstate(sandbox_allocate, box);
    if (!lua) {
        call->result = box->error ? box->error : exec_fail(call->exec, "out of memory");
        return;
    }
    *(struct sandbox **)lua_getextraspace(lua) = box;
    lua_gc(lua, LUA_GCINC, 0, 0, 0); /* whatever the library was built with */
    lua_pushcfunction(lua,
                      call->source ? compile : run); /* needs no memory: a light function, and the stack has room */
    lua_pushlightuserdata(lua, call);
    int status = lua_pcall(lua, 1, 0, 0);
    call->result = result_of(box, lua, status);
}

/* 0, 1 and the reason, or an error of this node. */
static int call_bounded(struct exec *exec, struct call *call, int64_t began) {
    struct sandbox box = {.exec = exec, .most = exec->lua_memory};
    int64_t until = exec->lua_time < INT64_MAX - began ? began + exec->lua_time : INT64_MAX;
    call->exec = exec;
    call->box = &box;
    int why = interrupt_run(until, exec->ending, call_in, call);
    sandbox_memory_free(&box);
    if (why == INTERRUPT_LATE) {
        exec->gas = exec->limit;
        return exec_fail(exec, "out of time");
    }
    if (why == INTERRUPT_ENDING)
        return -ECANCELED; /* and the batch with it: nobody was told of it */
    return why < 0 ? -ENOMEM : call->result;
}

/* -- Compiling ------------------------------------------------------------------------------------------------------ */

static bool is_word(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_one_of(const char *word, size_t size, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == size && !memcmp(*words, word, size))
            return true;
    return false;
}

/* What compiling may cost, from the text alone: the gas must not depend on whether the chunk is in the cache. Two parts of Lua's compiler are not linear.
 * Each jump of an expression or a block is found by walking a list of the jumps before it; and each name is looked up among the
 * variables of all functions around it. Both are bounded here by products of word counts, which words in strings and comments increase. */
static uint64_t compile_gas(const char *source, size_t size) {
    static const char *const jumps[] = {"and", "or", "elseif", "goto", "break", "return", NULL};
    static const char *const scopes[] = {"local", "function", "for", NULL};
    uint64_t jumped = 0, names = 0, variables = 0;
    for (size_t i = 0, length; i < size; i += length ? length : 1) {
        for (length = 0; i + length < size && is_word((unsigned char)source[i + length]);)
            length++;
        names += length > 0;
        variables += source[i] == ',' || is_one_of(source + i, length, scopes);
        jumped += is_one_of(source + i, length, jumps);
    }
    return size / GAS_BYTES + (jumped * jumped + names * variables) / 8;
}

/* The chunk of a source, from the cache or compiled, with a reference to it. As call_bounded. */
static int chunk_of(struct exec *exec, const char *source, size_t size, int64_t began, struct chunk **out) {
    struct hash hash;
    hash_begin(&hash, "weft contract", 13);
    hash_add(&hash, source, size);
    hash32 key = hash_end(&hash);
    if (!exec_pay(exec, compile_gas(source, size)))
        return 1;
    if ((*out = chunks_find(exec->chunks, &key)))
        return 0;
    struct call call = {.source = source, .size = size};
    int result = call_bounded(exec, &call, began);
    if (!result && (call.code.failed || !(*out = chunks_add(exec->chunks, &key, &call.code))))
        result = -ENOMEM;
    bytes_free(&call.code);
    return result;
}

int sandbox_compiles(struct exec *exec, const char *source, size_t size) {
    struct chunk *chunk = NULL;
    int result = chunk_of(exec, source, size, interrupt_time(), &chunk);
    chunk_unref(chunk);
    return result;
}

int sandbox_call(struct exec *exec, const char *source, size_t size) {
    struct chunk *chunk = NULL;
    int64_t began = interrupt_time();
    int result = chunk_of(exec, source, size, began, &chunk);
    if (!result) {
        struct call call = {.chunk = chunk};
        result = call_bounded(exec, &call, began);
    }
    chunk_unref(chunk);
    return result;
}
