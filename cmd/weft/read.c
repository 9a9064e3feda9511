/* read.c - looking at a ledger: one moment of one shard at a time. */
#include <errno.h>
#include <stdio.h>

#include "shard.h"

static struct ledger_shard *find(ledger *book, const char *name) {
    weft_shard *shard = weft_shard_find(book->lane, name);
    return shard ? weft_shard_store_state(shard) : NULL;
}

/* Said once, when it is seen: from then on nothing is written (batch_execute, enter). */
int read_seen(struct ledger_shard *shard, int error) {
    if (error == -EBADMSG)
        store_relaxed(&shard->keep->unreadable, true); /* a look */
    if (load_relaxed(&shard->keep->unreadable) && !xchg_relaxed(&shard->said, true)) /* looks */
        fprintf(stderr, "weft: shard \"%s\": its store %s; the shard is stopped\n", shard->name,
                error == -EBADMSG ? "is damaged, as 'weft node verify' will say"
                                  : "cannot be read: Input/output error");
    return error;
}

int read_head(struct keep_view *view, void *arg) {
    const void *value;
    size_t size;
    struct head *out = arg;
    int found = view->keep->ops->get(view, "h", 1, &value, &size);
    return found < 0 ? found : found ? head_decode(value, size, out) : -EBADMSG; /* a keep without one was never made */
}

static int read_block(struct keep_view *view, uint64_t number, struct block_view *out) {
    unsigned char key[NUMBER_KEY];
    const void *value;
    size_t size;
    number_key('b', number, key);
    int found = view->keep->ops->get(view, key, sizeof key, &value, &size);
    return found < 0 ? found : !found ? -ENOENT : block_open(value, size, out);
}

struct times_wanted {
    uint64_t number;
    struct block_times times;
};

static int look_at_times(struct keep_view *view, void *arg) {
    struct times_wanted *wanted = arg;
    struct block_view block;
    int error = read_block(view, wanted->number, &block);
    if (!error)
        wanted->times = (struct block_times){block.about.time, block.about.env.timestamp};
    return error;
}

void read_times(struct keep *keep, uint64_t number, struct block_times *out) {
    struct times_wanted wanted = {.number = number};
    *out = (struct block_times){0};
    if (number && keep_look(keep, look_at_times, &wanted) == 0)
        *out = wanted.times;
}

/* -- Values --------------------------------------------------------------------------------------------------------- */

struct wanted {
    const unsigned char *key;
    size_t key_size;
    struct bytes value; /* a copy */
    uint64_t number; /* instead, if is_number: a copy needs memory */
    bool is_number;
};

/* 0; -ENOENT; -EBADMSG; -ENOMEM. */
static int read_value(struct keep_view *view, void *arg) {
    struct wanted *wanted = arg;
    const void *value;
    size_t size;
    int found = view->keep->ops->get(view, wanted->key, wanted->key_size, &value, &size);
    int error = found < 0 ? found : found ? state_open(wanted->key, wanted->key_size, &value, &size) : -ENOENT;
    if (!error && wanted->is_number)
        wanted->number = size == 8 ? get64(value) : 0;
    else if (!error)
        bytes_put(&wanted->value, value, size);
    return error ? error : wanted->value.failed ? -ENOMEM : 0;
}

int read_nonce(struct keep *keep, const char *sender, uint64_t *out) {
    unsigned char key[1 + TX_SENDER_MAX] = "n";
    size_t size = strlen(sender);
    struct wanted wanted = {.key = key, .key_size = size + 1, .is_number = true};
    *out = 0;
    if (size > TX_SENDER_MAX)
        return -EINVAL;
    memcpy(key + 1, sender, size);
    int error = keep_look(keep, read_value, &wanted);
    *out = wanted.number;
    return error == -ENOENT ? 0 : error;
}

uint64_t ledger_nonce(ledger *book, const char *name, const char *sender) {
    struct ledger_shard *shard = find(book, name);
    uint64_t nonce = 0;
    if (shard)
        read_seen(shard, read_nonce(shard->keep, sender, &nonce));
    return nonce;
}

int ledger_nonces(ledger *book, const char *name, const char *sender, uint64_t *used, uint64_t *next) {
    struct ledger_shard *shard = find(book, name);
    if (!shard)
        return -ENOENT;
    wefti_lock_take(&shard->lock);
    struct pending_sender *waiting = pending_sender(&shard->pending, sender);
    *next = waiting ? waiting->nonce : 0;
    wefti_lock_give(&shard->lock);
    int error = read_seen(shard, read_nonce(shard->keep, sender, used));
    *next = *next > *used ? *next : *used + 1;
    return error;
}

/* -- Transactions --------------------------------------------------------------------------------------------------- */

struct search {
    const hash32 *id;
    struct keep_view *view;
    struct head head;
    struct block_record record;
    struct bytes copy; /* of the record */
    bool only_status;
};

static int is_it(void *arg, uint64_t number, uint32_t index) {
    struct search *search = arg;
    struct block_view block;
    int error = read_block(search->view, number, &block);
    if (!error)
        error = block_record_at(&block, index, &search->record);
    return error ? error : !memcmp(&search->record.id, search->id, sizeof *search->id);
}

