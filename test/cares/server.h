/* server.h - a name server on loopback, in a thread of the test, that answers as the name says; and channels that ask it. */
#ifndef WEFT_TEST_CARES_SERVER_H
#define WEFT_TEST_CARES_SERVER_H

#include <weft/cares.h>

#include "../api/io_fixture.h"

/* What it says, by the first label of the name:
 *   four         A 127.0.0.1                            six       AAAA ::1
 *   both         both                                   alias     is another name of `four`
 *   many         A 127.0.0.1 to 127.0.0.12              long      the same, by TCP only: by UDP it is cut short
 *   n1 ... n255  A 127.0.0.N, AAAA ::N                  none      there is no such name
 *   silent       nothing                                noise     answers to other questions
 *   garbage      an answer that ends in its middle      fail      SERVFAIL
 *   refuse       REFUSED                                late      as four, when it is released
 *   cut          by UDP cut short, by TCP hung up on
 * Other names do not exist. */
struct server {
    char address[64]; /* for weft_cares_options.servers */
    int udp, tcp, stop;
    pthread_t thread;
    atomic_uint asked, by_tcp; /* questions */
    atomic_uint held; /* `late` ones that wait */
    atomic_bool released;
};

void server_begin(struct server *server);
void server_end(struct server *server);

/* A channel that asks it, and no file; 2 rounds of `ms`. */
static inline weft_cares *server_channel(const struct server *server, int ms, const char *domains) {
    weft_cares_options options = WEFT_CARES_OPTIONS_INIT;
    weft_cares *cares = NULL;
    options.servers = server->address;
    options.domains = domains ? domains : "";
    options.timeout = ms * INT64_C(1000000);
    options.tries = 2;
    options.no_hosts = true;
    REQUIRE_EQ(weft_cares_create(&options, &cares), 0);
    return cares;
}

static inline unsigned server_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 300; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static inline bool addr_is(const weft_addr *addr, const char *expected) {
    char text[80];
    weft_addr_format(addr, text, sizeof text);
    return strcmp(text, expected) == 0;
}

#endif
