/* walk.c - a damaged page stops its shard, and not the node. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>

#include "bytes.h"
#include "node.h"

enum { PAGE = 4096 };

/* A child opens the store, writes to both shards, reads from both, and ends. */
static void use_both(const char *dir) {
    struct ledger *book = NULL;
    char why[256];
    if (ledger_open(&(struct ledger_config){.dir = dir, .workers = 2}, &book, why, sizeof why))
        _exit(1);
    hash32 id;
    int error = node_try(book, "a", "ann", ledger_nonce(book, "a", "ann") + 1, "kv set zz zz", &id);
    if (!error)
        node_wait(book, "a", &id);
    for (int i = 0; i < 30; i++) {
        char key[16], value[4096];
        snprintf(key, sizeof key, "k%d", i);
        node_state_try(book, "a", key, value);
    }
    if (node_run(book, "b", "ann", "kv add n 1") != TX_OK || strcmp(node_state(book, "b", "n"), "2"))
        _exit(2);
    ledger_close(book);
    _exit(0);
}

static void copy(const char *from, const char *to, const unsigned char *data, size_t size) {
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s", to, from, to);
    REQUIRE_EQ(system(command), 0);
    snprintf(command, sizeof command, "%s/shards/a/data.mdb", to);
    int fd = open(command, O_WRONLY);
    REQUIRE(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    close(fd);
}

/* Each page but the metas, in several ways: its bounds, its kind, offsets of nodes, all of it. */
TEST(walk_damaged_pages, "K31", .timeout = 300) {
    char good[64], bad[64], path[128];
    size_t size;
    snprintf(good, sizeof good, "%s/good", node_dir());
    snprintf(bad, sizeof bad, "%s/bad", node_dir());
    struct ledger *book = node_open(good);
    for (int i = 0; i < 30; i++) {
        char words[2100];
        int length = snprintf(words, sizeof words, "kv set k%d ", i);
        memset(words + length, 'v', 1000);
        words[length + 1000] = 0;
        REQUIRE_EQ(node_run(book, "a", "ann", words), TX_OK);
    }
    REQUIRE_EQ(node_run(book, "b", "ann", "kv add n 1"), TX_OK);
    ledger_close(book);
    snprintf(path, sizeof path, "%s/shards/a/data.mdb", good);
    unsigned char *data = node_bytes(path, &size);
    uint64_t random = harness_seed();
    unsigned step = harness_is_slow() ? 9 : 3;
    for (size_t page = 2; page < size / PAGE && page < 80; page += step)
        for (int way = 0; way < 4; way++) {
            unsigned char *at = data + page * PAGE, before[PAGE];
            memcpy(before, at, PAGE);
            for (size_t i = 0; i < PAGE; i++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
                if (way == 0 ? i >= 12 && i < 16 : way == 1 ? i == 10 : way == 2 ? i >= 16 && i < 32 : true)
                    at[i] = (unsigned char)(random >> 56);
            }
            copy(good, bad, data, size);
            fflush(stdout);
            pid_t child = fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                int null = open("/dev/null", O_WRONLY);
                dup2(null, 2);
                use_both(bad);
            }
            int status = 0;
            REQUIRE_EQ(waitpid(child, &status, 0), child);
            if (status)
                printf("page %zu, way %d: status %x\n", page, way, (unsigned)status);
            CHECK_EQ(status, 0);
            memcpy(at, before, PAGE);
        }
    free(data);
}
