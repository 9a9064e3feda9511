/* process_builtin.c - the library's own commands: clock, timers, spawn, send, links, monitors, channels, blocking calls. */
#include "process_script.h"

/* -- Clock and timers. */

static int64_t before;

static void ask_clock(weft_step *out) {
    before = weft_now();
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CLOCK, 3, NULL, 0), 0);
}
API_TEST(process_builtin_clock, "W39", .workers = {1, 2}) {
    int64_t now;
    perform(ask_clock, 1);
    expect_heard(0, WEFT_MESSAGE_YIELD, 3, 0);
    CHECK_EQ(heard.event[0].size, sizeof now);
    memcpy(&now, heard.data[0], sizeof now);
    CHECK(now >= before);
}

static void ask_timers(weft_step *out) {
    before = weft_now();
    for (int i = 3; i >= 1; i--) {
        weft_command_timer timer = {before + i * INT64_C(20000000)};
        CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, (uint64_t)i, &timer, sizeof timer), 0);
    }
    weft_command_timer past = {1};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, 0, &past, sizeof past), 0);
}
API_TEST(process_builtin_timers, "W7 W39", .workers = {1, 2}) {
    unsigned seen = 0;
    perform(ask_timers, 4);
    for (int i = 0; i < 4; i++) {
        uint64_t tag = heard.event[i].tag;
        CHECK_EQ(heard.event[i].error, 0);
        CHECK_GE(heard.at[i], before + (int64_t)tag * INT64_C(20000000));
        if (fixture_on(
                "sim")) /* elsewhere a busy machine may be late for all of them, and then tell of them in any order */
            CHECK_EQ(tag, i);
        seen |= 1u << tag;
    }
    CHECK_EQ(seen, 15);
}

/* One of two is cancelled by the process. */
static void ask_cancel(weft_step *out) {
    weft_command_timer timer = {WEFT_NEVER - 1};
    uint64_t seven = 7, nobody = 9;
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, 7, &timer, sizeof timer), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 8, &seven, sizeof seven), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 10, &nobody, sizeof nobody), 0);
}
API_TEST(process_builtin_cancel, "W39", .workers = {1, 2}) {
    perform(ask_cancel, 3);
    int seen = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t tag = heard.event[i].tag;
        seen |= tag == 7 ? 1 : tag == 8 ? 2 : 4;
        CHECK_EQ(heard.event[i].error, tag == 7 ? -ECANCELED : tag == 8 ? 0 : -ESRCH);
    }
    CHECK_EQ(seen, 7);
}

/* A time that comes after its timer was cancelled is nobody's. */
static void ask_cancel_early(weft_step *out) {
    weft_command_timer early = {weft_after(5000000)}, late = {weft_after(30000000)};
    for (uint64_t tag = 1; tag <= 4; tag++)
        CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, tag, &early, sizeof early), 0);
    for (uint64_t tag = 1; tag <= 4; tag++)
        CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 4 + tag, &tag, sizeof tag), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, 9, &late, sizeof late), 0);
}
API_TEST(process_builtin_cancel_early, "W39", .workers = {1, 2}) {
    perform(ask_cancel_early, 9);
    expect_heard(8, WEFT_MESSAGE_YIELD, 9, 0);
}

/* The process ends, and nobody waits any more: the runtime stops by itself. */
static void ask_and_end(weft_step *out) {
    weft_command_timer timer = {WEFT_NEVER - 1};
    for (uint64_t i = 0; i < 100; i++)
        CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, i, &timer, sizeof timer), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CLOCK, 100, NULL, 0), 0);
}
API_TEST(process_builtin_end_cancels, "W6 W38", .workers = {1, 2}) {
    perform(ask_and_end, 1);
    expect_heard(0, WEFT_MESSAGE_YIELD, 100, 0);
}
API_TEST(process_builtin_exit_cancels, "W6 W38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    weft_pid pid = begin(rt, (struct script){ask_and_end, 99, false}, &task);
    CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* The same of a value too large for a message: the room for it is given back. */
static weft_chan *some;
static void ask_in_vain(weft_step *out) {
    weft_command_chan receive = {some, 100, WEFT_NEVER};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 1, &receive, sizeof receive), 0);
}
API_TEST(process_builtin_exit_gives_back, "W6 W38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_chan_create(100, 1, &some), 0);
    weft_pid pid = begin(rt, (struct script){ask_in_vain, 1, false}, &task);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 2);
    CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
    CHECK_EQ(weft_chan_destroy(some), 0);
}

/* -- Wrong payloads, and numbers that nobody has. */

