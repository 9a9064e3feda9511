/* floor_messages.c - what actor_big costs without any runtime: the same 120 actors and messages, and nothing around them.
 *
 * A thread has a queue of messages, takes the oldest and calls the actor it is for.  No mailboxes, no scheduler, nobody is woken, and nothing is taken
 * from another: an actor belongs to one thread for good.  With two threads, half of the actors each, a message to the other's goes through a ring that
 * one writes and one reads; both are looked at and published after each sixteen messages.  There are 120 messages under way, never more, so what
 * two threads reach is not half of what one needs: it is bounded by how long a line takes from one to the other. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"

enum { ACTORS = 120, ROOM = 1024, LOOK = 16, WORK = 40 };
enum { PING, PONG };
enum { ONE, TWO, ONE_WORK, TWO_WORK };

struct message {
    _Alignas(64) struct message *next;
    struct actor *from, *to;
    uint64_t kind;
};

struct actor {
    _Alignas(64) uint64_t random, sent, seen;
    unsigned home;
};

/* From one thread to the other. */
struct way {
    _Alignas(128) _Atomic uint64_t published;
    _Alignas(128) uint64_t written; /* the writer's own */
    _Alignas(128) uint64_t read; /* the reader's own */
    _Alignas(128) struct message *slot[ROOM];
};

struct side {
    _Alignas(128) struct message *queue[ROOM];
    uint64_t first, last, handled;
    struct message *unused;
    unsigned index;
    struct stage *stage;
};

struct stage {
    struct actor actor[ACTORS];
    struct side side[2];
    struct way to[2];
    unsigned threads, work;
    uint64_t rounds;
    _Alignas(128) _Atomic unsigned left; /* actors that wait for pongs */
};

static void send(struct side *side, struct actor *from, struct actor *to, uint64_t kind) {
    struct message *message = side->unused;
    side->unused = message->next;
    *message = (struct message){NULL, from, to, kind};
    if (to->home == side->index) {
        side->queue[side->last++ % ROOM] = message;
    } else {
        struct way *way = &side->stage->to[to->home];
        way->slot[way->written++ % ROOM] = message;
    }
}

static void handle(struct side *side, struct message *message) {
    struct stage *stage = side->stage;
    struct actor *self = message->to;
    if (message->kind == PING && message->from) {
        send(side, self, message->from, PONG);
        return;
    }
    self->seen += message->kind == PONG;
    if (self->sent < stage->rounds) {
        self->sent++;
        self->random ^= self->random << 13;
        self->random ^= self->random >> 7;
        self->random ^= self->random << 17;
        send(side, self, &stage->actor[self->random % ACTORS], PING);
    } else if (self->seen == stage->rounds) {
        atomic_fetch_sub(&stage->left, 1);
    }
}

/* Publish what we have written, and take what the other has. */
static void exchange(struct side *side) {
    struct way *out = &side->stage->to[!side->index], *in = &side->stage->to[side->index];
    if (atomic_load_explicit(&out->published, memory_order_relaxed) != out->written)
        atomic_store_explicit(&out->published, out->written, memory_order_release);
    uint64_t until = atomic_load_explicit(&in->published, memory_order_acquire);
    for (; in->read != until; in->read++) {
        struct message *message = in->slot[in->read % ROOM];
        __builtin_prefetch(message, 1);
        side->queue[side->last++ % ROOM] = message;
    }
}

/* So many multiplications, each of the last one's result. */
static void work(uint64_t x, unsigned count) {
    while (count--) {
        x *= x | 1;
        __asm__ volatile("" : "+r"(x));
    }
}

static void *run_side(void *arg) {
    struct side *side = arg;
    struct stage *stage = side->stage;
    bench_pin((int)side->index);
    for (unsigned turn = 1; atomic_load_explicit(&stage->left, memory_order_relaxed); turn++) {
        if (stage->threads > 1 && (turn % LOOK == 0 || side->first == side->last))
            exchange(side);
        if (side->first == side->last)
            continue;
        struct message *message = side->queue[side->first++ % ROOM];
        work(turn, stage->work);
        handle(side, message);
        side->handled++;
        message->next = side->unused;
        side->unused = message;
    }
    return NULL;
}

/* ns a message. */
static double perform(struct bench_run *run, unsigned threads, unsigned work) {
    struct stage *stage = aligned_alloc(128, sizeof *stage);
    struct message *all = aligned_alloc(64, 2 * ROOM * sizeof *all);
    double value = 0;
    if (!bench_check(run, stage && all, "no memory"))
        goto out;
    memset(stage, 0, sizeof *stage);
    stage->threads = threads;
    stage->work = work;
    stage->rounds = run->quick ? 1000 : 10000;
    atomic_store(&stage->left, ACTORS);
    for (unsigned i = 0; i < 2; i++)
        stage->side[i].index = i, stage->side[i].stage = stage;
    for (unsigned i = 0; i < 2 * ROOM; i++) {
        struct side *side = &stage->side[i % threads];
        all[i].next = side->unused;
        side->unused = &all[i];
    }
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &stage->actor[i];
        actor->random = i * UINT64_C(0x9e3779b97f4a7c15) + 1;
        actor->home = i % threads;
        send(&stage->side[actor->home], NULL, actor, PING);
    }
    cpu_set_t before;
    pthread_t thread;
    sched_getaffinity(0, sizeof before, &before);
    int64_t start = bench_now();
    if (bench_check(run, threads == 1 || pthread_create(&thread, NULL, run_side, &stage->side[1]) == 0, "no thread")) {
        run_side(&stage->side[0]);
        if (threads > 1)
            pthread_join(thread, NULL);
    }
    uint64_t messages = 2 * stage->rounds * ACTORS;
    value = (double)(bench_now() - start) / (double)messages;
    sched_setaffinity(0, sizeof before, &before);
    uint64_t handled = stage->side[0].handled + stage->side[1].handled;
    bench_check(run, handled == messages + ACTORS, "%llu messages came, of %llu", (unsigned long long)handled,
                (unsigned long long)(messages + ACTORS));
out:
    free(all);
    free(stage);
    return value;
}

static void floor_messages(struct bench_run *run) {
    run->value[ONE] = perform(run, 1, 0);
    run->value[ONE_WORK] = perform(run, 1, WORK);
    if (bench_cpus() < 2)
        return;
    run->value[TWO] = perform(run, 2, 0);
    run->value[TWO_WORK] = perform(run, 2, WORK);
}

const struct bench_workload bench_floor_messages = {
    .name = "floor_messages",
    .about = "actor_big without a runtime, by one thread and by two; and with 40 multiplications a message: ns",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .of_machine = true,
    .figures = {[ONE] = {"floor_messages_1", "ns/message", NULL},
                [TWO] = {"floor_messages_2", "ns/message", NULL},
                [ONE_WORK] = {"floor_messages_1_work", "ns/message", NULL},
                [TWO_WORK] = {"floor_messages_2_work", "ns/message", NULL}},
    .run = floor_messages,
};
