/* actor.c - processes that send to each other: ping-pong, a ring of 503, all to all, and many that live for one message.
 * With fibers each is a loop around weft_receive; with polls, a class. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/bench.h"

enum { RING = 503, BIG = 120 };

/* What the actors of a run share. */
struct stage {
    struct bench_run *run;
    weft_runtime *rt;
    uint64_t rounds; /* an actor's, or in all */
    atomic_ullong wrong;
    atomic_uint left; /* actors that have not ended */
    _Atomic int64_t end;
    weft_pid *pid;
};

/* An actor: a function that is called with each message, and ends it by returning true. */
struct actor;
typedef bool (*actor_fn)(struct actor *actor, uint64_t value, weft_pid from);

struct actor {
    actor_fn fn;
    struct stage *stage;
    uint64_t sent, seen, random;
    uint32_t index;
};

static void send_to(struct actor *actor, weft_pid to, uint64_t value) {
    if (weft_send(NULL, to, 0, &value, sizeof value))
        atomic_fetch_add(&actor->stage->wrong, 1);
}

static void actor_ends(struct actor *actor) {
    if (atomic_fetch_sub(&actor->stage->left, 1) == 1)
        atomic_store(&actor->stage->end, bench_now());
}

static int fiber_actor(void *arg) {
    struct actor *given = arg, actor = *given;
    weft_message m;
    free(given);
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE) {
        uint64_t value;
        memcpy(&value, m.data, sizeof value);
        if (actor.fn(&actor, value, m.from)) {
            actor_ends(&actor);
            return 0;
        }
    }
    return -EIO;
}

static int class_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(state, input, size);
    return 0;
}
static int class_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct actor *actor = state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        if (events[i].type != WEFT_MESSAGE)
            return -EIO;
        memcpy(&value, events[i].data, sizeof value);
        if (actor->fn(actor, value, events[i].from)) {
            actor_ends(actor);
            out->status = WEFT_STEP_DONE;
            break;
        }
    }
    return 0;
}
static const weft_process_class actor_class = {.size = sizeof actor_class,
                                               .name = "actor",
                                               .state_size = sizeof(struct actor),
                                               .init = class_init,
                                               .step = class_step};

static weft_pid start(struct stage *stage, actor_fn fn, uint32_t index) {
    struct actor actor = {.fn = fn, .stage = stage, .index = index, .random = index * UINT64_C(0x9e3779b97f4a7c15) + 1};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid = WEFT_PID_NONE;
    if (stage->run->kind == BENCH_FIBER) {
        struct actor *given = malloc(sizeof *given);
        if (!given)
            return WEFT_PID_NONE;
        *given = actor;
        spec.fn = fiber_actor;
        spec.arg = given;
    } else {
        spec.class_ = &actor_class;
        spec.input = &actor;
        spec.input_size = sizeof actor;
    }
    if (weft_process_spawn(NULL, &spec, &pid, NULL))
        atomic_fetch_add(&stage->wrong, 1);
    return pid;
}

/* Runs `begin` in a task of the runtime, waits until all actors have ended, and gives ns an op. */
static void perform(struct bench_run *run, struct stage *stage, unsigned actors, weft_fiber_fn begin, uint64_t ops) {
    stage->run = run;
    atomic_store(&stage->left, actors);
    stage->pid = calloc(actors, sizeof *stage->pid);
    stage->rt = stage->pid ? bench_open(run) : NULL;
    if (!bench_check(run, stage->rt != NULL, "no memory"))
        return;
    weft_task *first;
    weft_result result;
    int64_t began = bench_now();
    if (bench_check(run, weft_fiber_go(stage->rt, begin, stage, &first) == 0, "no memory")) {
        weft_join(first, &result, WEFT_NEVER);
        weft_task_drop(first);
    }
    while (atomic_load(&stage->left) && !atomic_load(&stage->wrong))
        bench_sleep_us(200);
    bench_check(run, atomic_load(&stage->wrong) == 0, "%llu messages were lost",
                (unsigned long long)atomic_load(&stage->wrong));
    run->value[0] = (double)(atomic_load(&stage->end) - began) / (double)ops;
    bench_close(run, stage->rt, actors + 1);
    free(stage->pid);
}

