/* tls_fixture.h - certificates made with the openssl command, connections, and programs to talk to. */
#ifndef WEFT_TEST_TLS_FIXTURE_H
#define WEFT_TEST_TLS_FIXTURE_H

#include <weft/tls.h>

#include "../api/http_fixture.h"

/* The folder with the certificates (certs.c): ca.pem has signed good.pem (localhost, 127.0.0.1), other.pem (another name), expired.pem and
 * user.pem (a client's); alone.pem has signed itself.  Each with its key in it. */
const char *tls_file(const char *name);

static inline weft_tls *tls_make(bool server, weft_tls_options options) {
    weft_tls *tls = NULL;
    REQUIRE_EQ(server ? weft_tls_server(&options, &tls) : weft_tls_client(&options, &tls), 0);
    return tls;
}

#define TLS_OPTIONS(...) ((weft_tls_options){.size = sizeof(weft_tls_options), __VA_ARGS__})
#define TLS_SERVER(...) tls_make(true, TLS_OPTIONS(.cert_file = tls_file("good.pem"), __VA_ARGS__))
#define TLS_CLIENT(...) tls_make(false, TLS_OPTIONS(.ca_file = tls_file("ca.pem"), __VA_ARGS__))

/* Two ends of a TCP connection, and the same as TLS streams before their handshake. */
struct tls_pair {
    weft_io *plain_client, *plain_server;
    weft_io *client, *server;
};

static inline struct tls_pair tls_pair(weft_tls *client, weft_tls *server, const char *host) {
    struct tls_pair pair;
    REQUIRE(io_pair(IO_TCP, &pair.plain_server, &pair.plain_client));
    REQUIRE_EQ(weft_tls_open(pair.plain_client, client, host, &pair.client), 0);
    REQUIRE_EQ(weft_tls_open(pair.plain_server, server, NULL, &pair.server), 0);
    return pair;
}

static inline int tls_shake(void *io) { return weft_tls_handshake(io, fixture_soon()); }

/* Both handshakes; how they ended. */
static inline void tls_shake_both(struct tls_pair *pair, int *client, int *server) {
    weft_task *other = io_go(NULL, tls_shake, pair->server);
    *client = weft_tls_handshake(pair->client, fixture_soon());
    if (*client)
        CHECK_EQ(weft_close(pair->client), 0);
    *server = io_join(other);
}

static inline void tls_shaken(struct tls_pair *pair) {
    int client, server;
    tls_shake_both(pair, &client, &server);
    REQUIRE_EQ(client, 0);
    REQUIRE_EQ(server, 0);
}

static inline void tls_free_both(weft_tls *a, weft_tls *b) {
    weft_tls_free(a);
    weft_tls_free(b);
}

#endif
