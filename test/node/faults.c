/* faults.c - memory, disk space and the disk itself fail at any point: no acknowledgement, no half block, and the other shards run.
 *
 * LMDB is a shared library, so the functions it calls can be these: each asks whether it is to fail.
 */
#define _GNU_SOURCE
#include "node.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "plat/plat.h"

#define INTERPOSED __attribute__((visibility("default")))

enum { ON_WRITE = 1, ON_SYNC = 2, ON_RESERVE = 4, ON_NAME = 8, ON_META = 16 }; /* open, mkdir, rename; pages 0 and 1 */
enum { ALWAYS = -1 };
static atomic_int fail_kinds, fail_errno, fail_after, fail_seen;

static void arm(int kinds, int error, int after) {
    atomic_store(&fail_errno, error), atomic_store(&fail_after, after), atomic_store(&fail_seen, 0);
    atomic_store(&fail_kinds, kinds);
}

static const char *fail_part = "/shards/bad/"; /* of the path */

/* Calls for what is below that only.  True: fail, with errno set. */
static bool path_fails(const char *path, int kind) {
    int after = atomic_load(&fail_after);
    if (!(atomic_load(&fail_kinds) & kind) || !strstr(path, fail_part) ||
        (atomic_fetch_add(&fail_seen, 1) != after && after != ALWAYS))
        return false;
    errno = atomic_load(&fail_errno);
    return true;
}

static bool fails(int fd, int kind) {
    char link[64], path[256];
    if (!(atomic_load(&fail_kinds) & kind))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return path_fails(path, kind);
}

INTERPOSED ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    return fails(fd, ON_WRITE) || (at < 8192 && fails(fd, ON_META)) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, at);
}
INTERPOSED ssize_t writev(int fd, const struct iovec *parts, int count) {
    return fails(fd, ON_WRITE) ? -1 : syscall(SYS_writev, fd, parts, count);
}
INTERPOSED int fdatasync(int fd) { return fails(fd, ON_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd); }
INTERPOSED int fsync(int fd) { return fails(fd, ON_SYNC) ? -1 : (int)syscall(SYS_fsync, fd); }
INTERPOSED int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    return path_fails(path, ON_NAME) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
INTERPOSED int mkdir(const char *path, mode_t mode) {
    return path_fails(path, ON_NAME) ? -1 : (int)syscall(SYS_mkdir, path, mode);
}
INTERPOSED int rename(const char *from, const char *to) {
    return path_fails(from, ON_NAME) ? -1 : (int)syscall(SYS_rename, from, to);
}
INTERPOSED int fallocate(int fd, int mode, off_t at, off_t size) {
    return fails(fd, ON_RESERVE) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, size);
}

static weft_shard_state state_of(struct ledger *book, const char *shard) {
    weft_shard_info info;
    weft_shard_info_read(weft_shard_find(ledger_lane(book), shard), &info);
    return info.state;
}

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    (void)arg;
    printf("%s %llu: %s\n", shard, (unsigned long long)block, what);
}

/* No room: the batch is refused, the shard goes on, and works again when there is room. */
TEST(faults_no_space, "K28 K29 K30 K31") {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    char words[70000] = "kv set big ";
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
    memset(words + 11, 'v', 60000); /* more than was reserved */
    words[60011] = 0;
    arm(ON_RESERVE, ENOSPC, 0);
    CHECK_EQ(node_run(book, "bad", "ann", words), TX_REFUSED);
    CHECK_EQ(atomic_load(&fail_seen), 1);
    CHECK_EQ(node_height(book, "bad"), 1);
    REQUIRE_EVENTUALLY(state_of(book, "bad") == WEFT_SHARD_IDLE);
    CHECK_EQ(ledger_nonce(book, "bad", "ann"), 1);
    arm(0, 0, 0);
    CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(node_run(book, "bad", "ann", words), TX_OK); /* with the same nonce, and so the same id */
    CHECK_EQ(ledger_tx_status(book, "bad", &node_id), TX_OK);
    CHECK_EQ(node_height(book, "bad"), 2);
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
}

