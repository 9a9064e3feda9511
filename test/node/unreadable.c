/* unreadable.c - a disk that cannot read: what LMDB has mapped gives SIGBUS; the shard stops, the node and its other shards do not.
 *
 * One page: a page of a file without any is mapped in its place, which the kernel answers exactly as a page that it cannot read (SIGBUS, BUS_ADRERR).
 * A cut file: the same, by the file system itself.
 */
#define _GNU_SOURCE
#include "node.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "bytes.h"
#include "plat/plat.h"

#define PAGE 4096

static char file_name[300];
static unsigned char *original;
static size_t original_size;

static void on_finding(void *arg, const char *shard, uint64_t block, const char *what) {
    if (arg)
        snprintf(arg, 200, "%s %llu: %s", shard, (unsigned long long)block, what);
}

/* A store whose tree has branches, large values, a merged run and free pages. */
static const char *make(void) {
    const char *dir = node_dir();
    struct ledger *book = node_open(dir);
    char words[9000];
    for (int i = 0; i < 18; i++) {
        int size = snprintf(words, sizeof words, "kv set k%d ", i);
        memset(words + size, 'a' + i, i % 3 ? 300 : 8000);
        words[size + (i % 3 ? 300 : 8000)] = 0;
        CHECK_EQ(node_run(book, "bad", "ann", words), TX_OK);
    }
    CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    snprintf(file_name, sizeof file_name, "%s/shards/bad/data.mdb", dir);
    original = node_bytes(file_name, &original_size);
    return dir;
}

/* The file as it was, and another one: an environment that had to be left open keeps the old one. */
static void restore(void) {
    unlink(file_name);
    int fd = open(file_name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    REQUIRE(fd >= 0 && write(fd, original, original_size) == (ssize_t)original_size);
    close(fd);
}

static size_t pages_used(void) {
    size_t newer =
        get64(original + 144) > get64(original + PAGE + 144) ? 0 : PAGE; /* the metas: transaction, last page */
    return 1 + get64(original + newer + 136);
}

/* Where the file is mapped. */
static char *map_of(const char *path) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[600], *found = NULL;
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        char *at = strchr(line, '/');
        unsigned long from, offset;
        line[strcspn(line, "\n")] = 0;
        if (at && !strcmp(at, path) && sscanf(line, "%lx-%*x %*s %lx", &from, &offset) == 2 && offset == 0)
            found = (char *)from; /* NOLINT */
    }
    fclose(maps);
    REQUIRE(found != NULL);
    return found;
}

