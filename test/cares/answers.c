/* answers.c - what a name server may say, or not say, and what comes of it. */
#include "server.h"

#define MS INT64_C(1000000)

struct place {
    struct server server;
    weft_cares *cares;
};

static void run_place(weft_fiber_fn fn, int ms, const char *domains) {
    struct place place;
    server_begin(&place.server);
    place.cares = server_channel(&place.server, ms, domains);
    io_run(fn, &place);
    weft_cares_free(place.cares);
    server_end(&place.server);
}

static int ask(struct place *place, const char *name, int family, weft_addr *addrs, size_t room) {
    return weft_cares_resolve(place->cares, name, "80", family, addrs, room, fixture_soon());
}

/* -- Good ones ------------------------------------------------------------------------------------------------------ */

static int good(void *arg) {
    weft_addr addrs[16];
    REQUIRE_EQ(ask(arg, "four.test", AF_INET, addrs, 16), 1);
    CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    REQUIRE_EQ(ask(arg, "four.test", 0, addrs, 16), 1);
    CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    REQUIRE_EQ(ask(arg, "six.test", AF_INET6, addrs, 16), 1);
    CHECK(addr_is(&addrs[0], "[::1]:80"));
    REQUIRE_EQ(ask(arg, "both.test", 0, addrs, 16), 2);
    CHECK(addr_is(&addrs[0], "[::1]:80") || addr_is(&addrs[1], "[::1]:80"));
    CHECK(addr_is(&addrs[0], "127.0.0.1:80") || addr_is(&addrs[1], "127.0.0.1:80"));
    REQUIRE_EQ(ask(arg, "both.test", AF_INET6, addrs, 16), 1);
    CHECK(addr_is(&addrs[0], "[::1]:80"));
    REQUIRE_EQ(ask(arg, "alias.test", AF_INET, addrs, 16), 1);
    CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    REQUIRE_EQ(ask(arg, "many.test", AF_INET, addrs, 16), 12);
    memset(&addrs[3], 7, sizeof addrs[3]);
    weft_addr untouched = addrs[3];
    REQUIRE_EQ(ask(arg, "many.test", AF_INET, addrs, 3), 3);
    CHECK(memcmp(&addrs[3], &untouched, sizeof untouched) == 0);
    return 0;
}
API_TEST(cares_good, "", .workers = {1, 2}) { run_place(good, 5000, NULL); }

