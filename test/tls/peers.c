/* peers.c - TLS with programs of others: curl, openssl s_client and s_server. */
#define _GNU_SOURCE
#include "command.h"

/* -- Our server ------------------------------------------------------------------------------------------------------ */

struct secure_site {
    struct site site;
    weft_tls *tls;
    weft_runtime *rt;
    int port;
};

static void secure_open(struct secure_site *s, weft_tls *tls) {
    char text[64];
    s->tls = tls;
    s->rt = fixture_begin_patient();
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &s->site.listener), 0);
    REQUIRE_EQ(weft_local_addr(s->site.listener, &s->site.addr), 0);
    weft_addr_format(&s->site.addr, text, sizeof text);
    s->port = atoi(strchr(text, ':') + 1);
    REQUIRE_EQ(weft_tls_listen(s->site.listener, tls, &s->site.listener), 0);
    s->site.task = io_go(s->rt, site_main, &s->site);
}

static void secure_close(struct secure_site *s) {
    (void)weft_task_cancel(s->site.task);
    CHECK_EQ(io_join(s->site.task), 0);
    CHECK_EQ(s->site.result, -ECANCELED);
    CHECK_EQ(weft_close(s->site.listener), 0);
    CHECK_EQ(site_sockets(), 0);
    fixture_end(s->rt);
    weft_tls_free(s->tls);
}

#define CURL "curl -sS --http1.1 --noproxy '*' --max-time 20 --resolve localhost:%d:127.0.0.1 "

API_TEST(tls_curl, "", .workers = {2}) {
    char out[4096];
    if (!command_exists("curl"))
        SKIP("curl is not installed");
    struct secure_site s = {.site = SITE(serve_site)};
    secure_open(&s, TLS_SERVER(.alpn = "http/1.1"));
    const char *versions[] = {"--tlsv1.3", "--tlsv1.2 --tls-max 1.2"};
    for (int i = 0; i < 2; i++) {
        /* Two on one connection, and a body there and back. */
        CHECK_EQ(
            command(out, sizeof out,
                    CURL
                    "--cacert ca.pem %s -w '%%{num_connects}\\n' https://localhost:%d/hello https://localhost:%d/hello",
                    s.port, versions[i], s.port, s.port),
            0);
        CHECK_STR(out, "hello\n1\nhello\n0\n");
        CHECK_EQ(
            command(out, sizeof out,
                    "head -c 300000 /dev/urandom >sent%d && " CURL
                    "--cacert ca.pem %s --data-binary @sent%d -o got%d https://localhost:%d/echo && cmp sent%d got%d",
                    s.port, s.port, versions[i], s.port, s.port, s.port, s.port, s.port),
            0);
        CHECK_STR(out, "");
    }
    /* It does not trust us unless it is told to; nor plain HTTP. */
    CHECK_EQ(command(out, sizeof out, CURL "https://localhost:%d/hello", s.port, s.port), 60);
    CHECK_NE(command(out, sizeof out, CURL "http://localhost:%d/hello", s.port, s.port), 0);
    CHECK_EQ(command(out, sizeof out, CURL "--cacert ca.pem https://localhost:%d/hello", s.port, s.port), 0);
    CHECK_STR(out, "hello\n"); /* and the server goes on */
    secure_close(&s);
}

#define S_CLIENT                                                                                                       \
    "timeout 20 openssl s_client -connect 127.0.0.1:%d -servername localhost -CAfile ca.pem -verify_return_error "
#define ASK "printf 'GET /hello HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n' | "

