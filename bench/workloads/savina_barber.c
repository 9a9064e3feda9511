/* savina_barber.c - Savina sleeping barber: customers come until each has had a haircut; the waiting room has a thousand seats. */
#include "actor.h"

enum { SEATS = 1000, BARBER = 0, ROOM = 1, FIRST = 2 };
enum { ENTER, NEXT, FULL, CUT, CLOSE }; /* value: what, customer << 4 */

struct room {
    uint64_t seat[SEATS], first, count; /* a queue of customers */
    bool asleep;
};

static bool barber(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    (void)from;
    if (value == CLOSE)
        return true;
    actor->seen++;
    actor_send(actor, stage->pid[FIRST + (value >> 4)], CUT);
    actor_send(actor, stage->pid[ROOM], NEXT);
    return false;
}
static bool room(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    struct room *room = stage->more;
    (void)from;
    if ((value & 15) == ENTER) {
        if (room->count == SEATS) {
            actor_send(actor, stage->pid[FIRST + (value >> 4)], FULL);
            return false;
        }
        room->seat[(room->first + room->count++) % SEATS] = value >> 4;
    } else {
        room->asleep = true;
        actor->seen += value == NEXT;
    }
    if (room->asleep && room->count) {
        actor_send(actor, stage->pid[BARBER], CUT | room->seat[room->first] << 4);
        room->first = (room->first + 1) % SEATS;
        room->count--;
        room->asleep = false;
    }
    if (actor->seen < stage->rounds)
        return false;
    actor_send(actor, stage->pid[BARBER], CLOSE);
    return true;
}
static bool customer(struct actor *actor, uint64_t value, weft_pid from) {
    (void)from;
    if (value == CUT)
        return true;
    actor_send(actor, actor->stage->pid[ROOM], ENTER | (uint64_t)actor->index << 4);
    return false;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    uint64_t go = FULL;
    int error = 0;
    stage->pid[BARBER] = actor_start(stage, barber, 0);
    stage->pid[ROOM] = actor_start(stage, room, 0);
    for (uint32_t i = 0; i < stage->rounds && !error; i++) {
        stage->pid[FIRST + i] = actor_start(stage, customer, i);
        error = weft_send(NULL, stage->pid[FIRST + i], 0, &go, sizeof go);
        if (i % 100 == 99)
            weft_yield();
    }
    return error;
}
static void savina_barber(struct bench_run *run) {
    static struct room waiting_room;
    waiting_room = (struct room){.asleep = true};
    struct stage stage = {.rounds = run->quick ? 1100 : 2000, .more = &waiting_room};
    unsigned actors = (unsigned)stage.rounds + FIRST;
    actor_perform(run, &stage, actors, actors, begin, stage.rounds);
}
const struct bench_workload bench_savina_barber = {
    .name = "savina_barber",
    .about = "Savina sleeping barber: 2,000 customers, 1,000 seats: ns/haircut",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_barber", "ns/haircut", NULL}},
    .run = savina_barber,
};
