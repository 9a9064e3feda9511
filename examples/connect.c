/* connect.c - a server found by its name: all of its addresses are tried, and the first that answers is taken. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

static int greet(void *arg) {
    weft_io *client;
    int error = weft_accept(arg, &client, NULL, weft_after(10 * SECOND));
    if (!error) {
        (void)!weft_write(client, "hello", 5, weft_after(SECOND));
        weft_close(client);
    }
    return error;
}

static int run(void *arg) {
    (void)arg;
    weft_io *listener, *io;
    weft_addr addr, found[8];
    char text[64];
    int error = weft_tcp_listen("127.0.0.1", 0, NULL, &listener); /* not at ::1, which localhost may be too */
    if (error || (error = weft_local_addr(listener, &addr)) || (error = weft_fiber_go(NULL, greet, listener, NULL)))
        return error;
    weft_addr_format(&addr, text, sizeof text);
    int port = 0;
    sscanf(strrchr(text, ':'), ":%d", &port);

    error = weft_tcp_connect("localhost", port, &io, weft_after(10 * SECOND));
    if (error)
        return error;
    ssize_t n = weft_read_exact(io, text, 5, weft_after(10 * SECOND));
    printf("%.*s\n", n > 0 ? (int)n : 0, text);
    weft_close(io);
    weft_close(listener);

    int count = weft_resolve("localhost", "80", AF_INET, found, 8, weft_after(10 * SECOND));
    if (count > 0 && weft_addr_format(&found[0], text, sizeof text) > 0)
        printf("%s\n", text);
    return count < 0 ? count : 0;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
