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

/* False: it is too long. */
static bool fill(struct feed_event *event, enum feed_kind kind, const char *shard, const char *json, size_t json_size) {
    size_t size = strnlen(shard, sizeof event->shard - 1);
    if (json_size > sizeof event->text)
        return false;
    event->kind = kind;
    memcpy(event->shard, shard, size);
    event->shard[size] = 0;
    event->size = (uint32_t)json_size;
    memcpy(event->text, json, json_size);
    return true;
}

/* The lock is held. */
static void append(struct feed *feed, enum feed_kind kind, const char *shard, const char *json, size_t json_size) {
    feed->next += fill(&feed->events[feed->next % FEED_EVENTS], kind, shard, json, json_size);
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
    feed->seconds += fill(&feed->figures, FEED_STATS, "", json, size);
    if (feed->waiting)
        weft_cond_broadcast(&feed->more);
    weft_mutex_unlock(&feed->lock);
}

/* -- Onlookers ---------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"block", "failed", "stats"};

struct onlooker {
    const char *shard; /* NULL: all */
    uint64_t at, seconds; /* the next event that it has not had; the last figures that it has */
};

static bool is_wanted(const struct onlooker *looker, const struct feed_event *event) {
    return !looker->shard || !event->shard[0] || strcmp(event->shard, looker->shard) == 0;
}

static void put_event(struct text *out, const struct feed_event *event) {
    text_format(out, "event: %s\ndata: ", kind_names[event->kind]);
    text_add(out, event->text, event->size);
    text_add(out, "\n\n", 2);
}

/* What it has not had, up to about a piece; the lock is held. */
static void collect(struct feed *feed, struct onlooker *looker, struct text *out) {
    if (feed->next - looker->at > FEED_EVENTS) {
        uint64_t missed = feed->next - FEED_EVENTS - looker->at;
        text_format(out, "event: missed\ndata: {\"events\":%llu}\n\n", (unsigned long long)missed);
        looker->at += missed;
    }
    for (; looker->at < feed->next && out->size < PIECE; ++looker->at) {
        const struct feed_event *event = &feed->events[looker->at % FEED_EVENTS];
        if (!is_wanted(looker, event))
            continue;
        text_format(out, "id: %llu\n", (unsigned long long)looker->at);
        put_event(out, event);
    }
    if (looker->seconds != feed->seconds)
        put_event(out, &feed->figures); /* without a number: nobody comes back to it */
    looker->seconds = feed->seconds;
}

/* Wait for something that it has not had, and collect it.  False: it is over. */
static bool next_piece(struct feed *feed, struct onlooker *looker, struct text *out) {
    weft_deadline until = weft_after(SILENCE);
    int error = weft_mutex_lock(&feed->lock, WEFT_NEVER);
    if (error)
        return false;
    while (!error && !feed->ended && looker->at == feed->next && looker->seconds == feed->seconds) {
        feed->waiting++;
        error = weft_cond_wait(&feed->more, &feed->lock, until);
        feed->waiting--;
    }
    bool ended = feed->ended;
    if (!ended)
        collect(feed, looker, out);
    weft_mutex_unlock(&feed->lock);
    return !ended && (!error || error == -ETIMEDOUT);
}

static bool begin(struct feed *feed, uint64_t after, struct onlooker *looker) {
    if (weft_mutex_lock(&feed->lock, WEFT_NEVER))
        return false;
    uint64_t at = feed->next, oldest = feed->next > FEED_EVENTS ? feed->next - FEED_EVENTS : 1;
    for (unsigned wanted = 0; at > oldest && wanted < FEED_REPLAY; at--)
        wanted += is_wanted(looker, &feed->events[(at - 1) % FEED_EVENTS]);
    looker->at = after && after < feed->next ? after + 1 : at;
    looker->seconds = feed->seconds;
    bool ended = feed->ended;
    weft_mutex_unlock(&feed->lock);
    return !ended;
}

int feed_serve(struct feed *feed, weft_http *x, const char *shard, uint64_t after) {
    struct text out = {0};
    struct onlooker looker = {.shard = shard};
    /* Relaxed: it is only a number; a cancelled fiber could not take the lock to count itself out. */
    if (add_relaxed(&feed->onlookers, 1) >= FEED_ONLOOKERS || !begin(feed, after, &looker)) {
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
        if (!next_piece(feed, &looker, &out))
            break;
        if (!out.size)
            text_put(&out, ":\n\n");
    }
    sub_relaxed(&feed->onlookers, 1);
    text_free(&out);
    return error ? error : weft_http_end(x);
}