static void ask_wrong(weft_step *out) {
    for (unsigned command = WEFT_COMMAND_CLOCK; command < WEFT_COMMAND_MONITOR; command++)
        CHECK_EQ(weft_yield_command(out, command, command, "x", 1), 0);
    CHECK_EQ(weft_yield_command(out, 255, 255, NULL, 0), 0);
}
API_TEST(process_builtin_wrong, "W39") {
    perform(ask_wrong, 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(heard.event[i].error, heard.event[i].tag == 255 ? -ENOSYS : -EINVAL);
}
static void ask_wrong_too(weft_step *out) {
    for (unsigned command = WEFT_COMMAND_MONITOR; command <= WEFT_COMMAND_WRITE; command++)
        CHECK_EQ(weft_yield_command(out, command, command, "x", 1), 0);
}
API_TEST(process_builtin_wrong_too, "W39") {
    perform(ask_wrong_too, 9);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(heard.event[i].error, -EINVAL);
}

/* A byte more than it takes, and else right. */
static int nothing(void *arg) { return (void)arg, 0; }
static void ask_too_long(weft_step *out) {
    weft_command_timer timer = {1};
    weft_command_spawn spawn = {.spec = WEFT_PROCESS_SPEC_INIT};
    weft_command_chan value = {some, sizeof(int), WEFT_NOW};
    weft_command_blocking blocking = {nothing, NULL, WEFT_NEVER};
    weft_command_connect connect = {.until = WEFT_NOW};
    uint64_t number = 0;
    spawn.spec.fn = nothing;
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 9, &connect.addr), 0);
    ask_longer(out, WEFT_COMMAND_TIMER, &timer, sizeof timer);
    ask_longer(out, WEFT_COMMAND_CANCEL, &number, sizeof number);
    ask_longer(out, WEFT_COMMAND_SPAWN, &spawn, sizeof spawn);
    ask_longer(out, WEFT_COMMAND_UNLINK, &number, sizeof number);
    ask_longer(out, WEFT_COMMAND_CHAN_SEND, &value, sizeof value);
    ask_longer(out, WEFT_COMMAND_CHAN_RECV, &value, sizeof value);
    ask_longer(out, WEFT_COMMAND_BLOCKING, &blocking, sizeof blocking);
    ask_longer(out, WEFT_COMMAND_CONNECT, &connect, sizeof connect);
}
API_TEST(process_builtin_too_long, "W39") {
    int value = 1;
    REQUIRE_EQ(weft_chan_create(sizeof value, 2, &some), 0);
    REQUIRE_EQ(weft_chan_send(some, &value, WEFT_NOW), 0);
    perform(ask_too_long, 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(heard.event[i].error, -EINVAL);
    CHECK_EQ(weft_chan_length(some), 1);
    CHECK_EQ(weft_chan_destroy(some), 0);
}

/* Nobody is no process; and what waits with tag 0 is no link to it. */
static void ask_nobody(weft_step *out) {
    weft_command_timer timer = {WEFT_NEVER - 1};
    uint64_t none = 0;
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, 0, &timer, sizeof timer), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_LINK, 1, &none, sizeof none), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_UNLINK, 2, &none, sizeof none), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 3, &none, sizeof none), 0);
}
API_TEST(process_builtin_nobody, "W10 W39", .workers = {1, 2}) {
    static const int expected[] = {-ECANCELED, -ESRCH, 0, 0};
    int seen = 0;
    perform(ask_nobody, 5);
    for (int i = 0; i < 5; i++) {
        const weft_message *event = &heard.event[i];
        if (event->type == WEFT_MESSAGE_YIELD)
            CHECK_EQ(event->error, expected[event->tag]);
        seen |= event->type == WEFT_MESSAGE_YIELD ? 1 << event->tag : event->type == WEFT_MESSAGE_EXIT ? 16 : 0;
    }
    CHECK_EQ(seen, 31);
}

