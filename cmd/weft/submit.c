/* submit.c - tx_submit: into the pool first, then scheduled; and waiting for receipts, for those who want to. */
#include "submit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/blocking.h>

#include "node.h"
#include "tx.h"

#define MS INT64_C(1000000)
#define LOOK (250 * MS) /* a transaction that is refused is in no block, so nobody tells of it */

/* A request's transactions. */
struct submission {
    struct bytes bytes; /* of all of them */
    weft_tx *txs;
    hash32 *ids;
    struct waiter *waiters;
    size_t count;
};

static int decode_all(struct rpc_call *call, struct submission *all) {
    json_t *one = call->params[1], *many = call->params[2];
    char why[120] = "";
    if (!one == !many) {
        rpc_fail(call, RPC_INVALID, "Invalid params: either 'tx' or 'txs'");
        return -EINVAL;
    }
    all->count = one ? 1 : json_array_size(many);
    if (all->count == 0 || all->count > NODE_SUBMIT) {
        rpc_fail(call, RPC_INVALID, "Invalid params: 'txs' holds 1 to %d transactions", NODE_SUBMIT);
        return -EINVAL;
    }
    all->txs = malloc(all->count * sizeof *all->txs);
    all->ids = malloc(all->count * sizeof *all->ids);
    if (!all->txs || !all->ids)
        return -ENOMEM;
    for (size_t i = 0; i < all->count; i++) {
        size_t before = all->bytes.size;
        int error = submit_tx(one ? one : json_array_get(many, i), &all->bytes, why, sizeof why);
        if (error == -ENOMEM)
            return error;
        if (error) {
            rpc_fail(call, RPC_INVALID, "Invalid params: transaction %zu: %s", i, why);
            return error;
        }
        all->txs[i] = (weft_tx){.size = all->bytes.size - before};
    }
    for (size_t i = 0, at = 0; i < all->count; at += all->txs[i++].size) /* now that they do not move any more */
        all->txs[i].data = all->bytes.data + at;
    return 0;
}

struct job {
    struct node *node;
    const char *shard;
    struct submission *all;
    char *why;
    size_t room;
};

static int submit(void *arg) {
    struct job *job = arg;
    return ledger_submit(job->node->ledger, job->shard, job->all->txs, job->all->count, job->all->ids, job->why,
                         job->room);
}

/* Making a shard waits for the disk, so a thread that may block does it; into one that is there it takes microseconds. */
static int submit_all(struct job *job) {
    int result, error;
    if (weft_shard_find(ledger_lane(job->node->ledger), job->shard))
        return submit(job);
    error = weft_blocking(submit, job, &result, WEFT_NEVER);
    return error ? error : result;
}

static void fail_submit(struct rpc_call *call, int error, const char *why) {
    switch (error) {
    case -EAGAIN:
        rpc_fail(call, RPC_FULL, "Pool full: try again later");
        snprintf(call->data, sizeof call->data, "{\"retry_after_ms\":100}");
        break;
    case -EINVAL: rpc_fail(call, RPC_INVALID, "Invalid params: %s", *why ? why : "not a transaction"); break;
    case -EALREADY: rpc_fail(call, RPC_REPLAY, "Replay: %s", *why ? why : "taken before, or its nonce is used"); break;
    case -EIO: rpc_fail(call, RPC_STOPPED, "Shard stopped: its storage failed"); break;
    case -EUSERS: rpc_fail(call, RPC_SHARDS, "Too many shards"); break;
    case -ENOSPC:
        rpc_fail(call, RPC_FULL, "No room on the disk for the shard: try again later");
        snprintf(call->data, sizeof call->data, "{\"retry_after_ms\":1000}");
        break;
    case -ESHUTDOWN: rpc_fail(call, RPC_ENDING, "Shutting down"); break;
    default: rpc_fail(call, RPC_INTERNAL, "Internal error: %s", *why ? why : weft_strerror(error)); break;
    }
}

/* -- Waiting ------------------------------------------------------------------------------------------ */

static bool is_decided(struct node *node, const char *shard, const hash32 *tx) {
    enum tx_status status = ledger_tx_status(node->ledger, shard, tx);
    return status == TX_OK || status == TX_FAILED || status == TX_REFUSED;
}

static void wait_for_blocks(struct node *node, const char *shard, struct submission *all, int64_t ns) {
    weft_group left = WEFT_GROUP_INIT;
    weft_deadline until = weft_after(ns);
    all->waiters = calloc(all->count, sizeof *all->waiters);
    if (!all->waiters)
        return; /* what they are will be said all the same */
    waiters_add(&node->waiters, all->waiters, all->ids, all->count, &left);
    for (;;) {
        for (size_t i = 0; i < all->count; i++)
            if (is_decided(node, shard, &all->ids[i]))
                waiters_remove(&node->waiters, &all->waiters[i]);
        weft_deadline look = weft_after(LOOK);
        int error = weft_group_wait(&left, look < until ? look : until);
        if (error != -ETIMEDOUT || weft_now() >= until)
            break;
    }
    for (size_t i = 0; i < all->count; i++)
        waiters_remove(&node->waiters, &all->waiters[i]);
    weft_group_destroy(&left);
    free(all->waiters);
}

/* -- The method --------------------------------------------------------------------------------------- */

static void put_ids(struct rpc_call *call, const struct submission *all) {
    struct text *out = call->out;
    text_put(out, "{\"txs\":[");
    for (size_t i = 0; i < all->count; i++) {
        text_put(out, i ? ",\"" : "\"");
        text_hex(out, all->ids[i].bytes, sizeof all->ids[i].bytes);
        text_put(out, "\"");
    }
    text_put(out, "]}");
}

static void put_receipts(struct rpc_call *call, const char *shard, const struct submission *all) {
    text_put(call->out, "{\"receipts\":[");
    for (size_t i = 0; i < all->count; i++) {
        text_put(call->out, i ? "," : "");
        node_put_receipt(call->node, shard, &all->ids[i], call->out);
    }
    text_put(call->out, "]}");
}

void node_tx_submit(struct rpc_call *call) {
    struct node *node = call->node;
    struct submission all = {0};
    const char *shard;
    char why[160] = "";
    int64_t wait = call->params[3] ? json_integer_value(call->params[3]) : 0;
    if (!node_param_shard(call, 0, &shard))
        return;
    if (wait > NODE_WAIT) {
        rpc_fail(call, RPC_INVALID, "Invalid params: 'wait_ms' is at most %d", NODE_WAIT);
        return;
    }
    int error = decode_all(call, &all);
    int64_t when = weft_now();
    struct job job = {node, shard, &all, why, sizeof why};
    if (!error && !(error = submit_all(&job)))
        meter_submitted(&node->meter, all.ids, all.count, when);
    if (error && !call->code)
        fail_submit(call, error, why);
    if (!error && wait)
        wait_for_blocks(node, shard, &all, wait * MS);
    if (!error)
        wait ? put_receipts(call, shard, &all) : put_ids(call, &all);
    bytes_free(&all.bytes);
    free(all.txs);
    free(all.ids);
}
