/* sandbox_gc.c - garbage is collected so that no contract can see it.
 *
 * What.   A metatable's __mode makes tables weak, and what is gone from them says when garbage was collected.  setmetatable refuses it, but it may be put into the
 *         metatable afterwards, by an assignment that nobody sees.
 * How.    All metatables are known: a table of ours, weak itself, has each as a key.  Before collecting, a __mode that is a string is taken out of each (into that
 *         table) and false put in its place, which means nothing; afterwards it is put back.  No instruction of the contract is between.
 * Not     a failure when there is one: whether it is found would depend on when garbage is collected.
 */
#include "sandbox.h"

static const char set = 0; /* its address is the key in the registry */

void sandbox_gc_begin(lua_State *lua) {
    lua_gc(lua, LUA_GCSTOP);
    sandbox_of(lua)->collect_at = sandbox_of(lua)->most / 4;
    lua_newtable(lua);
    lua_createtable(lua, 0, 1);
    lua_pushliteral(lua, "k");
    lua_setfield(lua, -2, "__mode");
    lua_setmetatable(lua, -2);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &set);
}

void sandbox_gc_watch(lua_State *lua) {
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &set);
    lua_pushvalue(lua, -2);
    lua_pushboolean(lua, 1);
    lua_rawset(lua, -3);
    lua_pop(lua, 1);
}

/* For each metatable, at -2, what is kept of it, at -1. */
static void each(lua_State *lua, void (*change)(lua_State *lua)) {
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &set);
    for (lua_pushnil(lua); lua_next(lua, -2); lua_pop(lua, 1))
        change(lua);
    lua_pop(lua, 1);
}

/* Of fields that are there: nothing is allocated. */
static void take_mode(lua_State *lua) {
    lua_pushliteral(lua, "__mode");
    if (lua_rawget(lua, -3) == LUA_TSTRING) {
        lua_pushliteral(lua, "__mode");
        lua_pushboolean(lua, 0);
        lua_rawset(lua, -5);
        lua_pushvalue(lua, -3); /* the metatable */
        lua_insert(lua, -2);
        lua_rawset(lua, -5); /* set[metatable] = mode */
    } else {
        lua_pop(lua, 1);
    }
}

static void give_mode(lua_State *lua) {
    if (lua_type(lua, -1) != LUA_TSTRING)
        return;
    lua_pushliteral(lua, "__mode");
    lua_pushvalue(lua, -2);
    lua_rawset(lua, -4);
    lua_pushvalue(lua, -2);
    lua_pushboolean(lua, 1);
    lua_rawset(lua, -5);
}

/* Again when there is twice as much, or half of what is left is used. */
void sandbox_gc_look(lua_State *lua) {
    struct sandbox *box = sandbox_of(lua);
    if (box->used < box->collect_at || box->ended || !lua_checkstack(lua, 8))
        return;
    each(lua, take_mode);
    lua_gc(lua, LUA_GCCOLLECT);
    each(lua, give_mode);
    size_t twice = 2 * box->used, half = box->used + (box->most - box->used) / 2, least = box->most / 32;
    box->collect_at = twice < box->most / 4 ? box->most / 4 : twice < half ? twice : half;
    if (box->collect_at < box->used + least) /* near the end it is not worth the time */
        box->collect_at = box->used + least;
}
