/* feed.c - what has happened lately (feed.h). */
#include "feed.h"

#include <errno.h>
#include <stdlib.h>
#include <weft/fiber.h>

#define PIECE (32u << 10) /* bytes sent at once, about */
#define PAUSE INT64_C(50000000)
#define SILENCE INT64_C(10000000000) /* then a line that says nothing: it shows whether the onlooker is there */

int feed_open(struct feed *feed) {
    *feed = (struct feed){.next = 1};
    feed->events = calloc(FEED_EVENTS, sizeof *feed->events);
    return feed->events ? 0 : -ENOMEM;
}

void feed_close(struct feed *feed) { free(feed->events); }

void feed_end(struct feed *feed) {
    if (weft_mutex_lock(&feed->lock, WEFT_NEVER))
        return;
    feed->ended = true;
    weft_cond_broadcast(&feed->more);
    weft_mutex_unlock(&feed->lock);
}

/* -- Events ------------------------------------------------------------------------------------------- */

/* The lock is held. */
static void append(struct feed *feed, enum feed_kind kind, const char *shard, const char *json, size_t json_size) {
    struct feed_event *event = &feed->events[feed->next % FEED_EVENTS];
    size_t size = strnlen(shard, sizeof event->shard - 1);
    if (json_size > sizeof event->text)
        return;
    event->kind = kind;
    memcpy(event->shard, shard, size);
    event->shard[size] = 0;
    event->size = (uint32_t)json_size;
    memcpy(event->text, json, json_size);
    feed->next++;
}

static void block_json(struct text *out, const char *shard, const struct ledger_block *block) {
    text_put(out, "{");
    text_name_string(out, "shard", shard);
    text_name_u64(out, "number", block->number);
    text_name_hex(out, "hash", block->hash.bytes, sizeof block->hash.bytes);
    text_name_u64(out, "txs", block->txs);
    text_name_u64(out, "failed", block->failed);
    text_name_u64(out, "writes", block->writes);
    text_name_u64(out, "time", block->time);
    text_put(out, "}");
}

static void failure_json(struct text *out, const char *shard, const struct ledger_receipt *receipt) {
    size_t size = strnlen(receipt->reason, 160);
    text_put(out, "{");
    text_name_string(out, "shard", shard);
    text_name_hex(out, "tx", receipt->tx.bytes, sizeof receipt->tx.bytes);
    text_name_u64(out, "block", receipt->block);
    text_name(out, "reason");
    text_json(out, receipt->reason, size);
    text_put(out, "}");
}

void feed_block(struct feed *feed, const char *shard, const struct ledger_block *block,
                const struct ledger_receipt *receipts, size_t count) {
    struct text json = {0};
    size_t ends[1 + FEED_FAILURES], told = 0;
    block_json(&json, shard, block);
    ends[told++] = json.size;
    for (size_t i = 0; i < count && block->failed && told <= FEED_FAILURES; i++) {
        if (receipts[i].status != TX_FAILED)
            continue;
        failure_json(&json, shard, &receipts[i]);
        ends[told++] = json.size;
    }
    if (!json.failed && !weft_mutex_lock(&feed->lock, WEFT_NEVER)) {
        for (size_t i = 0, from = 0; i < told; from = ends[i++])
            append(feed, i ? FEED_FAILED : FEED_BLOCK, shard, json.at + from, ends[i] - from);
        if (feed->waiting)
            weft_cond_broadcast(&feed->more);
        weft_mutex_unlock(&feed->lock);
    }
    text_free(&json);
}

void feed_stats(struct feed *feed, const char *json, size_t size) {
    if (weft_mutex_lock(&feed->lock, WEFT_NEVER))
        return;
    append(feed, FEED_STATS, "", json, size);
    if (feed->waiting)
        weft_cond_broadcast(&feed->more);
    weft_mutex_unlock(&feed->lock);
}

/* -- Onlookers ---------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"block", "failed", "stats"};

/* What is behind *at, up to about a piece; the lock is held. */
static void collect(struct feed *feed, const char *shard, uint64_t *at, struct text *out) {
    if (feed->next - *at > FEED_EVENTS) {
        uint64_t missed = feed->next - FEED_EVENTS - *at;
        text_format(out, "event: missed\ndata: {\"events\":%llu}\n\n", (unsigned long long)missed);
        *at += missed;
    }
    for (; *at < feed->next && out->size < PIECE; ++*at) {
        const struct feed_event *event = &feed->events[*at % FEED_EVENTS];
        if (shard && event->shard[0] && strcmp(event->shard, shard) != 0)
            continue;
        text_format(out, "id: %llu\nevent: %s\ndata: ", (unsigned long long)*at, kind_names[event->kind]);
        text_add(out, event->text, event->size);
        text_add(out, "\n\n", 2);
    }
}

/* Wait for something behind *at, and collect it.  False: it is over. */
static bool next_piece(struct feed *feed, const char *shard, uint64_t *at, struct text *out) {
    weft_deadline until = weft_after(SILENCE);
    int error = weft_mutex_lock(&feed->lock, WEFT_NEVER);
    if (error)
        return false;
    while (!error && !feed->ended && *at == feed->next) {
        feed->waiting++;
        error = weft_cond_wait(&feed->more, &feed->lock, until);
        feed->waiting--;
    }
    bool ended = feed->ended;
    if (!ended)
        collect(feed, shard, at, out);
    weft_mutex_unlock(&feed->lock);
    return !ended && (!error || error == -ETIMEDOUT);
}

static bool begin(struct feed *feed, uint64_t after, uint64_t *at) {
    if (weft_mutex_lock(&feed->lock, WEFT_NEVER))
        return false;
    uint64_t oldest = feed->next > FEED_REPLAY ? feed->next - FEED_REPLAY : 1;
    *at = after && after < feed->next ? after + 1 : oldest;
    bool ended = feed->ended;
    weft_mutex_unlock(&feed->lock);
    return !ended;
}

int feed_serve(struct feed *feed, weft_http *x, const char *shard, uint64_t after) {
    struct text out = {0};
    uint64_t at;
    /* Relaxed: it is only a number; a cancelled fiber could not take the lock to count itself out. */
    if (add_relaxed(&feed->onlookers, 1) >= FEED_ONLOOKERS || !begin(feed, after, &at)) {
        sub_relaxed(&feed->onlookers, 1);
        return weft_http_reply(x, 503, "text/plain", "too many onlookers\n", 19);
    }
    int error = weft_http_events(x);
    text_put(&out, "retry: 2000\n\n");
    while (!error && !out.failed) {
        ssize_t n = weft_http_write(x, out.at, out.size);
        if (n < 0 || (error = weft_sleep(PAUSE))) /* so that many small blocks go together */
            break;
        out.size = 0;
        if (!next_piece(feed, shard, &at, &out))
            break;
        if (!out.size)
            text_put(&out, ":\n\n");
    }
    sub_relaxed(&feed->onlookers, 1);
    text_free(&out);
    return error ? error : weft_http_end(x);
}
