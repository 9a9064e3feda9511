/* ledger.c - a ledger from its opening to its end, and the way into its pools. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shard.h"

#define MAP_SIZE ((size_t)1 << 30)
#define POOL_BYTES ((size_t)64 << 20)
#define TOTAL_BYTES ((size_t)512 << 20)
#define OTHER_DESCRIPTORS 64
#define GAS_LIMIT 10000000u
#define BLOCK_GAS 100000000u
#define LUA_TIME INT64_C(2000000000)
#define SAY_EVERY INT64_C(1000000000)
#define LUA_MEMORY ((size_t)8 << 20)

/* -- Shards --------------------------------------------------------------------------------------------------------- */

/* In weft_shard_get, one at a time. */
static int open_shard(void *self, const char *name, void **shard_state, uint64_t *next_block) {
    struct ledger *book = self;
    struct ledger_shard *shard = book->shards < book->config.max_shards ? mem_new(sizeof *shard) : NULL;
    struct bytes bytes = {0};
    struct keep_view view;
    char *path = NULL;
    if (!shard)
        return book->shards < book->config.max_shards ? -ENOMEM : -EUSERS;
    shard->ledger = book;
    snprintf(shard->name, sizeof shard->name, "%s", name);
    snprintf(shard->head.shard, sizeof shard->head.shard, "%s", name);
    head_encode(&shard->head, &bytes); /* of one without blocks */
    struct keep_write first = {"h", bytes.data, 1, bytes.size};
    int error = bytes.failed ? -ENOMEM : 0;
    if (!error && book->place.dir) {
        error = place_shard(&book->place, name, &first, &path);
        if (!error)
            error = keep_lmdb_open(path, book->config.map_size, &shard->keep);
        free(path);
    } else if (!error && !(error = keep_memory_open(&shard->keep))) {
        error = shard->keep->ops->commit(shard->keep, &first, 1);
    }
    bytes_free(&bytes);
    if (!error && !(error = shard->keep->ops->begin(shard->keep, true, &view))) {
        error = keep_use(&view, read_head, &shard->head);
        if (!error && strcmp(shard->head.shard, name))
            error = -EBADMSG; /* another shard's files */
        shard->keep->ops->end(&view);
    }
    if (!error)
        read_times(shard->keep, shard->head.number, &shard->times);
    if (book->starting && shard->keep && (error == -EIO || error == -EBADMSG)) {
        bytes_free(&shard->head.runs);
        shard->head = (struct head){0};
        keep_lmdb_break(shard->keep, error);
        error = (read_seen(shard, error), 0);
    }
    if (error && shard->keep)
        shard->keep->ops->close(shard->keep);
    if (error) {
        bytes_free(&shard->head.runs);
        free(shard);
        return error;
    }
    book->shards++;
    *shard_state = shard;
    *next_block = shard->head.number + 1;
    return 0;
}

static void close_shard(void *self, void *shard_state) {
    struct ledger_shard *shard = shard_state;
    (void)self;
    shard->keep->ops->close(shard->keep);
    bytes_free(&shard->head.runs);
    pending_free(&shard->pending);
    free(shard);
}

/* A full disk fails every batch of every shard: a line a second says that.  A shard stops once, and that is always said. */
static bool is_worth_a_line(struct ledger *book, bool stopped, uint64_t *unsaid) {
    int64_t now = wefti_clock();
    wefti_lock_take(&book->lock);
    bool worth = stopped || !book->said || now - book->said >= SAY_EVERY;
    *unsaid = stopped ? 0 : book->unsaid;
    if (worth && !stopped)
        book->said = now, book->unsaid = 0;
    else
        book->unsaid += !worth;
    wefti_lock_give(&book->lock);
    return worth;
}

static const char *words_of(int error) {
    return error == -EBADMSG  ? "its store is damaged, as 'weft node verify' will say"
           : error == -EPROTO ? "its store is of another version"
           : error == -EFBIG  ? "its store has reached --map-size"
                              : strerror(-error);
}

const char *ledger_refusal(ledger *book, const char *name, const hash32 *tx) {
    weft_shard *found = weft_shard_find(book->lane, name);
    struct ledger_shard *shard = found ? weft_shard_store_state(found) : NULL;
    int why = 0;
    if (shard) {
        wefti_lock_take(&shard->lock);
        why = pending_why(&shard->pending, tx);
        wefti_lock_give(&shard->lock);
    }
    switch (why) {
    case 0: return "";
    case -EALREADY: return "its nonce was not the sender's next: a transaction before it was refused";
    case -EIO: return "the shard is stopped: its disk failed";
    case -EBADMSG: return "the shard is stopped: its store is damaged";
    case -ECANCELED:
    case -ESHUTDOWN: return "the node was stopped before its turn";
    case -ENOMEM: return "the node had no memory for its block";
    case -ENOSPC: return "the disk had no room for its block";
    case -EFBIG: return "the shard's store has reached --map-size";
    default: return strerror(-why);
    }
}

