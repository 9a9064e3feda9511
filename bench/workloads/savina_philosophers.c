/* savina_philosophers.c - Savina dining philosophers: twenty of them, and a waiter who knows which forks are free. */
#include "actor.h"

enum { SEATS = 20, WAITER = SEATS };
enum { HUNGRY, DONE, LEAVE, EAT, DENIED }; /* value: what, seat << 4 */

struct table {
    bool taken[SEATS]; /* the waiter's */
    bool eating[SEATS]; /* each philosopher's, between EAT and DONE */
};

static bool philosopher(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    struct table *table = stage->more;
    weft_pid waiter = stage->pid[WAITER];
    (void)from;
    if (value == EAT) {
        if (table->eating[(actor->index + 1) % SEATS] || table->eating[(actor->index + SEATS - 1) % SEATS])
            actor_wrong(stage);
        table->eating[actor->index] = true;
        actor->seen++;
        table->eating[actor->index] = false;
        actor_send(actor, waiter, DONE | (uint64_t)actor->index << 4);
        if (actor->seen == stage->rounds) {
            actor_send(actor, waiter, LEAVE | (uint64_t)actor->index << 4);
            return true;
        }
    }
    actor_send(actor, waiter, HUNGRY | (uint64_t)actor->index << 4);
    return false;
}
static bool waiter(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    struct table *table = stage->more;
    uint64_t seat = value >> 4, next = (seat + 1) % SEATS;
    (void)from;
    switch (value & 15) {
    case HUNGRY:
        if (table->taken[seat] || table->taken[next]) {
            actor_send(actor, stage->pid[seat], DENIED);
        } else {
            table->taken[seat] = table->taken[next] = true;
            actor_send(actor, stage->pid[seat], EAT);
        }
        return false;
    case DONE:
        actor->sent++; /* meals */
        table->taken[seat] = table->taken[next] = false;
        return false;
    default:
        if (++actor->seen < SEATS)
            return false;
        if (actor->sent != SEATS * stage->rounds)
            actor_wrong(stage);
        for (int i = 0; i < SEATS; i++)
            if (table->taken[i])
                actor_wrong(stage);
        return true;
    }
}
static int begin(void *arg) {
    struct stage *stage = arg;
    uint64_t go = DENIED;
    int error = 0;
    stage->pid[WAITER] = actor_start(stage, waiter, WAITER);
    for (uint32_t i = 0; i < SEATS; i++)
        stage->pid[i] = actor_start(stage, philosopher, i);
    for (uint32_t i = 0; i < SEATS && !error; i++)
        error = weft_send(NULL, stage->pid[i], 0, &go, sizeof go);
    return error;
}
static void savina_philosophers(struct bench_run *run) {
    struct table table = {{false}, {false}};
    struct stage stage = {.rounds = run->quick ? 1000 : 10000, .more = &table};
    actor_perform(run, &stage, SEATS + 1, SEATS + 1, begin, SEATS * stage.rounds);
}
const struct bench_workload bench_savina_philosophers = {
    .name = "savina_philosophers",
    .about = "Savina philosophers: 20 of them, 10 k meals each: ns/meal",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_philosophers", "ns/meal", NULL}},
    .run = savina_philosophers,
};
