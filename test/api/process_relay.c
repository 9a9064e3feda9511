/* process_relay.c - relays: messages, replies, questions, monitors and names between two runtimes; nodes that come and go. */
#include <weft/relay.h>

#include "process.h"

/* Two runtimes of one program, each the other's node: what one is given it delivers to the other. */
struct side {
    weft_runtime *rt, *other;
    unsigned node; /* of the other, here */
    unsigned back; /* of this one, there */
    atomic_uint sent, released;
    atomic_int refuse; /* what send returns instead */
    atomic_int drops; /* this type of parcel is lost */
};

static struct side a, b;

static int cross(void *state, const weft_parcel *parcel) {
    struct side *side = state;
    atomic_fetch_add(&side->sent, 1);
    int refuse = atomic_load(&side->refuse);
    if (refuse)
        return refuse;
    if ((int)parcel->type == atomic_load(&side->drops))
        return 0;
    return weft_relay_deliver(side->other, side->back, parcel, WEFT_NOW);
}
static void count_release(void *state) { atomic_fetch_add(&((struct side *)state)->released, 1); }

static weft_relay direct(bool takes_names) {
    weft_relay relay = WEFT_RELAY_INIT;
    relay.send = cross;
    relay.release = count_release;
    relay.takes_names = takes_names;
    return relay;
}

static void connect_sides(void) {
    weft_relay relay = direct(true);
    a.rt = b.other = fixture_begin_patient();
    b.rt = a.other = fixture_begin_patient();
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &a, &a.node), 0);
    REQUIRE_EQ(weft_relay_attach(b.rt, &relay, &b, &b.node), 0);
    a.back = b.node;
    b.back = a.node;
}

static void end_sides(void) {
    REQUIRE_EQ(weft_runtime_stop(a.rt, fixture_soon()), 0);
    REQUIRE_EQ(weft_runtime_stop(b.rt, fixture_soon()), 0);
    if (!atomic_load(&a.released))
        CHECK_EQ(weft_relay_detach(a.rt, a.node, 0), 0);
    CHECK_EQ(atomic_load(&a.released), 1);
    fixture_end(a.rt);
    fixture_end(b.rt); /* which releases what is attached */
    CHECK_EQ(atomic_load(&b.released), 1);
}