static void batch_failed(void *arg, weft_shard *shard, const weft_batch *batch, int error) {
    weft_shard_info info;
    uint64_t unsaid;
    char before[64] = "";
    bool stopped = batch_fatal(NULL, error);
    if (error == -ECANCELED ||
        !is_worth_a_line(arg, stopped, &unsaid)) /* the first: only transactions out of their turn */
        return;
    weft_shard_info_read(shard, &info);
    if (unsaid)
        snprintf(before, sizeof before, "; so did %llu batches before it", (unsigned long long)unsaid);
    fprintf(stderr, "weft: shard \"%s\": %zu transactions for block %llu failed: %s%s%s\n", info.name, batch->count,
            (unsigned long long)batch->block, words_of(error), stopped ? "; the shard is stopped" : "", before);
}

/* -- Opening and closing --------------------------------------------------------------------------------------------- */

struct opening {
    struct ledger *book;
    char *why;
    size_t room;
};

static int open_existing(void *arg, const char *name, const char *folder) {
    struct opening *opening = arg;
    weft_shard *shard;
    (void)folder;
    if (!name) /* not ours: left alone */
        return 0;
    int error = weft_shard_get(opening->book->lane, name, &shard);
    if (error && opening->room)
        snprintf(opening->why, opening->room, "shard \"%s\": %s", name, words_of(error));
    return error;
}

/* As many descriptors as the process may have. Three are taken by each environment that is open; the others are for connections and files. */
static void share_descriptors(size_t others) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    size_t all = limit.rlim_cur, kept = others < all / 2 ? others : all / 2;
    keep_lmdb_limit((all - kept) / 3);
}

static struct ledger_config settled(struct ledger_config config) {
    config.max_pool = config.max_pool ? config.max_pool : 100000;
    config.max_pool_bytes = config.max_pool_bytes ? config.max_pool_bytes : POOL_BYTES;
    config.max_total_bytes = config.max_total_bytes ? config.max_total_bytes : TOTAL_BYTES;
    config.max_batch = config.max_batch ? config.max_batch : 4096;
    config.max_batch = config.max_batch < BLOCK_TXS_MAX ? config.max_batch : BLOCK_TXS_MAX;
    config.max_shards = config.max_shards ? config.max_shards : 16384;
    config.other_descriptors = config.other_descriptors ? config.other_descriptors : OTHER_DESCRIPTORS;
    config.map_size = config.map_size ? config.map_size : MAP_SIZE;
    config.gas_limit = config.gas_limit ? config.gas_limit : GAS_LIMIT;
    config.block_gas = config.block_gas ? config.block_gas : BLOCK_GAS;
    config.lua_time = config.lua_time ? config.lua_time : LUA_TIME;
    config.lua_memory = config.lua_memory ? config.lua_memory : LUA_MEMORY;
    return config;
}

/* With a store a worker waits for the disk twice per block, without using a CPU meanwhile (docs/decisions/0042). */
static unsigned ledger_workers(const struct ledger_config *config) {
    return config->workers ? config->workers : config->dir ? 4 * wefti_cpu_count() : 0;
}

int ledger_open(const struct ledger_config *config, ledger **out, char *why, size_t room) {
    struct ledger *book = mem_new(sizeof *book);
    if (room)
        snprintf(why, room, "%s", strerror(ENOMEM));
    if (!book)
        return -ENOMEM;
    book->config = settled(*config);
    book->place.lock = -1;
    int error = 0;
    share_descriptors(book->config.other_descriptors);
    if (config->dir && (error = place_open(&book->place, config->dir, why, room)))
        goto failed;
    weft_lane_config lane = WEFT_LANE_CONFIG_INIT;
    lane.workers = ledger_workers(config);
    lane.quantum = config->quantum;
    lane.max_batch = book->config.max_batch;
    lane.max_pool = book->config.max_pool;
    lane.max_pool_bytes = book->config.max_pool_bytes;
    lane.max_total_bytes = book->config.max_total_bytes;
    lane.executor = (weft_executor){batch_execute, batch_release, book};
    lane.store = (weft_store){open_shard, batch_commit, batch_fatal, close_shard, book};
    lane.failed = batch_failed;
    lane.done = batch_done;
    lane.arg = book;
    lane.name = "shards";
    if ((error = weft_lane_create(&lane, &book->lane))) {
        if (room)
            snprintf(why, room, "the lane: %s", strerror(-error));
        goto failed;
    }
    struct opening opening = {book, why, room};
    book->starting = true;
    if (config->dir && (error = place_each(&book->place, open_existing, &opening)))
        goto failed;
    book->starting = false;
    *out = book;
    return 0;
failed:
    ledger_close(book);
    return error;
}

