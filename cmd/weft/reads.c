/* reads.c - methods about shards, transactions, blocks and state. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/blocking.h>

#include "node.h"
#include "submit.h"
#include "tx.h"

/* -- Parameters --------------------------------------------------------------------------------------- */

/* No zero byte in it. */
static bool text_is_whole(const json_t *text) { return strlen(json_string_value(text)) == json_string_length(text); }

/* A string without a zero byte, or none. */
static bool param_is_whole(struct rpc_call *call, int param) {
    if (!call->params[param] || text_is_whole(call->params[param]))
        return true;
    rpc_fail(call, RPC_INVALID, "Invalid params: '%s' has a zero byte", call->method->params[param].name);
    return false;
}

bool node_param_hash(struct rpc_call *call, int param, hash32 *out) {
    const char *text = json_string_value(call->params[param]);
    text += strncmp(text, "0x", 2) ? 0 : 2;
    if (text_is_whole(call->params[param]) && strlen(text) == 64 && hash_from_text(text, out))
        return true;
    rpc_fail(call, RPC_INVALID, "Invalid params: '%s' must be a hash of 64 digits", call->method->params[param].name);
    return false;
}

bool node_param_shard(struct rpc_call *call, int param, const char **out) {
    *out = json_string_value(call->params[param]);
    if (text_is_whole(call->params[param]) && shard_name_is_valid(*out))
        return true;
    rpc_fail(call, RPC_INVALID, "Invalid params: a shard's name has 1 to %d bytes, without control characters",
             NODE_NAME);
    return false;
}

weft_shard *node_known_shard(struct rpc_call *call, int param) {
    struct node *node = call->node;
    const char *name;
    if (!node_param_shard(call, param, &name))
        return NULL;
    weft_shard *shard = weft_shard_find(ledger_lane(node->ledger), name);
    if (!shard)
        rpc_fail(call, RPC_INVALID, "Shard not found");
    return shard;
}

static const char *param_text(struct rpc_call *call, int param) { return json_string_value(call->params[param]); }

static void fail_read(struct rpc_call *call, int error) {
    if (error == -EIO || error == -EBADMSG)
        rpc_fail(call, RPC_STOPPED, "Shard stopped: its storage %s", error == -EIO ? "cannot be read" : "is damaged");
    else
        rpc_fail(call, RPC_INTERNAL, "Internal error: %s", weft_strerror(error));
}

/* -- Shards ------------------------------------------------------------------------------------------- */

const char *node_state_name(weft_shard_state state) {
    static const char *const names[] = {"idle", "pending", "running", "stopped"};
    return names[state];
}

void node_shard_json(weft_shard *shard, struct text *out) {
    weft_shard_info info;
    ledger_shard_info(shard, &info);
    text_put(out, "{");
    text_name_string(out, "shard", info.name);
    text_name_string(out, "state", node_state_name(info.state));
    text_name_u64(out, "pooled", info.pooled);
    text_name_u64(out, "block", info.block);
    text_name_u64(out, "committed", info.committed);
    text_name_u64(out, "failed", info.failed);
    text_name_u64(out, "turns", info.turns);
    text_name_u64(out, "cycles", info.cycles);
    text_put(out, "}");
}

/* Those of a list, by name: the first `most` behind `after`. */
struct listing {
    const char *prefix, *after;
    weft_shard **shards;
    const char **names;
    size_t count, room, all;
    bool failed;
};

static void visit(weft_shard *shard, void *arg) {
    struct listing *list = arg;
    weft_shard_info info;
    weft_shard_info_read(shard, &info);
    list->all++;
    if ((list->prefix && strncmp(info.name, list->prefix, strlen(list->prefix)) != 0) ||
        (list->after && strcmp(info.name, list->after) <= 0))
        return;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        weft_shard **shards = realloc(list->shards, room * sizeof *shards);
        if (!shards) {
            list->failed = true;
            return;
        }
        list->shards = shards;
        list->room = room;
    }
    list->shards[list->count++] = shard;
}

static int by_name(const void *a, const void *b) {
    weft_shard_info one, two;
    weft_shard_info_read(*(weft_shard *const *)a, &one);
    weft_shard_info_read(*(weft_shard *const *)b, &two);
    return strcmp(one.name, two.name);
}