API_TEST(tls_s_client, "", .workers = {2}) {
    static char out[65536];
    struct secure_site s = {.site = SITE(serve_site)};
    secure_open(&s, TLS_SERVER(.alpn = "http/1.1"));
    const char *versions[] = {"-tls1_3", "-tls1_2"};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(command(out, sizeof out, ASK S_CLIENT "-ign_eof -alpn h2,http/1.1 %s -sess_out session%d", s.port,
                         versions[i], s.port),
                 0);
        CHECK_CONTAINS(out, "Verify return code: 0 (ok)");
        CHECK_CONTAINS(out, "ALPN protocol: http/1.1");
        CHECK_CONTAINS(out, "\r\n\r\nhello\n");
        CHECK_CONTAINS(out, i ? "New, TLSv1.2" : "New, TLSv1.3");
        CHECK(!strstr(out, "unexpected eof")); /* we signed the end */
        CHECK_EQ(command(out, sizeof out, ASK S_CLIENT "-ign_eof -alpn http/1.1 %s -sess_in session%d", s.port,
                         versions[i], s.port),
                 0);
        CHECK_CONTAINS(out, i ? "Reused, TLSv1.2" : "Reused, TLSv1.3");
        CHECK_CONTAINS(out, "\r\n\r\nhello\n");
    }
    /* No old versions, no renegotiation. */
    CHECK_NE(command(out, sizeof out, S_CLIENT "-tls1_1 -cipher ALL@SECLEVEL=0 </dev/null", s.port), 0);
    CHECK_CONTAINS(out, "protocol version");
    command(out, sizeof out, "(echo R; sleep 1) | " S_CLIENT "-tls1_2", s.port);
    CHECK_CONTAINS(out, "RENEGOTIATING");
    CHECK_CONTAINS(out, "no renegotiation");
    secure_close(&s);
}

/* Of TLS 1.2, only ciphers with forward secrecy and without CBC, unless the server's options name others. */
API_TEST(tls_s_client_ciphers, "", .workers = {2}) {
    static char out[65536];
    static const char *const weak[] = {"AES256-GCM-SHA384", "AES128-SHA", "ECDHE-RSA-AES128-SHA256",
                                       "ECDHE-ECDSA-AES256-SHA", "DHE-RSA-AES128-SHA256"};
    struct secure_site s = {.site = SITE(serve_site)};
    secure_open(&s, TLS_SERVER(.alpn = "http/1.1"));
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
        CHECK_NE(command(out, sizeof out, S_CLIENT "-tls1_2 -cipher %s:@SECLEVEL=0 </dev/null", s.port, weak[i]), 0);
        CHECK_CONTAINS(out, "handshake failure");
    }
    CHECK_EQ(command(out, sizeof out, S_CLIENT "-tls1_2 -cipher ECDHE+CHACHA20 </dev/null", s.port), 0);
    CHECK_CONTAINS(out, "CHACHA20-POLY1305");
    secure_close(&s);
    s = (struct secure_site){.site = SITE(serve_site)};
    secure_open(&s, TLS_SERVER(.tls12_ciphers = "ECDHE+AES128:@SECLEVEL=0", .tls13_ciphers = "TLS_AES_128_GCM_SHA256"));
    CHECK_EQ(command(out, sizeof out, S_CLIENT "-tls1_2 -cipher ECDHE+AES+SHA1:@SECLEVEL=0 </dev/null", s.port), 0);
    CHECK_EQ(command(out, sizeof out, S_CLIENT "-tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384 </dev/null", s.port) != 0,
             1);
    CHECK_EQ(command(out, sizeof out, S_CLIENT "-tls1_3 </dev/null", s.port), 0);
    CHECK_CONTAINS(out, "TLS_AES_128_GCM_SHA256");
    secure_close(&s);
}

/* s_client asks for a name, and gets the certificate of that name. */
API_TEST(tls_s_client_names, "", .workers = {2}) {
    static char out[65536];
    static const char *const names[][2] = {{"-servername localhost", "subject=CN = localhost"},
                                           {"-servername elsewhere.example", "subject=CN = elsewhere.example"},
                                           {"-servername www.wild.example", "subject=CN = wild.example"},
                                           {"-servername nobody.example", "subject=CN = localhost"},
                                           {"-noservername", "subject=CN = localhost"}};
    struct secure_site s = {.site = SITE(serve_site)};
    secure_open(&s, TLS_SERVER());
    CHECK_EQ(weft_tls_add(s.tls, tls_file("other.pem"), NULL), 0);
    CHECK_EQ(weft_tls_add(s.tls, tls_file("wild.pem"), NULL), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(
            command(out, sizeof out,
                    ASK
                    "timeout 20 openssl s_client -connect 127.0.0.1:%d -CAfile ca.pem -verify_return_error -ign_eof %s",
                    s.port, names[i][0]),
            0);
        CHECK_CONTAINS(out, names[i][1]);
        CHECK_CONTAINS(out, "\r\n\r\nhello\n");
    }
    secure_close(&s);
}

