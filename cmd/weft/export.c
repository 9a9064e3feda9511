/* export.c - a directory's blocks, receipts, traces and state as JSON lines.
 *
 *     {"shard":"s","block":{"number":1,"hash":"..","parent":"..","time":..,"txs":2,"failed":0,"writes":3,"env":{..}}}
 *     {"shard":"s","block":1,"index":0,"tx":{..},"receipt":{..},"trace":[["put","key","value"],..]}
 *     {"shard":"s","nonce":{"sender":"ann","last":2}}
 *     {"shard":"s","state":{"key":"ann","value":"70"}}
 */
#include <errno.h>
#include <stdio.h>

#include "pages.h"
#include "shard.h"

struct export {
    struct place place;
    const char *only, *shard;
    struct bytes out;
    int fd;
    bool seen;
};

static int flush(struct export *export, size_t least) {
    if (export->out.failed)
        return -ENOMEM;
    if (export->out.size < least)
        return 0;
    int error = wefti_write(export->fd, export->out.data, export->out.size);
    bytes_clear(&export->out);
    return error;
}

static void put_line(struct export *export) {
    json_put_text(&export->out, "{\"shard\":");
    json_put(&export->out, export->shard, strlen(export->shard));
}

static void put_block(struct export *export, const struct ledger_block *about) {
    char hash[65], parent[65], sequencer[65];
    hash32 address;
    memcpy(&address, about->env.sequencer, 32);
    hash_to_text(&about->hash, hash);
    hash_to_text(&about->parent, parent);
    hash_to_text(&address, sequencer);
    put_line(export);
    json_format(&export->out, ",\"block\":{\"number\":%llu,\"hash\":\"%s\",\"parent\":\"%s\",\"time\":%llu,",
                (unsigned long long)about->number, hash, parent, (unsigned long long)about->time);
    json_format(&export->out, "\"txs\":%u,\"failed\":%u,\"writes\":%u,", about->txs, about->failed, about->writes);
    json_format(&export->out, "\"env\":{\"number\":%llu,\"timestamp\":%llu,\"gas_price\":%llu,\"blob_gas_price\":%llu,",
                (unsigned long long)about->env.number, (unsigned long long)about->env.timestamp,
                (unsigned long long)about->env.gas_price, (unsigned long long)about->env.blob_gas_price);
    json_format(&export->out, "\"sequencer\":\"%s\",\"version\":%llu}}}\n", sequencer,
                (unsigned long long)about->env.version);
}

static void put_tx(struct bytes *out, const struct block_record *record) {
    struct tx tx;
    const char *why;
    char id[65];
    hash_to_text(&record->id, id);
    json_format(out, ",\"tx\":{\"id\":\"%s\"", id);
    if (tx_decode(record->tx, record->tx_size, &tx, &why) == 0) {
        json_format(out, ",\"executor\":\"%s\",\"method\":\"%s\",\"sender\":", tx.executor, tx.method);
        json_put(out, tx.sender, strlen(tx.sender));
        json_format(out, ",\"nonce\":%llu,\"gas\":%llu,\"args\":[", (unsigned long long)tx.nonce,
                    (unsigned long long)tx.gas);
        for (unsigned i = 0; i < tx.count; i++) {
            json_put_text(out, i ? "," : "");
            json_put(out, tx.args[i].data, tx.args[i].size);
        }
        json_put_text(out, "]");
    }
    json_put_text(out, "}");
}

static void put_record(struct export *export, struct block_record *record) {
    const struct ledger_receipt *receipt = &record->receipt;
    struct bytes *out = &export->out;
    struct ledger_step step;
    put_line(export);
    json_format(out, ",\"block\":%llu,\"index\":%u", (unsigned long long)receipt->block, receipt->index);
    put_tx(out, record);
    json_format(out,
                ",\"receipt\":{\"status\":\"%s\",\"gas\":%llu,\"reason\":", receipt->status == TX_OK ? "ok" : "failed",
                (unsigned long long)receipt->gas);
    json_put(out, receipt->reason, strlen(receipt->reason));
    json_put_text(out, ",\"output\":");
    if (receipt->output_size)
        bytes_put(out, receipt->output, receipt->output_size);
    else
        json_put_text(out, "null");
    json_put_text(out, "},\"trace\":[");
    for (bool first = true; block_next_step(record, &step); first = false) {
        json_format(out, "%s[\"%s\",", first ? "" : ",", step.kind);
        json_put(out, step.key, step.key_size);
        json_put_text(out, ",");
        json_put(out, step.value, step.value_size);
        json_put_text(out, "]");
    }
    json_put_text(out, "]}\n");
}

static int export_block(struct export *export, const void *value, size_t size) {
    struct block_view block;
    struct block_record record;
    int error = block_open(value, size, &block);
    if (!error)
        put_block(export, &block.about);
    for (uint32_t i = 0; !error && i < block.about.txs; i++) {
        if ((error = block_record_at(&block, i, &record)))
            break;
        put_record(export, &record);
        error = flush(export, 1 << 16);
    }
    return error;
}

static int export_key(void *arg, const void *key, size_t key_size, const void *value, size_t size) {
    struct export *export = arg;
    const char *letter = key;
    if (*letter == 'b' && key_size == NUMBER_KEY)
        return export_block(export, value, size);
    if (*letter != 'n' && *letter != 's')
        return 0;
    int error = state_open(key, key_size, &value, &size);
    if (error || (*letter == 'n' && size != 8))
        return -EBADMSG;
    put_line(export);
    json_put_text(&export->out, *letter == 'n' ? ",\"nonce\":{\"sender\":" : ",\"state\":{\"key\":");
    json_put(&export->out, letter + 1, key_size - 1);
    json_put_text(&export->out, *letter == 'n' ? ",\"last\":" : ",\"value\":");
    if (*letter == 'n')
        json_format(&export->out, "%llu", (unsigned long long)get64(value));
    else
        json_put(&export->out, value, size);
    json_put_text(&export->out, "}}\n");
    return flush(export, 1 << 16);
}

static int export_one(void *arg, const char *name, const char *folder) {
    struct export *export = arg;
    char *path, what[160];
    uint64_t txn;
    (void)folder;
    if (!name || (export->only && strcmp(export->only, name)))
        return 0;
    export->seen = true;
    export->shard = name;
    int error = place_shard(&export->place, name, NULL, &path);
    if (error)
        return error;
    error = pages_walk(path, 0, export_key, export, &txn, what, sizeof what);
    free(path);
    return error > 0 ? -EBADMSG : error;
}

int ledger_export(const char *dir, const char *shard_or_null, int fd) {
    struct export export = {.only = shard_or_null, .fd = fd};
    int error = place_look(&export.place, dir, NULL, 0);
    if (error)
        return error;
    error = place_each(&export.place, export_one, &export);
    if (!error)
        error = flush(&export, 1);
    bytes_free(&export.out);
    place_close(&export.place);
    return error ? error : shard_or_null && !export.seen ? -ENOENT : 0;
}
