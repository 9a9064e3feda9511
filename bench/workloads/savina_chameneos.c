/* savina_chameneos.c - Savina chameneos: a hundred creatures meet in pairs at the mall, and change their colours. */
#include "actor.h"

enum { CREATURES = 100, MALL = CREATURES };
enum { MEET, CHANGE, END, COUNT }; /* value: what, colour << 4, a creature's index << 8, or a count << 8 */

static uint64_t value_of(uint64_t what, uint64_t colour, uint64_t number) { return what | colour << 4 | number << 8; }

/* Of three colours: the same stays, two become the third. */
static uint64_t blend(uint64_t a, uint64_t b) { return a == b ? a : 3 - a - b; }

/* number: its colour. */
static bool creature(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    uint64_t colour = value >> 4 & 15;
    (void)from;
    switch (value & 15) {
    case MEET: /* we were waiting: the other hears from us */
        actor->number = blend(actor->number, colour);
        actor_send(actor, stage->pid[value >> 8], value_of(CHANGE, actor->number, 0));
        break;
    case CHANGE: actor->number = colour; break;
    default: actor_send(actor, stage->pid[MALL], value_of(COUNT, 0, actor->seen)); return true;
    }
    actor->seen++;
    actor_send(actor, stage->pid[MALL], value_of(MEET, actor->number, actor->index));
    return false;
}
/* number: who waits, 1 + index; sent: meetings; seen: who has reported. */
static bool mall(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    (void)from;
    if ((value & 15) == COUNT) {
        *(uint64_t *)stage->more += value >> 8;
        if (++actor->seen < CREATURES)
            return false;
        if (*(uint64_t *)stage->more != 2 * stage->rounds)
            actor_wrong(stage);
        return true;
    }
    if (actor->sent == stage->rounds) {
        actor_send(actor, stage->pid[value >> 8], END);
    } else if (!actor->number) {
        actor->number = 1 + (value >> 8);
    } else {
        actor_send(actor, stage->pid[actor->number - 1], value);
        actor->number = 0;
        actor->sent++;
    }
    return false;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    int error = 0;
    stage->pid[MALL] = actor_start_with(stage, mall, 0, WEFT_PID_NONE, 0, NULL);
    for (uint32_t i = 0; i < CREATURES; i++)
        stage->pid[i] = actor_start_with(stage, creature, i, WEFT_PID_NONE, i % 3, NULL);
    for (uint32_t i = 0; i < CREATURES && !error; i++) {
        uint64_t meet = value_of(MEET, i % 3, i);
        error = weft_send(NULL, stage->pid[MALL], 0, &meet, sizeof meet);
    }
    return error;
}
static void savina_chameneos(struct bench_run *run) {
    uint64_t meetings = 0; /* the mall's, of all creatures */
    struct stage stage = {.rounds = run->quick ? 20000 : 200000, .more = &meetings};
    actor_perform(run, &stage, CREATURES + 1, CREATURES + 1, begin, stage.rounds);
}
const struct bench_workload bench_savina_chameneos = {
    .name = "savina_chameneos",
    .about = "Savina chameneos: 100 creatures, 200 k meetings: ns/meeting",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_chameneos", "ns/meeting", NULL}},
    .run = savina_chameneos,
};
