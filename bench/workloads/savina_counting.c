/* savina_counting.c - Savina counting: one sends a million ones, the other adds, and is asked for the sum. */
#include "actor.h"

enum { ADD, ASK };

static bool count(struct actor *actor, uint64_t value, weft_pid from) {
    if (value == ADD) {
        actor->seen++;
        return false;
    }
    actor_send(actor, from, actor->seen);
    return true;
}
static bool produce(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    if (from) { /* the answer */
        if (value != stage->rounds)
            actor_wrong(stage);
        return true;
    }
    for (uint64_t i = 0; i < stage->rounds; i++)
        actor_send(actor, stage->pid[0], ADD);
    actor_send(actor, stage->pid[0], ASK);
    return false;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    uint64_t go = 0;
    stage->pid[0] = actor_start(stage, count, 0);
    stage->pid[1] = actor_start(stage, produce, 1);
    return weft_send(NULL, stage->pid[1], 0, &go, sizeof go);
}
static void savina_counting(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 100000 : 1000000};
    actor_perform(run, &stage, 2, 2, begin, stage.rounds);
}
const struct bench_workload bench_savina_counting = {
    .name = "savina_counting",
    .about = "Savina counting, a million messages one way, then the sum: ns/message",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_counting", "ns/message", NULL}},
    .run = savina_counting,
};
