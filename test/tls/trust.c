/* trust.c - who is believed, who is refused, and what is made of nonsense. */
#define _GNU_SOURCE
#include "tls_fixture.h"

/* A handshake of a client that trusts ca.pem with a server that has `cert`. */
static void meet(const char *cert, const char *host, bool no_verify, int expected, const char *why) {
    weft_tls *client = TLS_CLIENT(.no_verify = no_verify);
    weft_tls *server = tls_make(true, TLS_OPTIONS(.cert_file = tls_file(cert)));
    struct tls_pair pair = tls_pair(client, server, host);
    weft_task *other = io_go(NULL, tls_shake, pair.server);
    int found = weft_tls_handshake(pair.client, fixture_soon());
    char text[128];
    weft_tls_why(pair.client, text, sizeof text);
    if (found != expected || (why && !strstr(text, why)))
        harness_fail(__FILE__, __LINE__, "%s as %s: expected %d (%s), found %d (%s)", cert, host, expected,
                     why ? why : "", found, text);
    CHECK_EQ(weft_close(pair.client), 0);
    (void)io_join(other);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
}

static int certificates(void *arg) {
    (void)arg;
    meet("good.pem", "localhost", false, 0, NULL);
    meet("good.pem", "127.0.0.1", false, 0, NULL);
    meet("good.pem", "127.0.0.2", false, -EKEYREJECTED, "IP address mismatch");
    meet("good.pem", "localhost.example", false, -EKEYREJECTED, "hostname mismatch");
    meet("other.pem", "localhost", false, -EKEYREJECTED, "hostname mismatch");
    meet("other.pem", "elsewhere.example", false, 0, NULL);
    meet("expired.pem", "localhost", false, -EKEYREJECTED, "expired");
    meet("alone.pem", "localhost", false, -EKEYREJECTED, "self-signed");
    meet("nameless.pem", "localhost", false, -EKEYREJECTED, "mismatch"); /* its subject is no name of a host */
    meet("alone.pem", NULL, true, 0, NULL);
    meet("expired.pem", NULL, true, 0, NULL);
    /* The system's trust does not know our CA. */
    weft_tls *client = tls_make(false, TLS_OPTIONS(.ca_file = NULL)), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    int client_error, server_error;
    tls_shake_both(&pair, &client_error, &server_error);
    CHECK_EQ(client_error, -EKEYREJECTED);
    CHECK_LT(server_error, 0);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(tls_certificates, "", .workers = {1, 2}) { io_run(certificates, NULL); }

/* A client must show who it is. */
static void show(const char *cert, int expected) {
    weft_tls *server = TLS_SERVER(.ca_file = tls_file("ca.pem"), .client_certs = true);
    weft_tls *client = TLS_CLIENT(.cert_file = cert ? tls_file(cert) : NULL);
    struct tls_pair pair = tls_pair(client, server, "localhost");
    weft_task *other = io_go(NULL, tls_shake, pair.client);
    CHECK_EQ(weft_tls_handshake(pair.server, fixture_soon()), expected);
    char text[64];
    if (!expected) {
        CHECK_GT(weft_tls_peer_name(pair.server, text, sizeof text), 0);
        CHECK_STR(text, "CN = someone");
    }
    CHECK_EQ(weft_close(pair.server), 0);
    (void)io_join(other);
    CHECK_EQ(weft_close(pair.client), 0);
    tls_free_both(client, server);
}

static int client_certificates(void *arg) {
    (void)arg;
    show("user.pem", 0);
    show("alone.pem", -EKEYREJECTED);
    show(NULL, -EKEYREJECTED);
    return 0;
}
API_TEST(tls_client_certificates, "", .workers = {2}) { io_run(client_certificates, NULL); }

static int protocols(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(.alpn = "h2"), *server = TLS_SERVER(.alpn = "http/1.1");
    struct tls_pair pair = tls_pair(client, server, "localhost");
    int client_error, server_error;
    tls_shake_both(&pair, &client_error, &server_error);
    CHECK_EQ(client_error, -EPROTO);
    CHECK_EQ(server_error, -EPROTO);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_no_common_protocol, "", .workers = {2}) { io_run(protocols, NULL); }

/* -- Sessions -------------------------------------------------------------------------------------------------------- */

static bool meet_again(weft_tls *client, weft_tls *server, const char *host) {
    char byte;
    struct tls_pair pair = tls_pair(client, server, host);
    tls_shaken(&pair);
    bool resumed = weft_tls_is_resumed(pair.client);
    CHECK_EQ(weft_tls_is_resumed(pair.server), resumed);
    REQUIRE_EQ(weft_write(pair.server, "x", 1, fixture_soon()), 1); /* the ticket comes before it */
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1);
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    return resumed;
}

