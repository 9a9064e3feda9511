/* select.c - a server that takes requests from two channels, answers each by a one-shot, and stops after a while without any. */
#include <stdio.h>
#include <weft/weft.h>

struct request {
    int number;
    weft_oneshot_sender *answer;
};

static weft_chan *urgent, *normal;

static int serve(void *arg) {
    (void)arg;
    for (;;) {
        struct request request = {0, NULL};
        weft_case cases[] = {
            weft_case_recv(urgent, &request),
            weft_case_recv(normal, &request),
            weft_case_at(weft_after(50 * 1000000)),
        };
        int which = weft_select(cases, 3, WEFT_NEVER);
        if (which < 0 || which == 2)
            return which == 2 ? 0 : which;
        int answer = request.number * (which == 0 ? 100 : 10);
        weft_oneshot_send(request.answer, &answer); /* nobody waits for it any more: no matter */
    }
}

static int ask(weft_chan *where, int number) {
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    if (weft_oneshot_create(sizeof(int), &sender, &receiver) < 0)
        return -1;
    struct request request = {number, sender};
    int answer = -1;
    if (weft_chan_send(where, &request, WEFT_NEVER) < 0)
        weft_oneshot_sender_drop(sender);
    if (weft_oneshot_recv(receiver, &answer, WEFT_NEVER) < 0)
        printf("no answer\n");
    weft_oneshot_receiver_drop(receiver);
    return answer;
}

static int client(void *arg) {
    (void)arg;
    weft_task *server;
    if (weft_fiber_go(NULL, serve, NULL, &server) < 0)
        return -1;
    printf("%d\n", ask(normal, 1));
    printf("%d\n", ask(urgent, 2));
    printf("%d\n", ask(normal, 3));
    weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    printf("the server has left\n");
    return 0;
}

int main(void) {
    if (weft_chan_create(sizeof(struct request), 4, &urgent) < 0 ||
        weft_chan_create(sizeof(struct request), 4, &normal) < 0)
        return 1;
    int error = weft_fiber_run(NULL, client, NULL, NULL);
    weft_chan_destroy(urgent);
    weft_chan_destroy(normal);
    return error < 0;
}
