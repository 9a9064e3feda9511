/* sandbox_order.c - tables in order: pairs for contracts, and results as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>

#include "interrupt.h"
#include "sandbox.h"

/* A key of a table, to be put in order: numbers, strings, booleans.  Lua's own order depends on a seed that nobody chooses, so the sorting is done and
 * paid for here, where its cost depends on the number of keys only. */
struct sorted_key {
    int kind;
    long double number; /* exact for integers of 64 bits */
    const char *text; /* held by the table */
    size_t size;
};

static int by_key(const struct sorted_key *a, const struct sorted_key *b) {
    if (a->kind != b->kind || a->kind != 2)
        return a->kind != b->kind ? a->kind - b->kind : (a->number > b->number) - (a->number < b->number);
    int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Heapsort, and not qsort, which may allocate: the contract can be interrupted in the middle. */
static void sift(struct sorted_key *keys, size_t at, size_t count) {
    struct sorted_key moved = keys[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && by_key(&keys[child], &keys[child + 1]) < 0;
        if (by_key(&moved, &keys[child]) >= 0)
            break;
        keys[at] = keys[child];
    }
    keys[at] = moved;
}

static void sort_keys(struct sorted_key *keys, size_t count) {
    for (size_t i = count / 2; i--;)
        sift(keys, i, count);
    while (count > 1) {
        struct sorted_key largest = keys[0];
        keys[0] = keys[--count];
        keys[count] = largest;
        sift(keys, 0, count);
    }
}

static struct sorted_key key_of(lua_State *lua, int index) {
    struct sorted_key key = {0};
    switch (lua_type(lua, index)) {
    case LUA_TNUMBER:
        key.kind = 1;
        key.number = lua_isinteger(lua, index) ? (long double)lua_tointeger(lua, index) : lua_tonumber(lua, index);
        break;
    case LUA_TSTRING:
        key.kind = 2;
        key.text = lua_tolstring(lua, index, &key.size);
        break;
    case LUA_TBOOLEAN:
        key.kind = 3;
        key.number = lua_toboolean(lua, index);
        break;
    default: luaL_error(lua, "pairs: keys must be numbers, strings or booleans");
    }
    return key;
}

static void push_key(lua_State *lua, const struct sorted_key *key) {
    if (key->kind == 2)
        lua_pushlstring(lua, key->text, key->size);
    else if (key->kind == 3)
        lua_pushboolean(lua, key->number != 0);
    else if (key->number >= (long double)LUA_MININTEGER && key->number <= (long double)LUA_MAXINTEGER &&
             (long double)(lua_Integer)key->number == key->number)
        lua_pushinteger(lua, (lua_Integer)key->number); /* floats that are whole are integers as keys */
    else
        lua_pushnumber(lua, (lua_Number)key->number);
}

static int next_pair(lua_State *lua) { /* of (table, keys, how many were given) */
    for (;;) {
        lua_Integer i = lua_tointeger(lua, lua_upvalueindex(3)) + 1;
        lua_pushinteger(lua, i);
        lua_replace(lua, lua_upvalueindex(3));
        sandbox_pay(lua, 1);
        if (lua_rawgeti(lua, lua_upvalueindex(2), i) == LUA_TNIL)
            return 1;
        lua_pushvalue(lua, -1);
        if (lua_rawget(lua, lua_upvalueindex(1)) != LUA_TNIL) /* else it was taken out meanwhile */
            return 2;
        lua_settop(lua, 0);
    }
}

int sandbox_pairs(lua_State *lua) { /* pairs, in order */
    size_t count = 0, cost = 1;
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 1);
    for (lua_pushnil(lua); lua_next(lua, 1); lua_pop(lua, 1))
        count++;
    for (size_t left = count; left; left /= 2)
        cost++;
    sandbox_pay(lua, count * cost);
    struct sorted_key *keys = lua_newuserdatauv(lua, (count ? count : 1) * sizeof *keys, 0);
    count = 0;
    for (lua_pushnil(lua); lua_next(lua, 1); lua_pop(lua, 1))
        keys[count++] = key_of(lua, -2);
    sort_keys(keys, count);
    lua_pushvalue(lua, 1);
    lua_createtable(lua, count < 1 << 24 ? (int)count : 0, 0);
    for (size_t i = 0; i < count; i++) {
        push_key(lua, &keys[i]);
        lua_rawseti(lua, -2, (lua_Integer)i + 1);
    }
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_pair, 3);
    return 1;
}

