/* process_signals.c - ends, links and monitors as the tests of other actor systems ask for them: who is told, how often, with what reason. */
#include "process.h"

static weft_process_spec spec_of(weft_fiber_fn fn, void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spec;
}

static weft_pid go_linked(weft_fiber_fn fn, void *arg) {
    weft_process_spec spec = spec_of(fn, arg);
    weft_pid pid = WEFT_PID_NONE;
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    return pid;
}

static void expect_end(weft_message_type type, weft_pid pid, int reason) {
    weft_message m = expect(type);
    CHECK_EQ(m.from, pid);
    CHECK_EQ(m.error, reason);
}

/* -- An exit of one's own, and of others. */

/* Whatever it returns then. */
static int end_myself(void *arg) {
    REQUIRE_EQ(weft_process_exit(NULL, weft_self(), (int)(intptr_t)arg), 0);
    return 0;
}
static int end_myself_twice(void *arg) {
    (void)arg;
    CHECK_EQ(weft_process_exit(NULL, weft_self(), 0), -EINVAL); /* no reason */
    CHECK_EQ(weft_process_exit(NULL, weft_self(), 7), -EINVAL);
    REQUIRE_EQ(weft_process_exit(NULL, weft_self(), -EIO), 0);
    REQUIRE_EQ(weft_process_exit(NULL, weft_self(), -EPIPE), 0);
    weft_message m;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED);
    return -ENOENT;
}
static int reasons(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    for (int i = 0; i < (fixture_is_slow() ? 10 : 100); i++) {
        weft_pid pid = go_linked(end_myself, (void *)(intptr_t)-EPROTO);
        expect_end(WEFT_MESSAGE_EXIT, pid, -EPROTO);
        pid = go_linked(end_myself_twice, NULL);
        expect_end(WEFT_MESSAGE_EXIT, pid, -EIO); /* the first */
        pid = go_linked(sit, NULL);
        REQUIRE_EQ(weft_process_exit(NULL, pid, -EIO), 0);
        int again = weft_process_exit(NULL, pid, -EPIPE);
        CHECK(again == 0 || again == -ESRCH);
        expect_end(WEFT_MESSAGE_EXIT, pid, -EIO);
        CHECK(!weft_process_is_alive(NULL, pid));
    }
    expect_none();
    return 0;
}
API_TEST(process_exit_reasons, "W6 W10", .workers = {1, 2}) { in_process(reasons, NULL); }

/* Its time is up at the moment it is ended: it ends. */
static int nap(void *arg) {
    weft_message m;
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, weft_after((int64_t)(intptr_t)arg));
        if (error != -ETIMEDOUT)
            return error;
    }
}
static int exit_against_timeout(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    for (intptr_t i = 0; i < (fixture_is_slow() ? 50 : 500); i++) {
        weft_pid pid = go_linked(nap, (void *)(i % 50 * 1000));
        for (intptr_t j = i % 7; j > 0; j--)
            weft_yield();
        REQUIRE_EQ(weft_process_exit(NULL, pid, -EIO), 0);
        expect_end(WEFT_MESSAGE_EXIT, pid, -EIO);
    }
    expect_none();
    return 0;
}
API_TEST(process_exit_against_timeout, "W6", .workers = {1, 2}) { in_process(exit_against_timeout, NULL); }

/* Wherever it waits. */
static int wait_in_ask(void *arg) {
    weft_message m;
    return weft_ask(*(weft_pid *)arg, NULL, 0, &m, WEFT_NEVER);
}
static int wait_for_room(void *arg) {
    int error = 0;
    while (!error)
        error = weft_send(NULL, *(weft_pid *)arg, 0, NULL, 0);
    return error;
}
static int wait_in_sleep(void *arg) {
    (void)arg;
    return weft_sleep(INT64_C(3600000000000));
}
static int pass_over(void *arg) { /* reads nothing but the request to end */
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER) ? -ECANCELED : sit(NULL);
}
static int exit_in_waits(void *arg) {
    weft_process_spec spec = spec_of(wait_in_sleep, NULL);
    weft_pid silent;
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    spec.max_messages = 2;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &silent, NULL), 0);
    static const weft_fiber_fn waits[] = {wait_in_ask, wait_for_room, wait_in_sleep, pass_over};
    for (int i = 0; i < (fixture_is_slow() ? 8 : 80); i++) {
        weft_pid pid = go_linked(waits[i % 4], &silent);
        for (int j = i / 4 % 4; j > 0; j--)
            weft_yield();
        REQUIRE_EQ(weft_process_exit(NULL, pid, -EIO), 0);
        expect_end(WEFT_MESSAGE_EXIT, pid, -EIO);
    }
    expect_none();
    return weft_process_exit(NULL, silent, -EIO);
}
API_TEST(process_exit_where_it_waits, "W6 W38", .workers = {1, 2}) { in_process(exit_in_waits, NULL); }

