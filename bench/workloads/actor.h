/* actor.h - what the benches of processes share: actors that are called with a number, as fibers or as classes. */
#ifndef BENCH_ACTOR_H
#define BENCH_ACTOR_H

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/bench.h"

/* What the actors of a run share. */
struct stage {
    struct bench_run *run;
    weft_runtime *rt;
    uint64_t rounds; /* an actor's, or in all */
    atomic_ullong wrong;
    atomic_uint left; /* actors that have not ended */
    atomic_uint started;
    bool growing; /* actors are started as it goes on: they are counted */
    _Atomic int64_t end;
    weft_pid *pid;
    void *more; /* the bench's own */
};

/* An actor: a function that is called with each message, and ends it by returning true. */
struct actor;
typedef bool (*actor_fn)(struct actor *actor, uint64_t value, weft_pid from);

struct actor {
    actor_fn fn;
    struct stage *stage;
    uint64_t sent, seen, random;
    uint32_t index;
    /* From here on only with actor_start_with: the bench's own. */
    weft_pid peer;
    uint64_t number;
    void *data;
};

void actor_send(struct actor *actor, weft_pid to, uint64_t value);
weft_pid actor_start(struct stage *stage, actor_fn fn, uint32_t index);
/* The same with what is its own. */
weft_pid actor_start_with(struct stage *stage, actor_fn fn, uint32_t index, weft_pid peer, uint64_t number, void *data);
/* Something is not as it must be. */
static inline void actor_wrong(struct stage *stage) { atomic_fetch_add(&stage->wrong, 1); }

/* Runs `begin` in a fiber of the runtime, waits until all actors have ended, and gives ns an op.  actors 0: they are counted as they
 * are started.  stage->pid has room for `pids`. */
void actor_perform(struct bench_run *run, struct stage *stage, unsigned actors, unsigned pids, weft_fiber_fn begin,
                   uint64_t ops);

static inline uint64_t actor_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
