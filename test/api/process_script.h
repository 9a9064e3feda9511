/* process_script.h - a process that asks for commands and notes what it hears: what the tests of the library's own commands share. */
#ifndef WEFT_TEST_PROCESS_SCRIPT_H
#define WEFT_TEST_PROCESS_SCRIPT_H

#include <weft/command.h>

#include "process.h"

/* A process that asks once, and notes what it hears, until it has heard `want` events. */
struct script {
    void (*ask)(weft_step *out); /* in the first step */
    int want;
    bool trap_idle; /* idle instead of blocked */
};

#define HEARD 9

static struct {
    weft_message event[HEARD];
    unsigned char data[HEARD][64];
    int64_t at[HEARD];
    int count;
} heard; /* by the one process of a test; read after its end */

static inline int run_script(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct script *script = raw;
    for (size_t i = 0; i < count && heard.count < HEARD; i++) {
        if (events[i].type == WEFT_MESSAGE_YIELD && events[i].error)
            CHECK_EQ(events[i].size, 0); /* what failed has nothing to say */
        heard.event[heard.count] = events[i];
        heard.at[heard.count] = weft_now();
        size_t size = events[i].size < 64 ? events[i].size : 64;
        if (size)
            memcpy(heard.data[heard.count], events[i].data, size);
        heard.count++;
    }
    if (script->ask) {
        script->ask(out);
        script->ask = NULL;
    }
    out->status = heard.count >= script->want ? WEFT_STEP_DONE : script->trap_idle ? WEFT_STEP_IDLE : WEFT_STEP_YIELD;
    return 0;
}
static inline int copy_script(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(state, input, size);
    return 0;
}
static const weft_process_class scripted = {.size = sizeof scripted,
                                            .name = "scripted",
                                            .state_size = sizeof(struct script),
                                            .init = copy_script,
                                            .step = run_script};

static inline weft_pid begin(weft_runtime *rt, struct script script, weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    spec.class_ = &scripted;
    spec.input = &script;
    spec.input_size = sizeof script;
    spec.trap_exit = true;
    spec.wake_blocked_on_message = true;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, task), 0);
    return pid;
}

/* Ask, and hear so many events. */
static inline void perform(void (*ask)(weft_step *out), int want) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    begin(rt, (struct script){ask, want, false}, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    REQUIRE_EQ(heard.count, want);
}

static inline void expect_heard(int at, weft_message_type type, uint64_t tag, int error) {
    CHECK_EQ(heard.event[at].type, type);
    CHECK_EQ(heard.event[at].from, WEFT_PID_NONE);
    CHECK_EQ(heard.event[at].tag, tag);
    CHECK_EQ(heard.event[at].error, error);
}

static inline void ask_longer(weft_step *out, unsigned command, const void *payload, size_t size) {
    unsigned char longer[512] = {0};
    REQUIRE_LT(size, sizeof longer);
    memcpy(longer, payload, size);
    CHECK_EQ(weft_yield_command(out, command, command, longer, size + 1), 0);
}

#endif
