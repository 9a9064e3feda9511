/* links.c - processes that do everything to each other at random: links, monitors, questions, names, ends.  What each is told is held against what it
 * asked for: a monitor tells once, of its own process, and when that has ended and its names are free; an answer is to the question; an end that has
 * come is heard of. */
#include "crew.h"

static atomic_uint downs, taken_back, exits, answers, ended_by_others;

struct actor {
    uint64_t random;
    struct watched monitor[MINE];
    weft_message question; /* to be answered later; from 0: none */
    uint64_t asked; /* its number */
};

static unsigned draw(struct actor *me, unsigned below) { return draw_of(&me->random, below); }

static int live(void *arg);

/* Another one in that place. */
static int bear(struct actor *me, unsigned place, weft_pid *pid, uint64_t *monitor, bool linked) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    unsigned number;
    int error = may_bear(NULL, place, &number);
    if (error)
        return error;
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
    return bear_as(NULL, place, &spec, pid, monitor, linked);
}

/* -- What comes. */

static void answer(struct actor *me) {
    int error = weft_reply(&me->question, &me->asked, sizeof me->asked);
    REQUIRE(error == 0 || error == -ESRCH || error == -ECANCELED);
    me->question.from = WEFT_PID_NONE;
}

static void hear(struct actor *me, const weft_message *m) {
    switch (m->type) {
    case WEFT_MESSAGE_DOWN:
        hear_end(me->monitor, m);
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
            me->monitor[i].pid = somebody_of(&me->random);
            REQUIRE_EQ(weft_monitor(me->monitor[i].pid, &me->monitor[i].number), 0);
        } else if (bear(me, draw(me, CREW), &me->monitor[i].pid, &me->monitor[i].number, false)) {
            me->monitor[i].number = 0;
        }
        return;
    }
    if (take_back(&me->monitor[i]))
        atomic_fetch_add(&taken_back, 1);
}

static void ask(struct actor *me) {
    uint64_t number = harness_random(&me->random);
    weft_pid to = somebody_of(&me->random);
    weft_message m;
    int error = weft_ask(to, &number, sizeof number, &m, weft_after(draw(me, 200000)));
    if (!error) {
        REQUIRE_EQ(m.type, WEFT_MESSAGE);
        REQUIRE_EQ(m.size, sizeof number);
        REQUIRE_EQ(memcmp(m.data, &number, sizeof number), 0);
        atomic_fetch_add(&answers, 1);
    }
    check_asked(error, to);
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
    weft_pid pid = somebody_of(&me->random);
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
    case 11:
    case 12:
    case 13:
    case 14: meddle_with(NULL, &me->random, pid); break;
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

static void bear_in(unsigned place, void *arg) {
    weft_pid pid;
    (void)arg;
    bear(NULL, place, &pid, NULL, false);
}

static int keep(void *arg) {
    atomic_store(&to_bear, (unsigned)(uintptr_t)arg);
    keep_full(bear_in, NULL);
    /* Those that are left end by themselves. */
    UNTIL(weft_process_count(NULL) == 1);
    check_gone(NULL);
    CHECK(downs && taken_back && exits && answers && ended_by_others);
    return 0;
}

API_TEST(random_links, "W6 W7 W10", .workers = {1, 2, 4}, .timeout = 60) {
    in_process(keep, (void *)(uintptr_t)(fixture_is_slow() ? 2000 : 20000));
}
