/* process_keeper.h - a process that takes nothing before it is released, and then tells what it got. */
#ifndef WEFT_TEST_PROCESS_KEEPER_H
#define WEFT_TEST_PROCESS_KEEPER_H

#include "process.h"

struct keeper {
    atomic_bool begun, release;
    atomic_uint got, cancels;
    uint64_t tag[64];
};

static inline int keep(void *arg) {
    struct keeper *keeper = arg;
    weft_message m;
    atomic_store(&keeper->begun, true);
    while (!atomic_load(&keeper->release))
        weft_yield();
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error)
            return error;
        if (m.type == WEFT_MESSAGE_CANCEL) {
            atomic_fetch_add(&keeper->cancels, 1);
            CHECK(m.error == -ESHUTDOWN || m.error == -ECANCELED);
            return 0;
        }
        keeper->tag[atomic_load(&keeper->got) % 64] = m.tag;
        atomic_fetch_add(&keeper->got, 1);
        if (m.tag == TAG_END)
            return 0;
    }
}

static inline weft_pid go_keeper(weft_runtime *rt, struct keeper *keeper, uint32_t max, uint64_t bytes,
                                 weft_mailbox_policy policy, weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    spec.fn = keep;
    spec.arg = keeper;
    spec.max_messages = max;
    spec.max_bytes = bytes;
    spec.policy = policy;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&keeper->begun));
    return pid;
}

#endif