/* Run fn as a process of a, which may fail. */
static void run_in_a(weft_fiber_fn fn, void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = fn;
    spec.arg = arg;
    REQUIRE_EQ(weft_process_spawn(a.rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
}

/* -- Messages, replies, questions. */

static int talk(void *arg) {
    weft_pid theirs = *(weft_pid *)arg, there = weft_relay_pid(a.node, theirs);
    weft_message reply;
    char large[300];
    CHECK_EQ(weft_pid_node(there), a.node);
    CHECK_EQ(weft_pid_theirs(there), theirs);
    CHECK(there != theirs);
    CHECK_EQ(weft_send(NULL, there, 5, "hello", 5), 0);
    weft_message m = expect(WEFT_MESSAGE);
    CHECK_EQ(m.tag, 5);
    CHECK_EQ(m.from, there); /* and so a reply goes there */
    REQUIRE_EQ(m.size, 5);
    CHECK_EQ(memcmp(m.data, "hello", 5), 0);
    CHECK_EQ(weft_ask(there, "question", 8, &reply, in_time()), 0);
    CHECK_EQ(reply.from, there);
    REQUIRE_EQ(reply.size, 8);
    CHECK_EQ(memcmp(reply.data, "question", 8), 0);
    memset(large, 'x', sizeof large);
    CHECK_EQ(weft_ask(there, large, sizeof large, &reply, in_time()), 0);
    REQUIRE_EQ(reply.size, sizeof large);
    CHECK_EQ(memcmp(reply.data, large, sizeof large), 0);
    for (int i = 0; i < 90; i++)
        CHECK_EQ(weft_try_send(NULL, there, (uint64_t)i, &i, sizeof i), 0);
    for (int i = 0; i < 90; i++) { /* in order */
        m = expect(WEFT_MESSAGE);
        CHECK_EQ(m.tag, i);
    }
    CHECK_EQ(weft_send(NULL, there, TAG_END, NULL, 0), 0);
    return 0;
}
API_TEST(process_relay_talk, "W29 W30", .workers = {1, 2}) {
    connect_sides();
    weft_pid server = go_process(b.rt, echo_server, NULL);
    run_in_a(talk, &server);
    end_sides();
}

/* A reference is released once, whether it crosses or not. */
static atomic_uint references;
static void drop_reference(void *data) {
    (void)data;
    atomic_fetch_add(&references, 1);
}
API_TEST(process_relay_reference, "W30") {
    connect_sides();
    static int value = 7;
    weft_pid server = go_process(b.rt, sit, NULL), there = weft_relay_pid(a.node, server);
    weft_pid some = go_process(a.rt, sit, NULL); /* a table to send into */
    CHECK_EQ(weft_send_ref(a.rt, there, 1, &value, sizeof value, drop_reference), 0);
    CHECK_EQ(atomic_load(&references), 1);
    atomic_store(&a.refuse, -ENOBUFS);
    CHECK_EQ(weft_send_ref(a.rt, there, 1, &value, sizeof value, drop_reference), -ENOBUFS);
    CHECK_EQ(weft_send(a.rt, there, 1, NULL, 0), -ENOBUFS); /* the relay's error is the sender's */
    CHECK_EQ(atomic_load(&references), 1);
    CHECK_EQ(weft_process_cancel(a.rt, some), 0);
    CHECK_EQ(weft_process_cancel(b.rt, server), 0);
    end_sides();
}

/* A bounded mailbox on the other side: full is full, and a delivery may wait for room. */
static atomic_bool may_read;
static int read_late(void *arg) {
    (void)arg;
    UNTIL(atomic_load(&may_read));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, i);
    return 0;
}
API_TEST(process_relay_full, "W29 W30", .workers = {2}) {
    connect_sides();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_parcel parcel = WEFT_PARCEL_INIT;
    weft_task *task;
    spec.fn = read_late;
    spec.max_messages = 2;
    spec.policy = WEFT_MAILBOX_BLOCK;
    weft_pid reader, some = go_process(a.rt, sit, NULL);
    REQUIRE_EQ(weft_process_spawn(b.rt, &spec, &reader, &task), 0);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(weft_send(a.rt, weft_relay_pid(a.node, reader), i, NULL, 0), i < 2 ? 0 : -ENOBUFS);
    parcel.to = reader;
    parcel.tag = 2;
    CHECK_EQ(weft_relay_deliver(b.rt, b.node, &parcel, weft_after(1000000)), -ETIMEDOUT);
    atomic_store(&may_read, true);
    CHECK_EQ(weft_relay_deliver(b.rt, b.node, &parcel, fixture_soon()), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_process_cancel(a.rt, some), 0);
    end_sides();
}

/* -- Monitors. */

static weft_pid others[3];
static int watch(void *arg) {
    uint64_t first, second, third;
    weft_pid ends = weft_relay_pid(a.node, others[0]), stays = weft_relay_pid(a.node, others[1]);
    int error = -EDOM;
    (void)arg;
    CHECK_EQ(weft_monitor(ends, &first), 0);
    CHECK_EQ(weft_monitor(stays, &second), 0);
    CHECK_EQ(weft_demonitor(second), 0);
    CHECK_EQ(weft_demonitor(second), -ESRCH);
    CHECK_EQ(weft_monitor(stays, &third), 0);
    CHECK_EQ(weft_send(NULL, ends, TAG_END, &error, sizeof error), 0);
    weft_message m = expect(WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.from, ends);
    CHECK_EQ(m.tag, first);
    CHECK_EQ(m.error, -EDOM);
    CHECK_EQ(weft_monitor(ends, &first), 0); /* it has ended: at once */
    m = expect(WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.tag, first);
    CHECK_EQ(m.error, -ESRCH);
    weft_message reply;
    CHECK_EQ(weft_ask(ends, NULL, 0, &reply, in_time()), -ESRCH);
    expect_none();
    /* The connection is lost. */
    CHECK_EQ(weft_relay_detach(NULL, a.node, -ECONNRESET), 0);
    m = expect(WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.from, stays);
    CHECK_EQ(m.tag, third);
    CHECK_EQ(m.error, -ECONNRESET);
    CHECK_EQ(weft_monitor(stays, &third), 0);
    CHECK_EQ(expect(WEFT_MESSAGE_DOWN).error, -EHOSTUNREACH);
    CHECK_EQ(weft_send(NULL, stays, 1, NULL, 0), -EHOSTUNREACH);
    CHECK_EQ(weft_ask(stays, NULL, 0, &reply, in_time()), -EHOSTUNREACH);
    expect_none();
    return 0;
}
API_TEST(process_relay_monitor, "W29 W30", .workers = {1, 2}) {
    connect_sides();
    others[0] = go_process(b.rt, echo_server, NULL);
    others[1] = go_process(b.rt, echo_server, NULL);
    run_in_a(watch, NULL);
    end_server(b.rt, others[1], 0);
    end_sides();
}

/* The peer is gone while a question waits for its answer. */
static int ask_silent(void *arg) {
    weft_message reply;
    CHECK_EQ(weft_ask(weft_relay_pid(a.node, *(weft_pid *)arg), NULL, 0, &reply, in_time()), -ESRCH);
    expect_none();
    return 0;
}
API_TEST(process_relay_lost_while_asked, "W30", .workers = {1, 2}) {
    connect_sides();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_pid server = go_process(b.rt, sit, NULL);
    spec.fn = ask_silent;
    spec.arg = &server;
    REQUIRE_EQ(weft_process_spawn(a.rt, &spec, NULL, &task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&a.sent) == 2); /* the monitor, the question */
    CHECK_EQ(weft_relay_detach(a.rt, a.node, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_process_cancel(b.rt, server), 0);
    end_sides();
}

/* A relay that refuses a monitor: its error is the end's. */
static int watch_refused(void *arg) {
    uint64_t monitor;
    CHECK_EQ(weft_monitor(*(weft_pid *)arg, &monitor), 0);
    weft_message m = expect(WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.tag, monitor);
    CHECK_EQ(m.error, -ENOBUFS);
    expect_none();
    return 0;
}
API_TEST(process_relay_monitor_refused, "W30") {
    connect_sides();
    weft_pid server = go_process(b.rt, sit, NULL), there = weft_relay_pid(a.node, server);
    atomic_store(&a.refuse, -ENOBUFS);
    run_in_a(watch_refused, &there);
    CHECK_EQ(weft_process_cancel(b.rt, server), 0);
    end_sides();
}

/* Processes that end with monitors leave none behind, here or there. */
static int watch_and_end(void *arg) {
    uint64_t monitor;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_monitor(*(weft_pid *)arg, &monitor), 0);
    return 0;
}
API_TEST(process_relay_many_monitors, "W30", .workers = {1, 2}) {
    connect_sides();
    weft_pid server = go_process(b.rt, echo_server, NULL), there = weft_relay_pid(a.node, server);
    for (int i = 0; i < 50; i++)
        run_in_a(watch_and_end, &there);
    end_server(b.rt, server, 0);
    end_sides();
}

/* -- A relay that refuses a DOWN is detached: nobody waits for ever. */

static atomic_uint watching;

/* Its connection has ended: the other side learns of it. */
static void hang_up(void *state) {
    struct side *side = state;
    atomic_fetch_add(&side->released, 1);
    (void)weft_relay_detach(side->other, side->back, -ECONNRESET);
}

/* Monitors a process of the other side until the end is told; the reason is its result. */
static int watch_until_down(void *arg) {
    uint64_t monitor;
    CHECK_EQ(weft_monitor(*(weft_pid *)arg, &monitor), 0);
    atomic_fetch_add(&watching, 1);
    weft_message m = expect(WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.tag, monitor);
    expect_none();
    return m.error;
}

static weft_task *go_watcher(weft_runtime *rt, weft_pid *pid) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    unsigned before = atomic_load(&watching);
    spec.fn = watch_until_down;
    spec.arg = pid;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&watching) > before);
    return task;
}