/* -- Asked to end, however often: one that is unread stands for all. */

static bool is_no_cancel(const weft_message *message, void *arg) {
    *(int *)arg += message->type == WEFT_MESSAGE_CANCEL;
    return message->type != WEFT_MESSAGE_CANCEL;
}
static int asked_often(void *arg) {
    weft_message m;
    int seen = 0;
    (void)arg;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++)
            REQUIRE_EQ(weft_process_cancel(NULL, weft_self()), 0);
        CHECK_EQ(weft_receive(&m, is_no_cancel, &seen, WEFT_NOW), -ETIMEDOUT); /* it has been looked at, and not read */
        CHECK_EQ(seen, round + 1);
        REQUIRE_EQ(weft_process_cancel(NULL, weft_self()), 0);
        m = expect(WEFT_MESSAGE_CANCEL);
        CHECK_EQ(m.error, -ECANCELED);
        CHECK_EQ(m.from, weft_self());
        expect_none();
    }
    return 0;
}
API_TEST(process_cancel_is_one, "W29", .workers = {1, 2}) { in_process(asked_often, NULL); }

/* Many who watched it have ended: what told of them is given back while it lives. */
static int watch_and_end(void *arg) {
    uint64_t monitor;
    return weft_monitor(*(weft_pid *)arg, &monitor);
}
static int watched_by_many(void *arg) {
    weft_pid self = weft_self();
    weft_task *task;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    (void)arg;
    spec.fn = watch_and_end;
    spec.arg = &self;
    for (int i = 0; i < 300; i++) {
        REQUIRE_EQ(weft_process_spawn(NULL, &spec, NULL, &task), 0);
        UNTIL(weft_task_is_done(task));
        weft_task_drop(task);
    }
    expect_none();
    return 0;
}
API_TEST(process_watched_by_many, "W6 W10", .workers = {1, 2}) { in_process(watched_by_many, NULL); }

/* That all are to end, which is read first, is not what others have asked of it. */
static atomic_bool asked_itself;
static bool is_stop(const weft_message *message, void *arg) {
    (void)arg;
    return message->type == WEFT_MESSAGE_CANCEL && message->error == -ESHUTDOWN;
}
static int asked_and_stopped(void *arg) {
    weft_message m;
    (void)arg;
    REQUIRE_EQ(weft_process_cancel(NULL, weft_self()), 0);
    atomic_store(&asked_itself, true);
    CHECK_EQ(weft_receive(&m, is_stop, NULL, in_time()), 0);
    REQUIRE_EQ(weft_process_cancel(NULL, weft_self()), 0);
    CHECK_EQ(expect(WEFT_MESSAGE_CANCEL).error, -ECANCELED);
    expect_none();
    return 0;
}
API_TEST(process_cancel_and_stop, "W29 W35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    go_process(rt, asked_and_stopped, NULL);
    REQUIRE_EVENTUALLY(atomic_load(&asked_itself));
    CHECK_EQ(weft_process_stop_all(rt, fixture_soon(), NULL, 0), 0);
    fixture_end(rt);
}

