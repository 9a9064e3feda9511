/* process_socket.c - the library's own commands for sockets. */
#include "process_script.h"

/* -- Sockets: one process listens, connects to itself, writes and reads. */

static weft_io *listener;
static int echo_stage;
static weft_io *ends[2];

static void io_command(weft_step *out, unsigned command, uint64_t tag, weft_io *io, const char *text) {
    struct {
        weft_command_socket_io io;
        char text[16];
    } payload = {{io, 16, weft_after(INT64_C(60000000000))}, {0}};
    memcpy(payload.text, text, strlen(text));
    CHECK_EQ(weft_yield_command(out, command, tag, &payload, sizeof payload.io + strlen(text)), 0);
}

static int talk(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_YIELD;
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(events[i].type, WEFT_MESSAGE_YIELD);
        CHECK_EQ(events[i].error, 0);
        if (events[i].error)
            return events[i].error;
        if (events[i].tag <= 1) {
            const weft_command_socket *socket = events[i].data;
            weft_addr peer;
            char told[64], found[64];
            CHECK_EQ(events[i].size, sizeof *socket);
            CHECK_EQ(weft_peer_addr(socket->io, &peer), 0);
            CHECK_GT(weft_addr_format(&peer, found, sizeof found), 0);
            CHECK_GT(weft_addr_format(&socket->peer, told, sizeof told), 0);
            CHECK_STR(told, found);
            ends[events[i].tag] = socket->io;
            if (ends[0] && ends[1]) {
                io_command(out, WEFT_COMMAND_READ, 2, ends[0], "");
                io_command(out, WEFT_COMMAND_WRITE, 3, ends[1], "hello");
                io_command(out, WEFT_COMMAND_WRITE, 4, ends[1], ""); /* nothing is nothing wrong */
            }
        } else if (events[i].tag == 2) {
            CHECK_EQ(events[i].size, 5);
            CHECK_EQ(memcmp(events[i].data, "hello", 5), 0);
            echo_stage++;
        } else if (events[i].tag >= 3) {
            CHECK_EQ(events[i].size, 0);
            echo_stage++;
        }
    }
    if (!count) {
        weft_command_connect connect = {.until = weft_after(INT64_C(60000000000))};
        CHECK_EQ(weft_local_addr(listener, &connect.addr), 0);
        io_command(out, WEFT_COMMAND_ACCEPT, 0, listener, "");
        CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CONNECT, 1, &connect, sizeof connect), 0);
    }
    if (echo_stage == 3)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class talking = {.size = sizeof talking, .name = "talking", .step = talk};

API_TEST(process_builtin_socket, "W39", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_pid pid;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    spec.class_ = &talking;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_close(listener), 0);
    fixture_end(rt);
}

/* What is no question to a socket, whatever that is. */
static void ask_socket_wrong(weft_step *out) {
    weft_command_socket_io none = {listener, 0, WEFT_NOW}, much = {listener, (size_t)UINT32_MAX + 1, WEFT_NOW};
    weft_command_socket_io some_bytes = {listener, 1, WEFT_NOW};
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_READ, 1, &none, sizeof none), 0);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_READ, 2, &much, sizeof much), 0);
    ask_longer(out, WEFT_COMMAND_READ, &some_bytes, sizeof some_bytes);
    ask_longer(out, WEFT_COMMAND_ACCEPT, &some_bytes, sizeof some_bytes);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_READ, 3, &some_bytes, sizeof some_bytes), 0); /* it listens */
}
API_TEST(process_builtin_socket_wrong, "W39") {
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    perform(ask_socket_wrong, 5);
    for (int i = 0; i < 5; i++)
        CHECK(heard.event[i].tag == 3 ? heard.event[i].error < 0 : heard.event[i].error == -EINVAL);
    CHECK_EQ(weft_close(listener), 0);
}

/* The process ends while it accepts, and with a connection unread: neither is left open. */
static void ask_accept(weft_step *out) { io_command(out, WEFT_COMMAND_ACCEPT, 0, listener, ""); }
API_TEST(process_builtin_socket_unseen, "W6 W38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    weft_io *client;
    weft_addr addr;
    char byte;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    weft_pid pid = begin(rt, (struct script){ask_accept, 9, false}, &task);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    REQUIRE_EQ(weft_connect(&addr, &client, fixture_soon()), 0);
    CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(weft_close(listener), 0); /* one that was not accepted is reset */
    if (heard.count)
        CHECK_EQ(weft_close(((weft_command_socket *)(void *)heard.data[0])->io), 0); /* it was quick: ours to close */
    ssize_t got = weft_read(client, &byte, 1, fixture_soon());
    CHECK(got == 0 || got == -ECONNRESET);
    CHECK_EQ(weft_close(client), 0);
    fixture_end(rt);
}

/* The connection has come, and the process ends before it looks: one poll at a time, so that nobody does. */
API_TEST(process_builtin_socket_unread, "W6 W38") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_task *task;
    weft_io *client;
    weft_addr addr;
    char byte;
    bool accepts = false;
    config.driven = true;
    config.workers = 1;
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    weft_pid pid = begin(rt, (struct script){ask_accept, 9, false}, &task);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    REQUIRE_EQ(weft_connect(&addr, &client, fixture_soon()), 0);
    for (weft_deadline until = fixture_soon(); !accepts || weft_stats_live(rt) > 1;) {
        REQUIRE(weft_after(0) < until);
        REQUIRE_GE(weft_drive(rt, 1), 0);
        accepts |= weft_stats_live(rt) > 1;
    }
    CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
    while (!weft_task_is_done(task))
        REQUIRE_GE(weft_drive_wait(rt, 0, fixture_soon()), 0);
    weft_task_drop(task);
    CHECK_EQ(heard.count, 0);
    CHECK_EQ(weft_read(client, &byte, 1, fixture_soon()), 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(listener), 0);
    fixture_end(rt);
}
