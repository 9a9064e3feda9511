/* process_link.c - links, trapped exits, monitors, reasons. */
#include "process.h"

static weft_process_spec spec_of(weft_fiber_fn fn, void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spec;
}

/* A trapped exit. */
static void expect_exit(weft_pid pid, int reason) {
    weft_message m = expect(WEFT_MESSAGE_EXIT);
    CHECK_EQ(m.from, pid);
    CHECK_EQ(m.error, reason);
}
static void expect_down(weft_pid pid, uint64_t monitor, int reason) {
    weft_message m = expect(WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.from, pid);
    CHECK_EQ(m.tag, monitor);
    CHECK_EQ(m.error, reason);
}

static int traps(void *arg) {
    weft_pid pid;
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    weft_process_spec spec = spec_of(echo_server, NULL);
    /* Each way to end, with its reason. */
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    end_server(NULL, pid, 0);
    expect_exit(pid, 0);
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    end_server(NULL, pid, -EPIPE);
    expect_exit(pid, -EPIPE);
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    REQUIRE_EQ(weft_process_exit(NULL, pid, -EXDEV), 0);
    expect_exit(pid, -EXDEV);
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    REQUIRE_EQ(weft_process_cancel(NULL, pid), 0);
    expect_exit(pid, 0);
    /* Linked later, and twice. */
    pid = go_process(NULL, echo_server, NULL);
    REQUIRE_EQ(weft_link(pid), 0);
    REQUIRE_EQ(weft_link(pid), 0);
    CHECK_EQ(weft_link(weft_self()), 0);
    end_server(NULL, pid, -EPIPE);
    expect_exit(pid, -EPIPE);
    expect_none();
    /* One that has gone. */
    CHECK_EQ(weft_link(pid), -ESRCH);
    expect_exit(pid, -ESRCH);
    /* Unlinked. */
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    REQUIRE_EQ(weft_unlink(pid), 0);
    end_server(NULL, pid, -EPIPE);
    UNTIL(!weft_process_is_alive(NULL, pid));
    CHECK_EQ(weft_unlink(pid), 0);
    expect_none();
    return 0;
}
API_TEST(process_trap_exit, "W6 W7", .workers = {1, 2, 4}) { in_process(traps, NULL); }

/* Not trapped: an error takes the other along, an end without one does not.  Links have two sides. */
static _Atomic weft_pid child;
static int parent(void *how) {
    weft_process_spec spec = spec_of(echo_server, NULL);
    weft_pid pid;
    REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    atomic_store(&child, pid);
    (void)how;
    return echo_server(NULL);
}

static int propagates(void *arg) {
    uint64_t monitor[2];
    (void)arg;
    for (int who = 0; who < 2; who++)       /* the parent ends, the child ends */
        for (int error = 0; error < 2; error++) {
            atomic_store(&child, 0);
            weft_pid pid[2] = {go_process(NULL, parent, NULL)};
            UNTIL(atomic_load(&child));
            pid[1] = atomic_load(&child);
            REQUIRE_EQ(weft_monitor(pid[0], &monitor[0]), 0);
            REQUIRE_EQ(weft_monitor(pid[1], &monitor[1]), 0);
            end_server(NULL, pid[who], error ? -EPIPE : 0);
            if (error) {
                weft_message m = expect(WEFT_MESSAGE_DOWN), n;
                m.data = NULL;
                n = expect(WEFT_MESSAGE_DOWN);
                CHECK_EQ(m.error, -EPIPE); /* both with the same reason */
                CHECK_EQ(n.error, -EPIPE);
                CHECK(m.tag != n.tag);
            } else {
                expect_down(pid[who], monitor[who], 0);
                CHECK(weft_process_is_alive(NULL, pid[!who]));
                end_server(NULL, pid[!who], 0);
                expect_down(pid[!who], monitor[!who], 0);
            }
        }
    expect_none();
    return 0;
}
API_TEST(process_links_propagate, "W6", .workers = {1, 2, 4}) { in_process(propagates, NULL); }

/* -- Monitors. */