/* -- Output --------------------------------------------------------------------------------------------------------- */

/* The output outlives the contract: what changes it is not interrupted. */
static void put_text(struct bytes *out, const char *text) {
    interrupt_hold();
    json_put_text(out, text);
    interrupt_release();
}

static void put_string(struct bytes *out, const char *text, size_t size) {
    interrupt_hold();
    json_put(out, text, size);
    interrupt_release();
}

static void value_to_json(lua_State *lua, struct bytes *out, int depth);

/* 1, 2, ... n and nothing else: a list.  Other tables by string keys in order. */
static void table_to_json(lua_State *lua, struct bytes *out, int depth) {
    lua_Integer length = 0, largest = 0; /* lua_rawlen has several answers if there are holes */
    bool list = true;
    for (lua_pushnil(lua); lua_next(lua, -2); lua_pop(lua, 1), length++) {
        lua_Integer key = lua_isinteger(lua, -2) ? lua_tointeger(lua, -2) : 0;
        list &= key > 0;
        largest = key > largest ? key : largest;
    }
    list &= largest == length; /* so many different ones from 1 to there: all of them */
    put_text(out, list ? "[" : "{");
    if (list) {
        for (lua_Integer i = 1; i <= length; i++) {
            put_text(out, i > 1 ? "," : "");
            lua_rawgeti(lua, -1, i);
            value_to_json(lua, out, depth + 1);
            lua_pop(lua, 1);
        }
    } else {
        lua_pushcfunction(lua, sandbox_pairs);
        lua_pushvalue(lua, -2);
        lua_call(lua, 1, 1);
        for (bool first = true;; first = false) {
            size_t size;
            lua_pushvalue(lua, -1);
            lua_call(lua, 0, 2);
            if (lua_isnil(lua, -2))
                break;
            if (lua_type(lua, -2) != LUA_TSTRING)
                luaL_error(lua, "a result's keys must be strings, or 1 to n");
            const char *key = lua_tolstring(lua, -2, &size);
            if (!text_is_utf8(key, size))
                luaL_error(lua, "a result's keys must be UTF-8");
            put_text(out, first ? "" : ",");
            put_string(out, key, size);
            put_text(out, ":");
            value_to_json(lua, out, depth + 1);
            lua_pop(lua, 2);
        }
        lua_pop(lua, 3);
    }
    put_text(out, list ? "]" : "}");
}

static void value_to_json(lua_State *lua, struct bytes *out, int depth) {
    size_t size;
    const char *text;
    char number[32] = "null";
    luaL_checkstack(lua, 8, "a result is nested too deep");
    if (depth > SANDBOX_DEPTH_MAX || out->size > SANDBOX_OUTPUT_MAX)
        luaL_error(lua, "a result is too large or nested too deep");
    switch (lua_type(lua, -1)) {
    case LUA_TNIL: put_text(out, "null"); break;
    case LUA_TBOOLEAN: put_text(out, lua_toboolean(lua, -1) ? "true" : "false"); break;
    case LUA_TNUMBER:
        if (lua_isinteger(lua, -1))
            snprintf(number, sizeof number, "%" PRId64, (int64_t)lua_tointeger(lua, -1));
        else if (isfinite(lua_tonumber(lua, -1)))
            snprintf(number, sizeof number, "%.17g", lua_tonumber(lua, -1));
        put_text(out, number);
        break;
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &size);
        put_string(out, text, size);
        break;
    case LUA_TTABLE: table_to_json(lua, out, depth); break;
    default: luaL_error(lua, "a result must not hold a %s", luaL_typename(lua, -1));
    }
}

void sandbox_to_json(lua_State *lua, struct bytes *out) {
    value_to_json(lua, out, 0);
    if (out->failed) {
        sandbox_of(lua)->error = -ENOMEM;
        sandbox_of(lua)->ended = true;
    }
}
