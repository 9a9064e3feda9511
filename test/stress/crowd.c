/* crowd.c - processes of both kinds, with mailboxes of every kind, that do everything to each other at random; strangers, fibers and threads, join in.
 *
 * What each hears is held against what was said: messages of one sender come once and in order, all of them if the mailbox drops none; a monitor
 * tells once, when its process has ended and its names are free; a link tells once, or ends its owner; a command completes once, with its tag; a step is
 * that of the last upgrade; what was lent is given back.  Who asked for something goes on only when it has come: what is lost is a hang. */
#include "../api/process.h"

#include <weft/command.h>

enum { CREW = 16, MINE = 6, NAMES = 4, HEARD = 128, COMMANDS = 4, STRANGERS = 3, STAY = 1024 };

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
    struct {
        uint64_t number; /* 0: free */
        weft_pid pid;
        bool late; /* weft_demonitor said so */
        bool ping; /* it is to answer */
    } monitor[MINE];
    struct {
        weft_pid pid; /* 0: free */
        bool taken_back;
    } link[MINE]; /* those that it made itself, to others in higher places */
    weft_pid exit_of[MINE]; /* the last ones that were linked to it */
    unsigned exits;
    uint64_t command[COMMANDS], commands; /* their tags, 0: free; asked so far */
};

static weft_runtime *runtime;
static _Atomic weft_pid crew[CREW];
static _Atomic weft_pid staying[STAY]; /* those that will not end by themselves */
static atomic_uint stayed, born, to_bear, opened, closed, lent, given_back, told_of_exit, told_of_end, pongs, upgrades,
    doomed, completed, refused_room;
static atomic_bool stopping, done;
static const char *const name_of[NAMES] = {"a", "b", "c", "d"};

static unsigned draw(struct speaker *me, unsigned below) {
    return (unsigned)(harness_random(&me->random) >> 24) % below;
}
static weft_pid somebody(struct speaker *me) { return atomic_load(&crew[draw(me, CREW)]); }

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
    if (weft_process_is_alive(runtime, atomic_load(&crew[place])))
        return -EEXIST; /* they would become more and more */
    unsigned number = atomic_fetch_add(&born, 1);
    if (number >= atomic_load(&to_bear))
        return -ENOENT;
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
    int error = monitor  ? weft_process_spawn_monitored(&spec, pid, monitor)
                : linked ? weft_process_spawn_linked(&spec, pid)
                         : weft_process_spawn(runtime, &spec, pid, NULL);
    REQUIRE(error == 0 || (atomic_load(&stopping) && (error == -ESHUTDOWN || error == -ECANCELED)));
    if (!error)
        atomic_store(&crew[place], *pid);
    return error;
}

/* -- Hearing. */

static void hear_message(struct actor *me, const weft_message *m) {
    struct said said = {.kind = 0};
    REQUIRE(m->size == SHORT || m->size == sizeof said);
    memcpy(&said, m->data, m->size);
    if (said.kind == ASKED)
        (void)weft_reply(m, &said, SHORT);
    unsigned i = said.by % HEARD;
    if (said.kind == LOOSE || said.kind == ASKED || me->heard[i].by > said.by + 1)
        return; /* or forgotten */
    if (me->heard[i].by != said.by + 1) {
        memset(&me->heard[i], 0, sizeof me->heard[i]);
        me->heard[i].by = said.by + 1;
    }
    if (said.kind == NUMBERED || said.kind == PING) {
        REQUIRE(drops(me->place) ? said.number >= me->heard[i].next : said.number == me->heard[i].next);
        me->heard[i].next = said.number + 1;
    } else if (said.kind == PUBLISHED) {
        REQUIRE_GE(said.number, me->heard[i].published);
        me->heard[i].published = said.number + 1;
    }
    if (said.kind == PING) {
        int error = say(&me->speaker, m->from, PONG, 0, false, true);
        REQUIRE(error == 0 || error == -ESRCH); /* it has no bound */
    }
    for (i = 0; said.kind == PONG; i++) {
        if (i == MINE) { /* what it said last, behind its end */
            REQUIRE(!weft_process_is_alive(NULL, m->from));
            break;
        }
        if (me->monitor[i].number && me->monitor[i].pid == m->from && me->monitor[i].ping) {
            me->monitor[i].ping = false;
            atomic_fetch_add(&pongs, 1);
            break;
        }
    }
}

