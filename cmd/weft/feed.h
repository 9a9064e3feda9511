/* feed.h - what has happened lately, for those who look on: blocks, failures, and figures once a second.
 *
 * A ring of events, written by the lane's threads; and the last figures, beside it: they are nothing to look back at, and would push out what is.  Each onlooker has a place of its own in it; one that is slower than the ring is told how many
 * it has missed.  Nobody waits for an onlooker.
 */
#ifndef WEFT_CMD_FEED_H
#define WEFT_CMD_FEED_H

#include <weft/http.h>
#include <weft/sync.h>

#include "base/atomic.h"
#include "ledger.h"
#include "text.h"

enum {
    FEED_EVENTS = 2048,
    FEED_TEXT = 600,
    FEED_FAILURES = 8,  /* told of one block */
    FEED_REPLAY = 40,   /* events that a new onlooker gets from before, of those it wants */
    FEED_ONLOOKERS = 256,
};

enum feed_kind { FEED_BLOCK, FEED_FAILED, FEED_STATS };

struct feed_event {
    enum feed_kind kind;
    char shard[64]; /* empty: of all */
    uint32_t size;
    char text[FEED_TEXT]; /* JSON, on one line */
};

struct feed {
    weft_mutex lock;
    weft_cond more;
    uint64_t next;        /* the number of the next event; those before it, up to FEED_EVENTS, are there */
    unsigned waiting;     /* onlookers that want to be woken */
    _Atomic unsigned onlookers;
    bool ended;
    struct feed_event *events;
    uint64_t seconds; /* the figures' number */
    struct feed_event figures;
};

/* 0; -ENOMEM. */
int feed_open(struct feed *feed);
void feed_close(struct feed *feed);
/* All onlookers leave. */
void feed_end(struct feed *feed);
/* A block has become durable; any thread. */
void feed_block(struct feed *feed, const char *shard, const struct ledger_block *block,
                const struct ledger_receipt *receipts, size_t count);
void feed_stats(struct feed *feed, const char *json, size_t size);
/* Answer GET /events: until the onlooker goes, or feed_end.  shard: only of this one, or NULL.  after: the number of the last event that it has,
 * or 0. */
int feed_serve(struct feed *feed, weft_http *x, const char *shard, uint64_t after);

#endif
