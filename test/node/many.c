/* many.c - more shards than there are descriptors, and what each costs. */
#include <dirent.h>
#include <sys/resource.h>

#include "keep.h"
#include "node.h"

enum { SHARDS = 120, DESCRIPTORS = 100, OTHERS = 40 };

static unsigned descriptors(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    REQUIRE(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 3; /* . and .. and the folder's own */
}

static uint64_t anonymous_kb(void) {
    char line[256];
    uint64_t found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        sscanf(line, "RssAnon: %lu", &found);
    fclose(file);
    return found;
}

static void add_one_to_each(struct ledger *book) {
    hash32 ids[SHARDS];
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", i);
        REQUIRE_EQ(node_try(book, name, "ann", ledger_nonce(book, name, "ann") + 1, "kv add n 1", &ids[i]), 0);
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", i);
        CHECK_EQ(node_wait(book, name, &ids[i]), TX_OK);
    }
}

/* Environments are opened when they are needed, and closed when others are: all shards work within the limit. */
TEST(many_shards_few_descriptors, "", .timeout = 120) {
    const char *dir = node_dir();
    struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct ledger_config config = {.dir = dir, .workers = 4, .other_descriptors = OTHERS};
    struct ledger *book = node_open_with(config);
    uint64_t before = anonymous_kb();
    for (int round = 1; round <= 3; round++)
        add_one_to_each(book);
    CHECK_LE(keep_lmdb_open_count(), (DESCRIPTORS - OTHERS) / 3);
    CHECK_LE(descriptors(), DESCRIPTORS - OTHERS + 20);
    if (!harness_is_slow()) /* sanitizers have memory of their own */
        CHECK_LT(anonymous_kb() - before, SHARDS * 512);
    ledger_close(book);
    CHECK_EQ(keep_lmdb_open_count(), 0);
    book = node_open_with(config);
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", i);
        CHECK_STR(node_state(book, name, "n"), "3");
    }
    ledger_close(book);
    CHECK_EQ(keep_lmdb_open_count(), 0);
}
