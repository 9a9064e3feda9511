/* metrics.c - the node's figures: as JSON, and as Prometheus reads them. */
#include "node.h"

static void add_shard(weft_shard *shard, void *arg) {
    struct node_totals *totals = arg;
    weft_shard_info info;
    ledger_shard_info(shard, &info);
    totals->shards++;
    totals->pooled += info.pooled;
    totals->stopped += info.state == WEFT_SHARD_STOPPED;
    totals->running += info.state == WEFT_SHARD_RUNNING;
    totals->pending += info.state == WEFT_SHARD_PENDING;
}

void node_totals(struct node *node, struct node_totals *out) {
    *out = (struct node_totals){0};
    weft_shard_each(ledger_lane(node->ledger), add_shard, out);
}

void node_metrics_json(struct node *node, struct text *out) {
    struct node_totals totals;
    node_totals(node, &totals);
    text_put(out, "{");
    text_name_u64(out, "uptime_ms", (uint64_t)(weft_now() - node->started) / 1000000);
    text_name_u64(out, "shards", totals.shards);
    text_name_u64(out, "stopped", totals.stopped);
    text_name_u64(out, "running", totals.running);
    text_name_u64(out, "pending", totals.pending);
    text_name_u64(out, "pooled", totals.pooled);
    text_name_u64(out, "pooled_bytes", weft_lane_pooled_bytes(ledger_lane(node->ledger)));
    text_name_u64(out, "queued", weft_lane_queued(ledger_lane(node->ledger)));
    text_name_u64(out, "onlookers", load_relaxed(&node->feed.onlookers));
    text_name_u64(out, "context_updates", load_relaxed(&node->context.updates));
    text_name_u64(out, "context_failures", load_relaxed(&node->context.failures));
    text_name(out, "requests");
    text_put(out, "{");
    for (size_t i = 0; i < node_service.count; i++)
        text_name_u64(out, node_service.methods[i].name, load_relaxed(&node->meter.requests[i]));
    text_put(out, "}");
    meter_json(&node->meter, out);
    text_put(out, "}");
}

/* -- Prometheus --------------------------------------------------------------------------------------- */

static void head(struct text *out, const char *name, const char *type, const char *help) {
    text_format(out, "# HELP weft_%s %s\n# TYPE weft_%s %s\n", name, help, name, type);
}

static void figure(struct text *out, const char *name, const char *type, const char *help, uint64_t value) {
    head(out, name, type, help);
    text_format(out, "weft_%s %llu\n", name, (unsigned long long)value);
}

static void labelled(struct text *out, const char *name, const char *label, const char *value, uint64_t figure) {
    text_format(out, "weft_%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)figure);
}

/* Bounds in powers of two from 64 us to 16 s: each is the bound of some bucket. */
static void put_latency(struct meter *meter, struct text *out) {
    uint64_t below = 0, sum = 0;
    int bucket = 0;
    head(out, "tx_latency_seconds", "histogram", "From submission until the block was durable.");
    for (uint64_t bound = 64; bound <= UINT64_C(1) << 24; bound *= 2) {
        for (; bucket < METER_BUCKETS && meter_bound(bucket) <= bound; bucket++) {
            uint64_t count = load_relaxed(&meter->latency[bucket]);
            below += count;
            sum += count * meter_bound(bucket);
        }
        text_format(out, "weft_tx_latency_seconds_bucket{le=\"%.6f\"} %llu\n", (double)bound / 1e6,
                    (unsigned long long)below);
    }
    for (; bucket < METER_BUCKETS; bucket++) {
        uint64_t count = load_relaxed(&meter->latency[bucket]);
        below += count;
        sum += count * meter_bound(bucket);
    }
    text_format(out,
                "weft_tx_latency_seconds_bucket{le=\"+Inf\"} %llu\nweft_tx_latency_seconds_sum %.6f\n"
                "weft_tx_latency_seconds_count %llu\n",
                (unsigned long long)below, (double)sum / 1e6, (unsigned long long)below);
}

void node_metrics_text(struct node *node, struct text *out) {
    struct meter *meter = &node->meter;
    struct node_totals totals;
    weft_block_env env;
    weft_lane *lane = ledger_lane(node->ledger);
    weft_lane_env(lane, &env);
    node_totals(node, &totals);
    figure(out, "start_time_seconds", "gauge", "When the node was started, in seconds since 1970.", node->started_at);
    figure(out, "shards", "gauge", "Shards.", totals.shards);
    figure(out, "shards_stopped", "gauge", "Shards whose storage has failed.", totals.stopped);
    figure(out, "shards_running", "gauge", "Shards that run now.", totals.running);
    figure(out, "shards_queued", "gauge", "Shards that wait for a worker.", weft_lane_queued(lane));
    figure(out, "txs_pooled", "gauge", "Transactions that are not in a block yet.", totals.pooled);
    figure(out, "pooled_bytes", "gauge", "Memory reserved for transactions that are not in a block yet.",
           weft_lane_pooled_bytes(lane));
    figure(out, "txs_accepted_total", "counter", "Transactions taken into a pool.", load_relaxed(&meter->accepted));
    head(out, "txs_total", "counter", "Transactions in blocks.");
    labelled(out, "txs_total", "status", "ok", load_relaxed(&meter->ok));
    labelled(out, "txs_total", "status", "failed", load_relaxed(&meter->failed));
    figure(out, "blocks_total", "counter", "Blocks made durable since the start.", load_relaxed(&meter->blocks));
    figure(out, "gas_total", "counter", "Gas used.", load_relaxed(&meter->gas));
    put_latency(meter, out);
    head(out, "rpc_requests_total", "counter", "JSON-RPC requests by method.");
    for (size_t i = 0; i < node_service.count; i++)
        labelled(out, "rpc_requests_total", "method", node_service.methods[i].name, load_relaxed(&meter->requests[i]));
    head(out, "rpc_errors_total", "counter", "JSON-RPC requests that failed, by code.");
    for (int i = 1; i < METER_CODES; i++)
        text_format(out, "weft_rpc_errors_total{code=\"%d\"} %llu\n", meter_code_of[i],
                    (unsigned long long)load_relaxed(&meter->codes[i]));
    figure(out, "http_requests_total", "counter", "HTTP requests.", load_relaxed(&meter->http));
    head(out, "http_refused_total", "counter", "HTTP requests refused before they were looked at.");
    labelled(out, "http_refused_total", "why", "host", load_relaxed(&meter->refused_host));
    labelled(out, "http_refused_total", "why", "origin", load_relaxed(&meter->refused_origin));
    labelled(out, "http_refused_total", "why", "token", load_relaxed(&meter->unauthorized));
    labelled(out, "http_refused_total", "why", "throttled", load_relaxed(&meter->throttled));
    figure(out, "onlookers", "gauge", "Streams of events.", load_relaxed(&node->feed.onlookers));
    figure(out, "context_number", "gauge", "Number of the block context.", env.number);
    figure(out, "context_updates_total", "counter", "Block contexts received.", load_relaxed(&node->context.updates));
    figure(out, "context_failures_total", "counter", "Block contexts that could not be had.",
           load_relaxed(&node->context.failures));
}
