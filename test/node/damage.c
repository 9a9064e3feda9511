/* damage.c - a store with one bit flipped, cut short, or with pages mixed up: verify finds it, or nothing that is read differs.
 *
 * Here every 211th bit, from a random one on; tools/node-faults (WEFT_NODE_DAMAGE=1) takes all of them.
 */
#define _GNU_SOURCE
#include "node.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "hash.h"
#include "pages.h"

static char shard_dir[200], file_name[300];
static unsigned char *original;
static size_t original_size;
static size_t used; /* bytes of it: behind them is room for later blocks */

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    (void)shard, (void)block;
    if (arg)
        snprintf(arg, 200, "%s", what);
}

/* A store with everything in it: blocks, failures, deletions, merged runs, a large value, free pages. */
static const char *make(void) {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    char words[5000];
    CHECK_EQ(node_run(book, "s", "ann", "kv set ann 100"), TX_OK);
    CHECK_EQ(node_run(book, "s", "ann", "kv transfer bob 30"), TX_OK);
    CHECK_EQ(node_run(book, "s", "bob", "kv transfer cy 31"), TX_FAILED);
    memset(words, 'v', sizeof words);
    memcpy(words, "kv set large ", 13);
    words[4900] = 0;
    CHECK_EQ(node_run(book, "s", "bob", words), TX_OK);
    CHECK_EQ(node_run(book, "s", "bob", "kv set gone 1"), TX_OK);
    CHECK_EQ(node_run(book, "s", "bob", "kv del gone"), TX_OK);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    snprintf(shard_dir, sizeof shard_dir, "%s/shards/s", dir);
    snprintf(file_name, sizeof file_name, "%s/data.mdb", shard_dir);
    original = node_bytes(file_name, &original_size);
    size_t newer =
        get64(original + 144) > get64(original + 4096 + 144) ? 0 : 4096; /* the metas: transaction, last page */
    used = 4096 * (1 + get64(original + newer + 136));
    REQUIRE_LE(used, original_size);
    REQUIRE_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
    return dir;
}

static void restore(void) {
    int fd = open(file_name, O_WRONLY | O_TRUNC);
    REQUIRE(fd >= 0 && write(fd, original, original_size) == (ssize_t)original_size);
    close(fd);
}

static int add_to_hash(void *arg, const void *key, size_t key_size, const void *value, size_t size) {
    hash_add(arg, &key_size, sizeof key_size);
    hash_add(arg, key, key_size);
    hash_add(arg, &size, sizeof size);
    hash_add(arg, value, size);
    return 0;
}

/* All keys and values that the file has. */
static hash32 contents(void) {
    struct hash hash;
    uint64_t txn;
    char what[200];
    hash_begin(&hash, NULL, 0);
    REQUIRE_EQ(pages_walk(shard_dir, 0, add_to_hash, &hash, &txn, what, sizeof what), 0);
    hash_add(&hash, &txn, sizeof txn);
    return hash_end(&hash);
}

/* LMDB reads the same of it, and a node goes on with it. */
static void require_harmless(const char *dir, size_t bit) {
    struct ledger *book = node_open(dir);
    CHECK_STR(node_state(book, "s", "n"), "12");
    CHECK_STR(node_state(book, "s", "ann"), "70");
    CHECK_STR(node_state(book, "s", "gone"), "(none)");
    CHECK_EQ(node_height(book, "s"), 18);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    char what[200] = "";
    if (ledger_verify(dir, on_finding, NULL, what))
        printf("bit %zu: after one more block: %s\n", bit, what);
    CHECK_STR(what, "");
    restore();
}

