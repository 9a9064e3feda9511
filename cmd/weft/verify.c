/* verify.c - walks a directory's chains without a node and without LMDB.
 *
 * What.   Each shard's file is read by pages.c, which finds damage of the tree.  Its keys come in order: blocks, head, index, nonces, state.  Blocks are
 *         checked one by one, and their diffs played into a keep in memory: what follows must be exactly that.
 * Memory. The state and nonces of one shard.  Places of transactions are compared as sums, so they need none.
 */
#include <errno.h>
#include <stdio.h>

#include "pages.h"
#include "shard.h"

struct check {
    const char *shard;
    void (*finding)(void *arg, const char *shard, uint64_t block, const char *what);
    void (*progress)(void *arg, const char *shard, uint64_t blocks);
    void *arg;
    int64_t findings;
    struct keep *state; /* what the diffs make */
    uint64_t blocks, txs, runs, entries;
    hash32 hash;               /* of the last block */
    uint64_t time, timestamp;  /* likewise */
    uint64_t expected, indexed; /* sums of places: of the blocks, of the runs */
    struct head head;
    bool has_head;
};

static void find(struct check *check, uint64_t block, const char *what) {
    check->findings++;
    check->finding(check->arg, check->shard, block, what);
}

/* Places sum up to the same only if they are the same, whatever their order. */
static uint64_t weight(struct place_of place) {
    uint64_t value = place.prefix * UINT64_C(0x9e3779b97f4a7c15) ^ (place.where + UINT64_C(0xd6e8feb86659fd93));
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    value = (value ^ value >> 29) * UINT64_C(0xff51afd7ed558ccd);
    return value ^ value >> 32;
}

/* -- Blocks --------------------------------------------------------------------------------------------------------- */

static int play(struct check *check, const struct block_view *block) {
    struct reader reader;
    struct block_write change;
    struct bytes writes = {0}, values = {0};
    block_diff_begin(block, &reader);
    unsigned char *value = bytes_add(&values, block->size - block->diff + 4 * (size_t)block->about.writes);
    while (value && block_diff_next(&reader, &change)) {
        struct keep_write write = {change.key, change.value ? value : NULL, change.key_size, 4 + change.value_size};
        if (change.value) {
            put32(value, state_crc(change.key, change.key_size, change.value, change.value_size));
            memcpy(value + 4, change.value, change.value_size);
            value += 4 + change.value_size;
        }
        bytes_put(&writes, &write, sizeof write);
    }
    int error = !value || writes.failed ? -ENOMEM : 0;
    if (!error)
        error = check->state->ops->commit(check->state, (struct keep_write *)(void *)writes.data,
                                          writes.size / sizeof(struct keep_write));
    bytes_free(&writes);
    bytes_free(&values);
    return error;
}

static void check_txs(struct check *check, const struct block_view *block) {
    for (uint32_t i = 0; i < block->about.txs; i++) {
        struct block_record record;
        struct tx tx;
        const char *why;
        if (block_record_at(block, i, &record))
            continue; /* block_check has said so */
        hash32 id = tx_id(check->shard, record.tx, record.tx_size);
        if (memcmp(&id, &record.id, sizeof id))
            find(check, block->about.number, "a transaction's id is another");
        if (tx_decode(record.tx, record.tx_size, &tx, &why))
            find(check, block->about.number, "a transaction cannot be read");
        check->expected += weight((struct place_of){prefix_of(&id), where_of(block->about.number, i)});
    }
}

static int check_block(struct check *check, uint64_t number, const void *value, size_t size) {
    struct block_view block;
    check->blocks++;
    if (block_open(value, size, &block)) {
        find(check, number, "its head is damaged");
        return 0;
    }
    const char *wrong = block_check(&block);
    if (wrong)
        find(check, number, wrong);
    if (number != check->blocks || block.about.number != number)
        find(check, number, "its number is another");
    if (memcmp(&block.about.parent, &check->hash, sizeof check->hash))
        find(check, number, "its parent is another");
    if (strcmp(block.shard, check->shard))
        find(check, number, "it is another shard's");
    if (block.about.time < check->time || block.about.env.timestamp < check->timestamp)
        find(check, number, "its time is before its parent's");
    check->time = block.about.time;
    check->timestamp = block.about.env.timestamp;
    check->hash = block.about.hash;
    check->txs += block.about.txs;
    check_txs(check, &block);
    if (check->progress && check->blocks % 1000 == 0)
        check->progress(check->arg, check->shard, check->blocks);
    return wrong ? 0 : play(check, &block);
}

/* -- The rest ------------------------------------------------------------------------------------------------------- */

static int check_head(struct check *check, const void *value, size_t size) {
    bytes_free(&check->head.runs);
    int error = head_decode(value, size, &check->head);
    if (error == -ENOMEM)
        return error;
    check->has_head = error == 0;
    if (error)
        find(check, 0, "the head is damaged");
    else if (check->head.number != check->blocks || check->head.txs != check->txs ||
             memcmp(&check->head.hash, &check->hash, sizeof check->hash) || strcmp(check->head.shard, check->shard))
        find(check, check->head.number, "the head is not of the last block");
    return 0;
}

