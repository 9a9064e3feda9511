/* http_server.c - routes: `http_server 8080` serves until it is killed; without a port it asks itself, and ends in order. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

static int hello(weft_http *x) { return weft_http_reply(x, 200, "text/plain", "hello\n", 6); }

static int echo(weft_http *x) {
    void *body;
    ssize_t size = weft_http_read_all(x, &body);
    return size < 0 ? (int)size : weft_http_reply(x, 200, "text/plain", body, (size_t)size);
}

static const struct {
    const char *method, *path;
    int (*serve)(weft_http *);
} routes[] = {{"GET", "/", hello}, {"POST", "/echo", echo}};

static int route(weft_http *x, void *unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (weft_text_is(weft_http_method(x), routes[i].method) && weft_text_is(weft_http_path(x), routes[i].path))
            return routes[i].serve(x);
    return 0; /* a 404 */
}

static int serve(void *listener) { return weft_http_serve(listener, NULL, route, NULL); }

static void ask(weft_http_client *client, const char *method, const char *target, const char *body, size_t size) {
    char answer[100];
    int status = weft_http_ask(client, method, target, NULL, body, size, weft_after(1000000000));
    printf("%s %s: %d\n", method, target, status);
    for (ssize_t n; (n = weft_http_answer_read(client, answer, sizeof answer, weft_after(1000000000))) > 0;)
        printf("%.*s", (int)n, answer);
}

static int ask_all(void *listener) {
    weft_io *io;
    weft_addr addr;
    weft_task *server;
    weft_http_client *client;
    if (weft_local_addr(listener, &addr) || weft_fiber_go(NULL, serve, listener, &server) ||
        weft_connect(&addr, &io, weft_after(1000000000)) || weft_http_client_open(io, "localhost", &client))
        return -1;
    ask(client, "GET", "/", NULL, 0);
    ask(client, "POST", "/echo", "said\n", 5);
    ask(client, "GET", "/nowhere", NULL, 0);
    weft_http_client_close(client);
    weft_task_cancel(server); /* requests under way would be finished */
    int error = weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    return error || weft_close(io) || weft_close(listener);
}

int main(int argc, char **argv) {
    weft_io *listener;
    int error = weft_tcp_listen(argc > 1 ? NULL : "127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, NULL, &listener);
    return error || weft_fiber_run(NULL, argc > 1 ? serve : ask_all, listener, NULL) < 0;
}
