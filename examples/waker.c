/* waker.c - a plain thread wakes a task: how any library with callbacks or threads of its own is connected. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

struct question {
    pthread_t thread;
    weft_waker waker; /* given to the thread, which spends it */
    atomic_int answer; /* 0: none yet */
    int polls;
};

static void *think(void *arg) {
    struct question *q = arg;
    atomic_store(&q->answer, 42); /* first the answer, */
    weft_waker_wake(q->waker);    /* then the wake */
    return NULL;
}

static weft_poll ask(weft_task *self, void *state) {
    struct question *q = state;
    if (q->polls++ == 0) {
        q->waker = weft_waker_of(self);
        if (pthread_create(&q->thread, NULL, think, q) != 0) {
            weft_waker_drop(q->waker);
            return weft_done(self, -1, NULL);
        }
    }
    /* A task may be called without reason: look, and go on waiting if there is nothing. */
    int answer = atomic_load(&q->answer);
    if (!answer)
        return WEFT_PENDING;
    printf("the thread says %d\n", answer);
    return WEFT_READY;
}

int main(void) {
    struct question q = {0};
    int error = weft_run(NULL, ask, &q, NULL);
    if (error == 0)
        pthread_join(q.thread, NULL);
    return error < 0;
}
