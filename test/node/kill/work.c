/* work.c - see work.h. */
#define _GNU_SOURCE
#include "work.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 8, BLOB = 9000 };

static const char *const names[WORK_SHARDS] = {"a", "b/c", "d e"};

void work_acks(weft_shard *shard, const struct ledger_receipt *receipts, size_t count, struct ack *out) {
    weft_shard_info info;
    uint32_t which = 0;
    weft_shard_info_read(shard, &info);
    while (strcmp(names[which], info.name))
        which++;
    for (size_t i = 0; i < count; i++)
        out[i] = (struct ack){which, (uint32_t)receipts[i].status, receipts[i].tx};
}

/* "total" counts what was done; money only moves; now and then a value that has pages of its own. */
static void encode(struct bytes *out, unsigned which, const char *sender, uint64_t nonce) {
    static const char blob[BLOB];
    struct tx tx = {.executor = "kv", .sender = sender, .nonce = nonce, .count = 2};
    const char *why, *other = sender[4] == '0' ? "user1" : "user0";
    bool large = which == 6 && nonce % 5 == 0, transfer = nonce > 1 && which % 2;
    tx.method = transfer ? "transfer" : large ? "set" : "add";
    const char *key = nonce == 1 ? sender : transfer ? other : large ? "blob" : "total";
    tx.args[0] = (struct tx_arg){key, strlen(key)};
    tx.args[1] = nonce == 1 ? (struct tx_arg){"1000", 4}
                 : large    ? (struct tx_arg){blob, sizeof blob}
                            : (struct tx_arg){"1", 1};
    if (tx_encode(&tx, out, &why))
        _exit(4);
}

_Noreturn void work_write(const char *dir, size_t max_batch, ledger_told_fn told, void *arg) {
    struct ledger *book;
    char why[200];
    struct ledger_config config = {
        .dir = dir, .workers = 2, .max_batch = max_batch, .max_pool = 4096, .told = told, .arg = arg};
    int error = ledger_open(&config, &book, why, sizeof why);
    if (error) {
        fprintf(stderr, "open: %s\n", why);
        _exit(2);
    }
    uint64_t nonce[WORK_SHARDS][2];
    for (unsigned i = 0; i < WORK_SHARDS; i++)
        for (unsigned k = 0; k < 2; k++)
            nonce[i][k] = ledger_nonce(book, names[i], k ? "user1" : "user0");
    for (uint64_t round = 0;; round++) {
        unsigned i = round % WORK_SHARDS, k = round / WORK_SHARDS % 2;
        struct bytes bytes[BATCH] = {0};
        weft_tx txs[BATCH];
        hash32 ids[BATCH];
        for (unsigned n = 0; n < BATCH; n++) {
            encode(&bytes[n], n, k ? "user1" : "user0", nonce[i][k] + 1 + n);
            txs[n] = (weft_tx){0, bytes[n].data, bytes[n].size};
        }
        while ((error = ledger_submit(book, names[i], txs, BATCH, ids, why, sizeof why)) == -EAGAIN)
            usleep(100);
        if (error) {
            fprintf(stderr, "submit: %s\n", why);
            _exit(5);
        }
        nonce[i][k] += BATCH;
        for (unsigned n = 0; n < BATCH; n++)
            bytes_free(&bytes[n]);
    }
}

/* -- Afterwards -------------------------------------------------------------------------------------------------------- */

struct check {
    char *why;
    size_t room;
};

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    struct check *check = arg;
    snprintf(check->why, check->room, "verify: %s %llu: %s", shard, (unsigned long long)block, what);
}

static void take_number(void *arg, const void *value, size_t size) {
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)size, (const char *)value);
    *(int64_t *)arg += atoll(text);
}

static bool is_whole(struct ledger *book, const struct ack *acks, size_t count, char *why, size_t room) {
    for (size_t i = 0; i < count; i++)
        if ((uint32_t)ledger_tx_status(book, names[acks[i].shard], &acks[i].id) != acks[i].status)
            return snprintf(why, room, "an acknowledged transaction of %s is lost", names[acks[i].shard]), false;
    for (unsigned i = 0; i < WORK_SHARDS; i++) {
        uint64_t one = ledger_nonce(book, names[i], "user0"), two = ledger_nonce(book, names[i], "user1");
        int64_t money = 0, expected = 1000 * ((one > 0) + (two > 0));
        ledger_state_get(book, names[i], "user0", 5, take_number, &money);
        ledger_state_get(book, names[i], "user1", 5, take_number, &money);
        if (money != expected)
            return snprintf(why, room, "%s has %lld, expected %lld", names[i], (long long)money, (long long)expected),
                   false;
    }
    return true;
}

static bool goes_on(struct ledger *book, char *why, size_t room) {
    for (unsigned i = 0; i < WORK_SHARDS; i++) {
        struct bytes bytes = {0};
        hash32 id;
        encode(&bytes, 0, "user0", ledger_nonce(book, names[i], "user0") + 1);
        weft_tx tx = {0, bytes.data, bytes.size};
        int error = ledger_submit(book, names[i], &tx, 1, &id, why, room);
        bytes_free(&bytes);
        for (int tries = 0; !error && tries < 100000 && ledger_tx_status(book, names[i], &id) == TX_PENDING; tries++)
            usleep(100);
        if (error || ledger_tx_status(book, names[i], &id) != TX_OK)
            return error ? false : (snprintf(why, room, "%s takes no more transactions", names[i]), false);
    }
    return true;
}

bool work_check(const char *dir, const struct ack *acks, size_t count, bool go_on, char *why, size_t room) {
    struct ledger *book;
    struct ledger_config config = {.dir = dir, .workers = 1};
    struct check check = {why, room};
    snprintf(why, room, "verify");
    if (access(dir, F_OK) == 0) {
        int64_t findings = ledger_verify(dir, on_finding, NULL, &check);
        bool young = findings == -EPROTO || findings == -ENOENT; /* while the directory was made */
        if (findings && !(young && count == 0))
            return false;
    } else if (count) {
        return snprintf(why, room, "the directory is gone"), false;
    }
    if (ledger_open(&config, &book, why, room))
        return false;
    bool good = is_whole(book, acks, count, why, room) && (!go_on || goes_on(book, why, room));
    ledger_close(book);
    if (good && go_on)
        good = ledger_verify(dir, on_finding, NULL, &check) == 0;
    return good;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}
void work_remove(const char *dir) { nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