/* A disk that stays full fails every batch: the log gets a line a second, not one a batch. */
TEST(faults_no_space_said_once, "K28") {
    struct ledger *book = node_open(node_dir());
    char words[70000] = "kv set big ", line[300];
    memset(words + 11, 'v', 60000);
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
    FILE *log = tmpfile();
    int before = dup(2);
    REQUIRE(log && before >= 0 && dup2(fileno(log), 2) == 2);
    int64_t began = harness_clock();
    arm(ON_RESERVE, ENOSPC, ALWAYS);
    for (int i = 0; i < 200; i++)
        CHECK_EQ(node_run(book, "bad", "ann", words), TX_REFUSED);
    arm(0, 0, 0);
    int64_t seconds = (harness_clock() - began) / 1000000000, lines = 0;
    REQUIRE_EQ(dup2(before, 2), 2);
    CHECK_EQ(node_run(book, "bad", "ann", words), TX_OK);
    for (rewind(log); fgets(line, sizeof line, log); lines++)
        CHECK_CONTAINS(line, "No space left on device");
    CHECK_GE(lines, 1);
    CHECK_LE(lines, seconds + 2);
    fclose(log);
    ledger_close(book);
}

/* The map is full for good: refused, and what was there is read. */
TEST(faults_map_full, "K29 K30") {
    const char *dir = node_dir();
    struct ledger *book = node_open_with((struct ledger_config){.dir = dir, .workers = 1, .map_size = 2 << 20});
    char words[70000] = "kv set big ";
    memset(words + 11, 'v', 60000);
    words[60011] = 0;
    int written = 0;
    while (written < 100 && node_run(book, "s", "ann", words) == TX_OK)
        written++;
    CHECK_GT(written, 5); /* the first map is 1 MiB: it was doubled */
    CHECK_LT(written, 20);
    REQUIRE_EVENTUALLY(state_of(book, "s") == WEFT_SHARD_IDLE);
    CHECK_EQ(node_height(book, "s"), written);
    CHECK_EQ(ledger_nonce(book, "s", "ann"), written);
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
    book = node_open(dir); /* with more room */
    CHECK_EQ(node_run(book, "s", "ann", words), TX_OK);
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
}

/* The nth write or sync fails, for every n: nothing is acknowledged, the shard stops, reads and other shards go on, and what is on the disk is a chain. */
static void sweep(int kinds, int error) {
    int points = 0;
    const char *dir = node_dir();
    for (bool reached = true; reached; points++) {
        struct ledger *book = node_open(dir);
        hash32 id;
        REQUIRE_LT(points, 100);
        CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
        uint64_t nonce = ledger_nonce(book, "bad", "ann"), height = node_height(book, "bad");
        char before[32];
        snprintf(before, sizeof before, "%s", node_state(book, "bad", "n"));
        arm(kinds, error, points);
        REQUIRE_EQ(node_try(book, "bad", "ann", nonce + 1, "kv add n 1", &id), 0);
        enum tx_status status = node_wait(book, "bad", &id);
        reached = atomic_load(&fail_seen) > points;
        arm(0, 0, 0);
        CHECK_EQ(status, reached ? TX_REFUSED : TX_OK);
        if (reached) {
            REQUIRE_EVENTUALLY(state_of(book, "bad") == WEFT_SHARD_STOPPED);
            CHECK_EQ(node_try(book, "bad", "ann", nonce + 1, "kv noop", &id), -EIO);
            CHECK_CONTAINS(node_reason, "stopped");
            CHECK_STR(node_state(book, "bad", "n"), before);
            CHECK_EQ(node_height(book, "bad"), height);
        }
        CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
        ledger_close(book);
        CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
    }
    printf("%d points\n", points - 1);
    CHECK_GT(points, 1);
}

