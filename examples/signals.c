/* signals.c - a server that reads its configuration again on SIGHUP, and drains on SIGTERM. */
#include <signal.h>
#include <stdio.h>
#include <weft/weft.h>

static int serve(void *arg) {
    weft_io *listener = arg, *client;
    while (weft_accept(listener, &client, NULL, WEFT_NEVER) == 0)
        weft_close(client);
    return printf("no more clients\n") < 0; /* the listener was closed */
}

static int run(void *arg) {
    (void)arg;
    static const int wanted[] = {SIGHUP, SIGTERM};
    weft_signals *signals;
    weft_io *listener;
    weft_task *server;
    int error = weft_signal_open(wanted, 2, &signals);
    if (!error)
        error = weft_tcp_listen("127.0.0.1", 0, NULL, &listener);
    if (!error)
        error = weft_fiber_go(NULL, serve, listener, &server);
    if (error)
        return error;
    raise(SIGHUP); /* kill -HUP from outside does the same */
    raise(SIGTERM);
    for (int number; (number = weft_signal_wait(signals, WEFT_NEVER)) > 0;) {
        if (number == SIGTERM)
            break;
        printf("reading the configuration again\n");
    }
    printf("stopping\n");
    weft_close(listener);
    weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    weft_signal_close(signals);
    return 0;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
