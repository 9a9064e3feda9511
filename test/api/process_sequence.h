/* process_sequence.h - a process that asks for one thing after the other, and notes how each went: for commands that build on each other. */
#ifndef WEFT_TEST_PROCESS_SEQUENCE_H
#define WEFT_TEST_PROCESS_SEQUENCE_H

#include <weft/command.h>

#include "process.h"

/* Asks for commands, all with the tag `stage` or above 100; the next stage begins when the one with the tag `stage` has completed. */
typedef void (*stage_fn)(weft_step *out, uint64_t stage);

#define STAGES 16

static struct {
    stage_fn stage[STAGES];
    unsigned count;
    int error[STAGES], later[STAGES]; /* of the tag `stage`; of 100 + stage */
    _Alignas(16) unsigned char data[STAGES][512];
    size_t size[STAGES];
    int messages;
} sequence; /* of the one process of a test; read after its end */

static inline uint64_t sequence_number(unsigned stage) {
    uint64_t number;
    memcpy(&number, sequence.data[stage], sizeof number);
    return number;
}

static inline int sequence_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    uint64_t *stage = raw;
    bool goes_on = count == 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t tag = events[i].tag;
        sequence.messages += events[i].type == WEFT_MESSAGE;
        if (events[i].type != WEFT_MESSAGE_YIELD)
            continue;
        if (tag >= 100) {
            sequence.later[tag - 100] = events[i].error;
            continue;
        }
        REQUIRE_EQ(tag, *stage);
        sequence.error[tag] = events[i].error;
        sequence.size[tag] = events[i].size;
        if (events[i].size)
            memcpy(sequence.data[tag], events[i].data, events[i].size < 512 ? events[i].size : 512);
        ++*stage;
        goes_on = true;
    }
    out->status = *stage == sequence.count ? WEFT_STEP_DONE : WEFT_STEP_YIELD;
    if (goes_on && *stage < sequence.count)
        sequence.stage[*stage](out, *stage);
    return 0;
}
static const weft_process_class sequence_class = {
    .size = sizeof sequence_class, .name = "sequence", .state_size = sizeof(uint64_t), .step = sequence_step};

static inline weft_pid sequence_begin(weft_runtime *rt, const stage_fn *stages, unsigned count, weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    REQUIRE_LE(count, STAGES);
    memset(&sequence, 0, sizeof sequence);
    memcpy(sequence.stage, stages, count * sizeof *stages);
    sequence.count = count;
    for (unsigned i = 0; i < STAGES; i++)
        sequence.error[i] = sequence.later[i] = 1; /* nothing came */
    spec.class_ = &sequence_class;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, task), 0);
    return pid;
}

static inline void sequence_run(const stage_fn *stages, unsigned count) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    sequence_begin(rt, stages, count, &task);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* A struct, and bytes behind it. */
static inline void ask_with(weft_step *out, unsigned command, uint64_t tag, const void *head, size_t size,
                            const void *bytes, size_t more) {
    unsigned char *payload = malloc(size + more + 1);
    REQUIRE(payload != NULL);
    memcpy(payload, head, size);
    if (more)
        memcpy(payload + size, bytes, more);
    CHECK_EQ(weft_yield_command(out, command, tag, payload, size + more), 0);
    free(payload);
}

/* Descriptors that are open in this process. */
static inline int count_descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    REQUIRE(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

#endif
