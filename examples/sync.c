/* sync.c - a queue with a condition, three at a time with a semaphore, rounds with a barrier, a start that is made once. */
#include <stdio.h>
#include <weft/weft.h>

/* -- A queue: consumers wait until something is in it, and no longer when it is closed. */

struct queue {
    weft_mutex lock;
    weft_cond changed;
    int items[16], count;
    bool closed;
    int sum;
};

static int consume(void *arg) {
    struct queue *q = arg;
    if (weft_mutex_lock(&q->lock, WEFT_NEVER) != 0)
        return -1;
    for (;;) {
        while (q->count == 0 && !q->closed)
            if (weft_cond_wait(&q->changed, &q->lock, WEFT_NEVER) != 0)
                break; /* cancelled: the lock is ours all the same */
        if (q->count == 0)
            break;
        q->sum += q->items[--q->count];
    }
    weft_mutex_unlock(&q->lock);
    return 0;
}

static int produce(struct queue *q) {
    for (int i = 1; i <= 10; i++) {
        if (weft_mutex_lock(&q->lock, WEFT_NEVER) != 0)
            return -1;
        q->items[q->count++] = i;
        weft_mutex_unlock(&q->lock);
        weft_cond_signal(&q->changed);
    }
    if (weft_mutex_lock(&q->lock, WEFT_NEVER) != 0)
        return -1;
    q->closed = true;
    weft_mutex_unlock(&q->lock);
    weft_cond_broadcast(&q->changed);
    return 0;
}

/* -- Ten workers, of which three work at a time; they start together, and the first makes the table. */

struct crew {
    weft_sem places;
    weft_barrier ready;
    weft_once table;
    weft_group busy;
    weft_mutex lock;
    int now, most, made;
};

static void make_table(void *arg) { ((struct crew *)arg)->made++; }

static int work(void *arg) {
    struct crew *crew = arg;
    weft_barrier_wait(&crew->ready, WEFT_NEVER);
    weft_once_run(&crew->table, make_table, crew, WEFT_NEVER);
    if (weft_sem_acquire(&crew->places, 1, WEFT_NEVER) == 0) {
        if (weft_mutex_lock(&crew->lock, WEFT_NEVER) == 0) {
            crew->now++;
            crew->most = crew->now > crew->most ? crew->now : crew->most;
            weft_mutex_unlock(&crew->lock);
        }
        weft_sleep(100000);
        if (weft_mutex_lock(&crew->lock, WEFT_NEVER) == 0) {
            crew->now--;
            weft_mutex_unlock(&crew->lock);
        }
        weft_sem_release(&crew->places, 1);
    }
    return weft_group_done(&crew->busy);
}

static int run(void *arg) {
    (void)arg;
    struct queue q = {.lock = WEFT_MUTEX_INIT, .changed = WEFT_COND_INIT};
    weft_task *task[3];
    for (int i = 0; i < 3; i++)
        if (weft_fiber_go(NULL, consume, &q, &task[i]) < 0)
            return -1;
    if (produce(&q) != 0)
        return -1;
    for (int i = 0; i < 3; i++) {
        weft_join(task[i], NULL, WEFT_NEVER);
        weft_task_drop(task[i]);
    }
    printf("sum %d\n", q.sum);

    struct crew crew = {.places = WEFT_SEM_INIT(3), .ready = WEFT_BARRIER_INIT(10), .table = WEFT_ONCE_INIT,
                        .busy = WEFT_GROUP_INIT, .lock = WEFT_MUTEX_INIT};
    if (weft_group_add(&crew.busy, 10) != 0)
        return -1;
    for (int i = 0; i < 10; i++)
        if (weft_fiber_go(NULL, work, &crew, NULL) < 0)
            return -1;
    if (weft_group_wait(&crew.busy, WEFT_NEVER) != 0)
        return -1;
    weft_group_destroy(&crew.busy); /* before its memory goes: the last one may still be leaving weft_group_done */
    printf("made %d time, at most %s at work\n", crew.made, crew.most <= 3 ? "three" : "too many");
    return 0;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