void node_shard_list(struct rpc_call *call) {
    struct node *node = call->node;
    size_t limit = call->params[2] ? (size_t)json_integer_value(call->params[2]) : 100;
    struct listing list = {.prefix = param_text(call, 0), .after = param_text(call, 1)};
    if (limit == 0 || limit > NODE_LIST) {
        rpc_fail(call, RPC_INVALID, "Invalid params: 'limit' is 1 to %d", NODE_LIST);
        return;
    }
    if (!param_is_whole(call, 0) || !param_is_whole(call, 1))
        return;
    weft_shard_each(ledger_lane(node->ledger), visit, &list);
    if (list.failed)
        rpc_fail(call, RPC_INTERNAL, "Internal error: no memory");
    if (list.count)
        qsort(list.shards, list.count, sizeof *list.shards, by_name);
    text_put(call->out, "{");
    text_name_u64(call->out, "total", list.all);
    text_name(call->out, "more");
    text_put(call->out, list.count > limit ? "true" : "false");
    text_name(call->out, "shards");
    text_put(call->out, "[");
    for (size_t i = 0; i < list.count && i < limit; i++) {
        text_put(call->out, i ? "," : "");
        node_shard_json(list.shards[i], call->out);
    }
    text_put(call->out, "]}");
    free(list.shards);
}

void node_shard_status(struct rpc_call *call) {
    weft_shard *shard = node_known_shard(call, 0);
    if (shard)
        node_shard_json(shard, call->out);
}

struct restart {
    struct node *node;
    const char *shard;
};

static int restart(void *arg) {
    struct restart *restart = arg;
    return ledger_shard_restart(restart->node->ledger, restart->shard);
}

/* It reads the disk: on a thread that may block. */
void node_shard_restart(struct rpc_call *call) {
    struct restart job = {call->node, NULL};
    int result = 0;
    weft_shard *shard = node_known_shard(call, 0);
    if (!shard)
        return;
    job.shard = param_text(call, 0);
    int error = weft_blocking(restart, &job, &result, WEFT_NEVER);
    error = error ? error : result;
    switch (error) {
    case 0: node_shard_json(shard, call->out); break;
    case -EAGAIN:
        rpc_fail(call, RPC_FULL, "Its last turn has not ended: try again later");
        snprintf(call->data, sizeof call->data, "{\"retry_after_ms\":100}");
        break;
    case -ENOTRECOVERABLE: rpc_fail(call, RPC_STOPPED, "Shard stopped: only a restart of the node helps"); break;
    case -EBADMSG: rpc_fail(call, RPC_STOPPED, "Shard stopped: its store is damaged"); break;
    case -ESHUTDOWN: rpc_fail(call, RPC_ENDING, "Shutting down"); break;
    default: rpc_fail(call, RPC_STOPPED, "Shard stopped: %s", weft_strerror(error)); break;
    }
}

/* -- Transactions ------------------------------------------------------------------------------------- */

static const char *const status_names[] = {"unknown", "pending", "ok", "failed", "refused"};

static void put_refusal(struct node *node, const char *shard, const hash32 *tx, enum tx_status status,
                        struct text *out) {
    const char *why = status == TX_REFUSED ? ledger_refusal(node->ledger, shard, tx) : "";
    if (*why)
        text_name_string(out, "reason", why);
}

void node_tx_status(struct rpc_call *call) {
    struct node *node = call->node;
    hash32 tx;
    enum tx_status status;
    if (!node_known_shard(call, 0) || !node_param_hash(call, 1, &tx))
        return;
    int error = ledger_tx_look(node->ledger, param_text(call, 0), &tx, &status);
    if (error)
        return fail_read(call, error);
    text_put(call->out, "{");
    text_name_string(call->out, "status", status_names[status]);
    put_refusal(node, param_text(call, 0), &tx, status, call->out);
    text_put(call->out, "}");
}

static void put_receipt(void *arg, const struct ledger_receipt *receipt) {
    struct text *out = arg;
    text_put(out, "{");
    text_name_hex(out, "tx", receipt->tx.bytes, sizeof receipt->tx.bytes);
    text_name_string(out, "status", status_names[receipt->status]);
    text_name_u64(out, "block", receipt->block);
    text_name_u64(out, "index", receipt->index);
    text_name_u64(out, "gas", receipt->gas);
    if (*receipt->reason)
        text_name_string(out, "reason", receipt->reason);
    if (receipt->output_size) { /* JSON already */
        text_name(out, "output");
        text_add(out, receipt->output, receipt->output_size);
    }
    text_put(out, "}");
}

void node_put_receipt(struct node *node, const char *shard, const hash32 *tx, struct text *out) {
    size_t before = out->size;
    if (ledger_receipt_get(node->ledger, shard, tx, put_receipt, out) == 0 && out->size > before)
        return;
    out->size = before;
    text_put(out, "{");
    text_name_hex(out, "tx", tx->bytes, sizeof tx->bytes);
    enum tx_status status = ledger_tx_status(node->ledger, shard, tx);
    text_name_string(out, "status", status_names[status]);
    put_refusal(node, shard, tx, status, out);
    text_put(out, "}");
}