/* Right in size, wrong in what they say. */
static void ask_for_too_much(weft_step *out) {
    weft_command_chan nothing = {NULL, 0, WEFT_NOW}, large = {some, WEFT_CHAN_VALUE_MAX + 1, WEFT_NOW};
    weft_command_socket_io nobody = {NULL, 1, WEFT_NOW};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_SEND, 0, &nothing, sizeof nothing), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 1, &nothing, sizeof nothing), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 2, &large, sizeof large), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_READ, 3, &nobody, sizeof nobody), 0);
}
API_TEST(process_builtin_wrong_values, "W39") {
    int value = 1;
    REQUIRE_EQ(weft_chan_create(sizeof value, 1, &some), 0);
    REQUIRE_EQ(weft_chan_send(some, &value, WEFT_NOW), 0);
    perform(ask_for_too_much, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(heard.event[i].error, -EINVAL);
    CHECK_EQ(weft_chan_destroy(some), 0);
}

static int never_called(const weft_command *command, void *arg) {
    (void)command, (void)arg;
    return -EIO;
}
API_TEST(process_builtin_is_taken, "W39") {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(weft_command_complete(rt, 1, 1, 0, NULL, 0), -ESRCH); /* there have never been any */
    CHECK_EQ(weft_command_register(rt, WEFT_COMMAND_CLOCK, never_called, NULL), -EEXIST);
    CHECK_EQ(weft_command_register(rt, 255, never_called, NULL), -EEXIST);
    CHECK_EQ(weft_command_register(rt, 191, never_called, NULL), 0);
    CHECK_EQ(weft_command_register(rt, 256, never_called, NULL), 0);
    fixture_end(rt);
}

/* -- Processes. */

static int fail(void *arg) {
    (void)arg;
    return -EDOM;
}
static void ask_spawn(weft_step *out) {
    weft_command_spawn spawn = {.spec = WEFT_PROCESS_SPEC_INIT, .linked = true};
    spawn.spec.fn = fail;
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_SPAWN, 1, &spawn, sizeof spawn), 0);
    spawn.linked = false;
    spawn.monitored = true;
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_SPAWN, 2, &spawn, sizeof spawn), 0);
    spawn.linked = true;
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_SPAWN, 3, &spawn, sizeof spawn), 0);
}
API_TEST(process_builtin_spawn, "W39", .workers = {1, 2}) {
    perform(ask_spawn, 5);
    weft_command_spawned linked, monitored;
    int seen = 0;
    for (int i = 0; i < 5; i++) {
        const weft_message *event = &heard.event[i];
        if (event->type == WEFT_MESSAGE_YIELD && event->tag == 3)
            CHECK_EQ(event->error, -EINVAL);
        else if (event->type == WEFT_MESSAGE_YIELD)
            memcpy(event->tag == 1 ? &linked : &monitored, heard.data[i], sizeof linked);
        else
            seen++;
    }
    CHECK_EQ(seen, 2);
    for (int i = 0; i < 5; i++) {
        const weft_message *event = &heard.event[i];
        if (event->type == WEFT_MESSAGE_EXIT) {
            CHECK_EQ(event->from, linked.pid);
            CHECK_EQ(event->error, -EDOM);
        } else if (event->type == WEFT_MESSAGE_DOWN) {
            CHECK_EQ(event->from, monitored.pid);
            CHECK_EQ(event->tag, monitored.monitor);
        }
    }
}

static weft_pid other;
static void ask_links(weft_step *out) {
    uint64_t bad = WEFT_TAG_RESERVED | 5, none = 0;
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_LINK, 1, &other, sizeof other), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 2, &none, sizeof none),
             0); /* a link is no command that waits */
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_UNLINK, 3, &other, sizeof other), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_MONITOR, 4, &other, sizeof other), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_DEMONITOR, 5, &bad, sizeof bad), 0);
}
static int wait_for_one(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
API_TEST(process_builtin_links, "W39", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_process_go(rt, wait_for_one, NULL, &other), 0);
    begin(rt, (struct script){ask_links, 5, false}, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_send(rt, other, 0, NULL, 0), 0);
    fixture_end(rt);
    for (int i = 0; i < 5; i++)
        expect_heard(i, WEFT_MESSAGE_YIELD, (uint64_t)i + 1, i == 1 || i == 4 ? -ESRCH : 0);
    CHECK_EQ(heard.event[3].size, 8);
}

/* -- Messages: one that fits, one that has to wait for room, one to nobody. */

static void send_command(weft_step *out, uint64_t tag, weft_pid to, const char *text) {
    struct {
        weft_command_send send;
        char text[8];
    } payload = {{to, 40 + tag, WEFT_NEVER}, {0}};
    memcpy(payload.text, text, strlen(text));
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_SEND, tag, &payload, sizeof payload.send + strlen(text)), 0);
}
static void ask_send(weft_step *out) {
    send_command(out, 1, other, "one");
    send_command(out, 2, other, "two");
    send_command(out, 3, WEFT_PID_NONE, "");
}
static weft_event *go;
static int receive_two(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_event_wait(go, WEFT_NEVER), 0);
    for (uint64_t i = 1; i <= 2; i++) {
        CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        CHECK_EQ(m.tag, 40 + i);
        CHECK_EQ(m.size, 3);
        CHECK_EQ(memcmp(m.data, i == 1 ? "one" : "two", 3), 0);
        CHECK(m.from != WEFT_PID_NONE);
    }
    return 0;
}
API_TEST(process_builtin_send, "W29 W39", .workers = {1, 2}) {
    weft_event event = WEFT_EVENT_INIT;
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task, *receiver;
    go = &event;
    spec.fn = receive_two;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &other, &receiver), 0);
    begin(rt, (struct script){ask_send, 3, false}, &task);
    weft_event_set(go);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(fixture_finish(receiver).status, 0);
    fixture_end(rt);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(heard.event[i].error, heard.event[i].tag == 3 ? -ESRCH : 0);
}