static void connect_with_hang_up(void) {
    connect_sides();
    CHECK_EQ(weft_relay_detach(a.rt, a.node, 0), 0);
    CHECK_EQ(weft_relay_detach(b.rt, b.node, 0), 0);
    atomic_store(&a.released, 0);
    atomic_store(&b.released, 0);
    weft_relay relay = direct(true);
    relay.release = hang_up;
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &a, &a.node), 0);
    REQUIRE_EQ(weft_relay_attach(b.rt, &relay, &b, &b.node), 0);
    a.back = b.node;
    b.back = a.node;
}

API_TEST(process_relay_refuses_down, "W29 W30", .workers = {1, 2}) {
    connect_with_hang_up();
    weft_pid here = go_process(a.rt, sit, NULL), there = go_process(b.rt, sit, NULL);
    weft_pid here_from_b = weft_relay_pid(b.node, here), there_from_a = weft_relay_pid(a.node, there);
    weft_task *from_a = go_watcher(a.rt, &there_from_a), *from_b = go_watcher(b.rt, &here_from_b);
    atomic_store(&b.refuse, -ENOBUFS);
    CHECK_EQ(weft_process_exit(b.rt, there, -EIO), 0); /* its end cannot be told */
    CHECK_EQ(fixture_finish(from_b).status, -ENOBUFS);
    CHECK_EQ(fixture_finish(from_a).status, -ECONNRESET);
    CHECK_EQ(atomic_load(&a.released), 1);
    CHECK_EQ(atomic_load(&b.released), 1);
    CHECK_EQ(weft_send(b.rt, here_from_b, 1, NULL, 0), -EHOSTUNREACH);
    CHECK_EQ(weft_process_cancel(a.rt, here), 0);
    end_sides();
}

