/* names.c - several certificates of one server, chosen by the client's word (SNI), and read again while it runs. */
#include "tls_fixture.h"

/* A handshake with that host: the name in the certificate, or a negative error. */
static int meet(weft_tls *client, weft_tls *server, const char *host, char *name, size_t room, bool *resumed) {
    struct tls_pair pair = tls_pair(client, server, host);
    int error, other;
    char byte;
    tls_shake_both(&pair, &error, &other);
    if (!error) {
        CHECK_GT(weft_tls_peer_name(pair.client, name, room), 0);
        if (resumed)
            *resumed = weft_tls_is_resumed(pair.client);
        CHECK_EQ(weft_write(pair.server, "x", 1, fixture_soon()), 1);
        CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1); /* and the session's ticket before it */
        weft_close(pair.client);
    }
    weft_close(pair.server);
    return error;
}

static int by_name(void *unused) {
    (void)unused;
    static const struct {
        const char *host, *expected; /* NULL: the client refuses what it gets */
    } cases[] = {{"localhost", "CN = localhost"},
                 {"elsewhere.example", "CN = elsewhere.example"},
                 {"ELSEWHERE.example", "CN = elsewhere.example"},
                 {"a.wild.example", "CN = wild.example"},
                 {"wild.example", "CN = wild.example"},
                 {"a.b.wild.example", NULL},
                 {"nobody.example", NULL},
                 {"127.0.0.1", "CN = localhost"}};
    for (int newer = 0; newer < 2; newer++) {
        weft_tls *server = TLS_SERVER(.tls13_only = newer, .no_resume = true), *client = TLS_CLIENT(.no_resume = true);
        CHECK_EQ(weft_tls_add(server, tls_file("other.pem"), NULL), 0);
        CHECK_EQ(weft_tls_add(server, tls_file("wild.pem"), tls_file("wild.key")), 0);
        CHECK_EQ(weft_tls_add(server, tls_file("expired.pem"), NULL), 0); /* localhost: never chosen */
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char name[80] = "";
            int error = meet(client, server, cases[i].host, name, sizeof name, NULL);
            CHECK_EQ(error, cases[i].expected ? 0 : -EKEYREJECTED);
            CHECK_STR(name, cases[i].expected ? cases[i].expected : "");
        }
        weft_tls_free(server), weft_tls_free(client);
    }
    return 0;
}
API_TEST(tls_by_name, "", .workers = {1}) { io_run(by_name, NULL); }

/* All else is the server's, whichever certificate it shows. */
static int same_settings(void *unused) {
    (void)unused;
    char name[80], protocol[16];
    weft_tls *server =
        TLS_SERVER(.client_certs = true, .ca_file = tls_file("ca.pem"), .alpn = "http/1.1", .tls13_only = true);
    weft_tls *nobody = TLS_CLIENT(.alpn = "http/1.1"),
             *user = TLS_CLIENT(.cert_file = tls_file("user.pem"), .alpn = "http/1.1");
    CHECK_EQ(weft_tls_add(server, tls_file("other.pem"), NULL), 0);
    struct tls_pair pair = tls_pair(nobody, server, "elsewhere.example");
    int mine, theirs;
    tls_shake_both(&pair, &mine, &theirs);
    CHECK_EQ(theirs, -EKEYREJECTED);
    if (!mine) /* which learns of it later */
        weft_close(pair.client);
    weft_close(pair.server);
    pair = tls_pair(user, server, "elsewhere.example");
    tls_shake_both(&pair, &mine, &theirs);
    CHECK_EQ(mine, 0);
    CHECK_EQ(theirs, 0);
    weft_tls_peer_name(pair.server, name, sizeof name);
    CHECK_STR(name, "CN = someone");
    weft_tls_protocol(pair.server, protocol, sizeof protocol);
    CHECK_STR(protocol, "http/1.1");
    weft_close(pair.client), weft_close(pair.server);
    weft_tls_free(server), weft_tls_free(nobody), weft_tls_free(user);
    return 0;
}
API_TEST(tls_by_name_same_settings, "", .workers = {1}) { io_run(same_settings, NULL); }

