/* dump_lock.c - weft_dump says who has the lock that a fiber waits for. */
#include "dump_fixture.h"

/* The end of the line of a task, which contains `what`. */
static bool tells(weft_runtime *rt, const char *name, const char *what) {
    char begin[64];
    snprintf(begin, sizeof begin, "\"%s\" idle", name);
    char *line = strstr(dump(rt), begin), *end = line ? strchr(line, '\n') : NULL;
    if (end)
        *end = '\0';
    return line && strstr(line, what);
}

static weft_mutex mutex = WEFT_MUTEX_INIT;
static weft_rwlock rwlock = WEFT_RWLOCK_INIT;
static weft_event go = WEFT_EVENT_INIT;

static int hold_mutex(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_event_wait(&go, WEFT_NEVER), 0);
    return weft_mutex_unlock(&mutex);
}

static int hold_write(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_rwlock_write(&rwlock, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_event_wait(&go, WEFT_NEVER), 0);
    return weft_rwlock_write_unlock(&rwlock);
}

static int hold_read(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_rwlock_read(&rwlock, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_event_wait(&go, WEFT_NEVER), 0);
    return weft_rwlock_read_unlock(&rwlock);
}

static int want_mutex(void *until) {
    int error = weft_mutex_lock(&mutex, until ? *(weft_deadline *)until : WEFT_NEVER);
    return error ? error : weft_mutex_unlock(&mutex);
}

static weft_task *go_named(weft_runtime *rt, weft_fiber_fn fn, void *arg, const char *name) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task = NULL;
    spec.fn = fn;
    spec.arg = arg;
    spec.name = name;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    return task;
}

/* A plain thread's lock has no task to be named; one that is handed over names the next. */
API_TEST(dump_mutex_owner, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[4];
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NOW), 0);
    task[0] = go_named(rt, hold_mutex, NULL, "owner\n");
    REQUIRE_EVENTUALLY(tells(rt, "owner?", "waits for a mutex for "));
    CHECK(tells(rt, "owner?", " s, which no task of this runtime has"));
    task[1] = go_named(rt, want_mutex, NULL, "second");
    REQUIRE_EVENTUALLY(tells(rt, "second", "waits for a mutex"));
    REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    REQUIRE_EVENTUALLY(tells(rt, "second", " s, which task \"owner?\" has"));
    REQUIRE_EVENTUALLY(tells(rt, "owner?", "waits for an event for "));
    CHECK(!tells(rt, "owner?", "which"));
    weft_event_set(&go);
    fixture_finish(task[0]);
    fixture_finish(task[1]);
    weft_event_clear(&go);
    fixture_end(rt);
}

/* Among more tasks than a walk for each would be good for. */
static int wait_for_go(void *arg) {
    (void)arg;
    return weft_event_wait(&go, WEFT_NEVER);
}

API_TEST(dump_mutex_owner_among_many, "", .workers = {2}) {
    enum { MANY = 1100 };
    static weft_task *other[MANY];
    weft_runtime *rt = fixture_begin_patient();
    weft_task *second = NULL, *owner = go_named(rt, hold_mutex, NULL, "owner");
    REQUIRE_EVENTUALLY(tells(rt, "owner", "waits for an event"));
    second = go_named(rt, want_mutex, NULL, "second");
    for (int i = 0; i < MANY; i++)
        other[i] = go_named(rt, wait_for_go, NULL, "other");
    REQUIRE_EVENTUALLY(tells(rt, "second", ", which task \"owner\" has"));
    weft_event_set(&go);
    fixture_finish(owner);
    fixture_finish(second);
    for (int i = 0; i < MANY; i++)
        fixture_finish(other[i]);
    weft_event_clear(&go);
    fixture_end(rt);
}

