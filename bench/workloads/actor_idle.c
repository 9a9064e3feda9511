/* actor_idle.c - processes that wait for a message: resident bytes each. */
#include "actor.h"

static bool wait(struct actor *actor, uint64_t value, weft_pid from) {
    (void)actor, (void)value, (void)from;
    return true;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    double before = bench_rss();
    for (uint64_t i = 0; i < stage->rounds; i++) {
        stage->pid[i] = actor_start(stage, wait, (uint32_t)i);
        if (i % 1000 == 999)
            weft_yield();
    }
    for (int i = 0; i < 100; i++)
        weft_yield();
    *(double *)stage->more = (bench_rss() - before) / (double)stage->rounds;
    int error = 0;
    for (uint64_t i = 0; i < stage->rounds && !error; i++)
        error = weft_send(NULL, stage->pid[i], 0, &i, sizeof i);
    return error;
}
static void actor_idle(struct bench_run *run) {
    double bytes = 0;
    struct stage stage = {.rounds = run->quick ? 100000 : 1000000, .more = &bytes};
    actor_perform(run, &stage, (unsigned)stage.rounds, (unsigned)stage.rounds, begin, stage.rounds);
    run->value[0] = bytes;
}
const struct bench_workload bench_actor_idle = {
    .name = "actor_idle",
    .about = "a million processes that wait for a message: resident bytes each",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"actor_idle", "bytes", NULL}},
    .run = actor_idle,
};
