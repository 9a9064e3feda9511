/* tls.c - HTTPS: a server of HTTP behind TLS, and a client that trusts one certificate.  usage: tls PEM-WITH-CERTIFICATE-AND-KEY */
#include <stdio.h>
#include <weft/tls.h>
#include <weft/weft.h>

static int hello(weft_http *x, void *arg) {
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}

static int serve(void *listener) { return weft_http_serve(listener, NULL, hello, NULL); }

/* Connect, check that it is localhost, ask. */
static int ask(const weft_addr *addr, weft_tls *tls) {
    weft_deadline until = weft_after(INT64_C(10000000000));
    weft_http_client *client;
    weft_io *io;
    char text[16];
    ssize_t n;
    int error = weft_connect(addr, &io, until);
    if (error || (error = weft_tls_connect(io, tls, "localhost", until, &io)))
        return error;
    error = weft_http_client_open(io, "localhost", &client);
    if (!error) {
        int status = weft_http_ask(client, "GET", "/", NULL, NULL, 0, until);
        printf("%s%s: %d ", weft_tls_version(io), weft_tls_is_resumed(io) ? ", resumed" : "", status);
        while ((n = weft_http_answer_read(client, text, sizeof text, until)) > 0)
            fwrite(text, 1, (size_t)n, stdout);
        weft_http_client_close(client);
        error = status < 0 ? status : n < 0 ? (int)n : 0;
    }
    weft_close(io);
    return error;
}

static int all(void *file) {
    weft_tls_options server_options = WEFT_TLS_OPTIONS_INIT, client_options = WEFT_TLS_OPTIONS_INIT;
    weft_tls *server_tls, *client_tls;
    weft_io *listener;
    weft_addr addr;
    weft_task *server;
    server_options.cert_file = client_options.ca_file = file;
    int error = weft_tls_server(&server_options, &server_tls);
    if (error || (error = weft_tls_client(&client_options, &client_tls)) ||
        (error = weft_tcp_listen("127.0.0.1", 0, NULL, &listener)) || (error = weft_local_addr(listener, &addr)) ||
        (error = weft_tls_listen(listener, server_tls, &listener)) ||
        (error = weft_fiber_go(NULL, serve, listener, &server)))
        return error;
    for (int i = 0; i < 2 && !error; i++)
        error = ask(&addr, client_tls);
    (void)weft_task_cancel(server);
    (void)weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    weft_close(listener);
    weft_tls_free(server_tls);
    weft_tls_free(client_tls);
    return error;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return fprintf(stderr, "usage: tls PEM-WITH-CERTIFICATE-AND-KEY\n"), 2;
    int error = weft_fiber_run(NULL, all, argv[1], NULL);
    if (error < 0)
        fprintf(stderr, "tls: %s\n", weft_strerror(error));
    return error < 0;
}