/* -- Channels. */

static weft_chan *chan, *empty;
struct value {
    uint64_t number[6]; /* larger than a message has room for */
};
static void ask_chan(weft_step *out) {
    struct {
        weft_command_chan chan;
        struct value value;
    } payload = {{chan, sizeof(struct value), WEFT_NEVER}, {{1, 2, 3, 4, 5, 6}}};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_SEND, 1, &payload, sizeof payload), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_SEND, 2, &payload, sizeof payload), 0); /* full: it waits */
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 3, &payload, sizeof payload.chan), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 4, &payload, sizeof payload.chan), 0);
    payload.chan.chan = empty;
    payload.chan.until = weft_after(1000000);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 5, &payload, sizeof payload.chan), 0);
}
API_TEST(process_builtin_chan, "W7 W39", .workers = {1, 2}) {
    REQUIRE_EQ(weft_chan_create(sizeof(struct value), 1, &chan), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(struct value), 1, &empty), 0);
    perform(ask_chan, 5);
    for (int i = 0; i < 5; i++) {
        uint64_t tag = heard.event[i].tag;
        CHECK_EQ(heard.event[i].error, tag == 5 ? -ETIMEDOUT : 0);
        CHECK_EQ(heard.event[i].size, tag == 3 || tag == 4 ? sizeof(struct value) : 0);
        const struct value *value = (const void *)heard.data[i];
        CHECK(!heard.event[i].size || (value->number[0] == 1 && value->number[5] == 6));
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
    CHECK_EQ(weft_chan_destroy(empty), 0);
}

/* The largest value, and the largest that a message has room for, which has to be waited for. */
static void ask_largest(weft_step *out) {
    weft_command_chan largest = {chan, WEFT_CHAN_VALUE_MAX, WEFT_NEVER}, waits = {empty, 24, WEFT_NEVER};
    struct {
        weft_command_chan chan;
        uint64_t value[3];
    } sends = {waits, {1, 2, 3}};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 1, &largest, sizeof largest), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 2, &waits, sizeof waits), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_SEND, 3, &sends, sizeof sends), 0);
}
API_TEST(process_builtin_chan_largest, "W7 W39", .workers = {1, 2}) {
    static char value[WEFT_CHAN_VALUE_MAX];
    static const uint64_t sent[3] = {1, 2, 3};
    memset(value, 7, sizeof value);
    REQUIRE_EQ(weft_chan_create(sizeof value, 1, &chan), 0);
    REQUIRE_EQ(weft_chan_create(24, 1, &empty), 0);
    REQUIRE_EQ(weft_chan_send(chan, value, WEFT_NOW), 0);
    perform(ask_largest, 3);
    for (int i = 0; i < 3; i++) {
        uint64_t tag = heard.event[i].tag;
        CHECK_EQ(heard.event[i].error, 0);
        CHECK_EQ(heard.event[i].size, tag == 1 ? sizeof value : tag == 2 ? 24 : 0);
        if (tag < 3)
            CHECK_EQ(memcmp(heard.data[i], tag == 1 ? value : (const char *)sent, 24), 0);
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
    CHECK_EQ(weft_chan_destroy(empty), 0);
}

/* -- Blocking calls. */

static int add_one(void *arg) { return *(int *)arg + 1; }
static int number = 41;
static void ask_blocking(weft_step *out) {
    weft_command_blocking blocking = {add_one, &number, WEFT_NEVER};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_BLOCKING, 1, &blocking, sizeof blocking), 0);
}
static void ask_blocking_nothing(weft_step *out) {
    weft_command_blocking blocking = {NULL, NULL, WEFT_NEVER};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_BLOCKING, 1, &blocking, sizeof blocking), 0);
}
API_TEST(process_builtin_blocking_nothing, "W39", .workers = {1, 2}) {
    perform(ask_blocking_nothing, 1);
    expect_heard(0, WEFT_MESSAGE_YIELD, 1, -EINVAL);
}
API_TEST(process_builtin_blocking, "W39", .workers = {1, 2}) {
    int result;
    perform(ask_blocking, 1);
    expect_heard(0, WEFT_MESSAGE_YIELD, 1, 0);
    REQUIRE_EQ(heard.event[0].size, sizeof result);
    memcpy(&result, heard.data[0], sizeof result);
    CHECK_EQ(result, 42);
}
