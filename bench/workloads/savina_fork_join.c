/* savina_fork_join.c - Savina fork-join throughput: sixty actors get ten thousand messages each, in turn, and compute a little for each. */
#include <math.h>

#include "actor.h"

enum { ACTORS = 60 };

static bool compute(struct actor *actor, uint64_t value, weft_pid from) {
    (void)from;
    double angle = (double)value + 37.2;
    volatile double sine = sin(angle), square = sine * sine;
    if (square < 0 || value != actor->seen)
        actor_wrong(actor->stage);
    return ++actor->seen == actor->stage->rounds;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    int error = 0;
    for (uint32_t i = 0; i < ACTORS; i++)
        stage->pid[i] = actor_start(stage, compute, i);
    for (uint64_t round = 0; round < stage->rounds && !error; round++)
        for (uint32_t i = 0; i < ACTORS && !error; i++)
            error = weft_send(NULL, stage->pid[i], 0, &round, sizeof round);
    return error;
}
static void savina_fork_join(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 1000 : 10000};
    actor_perform(run, &stage, ACTORS, ACTORS, begin, ACTORS * stage.rounds);
}
const struct bench_workload bench_savina_fork_join = {
    .name = "savina_fork_join",
    .about = "Savina fork-join throughput: 60 processes, 10 k messages each: ns/message",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_fork_join", "ns/message", NULL}},
    .run = savina_fork_join,
};