/* That the process on the other side is gone is no reason. */
API_TEST(process_relay_down_for_nobody, "W30", .workers = {1}) {
    connect_with_hang_up();
    weft_pid there = go_process(b.rt, sit, NULL), there_from_a = weft_relay_pid(a.node, there);
    weft_task *from_a = go_watcher(a.rt, &there_from_a);
    unsigned sent = atomic_load(&b.sent);
    atomic_store(&b.refuse, -ESRCH);
    CHECK_EQ(weft_process_exit(b.rt, there, -EIO), 0);
    REQUIRE_EVENTUALLY(atomic_load(&b.sent) > sent);
    REQUIRE_EVENTUALLY(weft_process_count(b.rt) == 0);
    CHECK_EQ(atomic_load(&b.released), 0);
    CHECK_EQ(weft_relay_detach(b.rt, b.node, 0), 0); /* and so the process that watches hears of it */
    CHECK_EQ(fixture_finish(from_a).status, -ECONNRESET);
    end_sides();
}

/* A monitor of a process that has ended is answered with a DOWN, which is refused. */
API_TEST(process_relay_refuses_answer, "W30", .workers = {1}) {
    connect_with_hang_up();
    weft_pid there = go_process(b.rt, sit, NULL), here = go_process(a.rt, sit, NULL);
    weft_parcel parcel = WEFT_PARCEL_INIT;
    parcel.type = WEFT_PARCEL_MONITOR;
    parcel.to = there;
    parcel.from = here;
    parcel.tag = WEFT_TAG_RESERVED | 1;
    CHECK_EQ(weft_process_exit(b.rt, there, -EIO), 0);
    REQUIRE_EVENTUALLY(weft_process_count(b.rt) == 0);
    CHECK_EQ(weft_relay_deliver(b.rt, b.node, &parcel, WEFT_NOW), 0); /* accepted there, and ignored */
    atomic_store(&b.refuse, -EPIPE);
    CHECK_EQ(weft_relay_deliver(b.rt, b.node, &parcel, WEFT_NOW), -ENOTCONN);
    CHECK_EQ(atomic_load(&b.released), 1);
    CHECK_EQ(atomic_load(&a.released), 1);
    CHECK_EQ(weft_process_cancel(a.rt, here), 0);
    end_sides();
}

