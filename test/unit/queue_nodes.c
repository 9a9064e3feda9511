/* queue_nodes.c - small blocks that travel between caches: each is whole, its own, and comes back. */
#include "queue/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define MANY 5000

static void fill(unsigned char *node, unsigned value) { memset(node, (int)(value & 0xff), WEFTI_NODE_SIZE); }
static bool is_whole(const unsigned char *node, unsigned value) {
    for (unsigned i = 0; i < WEFTI_NODE_SIZE; i++)
        if (node[i] != (value & 0xff))
            return false;
    return true;
}

static unsigned held(const struct wefti_nodes_cache *cache) { return cache->loaded.count + cache->spare.count; }

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

TEST(nodes_are_apart, "W29") {
    struct wefti_nodes nodes = {0};
    struct wefti_nodes_cache cache = {0};
    static unsigned char *taken[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        taken[i] = wefti_nodes_take(&nodes, i % 2 ? &cache : NULL);
        REQUIRE(taken[i]);
        REQUIRE_EQ((uintptr_t)taken[i] % WEFTI_NODE_SIZE, 0);
        fill(taken[i], i);
    }
    for (unsigned i = 0; i < MANY; i++)
        REQUIRE(is_whole(taken[i], i));
    for (unsigned i = 0; i < MANY; i++)
        wefti_nodes_give(&nodes, i % 3 ? &cache : NULL, taken[i]);
    CHECK_EQ(nodes.out, held(&cache));
    /* They are used again before others are, but for those that the cache had been given along with them. */
    unsigned others = 0;
    static unsigned char *before[MANY];
    memcpy(before, taken, sizeof taken);
    qsort(before, MANY, sizeof *before, by_address);
    for (unsigned i = 0; i < MANY; i++) {
        REQUIRE(taken[i] = wefti_nodes_take(&nodes, &cache));
        others += !bsearch(&taken[i], before, MANY, sizeof *before, by_address);
    }
    CHECK_LE(others, 2 * WEFTI_NODES_MAGAZINE);
    for (unsigned i = 0; i < MANY; i++)
        wefti_nodes_give(&nodes, &cache, taken[i]);
    CHECK_LE(cache.loaded.count, WEFTI_NODES_MAGAZINE);
    CHECK_LE(cache.spare.count, WEFTI_NODES_MAGAZINE);
    wefti_nodes_fini(&nodes);
}

/* One cache only gives, another only takes: the depot passes them on, in magazines. */
TEST(nodes_pass_from_cache_to_cache, "W29") {
    struct wefti_nodes nodes = {0};
    struct wefti_nodes_cache from = {0}, to = {0};
    for (unsigned i = 0; i < MANY; i++) {
        void *node = wefti_nodes_take(&nodes, &from);
        REQUIRE(node);
        wefti_nodes_give(&nodes, &to, node);
    }
    CHECK_EQ(nodes.out, held(&from) + held(&to));
    CHECK_LE(nodes.out, 4 * WEFTI_NODES_MAGAZINE);
    wefti_nodes_fini(&nodes);
}

/* Chains of every length come back whole, whatever room there is: none is lost, and none is there twice. */
TEST(nodes_come_back_in_chains, "W29") {
    struct wefti_nodes nodes = {0};
    struct wefti_nodes_cache cache = {0};
    enum { MOST = 2 * WEFTI_NODES_MAGAZINE + 5 };
    static unsigned char *taken[MOST];
    for (unsigned round = 0; round < 4 * MOST; round++) {
        unsigned count = 1 + round % MOST;
        for (unsigned i = 0; i < count; i++) {
            REQUIRE(taken[i] = wefti_nodes_take(&nodes, &cache));
            fill(taken[i], i);
        }
        for (unsigned i = 0; i < count; i++)
            REQUIRE(is_whole(taken[i], i));
        struct wefti_chain chain = {NULL, NULL, 0};
        for (unsigned i = 0; i < count; i++)
            wefti_chain_append(&chain, (struct wefti_link *)(void *)taken[i]);
        bool fits = cache.loaded.count + count <= WEFTI_NODES_MAGAZINE;
        REQUIRE_EQ(wefti_nodes_give_chain(&cache, chain), fits);
        for (struct wefti_link *node; !fits && (node = wefti_chain_take(&chain));)
            wefti_nodes_give(&nodes, &cache, node);
        REQUIRE_EQ(nodes.out, held(&cache));
        REQUIRE_LE(cache.loaded.count, WEFTI_NODES_MAGAZINE);
        REQUIRE(cache.spare.count == 0 || cache.spare.count == WEFTI_NODES_MAGAZINE);
    }
    wefti_nodes_fini(&nodes);
}

