/* faults.c - lookups without memory, ours and c-ares's, and without descriptors. */
#include <ares.h>

#include "server.h"

/* Allocations until one fails; negative: none does.  Of all threads but those that are spared. */
static atomic_int left = -1;
static atomic_bool reached;
static _Thread_local bool counts;

static bool fails(void) {
    if (!counts || atomic_load(&left) < 0 || atomic_fetch_sub(&left, 1) > 0)
        return false;
    atomic_store(&reached, true);
    return true;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
static void *cares_malloc(size_t size) { return fails() ? NULL : malloc(size); }
static void *cares_realloc(void *old, size_t size) { return fails() ? NULL : realloc(old, size); }

static void one_run(const char *address) {
    weft_cares_options options = WEFT_CARES_OPTIONS_INIT;
    weft_cares *cares;
    weft_addr addrs[16];
    options.servers = address;
    options.domains = "one.test";
    options.timeout = INT64_C(20000000);
    options.tries = 1;
    options.no_hosts = true;
    int error = weft_cares_create(&options, &cares);
    if (error) {
        CHECK_EQ(error, -ENOMEM);
        return;
    }
    static const char *const names[] = {"both.test", "long.test", "none"};
    for (int i = 0; i < 3; i++) {
        int count = weft_cares_resolve(cares, names[i], "80", 0, addrs, 16, fixture_soon());
        int good = i == 0 ? 2 : i == 1 ? 12 : -ENOENT;
        CHECK(count == good || count == -EAGAIN || atomic_load(&reached)); /* the server's thread may be late */
        CHECK(count > 0 || count == -ENOMEM || count == -EAGAIN || count == -EIO || count == -ENOENT);
    }
    weft_cares_free(cares);
}

/* Every allocation fails once; a plain thread, so that all of them are ours or c-ares's. */
TEST(cares_without_memory, "") {
    struct server server;
    REQUIRE_EQ(ares_library_init_mem(ARES_LIB_INIT_ALL, cares_malloc, free, cares_realloc), 0);
    server_begin(&server);
    counts = true;
    int nth = 0;
    for (;; nth++) {
        REQUIRE_LT(nth, 2000);
        atomic_store(&reached, false);
        atomic_store(&left, nth);
        one_run(server.address);
        atomic_store(&left, -1);
        if (!atomic_load(&reached))
            break;
    }
    counts = false;
    printf("%d points\n", nth);
    CHECK_GT(nth, 20);
    server_end(&server);
}

/* No descriptor for a socket, or for waiting: an error, and when there are some again, answers. */
static int without_descriptors(void *cares) {
    struct rlimit was, low;
    weft_addr addrs[2];
    REQUIRE_EQ(weft_cares_resolve(cares, "four.test", "80", AF_INET, addrs, 2, fixture_soon()),
               1); /* the poller is there */
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    int lowest = dup(0);
    REQUIRE_GE(lowest, 0);
    close(lowest);
    for (rlim_t more = 0; more < 2; more++) {
        low = was;
        low.rlim_cur = (rlim_t)lowest + more;
        REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
        int found = weft_cares_resolve(cares, "four.test", "80", AF_INET, addrs, 2, fixture_soon());
        REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
        CHECK(found == -EAGAIN || found == -EMFILE || (more && found == 1)); /* the answer was there at once */
    }
    CHECK_EQ(weft_cares_resolve(cares, "four.test", "80", AF_INET, addrs, 2, fixture_soon()), 1);
    return 0;
}

API_TEST(cares_without_descriptors, "", .workers = {1}) {
    struct server server;
    server_begin(&server);
    weft_cares *cares = server_channel(&server, 5000, NULL);
    io_run(without_descriptors, cares);
    weft_cares_free(cares);
    server_end(&server);
}
