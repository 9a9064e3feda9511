/* process_commands.c - the library's own commands that reach others: questions, process groups, HTTP requests. */
#include <weft/http.h>

#include "process_sequence.h"

static weft_pid server;

static void ask_pid(weft_step *out, uint64_t tag, weft_pid to, const void *data, size_t size, weft_deadline until) {
    weft_command_ask ask = {to, until};
    ask_with(out, WEFT_COMMAND_ASK, tag, &ask, sizeof ask, data, size);
}

/* -- Questions. */

static char large[300];
static void ask_small(weft_step *out, uint64_t tag) { ask_pid(out, tag, server, "small", 5, WEFT_NEVER); }
static void ask_large(weft_step *out, uint64_t tag) {
    memset(large, 'x', sizeof large);
    ask_pid(out, tag, server, large, sizeof large, weft_after(INT64_C(60000000000)));
}
static void ask_nothing(weft_step *out, uint64_t tag) { ask_pid(out, tag, server, NULL, 0, WEFT_NEVER); }
static void ask_nobody(weft_step *out, uint64_t tag) { ask_pid(out, tag, WEFT_PID_NONE, "x", 1, WEFT_NEVER); }
static void ask_to_end(weft_step *out, uint64_t tag) {
    weft_command_send end = {server, TAG_END, WEFT_NEVER};
    ask_with(out, WEFT_COMMAND_SEND, 100, &end, sizeof end, NULL, 0);
    ask_pid(out, tag, server, "late", 4, WEFT_NEVER); /* it ends before it replies, or has ended */
}

/* Runs the stages with a server, which has ended when they are through, or is told to. */
static void run_with(weft_fiber_fn fn, const weft_process_spec *box, const stage_fn *stages, unsigned count) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = *box;
    weft_task *task, *served;
    spec.fn = fn;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &server, &served), 0);
    sequence_begin(rt, stages, count, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_process_cancel(rt, server);
    fixture_finish(served);
    REQUIRE_EVENTUALLY(weft_process_count(rt) == 0); /* nobody who asked is left */
    fixture_end(rt);
}
static const weft_process_spec unbounded = WEFT_PROCESS_SPEC_INIT;

API_TEST(process_command_ask, "W28 W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {ask_small, ask_large, ask_nothing, ask_nobody, ask_to_end};
    run_with(echo_server, &unbounded, stages, 5);
    CHECK_EQ(sequence.error[0], 0);
    CHECK_EQ(sequence.size[0], 5);
    CHECK_EQ(memcmp(sequence.data[0], "small", 5), 0);
    CHECK_EQ(sequence.error[1], 0);
    CHECK_EQ(sequence.size[1], sizeof large);
    CHECK_EQ(memcmp(sequence.data[1], large, sizeof large), 0);
    CHECK_EQ(sequence.error[2], 0);
    CHECK_EQ(sequence.size[2], 0);
    CHECK_EQ(sequence.error[3], -ESRCH);
    CHECK_EQ(sequence.error[4], -ESRCH);
    CHECK_EQ(sequence.messages, 0); /* replies are completions */
}

/* A server that does not answer. */
static void ask_in_vain(weft_step *out, uint64_t tag) { ask_pid(out, tag, server, "x", 1, weft_after(1000000)); }
static void ask_now(weft_step *out, uint64_t tag) { ask_pid(out, tag, server, "x", 1, WEFT_NOW); }
static void ask_and_cancel(weft_step *out, uint64_t tag) {
    ask_pid(out, tag, server, "x", 1, WEFT_NEVER);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 100, &tag, sizeof tag), 0);
}
static void ask_itself(weft_step *out, uint64_t tag) { ask_pid(out, tag, weft_self(), "x", 1, WEFT_NEVER); }
static void ask_wrong(weft_step *out, uint64_t tag) {
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_ASK, tag, "x", 1), 0);
}
API_TEST(process_command_ask_in_vain, "W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {ask_in_vain, ask_now, ask_and_cancel, ask_itself, ask_wrong};
    run_with(sit, &unbounded, stages, 5);
    CHECK_EQ(sequence.error[0], -ETIMEDOUT);
    CHECK_EQ(sequence.error[1], -ETIMEDOUT);
    CHECK_EQ(sequence.error[2], -ECANCELED);
    CHECK_EQ(sequence.later[0], 0);
    CHECK_EQ(sequence.error[3], -EDEADLK);
    CHECK_EQ(sequence.error[4], -EINVAL);
}

