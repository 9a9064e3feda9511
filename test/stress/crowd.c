/* crowd.c - processes of both kinds, with mailboxes of every kind, that do everything to each other at random; strangers, fibers and threads, join in.
 *
 * What each hears is held against what was said: messages of one sender come once and in order, all of them if the mailbox drops none; a monitor
 * tells once, when its process has ended and its names are free; a link tells once, or ends its owner; a command completes once, with its tag; a step is
 * that of the last upgrade; what was lent is given back.  Who asked for something goes on only when it has come: what is lost is a hang. */
#include "crowd.h"

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
    hear_end(me->monitor, m);
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
    (void)take_back(&me->monitor[i]);
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
    check_asked(error, to);
}

/* What anybody may do. */
static void meddle(struct speaker *me) {
    weft_pid pid = somebody(me);
    struct said said = {PUBLISHED, me->birth, me->published, ""};
    switch (draw(me, 9)) {
    case 0:
        weft_publish(runtime, "g", PUBLISHED, &said, SHORT);
        me->published++;
        break;
    case 1: bear(me, draw(me, CREW), &pid, NULL, false); break;
    case 2: weft_process_is_alive(runtime, weft_whereis(runtime, name_of[draw(me, NAMES)])); break;
    default: meddle_with(runtime, &me->random, pid); break;
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

static void bear_in(unsigned place, void *arg) {
    weft_pid pid;
    bear(arg, place, &pid, NULL, false);
}
static int keep(void *arg) {
    struct speaker me = {.random = harness_seed() - 1};
    (void)arg;
    keep_full(bear_in, &me);
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
    check_gone(runtime);
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