/* -- Our client ------------------------------------------------------------------------------------------------------ */

/* s_server with these options, on a free port. */
static struct server_program s_server(const char *version, const char *mode, int *port) {
    char line[256] = "";
    char *argv[] = {"openssl", "s_server", "-accept",       "127.0.0.1:0", "-cert", (char *)tls_file("good.pem"),
                    "-alpn",   "http/1.1", (char *)version, (char *)mode,  NULL};
    struct server_program program = command_start(argv);
    while (fgets(line, sizeof line, program.out) && sscanf(line, "ACCEPT 127.0.0.1:%d", port) != 1)
        ;
    REQUIRE_GT(*port, 0);
    return program;
}

struct visit {
    int port;
    weft_tls *tls;
    bool resumed;
    const char *version;
};

static weft_io *visit_open(struct visit *v) {
    weft_io *plain, *io;
    char text[32];
    REQUIRE_EQ(weft_tcp_connect("127.0.0.1", v->port, &plain, fixture_soon()), 0);
    REQUIRE_EQ(weft_tls_connect(plain, v->tls, "localhost", fixture_soon(), &io), 0);
    CHECK_STR(weft_tls_version(io), v->version);
    CHECK_GT(weft_tls_protocol(io, text, sizeof text), 0);
    CHECK_STR(text, "http/1.1");
    v->resumed = weft_tls_is_resumed(io);
    return io;
}

/* s_server -rev: lines come back the other way round. */
static int reversed(void *arg) {
    struct visit *v = arg;
    weft_io *io = visit_open(v);
    say(io, "stressed\n");
    hear(io, "desserts\n");
    return weft_close(io);
}

/* s_server -www: an HTTP server. */
static int page(void *arg) {
    struct visit *v = arg;
    weft_io *io = visit_open(v);
    weft_http_client *client;
    char text[512];
    ssize_t n;
    REQUIRE_EQ(weft_http_client_open(io, "localhost", &client), 0);
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), 200);
    while ((n = weft_http_answer_read(client, text, sizeof text, fixture_soon())) > 0)
        ;
    CHECK_EQ(n, 0);
    weft_http_client_close(client);
    return weft_close(io);
}

API_TEST(tls_s_server, "", .workers = {2}) {
    const char *options[] = {"-tls1_3", "-tls1_2"}, *versions[] = {"TLSv1.3", "TLSv1.2"};
    for (int i = 0; i < 2; i++) {
        struct visit visit = {.tls = TLS_CLIENT(.alpn = "http/1.1"), .version = versions[i]};
        struct server_program program = s_server(options[i], "-rev", &visit.port);
        for (int j = 0; j < 3; j++) {
            io_run(reversed, &visit);
            CHECK_EQ(visit.resumed, j > 0);
        }
        command_stop(&program);
        program = s_server(options[i], "-www", &visit.port);
        io_run(page, &visit);
        command_stop(&program);
        weft_tls_free(visit.tls);
    }
}

/* A server that is killed has not said that it is done. */
struct cut {
    struct visit visit;
    atomic_bool there;
};

static int cut_off(void *arg) {
    struct cut *cut = arg;
    weft_io *io = visit_open(&cut->visit);
    char byte;
    say(io, "stressed\n");
    hear(io, "desserts\n");
    cut->there = true;
    CHECK_EQ(weft_read(io, &byte, 1, fixture_soon()), -ECONNRESET);
    return weft_close(io);
}

API_TEST(tls_server_killed, "", .workers = {1}) {
    struct cut cut = {.visit = {.tls = TLS_CLIENT(.alpn = "http/1.1"), .version = "TLSv1.3"}};
    struct server_program program = s_server("-tls1_3", "-rev", &cut.visit.port);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = io_go(rt, cut_off, &cut);
    REQUIRE_EVENTUALLY(cut.there);
    command_stop(&program);
    CHECK_EQ(io_join(task), 0);
    fixture_end(rt);
    weft_tls_free(cut.visit.tls);
}
