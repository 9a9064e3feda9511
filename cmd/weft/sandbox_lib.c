/* sandbox_lib.c - what a contract sees: its state, and the part of Lua's library that is bounded and the same everywhere. */
#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>

#include "interrupt.h"
#include "sandbox.h"

/* After a call of exec_..., which changes what outlives the contract: the section ends that began with interrupt_hold. 0 and EXEC_FOUND are returned, other
 * results end in an error of Lua. */
static int settled(lua_State *lua, int result) {
    struct sandbox *box = sandbox_of(lua);
    interrupt_release();
    if (result < 0) {
        box->error = result;
        box->ended = true;
    }
    if (result < 0 || (result == 1 && box->exec->gas == box->exec->limit))
        sandbox_pay(lua, UINT64_MAX / 2); /* the end */
    if (result == 1)
        luaL_error(lua, "%s", box->exec->reason);
    return result;
}

static size_t key_at(lua_State *lua, int index, char key[STATE_KEY_MAX]) {
    size_t size;
    const char *rest = luaL_checklstring(lua, index, &size);
    size = contract_key(sandbox_of(lua), rest, size, key);
    return size ? size : (size_t)luaL_argerror(lua, index, "too long");
}

/* -- State ---------------------------------------------------------------------------------------------------------- */

static int get(lua_State *lua) { /* get(key): a string, or nil */
    char key[STATE_KEY_MAX];
    const void *value;
    size_t size = key_at(lua, 1, key), value_size;
    sandbox_pay(lua, 0);
    interrupt_hold();
    if (settled(lua, exec_get(sandbox_of(lua)->exec, key, size, &value, &value_size)) == EXEC_FOUND)
        lua_pushlstring(lua, value, value_size);
    else
        lua_pushnil(lua);
    return 1;
}

static int put(lua_State *lua) { /* put(key, value): a string or number; nil: away with it */
    char key[STATE_KEY_MAX];
    size_t size = key_at(lua, 1, key), value_size = 0;
    luaL_checkany(lua, 2);
    const char *value = lua_isnil(lua, 2) ? NULL : luaL_checklstring(lua, 2, &value_size);
    sandbox_pay(lua, 0);
    struct exec *exec = sandbox_of(lua)->exec;
    interrupt_hold();
    settled(lua, value ? exec_put(exec, key, size, value, value_size) : exec_del(exec, key, size));
    return 0;
}

static int emit(lua_State *lua) { /* emit(name, value): an event */
    size_t size, value_size;
    const char *name = luaL_checklstring(lua, 1, &size), *value = luaL_optlstring(lua, 2, "", &value_size);
    interrupt_hold();
    settled(lua, exec_note(sandbox_of(lua)->exec, STEP_EMIT, name, size, value, value_size));
    return 0;
}

static int note(lua_State *lua) { /* log(text) */
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    interrupt_hold();
    settled(lua, exec_note(sandbox_of(lua)->exec, STEP_LOG, "", 0, text, size));
    return 0;
}

/* -- Instead of Lua's own --------------------------------------------------------------------------------------------- */

static int protected_call(lua_State *lua) { /* pcall: but one does not go on after the end of gas or memory */
    luaL_checkany(lua, 1);
    int status = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
    if (status == LUA_ERRMEM)
        sandbox_of(lua)->ended = sandbox_of(lua)->full = true;
    sandbox_pay(lua, 0);
    lua_pushboolean(lua, status == LUA_OK);
    lua_insert(lua, 1);
    return lua_gettop(lua);
}

static int to_string(lua_State *lua) { /* tostring, without addresses */
    luaL_checkany(lua, 1);
    int type = lua_type(lua, 1);
    if ((type == LUA_TTABLE || type == LUA_TFUNCTION) && luaL_getmetafield(lua, 1, "__tostring") == LUA_TNIL)
        lua_pushstring(lua, luaL_typename(lua, 1));
    else
        luaL_tolstring(lua, 1, NULL);
    return 1;
}