/* Counts them while others ask, and sees each one's last: what was written before a call that came after the last read. */
enum { ASKERS = 4 };
static atomic_int asks[ASKERS], cancels_read;
static int ask_and_ask(void *arg) {
    int which = *(int *)arg, turns = fixture_is_slow() ? 200 : 5000;
    for (int i = 1; i <= turns; i++) {
        atomic_store_explicit(&asks[which], i, memory_order_relaxed);
        int error = weft_process_cancel(NULL, weft_whereis(NULL, "asked"));
        REQUIRE(error == 0 || (error == -ESRCH && i == turns)); /* of the last, another's message may have told */
        if (i % 7 == 0)
            weft_yield();
    }
    return 0;
}
static bool all_have_asked(void) {
    for (int i = 0; i < ASKERS; i++)
        if (atomic_load_explicit(&asks[i], memory_order_relaxed) < (fixture_is_slow() ? 200 : 5000))
            return false;
    return true;
}
static int hear_asks(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(events[i].type, WEFT_MESSAGE_CANCEL);
    REQUIRE_LT(count, 2);
    atomic_fetch_add(&cancels_read, (int)count);
    out->status = count && all_have_asked() ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class hears_asks = {.size = sizeof hears_asks, .step = hear_asks};
static int hear_asks_alone(void *arg) {
    (void)arg;
    do {
        expect(WEFT_MESSAGE_CANCEL);
        atomic_fetch_add(&cancels_read, 1);
    } while (!all_have_asked());
    return 0;
}
API_TEST(process_cancel_none_is_lost, "W29 W33", .workers = {1, 2, 4}) {
    static const int number[ASKERS] = {0, 1, 2, 3};
    for (int kind = 0; kind < 2; kind++) {
        weft_runtime *rt = fixture_begin_patient();
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *asked, *asker[ASKERS];
        spec.registered = "asked";
        if (kind)
            spec.class_ = &hears_asks;
        else
            spec.fn = hear_asks_alone;
        atomic_store(&cancels_read, 0);
        for (int i = 0; i < ASKERS; i++)
            atomic_store(&asks[i], 0);
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &asked), 0);
        for (int i = 0; i < ASKERS; i++)
            REQUIRE_EQ(weft_fiber_go(rt, ask_and_ask, (void *)(uintptr_t)&number[i], &asker[i]), 0);
        for (int i = 0; i < ASKERS; i++)
            CHECK_EQ(fixture_finish(asker[i]).status, 0);
        CHECK_EQ(fixture_finish(asked).status, 0);
        printf("%d read\n", atomic_load(&cancels_read));
        CHECK_GE(atomic_load(&cancels_read), 1);
        fixture_end(rt);
    }
}

/* -- Links. */

/* A ring of processes that do not trap: one fails, and all end for that reason.  Nobody of it is left, and the one who traps hears of his own once. */
enum { RING = 200 };
static weft_pid ring[RING];
static atomic_int in_ring;

static int link_next(void *arg) {
    intptr_t index = (intptr_t)arg;
    weft_message m;
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0); /* all are there */
    int error = weft_link(ring[(index + 1) % RING]);
    REQUIRE(error == 0 || error == -ESRCH);
    atomic_fetch_add(&in_ring, 1);
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
static int ring_falls(void *arg) {
    uint64_t monitor[RING];
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    for (int round = 0; round < (fixture_is_slow() ? 1 : 10); round++) {
        atomic_store(&in_ring, 0);
        for (intptr_t i = 0; i < RING; i++)
            ring[i] = go_process(NULL, link_next, (void *)i);
        for (int i = 0; i < RING; i++)
            REQUIRE_EQ(weft_monitor(ring[i], &monitor[i]), 0);
        for (int i = 0; i < RING; i++)
            REQUIRE_EQ(weft_send(NULL, ring[i], 0, NULL, 0), 0);
        UNTIL(atomic_load(&in_ring) == RING);
        REQUIRE_EQ(weft_link(ring[0]), 0);
        REQUIRE_EQ(weft_process_exit(NULL, ring[round * 37 % RING], -EPROTO), 0);
        int downs = 0, exits = 0;
        for (int i = 0; i < RING + 1; i++) {
            weft_message m;
            REQUIRE_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
            CHECK_EQ(m.error, -EPROTO);
            downs += m.type == WEFT_MESSAGE_DOWN;
            exits += m.type == WEFT_MESSAGE_EXIT && m.from == ring[0];
        }
        CHECK_EQ(downs, RING);
        CHECK_EQ(exits, 1);
        expect_none();
    }
    return 0;
}
API_TEST(process_link_ring_falls, "W6 W10", .workers = {1, 2, 4}) { in_process(ring_falls, NULL); }

/* An end without an error goes no further; a link does not outlive it. */
static int end_well(void *arg) {
    (void)arg;
    return 0;
}
static int live_on(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_pid pid = go_linked(end_well, NULL);
        UNTIL(!weft_process_is_alive(NULL, pid));
        UNTIL(weft_link(pid) == -ESRCH); /* 0 as long as its end has not been told */
        CHECK_EQ(weft_unlink(pid), 0);
        CHECK_EQ(weft_yield(), 0);
    }
    expect_none();
    return 0;
}
API_TEST(process_link_normal_end, "W6 W7", .workers = {1, 2}) { in_process(live_on, NULL); }

