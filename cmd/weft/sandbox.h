/* sandbox.h - a Lua 5.4 state for one call of a contract: bounded, metered, and the same everywhere.
 *
 * Bounds.  Every instruction costs 1 gas, every 16 bytes of a new object 1, some functions more by their arguments' size, compiling by the source's words.
 *          When the gas or memory is used up the call ends; pcall does not catch that. Strings have at most STRING_MAX bytes.
 * Time.    A few instructions may take thousands of times as long as others: chains of __index or __call, comparing strings of zero bytes, pairs of a table
 *          that was large. Lua does not say how long, so gas cannot. A call that has used lua_time of a CPU, compiling included, is interrupted (interrupt.h),
 *          also inside one instruction or C function; so is a call when the node ends.
 * Same.    No time, no randomness, no addresses: pairs goes in order of keys, sort is stable, tostring of a table is "table"; no coroutines, patterns,
 *          finalizers, weak tables, load, string.dump.  Text only: bytecode is refused.
 * Garbage. When it is collected must not show.  Lua collects when it likes, so it is told not to, and sandbox_gc.c does it, between two instructions, with no
 *          __mode in any metatable.  When memory is refused Lua collects all the same, but then the call ends, whatever becomes of it.
 * This     node's word: "out of time" and "out of memory" depend on the machine, and on the seed of Lua's hashes.  Gas does not, and is all used then.  The receipt has
 *          it, and whoever plays a chain again goes by the receipt, as by the block's environment (docs/decisions/0022).
 */
#ifndef WEFT_CMD_SANDBOX_H
#define WEFT_CMD_SANDBOX_H

#include <lua.h>

#include "exec.h"

enum {
    SANDBOX_STRING_MAX = 8 * 1024,
    SANDBOX_STEP = 100,      /* instructions between two looks at the gas */
    SANDBOX_LOOKS = 64,      /* of those between two looks at the time */
    SANDBOX_CLASSES = 32,    /* of small blocks of memory */
    SANDBOX_DEPTH_MAX = 16,  /* of tables in an output */
    SANDBOX_OUTPUT_MAX = 64 * 1024,
};

struct sandbox {
    struct exec *exec;
    size_t used, most; /* bytes */
    size_t fresh;      /* bytes given since the last look: to be paid for */
    int error;         /* this node cannot go on */
    bool ended;        /* out of gas or memory, or error: nothing catches that */
    bool full;         /* out of memory */
    unsigned looks;    /* at the gas */
    size_t collect_at; /* bytes */
    /* sandbox_memory.c's */
    struct sandbox_block *blocks; /* all that the heap gave */
    struct free_block *freed[SANDBOX_CLASSES];
    unsigned char *fresh_at, *fresh_end; /* of the newest chunk */
    size_t chunks;
};

/* Does it compile? 0, 1 and the reason, or an error of this node: -ENOMEM, -ECANCELED (the node ends). */
int sandbox_compiles(struct exec *exec, const char *source, size_t size);
/* Run the chunk, then the function that the transaction names. As above, or another error of this node. */
int sandbox_call(struct exec *exec, const char *source, size_t size);

/* The sandbox of a state. */
struct sandbox *sandbox_of(lua_State *lua);
/* Pay, or end the call: then it does not return. */
void sandbox_pay(lua_State *lua, uint64_t gas);

/* -- sandbox_memory.c ------------------------------------------------------------------------------------------------- */
void *sandbox_allocate(void *box, void *memory, size_t old, size_t size); /* lua_Alloc */
void sandbox_memory_free(struct sandbox *box);

/* -- lua.c ------------------------------------------------------------------------------------------------------------ */
size_t contract_key(const struct sandbox *box, const char *rest, size_t size, char key[STATE_KEY_MAX]);

/* -- sandbox_lib.c: what a contract sees --------------------------------------------------------------------------------- */
void sandbox_open_libs(lua_State *lua);

/* -- sandbox_gc.c: the only one who collects garbage -------------------------------------------------------------------- */
void sandbox_gc_begin(lua_State *lua); /* may fail, as any of Lua */
/* The table at the top becomes somebody's metatable. */
void sandbox_gc_watch(lua_State *lua);
/* If it is time. */
void sandbox_gc_look(lua_State *lua);

/* -- sandbox_order.c ------------------------------------------------------------------------------------------------------ */
int sandbox_pairs(lua_State *lua); /* a function for Lua: pairs(table) */
/* The value at the top as JSON. */
void sandbox_to_json(lua_State *lua, struct bytes *out);

#endif