static void hear_down(struct actor *me, const weft_message *m) {
    unsigned i = 0;
    while (i < MINE && me->monitor[i].number != m->tag)
        i++;
    REQUIRE_LT(i, MINE); /* one of ours, and the first time */
    REQUIRE_EQ(m->from, me->monitor[i].pid);
    REQUIRE_LE(m->error, 0);
    REQUIRE(!weft_process_is_alive(NULL, m->from));
    for (unsigned j = 0; j < NAMES; j++)
        REQUIRE(m->from == WEFT_PID_NONE || weft_whereis(NULL, name_of[j]) != m->from);
    me->monitor[i].number = 0;
    me->monitor[i].ping = false; /* it may be read before the answer, which comes to nobody then */
    atomic_fetch_add(&told_of_end, 1);
    for (unsigned j = 0; j < MINE && m->error && m->error != -ESRCH && !me->trap; j++)
        me->doomed |= me->link[j].pid == m->from && !me->link[j].taken_back;
}

static void hear_exit(struct actor *me, const weft_message *m) {
    REQUIRE(me->trap && !weft_process_is_alive(NULL, m->from));
    atomic_fetch_add(&told_of_exit, 1);
    for (unsigned i = 0; i < MINE; i++)
        if (me->link[i].pid == m->from) {
            me->link[i].pid = WEFT_PID_NONE;
            return;
        }
    for (unsigned i = 0; i < MINE; i++)
        REQUIRE_NE(me->exit_of[i], m->from);
    me->exit_of[me->exits++ % MINE] = m->from;
}

static void hear(struct actor *me, const weft_message *m) {
    switch (m->type) {
    case WEFT_MESSAGE: hear_message(me, m); break;
    case WEFT_MESSAGE_DOWN: hear_down(me, m); break;
    case WEFT_MESSAGE_EXIT: hear_exit(me, m); break;
    case WEFT_MESSAGE_CANCEL:
        me->over |= !me->stubborn;
        if (m->error == -ESHUTDOWN && me->stubborn) {
            REQUIRE(!me->stays); /* it is told once */
            me->stays = true;
            atomic_store(&staying[atomic_fetch_add(&stayed, 1) % STAY], weft_self()); /* of so many few are left */
        }
        break;
    case WEFT_MESSAGE_YIELD:
        for (unsigned i = 0;; i++) {
            REQUIRE_LT(i, COMMANDS); /* one of ours, and the first time */
            if (me->command[i] == m->tag) {
                me->command[i] = 0;
                atomic_fetch_add(&completed, 1);
                break;
            }
        }
        break;
    }
}

/* Something that it waits for has not come. */
static bool expects(const struct actor *me) {
    bool more = me->doomed || me->stays;
    for (unsigned i = 0; i < MINE; i++) {
        more |= me->monitor[i].number &&
                (me->monitor[i].ping || me->monitor[i].late || !weft_process_is_alive(NULL, me->monitor[i].pid));
        more |= me->trap && me->link[i].pid && !me->link[i].taken_back && !weft_process_is_alive(NULL, me->link[i].pid);
    }
    for (unsigned i = 0; i < COMMANDS; i++)
        more |= me->command[i] != 0;
    return more;
}

/* -- Doing. */

static void watch(struct actor *me, bool ping) {
    unsigned i = draw(&me->speaker, MINE), place = draw(&me->speaker, CREW);
    weft_pid pid = atomic_load(&crew[place]);
    if (!me->monitor[i].number) {
        if (pid == weft_self() || (ping && (is_bounded(me->place) || drops(place))))
            return;
        for (unsigned j = 0; j < MINE && ping; j++)
            if (me->monitor[j].number && me->monitor[j].pid == pid)
                return; /* whose answer would it be? */
        me->monitor[i].late = me->monitor[i].ping = false;
        if (!ping && draw(&me->speaker, 3) == 0) {
            if (bear(&me->speaker, place, &me->monitor[i].pid, &me->monitor[i].number, false))
                me->monitor[i].number = 0;
            return;
        }
        me->monitor[i].pid = pid;
        REQUIRE_EQ(weft_monitor(pid, &me->monitor[i].number), 0);
        me->monitor[i].ping = ping && say_next(&me->speaker, place, pid, PING, false) == 0;
        return;
    }
    if (me->monitor[i].ping)
        return;
    int error = weft_demonitor(me->monitor[i].number);
    REQUIRE(error == -ESRCH || (error == 0 && !me->monitor[i].late));
    me->monitor[i].late = true; /* it has come, or will */
    if (!error)
        me->monitor[i].number = 0;
}