static int sessions(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER(), *other = TLS_SERVER();
    CHECK(!meet_again(client, server, "localhost"));
    for (int i = 0; i < 3; i++)
        CHECK(meet_again(client, server, "localhost"));
    CHECK(!meet_again(client, server, "127.0.0.1")); /* another host, for all it knows */
    CHECK(meet_again(client, server, "127.0.0.1"));
    CHECK(!meet_again(client, other, "localhost")); /* cannot read the ticket: a full handshake */
    weft_tls *forgetful = TLS_CLIENT(.no_resume = true);
    CHECK(!meet_again(forgetful, server, "localhost"));
    CHECK(!meet_again(forgetful, server, "localhost"));
    weft_tls_free(forgetful);
    weft_tls_free(other);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_sessions, "", .workers = {1, 2}) { io_run(sessions, NULL); }

/* -- Nonsense -------------------------------------------------------------------------------------------------------- */

/* A server hears exactly this, and the end.  It must refuse it, at once. */
static void hears(weft_tls *server, const void *bytes, size_t size, int expected) {
    weft_io *here, *there, *tls;
    REQUIRE(io_pair(IO_TCP, &here, &there));
    REQUIRE_EQ(weft_tls_open(here, server, NULL, &tls), 0);
    REQUIRE_EQ(weft_write(there, bytes, size, fixture_soon()), size);
    CHECK_EQ(weft_shutdown(there, SHUT_WR), 0);
    int found = weft_tls_handshake(tls, fixture_soon());
    if (expected)
        CHECK_EQ(found, expected);
    else
        CHECK(found == -EPROTO || found == -ECONNRESET);
    char byte;
    CHECK_EQ(weft_read(tls, &byte, 1, fixture_soon()), found); /* stays */
    CHECK_EQ(weft_close(tls), 0);
    CHECK_EQ(weft_close(there), 0);
}

/* What a client says first. */
static size_t first_words(char *bytes, size_t room) {
    weft_tls *client = TLS_CLIENT();
    weft_io *here, *there, *tls;
    REQUIRE(io_pair(IO_TCP, &here, &there));
    REQUIRE_EQ(weft_tls_open(there, client, "localhost", &tls), 0);
    CHECK_EQ(weft_tls_handshake(tls, WEFT_NOW), -ETIMEDOUT);
    ssize_t size = weft_read(here, bytes, room, fixture_soon());
    REQUIRE_GT(size, 100);
    CHECK_EQ(weft_close(tls), 0);
    CHECK_EQ(weft_close(here), 0);
    weft_tls_free(client);
    return (size_t)size;
}

static int nonsense(void *arg) {
    (void)arg;
    weft_tls *server = TLS_SERVER();
    char hello[4096], bytes[4096];
    size_t size = first_words(hello, sizeof hello);
    uint64_t random = harness_seed();
    hears(server, GET("/hello"), strlen(GET("/hello")), -EPROTO);
    hears(server, "", 0, -ECONNRESET);
    memset(bytes, 0, sizeof bytes);
    hears(server, bytes, sizeof bytes, -EPROTO);
    memset(bytes, 0xff, sizeof bytes);
    hears(server, bytes, sizeof bytes, -EPROTO);
    hears(server, "\x16\x03\x01\x40\x01", 5, 0); /* a record longer than there are */
    hears(server, "\x15\x03\x01\x00\x02\x02\x28", 7, -EPROTO); /* an alert first */
    hears(server, "\x80\x2e\x01\x00\x02", 5, 0); /* SSL 2 */
    for (size_t cut = 1; cut < size; cut += harness_is_slow() ? 37 : 5) /* every kind of half a hello */
        hears(server, hello, cut, -ECONNRESET);
    for (int i = 0; i < (harness_is_slow() ? 20 : 100); i++) { /* and a changed one: refused, or waited on in vain */
        memcpy(bytes, hello, size);
        for (int j = 0; j < 3; j++)
            bytes[harness_random(&random) % size] ^= (char)(1 + harness_random(&random) % 255);
        hears(server, bytes, size, 0);
    }
    weft_tls_free(server);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(tls_nonsense, "", .workers = {1, 2}) { io_run(nonsense, NULL); }

/* Records that were changed on their way end the stream. */
static int changed(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    char byte;
    tls_shaken(&pair);
    REQUIRE_EQ(weft_write(pair.plain_server, "\x17\x03\x03\x00\x14twenty bytes of what", 25, fixture_soon()), 25);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), -EPROTO);
    CHECK_EQ(weft_write(pair.client, &byte, 1, fixture_soon()), -EPROTO);
    CHECK_EQ(weft_read(pair.server, &byte, 1, fixture_soon()), -EPROTO); /* it has been told: an alert */
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_changed, "", .workers = {2}) { io_run(changed, NULL); }

