/* storm.c - everything at once: spawns, joins, cancels, wakes and drops from several threads, and the books must balance. */
#include "../api/fixture.h"

enum { THREADS = 3, SLOTS = 64 };

/* What a task may do; all of them count their polls and their drop. */
enum kind { KIND_COUNT, KIND_YIELD, KIND_WAIT, KIND_SPAWN, KIND_SHIELD, KINDS };

struct note {
    atomic_uint polls, drops;
    enum kind kind;
    bool detached; /* nobody looks at this note after the end */
    pthread_mutex_t lock;
    weft_waker waker; /* of a waiting task */
    atomic_bool open;
    unsigned steps;
};

struct slot {
    weft_task *task;
    struct note *note;
};

static struct {
    weft_runtime *rt;
    atomic_uint spawned, refused, dropped, ended, cancelled;
    unsigned rounds;
} storm;

static void forget(void *state) {
    struct note *note = *(struct note **)state;
    REQUIRE_EQ(atomic_fetch_add(&note->drops, 1), 0); /* once */
    pthread_mutex_lock(&note->lock);
    weft_waker waker = note->waker;
    note->waker.target = NULL;
    pthread_mutex_unlock(&note->lock);
    weft_waker_drop(waker);
    atomic_fetch_add(&storm.dropped, 1);
    if (note->detached)
        free(note);
}

static weft_poll act(weft_task *self, void *state);

/* The note of a new task; NULL when it was refused. */
static struct note *start(weft_runtime *rt, enum kind kind, unsigned steps, weft_task **task) {
    weft_spec spec = WEFT_SPEC_INIT;
    struct note *note = calloc(1, sizeof *note);
    REQUIRE(note);
    note->kind = kind;
    note->steps = steps;
    note->detached = !task;
    pthread_mutex_init(&note->lock, NULL);
    spec.poll = act;
    spec.state = &note;
    spec.state_size = sizeof note;
    spec.drop = forget;
    if (weft_spawn(rt, &spec, task) == 0) {
        atomic_fetch_add(&storm.spawned, 1);
        return note;
    }
    atomic_fetch_add(&storm.refused, 1);
    free(note);
    return NULL;
}

static weft_poll act(weft_task *self, void *state) {
    struct note *note = *(struct note **)state;
    unsigned polls = atomic_fetch_add(&note->polls, 1);
    REQUIRE_EQ(note->drops, 0); /* never entered after its end */
    switch (note->kind) {
    case KIND_YIELD:
        if (polls < note->steps)
            return WEFT_YIELD;
        break;
    case KIND_WAIT:
        pthread_mutex_lock(&note->lock);
        if (!note->waker.target)
            note->waker = weft_waker_of(self);
        pthread_mutex_unlock(&note->lock);
        if (!atomic_load(&note->open))
            return WEFT_PENDING;
        break;
    case KIND_SPAWN:
        if (note->steps)
            start(NULL, KIND_SPAWN, note->steps - 1, NULL);
        break;
    case KIND_SHIELD:
        if (polls == 0)
            REQUIRE_EQ(weft_shield(self), 0);
        if (polls < note->steps)
            return WEFT_YIELD;
        REQUIRE_EQ(weft_unshield(self), 0);
        break;
    default: break;
    }
    return weft_done(self, -(int)note->kind, note);
}

static void wake(struct note *note) {
    atomic_store(&note->open, true);
    pthread_mutex_lock(&note->lock);
    weft_waker waker = weft_waker_clone(note->waker);
    pthread_mutex_unlock(&note->lock);
    weft_waker_wake(waker);
}

static void judge(struct slot *slot, weft_result result) {
    REQUIRE_EQ(slot->note->drops, 1); /* before the result can be seen */
    if (result.status == -ECANCELED) {
        CHECK_EQ(result.value, NULL);
        atomic_fetch_add(&storm.cancelled, 1);
    } else {
        CHECK_EQ(result.status, -(int)slot->note->kind);
        CHECK_EQ(result.value, slot->note);
        CHECK_GE(slot->note->polls, 1);
        atomic_fetch_add(&storm.ended, 1);
    }
    weft_task_drop(slot->task);
    free(slot->note);
    slot->task = NULL;
}

static void be_a_driver(unsigned index, void *arg) {
    struct slot slots[SLOTS] = {{NULL, NULL}};
    uint64_t random = harness_seed() * THREADS + index;
    (void)arg;
    for (unsigned i = 0; i < storm.rounds; i++) {
        struct slot *slot = &slots[harness_random(&random) % SLOTS];
        uint64_t dice = harness_random(&random) % 16;
        if (!slot->task) {
            unsigned steps = (unsigned)(harness_random(&random) % 20);
            slot->note = start(storm.rt, (enum kind)(dice % KINDS), steps, &slot->task);
            continue;
        }
        weft_result result = {1, NULL};
        if (dice < 3)
            weft_task_cancel(slot->task);
        if (dice < 8)
            wake(slot->note);
        if (dice % 3 == 0) {
            int error = weft_join(slot->task, &result, dice < 8 ? WEFT_NEVER : weft_after(20000));
            REQUIRE(error == 0 || error == -ETIMEDOUT);
            if (error == 0)
                judge(slot, result);
        } else if (weft_task_is_done(slot->task)) {
            REQUIRE_EQ(weft_join(slot->task, &result, WEFT_NOW), 0);
            judge(slot, result);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        weft_result result = {1, NULL};
        if (!slots[i].task)
            continue;
        i % 2 ? weft_task_cancel(slots[i].task) : wake(slots[i].note);
        REQUIRE_EQ(weft_join(slots[i].task, &result, fixture_soon()), 0);
        judge(&slots[i], result);
    }
}

API_TEST(storm_balances, "B48 B49 B52 B54", .workers = {1, 2, 4}, .timeout = 60) {
    storm.rounds = harness_is_slow() ? 5000 : fixture_on("reactor") ? 30000 : 150000;
    storm.rt = fixture_begin_patient();
    harness_threads(THREADS, be_a_driver, NULL);
    CHECK_EQ(weft_runtime_stop(storm.rt, fixture_soon()), 0);
    weft_stats stats = fixture_stats(storm.rt);
    CHECK_EQ(stats.spawned, storm.spawned);
    CHECK_EQ(stats.completed, storm.spawned);
    CHECK_EQ(storm.dropped, storm.spawned);
    CHECK_LE(storm.cancelled, stats.cancelled);
    printf("%u spawned, %u refused, %u ended, %u cancelled, %llu polls\n", storm.spawned, storm.refused, storm.ended,
           storm.cancelled, (unsigned long long)stats.polls);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(storm.rt), 0);
}
