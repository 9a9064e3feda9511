/* exec.h - one transaction while it runs: what an executor may do.
 *
 * An executor's function returns 0 when the transaction is done, 1 when it failed (exec_fail gave the reason: its writes are undone), or a negative
 * error when this node cannot go on with the batch (no memory, a damaged store).  It must depend on nothing but what it gets here.
 */
#ifndef WEFT_CMD_EXEC_H
#define WEFT_CMD_EXEC_H

#include "block.h"
#include "chunks.h"
#include "overlay.h"
#include "tx.h"

enum {
    STATE_KEY_MAX = 400,
    STATE_VALUE_MAX = 64 * 1024,
    TRACE_MAX = 1 << 20, /* bytes of a transaction in its block */
    /* What things cost. */
    GAS_TX = 10,
    GAS_READ = 10,
    GAS_WRITE = 20,
    GAS_BYTES = 16, /* so many bytes of a key, value, event or output: 1 */
};

struct exec {
    struct overlay *overlay;
    struct block_maker *block; /* the trace goes there */
    const struct tx *tx;
    const weft_block_env *env;
    const _Atomic bool *ending; /* set: the node ends, and what may take long returns -ECANCELED */
    uint64_t number;      /* of the block */
    uint64_t gas, limit;  /* used, and at most */
    struct chunks *chunks; /* compiled contracts */
    size_t lua_memory;
    int64_t lua_time; /* ns */
    struct bytes output;  /* JSON text */
    char reason[160];     /* of a failure */
};

/* True: paid.  False: out of gas; the reason is set, and the executor must return 1. */
bool exec_pay(struct exec *exec, uint64_t gas);
/* Set the reason; returns 1. */
__attribute__((format(printf, 2, 3))) int exec_fail(struct exec *exec, const char *format, ...);

/* State, paid for and traced.  get: 2 and the value (valid until the next call), 0 if there is none, 1 and negative as above; put and del: 0, 1, negative. */
enum { EXEC_FOUND = 2 };
int exec_get(struct exec *exec, const void *key, size_t key_size, const void **value, size_t *size);
int exec_put(struct exec *exec, const void *key, size_t key_size, const void *value, size_t size);
int exec_del(struct exec *exec, const void *key, size_t key_size);
/* kind: STEP_EMIT or STEP_LOG. */
int exec_note(struct exec *exec, enum step_kind kind, const void *key, size_t key_size, const void *value, size_t size);

/* The executors. */
int kv_run(struct exec *exec);
int lua_run(struct exec *exec);

/* -- json.c: text for outputs and exports ---------------------------------------------------------------------------- */
/* As a JSON string; bytes that are no UTF-8 as {"hex":"..."}. */
void json_put(struct bytes *out, const void *data, size_t size);
void json_put_text(struct bytes *out, const char *text); /* as it is */
__attribute__((format(printf, 2, 3))) void json_format(struct bytes *out, const char *format, ...);

#endif
