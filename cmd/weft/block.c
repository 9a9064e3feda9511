/* block.c - blocks to bytes and back. */
#include "block.h"

#include <errno.h>
#include <stdio.h>

#include "hash.h"

#define MAGIC 0x4b4c4257u /* "WBLK" */
#define FORMAT 1u
#define CRC_AT (BLOCK_HEAD - 36) /* of what is before it */
#define HASH_AT (BLOCK_HEAD - 32)
#define RECORD_HEAD 8 /* size, CRC */
#define TABLE_ENTRY 36

const char *const step_names[STEP_KINDS] = {"get", "put", "del", "emit", "log"};

/* -- Making ------------------------------------------------------------------------------------------------------- */

void block_begin(struct block_maker *maker) {
    bytes_clear(&maker->bytes);
    bytes_clear(&maker->table);
    bytes_add(&maker->bytes, BLOCK_HEAD);
    maker->txs = maker->failed = 0;
}

void block_record_begin(struct block_maker *maker, const hash32 *id, const void *tx, size_t size) {
    struct bytes *bytes = &maker->bytes;
    maker->record = bytes->size;
    maker->step_count = 0;
    bytes_put32(&maker->table, (uint32_t)maker->record);
    bytes_put(&maker->table, id, sizeof *id);
    bytes_add(bytes, RECORD_HEAD);
    bytes_put32(bytes, maker->txs);
    bytes_put(bytes, id, sizeof *id);
    bytes_put_sized(bytes, tx, size);
    maker->steps = bytes->size;
    bytes_put64(bytes, 0); /* size and count of the steps */
}

void block_step(struct block_maker *maker, enum step_kind kind, const void *key, size_t key_size, const void *value,
                size_t value_size) {
    bytes_put8(&maker->bytes, kind);
    bytes_put_sized(&maker->bytes, key, key_size);
    bytes_put_sized(&maker->bytes, value, value_size);
    maker->step_count++;
}

void block_record_end(struct block_maker *maker, bool ok, uint64_t gas, const char *reason, const void *output,
                      size_t output_size) {
    struct bytes *bytes = &maker->bytes;
    size_t steps = bytes->size - maker->steps - 8;
    bytes_put8(bytes, ok ? TX_OK : TX_FAILED);
    bytes_put64(bytes, gas);
    bytes_put_sized(bytes, reason, strlen(reason) + 1); /* with its zero: read in place */
    bytes_put_sized(bytes, output, output_size);
    maker->txs++;
    maker->failed += !ok;
    if (bytes->failed)
        return;
    put32(bytes->data + maker->steps, (uint32_t)steps);
    put32(bytes->data + maker->steps + 4, maker->step_count);
    unsigned char *record = bytes->data + maker->record;
    size_t size = bytes->size - maker->record;
    put32(record, (uint32_t)size);
    put32(record + 4, crc32c(0, record + RECORD_HEAD, size - RECORD_HEAD));
}

static unsigned char *add(unsigned char *at, const void *data, size_t size) {
    memcpy(at, data, size);
    return at + size;
}
static unsigned char *add32(unsigned char *at, uint64_t value) {
    put32(at, (uint32_t)value);
    return at + 4;
}
static unsigned char *add64(unsigned char *at, uint64_t value) {
    put64(at, value);
    return at + 8;
}

static void put_head(unsigned char *head, const struct ledger_block *about, size_t size, size_t table, size_t diff,
                     const char *shard) {
    unsigned char *at = head;
    memset(head, 0, BLOCK_HEAD);
    at = add32(at, MAGIC);
    at = add32(at, FORMAT);
    at = add64(at, size);
    at = add64(at, about->number);
    at = add(at, &about->parent, sizeof about->parent);
    at = add64(at, about->time);
    at = add64(at, about->env.number);
    at = add64(at, about->env.timestamp);
    at = add64(at, about->env.gas_price);
    at = add64(at, about->env.blob_gas_price);
    at = add(at, about->env.sequencer, sizeof about->env.sequencer);
    at = add64(at, about->env.version);
    at = add32(at, about->txs);
    at = add32(at, about->failed);
    at = add32(at, about->writes);
    at = add32(at, table);
    at = add32(at, diff);
    memcpy(at, shard, strlen(shard));
    put32(head + CRC_AT, crc32c(0, head, CRC_AT));
}

static hash32 hash_of(const unsigned char *data, size_t size) {
    struct hash hash;
    hash_begin(&hash, NULL, 0);
    hash_add(&hash, "weft block", 11);
    hash_add(&hash, data, HASH_AT);
    hash_add(&hash, data + BLOCK_HEAD, size - BLOCK_HEAD);
    return hash_end(&hash);
}