static int format(lua_State *lua) { /* string.format, without addresses: texts of tables, no %p */
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    int top = lua_gettop(lua);
    for (const char *at = text; (at = memchr(at, '%', size - (size_t)(at - text))); at++) {
        if (at[1] == '%') {
            at++;
            continue;
        }
        size_t flags = strspn(at + 1, "-+ #0123456789.");
        if (at[1 + flags] == 'p' || flags > 8) /* and no widths beyond what one instruction may cost */
            return luaL_error(lua, "invalid format");
    }
    for (int i = 2; i <= top; i++)
        if (lua_type(lua, i) == LUA_TTABLE || lua_type(lua, i) == LUA_TFUNCTION) {
            lua_pushcfunction(lua, to_string);
            lua_pushvalue(lua, i);
            lua_call(lua, 1, 1);
            lua_replace(lua, i);
        }
    lua_pushvalue(lua, lua_upvalueindex(1)); /* Lua's */
    lua_insert(lua, 1);
    interrupt_hold(); /* the C library's formatting may allocate; its result is bounded */
    int status = lua_pcall(lua, top, 1, 0);
    interrupt_release();
    return status == LUA_OK ? 1 : lua_error(lua);
}

static int find(lua_State *lua) { /* string.find(text, part, from): plain, and paid for by what it may take */
    size_t size, part_size;
    const char *text = luaL_checklstring(lua, 1, &size), *part = luaL_checklstring(lua, 2, &part_size);
    lua_Integer from = luaL_optinteger(lua, 3, 1);
    from = from < 0 ? (lua_Integer)size + from + 1 : from;
    from = from < 1 ? 1 : from;
    sandbox_pay(lua, size / GAS_BYTES * (part_size / GAS_BYTES + 1));
    for (size_t i = (size_t)from - 1; part_size <= size && i <= size - part_size; i++)
        if (!memcmp(text + i, part, part_size)) {
            lua_pushinteger(lua, (lua_Integer)(i + 1));
            lua_pushinteger(lua, (lua_Integer)(i + part_size));
            return 2;
        }
    lua_pushnil(lua);
    return 1;
}

/* Lua's function, paid for by the length of its arguments and results. */
static int paid(lua_State *lua) {
    uint64_t size = 0;
    int top = lua_gettop(lua);
    for (int i = 1; i <= top; i++)
        size += lua_type(lua, i) == LUA_TSTRING  ? lua_rawlen(lua, i) / GAS_BYTES
                : lua_type(lua, i) == LUA_TTABLE ? lua_rawlen(lua, i)
                                                 : 0;
    sandbox_pay(lua, size);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, top, LUA_MULTRET);
    sandbox_pay(lua, (uint64_t)lua_gettop(lua));
    return lua_gettop(lua);
}

static int
concat(lua_State *lua) { /* table.concat: from anywhere to anywhere, and an __index in C costs no instruction */
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_Integer from = luaL_optinteger(lua, 3, 1),
                to = lua_isnoneornil(lua, 4) ? luaL_len(lua, 1) : luaL_checkinteger(lua, 4);
    uint64_t count = to < from ? 0 : (uint64_t)to - (uint64_t)from,
             known = lua_rawlen(lua, 1); /* `paid` counts those */
    sandbox_pay(lua, count > known ? (count - known < INT64_MAX ? count - known : INT64_MAX) : 0);
    lua_settop(lua, 3);
    lua_pushinteger(lua, to);
    lua_pushvalue(lua, lua_upvalueindex(1)); /* Lua's */
    lua_insert(lua, 1);
    lua_call(lua, 4, 1);
    return 1;
}