/* Traps, and then does not: what was told stays told, and the next error ends it. */
static int trap_and_stop(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    weft_pid first = go_linked(end_myself, (void *)(intptr_t)-EIO);
    UNTIL(!weft_process_is_alive(NULL, first));
    expect_end(WEFT_MESSAGE_EXIT, first, -EIO);
    weft_pid second = go_linked(sit, NULL);
    REQUIRE_EQ(weft_trap_exit(false), 0);
    REQUIRE_EQ(weft_process_exit(NULL, second, -EPIPE), 0);
    weft_message m;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), -ECANCELED);
    return 0;
}
static int trapping(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    weft_pid pid = go_linked(trap_and_stop, NULL);
    expect_end(WEFT_MESSAGE_EXIT, pid, -EPIPE);
    return 0;
}
API_TEST(process_trap_and_stop, "W6 W7", .workers = {1, 2}) { in_process(trapping, NULL); }

/* Both end at once. */
static int link_and_fail(void *arg) {
    weft_message m;
    weft_pid *other = arg;
    if (weft_receive(&m, NULL, NULL, WEFT_NEVER))
        return -ECANCELED; /* the other was faster: its reason is what counts */
    int error = weft_link(*other);
    REQUIRE(error == 0 || error == -ESRCH);
    return -EIO;
}
static int both_fail(void *arg) {
    (void)arg;
    for (int i = 0; i < (fixture_is_slow() ? 50 : 1000); i++) {
        weft_pid pair[2];
        uint64_t monitor[2];
        for (int j = 0; j < 2; j++) {
            pair[j] = go_process(NULL, link_and_fail, &pair[1 - j]);
            REQUIRE_EQ(weft_monitor(pair[j], &monitor[j]), 0);
        }
        REQUIRE_EQ(weft_send(NULL, pair[0], 0, NULL, 0), 0);
        int error = weft_send(NULL, pair[1], 0, NULL, 0);
        REQUIRE(error == 0 || error == -ESRCH); /* the first was faster */
        for (int j = 0; j < 2; j++)
            CHECK_EQ(expect(WEFT_MESSAGE_DOWN).error, -EIO);
    }
    expect_none();
    return 0;
}
API_TEST(process_link_both_fail, "W6 W10", .workers = {1, 2, 4}) { in_process(both_fail, NULL); }

/* -- Monitors. */

static bool has_tag(const weft_message *m, void *arg) { return m->tag == *(uint64_t *)arg; }
static int take_of(weft_message *m, uint64_t monitor, weft_deadline until) {
    return weft_receive(m, has_tag, &monitor, until);
}

/* Each monitor is its own: one is taken back, the others tell, each once. */
static int four_monitors(void *arg) {
    uint64_t monitor[4], own;
    weft_message m;
    (void)arg;
    REQUIRE_EQ(weft_monitor(weft_self(), &own), 0); /* nobody will hear of that */
    CHECK_EQ(weft_demonitor(own), 0);
    CHECK_EQ(weft_demonitor(own), -ESRCH);
    REQUIRE_EQ(weft_monitor(weft_self(), &own), 0);
    CHECK_EQ(weft_demonitor(1), -EINVAL);
    weft_pid pid = go_process(NULL, sit, NULL);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_monitor(pid, &monitor[i]), 0);
    CHECK_EQ(weft_demonitor(monitor[0]), 0);
    REQUIRE_EQ(weft_process_exit(NULL, pid, -EPIPE), 0);
    for (int i = 3; i > 0; i--) {
        REQUIRE_EQ(take_of(&m, monitor[i], in_time()), 0);
        CHECK(m.type == WEFT_MESSAGE_DOWN && m.from == pid && m.error == -EPIPE);
        CHECK_EQ(weft_demonitor(monitor[i]), -ESRCH);
    }
    expect_none();
    return 0;
}
API_TEST(process_four_monitors, "W6", .workers = {1, 2}) { in_process(four_monitors, NULL); }

/* Of those that end at once: taken back, it never tells; too late, it has told or will. */
static int monitors_against_ends(void *arg) {
    unsigned taken_back = 0, late = 0, count = fixture_is_slow() ? 20 : 200;
    (void)arg;
    for (unsigned round = 0; round < 10; round++) {
        uint64_t monitor[200];
        weft_message m;
        for (unsigned i = 0; i < count; i++)
            REQUIRE_EQ(weft_monitor(go_process(NULL, end_well, NULL), &monitor[i]), 0);
        for (unsigned i = 0; i < count; i++) {
            int error = weft_demonitor(monitor[i]);
            taken_back += error == 0;
            late += error == -ESRCH;
            if (error)
                REQUIRE_EQ(take_of(&m, monitor[i], in_time()), 0);
        }
        weft_yield();
        expect_none();
    }
    CHECK_EQ(taken_back + late, 10 * count);
    return 0;
}
API_TEST(process_demonitor_against_ends, "W6 W38", .workers = {1, 2, 4}) { in_process(monitors_against_ends, NULL); }

