/* batch.c - a batch becomes a block: execute, commit, release (shard.h has the order). */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "shard.h"

#define BLOCK_TIME INT64_C(1000000000) /* then it ends */

static struct made *made_get(struct ledger *book) {
    wefti_lock_take(&book->lock);
    struct made *made = book->spare;
    if (made)
        book->spare = made->next;
    wefti_lock_give(&book->lock);
    return made ? made : mem_new(sizeof *made);
}

void made_free(struct made *made) {
    overlay_free(&made->overlay);
    block_maker_free(&made->block);
    bytes_free(&made->exec.output);
    bytes_free(&made->head.runs);
    struct bytes *all[] = {&made->places,     &made->refused, &made->writes, &made->values,
                           &made->head_bytes, &made->run,     &made->gone};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bytes_free(all[i]);
    free(made->diff);
    free(made);
}

static void made_put(struct ledger *book, struct made *made) {
    free(made->diff);
    made->diff = NULL;
    wefti_lock_take(&book->lock);
    made->next = book->spare;
    book->spare = made;
    wefti_lock_give(&book->lock);
}

/* -- Execute -------------------------------------------------------------------------------------------------------- */

/* The key of a sender's nonce. */
static size_t nonce_key(const char *sender, unsigned char key[1 + TX_SENDER_MAX]) {
    size_t size = strlen(sender);
    key[0] = 'n';
    memcpy(key + 1, sender, size);
    return size + 1;
}

/* 1: it is this sender's turn, and the nonce is used now; 0: it is not; -error. */
static int use_nonce(struct made *made, const struct tx *tx) {
    unsigned char key[1 + TX_SENDER_MAX], fresh[8];
    size_t key_size = nonce_key(tx->sender, key), size;
    const void *value;
    int found = overlay_get(&made->overlay, key, key_size, &value, &size);
    if (found < 0 || (found && size != 8))
        return found < 0 ? found : -EBADMSG;
    if (tx->nonce != (found ? get64(value) : 0) + 1)
        return 0;
    put64(fresh, tx->nonce);
    int error = overlay_put(&made->overlay, key, key_size, fresh, sizeof fresh);
    overlay_settle(&made->overlay); /* used, whatever becomes of the rest */
    return error ? error : 1;
}

static int run_method(struct exec *exec) {
    if (!strcmp(exec->tx->executor, "kv"))
        return kv_run(exec);
    if (!strcmp(exec->tx->executor, "lua"))
        return lua_run(exec);
    return exec_fail(exec, "no executor %s", exec->tx->executor);
}

/* One transaction: 1 it is in the block, 0 it is refused, -error. */
static int run_tx(struct ledger *book, struct made *made, const weft_batch *batch, const weft_tx *pooled) {
    struct tx tx;
    const char *why;
    if (tx_decode(pooled_bytes(pooled), pooled_size(pooled), &tx, &why))
        return 0;
    int mine = use_nonce(made, &tx);
    if (mine <= 0)
        return mine;
    struct exec *exec = &made->exec;
    exec->tx = &tx;
    exec->gas = 0;
    exec->limit = tx.gas ? tx.gas : book->config.gas_limit;
    exec->reason[0] = 0;
    bytes_clear(&exec->output);
    block_record_begin(&made->block, pooled_id(pooled), pooled_bytes(pooled), pooled_size(pooled));
    int result = exec_pay(exec, GAS_TX + pooled_size(pooled) / GAS_BYTES) ? run_method(exec) : 1;
    if (result < 0)
        return result;
    if (result)
        overlay_undo(&made->overlay);
    else
        overlay_settle(&made->overlay);
    struct place_of place = {prefix_of(pooled_id(pooled)), where_of(batch->block, made->block.txs)};
    bytes_put(&made->places, &place, sizeof place);
    if (exec->output.failed)
        return -ENOMEM;
    block_record_end(&made->block, result == 0, exec->gas, result ? exec->reason : "", exec->output.data,
                     result ? 0 : exec->output.size);
    made->gas += exec->gas;
    made->contracts |= tx.executor[0] == 'l';
    return 1;
}

/* What a block has no room for stays in the pool: the end of a turn, and of the node, are looked at between blocks, so none may take long. */
static bool is_full(const struct ledger *book, const struct made *made) {
    return made->block.bytes.size > BLOCK_SIZE_MAX / 2 || made->gas >= book->config.block_gas ||
           (made->contracts && wefti_clock() - made->began > BLOCK_TIME) || /* 4,096 of kv take milliseconds */
           load_relaxed(&book->ending); /* a look */
}

