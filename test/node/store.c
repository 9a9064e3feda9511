/* store.c - what is kept: reopening, one node a directory, the index, verify and export. */
#include "node.h"

#include <fcntl.h>
#include <sys/stat.h>

static int64_t found;
static char first_finding[200];

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    (void)arg;
    if (found++ == 0)
        snprintf(first_finding, sizeof first_finding, "%s %llu: %s", shard, (unsigned long long)block, what);
}

static void require_good(const char *dir) {
    found = 0;
    int64_t result = ledger_verify(dir, on_finding, NULL, NULL);
    if (result)
        printf("verify: %s\n", first_finding);
    REQUIRE_EQ(result, 0);
}

TEST(store_reopened, "K16") {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    hash32 ids[40];
    for (int i = 0; i < 40; i++) { /* so many that runs are merged twice */
        CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
        ids[i] = node_id;
    }
    CHECK_EQ(node_run(book, "other shard / \xc3\xa4", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(node_height(book, "s"), 40);
    ledger_close(book);
    require_good(dir);
    book = node_open(dir);
    CHECK_STR(node_state(book, "s", "n"), "40");
    CHECK_STR(node_state(book, "other shard / \xc3\xa4", "n"), "1");
    CHECK_EQ(node_height(book, "s"), 40);
    CHECK_EQ(ledger_nonce(book, "s", "ann"), 40);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(ledger_tx_status(book, "s", &ids[i]), TX_OK);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(node_height(book, "s"), 41);
    ledger_close(book);
    require_good(dir);
}

TEST(store_one_node, "") {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir), *second = NULL;
    struct ledger_config config = {.dir = dir};
    char why[200] = "";
    CHECK_EQ(ledger_open(&config, &second, why, sizeof why), -EBUSY);
    CHECK_CONTAINS(why, "another node uses it");
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), -EBUSY);
    ledger_close(book);
    book = node_open(dir);
    ledger_close(book);
}

TEST(store_other_format, "") {
    const char *dir = node_dir();
    char path[200], why[200];
    struct ledger *book = node_open(dir);
    struct ledger_config config = {.dir = dir};
    ledger_close(book);
    snprintf(path, sizeof path, "%s/FORMAT", dir);
    FILE *file = fopen(path, "w");
    fputs("weft ledger 2\n", file);
    fclose(file);
    CHECK_EQ(ledger_open(&config, &book, why, sizeof why), -EPROTO);
    CHECK_CONTAINS(why, "not a store of this version");
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), -EPROTO);
}

/* Somebody's home directory is not made a store. */
TEST(store_wrong_directory, "") {
    const char *dir = node_dir();
    char path[200], why[200];
    struct ledger *book;
    struct ledger_config config = {.dir = dir};
    snprintf(path, sizeof path, "%s/letter.txt", dir);
    fclose(fopen(path, "w"));
    CHECK_EQ(ledger_open(&config, &book, why, sizeof why), -EPROTO);
    CHECK_CONTAINS(why, "has files in it that are no store's");
    snprintf(path, sizeof path, "%s/LOCK", dir);
    CHECK(access(path, F_OK) != 0); /* and nothing was left there */
}

struct seen {
    struct ledger_block block;
    hash32 first;
    char text[400];
};

static void take_block(void *arg, const struct ledger_block *block, const hash32 *txs) {
    struct seen *seen = arg;
    seen->block = *block;
    seen->first = txs[0];
}

static void take_trace(void *arg, const struct ledger_step *steps, size_t count) {
    char *text = ((struct seen *)arg)->text;
    for (size_t i = 0; i < count; i++)
        text += sprintf(text, "%s %.*s=%.*s;", steps[i].kind, (int)steps[i].key_size, (const char *)steps[i].key,
                        (int)steps[i].value_size, (const char *)steps[i].value);
}