/* -- Ping-pong ------------------------------------------------------------------------------------- */

static bool pong(struct actor *actor, uint64_t value, weft_pid from) {
    send_to(actor, from, value + 1);
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
    send_to(actor, actor->stage->pid[1], 2 * actor->seen);
    return false;
}
static int begin_pingpong(void *arg) {
    struct stage *stage = arg;
    uint64_t go = 0;
    stage->pid[1] = start(stage, pong, 1);
    stage->pid[0] = start(stage, ping, 0);
    return weft_send(NULL, stage->pid[0], 0, &go, sizeof go);
}
static void actor_pingpong(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 100000 : 1000000};
    perform(run, &stage, 2, begin_pingpong, stage.rounds);
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
        send_to(actor, actor->stage->pid[(actor->index + 1) % RING], value - 1);
    return over;
}
static int begin_ring(void *arg) {
    struct stage *stage = arg;
    for (uint32_t i = 0; i < RING; i++)
        stage->pid[i] = start(stage, pass_on, i);
    return weft_send(NULL, stage->pid[0], 0, &stage->rounds, sizeof stage->rounds);
}
static void actor_ring(struct bench_run *run) {
    struct stage stage = {.rounds = (run->quick ? 200000 : 2000000)};
    perform(run, &stage, RING, begin_ring, stage.rounds);
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
    actor->random ^= actor->random << 13;
    actor->random ^= actor->random >> 7;
    actor->random ^= actor->random << 17;
    actor->sent++;
    send_to(actor, actor->stage->pid[actor->random % BIG], BIG_PING);
}
static bool big(struct actor *actor, uint64_t value, weft_pid from) {
    switch (value) {
    case BIG_PING:
        if (from)
            send_to(actor, from, BIG_PONG);
        else
            ping_somebody(actor); /* from the beginner */
        return false;
    case BIG_PONG:
        actor->seen++;
        if (actor->sent < actor->stage->rounds)
            ping_somebody(actor);
        else if (actor->seen == actor->stage->rounds)
            send_to(actor, actor->stage->pid[BIG], BIG_DONE);
        return false;
    default: return true;
    }
}
static bool sink(struct actor *actor, uint64_t value, weft_pid from) {
    (void)value, (void)from;
    if (++actor->seen < BIG)
        return false;
    for (uint32_t i = 0; i < BIG; i++)
        send_to(actor, actor->stage->pid[i], BIG_END);
    return true;
}
static int begin_in_big(void *arg) {
    struct stage *stage = arg;
    uint64_t go = BIG_PING;
    int error = 0;
    stage->pid[BIG] = start(stage, sink, BIG);
    for (uint32_t i = 0; i < BIG; i++)
        stage->pid[i] = start(stage, big, i);
    for (uint32_t i = 0; i < BIG && !error; i++)
        error = weft_send(NULL, stage->pid[i], 0, &go, sizeof go);
    return error;
}
static void actor_big(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 1000 : 10000};
    perform(run, &stage, BIG + 1, begin_in_big, 2 * stage.rounds * BIG);
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
        weft_pid pid = start(stage, once, (uint32_t)i);
        if (weft_send(NULL, pid, 0, &i, sizeof i))
            atomic_fetch_add(&stage->wrong, 1);
        if (i % 1000 == 999)
            weft_yield();
    }
    return 0;
}
static void actor_create(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 20000 : 200000};
    perform(run, &stage, (unsigned)stage.rounds, begin_create, stage.rounds);
}
const struct bench_workload bench_actor_create = {
    .name = "actor_create",
    .about = "200 k processes created, one message each: ns/process",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"actor_create", "ns/process", NULL}},
    .run = actor_create,
};