static int run_all(struct ledger *book, struct made *made, weft_batch *batch, struct keep_view *view) {
    overlay_begin(&made->overlay, view);
    block_begin(&made->block);
    bytes_clear(&made->places);
    bytes_clear(&made->refused);
    made->exec.overlay = &made->overlay;
    made->exec.block = &made->block;
    made->exec.env = &made->env;
    made->exec.ending = &book->ending;
    made->exec.number = batch->block;
    made->exec.chunks = &book->chunks;
    made->exec.lua_memory = book->config.lua_memory;
    made->exec.lua_time = book->config.lua_time;
    made->gas = 0;
    made->contracts = false;
    made->began = wefti_clock();
    for (size_t i = 0; i < batch->count; i++) {
        if (i && is_full(book, made)) {
            batch->count = i;
            break;
        }
        int in = run_tx(book, made, batch, &batch->txs[i]);
        if (in < 0)
            return in;
        bytes_put8(&made->refused, !in);
    }
    if (made->block.bytes.failed || made->block.table.failed || made->places.failed || made->refused.failed)
        return -ENOMEM;
    return made->block.txs ? 0 : -ECANCELED; /* nothing to make a block of */
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The head after this block: a copy, with the block's transactions in the index. */
static int next_head(struct made *made, const struct ledger_shard *shard, struct keep_view *view) {
    struct bytes runs = made->head.runs;
    bytes_clear(&runs);
    bytes_put(&runs, shard->head.runs.data, shard->head.runs.size);
    made->head = shard->head;
    made->head.runs = runs;
    made->head.number = made->about.number;
    made->head.hash = made->about.hash;
    made->head.txs += made->block.txs;
    bytes_clear(&made->run);
    bytes_clear(&made->gone);
    bytes_clear(&made->head_bytes);
    if (runs.failed)
        return -ENOMEM;
    int error = index_add(&made->head, view, (struct place_of *)(void *)made->places.data, made->block.txs, &made->run,
                          &made->gone);
    head_encode(&made->head, &made->head_bytes);
    return error ? error : made->head_bytes.failed ? -ENOMEM : 0;
}

int batch_execute(void *self, void *shard_state, weft_batch *batch) {
    struct ledger *book = self;
    struct ledger_shard *shard = shard_state;
    struct made *made = made_get(book);
    struct keep_view view;
    batch->out = made;
    if (!made)
        return -ENOMEM;
    made->error = load_relaxed(&shard->keep->unreadable) ? -EIO : 0; /* a look: a reader found it */
    if (made->error)
        return 0;
    int error = shard->keep->ops->begin(shard->keep, true, &view);
    if (error == -EIO || error == -EBADMSG) /* as below */
        made->error = error;
    if (error)
        return made->error ? 0 : error;
    made->env = *batch->env;
    if (made->env.timestamp < shard->times.timestamp)
        made->env.timestamp = shard->times.timestamp;
    error = run_all(book, made, batch, &view);
    uint64_t time = now_ms();
    if (!error)
        error = overlay_diff(&made->overlay, &made->diff, &made->diff_count);
    if (!error) {
        made->about = (struct ledger_block){.number = batch->block,
                                            .parent = shard->head.hash,
                                            .env = made->env,
                                            .time = time > shard->times.time ? time : shard->times.time,
                                            .txs = made->block.txs,
                                            .failed = made->block.failed,
                                            .writes = (uint32_t)made->diff_count};
        error = block_end(&made->block, shard->name, &made->about, made->diff, made->diff_count, &made->about.hash);
    }
    if (!error)
        error = next_head(made, shard, &view);
    shard->keep->ops->end(&view);
    if (keep_may_go_on(error))
        return error;
    made->error = error; /* a damaged or unreadable store: commit says so, and the shard stops */
    return 0;
}

/* -- Commit --------------------------------------------------------------------------------------------------------- */

static void add_write(struct bytes *writes, const void *key, size_t key_size, const void *value, size_t size) {
    struct keep_write write = {key, value, key_size, size};
    bytes_put(writes, &write, sizeof write);
}

int batch_commit(void *self, void *shard_state, const weft_batch *batch) {
    struct ledger_shard *shard = shard_state;
    struct made *made = batch->out;
    (void)self;
    if (made->error)
        return made->error;
    size_t room = 0, gone = made->gone.size / 8;
    for (size_t i = 0; i < made->diff_count; i++)
        room += made->diff[i].value ? 4 + made->diff[i].value_size : 0;
    bytes_clear(&made->values);
    bytes_clear(&made->writes);
    unsigned char *values = bytes_add(&made->values, room + (gone + 2) * NUMBER_KEY); /* at once: it must not move */
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < made->diff_count; i++) {
        const struct block_write *change = &made->diff[i];
        add_write(&made->writes, change->key, change->key_size, change->value ? values : NULL, 4 + change->value_size);
        if (!change->value)
            continue;
        put32(values, state_crc(change->key, change->key_size, change->value, change->value_size));
        memcpy(values + 4, change->value, change->value_size);
        values += 4 + change->value_size;
    }
    for (size_t i = 0; i < gone; i++, values += NUMBER_KEY) {
        number_key('i', get64(made->gone.data + 8 * i), values);
        add_write(&made->writes, values, NUMBER_KEY, NULL, 0);
    }
    number_key('i', made->head.next_run - 1, values);
    add_write(&made->writes, values, NUMBER_KEY, made->run.data, made->run.size);
    number_key('b', batch->block, values + NUMBER_KEY);
    add_write(&made->writes, values + NUMBER_KEY, NUMBER_KEY, made->block.bytes.data, made->block.bytes.size);
    add_write(&made->writes, "h", 1, made->head_bytes.data, made->head_bytes.size);
    if (made->writes.failed)
        return -ENOMEM;
    int error = shard->keep->ops->commit(shard->keep, (struct keep_write *)(void *)made->writes.data,
                                         made->writes.size / sizeof(struct keep_write));
    if (error)
        return error;
    struct head before = shard->head;
    shard->head = made->head;
    shard->times = (struct block_times){made->about.time, made->about.env.timestamp};
    made->head = before;
    return 0;
}