static int rep(lua_State *lua) { /* string.rep: Lua's goes round as often as it is told, also for nothing */
    size_t size, between;
    luaL_checklstring(lua, 1, &size);
    lua_Integer times = luaL_checkinteger(lua, 2);
    luaL_optlstring(lua, 3, "", &between);
    if (times > SANDBOX_STRING_MAX || (times > 0 && (size + between) * (size_t)times > SANDBOX_STRING_MAX))
        return luaL_error(lua, "a string has at most %d bytes", SANDBOX_STRING_MAX);
    int top = lua_gettop(lua);
    lua_pushvalue(lua, lua_upvalueindex(1)); /* Lua's */
    lua_insert(lua, 1);
    lua_call(lua, top, 1);
    return 1;
}

static int set_metatable(lua_State *lua) { /* without finalizers and weak tables: both show when memory is collected */
    luaL_checktype(lua, 1, LUA_TTABLE);
    if (lua_type(lua, 2) == LUA_TTABLE) {
        lua_pushliteral(lua, "__gc");
        lua_rawget(lua, 2);
        lua_pushliteral(lua, "__mode");
        lua_rawget(lua, 2);
        if (!lua_isnil(lua, -1) || !lua_isnil(lua, -2))
            return luaL_error(lua, "__gc and __mode are not allowed");
        lua_settop(lua, 2);
        sandbox_gc_watch(lua);
    } else if (!lua_isnil(lua, 2)) {
        return luaL_typeerror(lua, 2, "nil or table");
    }
    if (luaL_getmetafield(lua, 1, "__metatable") != LUA_TNIL)
        return luaL_error(lua, "cannot change a protected metatable");
    lua_settop(lua, 2);
    lua_setmetatable(lua, 1);
    return 1;
}

/* In Lua, so that it is metered as the contract itself.  Lua's sort depends on the clock. */
static const char prelude[] =
    "function table.sort(t, less)\n"
    "  less = less or function(a, b) return a < b end\n"
    "  local n, from, to = #t, t, {}\n"
    "  local width = 1\n"
    "  while width < n do\n"
    "    local out = 1\n"
    "    for low = 1, n, 2 * width do\n"
    "      local i, j = low, low + width\n"
    "      local mid, high = j < n + 1 and j or n + 1, low + 2 * width < n + 1 and low + 2 * width or n + 1\n"
    "      while i < mid or j < high do\n"
    "        if i < mid and (j >= high or not less(from[j], from[i])) then to[out] = from[i] i = i + 1\n"
    "        else to[out] = from[j] j = j + 1 end\n"
    "        out = out + 1\n"
    "      end\n"
    "    end\n"
    "    if from == t then from, to = to, {} else from, to = to, from end\n"
    "    width = 2 * width\n"
    "  end\n"
    "  if from ~= t then for i = 1, n do t[i] = from[i] end end\n"
    "end\n"
    "function table.insert(t, a, ...)\n"
    "  local n = #t\n"
    "  if select('#', ...) == 0 then t[n + 1] = a return end\n"
    "  if math.type(a) ~= 'integer' or a < 1 or a > n + 1 then error('position out of bounds', 2) end\n"
    "  for i = n, a, -1 do t[i + 1] = t[i] end\n"
    "  t[a] = ...\n"
    "end\n"
    "function table.remove(t, at)\n"
    "  local n = #t\n"
    "  at = at or n\n"
    "  local v = t[at]\n"
    "  for i = at, n - 1 do t[i] = t[i + 1] end\n"
    "  if at >= 1 and at <= n then t[n] = nil end\n"
    "  return v\n"
    "end\n"
    "next = nil\n";

static void open_block(lua_State *lua) {
    struct exec *exec = sandbox_of(lua)->exec;
    lua_createtable(lua, 0, 5);
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {{"number", exec->number},
                  {"env", exec->env->number},
                  {"timestamp", exec->env->timestamp},
                  {"gas_price", exec->env->gas_price},
                  {"blob_gas_price", exec->env->blob_gas_price}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        lua_pushinteger(lua, (lua_Integer)fields[i].value);
        lua_setfield(lua, -2, fields[i].name);
    }
    lua_setglobal(lua, "block");
    lua_pushstring(lua, exec->tx->sender);
    lua_setglobal(lua, "sender");
    lua_pushinteger(lua, (lua_Integer)exec->tx->nonce);
    lua_setglobal(lua, "nonce");
}

