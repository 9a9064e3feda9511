/* meter.c - what the node counts (meter.h). */
#include "meter.h"

#include "rpc.h"

const int meter_code_of[METER_CODES] = {0,        RPC_PARSE,        RPC_REQUEST, RPC_METHOD,  RPC_INVALID, RPC_INTERNAL,
                                        RPC_FULL, RPC_UNAUTHORIZED, RPC_REPLAY,  RPC_STOPPED, RPC_SHARDS,  RPC_ENDING};

int meter_code(int code) {
    for (int i = 0; i < METER_CODES; i++)
        if (meter_code_of[i] == code)
            return i;
    return meter_code(RPC_INTERNAL);
}

void meter_answered(struct meter *meter, int method, int code) {
    if (method >= 0 && method < METER_METHODS)
        meter_count(&meter->requests[method]);
    meter_count(&meter->codes[meter_code(code)]);
}

/* -- Latency ------------------------------------------------------------------------------------------ */

#define TIME_BITS 40 /* microseconds: twelve days */
#define TIME_MASK ((UINT64_C(1) << TIME_BITS) - 1)
#define TOLD (UINT64_C(1) << TIME_BITS)
#define TAG_MASK (~(TIME_MASK | TOLD))

static int bucket_of(uint64_t us) {
    if (us < 8)
        return (int)us;
    int exponent = 63 - __builtin_clzll(us);
    int bucket = 8 + (exponent - 3) * 8 + (int)(us >> (exponent - 3) & 7);
    return bucket < METER_BUCKETS ? bucket : METER_BUCKETS - 1;
}

uint64_t meter_bound(int bucket) {
    if (bucket < 8)
        return (uint64_t)bucket + 1;
    int exponent = (bucket - 8) / 8;
    return (uint64_t)(8 + (bucket - 8) % 8 + 1) << exponent;
}

uint64_t meter_quantile(const uint64_t *buckets, uint64_t count, unsigned p) {
    uint64_t rank = (count * p + 999) / 1000, seen = 0;
    for (int i = 0; i < METER_BUCKETS && count; i++)
        if ((seen += buckets[i]) >= rank && seen)
            return meter_bound(i);
    return 0;
}

static void place(const hash32 *id, size_t *slot, uint64_t *tag) {
    uint64_t word;
    memcpy(&word, id->bytes, sizeof word);
    *slot = word % METER_SLOTS;
    *tag = word & TAG_MASK; /* other bits than the slot's */
}

void meter_submitted(struct meter *meter, const hash32 *ids, size_t count, int64_t when) {
    uint64_t begun = (uint64_t)when / 1000 & TIME_MASK;
    add_relaxed(&meter->accepted, count);
    for (size_t i = 0; i < count; i++) {
        size_t slot;
        uint64_t tag;
        place(&ids[i], &slot, &tag);
        uint64_t found = xchg_relaxed(&meter->slots[slot], tag | begun); /* one word carries all */
        if ((found & ~TIME_MASK) == (tag | TOLD))
            meter_count(&meter->latency[bucket_of((found - begun) & TIME_MASK)]);
    }
}

void meter_told(struct meter *meter, const struct ledger_receipt *receipts, size_t count) {
    uint64_t now = (uint64_t)weft_now() / 1000, failed = 0, gas = 0;
    for (size_t i = 0; i < count; i++) {
        size_t slot;
        uint64_t tag;
        place(&receipts[i].tx, &slot, &tag);
        uint64_t found = load_relaxed(&meter->slots[slot]); /* one word carries all */
        if ((found & ~TIME_MASK) != tag || !found)
            found = xchg_relaxed(&meter->slots[slot], tag | TOLD | (now & TIME_MASK));
        if ((found & ~TIME_MASK) == tag && found)
            meter_count(&meter->latency[bucket_of((now - found) & TIME_MASK)]);
        failed += receipts[i].status == TX_FAILED;
        gas += receipts[i].gas;
    }
    meter_count(&meter->blocks);
    add_relaxed(&meter->failed, failed);
    add_relaxed(&meter->ok, count - failed);
    add_relaxed(&meter->gas, gas);
}

/* -- Seconds ------------------------------------------------------------------------------------------ */

void meter_tick(struct meter *meter, uint64_t pooled, uint64_t at, struct meter_second *out) {
    uint64_t buckets[METER_BUCKETS], count = 0;
    for (int i = 0; i < METER_BUCKETS; i++) {
        uint64_t now = load_relaxed(&meter->latency[i]);
        count += buckets[i] = now - meter->last_latency[i];
        meter->last_latency[i] = now;
    }
    uint64_t failed = load_relaxed(&meter->failed), txs = load_relaxed(&meter->ok) + failed;
    uint64_t blocks = load_relaxed(&meter->blocks);
    *out = (struct meter_second){.at = at,
                                 .txs = txs - meter->last_txs,
                                 .failed = failed - meter->last_failed,
                                 .blocks = blocks - meter->last_blocks,
                                 .pooled = pooled,
                                 .p50 = meter_quantile(buckets, count, 500),
                                 .p99 = meter_quantile(buckets, count, 990),
                                 .most = meter_quantile(buckets, count, 1000)};
    meter->last_txs = txs;
    meter->last_failed = failed;
    meter->last_blocks = blocks;
    if (weft_mutex_lock(&meter->lock, WEFT_NEVER))
        return;
    meter->history[meter->seconds++ % METER_HISTORY] = *out;
    weft_mutex_unlock(&meter->lock);
}

/* -- JSON --------------------------------------------------------------------------------------------- */

void meter_second_json(const struct meter_second *second, struct text *out) {
    text_put(out, "{");
    text_name_u64(out, "at", second->at);
    text_name_u64(out, "txs", second->txs);
    text_name_u64(out, "failed", second->failed);
    text_name_u64(out, "blocks", second->blocks);
    text_name_u64(out, "pooled", second->pooled);
    text_name_u64(out, "p50_us", second->p50);
    text_name_u64(out, "p99_us", second->p99);
    text_name_u64(out, "max_us", second->most);
    text_put(out, "}");
}

void meter_json(struct meter *meter, struct text *out) {
    uint64_t buckets[METER_BUCKETS], count = 0;
    for (int i = 0; i < METER_BUCKETS; i++)
        count += buckets[i] = load_relaxed(&meter->latency[i]);
    text_name_u64(out, "accepted", load_relaxed(&meter->accepted));
    text_name_u64(out, "ok", load_relaxed(&meter->ok));
    text_name_u64(out, "failed", load_relaxed(&meter->failed));
    text_name_u64(out, "blocks", load_relaxed(&meter->blocks));
    text_name_u64(out, "gas", load_relaxed(&meter->gas));
    text_name(out, "latency_us");
    text_put(out, "{");
    text_name_u64(out, "p50", meter_quantile(buckets, count, 500));
    text_name_u64(out, "p90", meter_quantile(buckets, count, 900));
    text_name_u64(out, "p99", meter_quantile(buckets, count, 990));
    text_name_u64(out, "max", meter_quantile(buckets, count, 1000));
    text_put(out, "}");
    text_name(out, "history");
    text_put(out, "[");
    if (!weft_mutex_lock(&meter->lock, WEFT_NEVER)) {
        uint64_t first = meter->seconds > METER_HISTORY ? meter->seconds - METER_HISTORY : 0;
        for (uint64_t i = first; i < meter->seconds; i++) {
            text_put(out, i > first ? "," : "");
            meter_second_json(&meter->history[i % METER_HISTORY], out);
        }
        weft_mutex_unlock(&meter->lock);
    }
    text_put(out, "]");
}
