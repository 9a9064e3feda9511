/* threads.c - the peers' baseline: one kernel thread a task, nothing in between. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/peer.h"

static _Atomic long done;

static void *empty(void *arg) {
    (void)arg;
    atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
    return NULL;
}

/* A fiftieth of the tasks the others do, in groups of 100: a thread costs a thousand tasks. */
static int spawn_join(int quick) {
    enum { GROUP = 100 };
    pthread_t group[GROUP];
    long count = quick ? 2000 : 20000, wrong = 0;
    int64_t start = peer_now();
    for (long g = 0; g < count / GROUP; g++) {
        int made = 0;
        while (made < GROUP && pthread_create(&group[made], NULL, empty, NULL) == 0)
            made++;
        wrong += GROUP - made;
        while (made > 0)
            pthread_join(group[--made], NULL);
    }
    peer_print("spawn_join", (double)(peer_now() - start) / (double)count, "ns/task");
    return wrong == 0 && done == count ? PEER_OK : PEER_WRONG;
}

struct yielder {
    long count, yields;
};

static void *yield_loop(void *arg) {
    struct yielder *y = arg;
    for (; y->yields < y->count; y->yields++)
        sched_yield();
    return NULL;
}

/* Two threads on one core, so that each yield is a switch. */
static int yield(int quick) {
    long count = quick ? 200000 : 2000000;
    struct yielder y[2] = {{count / 2, 0}, {count / 2, 0}};
    pthread_t t[2];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    int64_t start = peer_now();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&t[i], NULL, yield_loop, &y[i]) != 0)
            return PEER_WRONG;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    peer_print("yield", (double)(peer_now() - start) / (double)count, "ns/yield");
    return y[0].yields + y[1].yields == count ? PEER_OK : PEER_WRONG;
}

static _Atomic uint32_t posted;
static _Atomic int64_t posted_at;
static int64_t latency[PEER_WAKES];

static void *sleeper(void *arg) {
    uint32_t count = *(uint32_t *)arg;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t seen;
        while ((seen = atomic_load(&posted)) <= i)
            syscall(SYS_futex, &posted, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        latency[i] = peer_now() - atomic_load(&posted_at);
    }
    return NULL;
}

/* A bare futex: what the kernel alone costs. */
static int wake(int quick) {
    uint32_t count = quick ? 300 : PEER_WAKES;
    pthread_t t;
    if (pthread_create(&t, NULL, sleeper, &count) != 0)
        return PEER_WRONG;
    usleep(50000);
    for (uint32_t i = 0; i < count; i++) {
        usleep(1000);
        atomic_store(&posted_at, peer_now());
        atomic_store(&posted, i + 1);
        syscall(SYS_futex, &posted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    pthread_join(t, NULL);
    return peer_print_wake(latency, count);
}

/* -- Eight threads want the same lock. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static long inside, times;

static void *fight_mutex(void *arg) {
    for (long i = 0; i < times; i++) {
        pthread_mutex_lock(&mutex);
        inside++;
        pthread_mutex_unlock(&mutex);
    }
    return arg;
}

static void *fight_sem(void *arg) {
    for (long i = 0; i < times; i++) {
        sem_wait(&sem);
        inside++;
        sem_post(&sem);
    }
    return arg;
}

static void *fight_rwlock(void *arg) {
    long seen = 0;
    for (long i = 0; i < times; i++) {
        if (i % 8 == 0) {
            pthread_rwlock_wrlock(&rwlock);
            inside += 8;
        } else {
            pthread_rwlock_rdlock(&rwlock);
            if (inside < seen)
                arg = &inside;
            seen = inside;
        }
        pthread_rwlock_unlock(&rwlock);
    }
    return arg;
}

static int fight(const char *name, void *(*fighter)(void *), int quick) {
    enum { FIGHTERS = 8 };
    pthread_t t[FIGHTERS];
    void *wrong = NULL, *result;
    times = quick ? 100000 : 1000000;
    sem_init(&sem, 0, 1);
    int64_t start = peer_now();
    for (int i = 0; i < FIGHTERS; i++)
        if (pthread_create(&t[i], NULL, fighter, NULL) != 0)
            return PEER_WRONG;
    for (int i = 0; i < FIGHTERS; i++) {
        pthread_join(t[i], &result);
        wrong = result ? result : wrong;
    }
    peer_print(name, (double)(peer_now() - start) / (double)(times * FIGHTERS), "ns/op");
    return !wrong && inside == times * FIGHTERS ? PEER_OK : PEER_WRONG;
}

/* As many cores as the others have workers. */
static void use_cores(int count) {
    cpu_set_t all, some;
    CPU_ZERO(&some);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && count > 0; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &some);
            count--;
        }
    sched_setaffinity(0, sizeof some, &some);
}

int main(int argc, char **argv) {
    int quick = argc > 3 && strcmp(argv[3], "quick") == 0;
    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "spawn_join") == 0)
        return spawn_join(quick);
    if (strcmp(argv[1], "yield") == 0 && atoi(argv[2]) == 1)
        return yield(quick);
    if (strcmp(argv[1], "wake") == 0)
        return wake(quick);
    use_cores(atoi(argv[2]));
    if (strcmp(argv[1], "mutex") == 0)
        return fight("mutex", fight_mutex, quick);
    if (strcmp(argv[1], "sem") == 0)
        return fight("sem", fight_sem, quick);
    if (strcmp(argv[1], "rwlock") == 0)
        return fight("rwlock", fight_rwlock, quick);
    return PEER_SKIP;
}
