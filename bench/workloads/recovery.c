/* recovery.c - opening a store of a million blocks, and walking it: what a node's start and `weft node verify` cost.
 *
 * The store is made in /dev/shm, or $WEFT_BENCH_DIR: a million fsyncs on a disk would take hours.  One shard, one transaction a block;
 * two shards with half of them each, so that two cores fill them.  A slow machine gets as far as it gets in 80 s, or $WEFT_BENCH_PATIENCE
 * (beyond 100 with --in-process only: a run has 120 s).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../harness/bench.h"
#include "tx.h"

enum { BATCH = 1000, SHARDS = 2, PATIENCE = 80 };

static const char *const shards[SHARDS] = {"s", "t"};

static atomic_ullong blocks;

static void told(void *arg, weft_shard *shard, const struct ledger_block *block, const struct ledger_receipt *receipts,
                 size_t count) {
    (void)arg, (void)shard, (void)block, (void)receipts, (void)count;
    atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
}

/* How many blocks there are; 0 after a failed check. */
static uint64_t fill(struct bench_run *run, struct ledger *book, uint64_t count) {
    const char *patience = getenv("WEFT_BENCH_PATIENCE");
    int64_t until = bench_now() + (patience ? atol(patience) : PATIENCE) * INT64_C(1000000000);
    uint64_t sent = 0;
    static weft_tx txs[BATCH];
    static hash32 ids[BATCH];
    static struct bytes bytes[BATCH];
    char why[200];
    const char *wrong;
    for (; sent < count && (bench_now() < until || sent / BATCH % SHARDS); sent += BATCH) {
        uint64_t first = sent / (SHARDS * BATCH) * BATCH; /* of this shard */
        for (unsigned i = 0; i < BATCH; i++) {
            struct tx tx = {.executor = "kv",
                            .method = "add",
                            .sender = "ann",
                            .nonce = first + i + 1,
                            .count = 2,
                            .args = {{"n", 1}, {"1", 1}}};
            bytes_clear(&bytes[i]);
            tx_encode(&tx, &bytes[i], &wrong);
            txs[i] = (weft_tx){0, bytes[i].data, bytes[i].size};
        }
        int error;
        while ((error = ledger_submit(book, shards[sent / BATCH % SHARDS], txs, BATCH, ids, why, sizeof why)) ==
               -EAGAIN)
            bench_sleep_us(1000);
        if (!bench_check(run, error == 0, "ledger_submit: %s", why))
            return 0;
    }
    while (atomic_load(&blocks) < sent)
        bench_sleep_us(1000);
    return sent;
}

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    bench_check(arg, false, "%s %llu: %s", shard, (unsigned long long)block, what);
}

static void add_number(void *arg, const void *value, size_t size) {
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)size, (const char *)value);
    *(uint64_t *)arg += strtoull(text, NULL, 10);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void recovery(struct bench_run *run) {
    char dir[300], why[200];
    const char *above = getenv("WEFT_BENCH_DIR");
    uint64_t count = run->quick ? 20000 : 1000000, found = 0;
    struct ledger *book;
    atomic_store(&blocks, 0);
    snprintf(dir, sizeof dir, "%s/weft-bench-XXXXXX", above ? above : "/dev/shm");
    if (!bench_check(run, mkdtemp(dir) != NULL, "%s cannot be made", dir))
        return;
    struct ledger_config config = {.dir = dir,
                                   .workers = SHARDS,
                                   .quantum = 100000000,
                                   .max_batch = 1,
                                   .max_pool = 4000,
                                   .map_size = (size_t)16 << 30,
                                   .told = told};
    if (bench_check(run, ledger_open(&config, &book, why, sizeof why) == 0, "%s", why)) {
        count = fill(run, book, count);
        run->value[2] = (double)count;
        ledger_close(book);
        int64_t start = bench_now();
        if (count && bench_check(run, ledger_open(&config, &book, why, sizeof why) == 0, "%s", why)) {
            for (int i = 0; i < SHARDS; i++)
                ledger_state_get(book, shards[i], "n", 1, add_number, &found);
            run->value[0] = (double)(bench_now() - start) / 1e6;
            bench_check(run, found == count, "the state is %llu", (unsigned long long)found);
            ledger_close(book);
            start = bench_now();
            bench_check(run, ledger_verify(dir, on_finding, NULL, run) == 0, "verify");
            run->value[1] = (double)(bench_now() - start) / 1e9;
        }
    }
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const struct bench_workload bench_recovery = {
    .name = "recovery",
    .about = "a store of a million blocks: time to open it, ms, and to verify it, s",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"recovery_open", "ms", NULL}, {"recovery_verify", "s", NULL}, {"recovery_blocks", "", NULL}},
    .skip = bench_skip_not_alone,
    .run = recovery,
};
