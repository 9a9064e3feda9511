/* sandbox.c - memory, gas and errors of a contract's call (sandbox.h). */
#include "sandbox.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <time.h>

#include "base/atomic.h"
#include "plat/fault.h"

/* -- Memory --------------------------------------------------------------------------------------------------------- */

/* For a new object Lua says what it is.  Only those are paid for: arrays and hash parts grow by what is put into them, which costs
 * instructions, and when a hash part grows depends on the hash's seed, which nobody chooses. */
static bool is_object(size_t tag) {
    return tag == LUA_TSTRING || tag == LUA_TTABLE || tag == LUA_TFUNCTION || tag == LUA_TUSERDATA;
}

static void *allocate(void *arg, void *memory, size_t old, size_t size) {
    struct sandbox *box = arg;
    size_t tag = memory ? 0 : old;
    old = memory ? old : 0;
    if (size == 0) {
        box->used -= old;
        free(memory);
        return NULL;
    }
    if (size > old && (size - old > box->most - box->used || (tag == LUA_TSTRING && size > SANDBOX_STRING_MAX + 64))) {
        box->full = box->ended =
            true; /* Lua now collects everything, and may have room then: what that shows is not to be seen */
        return NULL;
    }
    void *moved = mem_resize(memory, size);
    if (!moved) {
        if (size <= old)
            return memory; /* Lua counts on that */
        box->error = -ENOMEM; /* ours, not the contract's: another node would have had it */
        box->ended = true;
        return NULL;
    }
    box->used = box->used - old + size;
    box->fresh += is_object(tag) ? size : 0;
    return moved;
}

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

/* What this thread has had of a CPU: others at work do not make a contract late. */
static int64_t thread_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Each SANDBOX_STEP instructions; after the end, at every one, so that whatever caught it ends too. */
static void on_count(lua_State *lua, lua_Debug *about) {
    (void)about;
    struct sandbox *box = sandbox_of(lua);
    if (load_relaxed(box->exec->ending)) { /* a look */
        box->error = -ECANCELED; /* the batch with it: nobody was told of it */
        box->ended = true;
    }
    if (++box->looks % SANDBOX_LOOKS == 0 && thread_time() - box->began > box->exec->lua_time)
        box->late = box->ended = true;
    sandbox_gc_look(lua);
    if (box->ended || box->exec->limit - box->exec->gas < SANDBOX_STEP)
        lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
    sandbox_pay(lua, SANDBOX_STEP);
}

/* -- Calling -------------------------------------------------------------------------------------------------------- */

struct call {
    struct sandbox *box;
    const char *source;
    size_t size;
    bool only_compile;
};

/* In a protected call: everything here may end by an error. */
static int run(lua_State *lua) {
    struct call *call = lua_touserdata(lua, 1);
    const struct tx *tx = call->box->exec->tx;
    lua_settop(lua, 0);
    sandbox_gc_begin(lua);
    if (!call->only_compile)
        sandbox_open_libs(lua);
    sandbox_pay(lua, call->size / GAS_BYTES);
    lua_sethook(lua, on_count, LUA_MASKCOUNT, SANDBOX_STEP);
    if (luaL_loadbufferx(lua, call->source, call->size, "=contract", "t"))
        return lua_error(lua);
    if (call->only_compile)
        return 0;
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
        sandbox_to_json(lua, &call->box->exec->output);
    sandbox_pay(lua, call->box->exec->output.size / GAS_BYTES);
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
    if (box->late) {
        exec->gas = exec->limit;
        return exec_fail(exec, "out of time");
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

static int call_in(struct exec *exec, struct call *call) {
    struct sandbox box = {.exec = exec, .most = exec->lua_memory, .began = thread_time()};
    call->box = &box;
    lua_State *lua = lua_newstate(allocate, &box);
    if (!lua)
        return box.error ? box.error : exec_fail(exec, "out of memory");
    *(struct sandbox **)lua_getextraspace(lua) = &box;
    lua_gc(lua, LUA_GCINC, 0, 0, 0); /* whatever the library was built with */
    lua_pushcfunction(lua, run); /* needs no memory: a light function, and the stack has room */
    lua_pushlightuserdata(lua, call);
    int status = lua_pcall(lua, 1, 0, 0);
    int result = result_of(&box, lua, status);
    lua_sethook(lua, NULL, 0, 0);
    lua_close(lua);
    return result;
}

int sandbox_compiles(struct exec *exec, const char *source, size_t size) {
    struct call call = {.source = source, .size = size, .only_compile = true};
    return call_in(exec, &call);
}

int sandbox_call(struct exec *exec, const char *source, size_t size) {
    /* The state's value is valid until the next read: the contract will read. */
    char *copy = mem_resize(NULL, size + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, source, size);
    struct call call = {.source = copy, .size = size};
    int result = call_in(exec, &call);
    free(copy);
    return result;
}