static int services(void *arg) {
    struct place *place = arg;
    weft_addr addrs[2];
    unsigned asked = atomic_load(&place->server.asked);
    CHECK_EQ(weft_cares_resolve(place->cares, "127.0.0.1", "80", 0, addrs, 2, WEFT_NOW), 1); /* nobody is asked */
    CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    CHECK_EQ(weft_cares_resolve(place->cares, "::1", NULL, 0, addrs, 2, WEFT_NOW), 1);
    CHECK(addr_is(&addrs[0], "[::1]:0"));
    if (access("/etc/services", R_OK) == 0) {
        CHECK_EQ(weft_cares_resolve(place->cares, "127.0.0.1", "http", 0, addrs, 2, WEFT_NOW), 1);
        CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    }
    CHECK_EQ(weft_cares_resolve(place->cares, "127.0.0.1", "80", AF_INET6, addrs, 2, WEFT_NOW), -ENOENT);
    addrs[0].size = 99;
    CHECK_EQ(weft_cares_resolve(place->cares, "127.0.0.1", "no-such-service", 0, addrs, 2, WEFT_NOW), -EINVAL);
    CHECK_EQ(atomic_load(&place->server.asked), asked);
    CHECK_EQ(weft_cares_resolve(place->cares, "", "80", 0, addrs, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_cares_resolve(place->cares, NULL, "80", 0, addrs, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_cares_resolve(NULL, "four.test", "80", 0, addrs, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_cares_resolve(place->cares, "four.test", "80", 0, addrs, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_cares_resolve(place->cares, "four.test", "80", AF_UNIX, addrs, 2, WEFT_NEVER), -EAFNOSUPPORT);
    static char longest[2000];
    memset(longest, 'a', sizeof longest - 1);
    CHECK_EQ(ask(place, longest, 0, addrs, 2), -ENAMETOOLONG);
    longest[300] = 0; /* no name is so long */
    CHECK_EQ(ask(place, longest, 0, addrs, 2), -ENOENT);
    CHECK_EQ(addrs[0].size, 99); /* untouched */
    return 0;
}
API_TEST(cares_services, "", .workers = {1}) { run_place(services, 5000, NULL); }

/* An answer that was cut short is asked for again, by TCP. */
static int truncated(void *arg) {
    struct place *place = arg;
    weft_addr addrs[16];
    unsigned before = server_descriptors();
    REQUIRE_EQ(ask(place, "long.test", AF_INET, addrs, 16), 12);
    CHECK_EQ(atomic_load(&place->server.by_tcp), 1);
    REQUIRE_EQ(ask(place, "long.test", 0, addrs, 16), 12);
    CHECK_EQ(atomic_load(&place->server.by_tcp), 3); /* both types */
    int cut = ask(place, "cut.test", AF_INET, addrs, 16);
    CHECK(cut == -EAGAIN || cut == -EIO);
    CHECK_LE(server_descriptors(), before + 2); /* the poller's, and what the server has not closed yet */
    return 0;
}
API_TEST(cares_truncated, "", .workers = {1, 2}) { run_place(truncated, 5000, NULL); }

static int searched(void *arg) {
    weft_addr addrs[16];
    REQUIRE_EQ(ask(arg, "four", AF_INET, addrs, 16), 1); /* four.one.test, which is also the server's `four` */
    CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    CHECK_EQ(ask(arg, "nobody", AF_INET, addrs, 16), -ENOENT);
    struct place *place = arg;
    CHECK_GE(atomic_load(&place->server.asked), 4); /* four.one.test; nobody.one.test, nobody.two.test, nobody */
    return 0;
}
API_TEST(cares_searched, "", .workers = {1}) { run_place(searched, 5000, "one.test,two.test"); }

/* -- Bad ones ------------------------------------------------------------------------------------------------------- */

static int bad(void *arg) {
    weft_addr addrs[2] = {{.size = 99}};
    CHECK_EQ(ask(arg, "none.test", 0, addrs, 2), -ENOENT);
    CHECK_EQ(ask(arg, "none.test", AF_INET6, addrs, 2), -ENOENT);
    CHECK_EQ(ask(arg, "four.test", AF_INET6, addrs, 2), -ENOENT); /* no address of that family */
    CHECK_EQ(ask(arg, "fail.test", AF_INET, addrs, 2), -EAGAIN);
    CHECK_EQ(ask(arg, "refuse.test", AF_INET, addrs, 2), -EAGAIN);
    CHECK_EQ(ask(arg, "garbage.test", AF_INET, addrs, 2), -EIO);
    CHECK_EQ(ask(arg, "a..test", AF_INET, addrs, 2), -ENOENT);
    CHECK_EQ(addrs[0].size, 99);
    CHECK_EQ(ask(arg, "four.test", AF_INET, addrs, 2), 1); /* and it still works */
    return 0;
}
API_TEST(cares_bad, "", .workers = {1, 2}) { run_place(bad, 5000, NULL); }

/* Nobody answers: two rounds, and then it is known. */
static int unanswered(void *arg) {
    struct place *place = arg;
    weft_addr addrs[2];
    CHECK_EQ(ask(place, "silent.test", AF_INET, addrs, 2), -EAGAIN);
    CHECK_EQ(atomic_load(&place->server.asked), 2);
    CHECK_EQ(ask(place, "noise.test", AF_INET, addrs, 2), -EAGAIN);
    CHECK_EQ(ask(place, "four.test", AF_INET, addrs, 2), 1);
    return 0;
}
API_TEST(cares_unanswered, "", .workers = {1, 2}) { run_place(unanswered, 30, NULL); }

static int late(void *arg) {
    struct place *place = arg;
    weft_addr addrs[2];
    weft_deadline until = weft_after(20 * MS);
    CHECK_EQ(weft_cares_resolve(place->cares, "silent.test", "80", AF_INET, addrs, 2, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    CHECK_EQ(weft_cares_resolve(place->cares, "four.test", "80", AF_INET, addrs, 2, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_cares_resolve(place->cares, "four.test", "80", AF_INET, addrs, 2, weft_now()), -ETIMEDOUT);
    CHECK_EQ(ask(place, "four.test", AF_INET, addrs, 2), 1);
    return 0;
}
API_TEST(cares_late, "", .workers = {1, 2}) { run_place(late, 60000, NULL); }

/* No server is there: the port is closed. */
static int closed(void *arg) {
    weft_addr addrs[2];
    return weft_cares_resolve(arg, "four.test", "80", AF_INET, addrs, 2, fixture_soon());
}
API_TEST(cares_no_server, "", .workers = {1}) {
    struct server server;
    server_begin(&server);
    weft_cares *cares = server_channel(&server, 50, NULL);
    server_end(&server);
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(io_join(io_go(rt, closed, cares)), -EAGAIN);
    fixture_end(rt);
    weft_cares_free(cares);
}

/* -- Options ---------------------------------------------------------------------------------------------------------- */

static int create(weft_cares_options options) {
    weft_cares *untouched = (weft_cares *)(void *)&options, *cares = untouched;
    int error = weft_cares_create(&options, &cares);
    if (error)
        CHECK_EQ(cares, untouched);
    else
        weft_cares_free(cares);
    return error;
}
#define OPTIONS(...) ((weft_cares_options){.size = sizeof(weft_cares_options), __VA_ARGS__})

TEST(cares_options, "") {
    weft_cares *cares = NULL;
    REQUIRE_EQ(weft_cares_create(NULL, &cares), 0);
    weft_cares_free(cares);
    weft_cares_free(NULL);
    CHECK_EQ(weft_cares_create(NULL, NULL), -EINVAL);
    CHECK_EQ(create(OPTIONS(.servers = "127.0.0.1")), 0);
    CHECK_EQ(create(OPTIONS(.servers = "127.0.0.1:53,[::1]:5353")), 0);
    CHECK_EQ(create(OPTIONS(.servers = "")), -EINVAL);
    CHECK_EQ(create(OPTIONS(.servers = "no.address.here")), -EINVAL);
    CHECK_EQ(create(OPTIONS(.domains = "")), 0);
    CHECK_EQ(create(OPTIONS(.domains = "a.test,b.test")), 0);
    CHECK_EQ(create(OPTIONS(.domains = "a.test,,b.test")), -EINVAL);
    CHECK_EQ(create(OPTIONS(.domains = "a.test,")), -EINVAL);
    CHECK_EQ(create(OPTIONS(.domains = ",")), -EINVAL);
    CHECK_EQ(create(OPTIONS(.domains = "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a")), -EINVAL);
    CHECK_EQ(create(OPTIONS(.timeout = -1)), -EINVAL);
    CHECK_EQ(create(OPTIONS(.timeout = INT64_MAX)), -EINVAL);
    CHECK_EQ(create(OPTIONS(.tries = -1)), -EINVAL);
    CHECK_EQ(create((weft_cares_options){.size = 3}), -EINVAL);
    struct {
        weft_cares_options known;
        long more;
    } newer = {OPTIONS(.tries = 1), 0};
    newer.known.size = sizeof newer;
    CHECK_EQ(weft_cares_create(&newer.known, &cares), 0);
    weft_cares_free(cares);
    newer.more = 1;
    CHECK_EQ(weft_cares_create(&newer.known, &cares), -E2BIG);
    char many[2000] = "";
    for (int i = 1; i <= 31; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s127.0.0.%d", i > 1 ? "," : "", i);
    CHECK_EQ(create(OPTIONS(.servers = many)), -EINVAL);
}

/* What is in /etc/hosts is found without a server; or is not looked for. */
static int hosts(void *arg) {
    struct server *server = arg;
    weft_cares_options options = OPTIONS(.servers = server->address, .domains = "");
    weft_cares *cares;
    weft_addr addrs[16];
    REQUIRE_EQ(weft_cares_create(&options, &cares), 0);
    int count = weft_cares_resolve(cares, "localhost", "7", 0, addrs, 16, WEFT_NOW);
    REQUIRE_GT(count, 0);
    for (int i = 0; i < count; i++)
        CHECK(addr_is(&addrs[i], "127.0.0.1:7") || addr_is(&addrs[i], "[::1]:7"));
    CHECK_EQ(atomic_load(&server->asked), 0);
    weft_cares_free(cares);
    return 0;
}
API_TEST(cares_hosts, "", .workers = {1}) {
    struct server server;
    server_begin(&server);
    io_run(hosts, &server);
    server_end(&server);
}