/* A full mailbox: refused, or waited for. */
static atomic_bool may_read;
static int answer_late(void *arg) {
    (void)arg;
    UNTIL(atomic_load(&may_read));
    return echo_server(NULL);
}
static void fill(weft_step *out, uint64_t tag) {
    weft_command_send send = {server, 1, WEFT_NOW};
    ask_with(out, WEFT_COMMAND_SEND, tag, &send, sizeof send, NULL, 0);
}
static void ask_full(weft_step *out, uint64_t tag) {
    ask_pid(out, tag, server, "full", 4, sequence.error[0] ? WEFT_NOW : WEFT_NEVER);
    atomic_store(&may_read, sequence.count == 3); /* of the test that waits */
}
API_TEST(process_command_ask_full, "W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {fill, ask_full};
    weft_process_spec box = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task, *served;
    box.fn = answer_late;
    box.max_messages = 1;
    REQUIRE_EQ(weft_process_spawn(rt, &box, &server, &served), 0);
    sequence_begin(rt, stages, 2, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(sequence.error[1], -ENOBUFS);
    atomic_store(&may_read, true);
    CHECK_EQ(weft_process_cancel(rt, server), 0);
    CHECK_EQ(fixture_finish(served).status, 0);
    fixture_end(rt);
}
static void ask_small_last(weft_step *out, uint64_t tag) { ask_pid(out, tag, server, "last", 4, WEFT_NEVER); }
API_TEST(process_command_ask_waits, "W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {fill, ask_full, ask_small_last};
    weft_process_spec box = WEFT_PROCESS_SPEC_INIT;
    box.max_messages = 1;
    box.policy = WEFT_MAILBOX_BLOCK;
    run_with(answer_late, &box, stages, 3);
    CHECK_EQ(sequence.error[1], 0);
    CHECK_EQ(sequence.size[1], 4);
    CHECK_EQ(memcmp(sequence.data[1], "full", 4), 0);
    CHECK_EQ(sequence.error[2], 0);
}

/* The process ends while it asks: nobody waits any more. */
static void ask_many(weft_step *out, uint64_t tag) {
    (void)tag;
    for (uint64_t i = 0; i < 50; i++)
        ask_pid(out, 100, server, large, sizeof large, i % 2 ? WEFT_NEVER : weft_after(INT64_C(60000000000)));
}
API_TEST(process_command_ask_ends, "W6 W38", .workers = {1, 2}) {
    static const stage_fn stages[] = {ask_many};
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    server = go_process(rt, sit, NULL);
    weft_pid pid = sequence_begin(rt, stages, 1, &task);
    REQUIRE_EVENTUALLY(weft_process_count(rt) > 2);
    CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    REQUIRE_EVENTUALLY(weft_process_count(rt) == 1);
    CHECK_EQ(weft_process_cancel(rt, server), 0);
    fixture_end(rt);
}

/* What asks is the library's own: the limit is for others. */
API_TEST(process_command_ask_limit, "W39") {
    static const stage_fn stages[] = {ask_small};
    weft_config config = WEFT_CONFIG_INIT;
    config.max_processes = 2;
    weft_runtime *rt = fixture_begin(&config);
    weft_task *task;
    server = go_process(rt, echo_server, NULL);
    sequence_begin(rt, stages, 1, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(sequence.error[0], 0);
    end_server(rt, server, 0);
    fixture_end(rt);
}

/* -- Groups. */

static void group(weft_step *out, unsigned command, uint64_t tag, const char *name) {
    CHECK_EQ(weft_yield_command(out, command, tag, name, strlen(name)), 0);
}
static void publish_to(weft_step *out, uint64_t tag, const char *name) {
    weft_command_publish publish = {{0}, 5};
    memcpy(publish.group, name, strlen(name));
    ask_with(out, WEFT_COMMAND_PUBLISH, tag, &publish, sizeof publish, "news", 4);
}
static void join_group(weft_step *out, uint64_t tag) { group(out, WEFT_COMMAND_GROUP_JOIN, tag, "readers"); }
static void leave_group(weft_step *out, uint64_t tag) { group(out, WEFT_COMMAND_GROUP_LEAVE, tag, "readers"); }
static void publish_group(weft_step *out, uint64_t tag) { publish_to(out, tag, "readers"); }
static void group_wrong(weft_step *out, uint64_t tag) {
    char name[65];
    weft_command_publish publish = {{0}, 5};
    memset(name, 'n', 64);
    name[64] = 0;
    memset(publish.group, 'n', sizeof publish.group);
    group(out, WEFT_COMMAND_GROUP_JOIN, 100, "");
    group(out, WEFT_COMMAND_GROUP_JOIN, 101, name);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_GROUP_LEAVE, 102, "a\0b", 3), 0);
    ask_with(out, WEFT_COMMAND_PUBLISH, 103, &publish, sizeof publish, NULL, 0);
    ask_with(out, WEFT_COMMAND_PUBLISH, 104, &publish, sizeof publish - 1, NULL, 0);
    publish_to(out, tag, ""); /* as weft_publish says */
}
API_TEST(process_command_groups, "W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {publish_group, join_group,    join_group,  publish_group,
                                      leave_group,   publish_group, leave_group, group_wrong};
    static const int expected[] = {0, 0, -EEXIST, 0, 0, 0, -ESRCH, -EINVAL};
    sequence_run(stages, 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(sequence.error[i], expected[i]);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sequence.later[i], -EINVAL);
    int counts[3];
    memcpy(&counts[0], sequence.data[0], sizeof(int));
    memcpy(&counts[1], sequence.data[3], sizeof(int));
    memcpy(&counts[2], sequence.data[5], sizeof(int));
    CHECK_EQ(counts[0], 0);
    CHECK_EQ(counts[1], 1);
    CHECK_EQ(counts[2], 0);
    CHECK_EQ(sequence.messages, 1);
}