/* Somebody else's number takes nothing back. */
static int take_back_others(void *arg) {
    CHECK_EQ(weft_demonitor(*(uint64_t *)arg), -ESRCH);
    return 0;
}
static int others_number(void *arg) {
    uint64_t monitor, second;
    weft_message m;
    (void)arg;
    weft_pid pid = go_process(NULL, sit, NULL);
    REQUIRE_EQ(weft_monitor(pid, &monitor), 0);
    weft_process_spec spec = spec_of(take_back_others, &monitor);
    weft_pid thief;
    REQUIRE_EQ(weft_process_spawn_monitored(&spec, &thief, &second), 0);
    REQUIRE_EQ(take_of(&m, second, in_time()), 0);
    CHECK_EQ(m.from, thief);
    REQUIRE_EQ(weft_process_exit(NULL, pid, -EIO), 0);
    REQUIRE_EQ(take_of(&m, monitor, in_time()), 0);
    CHECK_EQ(m.error, -EIO);
    expect_none();
    return 0;
}
API_TEST(process_demonitor_others, "W6", .workers = {1, 2}) { in_process(others_number, NULL); }

/* Who is watched ends the watcher, and ends itself. */
static int end_watcher(void *arg) {
    weft_message m;
    (void)arg;
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_process_exit(NULL, m.from, -EPIPE), 0);
    return 0;
}
static int be_ended(void *arg) {
    uint64_t monitor;
    weft_message m;
    (void)arg;
    weft_process_spec spec = spec_of(end_watcher, NULL);
    weft_pid pid;
    REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
    REQUIRE_EQ(weft_send(NULL, pid, 0, NULL, 0), 0);
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error)
            return error;
    }
}
static int watchers_end(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    for (int i = 0; i < (fixture_is_slow() ? 30 : 300); i++) {
        weft_pid pid = go_linked(be_ended, NULL);
        expect_end(WEFT_MESSAGE_EXIT, pid, -EPIPE);
    }
    UNTIL(weft_process_count(NULL) == 1);
    expect_none();
    return 0;
}
API_TEST(process_watched_ends_watcher, "W6 W10", .workers = {1, 2, 4}) { in_process(watchers_end, NULL); }

/* -- Names: free when the end is told, and one owner at a time. */

static atomic_int owners, most_owners;
static int own_name(void *arg) {
    int error = weft_register(NULL, "the one", weft_self());
    (void)arg;
    if (error)
        return error == -EEXIST ? 0 : error;
    int now = atomic_fetch_add(&owners, 1) + 1;
    if (now > atomic_load(&most_owners))
        atomic_store(&most_owners, now);
    CHECK_EQ(weft_whereis(NULL, "the one"), weft_self());
    weft_yield();
    atomic_fetch_sub(&owners, 1);
    return -EIO;
}
static int names(void *arg) {
    (void)arg;
    unsigned owned = 0;
    for (int i = 0; i < (fixture_is_slow() ? 20 : 200); i++) {
        uint64_t monitor;
        weft_pid pid;
        weft_process_spec spec = spec_of(own_name, NULL);
        for (int j = 0; j < 4; j++)
            REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
        for (int j = 0; j < 4; j++) {
            weft_message m = expect(WEFT_MESSAGE_DOWN);
            CHECK(m.error == 0 || m.error == -EIO);
            owned += m.error == -EIO;
            CHECK_NE(weft_whereis(NULL, "the one"), m.from);
        }
        CHECK_EQ(weft_whereis(NULL, "the one"), WEFT_PID_NONE);
        REQUIRE_EQ(weft_register(NULL, "the one", weft_self()), 0);
        REQUIRE_EQ(weft_unregister(NULL, "the one"), 0);
        CHECK_EQ(weft_register(NULL, "the one", pid), -ESRCH);
    }
    CHECK_GE(owned, 20);
    CHECK_EQ(atomic_load(&most_owners), 1);
    return 0;
}
API_TEST(process_name_of_the_ended, "W6 W10", .workers = {1, 2, 4}) { in_process(names, NULL); }