int block_end(struct block_maker *maker, const char *shard, const struct ledger_block *given,
              const struct block_write *diff, size_t count, hash32 *hash) {
    struct bytes *bytes = &maker->bytes;
    size_t table = bytes->size;
    bytes_put(bytes, maker->table.data, maker->table.size);
    bytes_put32(bytes, maker->table.failed ? 0 : crc32c(0, maker->table.data, maker->table.size));
    size_t changes = bytes->size;
    for (size_t i = 0; i < count; i++) {
        bytes_put8(bytes, diff[i].value != NULL);
        bytes_put_sized(bytes, diff[i].key, diff[i].key_size);
        bytes_put_sized(bytes, diff[i].value, diff[i].value ? diff[i].value_size : 0);
    }
    if (bytes->failed || maker->table.failed || bytes->size > BLOCK_SIZE_MAX)
        return -ENOMEM;
    bytes_put32(bytes, crc32c(0, bytes->data + changes, bytes->size - changes));
    if (bytes->failed)
        return -ENOMEM;
    struct ledger_block about = *given;
    about.txs = maker->txs, about.failed = maker->failed, about.writes = (uint32_t)count;
    put_head(bytes->data, &about, bytes->size, table, changes, shard);
    *hash = hash_of(bytes->data, bytes->size);
    memcpy(bytes->data + HASH_AT, hash, sizeof *hash);
    return 0;
}

void block_maker_free(struct block_maker *maker) {
    bytes_free(&maker->bytes);
    bytes_free(&maker->table);
}

/* -- Reading ------------------------------------------------------------------------------------------------------ */

int block_open(const void *data, size_t size, struct block_view *out) {
    struct reader at = reader_of(data, size < BLOCK_HEAD ? 0 : BLOCK_HEAD);
    struct ledger_block *about = &out->about;
    *out = (struct block_view){.data = data, .size = size};
    if (reader_32(&at) != MAGIC || reader_32(&at) != FORMAT || reader_64(&at) != size || size > BLOCK_SIZE_MAX)
        return -EBADMSG;
    about->number = reader_64(&at);
    memcpy(&about->parent, reader_take(&at, 32), 32); /* the head is whole: nothing of it can be missing */
    about->time = reader_64(&at);
    about->env.number = reader_64(&at);
    about->env.timestamp = reader_64(&at);
    about->env.gas_price = reader_64(&at);
    about->env.blob_gas_price = reader_64(&at);
    memcpy(about->env.sequencer, reader_take(&at, 32), 32);
    about->env.version = reader_64(&at);
    about->txs = reader_32(&at);
    about->failed = reader_32(&at);
    about->writes = reader_32(&at);
    out->table = reader_32(&at);
    out->diff = reader_32(&at);
    memcpy(out->shard, reader_take(&at, sizeof out->shard), sizeof out->shard);
    memcpy(&about->hash, out->data + HASH_AT, 32);
    bool good = get32(out->data + CRC_AT) == crc32c(0, out->data, CRC_AT) && out->shard[63] == 0 &&
                about->txs <= BLOCK_TXS_MAX && about->failed <= about->txs && out->table >= BLOCK_HEAD &&
                out->diff == out->table + (uint64_t)about->txs * TABLE_ENTRY + 4 && out->diff + 4 <= size;
    return good ? 0 : -EBADMSG;
}

static int record_at(const struct block_view *view, uint32_t index, bool check, struct block_record *out) {
    if (index >= view->about.txs)
        return -ENOENT;
    size_t offset = get32(view->data + view->table + (size_t)index * TABLE_ENTRY);
    if (offset < BLOCK_HEAD || offset > view->table - RECORD_HEAD)
        return -EBADMSG;
    const unsigned char *record = view->data + offset;
    size_t size = get32(record);
    if (size < RECORD_HEAD || size > view->table - offset ||
        (check && get32(record + 4) != crc32c(0, record + RECORD_HEAD, size - RECORD_HEAD)))
        return -EBADMSG;
    out->raw = record;
    out->raw_size = size;
    struct reader at = reader_of(record + RECORD_HEAD, size - RECORD_HEAD);
    bool same = reader_32(&at) == index;
    const void *id = reader_take(&at, 32);
    out->tx = reader_sized(&at, &out->tx_size);
    size_t steps = reader_32(&at), reason_size;
    out->step_count = reader_32(&at);
    out->steps = reader_of(reader_take(&at, steps), steps);
    struct ledger_receipt *receipt = &out->receipt;
    *receipt = (struct ledger_receipt){.block = view->about.number, .index = index};
    receipt->status = (enum tx_status)reader_8(&at);
    receipt->gas = reader_64(&at);
    receipt->reason = (const char *)reader_sized(&at, &reason_size);
    receipt->output = reader_sized(&at, &receipt->output_size);
    if (!same || !id || !reader_is_done(&at) || reason_size == 0 || receipt->reason[reason_size - 1] ||
        (receipt->status != TX_OK && receipt->status != TX_FAILED))
        return -EBADMSG;
    memcpy(&out->id, id, 32);
    receipt->tx = out->id;
    return 0;
}