TEST(store_blocks_and_traces, "K16 K24 K25") {
    struct ledger *book = node_open(NULL);
    struct seen one = {0}, two = {0};
    weft_lane_set_env(ledger_lane(book), &(weft_block_env){.number = 7, .gas_price = 3});
    CHECK_EQ(node_run(book, "s", "ann", "kv set ann 9"), TX_OK);
    weft_lane_set_env(ledger_lane(book), &(weft_block_env){.number = 8});
    CHECK_EQ(node_run(book, "s", "ann", "kv transfer bob 4"), TX_OK);
    REQUIRE_EQ(ledger_block_get(book, "s", 1, take_block, &one), 0);
    REQUIRE_EQ(ledger_block_get(book, "s", 0, take_block, &two), 0);
    CHECK_EQ(one.block.env.number, 7);
    CHECK_EQ(two.block.number, 2);
    CHECK_EQ(two.block.env.number, 8);
    CHECK(!memcmp(&two.block.parent, &one.block.hash, 32));
    CHECK(!memcmp(&two.first, &node_id, 32));
    CHECK_EQ(two.block.txs, 1);
    CHECK_EQ(two.block.writes, 3); /* two accounts, a nonce */
    CHECK_EQ(ledger_block_get(book, "s", 3, take_block, &two), -ENOENT);
    CHECK_EQ(ledger_block_get(book, "none", 0, take_block, &two), -ENOENT);
    REQUIRE_EQ(ledger_trace_get(book, "s", &node_id, take_trace, &two), 0);
    CHECK_STR(two.text, "get ann=9;put ann=5;get bob=;put bob=4;");
    ledger_close(book);
}

