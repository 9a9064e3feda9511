/* echo.c - a TCP echo server, one fiber a connection: `echo 7777` serves until it is killed; without a port it talks to itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

static int serve(void *arg) {
    weft_io *client = arg;
    char buffer[1024];
    ssize_t n;
    while ((n = weft_read(client, buffer, sizeof buffer, weft_after(60 * INT64_C(1000000000)))) > 0)
        if (weft_write(client, buffer, (size_t)n, WEFT_NEVER) < 0)
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

static int talk(void *arg) {
    weft_io *server = arg, *peer;
    weft_addr addr;
    char answer[6] = "";
    weft_task *listener;
    int error = weft_local_addr(server, &addr);
    if (!error && !(error = weft_fiber_go(NULL, listen_for_ever, server, &listener))) {
        if (!(error = weft_connect(&addr, &peer, weft_after(1000000000)))) {
            weft_write(peer, "hello", 5, WEFT_NEVER);
            weft_read_exact(peer, answer, 5, weft_after(1000000000));
            printf("the echo of hello is %s\n", answer);
            weft_close(peer);
        }
        weft_close(server);
        weft_join(listener, NULL, WEFT_NEVER);
        weft_task_drop(listener);
    }
    return error;
}

int main(int argc, char **argv) {
    weft_io *server;
    int error = weft_tcp_listen(argc > 1 ? NULL : "127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, NULL, &server);
    if (!error)
        error = weft_fiber_run(NULL, argc > 1 ? listen_for_ever : talk, server, NULL);
    if (error < 0)
        fprintf(stderr, "echo: %s\n", weft_strerror(error));
    return error < 0;
}