/* Only to higher places: so nobody else takes it back. */
static void tie(struct actor *me) {
    unsigned i = draw(&me->speaker, MINE), place = draw(&me->speaker, CREW);
    int error;
    if (me->link[i].pid) {
        if (me->link[i].taken_back)
            return;
        error = weft_unlink(me->link[i].pid);
        REQUIRE(error == 0 || error == -ECANCELED);
        me->link[i].taken_back = true;
        me->doomed |= error == -ECANCELED;
        return;
    }
    weft_pid pid = atomic_load(&crew[place]);
    for (unsigned j = 0; j < MINE; j++)
        if (me->link[j].pid == pid)
            return;
    if (place <= me->place || !pid)
        return;
    if (draw(&me->speaker, 3) == 0) {
        error = bear(&me->speaker, place, &pid, NULL, true);
        me->link[i].pid = error ? WEFT_PID_NONE : pid;
    } else {
        error = weft_link(pid);
        REQUIRE(error == 0 || error == -ESRCH);
        me->link[i].pid = !error || me->trap ? pid : WEFT_PID_NONE;
    }
    me->link[i].taken_back = false;
}

static void ask(struct actor *me) {
    weft_pid to = somebody(&me->speaker);
    struct said said = {ASKED, me->speaker.birth, harness_random(&me->speaker.random), ""}, reply;
    weft_message m;
    if (is_class(me->place))
        return;
    int error = weft_ask(to, &said, SHORT, &m, weft_after(draw(&me->speaker, 100000)));
    if (!error) {
        REQUIRE_EQ(m.size, SHORT);
        memcpy(&reply, m.data, SHORT);
        REQUIRE_EQ(reply.number, said.number);
        REQUIRE_EQ(m.from, to);
    }
    REQUIRE(error == 0 || error == -ETIMEDOUT || error == -ECANCELED || error == -ENOBUFS ||
            (error == -ESRCH && !weft_process_is_alive(NULL, to)) || (error == -EDEADLK && to == weft_self()));
}

/* What anybody may do. */
static void meddle(struct speaker *me) {
    weft_pid pid = somebody(me);
    struct said said = {PUBLISHED, me->birth, me->published, ""};
    switch (draw(me, 9)) {
    case 0:
        if (draw(me, 3) == 0)
            weft_process_exit(runtime, pid, -EPIPE);
        break;
    case 1:
        if (draw(me, 3) == 0)
            weft_process_cancel(runtime, pid);
        break;
    case 2: weft_register(runtime, name_of[draw(me, NAMES)], pid); break;
    case 3: weft_unregister(runtime, name_of[draw(me, NAMES)]); break;
    case 4: weft_group_join(runtime, "g", pid); break;
    case 5: weft_group_leave(runtime, "g", pid); break;
    case 6:
        weft_publish(runtime, "g", PUBLISHED, &said, SHORT);
        me->published++;
        break;
    case 7: bear(me, draw(me, CREW), &pid, NULL, false); break;
    default: weft_process_is_alive(runtime, weft_whereis(runtime, name_of[draw(me, NAMES)])); break;
    }
}

static void act(struct actor *me) {
    unsigned place = draw(&me->speaker, CREW);
    weft_pid pid = atomic_load(&crew[place]);
    switch (draw(&me->speaker, 8)) {
    case 0: watch(me, false); break;
    case 1: watch(me, true); break;
    case 2: tie(me); break;
    case 3: ask(me); break;
    case 4: meddle(&me->speaker); break;
    default:
        for (unsigned i = draw(&me->speaker, 6); i; i--)
            (void)say_next(&me->speaker, place, pid, NUMBERED, false);
    }
}

/* -- A fiber. */