/* A refused transaction says why, and a stopped shard is brought back without a restart of the node. */
TEST(faults_restart, "K29 K30 K31") {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    hash32 refused;
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
    CHECK_STR(ledger_refusal(book, "bad", &node_id), "");
    arm(ON_SYNC, EIO, 0);
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_REFUSED);
    refused = node_id;
    CHECK_CONTAINS(ledger_refusal(book, "bad", &refused), "its disk failed");
    arm(0, 0, 0);
    REQUIRE_EVENTUALLY(state_of(book, "bad") == WEFT_SHARD_STOPPED);
    CHECK_EQ(node_try(book, "bad", "ann", 2, "kv add n 1", &refused), -EIO);
    CHECK_EQ(ledger_shard_restart(book, "none"), -ENOENT);
    arm(ON_NAME, EIO, 0); /* still unreadable */
    int error;
    while ((error = ledger_shard_restart(book, "bad")) == -EAGAIN)
        harness_nap();
    CHECK_EQ(error, -EIO);
    arm(0, 0, 0);
    CHECK_EQ(state_of(book, "bad"), WEFT_SHARD_STOPPED);
    CHECK_EQ(ledger_shard_restart(book, "bad"), 0);
    CHECK_EQ(ledger_shard_restart(book, "bad"), 0); /* again: nothing */
    CHECK_EQ(state_of(book, "bad"), WEFT_SHARD_IDLE);
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK); /* with the nonce that is the next on the disk */
    CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
}

TEST(faults_write_eio, "K29 K30 K31") { sweep(ON_WRITE, EIO); }
TEST(faults_write_enospc, "K29 K30 K31") { sweep(ON_WRITE, ENOSPC); }
TEST(faults_sync_eio, "K29 K30 K31") { sweep(ON_SYNC, EIO); }

/* A meta page: LMDB puts half of the old one back, and reads nothing more in that environment.  Reads go on all the same, in another; verify says what that half is, and
 * that the last block is good; a restart goes on. */
static void keep_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    snprintf(arg, 300, "%s %llu: %s", shard, (unsigned long long)block, what);
}

TEST(faults_meta_eio, "K29 K30 K31") {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    hash32 id;
    char what[300] = "", text[4096];
    CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
    for (int i = 1; i <= 3; i++) /* pages are used again */
        CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(node_run(book, "bad", "bob", "kv set k v"), TX_OK);
    arm(ON_META, EIO, 0);
    REQUIRE_EQ(node_try(book, "bad", "ann", 4, "kv add n 1", &id), 0);
    CHECK_EQ(node_wait(book, "bad", &id), TX_REFUSED);
    CHECK_EQ(atomic_load(&fail_seen), 2); /* and the half that is put back */
    arm(0, 0, 0);
    REQUIRE_EVENTUALLY(state_of(book, "bad") == WEFT_SHARD_STOPPED);
    CHECK_EQ(node_state_try(book, "bad", "n", text), 0);
    CHECK_STR(text, "3");
    CHECK_EQ(ledger_nonce(book, "bad", "bob"), 1);
    CHECK_EQ(ledger_tx_status(book, "bad", &node_id), TX_OK);
    CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    int64_t findings = ledger_verify(dir, keep_finding, NULL, what);
    CHECK_LE(findings, 1);
    if (findings)
        CHECK_CONTAINS(what, "bad 4: it is good, but what LMDB keeps of the time before it is not whole: ");
    book = node_open(dir);
    CHECK_STR(node_state(book, "bad", "n"), "3");
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
}

/* The nth call for a shard that is being made fails: it is refused, there is no half of it, and the next one makes it. */
static void sweep_making(int error) {
    int points = 0, kinds = ON_WRITE | ON_SYNC | ON_RESERVE | ON_NAME;
    fail_part = "/shards";
    for (bool reached = true; reached; points++) {
        const char *dir = node_dir();
        struct ledger *book = node_open(dir);
        hash32 id;
        REQUIRE_LT(points, 100);
        CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
        arm(kinds, error, points);
        int refused = node_try(book, "bad", "ann", 1, "kv add n 1", &id);
        if (!refused)
            node_wait(book, "bad", &id);
        reached = atomic_load(&fail_seen) > points;
        arm(0, 0, 0);
        CHECK(refused == 0 || refused == -error || refused == -EIO);
        CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
        if (refused) {
            CHECK(weft_shard_find(ledger_lane(book), "bad") == NULL);
            CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
            CHECK_STR(node_state(book, "bad", "n"), "1");
        }
        ledger_close(book);
        if (ledger_verify(
                dir, on_finding, NULL,
                NULL)) { /* a meta page's write: LMDB puts half of the old one back, which verify tells until the next block */
            CHECK_EQ(refused, 0);
            book = node_open(dir);
            CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
            ledger_close(book);
            CHECK_EQ(ledger_verify(dir, on_finding, NULL, NULL), 0);
        }
    }
    printf("%d points\n", points - 1);
    CHECK_GT(points, 10);
}
TEST(faults_making_eio, "K29", .timeout = 120) { sweep_making(EIO); }
TEST(faults_making_enospc, "K29", .timeout = 120) { sweep_making(ENOSPC); }