static int monitors(void *arg) {
    weft_process_spec spec = spec_of(echo_server, NULL);
    weft_pid pid;
    uint64_t monitor[3] = {0};
    (void)arg;
    REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor[0]), 0);
    REQUIRE_EQ(weft_monitor(pid, &monitor[1]), 0);
    REQUIRE_EQ(weft_monitor(pid, &monitor[2]), 0);
    CHECK(monitor[0] != monitor[1] && monitor[1] != monitor[2]);
    CHECK_EQ(weft_demonitor(monitor[1]), 0);
    CHECK_EQ(weft_demonitor(monitor[1]), -ESRCH);
    CHECK_EQ(weft_demonitor(0), -EINVAL);
    CHECK_EQ(weft_demonitor(WEFT_TAG_RESERVED | 0xffffff), -ESRCH); /* a place that there never was */
    CHECK_EQ(weft_unlink(weft_self()), 0);
    CHECK_EQ(weft_monitor(pid, NULL), -EINVAL);
    end_server(NULL, pid, -EPIPE);
    weft_message m = expect(WEFT_MESSAGE_DOWN);
    uint64_t first = m.tag;
    CHECK(first == monitor[0] || first == monitor[2]);
    expect_down(pid, first == monitor[0] ? monitor[2] : monitor[0], -EPIPE);
    /* Of one that has ended, of one that never was. */
    REQUIRE_EQ(weft_monitor(pid, &monitor[0]), 0);
    expect_down(pid, monitor[0], -ESRCH);
    CHECK_EQ(weft_demonitor(monitor[0]), -ESRCH);
    REQUIRE_EQ(weft_monitor(12345, &monitor[0]), 0);
    expect_down(12345, monitor[0], -ESRCH);
    expect_none();
    return 0;
}
API_TEST(process_monitors, "W10 W7", .workers = {1, 2, 4}) { in_process(monitors, NULL); }

/* A class ends with an error: told as well. */
static int fail_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count, (void)out;
    return -EPROTO;
}
static int monitor_class(void *arg) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = fail_step};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    uint64_t monitor;
    (void)arg;
    spec.class_ = &class_;
    REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
    expect_down(pid, monitor, -EPROTO);
    return 0;
}
API_TEST(process_monitor_class, "W6", .workers = {1, 2}) { in_process(monitor_class, NULL); }

/* -- Ends, links and unlinks that cross. */

static int die_soon(void *arg) {
    for (uintptr_t i = (uintptr_t)arg % 5; i > 0; i--)
        weft_yield();
    return -EPIPE;
}

/* Linked to one that is about to end: told once, unless it unlinks. */
static int link_against_end(void *arg) {
    unsigned count = fixture_is_slow() ? 100 : 1500;
    (void)arg;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    for (uintptr_t i = 0; i < count; i++) {
        weft_pid pid = go_process(NULL, die_soon, (void *)i);
        for (uintptr_t j = i / 5 % 4; j > 0; j--)
            weft_yield();
        int error = weft_link(pid);
        if (i % 3 == 2) {
            REQUIRE(error == 0 || error == -ESRCH);
            REQUIRE_EQ(weft_unlink(pid), 0);
            /* It has come before, or never will. */
            weft_message m;
            while (weft_receive(&m, NULL, NULL, WEFT_NOW) == 0)
                REQUIRE(m.type == WEFT_MESSAGE_EXIT && m.from == pid);
            UNTIL(!weft_process_is_alive(NULL, pid));
            weft_yield();
            expect_none();
        } else {
            expect_exit(pid, error ? -ESRCH : -EPIPE);
        }
    }
    expect_none();
    return 0;
}
API_TEST(process_link_against_end, "W6 W10", .workers = {1, 2, 4}) { in_process(link_against_end, NULL); }

/* Not trapped.  An unlink that returned 0 keeps the other's end away; one that did not says that it has come. */
static int part_in_time(void *arg) {
    weft_task *dying;
    weft_pid pid;
    weft_result result;
    weft_process_spec spec = spec_of(die_soon, arg);
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, &dying), 0);
    int error = weft_link(pid);
    REQUIRE(error == 0 || error == -ESRCH);
    for (uintptr_t j = (uintptr_t)arg / 5 % 4; j > 0; j--)
        weft_checkpoint();
    int parted = weft_unlink(pid);
    REQUIRE(parted == 0 || (parted == -ECANCELED && !error));
    if (!parted) {
        REQUIRE_EQ(weft_join(dying, &result, WEFT_NEVER), 0); /* all of its end is over */
        CHECK_EQ(result.status, -EPIPE);
        REQUIRE_EQ(weft_yield(), 0);
        CHECK_EQ(weft_unlink(pid), 0);
    }
    weft_task_drop(dying);
    return parted;
}
static int part_many(void *arg) {
    unsigned count = fixture_is_slow() ? 100 : 1500;
    (void)arg;
    for (uintptr_t i = 0; i < count; i++) {
        weft_task *task;
        weft_result result;
        weft_process_spec spec = spec_of(part_in_time, (void *)i);
        REQUIRE_EQ(weft_process_spawn(NULL, &spec, NULL, &task), 0);
        REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        REQUIRE(result.status == 0 || result.status == -ECANCELED);
        weft_task_drop(task);
    }
    return 0;
}
API_TEST(process_unlink_parts, "W6 W10", .workers = {1, 2, 4}) { in_process(part_many, NULL); }

