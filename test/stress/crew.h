/* crew.h - what the tests with processes at random share: places in which one is born after the other, names, and what is told held against what
 * was asked for. */
#ifndef WEFT_TEST_CREW_H
#define WEFT_TEST_CREW_H

#include "../api/process.h"

enum { CREW = 16, MINE = 6, NAMES = 4 };

static _Atomic weft_pid crew[CREW]; /* some may have ended */
static atomic_uint born, to_bear;
static atomic_bool stopping;
static const char *const name_of[NAMES] = {"a", "b", "c", "d"};

static inline unsigned draw_of(uint64_t *random, unsigned below) {
    return (unsigned)(harness_random(random) >> 24) % below;
}
static inline weft_pid somebody_of(uint64_t *random) { return atomic_load(&crew[draw_of(random, CREW)]); }

/* -- Being born. */

/* Another one in that place?  Then *number is its. */
static inline int may_bear(weft_runtime *rt, unsigned place, unsigned *number) {
    if (weft_process_is_alive(rt, atomic_load(&crew[place])))
        return -EEXIST; /* they would become more and more */
    *number = atomic_fetch_add(&born, 1);
    return *number < atomic_load(&to_bear) ? 0 : -ENOENT;
}

static inline int bear_as(weft_runtime *rt, unsigned place, const weft_process_spec *spec, weft_pid *pid,
                          uint64_t *monitor, bool linked) {
    int error = monitor  ? weft_process_spawn_monitored(spec, pid, monitor)
                : linked ? weft_process_spawn_linked(spec, pid)
                         : weft_process_spawn(rt, spec, pid, NULL);
    REQUIRE(error == 0 || (atomic_load(&stopping) && (error == -ESHUTDOWN || error == -ECANCELED)));
    if (!error)
        atomic_store(&crew[place], *pid);
    return error;
}

/* As long as there is something to bear, nobody's place stays empty. */
static inline void keep_full(void (*bear_in)(unsigned place, void *arg), void *arg) {
    while (atomic_load(&born) < atomic_load(&to_bear) && !atomic_load(&stopping)) {
        for (unsigned i = 0; i < CREW; i++)
            bear_in(i, arg);
        weft_yield();
    }
}

/* All have ended, and their names are free. */
static inline void check_gone(weft_runtime *rt) {
    for (unsigned i = 0; i < NAMES; i++)
        CHECK_EQ(weft_whereis(rt, name_of[i]), WEFT_PID_NONE);
    CHECK_EQ(weft_publish(rt, "g", 0, NULL, 0), 0);
}

/* -- Monitors. */

struct watched {
    uint64_t number; /* 0: free */
    weft_pid pid;
    bool late; /* weft_demonitor said so */
    bool ping; /* it is to answer */
};

/* A monitor tells once, of its own process, when that has ended and its names are free. */
static inline void hear_end(struct watched *mine, const weft_message *m) {
    unsigned i = 0;
    while (i < MINE && mine[i].number != m->tag)
        i++;
    REQUIRE_LT(i, MINE); /* one of ours, and the first time */
    REQUIRE_EQ(m->from, mine[i].pid);
    REQUIRE_LE(m->error, 0);
    REQUIRE(!weft_process_is_alive(NULL, m->from));
    for (unsigned j = 0; j < NAMES; j++)
        REQUIRE(m->from == WEFT_PID_NONE || weft_whereis(NULL, name_of[j]) != m->from); /* or a place was empty */
    mine[i].number = 0;
    mine[i].ping = false; /* it may be read before the answer, which comes to nobody then */
}

/* False: it has come, or will. */
static inline bool take_back(struct watched *one) {
    int error = weft_demonitor(one->number);
    REQUIRE(error == -ESRCH || (error == 0 && !one->late));
    one->late = true;
    if (!error)
        one->number = 0;
    return !error;
}

/* -- Questions, and what anybody may do to anybody. */

static inline void check_asked(int error, weft_pid to) {
    REQUIRE(error == 0 || error == -ETIMEDOUT || error == -ECANCELED || error == -ENOBUFS ||
            (error == -ESRCH && !weft_process_is_alive(NULL, to)) || (error == -EDEADLK && to == weft_self()));
}

static inline void meddle_with(weft_runtime *rt, uint64_t *random, weft_pid pid) {
    const char *name = name_of[draw_of(random, NAMES)];
    switch (draw_of(random, 10)) {
    case 0: weft_process_exit(rt, pid, -EPIPE); break;
    case 1: weft_process_cancel(rt, pid); break;
    case 2:
    case 3: weft_register(rt, name, pid); break;
    case 4:
    case 5: weft_unregister(rt, name); break;
    case 6:
    case 7: weft_group_join(rt, "g", pid); break;
    default: weft_group_leave(rt, "g", pid); break;
    }
}

#endif
