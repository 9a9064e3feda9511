/* process_commands.c - streams, questions, groups and HTTP requests of a process when memory runs out: each completes, and nothing is left open. */
#include <fcntl.h>
#include <weft/command.h>
#include <weft/http.h>

#include "sweep.h"

static weft_pid server;
static char path[64], url[64];

struct state {
    int left;
    bool begun;
};

static int answer(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL)
        (void)weft_reply(&m, m.data, m.size); /* without memory it is not answered */
    return 0;
}

static int yield(weft_step *out, unsigned command, uint64_t tag, const void *head, size_t size, const void *bytes,
                 size_t more) {
    char payload[512];
    REQUIRE_LE(size + more, sizeof payload);
    memcpy(payload, head, size);
    if (more)
        memcpy(payload + size, bytes, more);
    int error = weft_yield_command(out, command, tag, payload, size + more);
    CHECK(sweep_is_clean(error));
    return error == 0;
}

static int ask(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct state *state = raw;
    weft_deadline soon = weft_after(50000000);
    char large[200] = {0};
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            return -ECANCELED;
        if (events[i].type != WEFT_MESSAGE_YIELD)
            continue;
        int error = events[i].error;
        CHECK(sweep_is_clean(error) || error == -ETIMEDOUT || error == -ESRCH || error == -ECANCELED ||
              error == -EMFILE || (error == -ECONNREFUSED && events[i].tag == 8));
        state->left--;
        if (!error && events[i].tag == 1) { /* a file: read it, and leave it open */
            weft_command_stream_io io = {*(const uint64_t *)events[i].data, 100, soon};
            state->left += yield(out, WEFT_COMMAND_STREAM_READ, 2, &io, sizeof io, NULL, 0);
        } else if (!error && events[i].tag == 3) { /* a socket: close it */
            uint64_t number = *(const uint64_t *)events[i].data;
            state->left += yield(out, WEFT_COMMAND_STREAM_CLOSE, 4, &number, sizeof number, NULL, 0);
        }
    }
    if (!state->begun) {
        weft_command_stream_open file = {NULL, O_RDONLY, 0, soon};
        weft_command_ask question = {server, soon};
        weft_command_publish publish = {"group", 1};
        weft_command_http http = {NULL, 0, soon};
        weft_io *ends[2];
        char request[128];
        state->begun = true;
        state->left += yield(out, WEFT_COMMAND_STREAM_OPEN, 1, &file, sizeof file, path, strlen(path));
        if (weft_pipe(&ends[0], &ends[1]) == 0) {
            weft_command_stream_open adopt = {ends[0], 0, 0, soon};
            weft_close(ends[1]);
            int accepted = yield(out, WEFT_COMMAND_STREAM_OPEN, 3, &adopt, sizeof adopt, NULL, 0);
            state->left += accepted;
            if (!accepted)
                weft_close(ends[0]);
        }
        state->left += yield(out, WEFT_COMMAND_ASK, 5, &question, sizeof question, large, sizeof large);
        state->left += yield(out, WEFT_COMMAND_GROUP_JOIN, 6, "group", 5, NULL, 0);
        state->left += yield(out, WEFT_COMMAND_PUBLISH, 7, &publish, sizeof publish, NULL, 0);
        int size = snprintf(request, sizeof request, "GET%c%s%c", 0, url, 0);
        state->left += yield(out, WEFT_COMMAND_HTTP, 8, &http, sizeof http, request, (size_t)size + 1);
    }
    out->status = state->left ? WEFT_STEP_YIELD : WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class asking = {.size = sizeof asking, .state_size = sizeof(struct state), .step = ask};

static void scenario(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    server = WEFT_PID_NONE;
    CHECK(sweep_is_clean(weft_process_go(rt, answer, NULL, &server)));
    spec.class_ = &asking;
    weft_task *task;
    int spawned = weft_process_spawn(rt, &spec, NULL, &task);
    CHECK(sweep_is_clean(spawned));
    if (!spawned)
        CHECK_EQ(fixture_finish(task).status, 0);
    int error = weft_runtime_stop(rt, weft_after(wefti_fault_count() ? 200000000 : harness_patience()));
    CHECK(error == 0 || error == -ECANCELED);
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Nobody listens there: a request is refused. */
TEST(process_new_commands_out_of_memory, "W28 W39", .timeout = 240) {
    snprintf(path, sizeof path, "/proc/self/cmdline");
    snprintf(url, sizeof url, "http://127.0.0.1:1/");
    sweep(scenario);
}