/* Who is about to end parts all the same from one that lives: there is no end of that one to speak of. */
static int part_condemned(void *arg) {
    weft_pid living = *(weft_pid *)arg;
    REQUIRE_EQ(weft_link(living), 0);
    REQUIRE_EQ(weft_process_exit(NULL, weft_self(), -EXDEV), 0);
    CHECK_EQ(weft_unlink(living), 0);
    CHECK_EQ(weft_unlink(living), 0); /* and there was no link */
    return 0;
}
static int part_from_the_living(void *arg) {
    weft_pid self = weft_self(), pid;
    uint64_t monitor;
    (void)arg;
    weft_process_spec spec = spec_of(part_condemned, &self);
    REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
    expect_down(pid, monitor, -EXDEV);
    return 0;
}
API_TEST(process_unlink_condemned, "W6 W10", .workers = {1, 2}) { in_process(part_from_the_living, NULL); }

/* Who is linked, and links again while the other ends, ends with it all the same. */
static int link_twice(void *arg) {
    weft_pid pid = go_process(NULL, die_soon, arg);
    int error = weft_link(pid), again = error ? error : weft_link(pid);
    weft_message m;
    REQUIRE(again == 0 || again == -ESRCH);
    return error ? -EPIPE : weft_receive(&m, NULL, NULL, WEFT_NEVER); /* its reason is what counts */
}
static int link_twice_against_end(void *arg) {
    (void)arg;
    for (uintptr_t i = 0; i < (fixture_is_slow() ? 100 : 1500); i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_pid pid;
        uint64_t monitor;
        spec.fn = link_twice;
        spec.arg = (void *)i;
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
        weft_message m = expect(WEFT_MESSAGE_DOWN);
        CHECK_EQ(m.error, -EPIPE);
    }
    return 0;
}
API_TEST(process_link_twice_against_end, "W6 W10", .workers = {1, 2}) { in_process(link_twice_against_end, NULL); }

static int monitor_against_end(void *arg) {
    unsigned count = fixture_is_slow() ? 100 : 1500;
    (void)arg;
    for (uintptr_t i = 0; i < count; i++) {
        weft_pid pid = go_process(NULL, die_soon, (void *)i);
        uint64_t monitor;
        for (uintptr_t j = i / 5 % 4; j > 0; j--)
            weft_yield();
        REQUIRE_EQ(weft_monitor(pid, &monitor), 0);
        if (i % 3 == 2 && weft_demonitor(monitor) == 0) {
            UNTIL(!weft_process_is_alive(NULL, pid));
            expect_none();
            continue;
        }
        weft_message m = expect(WEFT_MESSAGE_DOWN);
        REQUIRE_EQ(m.tag, monitor);
        REQUIRE(m.error == -EPIPE || m.error == -ESRCH);
    }
    expect_none();
    return 0;
}
API_TEST(process_monitor_against_end, "W10", .workers = {1, 2, 4}) { in_process(monitor_against_end, NULL); }

/* A whole family, each linked to the one before: one dies, all do. */
static atomic_uint family;
static int member(void *depth) {
    uintptr_t left = (uintptr_t)depth;
    if (left) {
        weft_process_spec spec = spec_of(member, (void *)(left - 1));
        int error = weft_process_spawn_linked(&spec, NULL);
        if (error)
            return error;
    }
    atomic_fetch_add(&family, 1);
    return echo_server(NULL);
}
API_TEST(process_family_dies, "W6", .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pid head = go_process(rt, member, (void *)200);
    REQUIRE_EVENTUALLY(atomic_load(&family) == 201);
    CHECK_EQ(weft_process_count(rt), 201);
    CHECK_EQ(weft_process_exit(rt, head, -EOWNERDEAD), 0);
    REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
    fixture_end(rt);
}

/* A parent that is being killed spawns linked children: none outlives it. */
static int spawn_for_ever(void *arg) {
    weft_process_spec spec = spec_of(sit, NULL);
    (void)arg;
    while (weft_process_spawn_linked(&spec, NULL) == 0)
        if (weft_yield())
            break;
    return 0;
}
API_TEST(process_spawn_linked_against_exit, "W6", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < (fixture_is_slow() ? 5 : 50); i++) {
        weft_pid pid = go_process(rt, spawn_for_ever, NULL);
        REQUIRE_EVENTUALLY(weft_process_count(rt) > 3);
        CHECK_EQ(weft_process_exit(rt, pid, -EOWNERDEAD), 0);
        REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
    }
    fixture_end(rt);
}