/* -- Memory --------------------------------------------------------------------------------------------------------- */

static const char *memory_dir;

static void use_receipt(void *arg, const struct ledger_receipt *receipt) { *(enum tx_status *)arg = receipt->status; }
static void use_steps(void *arg, const struct ledger_step *steps, size_t count) {
    (void)steps;
    *(size_t *)arg = count;
}
static void use_block(void *arg, const struct ledger_block *block, const hash32 *txs) {
    (void)txs;
    *(uint64_t *)arg = block->number;
}

static void scenario(void) {
    static const char *const words[] = {
        "kv set ann 10",           "kv transfer bob 3", "lua deploy c function\tf()\tput(1,2)\tend",
        "lua deploy c function(x", "lua invoke c f",    "kv get ann"};
    struct ledger_config config = {.dir = memory_dir, .workers = 1};
    struct ledger *untouched = (struct ledger *)(void *)&config, *book = untouched;
    char why[200];
    int error = ledger_open(&config, &book, why, sizeof why);
    REQUIRE(error == 0 || error == -ENOMEM || error == -EAGAIN);
    if (error) {
        CHECK_EQ(book, untouched);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hash32 id;
        uint64_t nonce = ledger_nonce(book, "s", "ann"), block = 0;
        error = node_try(book, "s", "ann", nonce + 1, words[i], &id);
        REQUIRE(error == 0 || error == -ENOMEM);
        if (error)
            continue;
        enum tx_status status = node_wait(book, "s", &id), read = status;
        size_t steps;
        REQUIRE(status == TX_OK || status == TX_FAILED || status == TX_REFUSED || status == TX_UNKNOWN);
        error = ledger_receipt_get(book, "s", &id, use_receipt, &read);
        REQUIRE(error == 0 || error == -ENOMEM || (error == -ENOENT && status != TX_OK));
        if (status != TX_UNKNOWN) /* there was no memory to look */
            CHECK_EQ(read, status);
        error = ledger_trace_get(book, "s", &id, use_steps, &steps);
        REQUIRE(error == 0 || error == -ENOMEM || (error == -ENOENT && status != TX_OK));
        error = ledger_block_get(book, "s", 0, use_block, &block);
        REQUIRE(error == 0 || error == -ENOMEM || error == -ENOENT);
    }
    if (weft_shard_find(ledger_lane(book), "s"))
        CHECK_EQ(state_of(book, "s") == WEFT_SHARD_STOPPED, false);
    ledger_close(book);
}

static void sweep_memory(bool persistent) {
    int64_t nth = 0;
    for (bool reached = true; reached; nth += nth < 100 ? 1 : 3) {
        REQUIRE_LT(nth, 5000);
        wefti_fault_set(nth, persistent);
        scenario();
        reached = wefti_fault_count() > nth;
        wefti_fault_set(-1, false);
    }
    printf("%lld points, %s\n", (long long)nth, persistent ? "persistent" : "one-shot");
    CHECK_GT(nth, 50);
}

TEST(faults_memory, "", .timeout = 120) {
    sweep_memory(false);
    sweep_memory(true);
}

TEST(faults_memory_on_disk, "", .timeout = 120) {
    if (harness_is_slow())
        SKIP("the same as in memory, and a directory");
    memory_dir = node_dir();
    for (int64_t nth = 0; nth < 60; nth++) {
        wefti_fault_set(nth, nth % 2);
        scenario();
        wefti_fault_set(-1, false);
    }
    CHECK_EQ(ledger_verify(memory_dir, on_finding, NULL, NULL), 0);
}
