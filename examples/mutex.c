/* mutex.c - fibers and a plain thread share an account; a lock may be held across a wait, and a wait may have a deadline. */
#include <pthread.h>
#include <stdio.h>
#include <weft/weft.h>

static weft_mutex lock = WEFT_MUTEX_INIT;
static int balance;

static int deposit(void *amount) {
    for (int i = 0; i < 1000; i++) {
        if (weft_mutex_lock(&lock, WEFT_NEVER) != 0)
            return -1; /* cancelled */
        int before = balance;
        if (i % 100 == 0)
            weft_yield(); /* others run, and wait for the lock */
        balance = before + *(int *)amount;
        weft_mutex_unlock(&lock);
    }
    return 0;
}

static void *from_a_thread(void *amount) {
    for (int i = 0; i < 1000; i++) {
        if (weft_mutex_lock(&lock, WEFT_NEVER) != 0)
            return NULL;
        balance += *(int *)amount;
        weft_mutex_unlock(&lock);
    }
    return NULL;
}

static int bank(void *arg) {
    (void)arg;
    int one = 1, two = 2;
    pthread_t thread;
    weft_task *task[4];
    if (pthread_create(&thread, NULL, from_a_thread, &two) != 0)
        return -1;
    for (int i = 0; i < 4; i++)
        if (weft_fiber_go(NULL, deposit, &one, &task[i]) < 0)
            return -1;
    for (int i = 0; i < 4; i++) {
        weft_join(task[i], NULL, WEFT_NEVER);
        weft_task_drop(task[i]);
    }
    pthread_join(thread, NULL);
    printf("balance %d\n", balance);

    if (weft_mutex_lock(&lock, WEFT_NEVER) != 0)
        return -1;
    printf("again: %s\n", weft_strerror(weft_mutex_lock(&lock, WEFT_NEVER)));
    weft_mutex_unlock(&lock);
    printf("unlocked twice: %s\n", weft_strerror(weft_mutex_unlock(&lock)));
    return 0;
}

int main(void) { return weft_fiber_run(NULL, bank, NULL, NULL) < 0; }
