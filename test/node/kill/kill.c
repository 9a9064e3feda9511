/* kill.c - a node killed at random moments: nothing that was acknowledged is lost, nothing is half there.
 *
 *     weft-node-kill [ROUNDS [SEED]]
 *
 * A child writes transactions and tells of each that became durable through a pipe; the parent kills it (SIGKILL), verifies the directory, opens it, and looks for
 * everything it was told of.  The next round goes on with the same directory; every 20th begins a new one, so that kills hit the making too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tx.h"

enum { SHARDS = 3, BATCH = 8, ROUNDS_A_DIR = 20 };

struct ack {
    uint32_t shard, status;
    hash32 id;
};

static char dir[64];
static struct bytes acks; /* struct ack: since the directory was made */
static uint64_t seed;

static uint64_t next_random(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((format(printf, 1, 2))) _Noreturn static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n%s is left as it is\n0 passed, 1 failed\n", dir);
    exit(1);
}

static const char *shard_name(unsigned i) {
    static const char *const names[SHARDS] = {"a", "b/c", "d e"};
    return names[i];
}

/* -- The child ------------------------------------------------------------------------------------------------------- */

static void told(void *arg, weft_shard *shard, const struct ledger_block *block, const struct ledger_receipt *receipts,
                 size_t count) {
    weft_shard_info info;
    (void)block;
    weft_shard_info_read(shard, &info);
    for (size_t i = 0; i < count; i++) {
        struct ack ack = {0, (uint32_t)receipts[i].status, receipts[i].tx};
        while (strcmp(shard_name(ack.shard), info.name))
            ack.shard++;
        if (write(*(int *)arg, &ack, sizeof ack) != sizeof ack) /* less than PIPE_BUF: whole or not */
            _exit(3);
    }
}

/* "total" counts what was done; money only moves. */
static void encode(struct bytes *out, unsigned which, const char *sender, uint64_t nonce) {
    struct tx tx = {.executor = "kv", .sender = sender, .nonce = nonce, .count = 2};
    const char *why;
    tx.method = nonce > 1 && which % 2 ? "transfer" : "add";
    tx.args[0] = nonce == 1         ? (struct tx_arg){sender, strlen(sender)}
                 : which % 2 == 0   ? (struct tx_arg){"total", 5}
                 : sender[4] == '0' ? (struct tx_arg){"user1", 5}
                                    : (struct tx_arg){"user0", 5};
    tx.args[1] = nonce == 1 ? (struct tx_arg){"1000", 4} : (struct tx_arg){"1", 1};
    if (tx_encode(&tx, out, &why))
        _exit(4);
}

_Noreturn static void write_until_killed(int pipe) {
    struct ledger *book;
    char why[200];
    struct ledger_config config = {
        .dir = dir, .workers = 2, .max_batch = 64, .max_pool = 4096, .told = told, .arg = &pipe};
    int error = ledger_open(&config, &book, why, sizeof why);
    if (error) {
        fprintf(stderr, "open: %s\n", why);
        _exit(2);
    }
    uint64_t nonce[SHARDS][2];
    for (unsigned i = 0; i < SHARDS; i++)
        for (unsigned k = 0; k < 2; k++)
            nonce[i][k] = ledger_nonce(book, shard_name(i), k ? "user1" : "user0");
    for (uint64_t round = 0;; round++) {
        unsigned i = round % SHARDS, k = round / SHARDS % 2;
        struct bytes bytes[BATCH] = {0};
        weft_tx txs[BATCH];
        hash32 ids[BATCH];
        for (unsigned n = 0; n < BATCH; n++) {
            encode(&bytes[n], n, k ? "user1" : "user0", nonce[i][k] + 1 + n);
            txs[n] = (weft_tx){0, bytes[n].data, bytes[n].size};
        }
        while ((error = ledger_submit(book, shard_name(i), txs, BATCH, ids, why, sizeof why)) == -EAGAIN)
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

/* -- The parent ------------------------------------------------------------------------------------------------------ */

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    (void)arg;
    printf("verify: %s %llu: %s\n", shard, (unsigned long long)block, what);
}

static void take_number(void *arg, const void *value, size_t size) {
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)size, (const char *)value);
    *(int64_t *)arg += atoll(text);
}

