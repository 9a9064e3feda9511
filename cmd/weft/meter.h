/* meter.h - what the node counts: transactions, blocks, requests, and how long a transaction takes until it is durable.
 *
 * Latency.  The time of each submission is put into a table at a place its id decides, and taken out when its receipt is told.  Two that
 * share a place: one is not measured.  A slot is one word, the id's tag and the time, so that they cannot be torn apart.
 * A block may be durable before the submission returns: then the slot holds when it was (TOLD), and the submission counts.
 */
#ifndef WEFT_CMD_METER_H
#define WEFT_CMD_METER_H

#include <weft/sync.h>

#include "base/atomic.h"
#include "ledger.h"
#include "text.h"

enum {
    METER_METHODS = 32,
    METER_CODES = 12, /* error codes, see meter_code */
    METER_BUCKETS = 240, /* of latency: 8 in each power of two of microseconds */
    METER_SLOTS = 1 << 16,
    METER_HISTORY = 120, /* s */
};

struct meter_second {
    uint64_t at; /* s since 1970 */
    uint64_t txs, failed, blocks, pooled;
    uint64_t p50, p99, most; /* us; 0: nothing was measured */
};

/* Counters are relaxed: nobody concludes anything from one about another. */
struct meter {
    _Atomic uint64_t accepted, ok, failed, blocks, gas;
    _Atomic uint64_t requests[METER_METHODS], codes[METER_CODES];
    _Atomic uint64_t http, refused_host, refused_origin, unauthorized, throttled;
    _Atomic uint64_t latency[METER_BUCKETS];
    _Atomic uint64_t slots[METER_SLOTS];
    /* Of each second; written by meter_tick. */
    weft_mutex lock;
    struct meter_second history[METER_HISTORY];
    uint64_t seconds;
    uint64_t last_latency[METER_BUCKETS], last_txs, last_failed, last_blocks;
};

static inline void meter_count(_Atomic uint64_t *counter) { add_relaxed(counter, 1); }

void meter_submitted(struct meter *meter, const hash32 *ids, size_t count, int64_t when);
void meter_told(struct meter *meter, const struct ledger_receipt *receipts, size_t count);
/* An answer: the method's index or -1, and its code or 0. */
void meter_answered(struct meter *meter, int method, int code);
/* A second has passed.  `out` gets what it brought. */
void meter_tick(struct meter *meter, uint64_t pooled, uint64_t at, struct meter_second *out);

/* The bound of a bucket in us; and below which the share p (of 1,000) of all lies. */
uint64_t meter_bound(int bucket);
uint64_t meter_quantile(const uint64_t *buckets, uint64_t count, unsigned p);
int meter_code(int code); /* its index in `codes` */
extern const int meter_code_of[METER_CODES];

/* As JSON members, behind a bracket. */
void meter_json(struct meter *meter, struct text *out);
void meter_second_json(const struct meter_second *second, struct text *out);

#endif