/* -- Options --------------------------------------------------------------------------------------------------------- */

static void refused(bool server, weft_tls_options options, int expected) {
    weft_tls *untouched = (weft_tls *)(void *)&options, *tls = untouched;
    CHECK_EQ(server ? weft_tls_server(&options, &tls) : weft_tls_client(&options, &tls), expected);
    CHECK_EQ(tls, untouched);
}

TEST(tls_options, "") {
    const char *good = tls_file("good.pem"), *ca = tls_file("ca.pem"), *garbage = tls_file("garbage.pem");
    refused(true, TLS_OPTIONS(.alpn = "h2"), -EINVAL);
    refused(true, TLS_OPTIONS(.cert_file = "/nowhere/cert.pem"), -ENOENT);
    refused(true, TLS_OPTIONS(.cert_file = garbage), -EBADMSG);
    refused(true, TLS_OPTIONS(.cert_file = good, .key_file = garbage), -EBADMSG);
    refused(true, TLS_OPTIONS(.cert_file = good, .key_file = tls_file("other.key")), -EINVAL);
    refused(true, TLS_OPTIONS(.cert_file = ca), -EBADMSG); /* no key in it */
    refused(true, TLS_OPTIONS(.cert_file = good, .client_certs = true), -EINVAL);
    refused(true, TLS_OPTIONS(.cert_file = good, .handshake_timeout = -1), -EINVAL);
    refused(false, TLS_OPTIONS(.ca_file = garbage), -EBADMSG);
    refused(false, TLS_OPTIONS(.ca_file = "/nowhere/ca.pem"), -ENOENT);
    refused(false, TLS_OPTIONS(.alpn = ""), -EINVAL);
    refused(false, TLS_OPTIONS(.tls12_ciphers = "nonsense"), -EINVAL);
    refused(false, TLS_OPTIONS(.tls13_ciphers = "nonsense"), -EINVAL);
    refused(false, TLS_OPTIONS(.tls13_ciphers = ""), -EINVAL);
    refused(false, TLS_OPTIONS(.alpn = "h2,,http/1.1"), -EINVAL);
    struct {
        weft_tls_options known;
        int later;
    } future = {{.size = sizeof future}, 1};
    weft_tls *tls;
    CHECK_EQ(weft_tls_client(&future.known, &tls), -E2BIG);
    future.later = 0;
    REQUIRE_EQ(weft_tls_client(&future.known, &tls), 0);
    weft_io *a, *b, *io = NULL;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    CHECK_EQ(weft_tls_open(a, tls, NULL, &io), -EINVAL); /* whom? */
    CHECK_EQ(weft_tls_open(a, tls, "", &io), -EINVAL);
    CHECK_EQ(weft_tls_listen(a, tls, &io), -EINVAL);
    CHECK_EQ(weft_tls_handshake(a, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_tls_version(a), NULL);
    CHECK_EQ(weft_tls_open(NULL, tls, "host", &io), -EINVAL);
    CHECK_EQ(weft_tls_open(a, NULL, "host", &io), -EINVAL);
    CHECK_EQ(weft_tls_open(a, tls, "host", NULL), -EINVAL);
    CHECK_EQ(weft_tls_connect(a, tls, "host", WEFT_NEVER, NULL), -EINVAL); /* which closes it */
    char byte;
    CHECK_EQ(weft_read(b, &byte, 1, fixture_soon()), 0);
    weft_close(b);
    weft_tls_free(tls);
    weft_tls_free(NULL);
}
