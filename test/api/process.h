/* process.h - what the tests of processes share: a test that is a process itself, servers, a class that notes what it was called with. */
#ifndef WEFT_TEST_PROCESS_H
#define WEFT_TEST_PROCESS_H

#include "fixture.h"

/* Run fn(arg) as a process that is a fiber, in a runtime of its own. */
static inline void in_process(weft_fiber_fn fn, void *arg) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task = NULL;
    weft_pid pid = 0;
    spec.fn = fn;
    spec.arg = arg;
    spec.name = "test";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK(!weft_process_is_alive(rt, pid));
    fixture_end(rt);
}

static inline weft_pid go_process(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    weft_pid pid = WEFT_PID_NONE;
    REQUIRE_EQ(weft_process_go(rt, fn, arg, &pid), 0);
    REQUIRE(pid != WEFT_PID_NONE);
    return pid;
}

static inline int spawn_class(weft_runtime *rt, const weft_process_class *class_, const char *method, int input,
                              weft_pid *pid, weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = class_;
    spec.method = method;
    spec.input = &input;
    spec.input_size = sizeof input;
    return weft_process_spawn(rt, &spec, pid, task);
}

/* In a fiber: let others run until the claim holds. */
#define UNTIL(claim)                                                                                                   \
    do {                                                                                                               \
        weft_deadline until_ = weft_after(harness_patience());                                                         \
        while (!(claim)) {                                                                                             \
            REQUIRE(weft_after(0) < until_);                                                                           \
            weft_yield();                                                                                              \
        }                                                                                                              \
    } while (0)

/* As fixture_soon; but virtual time passes as soon as everyone waits, also for what a thread is about to do. */
static inline weft_deadline in_time(void) { return fixture_on("sim") ? WEFT_NEVER : fixture_soon(); }

/* The next message, of that type. */
static inline weft_message expect(weft_message_type type) {
    weft_message m = {.tag = 0};
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
    REQUIRE_EQ(m.type, type);
    return m;
}
static inline void expect_none(void) {
    weft_message m;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
}

/* Answers until it is told to end; a message with tag 99 ends it with the error that it has. */
#define TAG_END 99
static inline int echo_server(void *arg) {
    weft_message m;
    (void)arg;
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error || m.type == WEFT_MESSAGE_CANCEL)
            return error;
        if (m.type == WEFT_MESSAGE && m.tag == TAG_END)
            return m.size == sizeof(int) ? *(const int *)m.data : 0;
        if (m.type == WEFT_MESSAGE)
            weft_reply(&m, m.data, m.size);
    }
}
static inline void end_server(weft_runtime *rt, weft_pid pid, int error) {
    REQUIRE_EQ(weft_send(rt, pid, TAG_END, &error, sizeof error), 0);
}

/* Waits until it is told to end, or ended. */
static inline int sit(void *arg) {
    weft_message m;
    (void)arg;
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error || m.type == WEFT_MESSAGE_CANCEL)
            return error;
    }
}

#endif
