/* commands.c - the library's own commands for a process that is a class: groups, a question, byte streams, an HTTP request. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

/* -- What it talks to: a process that doubles numbers, and a web server. */

static int doubler(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL) {
        int twice = 2 * *(const int *)m.data;
        weft_reply(&m, &twice, sizeof twice);
    }
    return 0;
}

static int page(weft_http *x, void *arg) {
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", "a page", 6);
}

static int serve(void *arg) { return weft_http_serve(arg, NULL, page, NULL); }

/* -- The class: one command after the other, each with the stage as its tag. */

enum { JOIN, PUBLISH, LEAVE, ASK, CREATE, WRITE, SHUT, OPEN, READ, READ_END, CLOSE, HTTP, DONE };

struct errand {
    int stage;
    weft_pid doubler;
    uint64_t stream;
    char path[64], url[64], news[16];
};

static int errand_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(state, input, size);
    return 0;
}

/* A struct, and bytes behind it. */
static int yield(weft_step *out, unsigned command, int stage, const void *head, size_t size, const void *bytes,
                 size_t more) {
    char payload[512];
    memcpy(payload, head, size);
    memcpy(payload + size, bytes, more);
    return weft_yield_command(out, command, (uint64_t)stage, payload, size + more);
}

static int ask_for(struct errand *errand, weft_step *out) {
    int number = 21, stage = errand->stage;
    weft_deadline soon = weft_after(10 * SECOND);
    weft_command_publish publish = {"news", 5};
    weft_command_ask ask = {errand->doubler, soon};
    weft_command_stream_open create = {NULL, O_WRONLY | O_CREAT | O_TRUNC, 0600, soon},
                             open = {NULL, O_RDONLY, 0, soon};
    weft_command_stream_io io = {errand->stream, 64, soon};
    weft_command_http http = {NULL, 0, soon};
    char request[128];
    size_t path = strlen(errand->path);
    switch (stage) {
    case JOIN: return weft_yield_command(out, WEFT_COMMAND_GROUP_JOIN, JOIN, "news", 4);
    case PUBLISH: return yield(out, WEFT_COMMAND_PUBLISH, PUBLISH, &publish, sizeof publish, "extra!", 6);
    case LEAVE: return weft_yield_command(out, WEFT_COMMAND_GROUP_LEAVE, LEAVE, "news", 4);
    case ASK: return yield(out, WEFT_COMMAND_ASK, ASK, &ask, sizeof ask, &number, sizeof number);
    case CREATE: return yield(out, WEFT_COMMAND_STREAM_OPEN, CREATE, &create, sizeof create, errand->path, path);
    case WRITE: return yield(out, WEFT_COMMAND_STREAM_WRITE, WRITE, &io, sizeof io, "a line in a file", 16);
    case OPEN: return yield(out, WEFT_COMMAND_STREAM_OPEN, OPEN, &open, sizeof open, errand->path, path);
    case READ:
    case READ_END: return weft_yield_command(out, WEFT_COMMAND_STREAM_READ, (uint64_t)stage, &io, sizeof io);
    case SHUT:
    case CLOSE: return weft_yield_command(out, WEFT_COMMAND_STREAM_CLOSE, (uint64_t)stage, &io.stream, 8);
    default: break;
    }
    /* The method, the URL and no fields, each ended by a zero; no body. */
    int size = snprintf(request, sizeof request, "GET%c%s%c", 0, errand->url, 0);
    return yield(out, WEFT_COMMAND_HTTP, HTTP, &http, sizeof http, request, (size_t)size + 1);
}

static void tell(struct errand *errand, const weft_message *event) {
    const weft_command_http_answer *answer = event->data;
    switch (event->tag) {
    case PUBLISH: printf("published to %d process\n", *(const int *)event->data); break;
    case LEAVE: printf("its news: %s\n", errand->news); break; /* it was a member: the message came to it, too */
    case ASK: printf("twice 21 is %d\n", *(const int *)event->data); break;
    case CREATE:
    case OPEN: memcpy(&errand->stream, event->data, sizeof errand->stream); break;
    case READ: printf("read: %.*s\n", (int)event->size, (const char *)event->data); break;
    case READ_END: printf("the end of the file: %zu bytes\n", event->size); break;
    case HTTP:
        printf("HTTP %d: %.*s\n", answer->status, (int)answer->body_size,
               (const char *)(answer + 1) + answer->fields_size);
        break;
    default: break;
    }
}

static int errand_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct errand *errand = state;
    bool begins = count == 0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == WEFT_MESSAGE)
            snprintf(errand->news, sizeof errand->news, "%.*s", (int)events[i].size, (const char *)events[i].data);
        if (events[i].type != WEFT_MESSAGE_YIELD)
            continue;
        if (events[i].error)
            return events[i].error; /* the streams that are open are closed */
        tell(errand, &events[i]);
        errand->stage++;
        begins = true;
    }
    out->status = errand->stage == DONE ? WEFT_STEP_DONE : WEFT_STEP_YIELD;
    return begins && errand->stage < DONE ? ask_for(errand, out) : 0;
}

static const weft_process_class errand_class = {.size = sizeof errand_class,
                                                .name = "errand",
                                                .state_size = sizeof(struct errand),
                                                .init = errand_init,
                                                .step = errand_step};

static int start(void *arg) {
    struct errand errand = {0};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *server, *task;
    weft_result result = {0, NULL};
    weft_io *listener;
    weft_addr addr;
    char host[48];
    (void)arg;
    int error = weft_tcp_listen("127.0.0.1", 0, NULL, &listener);
    if (error || (error = weft_local_addr(listener, &addr)) ||
        (error = weft_fiber_go(NULL, serve, listener, &server)) ||
        (error = weft_process_go(NULL, doubler, NULL, &errand.doubler)))
        return error;
    weft_addr_format(&addr, host, sizeof host);
    snprintf(errand.url, sizeof errand.url, "http://%s/", host);
    snprintf(errand.path, sizeof errand.path, "/tmp/weft-commands-%d", (int)getpid());
    spec.class_ = &errand_class;
    spec.input = &errand;
    spec.input_size = sizeof errand;
    if ((error = weft_process_spawn(NULL, &spec, NULL, &task)) == 0) {
        error = weft_join(task, &result, WEFT_NEVER);
        weft_task_drop(task);
    }
    unlink(errand.path);
    weft_task_cancel(server);
    weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    weft_close(listener);
    return error ? error : result.status;
}

int main(void) { return weft_fiber_run(NULL, start, NULL, NULL) < 0; }