static int check_run(struct check *check, uint64_t seq, const void *value, size_t size) {
    const unsigned char *entries;
    size_t count, known = 0;
    struct place_of before = {0, 0};
    if (run_open(value, size, &entries, &count)) {
        find(check, 0, "a run of the index is damaged");
        return 0;
    }
    for (size_t i = 0; i < head_run_count(&check->head); i++)
        known += head_runs(&check->head)[i].seq == seq && head_runs(&check->head)[i].count == count;
    if (known != 1)
        find(check, 0, "a run of the index that the head does not know");
    check->runs++;
    for (size_t i = 0; i < count; i++) {
        struct place_of place = run_entry(entries, i);
        if (place.prefix < before.prefix)
            find(check, 0, "a run of the index is not in order");
        check->indexed += weight(place);
        before = place;
    }
    return 0;
}

static int check_state(struct check *check, const void *key, size_t key_size, const void *value, size_t size) {
    struct keep_view view;
    const void *expected;
    size_t expected_size;
    check->entries++;
    int error = check->state->ops->begin(check->state, true, &view);
    if (error)
        return error;
    int found = check->state->ops->get(&view, key, key_size, &expected, &expected_size);
    if (found != 1 || size != expected_size || memcmp(value, expected, size))
        find(check, 0,
             *(const char *)key == 'n' ? "a nonce is not what the blocks say" : "a state is not what the blocks say");
    check->state->ops->end(&view);
    return 0;
}

static int check_key(void *arg, const void *key, size_t key_size, const void *value, size_t size) {
    struct check *check = arg;
    const unsigned char *letter = key;
    uint64_t number = 0;
    for (size_t i = 1; i < key_size && i < NUMBER_KEY; i++)
        number = number << 8 | letter[i];
    if (key_size == NUMBER_KEY && *letter == 'b')
        return check_block(check, number, value, size);
    if (key_size == 1 && *letter == 'h')
        return check_head(check, value, size);
    if (key_size == NUMBER_KEY && *letter == 'i')
        return check_run(check, number, value, size);
    if (key_size > 1 && (*letter == 'n' || *letter == 's'))
        return check_state(check, key, key_size, value, size);
    find(check, 0, "a key that no node writes");
    return 0;
}

static int check_shard(struct check *check, const char *path) {
    char what[160], older[320];
    uint64_t txn = 0, before = 0;
    int error = pages_walk(path, 0, check_key, check, &txn, what, sizeof what);
    if (error > 0)
        find(check, 0, what);
    if (error)
        return error < 0 ? error : 0; /* the rest is unknown */
    if (!check->has_head)
        find(check, 0, "there is no head");
    else if (txn != check->head.number + 1) /* one transaction made the shard, then one each block */
        find(check, check->head.number, "blocks are missing at the end, or there are too many");
    if (check->has_head && check->runs != head_run_count(&check->head))
        find(check, 0, "a run of the index is missing");
    if (check->indexed != check->expected)
        find(check, 0, "the index is not what the blocks say");
    if (check->entries != keep_memory_count(check->state))
        find(check, 0, "a state or nonce is missing");
    error = pages_walk(path, 1, NULL, NULL, &before, what, sizeof what); /* what LMDB would go back to */
    if (error > 0) {
        snprintf(older, sizeof older, "%s what LMDB keeps of the time before it is not whole: %s",
                 check->findings ? "also" : "it is good, but", what);
        find(check, check->head.number, older);
    }
    return error < 0 ? error : 0;
}

struct whole {
    struct place place;
    struct check check;
    int64_t findings;
};

static int check_one(void *arg, const char *name, const char *folder) {
    struct whole *whole = arg;
    struct check check = whole->check;
    char *path = NULL;
    check.shard = name ? name : folder;
    int error = 0;
    if (!name) {
        find(&check, 0, "a folder that is no shard's");
    } else if (!(error = keep_memory_open(&check.state))) {
        if (!(error = place_shard(&whole->place, name, NULL, &path)))
            error = check_shard(&check, path);
        if (check.progress && !error)
            check.progress(check.arg, name, check.blocks);
        check.state->ops->close(check.state);
    }
    free(path);
    bytes_free(&check.head.runs);
    whole->findings += check.findings;
    return error;
}

int64_t ledger_verify(const char *dir, void (*finding)(void *arg, const char *shard, uint64_t block, const char *what),
                      void (*progress)(void *arg, const char *shard, uint64_t blocks), void *arg) {
    struct whole whole = {.check = {.finding = finding, .progress = progress, .arg = arg}};
    int error = place_look(&whole.place, dir, NULL, 0);
    if (error)
        return error;
    error = place_each(&whole.place, check_one, &whole);
    place_close(&whole.place);
    return error ? error : whole.findings;
}