/* Keep of a library's table (at the top) only these names; `pay`: each through `paid`. */
static void keep_only(lua_State *lua, const char *library, const char *const *names, bool pay) {
    lua_newtable(lua);
    for (; *names; names++) {
        lua_getfield(lua, -2, *names);
        if (pay && lua_isfunction(lua, -1))
            lua_pushcclosure(lua, paid, 1);
        lua_setfield(lua, -2, *names);
    }
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, library);
    lua_remove(lua, -2); /* the new one stays at the top */
}

void sandbox_open_libs(lua_State *lua) {
    static const char *const gone[] = {"collectgarbage", "dofile", "load",     "loadfile", "print",
                                       "warn",           "xpcall", "_VERSION", NULL};
    static const char *const strings[] = {"byte", "char", "len", "lower", "upper", "reverse", "sub", NULL};
    static const char *const tables[] = {"concat", "unpack", "pack", NULL};
    static const char *const maths[] = {"abs", "ceil",       "floor",     "fmod", "huge", "max", "maxinteger",
                                        "min", "mininteger", "tointeger", "type", "ult",  NULL};
    static const luaL_Reg own[] = {{"get", get},
                                   {"put", put},
                                   {"emit", emit},
                                   {"log", note},
                                   {"pcall", protected_call},
                                   {"tostring", to_string},
                                   {"pairs", sandbox_pairs},
                                   {"setmetatable", set_metatable},
                                   {NULL, NULL}};
    luaL_requiref(lua, LUA_GNAME, luaopen_base, 1);
    for (const char *const *name = gone; *name; name++) {
        lua_pushnil(lua);
        lua_setglobal(lua, *name);
    }
    luaL_setfuncs(lua, own, 0); /* the globals are at the top */
    lua_getfield(lua, -1, "tonumber"); /* of long texts it takes long */
    lua_pushcclosure(lua, paid, 1);
    lua_setfield(lua, -2, "tonumber");
    luaL_requiref(lua, LUA_MATHLIBNAME, luaopen_math, 0);
    keep_only(lua, LUA_MATHLIBNAME, maths, false);
    luaL_requiref(lua, LUA_TABLIBNAME, luaopen_table, 0);
    keep_only(lua, LUA_TABLIBNAME, tables, true);
    lua_getfield(lua, -1, "concat");
    lua_pushcclosure(lua, concat, 1);
    lua_setfield(lua, -2, "concat");
    luaL_requiref(lua, LUA_STRLIBNAME, luaopen_string, 0);
    lua_getfield(lua, -1, "format");
    lua_getfield(lua, -2, "rep");
    lua_rotate(lua, -3, 2); /* format, rep, the library */
    keep_only(lua, LUA_STRLIBNAME, strings, true);
    lua_pushvalue(lua, -2);
    lua_pushcclosure(lua, rep, 1);
    lua_setfield(lua, -2, "rep");
    lua_pushvalue(lua, -3);
    lua_pushcclosure(lua, format, 1);
    lua_setfield(lua, -2, "format");
    lua_pushcfunction(lua, find);
    lua_setfield(lua, -2, "find");
    lua_pushliteral(lua, ""); /* strings' own metatable has the whole library */
    lua_getmetatable(lua, -1);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    open_block(lua);
    lua_settop(lua, 0);
    if (luaL_loadbufferx(lua, prelude, sizeof prelude - 1, "=prelude", "t"))
        lua_error(lua);
    lua_call(lua, 0, 0);
    lua_pushnil(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
}
