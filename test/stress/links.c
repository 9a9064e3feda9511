/* links.c - processes that do everything to each other at random: links, monitors, questions, names, ends.  What each is told is held against what it
 * asked for: a monitor tells once, of its own process, and when that has ended and its names are free; an answer is to the question; an end that has
 * come is heard of. */
#include "../api/process.h"

enum { CREW = 24, MINE = 8, NAMES = 4 };

static _Atomic weft_pid crew[CREW]; /* some may have ended */
static atomic_uint born, to_bear, downs, taken_back, exits, answers, ended_by_others;
static const char *const name_of[NAMES] = {"a", "b", "c", "d"};

struct actor {
    uint64_t random;
    struct {
        uint64_t number; /* 0: free */
        weft_pid pid;
        bool late; /* weft_demonitor said so */
    } monitor[MINE];
    weft_message question; /* to be answered later; from 0: none */
    uint64_t asked; /* its number */
};

static unsigned draw(struct actor *me, unsigned below) { return (unsigned)(harness_random(&me->random) >> 24) % below; }
static weft_pid somebody(struct actor *me) { return atomic_load(&crew[draw(me, CREW)]); }

static int live(void *arg);

/* Another one in that place. */
static int bear(struct actor *me, unsigned place, weft_pid *pid, uint64_t *monitor, bool linked) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    if (weft_process_is_alive(NULL, atomic_load(&crew[place])))
        return -EEXIST; /* they would become more and more */
    unsigned number = atomic_fetch_add(&born, 1);
    if (number >= atomic_load(&to_bear))
        return -ENOENT;
    spec.fn = live;
    spec.arg = (void *)(uintptr_t)number;
    switch (me ? draw(me, 4) : 0) {
    case 0: spec.trap_exit = true; break;
    case 1:
        spec.max_messages = 3;
        spec.policy = (weft_mailbox_policy)draw(me, 4);
        break;
    default: break;
    }
    int error = monitor  ? weft_process_spawn_monitored(&spec, pid, monitor)
                : linked ? weft_process_spawn_linked(&spec, pid)
                         : weft_process_spawn(NULL, &spec, pid, NULL);
    REQUIRE_EQ(error, 0);
    atomic_store(&crew[place], *pid);
    return 0;
}

/* -- What comes. */

static void answer(struct actor *me) {
    int error = weft_reply(&me->question, &me->asked, sizeof me->asked);
    REQUIRE(error == 0 || error == -ESRCH || error == -ECANCELED);
    me->question.from = WEFT_PID_NONE;
}

static void hear(struct actor *me, const weft_message *m) {
    unsigned i = 0;
    switch (m->type) {
    case WEFT_MESSAGE_DOWN:
        while (i < MINE && me->monitor[i].number != m->tag)
            i++;
        REQUIRE_LT(i, MINE); /* one of ours, and the first time */
        REQUIRE_EQ(m->from, me->monitor[i].pid);
        REQUIRE_LE(m->error, 0);
        REQUIRE(!weft_process_is_alive(NULL, m->from));
        for (unsigned j = 0; j < NAMES; j++)
            REQUIRE(m->from == WEFT_PID_NONE || weft_whereis(NULL, name_of[j]) != m->from); /* or a place was empty */
        me->monitor[i].number = 0;
        atomic_fetch_add(&downs, 1);
        break;
    case WEFT_MESSAGE_EXIT:
        REQUIRE(!weft_process_is_alive(NULL, m->from));
        atomic_fetch_add(&exits, 1);
        break;
    case WEFT_MESSAGE:
        if (!(m->tag & WEFT_TAG_RESERVED))
            break;
        if (me->question.from)
            answer(me);
        REQUIRE_EQ(m->size, sizeof me->asked);
        me->question = *m;
        memcpy(&me->asked, m->data, sizeof me->asked);
        if (draw(me, 2))
            answer(me);
        break;
    default: break;
    }
}

/* False: it is to end. */
static bool listen(struct actor *me, weft_deadline until) {
    weft_message m;
    int error = weft_receive(&m, NULL, NULL, until);
    if (!error)
        hear(me, &m);
    REQUIRE(!error || error == -ETIMEDOUT || error == -ECANCELED);
    return error != -ECANCELED && (error || m.type != WEFT_MESSAGE_CANCEL);
}

/* -- What it does. */

static void watch(struct actor *me) {
    unsigned i = draw(me, MINE);
    if (!me->monitor[i].number) {
        me->monitor[i].late = false;
        if (draw(me, 3)) {
            me->monitor[i].pid = somebody(me);
            REQUIRE_EQ(weft_monitor(me->monitor[i].pid, &me->monitor[i].number), 0);
        } else if (bear(me, draw(me, CREW), &me->monitor[i].pid, &me->monitor[i].number, false)) {
            me->monitor[i].number = 0;
        }
        return;
    }
    int error = weft_demonitor(me->monitor[i].number);
    REQUIRE(error == -ESRCH || (error == 0 && !me->monitor[i].late));
    me->monitor[i].late = true; /* it has come, or will */
    if (!error) {
        me->monitor[i].number = 0;
        atomic_fetch_add(&taken_back, 1);
    }
}