int block_record_at(const struct block_view *view, uint32_t index, struct block_record *out) {
    return record_at(view, index, true, out);
}
int block_record_made(const struct block_view *view, uint32_t index, struct block_record *out) {
    return record_at(view, index, false, out);
}

static const void *moved(const void *at, const struct block_record *record, const unsigned char *to) {
    return at ? to + ((const unsigned char *)at - record->raw) : NULL;
}

void block_record_move(struct block_record *record, const unsigned char *to) {
    record->tx = moved(record->tx, record, to);
    record->steps.at = moved(record->steps.at, record, to);
    record->steps.end = moved(record->steps.end, record, to);
    record->receipt.reason = moved(record->receipt.reason, record, to);
    record->receipt.output = moved(record->receipt.output, record, to);
    record->raw = to;
}

bool block_next_step(struct block_record *record, struct ledger_step *step) {
    if (record->steps.bad || record->steps.at == record->steps.end)
        return false;
    unsigned kind = reader_8(&record->steps);
    step->key = reader_sized(&record->steps, &step->key_size);
    step->value = reader_sized(&record->steps, &step->value_size);
    if (kind >= STEP_KINDS)
        record->steps.bad = true;
    step->kind = kind < STEP_KINDS ? step_names[kind] : "";
    return !record->steps.bad;
}

static bool table_is_good(const struct block_view *view) {
    size_t size = view->diff - 4 - view->table;
    return get32(view->data + view->diff - 4) == crc32c(0, view->data + view->table, size);
}

int block_ids(const struct block_view *view, hash32 **out) {
    if (!table_is_good(view))
        return -EBADMSG;
    hash32 *ids = *out = mem_resize(NULL, view->about.txs * sizeof *ids + 1); /* known, before the block is touched */
    if (!ids)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->about.txs; i++)
        memcpy(&ids[i], view->data + view->table + (size_t)i * TABLE_ENTRY + 4, 32);
    return 0;
}

int block_diff_begin(const struct block_view *view, struct reader *reader) {
    size_t size = view->size - 4 - view->diff;
    *reader = reader_of(view->data + view->diff, size);
    return get32(view->data + view->size - 4) == crc32c(0, view->data + view->diff, size) ? 0 : -EBADMSG;
}

bool block_diff_next(struct reader *reader, struct block_write *write) {
    if (reader->bad || reader->at == reader->end)
        return false;
    unsigned present = reader_8(reader);
    write->key = reader_sized(reader, &write->key_size);
    const void *value = reader_sized(reader, &write->value_size);
    write->value = present ? value : NULL;
    if (present > 1 || (!present && write->value_size))
        reader->bad = true;
    return !reader->bad;
}

const char *block_check(const struct block_view *view) {
    hash32 hash = hash_of(view->data, view->size);
    if (memcmp(&hash, &view->about.hash, sizeof hash))
        return "its hash is another";
    if (!table_is_good(view))
        return "the table's CRC is another";
    uint32_t failed = 0, writes = 0;
    size_t expected = BLOCK_HEAD;
    for (uint32_t i = 0; i < view->about.txs; i++) {
        struct block_record record;
        struct ledger_step step;
        if (get32(view->data + view->table + (size_t)i * TABLE_ENTRY) != expected || block_record_at(view, i, &record))
            return "a record is damaged";
        if (memcmp(&record.id, view->data + view->table + (size_t)i * TABLE_ENTRY + 4, 32))
            return "the table has another id";
        uint32_t steps = 0;
        while (block_next_step(&record, &step))
            steps++;
        if (record.steps.bad || steps != record.step_count)
            return "a trace is damaged";
        failed += record.receipt.status == TX_FAILED;
        expected += get32(view->data + expected);
    }
    struct reader diff;
    struct block_write write;
    if (expected != view->table || block_diff_begin(view, &diff))
        return "the diff's CRC is another";
    while (block_diff_next(&diff, &write))
        writes++;
    if (diff.bad || writes != view->about.writes || failed != view->about.failed)
        return "its counts are others";
    return NULL;
}