static void check(unsigned round) {
    struct ledger *book;
    char why[200];
    struct ledger_config config = {.dir = dir, .workers = 1};
    if (access(dir, F_OK)) { /* killed before it was made */
        if (acks.size)
            die("round %u: the directory is gone", round);
        return;
    }
    int64_t findings = ledger_verify(dir, on_finding, NULL, NULL);
    bool young = findings == -EPROTO || findings == -ENOENT; /* killed while the directory was made */
    if (findings && !(young && acks.size == 0))
        die("round %u: verify: %lld", round, (long long)findings);
    if (ledger_open(&config, &book, why, sizeof why))
        die("round %u: open: %s", round, why);
    for (size_t i = 0; i < acks.size / sizeof(struct ack); i++) {
        struct ack ack;
        memcpy(&ack, acks.data + i * sizeof ack, sizeof ack);
        if ((uint32_t)ledger_tx_status(book, shard_name(ack.shard), &ack.id) != ack.status)
            die("round %u: an acknowledged transaction of %s is lost", round, shard_name(ack.shard));
    }
    for (unsigned i = 0; i < SHARDS; i++) { /* half a block would leave the sums wrong */
        uint64_t one = ledger_nonce(book, shard_name(i), "user0"), two = ledger_nonce(book, shard_name(i), "user1");
        int64_t money = 0, expected = 1000 * ((one > 0) + (two > 0));
        ledger_state_get(book, shard_name(i), "user0", 5, take_number, &money);
        ledger_state_get(book, shard_name(i), "user1", 5, take_number, &money);
        if (money != expected)
            die("round %u: %s has %lld, expected %lld", round, shard_name(i), (long long)money, (long long)expected);
    }
    ledger_close(book);
}

/* Read what the child tells until it has ended. */
static void listen(int pipe, pid_t child, int64_t kill_at) {
    bool killed = false;
    for (;;) {
        int64_t left = killed ? 1000000 : kill_at - now_us();
        struct pollfd poller = {pipe, POLLIN, 0};
        if (!killed && left <= 0) {
            kill(child, SIGKILL);
            killed = true;
            continue;
        }
        if (poll(&poller, 1, (int)(left / 1000) + 1) <= 0)
            continue;
        struct ack batch[256];
        ssize_t size = read(pipe, batch, sizeof batch);
        if (size == 0)
            return;
        if (size < 0 || size % (ssize_t)sizeof *batch)
            die("the pipe gave %zd bytes", size);
        bytes_put(&acks, batch, (size_t)size);
    }
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now_us() | 1, told_of = 0;
    seed = first;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned round = 0; round < rounds; round++) {
        if (round % ROUNDS_A_DIR == 0) {
            if (round)
                nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
            told_of += acks.size / sizeof(struct ack);
            bytes_clear(&acks);
            strcpy(dir, "/tmp/weft-kill-XXXXXX");
            if (!mkdtemp(dir))
                die("mkdtemp: %s", strerror(errno));
        }
        int ends[2], status;
        if (pipe(ends))
            die("pipe: %s", strerror(errno));
        int64_t wait = (int64_t)(next_random() % (round % 3 ? 60000 : 8000));
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            write_until_killed(ends[1]);
        }
        close(ends[1]);
        listen(ends[0], child, now_us() + wait);
        close(ends[0]);
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            die("round %u, seed %llu: the child ended by itself: %x", round, (unsigned long long)first,
                (unsigned)status);
        check(round);
    }
    told_of += acks.size / sizeof(struct ack);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    bytes_free(&acks);
    printf("%u kills, %llu acknowledged transactions, none lost (seed %llu)\n", rounds, (unsigned long long)told_of,
           (unsigned long long)first);
    if (told_of == 0)
        die("nothing was acknowledged: the kills prove nothing");
    printf("%u passed, 0 failed\n", rounds);
    return 0;
}
