/* actor.c - processes that send to each other: ping-pong, a ring of 503, all to all, and many that live for one message.
 * With fibers each is a loop around weft_receive; with polls, a class. */
#include "actor.h"

enum { RING = 503, BIG = 120 };

/* -- Ping-pong ------------------------------------------------------------------------------------- */

static bool pong(struct actor *actor, uint64_t value, weft_pid from) {
    actor_send(actor, from, value + 1);
    return ++actor->seen == actor->stage->rounds;
}
static bool ping(struct actor *actor, uint64_t value, weft_pid from) {
    (void)from;
    if (value != 2 * actor->seen + 1 && actor->sent)
        atomic_fetch_add(&actor->stage->wrong, 1);
    actor->seen += actor->sent != 0;
    if (actor->seen == actor->stage->rounds)
        return true;
    actor->sent++;
    actor_send(actor, actor->stage->pid[1], 2 * actor->seen);
    return false;
}
static int begin_pingpong(void *arg) {
    struct stage *stage = arg;
    uint64_t go = 0;
    stage->pid[1] = actor_start(stage, pong, 1);
    stage->pid[0] = actor_start(stage, ping, 0);
    return weft_send(NULL, stage->pid[0], 0, &go, sizeof go);
}
static void actor_pingpong(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 100000 : 1000000};
    actor_perform(run, &stage, 2, 2, begin_pingpong, stage.rounds);
}
const struct bench_workload bench_actor_pingpong = {
    .name = "actor_pingpong",
    .about = "Savina ping-pong, 1 M round trips of two processes: ns/round trip",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"actor_pingpong", "ns/rtt", NULL}},
    .run = actor_pingpong,
};

/* -- Ring -------------------------------------------------------------------------------------------- */

/* The token counts down; each passes it on, and from 0 on everyone ends who sees it. */
static bool pass_on(struct actor *actor, uint64_t value, weft_pid from) {
    (void)from;
    bool over = value < RING;
    if (value)
        actor_send(actor, actor->stage->pid[(actor->index + 1) % RING], value - 1);
    return over;
}
static int begin_ring(void *arg) {
    struct stage *stage = arg;
    for (uint32_t i = 0; i < RING; i++)
        stage->pid[i] = actor_start(stage, pass_on, i);
    return weft_send(NULL, stage->pid[0], 0, &stage->rounds, sizeof stage->rounds);
}
static void actor_ring(struct bench_run *run) {
    struct stage stage = {.rounds = (run->quick ? 200000 : 2000000)};
    actor_perform(run, &stage, RING, RING, begin_ring, stage.rounds);
}
const struct bench_workload bench_actor_ring = {
    .name = "actor_ring",
    .about = "Savina thread-ring, a token round 503 processes, 2 M hops: ns/hop",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"actor_ring", "ns/hop", NULL}},
    .run = actor_ring,
};

/* -- Big ---------------------------------------------------------------------------------------------- */

/* Each sends `rounds` pings to random others, one after the other, and answers those it gets; when it has all its pongs it tells
 * the last one, which tells everyone to end when all are done. */
enum { BIG_PING, BIG_PONG, BIG_DONE, BIG_END };

static void ping_somebody(struct actor *actor) {
    actor->sent++;
    actor_send(actor, actor->stage->pid[actor_random(&actor->random) % BIG], BIG_PING);
}
static bool big(struct actor *actor, uint64_t value, weft_pid from) {
    switch (value) {
    case BIG_PING:
        if (from)
            actor_send(actor, from, BIG_PONG);
        else
            ping_somebody(actor); /* from the beginner */
        return false;
    case BIG_PONG:
        actor->seen++;
        if (actor->sent < actor->stage->rounds)
            ping_somebody(actor);
        else if (actor->seen == actor->stage->rounds)
            actor_send(actor, actor->stage->pid[BIG], BIG_DONE);
        return false;
    default: return true;
    }
}
static bool sink(struct actor *actor, uint64_t value, weft_pid from) {
    (void)value, (void)from;
    if (++actor->seen < BIG)
        return false;
    for (uint32_t i = 0; i < BIG; i++)
        actor_send(actor, actor->stage->pid[i], BIG_END);
    return true;
}
static int begin_in_big(void *arg) {
    struct stage *stage = arg;
    uint64_t go = BIG_PING;
    int error = 0;
    stage->pid[BIG] = actor_start(stage, sink, BIG);
    for (uint32_t i = 0; i < BIG; i++)
        stage->pid[i] = actor_start(stage, big, i);
    for (uint32_t i = 0; i < BIG && !error; i++)
        error = weft_send(NULL, stage->pid[i], 0, &go, sizeof go);
    return error;
}
static void actor_big(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 1000 : 10000};
    actor_perform(run, &stage, BIG + 1, BIG + 1, begin_in_big, 2 * stage.rounds * BIG);
}
const struct bench_workload bench_actor_big = {
    .name = "actor_big",
    .about = "Savina big: 120 processes ping random others, 10 k times each: ns/message",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"actor_big", "ns/message", NULL}},
    .run = actor_big,
};

/* -- Create ------------------------------------------------------------------------------------------- */

static bool once(struct actor *actor, uint64_t value, weft_pid from) {
    (void)from;
    if (value != actor->index)
        atomic_fetch_add(&actor->stage->wrong, 1);
    return true;
}
static int begin_create(void *arg) {
    struct stage *stage = arg;
    for (uint64_t i = 0; i < stage->rounds; i++) {
        weft_pid pid = actor_start(stage, once, (uint32_t)i);
        if (weft_send(NULL, pid, 0, &i, sizeof i))
            atomic_fetch_add(&stage->wrong, 1);
    }
    return 0;
}
static void actor_create(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 20000 : 200000};
    actor_perform(run, &stage, (unsigned)stage.rounds, (unsigned)stage.rounds, begin_create, stage.rounds);
}
const struct bench_workload bench_actor_create = {
    .name = "actor_create",
    .about = "200 k processes created, one message each: ns/process",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"actor_create", "ns/process", NULL}},
    .run = actor_create,
};
