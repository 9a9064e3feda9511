/* dns.c - names, and connecting to the first address that answers. */
#define _GNU_SOURCE
#include <netinet/in.h>

#include "io_fixture.h"

#define MS INT64_C(1000000)

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static bool is(const weft_addr *addr, const char *expected) {
    char text[80];
    weft_addr_format(addr, text, sizeof text);
    return strcmp(text, expected) == 0;
}

/* -- Names -------------------------------------------------------------------------------------------------------- */

static int names(void *unused) {
    (void)unused;
    weft_addr addrs[16], untouched;
    memset(&untouched, 7, sizeof untouched);
    REQUIRE_EQ(weft_resolve("127.0.0.1", "80", 0, addrs, 16, WEFT_NOW), 1); /* a number never waits */
    CHECK(is(&addrs[0], "127.0.0.1:80"));
    REQUIRE_EQ(weft_resolve("::1", "80", 0, addrs, 16, WEFT_NOW), 1);
    CHECK(is(&addrs[0], "[::1]:80"));
    REQUIRE_EQ(weft_resolve("127.0.0.1", NULL, AF_INET, addrs, 1, WEFT_NOW), 1);
    CHECK(is(&addrs[0], "127.0.0.1:0"));
    CHECK_EQ(weft_resolve("127.0.0.1", "65536", 0, addrs, 16, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_resolve("127.0.0.1", "99999999999999999999", 0, addrs, 16, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_resolve("127.0.0.1", "1", AF_INET6, addrs, 16, WEFT_NOW), -ENOENT);
    CHECK_EQ(weft_resolve("::1", "1", AF_INET, addrs, 16, WEFT_NOW), -ENOENT);
    int count = weft_resolve("localhost", "7", 0, addrs, 16, fixture_soon());
    REQUIRE_GT(count, 0);
    for (int i = 0; i < count; i++)
        CHECK(is(&addrs[i], "127.0.0.1:7") || is(&addrs[i], "[::1]:7"));
    REQUIRE_EQ(weft_resolve("localhost", "7", AF_INET, addrs, 1, fixture_soon()), 1);
    CHECK(is(&addrs[0], "127.0.0.1:7"));
    addrs[0] = untouched;
    CHECK_EQ(weft_resolve("127.0.0.1", "no-such-service", 0, addrs, 16, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_resolve("", "7", 0, addrs, 16, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_resolve(NULL, "7", 0, addrs, 16, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_resolve("localhost", "7", 0, addrs, 0, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_resolve("localhost", "7", AF_UNIX, addrs, 16, fixture_soon()), -EAFNOSUPPORT);
    char *longest = malloc(2000);
    memset(longest, 'a', 1999);
    longest[1999] = 0;
    CHECK_EQ(weft_resolve(longest, "7", 0, addrs, 16, fixture_soon()), -ENAMETOOLONG);
    CHECK_EQ(weft_resolve("localhost", longest, 0, addrs, 16, fixture_soon()), -ENAMETOOLONG);
    free(longest);
    CHECK_EQ(weft_resolve("localhost", "7", 0, addrs, 16, WEFT_NOW), -ETIMEDOUT); /* a name does wait */
    if (!fixture_on("sim")) { /* whose time stands still while the system is asked */
        int found = weft_resolve("no-such-name.invalid", "7", 0, addrs, 16, weft_after(500 * MS));
        CHECK(found == -ENOENT || found == -EAGAIN || found == -EIO || found == -ETIMEDOUT);
    }
    CHECK(memcmp(&addrs[0], &untouched, sizeof untouched) == 0);
    if (weft_task_self()) {
        weft_task_cancel(weft_task_self());
        CHECK_EQ(weft_resolve("localhost", "7", 0, addrs, 16, WEFT_NEVER), -ECANCELED);
    }
    return 0;
}

API_TEST(dns_names, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(io_go(rt, names, NULL)); /* it has cancelled itself */
    fixture_end(rt);
}
TEST(dns_names_thread, "") { CHECK_EQ(names(NULL), 0); }

static weft_poll in_a_poll(weft_task *self, void *unused) {
    (void)unused;
    weft_addr addrs[2];
    weft_io *io;
    CHECK_EQ(weft_resolve("localhost", "7", 0, addrs, 2, WEFT_NEVER), -EINVAL);
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 1, &addrs[0]), 0);
    addrs[1] = addrs[0];
    CHECK_EQ(weft_connect_any(addrs, 2, &io, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(dns_not_in_a_poll, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, in_a_poll, NULL));
    fixture_end(rt);
}

/* -- Addresses that answer, refuse, and say nothing ------------------------------------------------------------------ */

static weft_io *listen_at(const char *host, weft_addr *addr) {
    weft_io *listener;
    if (weft_tcp_listen(host, 0, NULL, &listener))
        return NULL;
    REQUIRE_EQ(weft_local_addr(listener, addr), 0);
    return listener;
}

static void refusing(const char *host, weft_addr *addr) {
    weft_io *listener = listen_at(host, addr);
    weft_close(listener);
}

/* A listener whose queue is full: what comes to it is dropped. */
struct hole {
    weft_io *listener, *filler[8];
    weft_addr addr;
};

static void hole_begin(struct hole *hole) {
    weft_listen_options options = WEFT_LISTEN_INIT;
    options.backlog = 1;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, &options, &hole->listener), 0);
    REQUIRE_EQ(weft_local_addr(hole->listener, &hole->addr), 0);
    for (int i = 0; i < 8; i++) {
        hole->filler[i] = NULL;
        (void)!weft_connect(&hole->addr, &hole->filler[i], weft_after(i < 2 ? 500 * MS : 20 * MS));
    }
    CHECK(!hole->filler[7]); /* it is full */
}

static void hole_end(struct hole *hole) {
    for (int i = 0; i < 8; i++)
        weft_close(hole->filler[i]);
    weft_close(hole->listener);
}

static int race(void *unused) {
    (void)unused;
    struct hole hole;
    weft_addr good, refused[3], addrs[16];
    weft_io *io = NULL, *peer;
    weft_io *listener = listen_at("127.0.0.1", &good);
    for (int i = 0; i < 3; i++)
        refusing("127.0.0.1", &refused[i]);
    hole_begin(&hole);
    CHECK_EQ(weft_accept(listener, &peer, NULL, WEFT_NOW), -ETIMEDOUT); /* makes its reserve descriptor */
    unsigned before = descriptors();

    CHECK_EQ(weft_connect_any(addrs, 0, &io, WEFT_NEVER), -EINVAL);
    /* One after the other fails at once: no waiting in between. */
    addrs[0] = refused[0], addrs[1] = refused[1], addrs[2] = refused[2], addrs[3] = good;
    int64_t began = weft_now();
    REQUIRE_EQ(weft_connect_any(addrs, 4, &io, fixture_soon()), 0);
    CHECK_LT(weft_now() - began, harness_is_slow() ? 2000 * MS : 240 * MS);
    REQUIRE_EQ(weft_accept(listener, &peer, NULL, fixture_soon()), 0);
    CHECK_EQ(weft_write(io, "x", 1, fixture_soon()), 1);
    weft_close(io), weft_close(peer);
    io = NULL;
    CHECK_EQ(weft_connect_any(addrs, 3, &io, fixture_soon()), -ECONNREFUSED);
    CHECK(!io);

    /* The first says nothing: after a quarter of a second the second is tried, and the first is closed. */
    addrs[0] = hole.addr, addrs[1] = good;
    began = weft_now();
    REQUIRE_EQ(weft_connect_any(addrs, 2, &io, fixture_soon()), 0);
    CHECK_GE(weft_now() - began, 250 * MS);
    REQUIRE_EQ(weft_accept(listener, &peer, NULL, fixture_soon()), 0);
    weft_close(io), weft_close(peer);
    /* It says nothing, and the other refuses: the wait goes on until the deadline. */
    addrs[0] = refused[0], addrs[1] = hole.addr;
    weft_deadline until = weft_after(30 * MS);
    CHECK_EQ(weft_connect_any(addrs, 2, &io, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    until = weft_after(300 * MS); /* in between two starts */
    addrs[0] = addrs[1] = addrs[2] = hole.addr;
    CHECK_EQ(weft_connect_any(addrs, 3, &io, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    CHECK_EQ(descriptors(), before); /* all losers are closed */
    hole_end(&hole);
    weft_close(listener);
    return 0;
}

static int watch_first(void *fn) { /* the worker's poller is there before descriptors are counted */
    weft_io *a, *b;
    char text[1];
    REQUIRE_EQ(weft_pipe(&a, &b), 0);
    CHECK_EQ(weft_read(a, text, 1, weft_after(1000)), -ETIMEDOUT);
    weft_close(a), weft_close(b);
    return ((weft_fiber_fn)fn)(NULL);
}

API_TEST(dns_race, "", .workers = {1}) { io_run(watch_first, race); }
TEST(dns_race_thread, "") { CHECK_EQ(watch_first(race), 0); }

static int connect_to_hole(void *hole) {
    weft_addr addrs[2] = {((struct hole *)hole)->addr, ((struct hole *)hole)->addr};
    weft_io *io;
    return weft_connect_any(addrs, 2, &io, WEFT_NEVER);
}

static int cancelled(void *unused) {
    (void)unused;
    struct hole hole;
    hole_begin(&hole);
    weft_task *task = io_go(NULL, connect_to_hole, &hole);
    io_until_it_waits(task);
    unsigned before = descriptors();
    weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    CHECK_LT(descriptors(), before);
    hole_end(&hole);
    return 0;
}

API_TEST(dns_race_cancelled, "", .workers = {1}) { io_run(cancelled, NULL); }

/* By name, when only one of its addresses is listened at. */
static int by_name(void *unused) {
    (void)unused;
    static const char *const hosts[] = {"127.0.0.1", "::1"};
    weft_addr addrs[16], addr;
    int count = weft_resolve("localhost", "1", 0, addrs, 16, fixture_soon());
    REQUIRE_GT(count, 0);
    for (int i = 0; i < 2; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, i ? "[::1]:1" : "127.0.0.1:1");
        bool known = false;
        for (int k = 0; k < count; k++)
            known |= is(&addrs[k], expected);
        weft_io *listener = known ? listen_at(hosts[i], &addr) : NULL, *io, *peer;
        if (!listener)
            continue; /* a machine without it */
        struct sockaddr_in v4; /* the port is at one place in both */
        memcpy(&v4, addr.storage, sizeof v4);
        REQUIRE_EQ(weft_tcp_connect("localhost", ntohs(v4.sin_port), &io, fixture_soon()), 0);
        REQUIRE_EQ(weft_accept(listener, &peer, NULL, fixture_soon()), 0);
        weft_close(io), weft_close(peer), weft_close(listener);
    }
    weft_io *io;
    CHECK_EQ(weft_tcp_connect("localhost", -1, &io, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_tcp_connect(NULL, 1, &io, WEFT_NEVER), -EINVAL);
    return 0;
}

API_TEST(dns_connect_by_name, "", .workers = {1, 2}) { io_run(by_name, NULL); }
