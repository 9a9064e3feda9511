/* pipeline.c - three fibers in a row, with a channel between each two; closing the first ends them all. */
#include <stdio.h>
#include <weft/weft.h>

static weft_chan *numbers, *squares;

static int count(void *arg) {
    (void)arg;
    for (int n = 1; n <= 5; n++)
        if (weft_chan_send(numbers, &n, WEFT_NEVER) < 0)
            return -1;
    weft_chan_close(numbers); /* no more: receivers get what is left, then -EPIPE */
    return 0;
}

static int square(void *arg) {
    (void)arg;
    int n;
    while (weft_chan_recv(numbers, &n, WEFT_NEVER) == 0) {
        n *= n;
        if (weft_chan_send(squares, &n, WEFT_NEVER) < 0)
            return -1;
    }
    weft_chan_close(squares);
    return 0;
}

static int print(void *arg) {
    (void)arg;
    int n;
    if (weft_fiber_go(NULL, count, NULL, NULL) < 0 || weft_fiber_go(NULL, square, NULL, NULL) < 0)
        return -1;
    while (weft_chan_recv(squares, &n, WEFT_NEVER) == 0)
        printf("%d\n", n);
    return 0;
}

int main(void) {
    if (weft_chan_create(sizeof(int), 0, &numbers) < 0 || weft_chan_create(sizeof(int), 2, &squares) < 0)
        return 1;
    int error = weft_fiber_run(NULL, print, NULL, NULL);
    weft_chan_destroy(numbers);
    weft_chan_destroy(squares);
    return error < 0;
}