static int find_record(struct keep_view *view, void *arg) {
    struct search *search = arg;
    search->view = view;
    int found = read_head(view, &search->head);
    if (!found)
        found = index_find(&search->head, view, search->id, is_it, search);
    if (found != 1)
        return found ? found : -ENOENT;
    if (!search->only_status)
        bytes_put(&search->copy, search->record.raw, search->record.raw_size);
    return search->copy.failed ? -ENOMEM : 0;
}

/* 0: record is there, its bytes in `copy`, which the caller frees; -ENOENT; another error. */
static int search(struct ledger_shard *shard, struct search *search) {
    int error = read_seen(shard, keep_look(shard->keep, find_record, search));
    bytes_free(&search->head.runs);
    if (!error && !search->only_status)
        block_record_move(&search->record, search->copy.data);
    else
        bytes_free(&search->copy);
    return error;
}

int ledger_tx_look(ledger *book, const char *name, const hash32 *tx, enum tx_status *out) {
    struct ledger_shard *shard = find(book, name);
    struct search found = {.id = tx, .only_status = true};
    *out = TX_UNKNOWN;
    if (!shard)
        return 0;
    wefti_lock_take(&shard->lock);
    *out = pending_status(&shard->pending, tx);
    wefti_lock_give(&shard->lock);
    int error = *out == TX_PENDING ? -ENOENT : search(shard, &found);
    if (!error)
        *out = found.record.receipt.status;
    return error == -ENOENT ? 0 : error;
}

enum tx_status ledger_tx_status(ledger *book, const char *name, const hash32 *tx) {
    enum tx_status status;
    (void)ledger_tx_look(book, name, tx, &status);
    return status;
}

int ledger_receipt_get(ledger *book, const char *name, const hash32 *tx,
                       void (*use)(void *arg, const struct ledger_receipt *receipt), void *arg) {
    struct ledger_shard *shard = find(book, name);
    struct search found = {.id = tx};
    int error = shard ? search(shard, &found) : -ENOENT;
    if (error)
        return error;
    use(arg, &found.record.receipt);
    bytes_free(&found.copy);
    return 0;
}

int ledger_trace_get(ledger *book, const char *name, const hash32 *tx,
                     void (*use)(void *arg, const struct ledger_step *steps, size_t count), void *arg) {
    struct ledger_shard *shard = find(book, name);
    struct search found = {.id = tx};
    int error = shard ? search(shard, &found) : -ENOENT;
    if (error)
        return error;
    struct ledger_step *steps = mem_resize(NULL, found.record.step_count * sizeof *steps + 1);
    size_t count = 0;
    while (steps && count < found.record.step_count && block_next_step(&found.record, &steps[count]))
        count++;
    error = !steps ? -ENOMEM : count == found.record.step_count ? 0 : -EBADMSG;
    if (!error)
        use(arg, steps, count);
    bytes_free(&found.copy);
    free(steps);
    return error;
}

/* -- Blocks and state ------------------------------------------------------------------------------------------------ */

struct block_wanted {
    uint64_t number;
    struct head head;
    struct block_view block; /* of which only `about` is used outside */
    hash32 *ids;
};

static int find_block(struct keep_view *view, void *arg) {
    struct block_wanted *wanted = arg;
    int error = wanted->number ? 0 : read_head(view, &wanted->head);
    uint64_t number = wanted->number ? wanted->number : wanted->head.number;
    if (!error)
        error = number ? read_block(view, number, &wanted->block) : -ENOENT;
    return error ? error : block_ids(&wanted->block, &wanted->ids);
}

int ledger_block_get(ledger *book, const char *name, uint64_t number,
                     void (*use)(void *arg, const struct ledger_block *block, const hash32 *txs), void *arg) {
    struct ledger_shard *shard = find(book, name);
    struct block_wanted wanted = {.number = number};
    int error = shard ? read_seen(shard, keep_look(shard->keep, find_block, &wanted)) : -ENOENT;
    if (!error)
        use(arg, &wanted.block.about, wanted.ids);
    bytes_free(&wanted.head.runs);
    free(wanted.ids);
    return error;
}

int ledger_state_get(ledger *book, const char *name, const void *key, size_t key_size,
                     void (*use)(void *arg, const void *value, size_t size), void *arg) {
    struct ledger_shard *shard = find(book, name);
    unsigned char full[STATE_KEY_MAX + 1] = "s";
    struct wanted wanted = {.key = full, .key_size = key_size + 1};
    if (!shard || key_size > STATE_KEY_MAX)
        return -ENOENT;
    memcpy(full + 1, key, key_size);
    int error = read_seen(shard, keep_look(shard->keep, read_value, &wanted));
    if (!error)
        use(arg, wanted.value.size ? (const void *)wanted.value.data : "", wanted.value.size);
    bytes_free(&wanted.value);
    return error;
}

void ledger_shard_info(weft_shard *shard, weft_shard_info *out) {
    struct ledger_shard *state = weft_shard_store_state(shard);
    weft_shard_info_read(shard, out);
    if (load_relaxed(&state->keep->unreadable)) /* a look */
        out->state = WEFT_SHARD_STOPPED;
}