void ledger_close(ledger *book) {
    if (!book)
        return;
    weft_lane_destroy(book->lane);
    for (struct made *made = book->spare, *next; made; made = next) {
        next = made->next;
        made_free(made);
    }
    chunks_free(&book->chunks);
    place_close(&book->place);
    free(book);
}

/* As the shard's runner. */
static int reload(void *arg, void *shard_state, uint64_t *next_block) {
    struct ledger_shard *shard = shard_state;
    struct ledger *book = arg;
    struct head head = {0};
    int error = shard->keep->ops->reopen(shard->keep);
    if (!error)
        error = keep_look(shard->keep, read_head, &head);
    if (!error && strcmp(head.shard, shard->name))
        error = -EBADMSG;
    if (error) {
        bytes_free(&head.runs);
        if (book->place.dir && error != -ENOTRECOVERABLE)
            keep_lmdb_break(shard->keep, error);
        return error;
    }
    bytes_free(&shard->head.runs);
    shard->head = head;
    read_times(shard->keep, head.number, &shard->times);
    store_relaxed(&shard->said, false); /* a look */
    *next_block = head.number + 1;
    return 0;
}

int ledger_shard_restart(ledger *book, const char *name) {
    weft_shard *shard = weft_shard_find(book->lane, name);
    weft_shard_info info;
    if (!shard)
        return -ENOENT;
    if (load_acquire(&book->draining))
        return -ESHUTDOWN;
    ledger_shard_info(shard, &info);
    if (info.state != WEFT_SHARD_STOPPED)
        return 0;
    int error = weft_shard_restart(shard, reload, book);
    return error == -EBUSY ? -EAGAIN : error;
}

weft_lane *ledger_lane(ledger *book) { return book->lane; }

static void add_pooled(weft_shard *shard, void *arg) {
    weft_shard_info info;
    weft_shard_info_read(shard, &info);
    *(uint64_t *)arg += info.pooled;
}

bool ledger_drain(ledger *book, int64_t deadline_ms) {
    int64_t until = wefti_clock() + deadline_ms * 1000000;
    store_release(&book->draining, true); /* pairs with submit's look, under a shard's lock */
    for (;;) {
        uint64_t pooled = 0;
        weft_shard_each(book->lane, add_pooled, &pooled);
        if (pooled == 0)
            return true;
        if (wefti_clock() >= until) {
            store_relaxed(&book->ending, true); /* seen soon enough */
            return false;
        }
        usleep(1000);
    }
}

/* -- Submitting ------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 4, 5))) static int say(int error, char *why, size_t room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (room)
        vsnprintf(why, room, format, args);
    va_end(args);
    return error;
}

struct offer { /* what is to go into the pool */
    struct tx *txs; /* decoded, for the sender and the nonce */
    weft_tx *pooled;
    unsigned char *bytes;
    hash32 *ids;
    size_t count;
};

static int prepare(struct ledger *book, const char *name, const weft_tx *txs, struct offer *offer, char *why,
                   size_t room) {
    size_t size = 0;
    for (size_t i = 0; i < offer->count; i++) {
        const char *wrong;
        if (!txs[i].data || tx_decode(txs[i].data, txs[i].size, &offer->txs[i], &wrong))
            return say(-EINVAL, why, room, "%s", txs[i].data ? wrong : "no bytes");
        if (offer->txs[i].gas > book->config.gas_limit)
            return say(-EINVAL, why, room, "gas: at most %llu", (unsigned long long)book->config.gas_limit);
        size += (sizeof(hash32) + txs[i].size + 7) & ~(size_t)7;
    }
    unsigned char *at = offer->bytes = mem_resize(NULL, size);
    if (!at)
        return say(-ENOMEM, why, room, "no memory");
    for (size_t i = 0; i < offer->count; i++) {
        offer->ids[i] = tx_id(name, txs[i].data, txs[i].size);
        memcpy(at, &offer->ids[i], sizeof(hash32));
        memcpy(at + sizeof(hash32), txs[i].data, txs[i].size);
        offer->pooled[i] = (weft_tx){0, at, sizeof(hash32) + txs[i].size};
        at += (sizeof(hash32) + txs[i].size + 7) & ~(size_t)7;
    }
    return 0;
}

