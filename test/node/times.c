/* times.c - blocks never go back in time, though clocks do. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>

#include "node.h"
#include "shard.h"

static _Atomic int64_t shift; /* s, of the wall clock */

/* The program's own clock_gettime: the ledger calls it. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (clock == CLOCK_REALTIME)
        out->tv_sec += atomic_load(&shift);
    return result;
}

static void set_timestamp(struct ledger *book, uint64_t timestamp) {
    weft_block_env env = {.number = 1, .timestamp = timestamp};
    weft_lane_set_env(ledger_lane(book), &env);
}

static void copy_block(void *arg, const struct ledger_block *block, const hash32 *txs) {
    (void)txs;
    *(struct ledger_block *)arg = *block;
}

static struct ledger_block last(struct ledger *book) {
    struct ledger_block block = {0};
    CHECK_EQ(ledger_block_get(book, "s", 0, copy_block, &block), 0);
    return block;
}

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    CHECK_STR(shard, "s");
    CHECK_EQ(block, 5);
    CHECK_STR(what, "its time is before its parent's");
    ++*(int *)arg;
}

TEST(times_do_not_go_back, "") {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    int findings = 0;
    set_timestamp(book, 1000);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    struct ledger_block first = last(book);
    CHECK_EQ(first.env.timestamp, 1000);
    atomic_store(&shift, -3600);
    set_timestamp(book, 900);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(last(book).time, first.time);
    CHECK_EQ(last(book).env.timestamp, 1000);
    ledger_close(book);
    book = node_open(dir); /* which knows no environment yet */
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(last(book).time, first.time);
    CHECK_EQ(last(book).env.timestamp, 1000);
    atomic_store(&shift, 3600);
    set_timestamp(book, 1001);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    CHECK_GT(last(book).time, first.time);
    CHECK_EQ(last(book).env.timestamp, 1001);
    CHECK(ledger_drain(book, 10000));
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, &findings), 0);
    book = node_open(dir); /* as an older version did it */
    struct ledger_shard *shard = weft_shard_store_state(weft_shard_find(ledger_lane(book), "s"));
    shard->times = (struct block_times){0};
    atomic_store(&shift, -3600);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, &findings), 1);
    CHECK_EQ(findings, 1);
}