static int live(void *arg) {
    struct actor *me = open_actor((uintptr_t)arg);
    int result = draw(&me->speaker, 3) ? 0 : -EIO;
    while (!me->over && (me->left || expects(me))) {
        weft_message m;
        bool waits = !me->left || me->doomed;
        if (!waits) {
            me->left--;
            act(me);
        }
        int error = weft_receive(&m, NULL, NULL,
                                 waits                   ? WEFT_NEVER
                                 : draw(&me->speaker, 4) ? WEFT_NOW
                                                         : weft_after(20000));
        REQUIRE(!error || error == -ECANCELED || (error == -ETIMEDOUT && !waits));
        if (!error)
            hear(me, &m);
        me->over |= error == -ECANCELED;
        if (error == -ECANCELED && me->doomed)
            atomic_fetch_add(&doomed, 1);
    }
    close_actor(me);
    return result;
}

/* -- A class, of two versions. */

static int begin(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method, (void)size;
    *(struct actor **)state = open_actor(*(const uintptr_t *)input);
    return 0;
}

static void command(struct actor *me, weft_step *out) {
    unsigned i = 0;
    weft_command_timer timer = {weft_after(draw(&me->speaker, 50000))};
    struct {
        weft_command_send send;
        struct said said;
    } message = {{somebody(&me->speaker), LOOSE, weft_after(50000)}, {LOOSE, me->speaker.birth, 0, ""}};
    while (i < COMMANDS && me->command[i])
        i++;
    if (i == COMMANDS)
        return;
    uint64_t tag = me->command[i] = ++me->commands, other = me->command[draw(&me->speaker, COMMANDS)];
    switch (draw(&me->speaker, 4)) {
    case 0: REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, tag, &timer, sizeof timer), 0); break;
    case 1: REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, tag, &other, sizeof other), 0); break;
    case 2: REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_SEND, tag, &message, sizeof message), 0); break;
    default: REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_CLOCK, tag, NULL, 0), 0); break;
    }
}

static int step(struct actor *me, unsigned version, const weft_message *events, size_t count, weft_step *out) {
    REQUIRE_EQ(me->version, version);
    for (size_t i = 0; i < count; i++)
        hear(me, &events[i]);
    out->status = me->over ? WEFT_STEP_DONE : WEFT_STEP_CONTINUE;
    out->result = me->speaker.birth % 3 ? 0 : -EIO;
    if (me->over)
        return 0;
    if (!me->left || me->doomed) {
        out->status = expects(me) ? WEFT_STEP_IDLE : WEFT_STEP_DONE;
        return 0;
    }
    me->left--;
    switch (draw(&me->speaker, 6)) {
    case 0:
        out->status = WEFT_STEP_UPGRADE;
        out->upgrade = &of_version[me->version = !version];
        atomic_fetch_add(&upgrades, 1);
        break;
    case 1:
    case 2:
        for (unsigned i = draw(&me->speaker, 3); i; i--)
            command(me, out);
        out->status = draw(&me->speaker, 2) ? WEFT_STEP_YIELD : WEFT_STEP_CONTINUE;
        break;
    default: act(me);
    }
    return 0;
}
static int step_first(void *state, const weft_message *events, size_t count, weft_step *out) {
    return step(*(struct actor **)state, 0, events, count, out);
}
static int step_second(void *state, const weft_message *events, size_t count, weft_step *out) {
    return step(*(struct actor **)state, 1, events, count, out);
}
static void end(void *state) { close_actor(*(struct actor **)state); }
static const weft_process_class of_version[2] = {
    {.size = sizeof of_version[0],
     .name = "first",
     .state_size = sizeof(struct actor *),
     .init = begin,
     .step = step_first,
     .close = end},
    {.size = sizeof of_version[1],
     .name = "second",
     .state_size = sizeof(struct actor *),
     .step = step_second,
     .close = end},
};

/* -- Strangers: not processes.  They wait for room, if need be. */

static int stray(void *arg) {
    struct speaker me = {.random = harness_seed() ^ (uintptr_t)arg, .birth = UINT32_MAX - 1 - (uint32_t)(uintptr_t)arg};
    while (!atomic_load(&done)) {
        unsigned place = draw(&me, CREW);
        if (draw(&me, 3))
            (void)say_next(&me, place, atomic_load(&crew[place]), NUMBERED, true);
        else
            meddle(&me);
        if (weft_runtime_current())
            weft_yield();
    }
    return 0;
}
static void *stray_outside(void *arg) {
    stray(arg);
    return NULL;
}

