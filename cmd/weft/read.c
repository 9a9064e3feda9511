/* read.c - looking at a ledger: one moment of one shard at a time. */
#include <errno.h>

#include "shard.h"

static struct ledger_shard *find(ledger *book, const char *name) {
    weft_shard *shard = weft_shard_find(book->lane, name);
    return shard ? weft_shard_store_state(shard) : NULL;
}

int read_head(struct keep_view *view, struct head *out) {
    const void *value;
    size_t size;
    int found = view->keep->ops->get(view, "h", 1, &value, &size);
    *out = (struct head){0};
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

int read_nonce(struct keep *keep, const char *sender, uint64_t *out) {
    unsigned char key[1 + TX_SENDER_MAX] = "n";
    size_t sender_size = strlen(sender), size;
    const void *value;
    struct keep_view view;
    *out = 0;
    if (sender_size > TX_SENDER_MAX)
        return -EINVAL;
    memcpy(key + 1, sender, sender_size);
    int error = keep->ops->begin(keep, false, &view);
    if (error)
        return error;
    int found = keep->ops->get(&view, key, sender_size + 1, &value, &size);
    error = found < 0 ? found : found ? state_open(key, sender_size + 1, &value, &size) : 0;
    if (!error && found && size == 8)
        *out = get64(value);
    keep->ops->end(&view);
    return error;
}

uint64_t ledger_nonce(ledger *book, const char *name, const char *sender) {
    struct ledger_shard *shard = find(book, name);
    uint64_t nonce = 0;
    if (shard)
        read_nonce(shard->keep, sender, &nonce);
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
    int error = read_nonce(shard->keep, sender, used);
    *next = *next > *used ? *next : *used + 1;
    return error;
}

/* -- Transactions --------------------------------------------------------------------------------------------------- */

struct search {
    struct keep_view view;
    const hash32 *id;
    struct block_record record;
};

static int is_it(void *arg, uint64_t number, uint32_t index) {
    struct search *search = arg;
    struct block_view block;
    int error = read_block(&search->view, number, &block);
    if (!error)
        error = block_record_at(&block, index, &search->record);
    return error ? error : !memcmp(&search->record.id, search->id, sizeof *search->id);
}

/* Begins a view and finds it in: 0, and then the view must be ended; -ENOENT; another error. */
static int search(struct ledger_shard *shard, const hash32 *id, struct search *out) {
    struct head head;
    out->id = id;
    int found = shard->keep->ops->begin(shard->keep, false, &out->view);
    if (found)
        return found;
    found = read_head(&out->view, &head);
    if (!found)
        found = index_find(&head, &out->view, id, is_it, out);
    bytes_free(&head.runs);
    if (found == 1)
        return 0;
    shard->keep->ops->end(&out->view);
    return found ? found : -ENOENT;
}

enum tx_status ledger_tx_status(ledger *book, const char *name, const hash32 *tx) {
    struct ledger_shard *shard = find(book, name);
    struct search found;
    if (!shard)
        return TX_UNKNOWN;
    wefti_lock_take(&shard->lock);
    enum tx_status status = pending_status(&shard->pending, tx);
    wefti_lock_give(&shard->lock);
    if (status == TX_PENDING || search(shard, tx, &found))
        return status;
    status = found.record.receipt.status;
    shard->keep->ops->end(&found.view);
    return status;
}

int ledger_receipt_get(ledger *book, const char *name, const hash32 *tx,
                       void (*use)(void *arg, const struct ledger_receipt *receipt), void *arg) {
    struct ledger_shard *shard = find(book, name);
    struct search found;
    int error = shard ? search(shard, tx, &found) : -ENOENT;
    if (error)
        return error;
    use(arg, &found.record.receipt);
    shard->keep->ops->end(&found.view);
    return 0;
}

int ledger_trace_get(ledger *book, const char *name, const hash32 *tx,
                     void (*use)(void *arg, const struct ledger_step *steps, size_t count), void *arg) {
    struct ledger_shard *shard = find(book, name);
    struct search found;
    int error = shard ? search(shard, tx, &found) : -ENOENT;
    if (error)
        return error;
    struct ledger_step *steps = mem_resize(NULL, found.record.step_count * sizeof *steps + 1);
    size_t count = 0;
    while (steps && count < found.record.step_count && block_next_step(&found.record, &steps[count]))
        count++;
    error = !steps ? -ENOMEM : count == found.record.step_count ? 0 : -EBADMSG;
    if (!error)
        use(arg, steps, count);
    shard->keep->ops->end(&found.view);
    free(steps);
    return error;
}

/* -- Blocks and state ------------------------------------------------------------------------------------------------ */

int ledger_block_get(ledger *book, const char *name, uint64_t number,
                     void (*use)(void *arg, const struct ledger_block *block, const hash32 *txs), void *arg) {
    struct ledger_shard *shard = find(book, name);
    struct keep_view view;
    struct block_view block;
    struct head head = {0};
    hash32 *ids = NULL;
    int error = shard ? shard->keep->ops->begin(shard->keep, false, &view) : -ENOENT;
    if (error)
        return error;
    if (number == 0 && !(error = read_head(&view, &head)))
        number = head.number;
    if (!error && !(error = number ? read_block(&view, number, &block) : -ENOENT) && !(error = block_ids(&block, &ids)))
        use(arg, &block.about, ids);
    shard->keep->ops->end(&view);
    bytes_free(&head.runs);
    free(ids);
    return error;
}

int ledger_state_get(ledger *book, const char *name, const void *key, size_t key_size,
                     void (*use)(void *arg, const void *value, size_t size), void *arg) {
    struct ledger_shard *shard = find(book, name);
    unsigned char full[STATE_KEY_MAX + 1] = "s";
    struct keep_view view;
    const void *value;
    size_t size;
    if (!shard || key_size > STATE_KEY_MAX)
        return -ENOENT;
    memcpy(full + 1, key, key_size);
    int found = shard->keep->ops->begin(shard->keep, false, &view);
    if (found)
        return found;
    found = shard->keep->ops->get(&view, full, key_size + 1, &value, &size);
    int error = found < 0 ? found : found ? state_open(full, key_size + 1, &value, &size) : -ENOENT;
    if (!error)
        use(arg, value, size);
    shard->keep->ops->end(&view);
    return error;
}