bool batch_fatal(void *self, int error) {
    (void)self;
    return !keep_may_go_on(error);
}

/* -- Release -------------------------------------------------------------------------------------------------------- */

static void refuse(struct ledger_shard *shard, const weft_tx *pooled, int why) {
    struct tx tx;
    const char *wrong;
    uint64_t nonce = 0;
    if (tx_decode(pooled_bytes(pooled), pooled_size(pooled), &tx, &wrong) == 0)
        read_nonce(shard->keep, tx.sender, &nonce);
    wefti_lock_take(&shard->lock);
    pending_refuse(&shard->pending, pooled_id(pooled), nonce + 1, why);
    wefti_lock_give(&shard->lock);
}

static void tell(struct ledger *book, struct made *made, weft_shard *shard) {
    struct ledger_receipt *receipts = mem_resize(NULL, made->block.txs * sizeof *receipts + 1);
    struct block_view view;
    struct block_record record;
    size_t count = 0;
    if (receipts && block_open(made->block.bytes.data, made->block.bytes.size, &view) == 0)
        for (; count < made->block.txs && block_record_made(&view, (uint32_t)count, &record) == 0; count++)
            receipts[count] = record.receipt;
    book->config.told(book->config.arg, shard, &made->about, receipts, count);
    free(receipts);
}

void batch_release(void *self, weft_batch *batch, int committed) {
    struct ledger *book = self;
    struct ledger_shard *shard = weft_shard_store_state(batch->shard);
    struct made *made = batch->out;
    if (!made)
        return;
    if (committed) {
        wefti_lock_take(&shard->lock);
        for (size_t i = 0; i < batch->count; i++)
            if (!made->refused.data[i])
                pending_done(&shard->pending, pooled_id(&batch->txs[i]));
        wefti_lock_give(&shard->lock);
        for (size_t i = 0; i < batch->count && made->block.txs < batch->count; i++)
            if (made->refused.data[i])
                refuse(shard, &batch->txs[i], -EALREADY); /* its nonce was not the next */
        if (book->config.told)
            tell(book, made, batch->shard);
    }
    made_put(book, made);
    batch->out = NULL;
}

void batch_done(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error) {
    struct ledger *book = arg;
    (void)block;
    if (error == -ECANCELED && !load_relaxed(&book->ending)) /* a batch without a block: all of them were out of turn */
        error = -EALREADY;
    if (error) /* the others have left in release */
        refuse(weft_shard_store_state(shard), tx, error);
}
