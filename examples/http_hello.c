/* http_hello.c - the smallest HTTP/1.1 server with keep-alive: `http_hello 8080` serves until it is killed; without a port it asks itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

/* A request without a body ends with an empty line.  The client has 30 s for each line. */
static int serve(void *arg) {
    weft_io *client = arg;
    weft_reader reader;
    char buffer[1024], *line;
    ssize_t n;
    weft_reader_init(&reader, client, buffer, sizeof buffer);
    while ((n = weft_read_until(&reader, '\n', &line, weft_after(30 * INT64_C(1000000000)))) > 0)
        if (n <= 2 && weft_write(client, response, sizeof response - 1, WEFT_NEVER) < 0)
            break;
    weft_close(client);
    return 0;
}

static int listen_for_ever(void *arg) {
    weft_io *server = arg, *client;
    int error;
    while ((error = weft_accept(server, &client, NULL, WEFT_NEVER)) == 0)
        if (weft_fiber_go(NULL, serve, client, NULL) < 0)
            weft_close(client);
    return error == -EBADF ? 0 : error; /* closed: that was all */
}

static int ask(void *arg) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: me\r\n\r\n";
    weft_io *server = arg, *peer;
    weft_addr addr;
    char answer[sizeof response] = "";
    int error = weft_local_addr(server, &addr);
    if (error || (error = weft_fiber_go(NULL, listen_for_ever, server, NULL)) ||
        (error = weft_connect(&addr, &peer, weft_after(1000000000))))
        return error;
    weft_write(peer, request, sizeof request - 1, WEFT_NEVER);
    weft_read_exact(peer, answer, sizeof response - 1, weft_after(1000000000));
    printf("%.15s ... %s", answer, strstr(answer, "hello"));
    weft_close(peer);
    return weft_close(server);
}

int main(int argc, char **argv) {
    weft_io *server;
    int error = weft_tcp_listen(argc > 1 ? NULL : "127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, NULL, &server);
    if (!error)
        error = weft_fiber_run(NULL, argc > 1 ? listen_for_ever : ask, server, NULL);
    if (error < 0)
        fprintf(stderr, "http_hello: %s\n", weft_strerror(error));
    return error < 0;
}
