/* methods.c - what can be asked: the table of methods, and those about the node as a whole. */
#include <stdio.h>
#include <weft/runtime.h>

#include "node.h"

static void node_info(struct rpc_call *call) {
    struct node *node = call->node;
    struct text *out = call->out;
    weft_block_env env;
    weft_lane *lane = ledger_lane(node->ledger);
    weft_lane_env(lane, &env);
    text_put(out, "{");
    text_name_string(out, "version", weft_version());
    text_name_string(out, "address", node->address);
    text_name_string(out, "store", node->dir ? node->dir : "memory");
    text_name_u64(out, "uptime_ms", (uint64_t)(weft_now() - node->started) / 1000000);
    text_name_u64(out, "shard_workers", weft_lane_workers(lane));
    text_name_u64(out, "workers", weft_runtime_workers(weft_runtime_current()));
    text_name(out, "token_needed");
    text_put(out, node->auth.needed ? "true" : "false");
    text_name(out, "stopping");
    text_put(out, load_relaxed(&node->stopping) ? "true" : "false"); /* alone */
    text_name(out, "limits");
    text_format(out, "{\"body\":%d,\"batch\":%d,\"depth\":%d,\"txs\":%d}", NODE_BODY, RPC_BATCH, RPC_DEPTH,
                NODE_SUBMIT);
    text_name(out, "context");
    text_put(out, "{");
    text_name_u64(out, "number", env.number);
    text_name_u64(out, "timestamp", env.timestamp);
    text_name_u64(out, "gas_price", env.gas_price);
    text_name_u64(out, "blob_gas_price", env.blob_gas_price);
    text_name_hex(out, "sequencer", env.sequencer, sizeof env.sequencer);
    text_name_u64(out, "version", env.version);
    text_name_u64(out, "updates", load_relaxed(&node->context.updates));
    text_name_u64(out, "failures", load_relaxed(&node->context.failures));
    text_name(out, "last_failure");
    wefti_lock_take(&node->context.lock);
    text_json(out, node->context.why, strlen(node->context.why));
    wefti_lock_give(&node->context.lock);
    text_put(out, "}}");
}

static void node_metrics(struct rpc_call *call) { node_metrics_json(call->node, call->out); }

/* A stream cannot be the answer to a request: say where it is. */
static void events_subscribe(struct rpc_call *call) {
    const char *shard = NULL;
    if (call->params[0] && !node_param_shard(call, 0, &shard))
        return;
    text_put(call->out, "{\"transport\":\"server-sent events\",\"method\":\"GET\",\"url\":\"/events");
    if (shard) {
        text_put(call->out, "?shard=");
        for (const char *at = shard; *at; at++)
            if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
                strchr("-._~", *at))
                text_add(call->out, at, 1);
            else
                text_format(call->out, "%%%02X", (unsigned char)*at);
    }
    text_put(call->out, "\",\"events\":[\"block\",\"failed\",\"stats\",\"missed\"]}");
}

static const struct rpc_method methods[] = {
    {"node_info", false, node_info, {{0}}},
    {"node_metrics", false, node_metrics, {{0}}},
    {"shard_list", false, node_shard_list, {{"prefix", RPC_STRING}, {"after", RPC_STRING}, {"limit", RPC_UINT}}},
    {"shard_status", false, node_shard_status, {{"shard", RPC_STRING | RPC_REQUIRED}}},
    {"shard_restart", true, node_shard_restart, {{"shard", RPC_STRING | RPC_REQUIRED}}},
    {"tx_submit",
     true,
     node_tx_submit,
     {{"shard", RPC_STRING | RPC_REQUIRED}, {"tx", RPC_OBJECT}, {"txs", RPC_ARRAY}, {"wait_ms", RPC_UINT}}},
    {"tx_status", false, node_tx_status, {{"shard", RPC_STRING | RPC_REQUIRED}, {"tx", RPC_STRING | RPC_REQUIRED}}},
    {"receipt_get", false, node_receipt_get, {{"shard", RPC_STRING | RPC_REQUIRED}, {"tx", RPC_STRING | RPC_REQUIRED}}},
    {"block_get", false, node_block_get, {{"shard", RPC_STRING | RPC_REQUIRED}, {"number", RPC_UINT}}},
    {"state_get", false, node_state_get, {{"shard", RPC_STRING | RPC_REQUIRED}, {"key", RPC_ANY | RPC_REQUIRED}}},
    {"trace_get", false, node_trace_get, {{"shard", RPC_STRING | RPC_REQUIRED}, {"tx", RPC_STRING | RPC_REQUIRED}}},
    {"nonce_get", false, node_nonce_get, {{"shard", RPC_STRING | RPC_REQUIRED}, {"sender", RPC_STRING | RPC_REQUIRED}}},
    {"events_subscribe", false, events_subscribe, {{"shard", RPC_STRING}}},
};
_Static_assert(sizeof methods / sizeof *methods <= METER_METHODS, "the meter counts them all");

static bool may_write(void *node, void *peer) {
    return !((struct node *)node)->auth.needed || ((struct node_peer *)peer)->may_write;
}

static void counted(void *node, int method, int code) { meter_answered(&((struct node *)node)->meter, method, code); }

const struct rpc_service node_service = {methods, sizeof methods / sizeof *methods, may_write, counted};