static void make_bad(char *map, size_t page) {
    int fd = memfd_create("nothing", MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(mmap(map + page * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    close(fd);
}

static weft_shard_state state_of(struct ledger *book, const char *shard) {
    weft_shard_info info;
    ledger_shard_info(weft_shard_find(ledger_lane(book), shard), &info);
    return info.state;
}

static void use_block(void *arg, const struct ledger_block *block, const hash32 *txs) {
    (void)arg;
    hash32 none = {{0}};
    REQUIRE(block->number >= 1 && block->number <= 20 && block->txs == 1 && memcmp(&txs[0], &none, sizeof none));
}
static void use_steps(void *arg, const struct ledger_step *steps, size_t count) {
    (void)arg;
    REQUIRE(count > 0 && steps[0].key_size > 0);
}

/* Everything that can be read: right, or -EIO.  How many were -EIO. */
static int read_all(struct ledger *book) {
    int failed = 0;
    char text[9000], key[8], words[9000];
    for (int i = 0; i < 18; i++) {
        snprintf(key, sizeof key, "k%d", i);
        int error = node_state_try(book, "bad", key, text);
        REQUIRE(error == 0 || error == -EIO);
        if (!error)
            REQUIRE(text[0] == 'a' + i && strlen(text) >= 300);
        failed += error != 0;
        enum tx_status status;
        hash32 id;
        int size = snprintf(words, sizeof words, "kv set k%d ", i);
        memset(words + size, 'a' + i, i % 3 ? 300 : 8000);
        words[size + (i % 3 ? 300 : 8000)] = 0;
        node_id_of("bad", "ann", (uint64_t)i + 1, words, &id);
        error = ledger_tx_look(book, "bad", &id, &status);
        REQUIRE(error == -EIO || (error == 0 && status == TX_OK));
        failed += error != 0;
        error = ledger_trace_get(book, "bad", &id, use_steps, NULL);
        REQUIRE(error == 0 || error == -EIO);
        failed += error != 0;
        error = ledger_block_get(book, "bad", (uint64_t)i + 1, use_block, NULL);
        REQUIRE(error == 0 || error == -EIO);
        failed += error != 0;
    }
    return failed;
}

/* One page cannot be read, any of them: first by who writes, or first by who reads. */
static void sweep(bool read_first, int *stopped_by_write, int *stopped_by_read) {
    const char *dir = make();
    size_t pages = pages_used() + 8; /* a block more is written before */
    for (size_t page = 0; page < pages; page += harness_is_slow() ? 5 : read_first ? 3 : 1) {
        restore();
        struct ledger *book = node_open(dir);
        hash32 id;
        int failed = 0;
        CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK); /* its nonce is known then, without the store */
        make_bad(map_of(file_name), page);
        if (read_first && (failed = read_all(book))) {
            CHECK_EQ(state_of(book, "bad"), WEFT_SHARD_STOPPED);
            CHECK_EQ(node_try(book, "bad", "ann", 21, "kv add n 1", &id), -EIO);
            *stopped_by_read += 1;
        }
        int error = failed ? -EIO : node_try(book, "bad", "ann", 21, "kv add n 1", &id);
        REQUIRE(error == 0 || error == -EIO);
        enum tx_status status = TX_REFUSED;
        int look = 0; /* -EIO: it may be in a block that is on the page */
        if (!error) {
            REQUIRE_EVENTUALLY((look = ledger_tx_look(book, "bad", &id, &status)) || status != TX_PENDING);
            REQUIRE(look ? look == -EIO : status == TX_OK || status == TX_REFUSED);
            *stopped_by_write += status != TX_OK;
        }
        if (status != TX_OK) {
            CHECK_EQ(state_of(book, "bad"), WEFT_SHARD_STOPPED);
            CHECK_EQ(node_try(book, "bad", "ann", 21, "kv add n 1", &id), -EIO);
            CHECK_CONTAINS(node_reason, "stop");
        }
        if (read_all(book)) /* again, and all of it */
            CHECK_EQ(state_of(book, "bad"), WEFT_SHARD_STOPPED);
        CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
        CHECK(state_of(book, "good") != WEFT_SHARD_STOPPED);
        ledger_close(book);
        char what[200] = "";
        CHECK_EQ(ledger_verify(dir, on_finding, NULL, what), 0); /* the disk can be read now: nothing has been spoilt */
        CHECK_STR(what, "");
        book = node_open(dir);
        char text[4096];
        CHECK_EQ(node_state_try(book, "bad", "n", text), 0);
        CHECK(!strcmp(text, "3") || (status != TX_OK && !strcmp(text, "2")));
        CHECK(!strcmp(text, "2") || status == TX_OK || look);
        CHECK_EQ(node_run(book, "bad", "ann", "kv add n 1"), TX_OK);
        ledger_close(book);
    }
    printf("%zu pages: %d stopped by a write, %d by a read\n", pages, *stopped_by_write, *stopped_by_read);
}

TEST(unreadable_page_written, "K29 K30 K31", .timeout = 120) {
    int written = 0, read = 0;
    sweep(false, &written, &read);
    CHECK_GT(written, harness_is_slow() ? 0 : 5);
}

TEST(unreadable_page_read, "K29 K30 K31", .timeout = 120) {
    int written = 0, read = 0;
    sweep(true, &written, &read);
    CHECK_GT(read, 3);
}

/* The file is cut while a node uses it: so says the system, without our help. */
TEST(unreadable_cut, "K29 K30 K31", .timeout = 60) {
    const char *dir = make();
    for (size_t pages = 0; pages < pages_used() - 8; pages += harness_is_slow() ? 7 : 2) { /* the last are free */
        restore();
        struct ledger *book = node_open(dir);
        REQUIRE_EQ(truncate(file_name, (off_t)(pages * PAGE)), 0);
        CHECK_GT(read_all(book), 0);
        CHECK_EQ(state_of(book, "bad"), WEFT_SHARD_STOPPED);
        hash32 id;
        CHECK_EQ(node_try(book, "bad", "ann", 20, "kv add n 1", &id), -EIO);
        CHECK_EQ(node_run(book, "good", "ann", "kv add n 1"), TX_OK);
        ledger_close(book);
        char what[200] = "";
        CHECK_EQ(ledger_verify(dir, on_finding, NULL, what), 1);
        CHECK_CONTAINS(what, "bad 0: ");
        CHECK_CONTAINS(what, pages < 2 ? "meta page" : "ends");
    }
}

/* Many readers at once, in the middle of which the file is cut. */
static struct ledger *shared;
static atomic_bool over;
static atomic_int errors;
static void read_on(void *arg) {
    (void)arg;
    while (!atomic_load(&over))
        atomic_fetch_add(&errors, read_all(shared) != 0);
}

TEST(unreadable_while_read, "K31", .timeout = 60) {
    const char *dir = make();
    shared = node_open(dir);
    struct wefti_thread threads[4];
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(wefti_thread_start(&threads[i], read_on, NULL, "reader"), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(node_run(shared, "good", "ann", "kv add n 1"), TX_OK);
    CHECK_EQ(atomic_load(&errors), 0);
    REQUIRE_EQ(truncate(file_name, 3 * PAGE), 0);
    REQUIRE_EVENTUALLY(atomic_load(&errors) > 8);
    CHECK_EQ(state_of(shared, "bad"), WEFT_SHARD_STOPPED);
    CHECK_EQ(node_run(shared, "good", "ann", "kv add n 1"), TX_OK);
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++)
        wefti_thread_join(&threads[i]);
    ledger_close(shared);
}