/* -- HTTP. */

static char base[64];
static atomic_uint served;
static int serve_page(weft_http *x, void *arg) {
    char body[128];
    (void)arg;
    atomic_fetch_add(&served, 1);
    if (weft_text_is(weft_http_path(x), "/missing"))
        return 0; /* 404 */
    if (weft_text_is(weft_http_path(x), "/slow"))
        return weft_sleep(INT64_C(3600000000000));
    if (weft_text_is(weft_http_path(x), "/large")) {
        static char page[100000];
        memset(page, 'p', sizeof page);
        return weft_http_reply(x, 200, "text/plain", page, sizeof page);
    }
    weft_text method = weft_http_method(x), field = weft_http_field(x, "X-Test");
    void *sent;
    ssize_t size = weft_http_read_all(x, &sent);
    int length = snprintf(body, sizeof body, "%.*s %.*s %.*s", (int)method.size, method.at, (int)field.size,
                          field.at ? field.at : "", (int)size, size > 0 ? (const char *)sent : "");
    return weft_http_reply(x, 200, "text/plain", body, (size_t)length);
}
static void request(weft_step *out, uint64_t tag, const char *method, const char *target, const char *fields,
                    const char *body, weft_command_http http) {
    char bytes[512];
    int size = snprintf(bytes, sizeof bytes, "%s%c%s%s%c%s%c%s", method, 0, base, target, 0, fields, 0, body);
    ask_with(out, WEFT_COMMAND_HTTP, tag, &http, sizeof http, bytes, (size_t)size);
}
static weft_command_http plain(void) { return (weft_command_http){NULL, 0, weft_after(INT64_C(60000000000))}; }
static void get(weft_step *out, uint64_t tag) { request(out, tag, "GET", "/a", "", "", plain()); }
static void post(weft_step *out, uint64_t tag) {
    weft_command_http http = plain();
    http.max_body = (size_t)1 << 31; /* the most */
    request(out, tag, "POST", "/b", "X-Test: yes\r\n", "some bytes", http);
}
static void get_missing(weft_step *out, uint64_t tag) { request(out, tag, "GET", "/missing", "", "", plain()); }
static void get_large(weft_step *out, uint64_t tag) { request(out, tag, "GET", "/large", "", "", plain()); }
static void get_too_large(weft_step *out, uint64_t tag) {
    weft_command_http http = plain();
    http.max_body = 99999;
    request(out, tag, "GET", "/large", "", "", http);
}
static void get_slow(weft_step *out, uint64_t tag) {
    weft_command_http http = plain();
    http.until = weft_after(20000000);
    request(out, tag, "GET", "/slow", "", "", http);
}
static void get_wrong(weft_step *out, uint64_t tag) {
    weft_command_http http = plain();
    ask_with(out, WEFT_COMMAND_HTTP, 100, &http, sizeof http - 1, NULL, 0);
    ask_with(out, WEFT_COMMAND_HTTP, 101, &http, sizeof http, "GET\0http://x/\0", 14); /* no fields */
    ask_with(out, WEFT_COMMAND_HTTP, 102, &http, sizeof http, "\0http://x/\0\0", 12); /* no method */
    ask_with(out, WEFT_COMMAND_HTTP, 103, &http, sizeof http, "GET\0\0\0", 6); /* no URL */
    ask_with(out, WEFT_COMMAND_HTTP, 104, &http, sizeof http, NULL, 0);
    http.max_body = ((size_t)1 << 31) + 1;
    ask_with(out, WEFT_COMMAND_HTTP, 105, &http, sizeof http, "GET\0http://x/\0\0", 15);
    http = plain();
    ask_with(out, WEFT_COMMAND_HTTP, tag, &http, sizeof http, "GET\0gopher://x/\0\0", 17); /* as weft_http_fetch says */
}
static int serve_http(void *arg) {
    weft_http_options options = WEFT_HTTP_OPTIONS_INIT;
    options.drain = 1000000; /* a request of the test never ends */
    return weft_http_serve(arg, &options, serve_page, NULL);
}
static weft_io *begin_http(weft_runtime *rt, weft_task **task) {
    weft_io *listener;
    weft_addr addr;
    char host[48];
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    REQUIRE_GT(weft_addr_format(&addr, host, sizeof host), 0);
    snprintf(base, sizeof base, "http://%s", host);
    REQUIRE_EQ(weft_fiber_go(rt, serve_http, listener, task), 0);
    return listener;
}
static void end_http(weft_io *listener, weft_task *task) {
    weft_task_cancel(task);
    weft_join(task, NULL, fixture_soon());
    weft_task_drop(task);
    CHECK_EQ(weft_close(listener), 0);
}
static const weft_command_http_answer *answer(unsigned stage) { return (const void *)sequence.data[stage]; }