static void ask(struct actor *me) {
    uint64_t number = harness_random(&me->random);
    weft_pid to = somebody(me);
    weft_message m;
    int error = weft_ask(to, &number, sizeof number, &m, weft_after(draw(me, 200000)));
    if (!error) {
        REQUIRE_EQ(m.type, WEFT_MESSAGE);
        REQUIRE_EQ(m.size, sizeof number);
        REQUIRE_EQ(memcmp(m.data, &number, sizeof number), 0);
        atomic_fetch_add(&answers, 1);
    }
    REQUIRE(error == 0 || error == -ETIMEDOUT || error == -ECANCELED || error == -ENOBUFS ||
            (error == -ESRCH && !weft_process_is_alive(NULL, to)) || (error == -EDEADLK && to == weft_self()));
}

/* Those that it watches, and that have ended: it hears of each. */
static bool settle(struct actor *me) {
    for (unsigned i = 0; i < MINE; i++)
        while (me->monitor[i].number && me->monitor[i].pid != weft_self() &&
               !weft_process_is_alive(NULL, me->monitor[i].pid))
            if (!listen(me, WEFT_NEVER))
                return false;
    return true;
}

static bool act(struct actor *me) {
    weft_pid pid = somebody(me);
    int error = 0;
    switch (draw(me, 20)) {
    case 0:
    case 1:
    case 2: watch(me); break;
    case 3:
        error = weft_link(pid);
        REQUIRE(error == 0 || error == -ESRCH);
        break;
    case 4:
        error = weft_unlink(pid);
        REQUIRE(error == 0 || error == -ECANCELED);
        break;
    case 5: weft_trap_exit(draw(me, 2)); break;
    case 6:
    case 7: ask(me); break;
    case 8: weft_try_send(NULL, pid, 1, NULL, 0); break;
    case 9: bear(me, draw(me, CREW), &pid, NULL, draw(me, 2)); break;
    case 10:
        if (draw(me, 3) == 0)
            weft_process_exit(NULL, pid, -EPIPE);
        break;
    case 11:
        if (draw(me, 4) == 0)
            weft_process_cancel(NULL, pid);
        break;
    case 12: weft_register(NULL, name_of[draw(me, NAMES)], pid); break;
    case 13: weft_unregister(NULL, name_of[draw(me, NAMES)]); break;
    case 14:
        if (draw(me, 2))
            weft_group_join(NULL, "g", pid);
        else
            weft_group_leave(NULL, "g", pid);
        break;
    case 15: weft_publish(NULL, "g", 2, &pid, sizeof pid); break;
    case 16: return settle(me);
    case 17: return weft_yield() == 0;
    case 18: return listen(me, weft_after(draw(me, 50000)));
    default: break;
    }
    return listen(me, WEFT_NOW);
}

static int live(void *arg) {
    struct actor me = {.random = harness_seed() + (uintptr_t)arg};
    bool goes_on = true;
    for (unsigned i = draw(&me, 100); i > 0 && goes_on; i--)
        goes_on = act(&me);
    if (me.question.from)
        answer(&me);
    goes_on = goes_on && settle(&me);
    if (!goes_on)
        atomic_fetch_add(&ended_by_others, 1);
    return draw(&me, 3) ? 0 : -EIO;
}

/* As long as there is something to bear, nobody's place stays empty. */
static int keep(void *arg) {
    uint64_t count = (uintptr_t)arg;
    atomic_store(&to_bear, (unsigned)count);
    while (atomic_load(&born) < count) {
        for (unsigned i = 0; i < CREW; i++) {
            weft_pid pid = atomic_load(&crew[i]);
            if (!weft_process_is_alive(NULL, pid))
                bear(NULL, i, &pid, NULL, false);
        }
        weft_yield();
    }
    /* Those that are left end by themselves. */
    UNTIL(weft_process_count(NULL) == 1);
    CHECK_EQ(weft_whereis(NULL, "a"), WEFT_PID_NONE);
    CHECK_EQ(weft_publish(NULL, "g", 0, NULL, 0), 0);
    CHECK(downs && taken_back && exits && answers && ended_by_others);
    return 0;
}

API_TEST(random_links, "W6 W7 W10", .workers = {1, 2, 4}, .timeout = 60) {
    in_process(keep, (void *)(uintptr_t)(fixture_is_slow() ? 2000 : 20000));
}