TEST(tls_add_refused, "") {
    weft_tls *server = TLS_SERVER(), *client = TLS_CLIENT();
    CHECK_EQ(weft_tls_add(NULL, tls_file("other.pem"), NULL), -EINVAL);
    CHECK_EQ(weft_tls_add(client, tls_file("other.pem"), NULL), -EINVAL);
    CHECK_EQ(weft_tls_add(server, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_tls_add(server, tls_file("nothing.pem"), NULL), -ENOENT);
    CHECK_EQ(weft_tls_add(server, tls_file("garbage.pem"), NULL), -EBADMSG);
    CHECK_EQ(weft_tls_add(server, tls_file("other.pem"), tls_file("good.key")), -EINVAL);
    CHECK_EQ(weft_tls_reload(NULL), -EINVAL);
    CHECK_EQ(weft_tls_reload(client), 0);
    weft_tls_free(server), weft_tls_free(client);
}

/* -- Again ---------------------------------------------------------------------------------------------------------- */

/* live.pem, and one to add, of this process; as that one is. */
static void put(const char *from, const char *to) {
    char command[300];
    snprintf(command, sizeof command, "cp '%s' '%s.%d'", tls_file(from), tls_file(to), (int)getpid());
    REQUIRE_EQ(system(command), 0);
}
static const char *live(const char *name) {
    static char path[2][100];
    static int next;
    char *at = path[next++ % 2];
    snprintf(at, sizeof path[0], "%s.%d", tls_file(name), (int)getpid());
    return at;
}

static int reloaded(void *unused) {
    (void)unused;
    char name[80];
    bool resumed;
    put("good.pem", "live"), put("other.pem", "more");
    weft_tls *server = tls_make(true, TLS_OPTIONS(.cert_file = live("live"))), *client = TLS_CLIENT();
    CHECK_EQ(weft_tls_add(server, live("more"), NULL), 0);
    CHECK_EQ(meet(client, server, "localhost", name, sizeof name, &resumed), 0);
    CHECK_STR(name, "CN = localhost");
    CHECK(!resumed);
    struct tls_pair open = tls_pair(client, server, "elsewhere.example");
    int mine, theirs;
    tls_shake_both(&open, &mine, &theirs);
    CHECK(mine == 0 && theirs == 0);

    put("renewed.pem", "live"), put("wild.pem", "more");
    weft_tls *careful = TLS_CLIENT(.no_resume = true); /* one that looks at certificates every time */
    CHECK_EQ(meet(careful, server, "localhost", name, sizeof name, NULL), 0);
    CHECK_STR(name, "CN = localhost"); /* not by itself */
    CHECK_EQ(weft_tls_reload(server), 0);
    CHECK_EQ(meet(careful, server, "localhost", name, sizeof name, NULL), 0);
    CHECK_STR(name, "CN = renewed.example");
    CHECK_EQ(meet(careful, server, "a.wild.example", name, sizeof name, NULL), 0);
    CHECK_STR(name, "CN = wild.example");
    CHECK_EQ(meet(careful, server, "elsewhere.example", name, sizeof name, NULL), -EKEYREJECTED);
    CHECK_EQ(meet(client, server, "localhost", name, sizeof name, &resumed), 0);
    CHECK(resumed); /* the session is from before */

    char byte; /* who was connected still is */
    CHECK_EQ(weft_write(open.client, "x", 1, fixture_soon()), 1);
    CHECK_EQ(weft_read(open.server, &byte, 1, fixture_soon()), 1);
    weft_close(open.client), weft_close(open.server);

    put("other.pem", "live"), put("garbage.pem", "more"); /* all or nothing */
    CHECK_EQ(weft_tls_reload(server), -EBADMSG);
    CHECK_EQ(meet(careful, server, "localhost", name, sizeof name, NULL), 0);
    CHECK_STR(name, "CN = renewed.example");
    REQUIRE_EQ(unlink(live("more")), 0);
    CHECK_EQ(weft_tls_reload(server), -ENOENT);
    CHECK_EQ(meet(careful, server, "a.wild.example", name, sizeof name, NULL), 0);
    CHECK_STR(name, "CN = wild.example");
    weft_tls_free(server), weft_tls_free(client), weft_tls_free(careful);
    return 0;
}
API_TEST(tls_reloaded, "", .workers = {1}) { io_run(reloaded, NULL); }

/* While others shake hands. */
struct visitors {
    weft_tls *server, *client;
    atomic_uint left;
};

static int visitor(void *arg) {
    struct visitors *v = arg;
    char name[80];
    for (int i = 0; i < 8; i++)
        CHECK_EQ(meet(v->client, v->server, i % 2 ? "localhost" : "elsewhere.example", name, sizeof name, NULL), 0);
    atomic_fetch_sub(&v->left, 1);
    return 0;
}

static int busy(void *unused) {
    (void)unused;
    enum { VISITORS = 4 };
    struct visitors v = {.server = TLS_SERVER(), .client = TLS_CLIENT(), .left = VISITORS};
    weft_task *tasks[VISITORS];
    CHECK_EQ(weft_tls_add(v.server, tls_file("other.pem"), NULL), 0);
    for (int i = 0; i < VISITORS; i++)
        tasks[i] = io_go(NULL, visitor, &v);
    while (atomic_load(&v.left)) {
        CHECK_EQ(weft_tls_reload(v.server), 0);
        (void)weft_yield();
    }
    for (int i = 0; i < VISITORS; i++)
        CHECK_EQ(io_join(tasks[i]), 0);
    weft_tls_free(v.server), weft_tls_free(v.client);
    return 0;
}
API_TEST(tls_reloaded_while_busy, "", .workers = {2}) { io_run(busy, NULL); }