/* -- Names. */

/* Relays that cannot be reached are passed over: the name is found behind the next one. */
static int unreachable(void *state, const weft_parcel *parcel) {
    (void)parcel;
    return *(int *)state;
}
static int hear_name(void *arg);
API_TEST(process_relay_name_behind_another, "W30", .workers = {1}) {
    static int down = -EHOSTUNREACH, gone = -ENOTCONN;
    static weft_pid from;
    weft_relay relay = WEFT_RELAY_INIT, over = direct(true);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    unsigned node[2], last;
    weft_pid some;
    relay.send = unreachable;
    relay.takes_names = true;
    a.rt = b.other = fixture_begin_patient();
    b.rt = a.other = fixture_begin_patient();
    some = go_process(a.rt, sit, NULL);
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &down, &node[0]), 0);
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &gone, &node[1]), 0);
    CHECK_EQ(weft_send_name(a.rt, "there", 4, "hi", 2), -EHOSTUNREACH); /* it may be behind that one */
    REQUIRE_EQ(weft_relay_attach(a.rt, &over, &a, &a.node), 0);
    REQUIRE_EQ(weft_relay_attach(b.rt, &over, &b, &b.node), 0);
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &down, &last), 0); /* behind it */
    a.back = b.node;
    b.back = a.node;
    spec.fn = hear_name;
    spec.arg = &from;
    spec.registered = "there";
    REQUIRE_EQ(weft_process_spawn(b.rt, &spec, NULL, &task), 0);
    CHECK_EQ(weft_send_name(a.rt, "there", 4, "hi", 2), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_send_name(a.rt, "there", 4, "hi", 2), -EHOSTUNREACH);
    CHECK_EQ(weft_process_cancel(a.rt, some), 0);
    end_sides();
}

static int hear_name(void *arg) {
    weft_message m = expect(WEFT_MESSAGE);
    weft_pid *from = arg;
    *from = m.from;
    CHECK_EQ(m.tag, 4);
    CHECK_EQ(m.size, 2);
    return 0;
}
static int say_name(void *arg) {
    (void)arg;
    CHECK_EQ(weft_send_name(NULL, "here", 4, "hi", 2), 0);
    CHECK_EQ(weft_send_name(NULL, "there", 4, "hi", 2), 0);
    CHECK_EQ(weft_send_name(NULL, "nowhere", 4, "hi", 2), -ESRCH);
    CHECK_EQ(weft_send_name(NULL, "", 4, "hi", 2), -EINVAL);
    return 0;
}
API_TEST(process_relay_name, "W30", .workers = {1, 2}) {
    static weft_pid from[2];
    connect_sides();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *here, *there;
    spec.fn = hear_name;
    spec.registered = "here";
    spec.arg = &from[0];
    REQUIRE_EQ(weft_process_spawn(a.rt, &spec, NULL, &here), 0);
    spec.registered = "there";
    spec.arg = &from[1];
    REQUIRE_EQ(weft_process_spawn(b.rt, &spec, NULL, &there), 0);
    run_in_a(say_name, NULL);
    CHECK_EQ(fixture_finish(here).status, 0);
    CHECK_EQ(fixture_finish(there).status, 0);
    CHECK_EQ(weft_pid_node(from[0]), 0);
    CHECK_EQ(weft_pid_node(from[1]), b.node);
    CHECK_EQ(weft_pid_theirs(from[1]) != WEFT_PID_NONE, true);
    end_sides();
}