TEST(store_exported, "") {
    const char *dir = node_dir();
    char path[200], text[8192] = "";
    struct ledger *book = node_open(dir);
    CHECK_EQ(node_run(book, "s", "ann", "kv set k \"\x01\xff"), TX_OK);
    CHECK_EQ(node_run(book, "t", "ann", "kv get k"), TX_OK);
    ledger_close(book);
    snprintf(path, sizeof path, "%s/out", dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    REQUIRE_EQ(ledger_export(dir, "s", fd), 0);
    REQUIRE_GT(pread(fd, text, sizeof text - 1, 0), 0);
    CHECK_CONTAINS(text, "{\"shard\":\"s\",\"block\":{\"number\":1,");
    CHECK_CONTAINS(text, "\"args\":[\"k\",{\"hex\":\"2201ff\"}]");
    CHECK_CONTAINS(text, "\"trace\":[[\"put\",\"k\",{\"hex\":\"2201ff\"}]]");
    CHECK_CONTAINS(text, "{\"shard\":\"s\",\"nonce\":{\"sender\":\"ann\",\"last\":1}}");
    CHECK_CONTAINS(text, "{\"shard\":\"s\",\"state\":{\"key\":\"k\",\"value\":{\"hex\":\"2201ff\"}}}");
    CHECK(!strstr(text, "\"shard\":\"t\""));
    CHECK_EQ(ledger_export(dir, "none", fd), -ENOENT);
    close(fd);
}

/* Nonces count; a used one, one that waits, and one too high are refused; a failed batch gives them back. */
TEST(store_nonces, "") {
    struct ledger *book = node_open(node_dir());
    hash32 id, again;
    CHECK_EQ(node_try(book, "s", "ann", 2, "kv noop", &id), -EINVAL);
    CHECK_CONTAINS(node_reason, "nonce 2: ann's next is 1");
    CHECK(weft_shard_find(ledger_lane(book), "s") == NULL); /* what is refused makes no shard */
    CHECK_EQ(node_try(book, "s", "ann", 1, "kv noop", &id), 0);
    CHECK_EQ(node_wait(book, "s", &id), TX_OK);
    CHECK_EQ(node_try(book, "s", "ann", 1, "kv noop", &again), -EALREADY);
    CHECK_EQ(node_try(book, "s", "ann", 1, "kv set a b", &again), -EALREADY);
    CHECK_EQ(node_try(book, "s", "bob", 1, "kv noop", &again), 0); /* everyone's own */
    CHECK_EQ(node_try(book, "t", "ann", 1, "kv noop", &again), 0); /* in each shard */
    CHECK(memcmp(&id, &again, 32)); /* the same bytes in another shard are another transaction */
    CHECK_EQ(node_wait(book, "t", &again), TX_OK);
    CHECK_EQ(ledger_tx_status(book, "s", &again), TX_UNKNOWN);
    ledger_close(book);
}

/* All of a batch or nothing. */
TEST(store_all_or_none, "") {
    struct ledger *book = node_open_with((struct ledger_config){.workers = 1, .max_pool = 3});
    struct bytes bytes[4] = {0};
    weft_tx txs[4];
    hash32 ids[4];
    char why[200];
    const char *wrong;
    for (unsigned i = 0; i < 4; i++) {
        struct tx tx = {.executor = "kv", .method = "noop", .sender = "a", .nonce = i == 2 ? 4 : i + 1};
        REQUIRE_EQ(tx_encode(&tx, &bytes[i], &wrong), 0);
        txs[i] = (weft_tx){0, bytes[i].data, bytes[i].size};
    }
    CHECK_EQ(ledger_submit(book, "s", txs, 3, ids, why, sizeof why), -EINVAL); /* the third is too high */
    CHECK_EQ(ledger_tx_status(book, "s", &ids[0]), TX_UNKNOWN);
    CHECK_EQ(ledger_submit(book, "s", txs, 4, ids, why, sizeof why), -EINVAL); /* more than the pool may hold */
    CHECK_EQ(ledger_submit(book, "s", txs, 0, ids, why, sizeof why), -EINVAL);
    CHECK_EQ(ledger_submit(book, "", txs, 1, ids, why, sizeof why), -EINVAL);
    CHECK_EQ(ledger_submit(book, "a\nb", txs, 1, ids, why, sizeof why), -EINVAL);
    txs[2].size--;
    CHECK_EQ(ledger_submit(book, "s", txs, 3, ids, why, sizeof why), -EINVAL);
    CHECK_EQ(ledger_submit(book, "s", txs, 2, ids, why, sizeof why), 0);
    CHECK_EQ(node_wait(book, "s", &ids[1]), TX_OK);
    CHECK(ledger_drain(book, 10000));
    CHECK_EQ(ledger_submit(book, "s", txs, 1, ids, why, sizeof why), -ESHUTDOWN);
    ledger_close(book);
    for (unsigned i = 0; i < 4; i++)
        bytes_free(&bytes[i]);
}

/* -- Many at once ------------------------------------------------------------------------------------------------------ */

enum { SENDERS = 4, EACH = 150 };
static struct ledger *shared;
static atomic_uint finished;

static void count_block(void *arg, const struct ledger_block *block, const hash32 *txs) {
    (void)txs;
    if (block->number > *(uint64_t *)arg)
        *(uint64_t *)arg = block->number;
}

/* Senders submit to all shards; the last thread reads, all the time. */
static void submit_or_read(unsigned index, void *arg) {
    static const char *const shards[] = {"a", "b", "c"};
    char sender[16];
    uint64_t height = 0;
    (void)arg;
    if (index == SENDERS) {
        while (atomic_load(&finished) < SENDERS)
            for (int i = 0; i < 3; i++) {
                char text[4096] = "0";
                uint64_t before = height = 0;
                ledger_block_get(shared, shards[i], 0, count_block, &before);
                node_state_try(shared, shards[i], "n", text);
                ledger_block_get(shared, shards[i], 0, count_block, &height);
                CHECK_GE(height, before);
                CHECK_LE(strtoull(text, NULL, 10), SENDERS * EACH);
            }
        return;
    }
    snprintf(sender, sizeof sender, "sender-%u", index);
    for (uint64_t nonce = 1; nonce <= EACH; nonce++)
        for (int i = 0; i < 3; i++) {
            hash32 id;
            char why[200];
            struct bytes bytes = {0};
            const char *wrong;
            struct tx tx = {.executor = "kv",
                            .method = "add",
                            .sender = sender,
                            .nonce = nonce,
                            .count = 2,
                            .args = {{"n", 1}, {"1", 1}}};
            REQUIRE_EQ(tx_encode(&tx, &bytes, &wrong), 0);
            weft_tx one = {0, bytes.data, bytes.size};
            REQUIRE_EQ(ledger_submit(shared, shards[i], &one, 1, &id, why, sizeof why), 0);
            bytes_free(&bytes);
            if (nonce == EACH)
                CHECK_EQ(node_wait(shared, shards[i], &id), TX_OK);
        }
    atomic_fetch_add(&finished, 1);
}

TEST(store_many_at_once, "K14 K17 K23 K35 K37") {
    const char *dir = node_dir();
    shared = node_open(dir);
    harness_threads(SENDERS + 1, submit_or_read, NULL);
    CHECK_STR(node_state(shared, "a", "n"), "600"); /* SENDERS * EACH: each once, none lost */
    CHECK_STR(node_state(shared, "b", "n"), "600");
    CHECK_STR(node_state(shared, "c", "n"), "600");
    ledger_close(shared);
    require_good(dir);
}