API_TEST(dump_rwlock_owner, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *first = go_named(rt, hold_write, NULL, "writer"), *reader[2];
    REQUIRE_EVENTUALLY(tells(rt, "writer", "waits for an event"));
    for (int i = 0; i < 2; i++)
        reader[i] = go_named(rt, hold_read, NULL, i ? "reader" : "early");
    REQUIRE_EVENTUALLY(tells(rt, "reader", "waits for a read lock for "));
    CHECK(tells(rt, "reader", " s, which task \"writer\" has"));
    weft_event_set(&go);
    fixture_finish(first);
    for (int i = 0; i < 2; i++)
        fixture_finish(reader[i]);
    weft_event_clear(&go);
    reader[0] = go_named(rt, hold_read, NULL, "early");
    REQUIRE_EVENTUALLY(tells(rt, "early", "waits for an event"));
    first = go_named(rt, hold_write, NULL, "writer");
    REQUIRE_EVENTUALLY(tells(rt, "writer", "waits for a write lock for "));
    CHECK(tells(rt, "writer", " s, which 1 reader has"));
    weft_event_set(&go);
    fixture_finish(reader[0]);
    fixture_finish(first);
    weft_event_clear(&go);
    fixture_end(rt);
}

/* Under the simulator a deadlock says so at once: each has what the other wants. */
struct pair {
    weft_mutex *mine, *theirs;
    weft_barrier *both;
};

static int lock_both(void *arg) {
    struct pair *pair = arg;
    REQUIRE_EQ(weft_mutex_lock(pair->mine, WEFT_NEVER), 0);
    REQUIRE_LE(0, weft_barrier_wait(pair->both, WEFT_NEVER));
    return weft_mutex_lock(pair->theirs, WEFT_NEVER);
}

static int start_both(void *arg) {
    struct pair *pair = arg;
    weft_task *task = go_named(NULL, lock_both, &pair[0], "left"),
              *other = go_named(NULL, lock_both, &pair[1], "right");
    weft_task_drop(other);
    int error = weft_join(task, NULL, WEFT_NEVER);
    weft_task_drop(task);
    return error;
}

static void run_deadlock(void *arg) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_SIM;
    CHECK_EQ(weft_fiber_run(&config, start_both, arg, NULL), -EDEADLK);
}

API_TEST(dump_deadlock, "J6", .sched = "sim") {
    static weft_mutex a = WEFT_MUTEX_INIT, b = WEFT_MUTEX_INIT;
    static weft_barrier both = WEFT_BARRIER_INIT(2);
    static struct pair pair[2] = {{&a, &b, &both}, {&b, &a, &both}};
    const char *said = fixture_said(run_deadlock, pair);
    CHECK_CONTAINS(said, "\"left\" idle joined, waits for a mutex for 0.000 s, which task \"right\" has");
    CHECK_CONTAINS(said, "\"right\" idle, waits for a mutex for 0.000 s, which task \"left\" has");
    CHECK_CONTAINS(said, "\"main\" idle, waits for task \"left\" for 0.000 s\n");
}

/* Locks come and go while they are looked at: on the stacks of fibers, where the next frame lies over them. */
struct shared {
    weft_mutex *mutex;
    weft_rwlock *rwlock;
};

static int use_shared(void *arg) {
    struct shared *shared = arg;
    weft_deadline until = weft_after(50000);
    if (weft_mutex_lock(shared->mutex, until) == 0) {
        weft_yield();
        REQUIRE_EQ(weft_mutex_unlock(shared->mutex), 0);
    }
    if (weft_rwlock_write(shared->rwlock, WEFT_NEVER) == 0) {
        weft_yield();
        REQUIRE_EQ(weft_rwlock_write_unlock(shared->rwlock), 0);
    }
    return 0;
}

static int share(void *arg) {
    (void)arg;
    weft_mutex m = WEFT_MUTEX_INIT;
    weft_rwlock r = WEFT_RWLOCK_INIT;
    struct shared shared = {&m, &r};
    int status;
    WEFT_NURSERY(n, &status) {
        for (int i = 0; i < 4; i++)
            weft_nursery_go(&n, use_shared, &shared, NULL);
    }
    REQUIRE_EQ(weft_mutex_destroy(&m), 0);
    REQUIRE_EQ(weft_rwlock_destroy(&r), 0);
    memset(&m, 0xff, sizeof m);
    memset(&r, 0xff, sizeof r);
    return status;
}

API_TEST(dump_while_locking, "", .workers = {2}) { dump_beside(share, NULL); }