static void flip_all(const char *dir, size_t step, size_t first) {
    hash32 expected = contents();
    size_t found = 0, harmless = 0;
    int fd = open(file_name, O_RDWR);
    for (size_t bit = first; bit < used * 8; bit += step) {
        unsigned char byte = original[bit / 8] ^ (unsigned char)(1u << bit % 8);
        REQUIRE_EQ(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        int64_t findings = ledger_verify(dir, on_finding, NULL, NULL);
        if (findings == 0) { /* then it is in nobody's bytes */
            hash32 now = contents();
            CHECK(!memcmp(&now, &expected, sizeof now));
            if (++harmless % (step > 1 ? 400 : 2000) == 0)
                require_harmless(dir, bit);
        } else {
            REQUIRE_GT(findings, 0); /* an error would not be a finding */
            found++;
        }
        REQUIRE_EQ(pwrite(fd, &original[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(fd);
    printf("%zu bytes: %zu flips found, %zu change nothing that is read\n", used, found, harmless);
    CHECK_GT(found, used * 8 / step / 10);
    REQUIRE_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
}

TEST(damage_one_bit, "", .timeout = 3600) {
    const char *dir = make();
    uint64_t state = harness_seed();
    bool all = getenv("WEFT_NODE_DAMAGE") != NULL;
    size_t step = all ? 1 : harness_is_slow() ? 1999 : 211;
    flip_all(dir, step, all ? 0 : harness_random(&state) % step);
}

/* Every bit that belongs to somebody is found: those of keys, values, nodes, heads of pages in use. */
static int claim_bytes(void *arg, const void *key, size_t key_size, const void *value, size_t size) {
    struct bytes *needles = arg; /* what must be found: the record of a block, whole */
    if (key_size == 9 && *(const char *)key == 'b')
        bytes_put(needles, value, size);
    return 0;
}

TEST(damage_blocks, "", .timeout = 120) {
    const char *dir = make();
    struct bytes blocks = {0};
    uint64_t txn, state = harness_seed();
    char what[200];
    REQUIRE_EQ(pages_walk(shard_dir, 0, claim_bytes, &blocks, &txn, what, sizeof what), 0);
    /* The newest block is in the file once or twice (free pages keep old copies): flip it where it is read. */
    unsigned char *at = memmem(original, original_size, blocks.data, 300);
    REQUIRE(at != NULL);
    int fd = open(file_name, O_RDWR);
    for (int i = 0; i < 300; i++) {
        size_t bit = (size_t)(at - original) * 8 + harness_random(&state) % (300 * 8);
        unsigned char byte = original[bit / 8] ^ (unsigned char)(1u << bit % 8);
        REQUIRE_EQ(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        CHECK_GT(ledger_verify(dir, on_finding, NULL, NULL), 0);
        REQUIRE_EQ(pwrite(fd, &original[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(fd);
    bytes_free(&blocks);
}

/* What a child did with the damaged store: what it was given by a node was right, or it was told, or it ended. */
static void read_all(const char *dir) {
    struct ledger_config config = {.dir = dir, .workers = 1};
    struct ledger *book;
    char why[200], text[4096] = "";
    if (ledger_open(&config, &book, why, sizeof why))
        _exit(0);
    static const char *const states[][2] = {{"n", "12"}, {"ann", "70"}, {"bob", "30"}};
    for (int i = 0; i < 3; i++)
        if (node_state_try(book, "s", states[i][0], text) == 0 && strcmp(text, states[i][1]))
            _exit(1);
    for (uint64_t nonce = 1; nonce <= 14; nonce++) {
        hash32 id;
        node_id_of("s", "ann", nonce,
                   nonce == 1   ? "kv set ann 100"
                   : nonce == 2 ? "kv transfer bob 30"
                                : "kv add n 1",
                   &id);
        enum tx_status status = ledger_tx_status(book, "s", &id);
        if (status != TX_OK && status != TX_UNKNOWN)
            _exit(2);
    }
    _exit(0);
}

TEST(damage_reads, "", .timeout = 120) {
    const char *dir = make();
    uint64_t state = harness_seed();
    int crashes = 0, rounds = harness_is_slow() ? 30 : 400;
    int fd = open(file_name, O_RDWR);
    for (int i = 0; i < rounds; i++) {
        size_t bit = harness_random(&state) % (used * 8);
        unsigned char byte = original[bit / 8] ^ (unsigned char)(1u << bit % 8);
        REQUIRE_EQ(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        pid_t child = fork();
        if (child == 0) {
            close(2);
            read_all(dir);
        }
        int status;
        REQUIRE_EQ(waitpid(child, &status, 0), child);
        crashes += WIFSIGNALED(status); /* LMDB on a damaged tree: ended, but nothing wrong was said */
        if (WIFEXITED(status))
            CHECK_LE(WEXITSTATUS(status), 0);
        REQUIRE_EQ(pwrite(fd, &original[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    printf("%d of %d reads ended in LMDB\n", crashes, rounds);
    close(fd);
}

/* A node starts with it, and stops only that shard: nothing is read from it, nothing written to it, and others run. */
static void require_stopped(const char *dir, const char *name) {
    struct ledger *book = node_open(dir);
    weft_shard *shard = weft_shard_find(ledger_lane(book), name);
    weft_shard_info info;
    char text[4096];
    hash32 id;
    enum tx_status status;
    REQUIRE(shard != NULL);
    ledger_shard_info(shard, &info);
    CHECK_EQ(info.state, WEFT_SHARD_STOPPED);
    CHECK_EQ(node_state_try(book, name, "n", text), -EBADMSG);
    CHECK_EQ(node_try(book, name, "ann", 15, "kv add n 1", &id), -EIO);
    CHECK_EQ(ledger_tx_look(book, name, &id, &status), -EBADMSG);
    CHECK_EQ(node_run(book, "other", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
}

/* Cut at any page, or its end zeroed: a node stops that shard, without SIGBUS. */
TEST(damage_cut, "") {
    const char *dir = make();
    for (size_t size = 0; size < used; size += 4096) {
        REQUIRE_EQ(truncate(file_name, (off_t)size), 0);
        CHECK_GT(ledger_verify(dir, on_finding, NULL, NULL), 0);
        require_stopped(dir, "s");
        REQUIRE_EQ(truncate(file_name, (off_t)original_size), 0); /* zeroes */
        CHECK_GT(ledger_verify(dir, on_finding, NULL, NULL), 0);
        restore();
    }
    REQUIRE_EQ(unlink(file_name), 0);
    CHECK_GT(ledger_verify(dir, on_finding, NULL, NULL), 0);
    require_stopped(dir, "s");
}

/* Any page instead of any other; another shard's file; yesterday's file. */
TEST(damage_misplaced, "", .timeout = 60) {
    const char *dir = make();
    size_t pages = used / 4096;
    hash32 expected = contents();
    int fd = open(file_name, O_RDWR);
    for (size_t from = 0; from < pages; from++)
        for (size_t to = 0; to < pages; to += harness_is_slow() ? 7 : 1) {
            if (!memcmp(original + from * 4096, original + to * 4096, 4096))
                continue;
            REQUIRE_EQ(pwrite(fd, original + from * 4096, 4096, (off_t)(to * 4096)), 4096);
            if (ledger_verify(dir, on_finding, NULL, NULL) == 0) { /* over a free page */
                hash32 now = contents();
                CHECK(!memcmp(&now, &expected, sizeof now));
            }
            REQUIRE_EQ(pwrite(fd, original + to * 4096, 4096, (off_t)(to * 4096)), 4096);
        }
    close(fd);
    char other[300];
    snprintf(other, sizeof other, "%s/shards/t", dir);
    REQUIRE_EQ(rename(shard_dir, other), 0);
    CHECK_GT(ledger_verify(dir, on_finding, NULL, NULL), 0);
    require_stopped(dir, "t");
}