/* Three runtimes in a ring: a name that nobody has goes round until it has passed too many relays. */
static int turn_back(void *state, const weft_parcel *parcel) {
    struct side *side = state;
    atomic_fetch_add(&side->sent, 1);
    return weft_relay_deliver(side->rt, side->back, parcel, WEFT_NOW);
}
API_TEST(process_relay_name_loop, "W30") {
    weft_relay relay = WEFT_RELAY_INIT;
    unsigned first, second;
    weft_runtime *rt = fixture_begin_patient();
    relay.send = turn_back;
    relay.takes_names = true;
    a.rt = b.rt = rt;
    REQUIRE_EQ(weft_relay_attach(rt, &relay, &a, &first), 0);
    REQUIRE_EQ(weft_relay_attach(rt, &relay, &b, &second), 0);
    a.back = first; /* what goes out by a comes in by a, and goes on by b */
    b.back = second;
    CHECK_EQ(weft_send_name(rt, "nobody", 1, NULL, 0), -ELOOP);
    CHECK_EQ(atomic_load(&a.sent) + atomic_load(&b.sent), WEFT_RELAY_HOPS_MAX);
    fixture_end(rt);
}

/* -- Nodes. */

static int detach_itself(void *state, const weft_parcel *parcel) {
    struct side *side = state;
    (void)parcel;
    CHECK_EQ(weft_relay_detach(side->rt, side->node, 0), 0);
    CHECK_EQ(atomic_load(&side->released), 2); /* it is in a call: not yet */
    return -EHOSTUNREACH;
}
API_TEST(process_relay_nodes, "W30") {
    weft_relay relay = direct(false);
    unsigned node, seen[WEFT_NODE_MAX + 1] = {0};
    a.rt = fixture_begin_patient();
    weft_pid some = go_process(a.rt, sit, NULL);
    CHECK_EQ(weft_relay_detach(a.rt, 1, 0), -ENOTCONN);
    CHECK_EQ(weft_send(a.rt, weft_relay_pid(1, some), 1, NULL, 0), -ESRCH); /* never was one */
    for (unsigned i = 0; i < WEFT_NODE_MAX; i++) {
        REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &a, &node), 0);
        REQUIRE(node >= 1 && node <= WEFT_NODE_MAX);
        CHECK_EQ(seen[node]++, 0);
    }
    node = 999;
    CHECK_EQ(weft_relay_attach(a.rt, &relay, &a, &node), -ENOSPC);
    CHECK_EQ(node, 999);
    CHECK_EQ(weft_relay_detach(a.rt, 7, 0), 0);
    CHECK_EQ(weft_relay_detach(a.rt, 7, 0), -ENOTCONN);
    CHECK_EQ(weft_relay_detach(a.rt, 9, 0), 0);
    CHECK_EQ(atomic_load(&a.released), 2);
    relay.send = detach_itself;
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &a, &node), 0);
    CHECK_EQ(node, 7);
    a.node = 7;
    CHECK_EQ(weft_send(a.rt, weft_relay_pid(7, some), 1, NULL, 0), -EHOSTUNREACH);
    CHECK_EQ(atomic_load(&a.released), 3);
    REQUIRE_EQ(weft_relay_attach(a.rt, &relay, &a, &node), 0);
    CHECK_EQ(node, 9); /* not 7 again */
    CHECK_EQ(weft_process_cancel(a.rt, some), 0);
    fixture_end(a.rt);
    CHECK_EQ(atomic_load(&a.released), 3 + WEFT_NODE_MAX - 1);
}