API_TEST(process_command_http, "W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {get, post, get_missing, get_large, get_too_large, get_slow, get_wrong};
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task, *serving;
    weft_io *listener = begin_http(rt, &serving);
    sequence_begin(rt, stages, 7, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    end_http(listener, serving);
    fixture_end(rt);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(sequence.error[i], 0);
    const char *body = (const char *)(answer(1) + 1) + answer(1)->fields_size;
    CHECK_EQ(answer(0)->status, 200);
    CHECK_EQ(answer(1)->status, 200);
    CHECK_EQ(answer(1)->body_size, strlen("POST yes some bytes"));
    CHECK_EQ(memcmp(body, "POST yes some bytes", answer(1)->body_size), 0);
    CHECK_EQ(sequence.size[1], sizeof(weft_command_http_answer) + answer(1)->fields_size + answer(1)->body_size);
    char fields[400] = {0};
    memcpy(fields, answer(1) + 1, answer(1)->fields_size);
    CHECK(strstr(fields, "Content-Type: text/plain\r\n") != NULL);
    CHECK_EQ(answer(2)->status, 404);
    CHECK_EQ(answer(3)->body_size, 100000);
    CHECK_EQ(sequence.error[4], -EMSGSIZE);
    CHECK_EQ(sequence.error[5], -ETIMEDOUT);
    CHECK_EQ(sequence.error[6], -EINVAL);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(sequence.later[i], -EINVAL);
}

/* It ends while a request is under way: its connection is closed, and nothing is left. */
static void get_for_ever(weft_step *out, uint64_t tag) { request(out, tag, "GET", "/slow", "", "", plain()); }
API_TEST(process_command_http_ends, "W6 W38", .workers = {1, 2}) {
    static const stage_fn stages[] = {get_for_ever};
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task, *serving;
    weft_io *listener = begin_http(rt, &serving);
    weft_pid pid = sequence_begin(rt, stages, 1, &task);
    if (!fixture_on("sim")) /* there the hour may pass first */
        REQUIRE_EVENTUALLY(atomic_load(&served) == 1);
    weft_process_exit(rt, pid, -EIO);
    int status = fixture_finish(task).status;
    CHECK(status == -ECANCELED || (status == 0 && fixture_on("sim")));
    end_http(listener, serving);
    fixture_end(rt);
}
