/* node.h - the node: a ledger, and all that it shows to the outside. */
#ifndef WEFT_CMD_NODE_H
#define WEFT_CMD_NODE_H

#include "auth.h"
#include "context.h"
#include "feed.h"
#include "ledger.h"
#include "meter.h"
#include "rpc.h"
#include "waiters.h"

enum {
    NODE_SUBMIT = 4096,             /* transactions in one tx_submit */
    NODE_WAIT = 30000,              /* ms that a request may wait for its receipts */
    NODE_LIST = 1000,               /* shards in one shard_list */
    NODE_BODY = 1 << 20,            /* bytes of a request */
    NODE_STACK = 256 << 10,         /* of a connection's fiber; only what it touches costs memory */
};

/* Beyond this a shard's name does not go, nor a key. */
#define NODE_NAME 63
#define NODE_KEY 4096

struct node {
    ledger *ledger;
    struct auth auth;
    struct context context;
    struct feed feed;
    struct meter meter;
    struct waiters waiters;
    _Atomic bool stopping;
    const char *dir; /* NULL: in memory */
    char address[80];
    int64_t started;      /* weft_now() */
    uint64_t started_at;  /* s since 1970 */
};

/* The service of rpc.h: methods.c. */
extern const struct rpc_service node_service;
/* What a request's sender may do: given as `peer`. */
struct node_peer {
    bool may_write;
};

/* web.c: every request. */
int node_handle(weft_http *x, void *node);
/* metrics.c: for Prometheus, and for people. */
void node_metrics_text(struct node *node, struct text *out);
void node_metrics_json(struct node *node, struct text *out);
struct node_totals {
    uint64_t shards, pooled, stopped, running, pending;
};
void node_totals(struct node *node, struct node_totals *out);
void node_shard_json(weft_shard *shard, struct text *out);
const char *node_state_name(weft_shard_state state);

/* submit.c */
void node_tx_submit(struct rpc_call *call);
/* reads.c */
void node_put_receipt(struct node *node, const char *shard, const hash32 *tx, struct text *out);
bool node_param_hash(struct rpc_call *call, int param, hash32 *out);
bool node_param_shard(struct rpc_call *call, int param, const char **out);
/* Does it exist?  Fails the call otherwise. */
weft_shard *node_known_shard(struct rpc_call *call, int param);
void node_shard_list(struct rpc_call *call);
void node_shard_status(struct rpc_call *call);
void node_shard_restart(struct rpc_call *call);
void node_tx_status(struct rpc_call *call);
void node_receipt_get(struct rpc_call *call);
void node_block_get(struct rpc_call *call);
void node_state_get(struct rpc_call *call);
void node_trace_get(struct rpc_call *call);
void node_nonce_get(struct rpc_call *call);
/* page.html, between its nonces. */
extern const unsigned char node_page[];
extern const size_t node_page_size;

#endif