/* Without a relay: from outside, to a pid or a name. */
static int hear_outside(void *arg) {
    (void)arg;
    for (uint64_t i = 1; i <= 2; i++) {
        weft_message m = expect(WEFT_MESSAGE);
        CHECK_EQ(m.tag, i);
        CHECK_EQ(m.from, WEFT_PID_NONE);
    }
    return 0;
}
API_TEST(process_relay_outside, "W30") {
    weft_runtime *rt = fixture_begin_patient();
    weft_parcel parcel = WEFT_PARCEL_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_pid pid;
    parcel.name = "outside";
    CHECK_EQ(weft_relay_deliver(rt, 0, &parcel, WEFT_NOW), -ESRCH); /* there has been no process */
    spec.fn = hear_outside;
    spec.registered = "outside";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    parcel.tag = 1;
    CHECK_EQ(weft_relay_deliver(rt, 0, &parcel, WEFT_NOW), 0);
    parcel.name = NULL;
    parcel.to = pid;
    parcel.tag = 2;
    CHECK_EQ(weft_relay_deliver(rt, 0, &parcel, WEFT_NOW), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_relay_deliver(rt, 0, &parcel, WEFT_NOW), -ESRCH);
    fixture_end(rt);
}

/* -- What is malformed. */

API_TEST(process_relay_wrong, "W30") {
    connect_sides();
    weft_pid pid = go_process(b.rt, sit, NULL), foreign = weft_relay_pid(b.node, pid);
    weft_parcel good = WEFT_PARCEL_INIT, parcel;
    weft_relay relay = WEFT_RELAY_INIT;
    char name[65];
    unsigned node = 3;
    memset(name, 'n', sizeof name - 1);
    name[64] = 0;
    good.to = pid;
#define WRONG(field, value, expected)                                                                                  \
    do {                                                                                                               \
        parcel = good;                                                                                                 \
        parcel.field = value;                                                                                          \
        CHECK_EQ(weft_relay_deliver(b.rt, b.node, &parcel, WEFT_NOW), expected);                                       \
    } while (0)
    WRONG(size, 1, -EINVAL);
    WRONG(type, (weft_parcel_type)0, -EINVAL);
    WRONG(type, (weft_parcel_type)6, -EINVAL);
    WRONG(type, WEFT_PARCEL_MONITOR, -EINVAL); /* from nobody, with no number of a monitor */
    WRONG(error, 1, -EINVAL);
    WRONG(to, WEFT_PID_NONE, -EINVAL);
    WRONG(to, foreign, -EINVAL);
    WRONG(from, foreign, -EINVAL);
    WRONG(name, "", -EINVAL);
    WRONG(name, name, -EINVAL);
    WRONG(data_size, 1, -EINVAL);
    parcel = good;
    parcel.data = name;
    parcel.data_size = (size_t)UINT32_MAX + 1;
    CHECK_EQ(weft_relay_deliver(b.rt, b.node, &parcel, WEFT_NOW), -EMSGSIZE);
    CHECK_EQ(weft_relay_deliver(b.rt, b.node + 1, &good, WEFT_NOW), -ENOTCONN);
    CHECK_EQ(weft_relay_deliver(b.rt, 1000, &good, WEFT_NOW), -ENOTCONN);
    CHECK_EQ(weft_relay_deliver(b.rt, b.node, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_relay_deliver(NULL, b.node, &good, WEFT_NOW), -EINVAL);
    good.from = pid;
    CHECK_EQ(weft_relay_deliver(b.rt, 0, &good, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_relay_attach(b.rt, NULL, NULL, &node), -EINVAL);
    CHECK_EQ(weft_relay_attach(b.rt, &relay, NULL, &node), -EINVAL); /* no send */
    relay.send = cross;
    CHECK_EQ(weft_relay_attach(NULL, &relay, NULL, &node), -EINVAL);
    CHECK_EQ(weft_relay_attach(b.rt, &relay, NULL, NULL), -EINVAL);
    relay.size = 1;
    CHECK_EQ(weft_relay_attach(b.rt, &relay, NULL, &node), -EINVAL);
    CHECK_EQ(weft_relay_detach(NULL, 1, 0), -EINVAL);
    CHECK_EQ(weft_relay_detach(b.rt, 1, 1), -EINVAL);
    CHECK_EQ(weft_relay_detach(b.rt, 0, 0), -ENOTCONN);
    CHECK_EQ(weft_relay_detach(b.rt, 1000, 0), -ENOTCONN);
    CHECK_EQ(weft_send_name(NULL, "x", 1, NULL, 0), -EINVAL);
    CHECK_EQ(weft_send_name(b.rt, NULL, 1, NULL, 0), -EINVAL);
    CHECK_EQ(node, 3);
    CHECK_EQ(weft_relay_pid(0, pid), WEFT_PID_NONE);
    CHECK_EQ(weft_relay_pid(255, pid), WEFT_PID_NONE);
    CHECK_EQ(weft_relay_pid(1, foreign), WEFT_PID_NONE);
    CHECK_EQ(weft_relay_pid(1, WEFT_PID_NONE), WEFT_PID_NONE);
    CHECK_EQ(weft_pid_node(WEFT_PID_NONE), 0);
    CHECK_EQ(weft_pid_theirs(WEFT_PID_NONE), WEFT_PID_NONE);
    CHECK_EQ(weft_process_cancel(b.rt, pid), 0);
    end_sides();
}

/* What does not cross: such a pid is nobody's here. */
static int use_elsewhere(void *arg) {
    weft_pid there = *(weft_pid *)arg;
    CHECK_EQ(weft_link(there), -ESRCH);
    CHECK_EQ(weft_process_cancel(NULL, there), -ESRCH);
    CHECK_EQ(weft_process_exit(NULL, there, -EIO), -ESRCH);
    CHECK_EQ(weft_register(NULL, "there", there), -ESRCH);
    CHECK_EQ(weft_group_join(NULL, "there", there), -ESRCH);
    CHECK(!weft_process_is_alive(NULL, there));
    return 0;
}
API_TEST(process_relay_does_not_cross, "W30") {
    connect_sides();
    weft_pid pid = go_process(b.rt, sit, NULL), there = weft_relay_pid(a.node, pid);
    run_in_a(use_elsewhere, &there);
    CHECK_EQ(weft_process_cancel(b.rt, pid), 0);
    end_sides();
}

/* Relays come and go while others send: each release comes after the last send. */
static atomic_bool stop_sending;
static void *send_always(void *arg) {
    weft_pid there = weft_relay_pid(1, *(weft_pid *)arg);
    while (!atomic_load(&stop_sending)) {
        int error = weft_send(a.rt, there, 1, NULL, 0);
        CHECK(error == 0 || error == -EHOSTUNREACH || error == -ESRCH);
    }
    return NULL;
}
static int look_at(void *state, const weft_parcel *parcel) {
    (void)parcel;
    return atomic_load((atomic_int *)state); /* under ASan: not after its release */
}
API_TEST(process_relay_detach_while_sending, "W30", .workers = {1}) {
    weft_relay relay = WEFT_RELAY_INIT;
    pthread_t thread[2];
    a.rt = fixture_begin_patient();
    weft_pid some = go_process(a.rt, sit, NULL);
    relay.send = look_at;
    relay.release = free;
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_create(&thread[i], NULL, send_always, &some), 0);
    for (unsigned i = 0; i < (fixture_is_slow() ? 20 : 200) * WEFT_NODE_MAX; i++) {
        unsigned node;
        REQUIRE_EQ(weft_relay_attach(a.rt, &relay, calloc(1, sizeof(atomic_int)), &node), 0);
        CHECK_EQ(weft_relay_detach(a.rt, node, 0), 0);
    }
    atomic_store(&stop_sending, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(weft_process_cancel(a.rt, some), 0);
    fixture_end(a.rt);
}
