/* mutex.c - eight fibers, each a million times, want the same: a mutex, one permit, a write lock. */
#include "../harness/bench.h"

enum { FIBERS = 8 };

struct fight {
    weft_mutex mutex;
    weft_sem sem;
    weft_rwlock rwlock;
    uint64_t times;    /* of each */
    uint64_t inside;   /* plain: what it protects */
    int64_t start, end;
};

static int mutex_enter(struct fight *f) { return weft_mutex_lock(&f->mutex, WEFT_NEVER); }
static int mutex_leave(struct fight *f) { return weft_mutex_unlock(&f->mutex); }
static int sem_enter(struct fight *f) { return weft_sem_acquire(&f->sem, 1, WEFT_NEVER); }
static int sem_leave(struct fight *f) { return weft_sem_release(&f->sem, 1); }

/* The loop is written out for each, as a program would: no call through a pointer is measured. */
#define FIGHTER(name, enter, leave)                                                                                    \
    static int name(void *arg) {                                                                                       \
        struct fight *f = arg;                                                                                         \
        int failures = 0;                                                                                              \
        for (uint64_t i = 0; i < f->times; i++) {                                                                      \
            failures |= enter(f);                                                                                      \
            f->inside++;                                                                                               \
            failures |= leave(f);                                                                                      \
        }                                                                                                              \
        return failures;                                                                                               \
    }
FIGHTER(fight_mutex, mutex_enter, mutex_leave)
FIGHTER(fight_sem, sem_enter, sem_leave)

/* One in eight writes. */
static int fight_rwlock(void *arg) {
    struct fight *f = arg;
    uint64_t seen = 0;
    unsigned failures = 0;
    for (uint64_t i = 0; i < f->times; i++) {
        if (i % 8 == 0) {
            int error = weft_rwlock_write(&f->rwlock, WEFT_NEVER);
            f->inside += 8;
            failures += (error | weft_rwlock_write_unlock(&f->rwlock)) != 0;
        } else {
            int error = weft_rwlock_read(&f->rwlock, WEFT_NEVER);
            failures += f->inside < seen;
            seen = f->inside;
            failures += (error | weft_rwlock_read_unlock(&f->rwlock)) != 0;
        }
    }
    return failures ? -1 : 0;
}

struct start {
    struct fight fight;
    weft_fiber_fn fighter;
    unsigned failed;
};

static int starter(void *arg) {
    struct start *start = arg;
    weft_task *task[FIBERS];
    start->fight.start = bench_now();
    for (int i = 0; i < FIBERS; i++)
        if (weft_fiber_go(NULL, start->fighter, &start->fight, &task[i]) != 0)
            return -1;
    for (int i = 0; i < FIBERS; i++) {
        weft_result result;
        start->failed += weft_join(task[i], &result, WEFT_NEVER) != 0 || result.status != 0;
        weft_task_drop(task[i]);
    }
    start->fight.end = bench_now();
    return 0;
}

static void fight(struct bench_run *run, weft_fiber_fn fighter) {
    struct start start = {.fighter = fighter};
    start.fight.mutex = (weft_mutex)WEFT_MUTEX_INIT;
    start.fight.sem = (weft_sem)WEFT_SEM_INIT(1);
    start.fight.rwlock = (weft_rwlock)WEFT_RWLOCK_INIT;
    start.fight.times = run->quick ? 100000 : 1000000;
    uint64_t count = start.fight.times * FIBERS;
    bench_in_kind(run, NULL, starter, &start, FIBERS + 1);
    bench_check(run, start.failed == 0, "%u fibers failed", start.failed);
    bench_check(run, start.fight.inside == count, "%llu of %llu times inside", (unsigned long long)start.fight.inside,
                (unsigned long long)count);
    run->value[0] = (double)(start.fight.end - start.fight.start) / (double)count;
}

static void mutex(struct bench_run *run) { fight(run, fight_mutex); }
static void sem(struct bench_run *run) { fight(run, fight_sem); }
static void rwlock(struct bench_run *run) { fight(run, fight_rwlock); }

const struct bench_workload bench_mutex = {
    .name = "mutex",
    .about = "8 fibers, each 1 M lock and unlock of one mutex: ns/op",
    .kinds = BENCH_FIBER,
    .figures = {{"mutex", "ns/op", "floor_locked_add"}},
    .run = mutex,
};

const struct bench_workload bench_sem = {
    .name = "sem",
    .about = "8 fibers, each 1 M acquire and release of one permit: ns/op",
    .kinds = BENCH_FIBER,
    .figures = {{"sem", "ns/op", "floor_locked_add"}},
    .run = sem,
};

const struct bench_workload bench_rwlock = {
    .name = "rwlock",
    .about = "8 fibers, each 1 M times a read lock, every eighth time a write lock: ns/op",
    .kinds = BENCH_FIBER,
    .figures = {{"rwlock", "ns/op", "floor_locked_add"}},
    .run = rwlock,
};