/* Under the shard's lock: is it this one's turn?  Then it is pending.  keep NULL: nobody has used a nonce yet. */
static int admit(struct pending *pending, struct keep *keep, const hash32 *id, const struct tx *tx, char *why,
                 size_t room) {
    struct pending_sender *sender = pending_sender(pending, tx->sender);
    uint64_t next = sender ? sender->nonce : 0;
    if (pending_status(pending, id) == TX_PENDING)
        return say(-EALREADY, why, room, "it waits already");
    if (!sender) {
        int error = keep ? read_nonce(keep, tx->sender, &next) : 0;
        if (error)
            return say(error, why, room, "reading the sender's nonce: %s", strerror(-error));
        next++;
    }
    if (tx->nonce != next)
        return say(tx->nonce < next ? -EALREADY : -EINVAL, why, room, "nonce %llu: %s's next is %llu",
                   (unsigned long long)tx->nonce, tx->sender, (unsigned long long)next);
    int error = pending_add(pending, id, tx->sender, tx->nonce);
    return error ? say(error, why, room, "no memory") : 0;
}

static int enter(struct ledger_shard *shard, weft_shard *into, struct offer *offer, char *why, size_t room) {
    size_t admitted = 0;
    wefti_lock_take(&shard->lock);
    int error = load_acquire(&shard->ledger->draining)   ? say(-ESHUTDOWN, why, room, "the node is going down")
                : load_relaxed(&shard->keep->unreadable) ? say(-EIO, why, room, "the shard is stopped") /* a look */
                                                         : 0;
    for (; !error && admitted < offer->count; admitted += !error)
        error = admit(&shard->pending, shard->keep, &offer->ids[admitted], &offer->txs[admitted], why, room);
    if (!error && (error = weft_shard_submit_many(into, offer->pooled, offer->count, NULL)))
        say(error, why, room, "%s",
            error == -EAGAIN ? "the shard's pool, or all pools together, are full: try later"
            : error == -EIO  ? "the shard is stopped"
                             : strerror(-error));
    while (error && admitted--)
        pending_take_back(&shard->pending, &offer->ids[admitted]);
    wefti_lock_give(&shard->lock);
    return read_seen(shard, error);
}

/* Would a shard without blocks take them?  What it would refuse does not make it. */
static int would_enter(const struct offer *offer, char *why, size_t room) {
    struct pending nobody = {0};
    int error = 0;
    for (size_t i = 0; !error && i < offer->count; i++)
        error = admit(&nobody, NULL, &offer->ids[i], &offer->txs[i], why, room);
    pending_free(&nobody);
    return error;
}

/* The shard, made if it is not there. */
static int shard_for(struct ledger *book, const char *name, const struct offer *offer, weft_shard **out, char *why,
                     size_t room) {
    if (load_acquire(&book->draining))
        return say(-ESHUTDOWN, why, room, "the node is going down");
    int error = weft_shard_find(book->lane, name) ? 0 : would_enter(offer, why, room);
    if (error)
        return error;
    if ((error = weft_shard_get(book->lane, name, out)))
        say(error, why, room, "making the shard: %s",
            error == -EUSERS ? "there are as many as there may be" : strerror(-error));
    return error;
}

int ledger_submit(ledger *book, const char *name, const weft_tx *txs, size_t count, hash32 *ids, char *why,
                  size_t room) {
    if (!shard_name_is_valid(name))
        return say(-EINVAL, why, room, "a shard's name has 1 to 63 bytes of UTF-8 without control characters");
    if (count == 0 || count > book->config.max_pool)
        return say(-EINVAL, why, room, count ? "more than the pool may hold" : "no transaction");
    struct offer offer = {.count = count, .ids = ids};
    weft_shard *shard;
    offer.txs = mem_resize(NULL, count * sizeof *offer.txs);
    offer.pooled = mem_resize(NULL, count * sizeof *offer.pooled);
    int error = offer.txs && offer.pooled ? 0 : say(-ENOMEM, why, room, "no memory");
    if (!error && !(error = prepare(book, name, txs, &offer, why, room)) &&
        !(error = shard_for(book, name, &offer, &shard, why, room)))
        error = enter(weft_shard_store_state(shard), shard, &offer, why, room);
    free(offer.txs);
    free(offer.pooled);
    free(offer.bytes);
    return error;
}
