/* http_fetch.c - a client: a document that has moved, a body in pieces, and all of it over one connection. */
#include <stdio.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

/* -- A server to ask ------------------------------------------------------------------------------------------ */

static int serve_one(weft_http *x, void *unused) {
    void *body;
    (void)unused;
    if (weft_text_is(weft_http_path(x), "/old"))
        return weft_http_set(x, "Location", "new/place") ? -1 : weft_http_reply(x, 301, NULL, NULL, 0);
    if (weft_text_is(weft_http_path(x), "/new/place"))
        return weft_http_reply(x, 200, "text/plain", "here\n", 5);
    ssize_t size = weft_http_read_all(x, &body);
    return size < 0 ? (int)size : weft_http_reply(x, 200, "text/plain", body, (size_t)size);
}

static int serve(void *listener) { return weft_http_serve(listener, NULL, serve_one, NULL); }

/* -- The client ----------------------------------------------------------------------------------------------- */

static void print_answer(weft_http_client *client, int status) {
    char text[100];
    printf("%d\n", status);
    for (ssize_t n; (n = weft_http_answer_read(client, text, sizeof text, weft_after(SECOND))) > 0;)
        printf("%.*s", (int)n, text);
}

static int ask(weft_http_pool *pool, const char *url) {
    weft_http_client *client;
    int status = weft_http_fetch(pool, "GET", url, NULL, NULL, 0, weft_after(5 * SECOND), &client);
    if (status < 0)
        return status;
    print_answer(client, status);
    weft_http_client_close(client); /* back into the pool */

    int error = weft_http_pool_connect(pool, url, weft_after(5 * SECOND), &client);
    if (error)
        return error;
    error = weft_http_ask_begin(client, "POST", "/echo", "Content-Type: text/plain\r\n", -1, weft_after(SECOND));
    for (int i = 0; !error && i < 3; i++)
        if (weft_http_ask_write(client, "a piece\n", 8, weft_after(SECOND)) < 0)
            break; /* it wants no more, and may have said why */
    if (!error && (status = weft_http_ask_end(client, weft_after(SECOND))) > 0)
        print_answer(client, status);
    weft_http_client_close(client);
    printf("%u connection\n", weft_http_pool_idle(pool));
    return error;
}

static int run(void *listener) {
    weft_addr addr;
    weft_task *server;
    weft_http_pool *pool;
    char where[64], url[100];
    if (weft_local_addr(listener, &addr) || weft_fiber_go(NULL, serve, listener, &server) ||
        weft_http_pool_open(NULL, &pool))
        return -1;
    weft_addr_format(&addr, where, sizeof where);
    snprintf(url, sizeof url, "http://%s/old", where);
    int error = ask(pool, url);
    weft_http_pool_close(pool);
    weft_task_cancel(server);
    (void)!weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    return error ? error : weft_close(listener);
}

int main(void) {
    weft_io *listener;
    return weft_tcp_listen("127.0.0.1", 0, NULL, &listener) || weft_fiber_run(NULL, run, listener, NULL) < 0;
}