void node_receipt_get(struct rpc_call *call) {
    struct node *node = call->node;
    hash32 tx;
    if (!node_known_shard(call, 0) || !node_param_hash(call, 1, &tx))
        return;
    int error = ledger_receipt_get(node->ledger, param_text(call, 0), &tx, put_receipt, call->out);
    if (error == -ENOENT)
        text_put(call->out, "null");
    else if (error)
        fail_read(call, error);
}

static void put_step(struct text *out, const struct ledger_step *step) {
    text_put(out, "{");
    text_name_string(out, "kind", step->kind);
    if (step->key) {
        text_name(out, "key");
        text_bytes(out, step->key, step->key_size);
    }
    if (step->value) {
        text_name(out, "value");
        text_bytes(out, step->value, step->value_size);
    }
    text_put(out, "}");
}

static void put_trace(void *arg, const struct ledger_step *steps, size_t count) {
    struct text *out = arg;
    text_put(out, "[");
    for (size_t i = 0; i < count; i++) {
        text_put(out, i ? "," : "");
        put_step(out, &steps[i]);
    }
    text_put(out, "]");
}

void node_trace_get(struct rpc_call *call) {
    struct node *node = call->node;
    hash32 tx;
    if (!node_known_shard(call, 0) || !node_param_hash(call, 1, &tx))
        return;
    int error = ledger_trace_get(node->ledger, param_text(call, 0), &tx, put_trace, call->out);
    if (error == -ENOENT)
        text_put(call->out, "null");
    else if (error)
        fail_read(call, error);
}

void node_nonce_get(struct rpc_call *call) {
    struct node *node = call->node;
    if (!node_known_shard(call, 0) || !param_is_whole(call, 1))
        return;
    uint64_t used, next;
    int error = ledger_nonces(node->ledger, param_text(call, 0), param_text(call, 1), &used, &next);
    if (error == -EINVAL)
        used = 0, next = 1; /* longer than a sender can be */
    else if (error)
        return fail_read(call, error);
    text_put(call->out, "{");
    text_name_u64(call->out, "nonce", used);
    text_name_u64(call->out, "next", next);
    text_put(call->out, "}");
}

/* -- Blocks and state --------------------------------------------------------------------------------- */

static void put_block(void *arg, const struct ledger_block *block, const hash32 *txs) {
    struct text *out = arg;
    text_put(out, "{");
    text_name_u64(out, "number", block->number);
    text_name_hex(out, "hash", block->hash.bytes, 32);
    text_name_hex(out, "parent", block->parent.bytes, 32);
    text_name_u64(out, "time", block->time);
    text_name_u64(out, "failed", block->failed);
    text_name_u64(out, "writes", block->writes);
    text_name(out, "env");
    text_put(out, "{");
    text_name_u64(out, "number", block->env.number);
    text_name_u64(out, "timestamp", block->env.timestamp);
    text_name_u64(out, "gas_price", block->env.gas_price);
    text_name_u64(out, "blob_gas_price", block->env.blob_gas_price);
    text_name_hex(out, "sequencer", block->env.sequencer, 32);
    text_put(out, "}");
    text_name(out, "txs");
    text_put(out, "[");
    for (uint32_t i = 0; i < block->txs; i++) {
        text_put(out, i ? ",\"" : "\"");
        text_hex(out, txs[i].bytes, 32);
        text_put(out, "\"");
    }
    text_put(out, "]}");
}

void node_block_get(struct rpc_call *call) {
    struct node *node = call->node;
    uint64_t number = call->params[1] ? (uint64_t)json_integer_value(call->params[1]) : 0;
    if (!node_known_shard(call, 0))
        return;
    int error = call->params[1] && !number ? -ENOENT : /* the ledger's 0 is the last, but none has this number */
                    ledger_block_get(node->ledger, param_text(call, 0), number, put_block, call->out);
    if (error == -ENOENT)
        text_put(call->out, "null");
    else if (error)
        fail_read(call, error);
}

static void put_value(void *arg, const void *value, size_t size) { text_bytes(arg, value, size); }

void node_state_get(struct rpc_call *call) {
    struct node *node = call->node;
    struct bytes key = {0};
    char why[80];
    if (!node_known_shard(call, 0))
        return;
    int error = submit_bytes(call->params[1], &key, why, sizeof why);
    if (error || key.size > NODE_KEY)
        rpc_fail(call, RPC_INVALID, "Invalid params: 'key' %s", error ? why : "is too long");
    else if ((error = ledger_state_get(node->ledger, param_text(call, 0), key.data ? (void *)key.data : "", key.size,
                                       put_value, call->out)) == -ENOENT)
        text_put(call->out, "null");
    else if (error)
        fail_read(call, error);
    bytes_free(&key);
}
