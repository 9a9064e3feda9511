/* crowd.h - who is in the crowd (crowd.c): speakers and actors, the places they have, what they say, and how they are born. */
#ifndef WEFT_TEST_CROWD_H
#define WEFT_TEST_CROWD_H

#include "crew.h"

#include <weft/command.h>

enum { HEARD = 128, COMMANDS = 4, STRANGERS = 3, STAY = 1024 };

enum kind { NUMBERED, PING, PONG, PUBLISHED, LOOSE, ASKED };
struct said {
    uint32_t kind, by;
    uint64_t number;
    char more[24]; /* not always: it does not fit into a message */
};
enum { SHORT = offsetof(struct said, more) };

struct speaker {
    uint64_t random;
    uint32_t birth;
    uint64_t published;
    struct {
        weft_pid pid;
        uint64_t next;
    } sent[CREW]; /* to whom is in that place now */
};

struct actor {
    struct speaker speaker;
    unsigned place, left; /* to do */
    bool trap;
    bool stubborn, stays; /* is not to be cancelled; was told that all end, and will not */
    bool doomed; /* one that it is linked to has ended: it is about to */
    bool over;
    unsigned version;
    struct {
        uint32_t by;
        uint64_t next, published;
    } heard[HEARD];
    struct watched monitor[MINE];
    struct {
        weft_pid pid; /* 0: free */
        bool taken_back;
    } link[MINE]; /* those that it made itself, to others in higher places */
    weft_pid exit_of[MINE]; /* the last ones that were linked to it */
    unsigned exits;
    uint64_t command[COMMANDS], commands; /* their tags, 0: free; asked so far */
};

static weft_runtime *runtime;
static _Atomic weft_pid staying[STAY]; /* those that will not end by themselves */
static atomic_uint stayed, opened, closed, lent, given_back, told_of_exit, told_of_end, pongs, upgrades, doomed,
    completed, refused_room;
static atomic_bool done;

static unsigned draw(struct speaker *me, unsigned below) { return draw_of(&me->random, below); }
static weft_pid somebody(struct speaker *me) { return somebody_of(&me->random); }

/* -- Places: every second one is a class; half of them have mailboxes without bound, the others one of each policy. */

static bool is_class(unsigned place) { return place % 2; }
static bool is_bounded(unsigned place) { return place / 2 % 2; }
static weft_mailbox_policy policy_of(unsigned place) { return (weft_mailbox_policy)(place / 4); }
static bool drops(unsigned place) { return is_bounded(place) && policy_of(place) >= WEFT_MAILBOX_DROP_NEWEST; }

/* -- Saying. */

static void give_back(void *data) {
    atomic_fetch_add(&given_back, 1);
    free(data);
}

static int say(struct speaker *me, weft_pid pid, uint32_t kind, uint64_t number, bool waits, bool lends) {
    struct said said = {kind, me->birth, number, ""};
    if (!lends || draw(me, 4))
        return (waits ? weft_send : weft_try_send)(runtime, pid, kind, &said, draw(me, 4) ? SHORT : sizeof said);
    struct said *copy = malloc(sizeof said);
    REQUIRE(copy);
    *copy = said;
    int error = weft_send_ref(runtime, pid, kind, copy, sizeof said, give_back);
    atomic_fetch_add(&lent, !error);
    if (error)
        free(copy);
    return error;
}

/* The next message to who was in that place a moment ago.  waits: for room. */
static int say_next(struct speaker *me, unsigned place, weft_pid pid, uint32_t kind, bool waits) {
    if (me->sent[place].pid != pid) {
        me->sent[place].pid = pid;
        me->sent[place].next = 0;
    }
    bool may_wait = is_bounded(place) && policy_of(place) == WEFT_MAILBOX_BLOCK; /* as what is lent always does */
    int error = say(me, pid, kind, me->sent[place].next, waits, waits || !may_wait);
    REQUIRE(error == 0 || error == -ESRCH || error == -ECANCELED || (error == -ENOBUFS && is_bounded(place)));
    me->sent[place].next += !error;
    atomic_fetch_add(&refused_room, error == -ENOBUFS);
    return error;
}

/* -- Being born. */

static int live(void *arg);
static const weft_process_class of_version[2];

/* Its number, place and whether it traps exits, in one. */
static uintptr_t character(uint32_t birth, unsigned place, bool trap) {
    return (uintptr_t)birth << 8 | place << 1 | trap;
}
static struct actor *open_actor(uintptr_t character) {
    struct actor *me = calloc(1, sizeof *me);
    REQUIRE(me);
    me->speaker.birth = (uint32_t)(character >> 8);
    me->speaker.random = harness_seed() + me->speaker.birth;
    me->place = character >> 1 & (CREW - 1);
    me->trap = character & 1;
    me->left = draw(&me->speaker, 60);
    me->stubborn = me->speaker.birth % 5 == 0;
    atomic_fetch_add(&opened, 1);
    return me;
}
static void close_actor(struct actor *me) {
    atomic_fetch_add(&closed, 1);
    free(me);
}

static int bear(struct speaker *by, unsigned place, weft_pid *pid, uint64_t *monitor, bool linked) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    unsigned number;
    int error = may_bear(runtime, place, &number);
    if (error)
        return error;
    spec.trap_exit = draw(by, 2);
    uintptr_t child = character(number, place, spec.trap_exit);
    if (is_class(place)) {
        spec.class_ = &of_version[0];
        spec.input = &child;
        spec.input_size = sizeof child;
        spec.wake_blocked_on_message = draw(by, 2);
    } else {
        spec.fn = live;
        spec.arg = (void *)child;
    }
    if (is_bounded(place)) {
        spec.max_messages = 1 + draw(by, 4);
        spec.max_bytes = draw(by, 2) ? 200 : 0;
        spec.policy = policy_of(place);
    }
    return bear_as(runtime, place, &spec, pid, monitor, linked);
}

#endif