/* However they came back, the depot gives them in the order of their addresses. */
TEST(nodes_are_put_in_order, "W29") {
    struct wefti_nodes nodes = {0};
    enum { COUNT = 3 * WEFTI_NODES_CHUNK };
    static char *taken[COUNT];
    uint64_t random = harness_seed();
    for (unsigned i = 0; i < COUNT; i++)
        REQUIRE(taken[i] = wefti_nodes_take(&nodes, NULL));
    for (unsigned i = COUNT - 1; i > 0; i--) {
        unsigned other = (unsigned)(harness_random(&random) % (i + 1));
        char *was = taken[i];
        taken[i] = taken[other];
        taken[other] = was;
    }
    for (unsigned i = 0; i < COUNT; i++)
        wefti_nodes_give(&nodes, NULL, taken[i]);
    CHECK_EQ(nodes.out, 0);
    struct wefti_nodes_cache cache = {0};
    unsigned far = 0; /* from one chunk to the next, and over a chunk's own map of bits */
    for (unsigned i = 0; i < COUNT; i++) {
        REQUIRE(taken[i] = wefti_nodes_take(&nodes, &cache));
        far += i && taken[i] != taken[i - 1] + WEFTI_NODE_SIZE;
    }
    CHECK_LE(far, 4);
    for (unsigned i = 0; i < COUNT; i++)
        wefti_nodes_give(&nodes, &cache, taken[i]);
    wefti_nodes_fini(&nodes);
}

TEST(nodes_at_the_edge_of_a_magazine, "W29") {
    struct wefti_nodes nodes = {0};
    struct wefti_nodes_cache cache = {0};
    void *node[2 * WEFTI_NODES_MAGAZINE + 1];
    for (unsigned i = 0; i < 2 * WEFTI_NODES_MAGAZINE + 1; i++)
        node[i] = wefti_nodes_take(&nodes, &cache);
    while (cache.loaded.count)
        wefti_nodes_give(&nodes, NULL, wefti_nodes_take(&nodes, &cache));
    for (unsigned i = 0; i < 2 * WEFTI_NODES_MAGAZINE; i++)
        wefti_nodes_give(&nodes, &cache, node[i]);
    CHECK_EQ(cache.loaded.count, WEFTI_NODES_MAGAZINE);
    CHECK_EQ(cache.spare.count, WEFTI_NODES_MAGAZINE);
    unsigned before = nodes.out;
    wefti_nodes_give(&nodes, &cache, node[2 * WEFTI_NODES_MAGAZINE]); /* one whole magazine goes */
    CHECK_EQ(nodes.out, before - WEFTI_NODES_MAGAZINE);
    CHECK_EQ(cache.loaded.count, 1);
    CHECK_EQ(cache.spare.count, WEFTI_NODES_MAGAZINE);
    for (unsigned i = 0; i < WEFTI_NODES_MAGAZINE + 1; i++) /* without the depot */
        REQUIRE(wefti_nodes_take(&nodes, &cache));
    CHECK_EQ(nodes.out, before - WEFTI_NODES_MAGAZINE);
    CHECK_EQ(cache.loaded.count + cache.spare.count, 0);
    wefti_nodes_fini(&nodes);
}

TEST(nodes_without_memory, "W29") {
    struct wefti_nodes nodes = {0};
    struct wefti_nodes_cache cache = {0};
    wefti_fault_set(0, true);
    CHECK(!wefti_nodes_take(&nodes, &cache));
    CHECK(!wefti_nodes_take(&nodes, NULL));
    wefti_fault_set(-1, false);
    CHECK(wefti_nodes_take(&nodes, &cache) != NULL);
    wefti_nodes_fini(&nodes);
}

/* Threads with caches of their own hand nodes to each other. */
#define THREADS 4
#define ROUNDS 20000
static struct wefti_nodes shared;
static _Atomic(unsigned char *) slot[THREADS];

static void exchange(unsigned index, void *arg) {
    struct wefti_nodes_cache own = {0};
    struct wefti_nodes_cache *cache = index ? &own : NULL; /* one is no worker */
    (void)arg;
    unsigned rounds = harness_is_slow() ? ROUNDS / 10 : ROUNDS;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned char *node = wefti_nodes_take(&shared, cache);
        REQUIRE(node);
        unsigned value = index * 50 + i % 50;
        fill(node, value);
        node = xchg_acq_rel(&slot[(index + i) % THREADS], node); /* what somebody left there */
        if (!node)
            continue;
        unsigned first = *node;
        REQUIRE(is_whole(node, first));
        wefti_nodes_give(&shared, cache, node);
    }
    if (cache && cache->loaded.count)
        wefti_nodes_drain(&shared, &cache->loaded);
    if (cache && cache->spare.count)
        wefti_nodes_drain(&shared, &cache->spare);
}

TEST(nodes_many_threads, "W29") {
    harness_threads(THREADS, exchange, NULL);
    unsigned left = 0;
    for (int i = 0; i < THREADS; i++)
        left += load_own(&slot[i]) != NULL;
    CHECK_EQ(shared.out, left);
    wefti_nodes_fini(&shared);
}
