/* node_block.c - blocks, heads and runs of any bytes (libFuzzer): nothing is read outside them.
 *
 * The first byte says which.  Checksums are set right first, or hardly anything would get past them. */
#include "block.h"
#include "hash.h"
#include "index.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
bool wefti_fault_here(void) { return false; }

static uint64_t sum; /* every byte that is given out is read */

static void touch(const void *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)data)[i];
}

static void read_block(unsigned char *data, size_t size) {
    struct block_view view;
    struct block_record record;
    struct ledger_step step;
    struct block_write write;
    struct reader diff;
    hash32 *ids;
    if (size >= BLOCK_HEAD) {
        put32(data, 0x4b4c4257), put32(data + 4, 1), put64(data + 8, size);
        put32(data + BLOCK_HEAD - 36, crc32c(0, data, BLOCK_HEAD - 36));
    }
    if (block_open(data, size, &view))
        return;
    for (uint32_t i = 0; i < view.about.txs && i < 50; i++) {
        size_t at = get32(data + view.table + (size_t)i * 36);
        if (at >= BLOCK_HEAD && at + 8 <= view.table && get32(data + at) >= 8 && get32(data + at) <= view.table - at)
            put32(data + at + 4, crc32c(0, data + at + 8, get32(data + at) - 8));
        if (block_record_at(&view, i, &record))
            continue;
        touch(record.tx, record.tx_size);
        touch(record.receipt.reason, strlen(record.receipt.reason));
        touch(record.receipt.output, record.receipt.output_size);
        while (block_next_step(&record, &step))
            touch(step.key, step.key_size), touch(step.value, step.value_size);
    }
    put32(data + size - 4, crc32c(0, data + view.diff, size - 4 - view.diff));
    if (block_diff_begin(&view, &diff) == 0)
        while (block_diff_next(&diff, &write))
            touch(write.key, write.key_size), touch(write.value, write.value_size);
    if (block_ids(&view, &ids) == 0)
        free(ids);
    touch(block_check(&view) ? "x" : "", 1);
}

static void read_head(unsigned char *data, size_t size) {
    struct head head;
    if (size >= 12) {
        put32(data, 0x44414857), put32(data + 4, 1);
        put32(data + size - 4, crc32c(0, data, size - 4));
    }
    if (head_decode(data, size, &head) == 0)
        touch(head.runs.data, head.runs.size);
    bytes_free(&head.runs);
}

static void read_run(unsigned char *data, size_t size) {
    const unsigned char *entries;
    size_t count;
    if (size >= 8) {
        put32(data + 4, (uint32_t)((size - 8) / 16));
        put32(data, crc32c(0, data + 4, size - 4));
    }
    if (run_open(data, size, &entries, &count) == 0)
        for (size_t i = 0; i < count; i++)
            sum += run_entry(entries, i).where;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size == 0)
        return 0;
    unsigned char *copy = malloc(size);
    memcpy(copy, bytes + 1, size - 1);
    unsigned char *exact = realloc(copy, size > 1 ? size - 1 : 1);
    switch (bytes[0] % 3) {
    case 0: read_block(exact, size - 1); break;
    case 1: read_head(exact, size - 1); break;
    default: read_run(exact, size - 1);
    }
    free(exact);
    return 0;
}