/* As long as there is something to bear, nobody's place stays empty. */
static int keep(void *arg) {
    struct speaker me = {.random = harness_seed() - 1};
    weft_pid pid;
    (void)arg;
    while (atomic_load(&born) < atomic_load(&to_bear) && !atomic_load(&stopping)) {
        for (unsigned i = 0; i < CREW; i++)
            bear(&me, i, &pid, NULL, false);
        weft_yield();
    }
    return 0;
}

struct company {
    weft_task *keeper, *stray[STRANGERS];
    pthread_t outside;
};

static void gather(struct company *company, unsigned count) {
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = -1;
    config.seed = harness_seed() | 1;
    runtime = fixture_begin(&config);
    atomic_store(&to_bear, count);
    REQUIRE_EQ(weft_fiber_go(runtime, keep, NULL, &company->keeper), 0);
    for (uintptr_t i = 0; i < STRANGERS; i++)
        REQUIRE_EQ(weft_fiber_go(runtime, stray, (void *)i, &company->stray[i]), 0);
    if (!fixture_on("sim"))
        REQUIRE_EQ(pthread_create(&company->outside, NULL, stray_outside, (void *)(uintptr_t)STRANGERS), 0);
}

/* No more are born once the strangers have gone. */
static void disperse(struct company *company) {
    atomic_store(&done, true);
    for (unsigned i = 0; i < STRANGERS; i++)
        CHECK_EQ(fixture_finish(company->stray[i]).status, 0);
    if (!fixture_on("sim"))
        REQUIRE_EQ(pthread_join(company->outside, NULL), 0);
    while (weft_process_count(runtime)) { /* without limit: what is lost is a hang */
        for (unsigned i = 0; i < STAY; i++) /* born when all were stopped, they were not ended by force */
            weft_process_exit(runtime, atomic_load(&staying[i]), -EPIPE);
        harness_nap();
    }
    CHECK_EQ(weft_process_count(runtime), 0);
    for (unsigned i = 0; i < NAMES; i++)
        CHECK_EQ(weft_whereis(runtime, name_of[i]), WEFT_PID_NONE);
    CHECK_EQ(weft_publish(runtime, "g", 0, NULL, 0), 0);
    fixture_end(runtime);
    CHECK_EQ(opened, closed);
    CHECK_EQ(lent, given_back);
}

API_TEST(crowd, "W6 W7 W10 W28 W29 W40", .workers = {1, 2, 4}, .timeout = 60) {
    struct company company;
    gather(&company, fixture_is_slow() ? 1000 : 5000);
    CHECK_EQ(weft_join(company.keeper, NULL, WEFT_NEVER), 0);
    weft_task_drop(company.keeper);
    while (weft_process_count(runtime)) /* they end by themselves; the strangers go on meanwhile */
        harness_nap();
    disperse(&company);
    CHECK(told_of_exit && told_of_end && pongs && upgrades && completed && refused_room && lent);
}

/* -- All are stopped, while everybody goes on.  The stubborn are ended by force, and named. */

API_TEST(crowd_stopped, "W35 W36 W38", .workers = {1, 2, 4}, .timeout = 60) {
    enum { ROOM = 64 };
    weft_process_left left[ROOM];
    struct company company;
    unsigned until = 50 + (unsigned)(harness_seed() % 500);
    gather(&company, 1000000);
    REQUIRE_EVENTUALLY(atomic_load(&born) > until);
    atomic_store(&stopping, true);
    if (harness_seed() % 2) /* else some are born behind its back */
        atomic_store(&to_bear, 0);
    int forced = weft_process_stop_all(runtime, weft_after(5000000), left, ROOM);
    REQUIRE_GE(forced, 0);
    for (int i = 0; i < forced && i < ROOM; i++) {
        CHECK(!weft_process_is_alive(runtime, left[i].pid));
        CHECK(left[i].name[0]);
        for (int j = 0; j < i; j++)
            CHECK_NE(left[i].pid, left[j].pid);
    }
    CHECK_EQ(weft_process_stop_all(runtime, WEFT_NOW, NULL, 0), -EBUSY);
    CHECK_EQ(fixture_finish(company.keeper).status, 0);
    printf("%d by force\n", forced);
    disperse(&company);
}
