/* shards.c - transactions through the node's ledger, each block durable in LMDB: no-ops and transfers over 1, 16 and 1,024 shards.
 *
 * One thread submits 256 at a time to one shard after the other; a transaction counts when its block is on the disk.  The sum of all balances must stay.
 * The directory is made where the program runs, or in $WEFT_BENCH_DIR: what is measured is that disk, too.  Four lane threads a worker: they
 * wait for the disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../harness/bench.h"
#include "tx.h"

enum { SHARDS_MAX = 1024, BATCH = 256, ACCOUNTS = 64, MONEY = 1000000, THREADS_A_WORKER = 4 };

static atomic_ullong done, failed, blocks;

static void told(void *arg, weft_shard *shard, const struct ledger_block *block, const struct ledger_receipt *receipts,
                 size_t count) {
    (void)arg, (void)shard, (void)receipts, (void)count;
    atomic_fetch_add_explicit(&failed, block->failed, memory_order_relaxed);
    atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&done, block->txs, memory_order_release);
}

struct load {
    struct bench_run *run;
    struct ledger *book;
    unsigned shards;
    uint64_t *nonce; /* of each account of each shard */
    char names[ACCOUNTS][24];
};

static void name_of(unsigned shard, char name[24]) { snprintf(name, 24, "shard-%u", shard); }

/* One batch of one kind for a shard.  method NULL: money for every account. */
static int submit(struct load *load, unsigned shard, const char *method, uint64_t round) {
    static struct bytes bytes; /* one thread */
    weft_tx txs[BATCH];
    hash32 ids[BATCH];
    size_t at[BATCH + 1];
    char name[24], why[200];
    const char *wrong;
    unsigned count = method ? BATCH : ACCOUNTS;
    uint64_t *nonce = load->nonce + (size_t)shard * ACCOUNTS;
    bytes_clear(&bytes);
    for (unsigned i = 0; i < count; i++) {
        unsigned from = i % ACCOUNTS, to = (unsigned)((i * 7 + round * 13 + 1) % ACCOUNTS);
        struct tx tx = {.executor = "kv",
                        .method = method ? method : "set",
                        .sender = load->names[from],
                        .nonce = nonce[from] + 1 + i / ACCOUNTS};
        if (!method || method[0] == 't') {
            const char *key = load->names[method ? to : from];
            tx.args[0] = (struct tx_arg){key, strlen(key)};
            tx.args[1] = method ? (struct tx_arg){"1", 1} : (struct tx_arg){"1000000", 7};
            tx.count = 2;
        }
        at[i] = bytes.size;
        if (tx_encode(&tx, &bytes, &wrong))
            return -ENOMEM;
    }
    at[count] = bytes.size;
    for (unsigned i = 0; i < count; i++)
        txs[i] = (weft_tx){0, bytes.data + at[i], at[i + 1] - at[i]};
    name_of(shard, name);
    int error = ledger_submit(load->book, name, txs, count, ids, why, sizeof why);
    for (unsigned i = 0; i < ACCOUNTS && !error; i++)
        nonce[i] += count / ACCOUNTS;
    if (error && error != -EAGAIN)
        bench_check(load->run, false, "ledger_submit: %s", why);
    return error;
}

static double run_all(struct load *load, const char *method, uint64_t count) {
    uint64_t sent = 0, before = atomic_load(&done);
    int64_t start = bench_now();
    for (uint64_t i = 0; sent < count; i++) {
        int error = submit(load, (unsigned)(i % load->shards), method, i / load->shards);
        if (error == -EAGAIN)
            bench_sleep_us(200); /* the pool is full: the next shard */
        else if (error)
            return NAN;
        else
            sent += BATCH;
    }
    while (atomic_load(&done) - before < sent)
        bench_sleep_us(50);
    double rate = (double)sent * 1e9 / (double)(bench_now() - start);
    bench_check(load->run, atomic_load(&failed) == 0, "%llu failed", (unsigned long long)atomic_load(&failed));
    return rate;
}

static void add_balance(void *arg, const void *value, size_t size) {
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)size, (const char *)value);
    *(int64_t *)arg += atoll(text);
}

static void check_money(struct load *load) {
    int64_t sum = 0, expected = (int64_t)load->shards * ACCOUNTS * MONEY;
    char name[24];
    for (unsigned i = 0; i < load->shards; i++)
        for (unsigned k = 0; k < ACCOUNTS; k++) {
            name_of(i, name);
            ledger_state_get(load->book, name, load->names[k], strlen(load->names[k]), add_balance, &sum);
        }
    bench_check(load->run, sum == expected, "the balances are %lld, not %lld", (long long)sum, (long long)expected);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void over(struct bench_run *run, unsigned shards, uint64_t count, double *noop, double *transfer) {
    char dir[300], why[200];
    const char *above = getenv("WEFT_BENCH_DIR");
    struct load load = {.run = run, .shards = shards};
    snprintf(dir, sizeof dir, "%s/weft-bench-XXXXXX", above ? above : ".");
    if (!bench_check(run, mkdtemp(dir) != NULL, "%s cannot be made", dir))
        return;
    struct ledger_config config = {.dir = dir,
                                   .workers = THREADS_A_WORKER * run->workers,
                                   .quantum = 100000000,
                                   .map_size = (size_t)4 << 30,
                                   .told = told};
    load.nonce = calloc((size_t)shards * ACCOUNTS, sizeof *load.nonce);
    if (bench_check(run, ledger_open(&config, &load.book, why, sizeof why) == 0, "%s", why)) {
        for (unsigned k = 0; k < ACCOUNTS; k++)
            snprintf(load.names[k], sizeof load.names[k], "account-%u", k);
        uint64_t before = atomic_load(&done);
        for (unsigned i = 0; i < shards; i++)
            submit(&load, i, NULL, 0);
        while (run->failures == 0 && atomic_load(&done) - before < (uint64_t)shards * ACCOUNTS)
            bench_sleep_us(100);
        *noop = run_all(&load, "noop", count);
        uint64_t made = atomic_load(&blocks);
        *transfer = run_all(&load, "transfer", count);
        if (getenv("WEFT_BENCH_VERBOSE"))
            fprintf(stderr, "%u shards: %llu blocks for %llu transfers\n", shards,
                    (unsigned long long)(atomic_load(&blocks) - made), (unsigned long long)count);
        check_money(&load);
        ledger_close(load.book);
    }
    free(load.nonce);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_shards(struct bench_run *run) {
    static const unsigned counts[] = {1, 16, SHARDS_MAX};
    atomic_store(&done, 0), atomic_store(&failed, 0), atomic_store(&blocks, 0);
    for (int i = 0; i < 3; i++)
        over(run, run->quick && counts[i] > 16 ? 64 : counts[i], run->quick ? 65536 : 524288, &run->value[i],
             &run->value[3 + i]);
}

const struct bench_workload bench_shards = {
    .name = "shards",
    .about = "durable no-ops and transfers over 1, 16 and 1,024 shards (LMDB), submitted 256 at a time: transactions/s",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"shards_noop_1", "tx/s", NULL},
                {"shards_noop_16", "tx/s", NULL},
                {"shards_noop_1024", "tx/s", NULL},
                {"shards_transfer_1", "tx/s", NULL},
                {"shards_transfer_16", "tx/s", NULL},
                {"shards_transfer_1024", "tx/s", NULL}},
    .skip = bench_skip_sim,
    .run = run_shards,
};
