/* actor.c - processes: a counter that is told and asked, clients that are monitored, a worker that fails, a class that asks for a command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { ADD = 1 };

/* A process that is a fiber: it waits for messages where it wants them. */
static int counter(void *arg) {
    int total = 0;
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0) {
        if (m.type == WEFT_MESSAGE_CANCEL)
            break; /* the runtime stops */
        if (m.type == WEFT_MESSAGE && m.tag == ADD)
            total += *(const int *)m.data;
        else if (m.type == WEFT_MESSAGE)
            weft_reply(&m, &total, sizeof total); /* a question */
    }
    return 0;
}

static int client(void *arg) {
    (void)arg;
    for (int n = 1; n <= 10; n++)
        if (weft_send(NULL, weft_whereis(NULL, "counter"), ADD, &n, sizeof n) < 0)
            return -EPIPE;
    return 0;
}

static int fails(void *arg) {
    (void)arg;
    return -EIO;
}

/* A process that is a class: called with the events that came, and without a stack. */
struct greeter {
    char name[16];
};

static int greeter_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    struct greeter *greeter = state;
    (void)self, (void)method;
    if (size >= sizeof greeter->name)
        return -EINVAL;
    memcpy(greeter->name, input, size);
    return 0;
}

static int greeter_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct greeter *greeter = state;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_YIELD) {
            printf("command %d done: %s\n", (int)events[i].tag, (const char *)events[i].data);
            out->status = WEFT_STEP_DONE;
            return 0;
        }
    out->status = WEFT_STEP_YIELD; /* call me when the command is done */
    return weft_yield_command(out, 1, 7, greeter->name, sizeof greeter->name);
}

static const char *const methods[] = {"greet", NULL};
static const weft_process_class greeter_class = {.size = sizeof greeter_class,
                                                 .methods = methods,
                                                 .state_size = sizeof(struct greeter),
                                                 .init = greeter_init,
                                                 .step = greeter_step};

static int greet(const weft_command *command, void *arg) {
    char text[32];
    (void)arg;
    int size = snprintf(text, sizeof text, "hello, %s", (const char *)command->data);
    return weft_command_complete(command->rt, command->from, command->tag, 0, text, (size_t)size + 1);
}

static int boss(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid, server;
    weft_message m;
    uint64_t monitor;
    (void)arg;
    spec.fn = counter;
    spec.registered = "counter";
    if (weft_process_spawn(NULL, &spec, &server, NULL) < 0)
        return -1;

    spec = (weft_process_spec)WEFT_PROCESS_SPEC_INIT;
    spec.fn = client;
    for (int i = 0; i < 3; i++)
        if (weft_process_spawn_monitored(&spec, &pid, &monitor) < 0)
            return -1;
    for (int i = 0; i < 3; i++) /* each end is told */
        if (weft_receive(&m, NULL, NULL, WEFT_NEVER) < 0 || m.type != WEFT_MESSAGE_DOWN || m.error)
            return -1;
    if (weft_ask(server, NULL, 0, &m, WEFT_NEVER) < 0)
        return -1;
    printf("total %d\n", *(const int *)m.data);

    weft_trap_exit(true); /* else its error would be ours */
    spec.fn = fails;
    if (weft_process_spawn_linked(&spec, &pid) < 0 || weft_receive(&m, NULL, NULL, WEFT_NEVER) < 0)
        return -1;
    printf("a linked process has ended: %s\n", weft_strerror(m.error));

    spec = (weft_process_spec)WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &greeter_class;
    spec.method = "sing";
    if (weft_process_spawn(NULL, &spec, NULL, NULL) == -EINVAL)
        printf("it cannot sing\n");
    spec.method = "greet";
    spec.input = "weft";
    spec.input_size = 5;
    if (weft_process_spawn_monitored(&spec, &pid, &monitor) < 0)
        return -1;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}

static int start(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_result result;
    (void)arg;
    int error = weft_command_register(weft_runtime_current(), 1, greet, NULL);
    spec.fn = boss;
    if (error < 0 || (error = weft_process_spawn(NULL, &spec, NULL, &task)) < 0)
        return error;
    error = weft_join(task, &result, WEFT_NEVER);
    weft_task_drop(task);
    return error < 0 ? error : result.status;
}

int main(void) {
    return weft_fiber_run(NULL, start, NULL, NULL) < 0; /* when start has ended, the counter is told to end */
}
