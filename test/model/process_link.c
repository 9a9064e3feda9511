/* process_link.c - links of two processes on the whole runtime: one unlinks while the other links, and ends. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_pid one, other;

static int finish(weft_task *task) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    weft_task_drop(task);
    return result.status;
}

static int link_and_fail(void *arg) {
    (void)arg;
    int error = weft_link(one);
    mc_assert(error == 0 || error == -ESRCH);
    return -EIO;
}

/* Whatever is left of a link: who links to one that has ended hears of it. */
static int unlink_and_link(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_unlink(other) == 0);
    while (weft_process_is_alive(NULL, other)) { /* on another worker, or this one */
        wefti_relax();
        weft_yield();
    }
    int error = weft_link(other);
    mc_assert(error == 0 || error == -ESRCH);
    do
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
    while (error && m.error != -ESRCH); /* its end may be told besides */
    mc_assert(error || m.error == -EIO);
    return 0;
}

static void link_against_unlink(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt = model_open(WEFT_SCHED_FIFO, 2);
    weft_task *task;
    spec.fn = unlink_and_link;
    spec.trap_exit = true;
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &one, &task) == 0);
    mc_assert(weft_process_go(rt, link_and_fail, NULL, &other) == 0);
    mc_atomic_end();
    mc_assert(finish(task) == 0);
    model_close(rt);
}
MC_CASE(process_link_against_unlink, link_against_unlink, .proves = "W6 W10", .mode = MC_PCT, .depth = 5,
        .max_exec = 2000);

/* -- After weft_unlink has returned 0, the other's end does nothing; when it says that we are to end, we do. */

static int fail(void *arg) {
    (void)arg;
    return -EIO;
}
static _Atomic int unlinked;

static int link_and_unlink(void *arg) {
    weft_message m;
    (void)arg;
    int error = weft_link(other);
    mc_assert(error == 0 || error == -ESRCH);
    for (int turn = 0; turn < mc_arg() && weft_process_is_alive(NULL, other); turn++) { /* in the midst of its end */
        wefti_relax();
        weft_yield();
    }
    int parted = weft_unlink(other);
    mc_assert(parted == 0 || (parted == -ECANCELED && !error));
    store_relaxed(&unlinked, parted ? 2 : 1); /* a figure */
    do /* the message; or the end, perhaps after it */
        error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
    while (parted && !error);
    mc_assert(error == parted);
    return parted;
}

static void unlink_against_end(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt = model_open(WEFT_SCHED_FIFO, 2);
    weft_task *task, *failing;
    mc_atomic_begin();
    spec.fn = link_and_unlink;
    mc_assert(weft_process_spawn(rt, &spec, &one, &task) == 0);
    spec.fn = fail;
    mc_assert(weft_process_spawn(rt, &spec, &other, &failing) == 0);
    mc_atomic_end();
    mc_assert(finish(failing) == -EIO); /* all that its end does is done */
    int error = weft_send(rt, one, 0, NULL, 0);
    mc_assert(error == 0 || error == -ESRCH);
    int status = finish(task);
    mc_assert(status == (load_relaxed(&unlinked) == 2 ? -ECANCELED : 0));
    mc_outcome("%s", status ? "ended" : "lives");
    model_close(rt);
}
MC_CASE(process_unlink_parts, unlink_against_end, .arg = 2, .proves = "W6 W10", .bound = 1, .stale_counts = true,
        .seconds = 20, .outcomes = "ended lives");
MC_CASE(process_unlink_parts_deep, unlink_against_end, .proves = "W6 W10", .mode = MC_PCT, .depth = 5, .max_exec = 3000,
        .outcomes = "ended lives");

/* -- A link has two sides or none, also if one unlinks while the other links. */

static _Atomic int linked, done;

static int unlink_then_wait(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_link(other) == 0);
    store_release(&linked, 1);
    mc_assert(weft_unlink(other) == 0);
    add_relaxed(&done, 1); /* the locks order what it did */
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
static int link_then_wait(void *arg) {
    weft_message m;
    (void)arg;
    while (!load_acquire(&linked)) {
        wefti_relax();
        weft_yield();
    }
    mc_assert(weft_link(one) == 0);
    add_relaxed(&done, 1); /* as above */
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}

static uint32_t records_of(weft_runtime *rt, weft_pid pid) {
    struct wefti_process *process = wefti_process_lock(wefti_processes_of(rt, false), pid);
    mc_assert(process != NULL);
    uint32_t records = wefti_rest(process)->records;
    wefti_lock_give(&process->lock);
    return records;
}

static void link_is_whole(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt = model_open(WEFT_SCHED_FIFO, 2);
    weft_task *first, *second;
    mc_atomic_begin();
    spec.fn = link_then_wait;
    mc_assert(weft_process_spawn(rt, &spec, &other, &second) == 0);
    spec.fn = unlink_then_wait;
    mc_assert(weft_process_spawn(rt, &spec, &one, &first) == 0);
    mc_atomic_end();
    while (load_relaxed(&done) < 2)
        wefti_relax();
    uint32_t records = records_of(rt, one);
    mc_assert(records <= 1 && records_of(rt, other) == records);
    mc_outcome("%s", records ? "linked" : "not");
    mc_assert(weft_send(rt, one, 0, NULL, 0) == 0 && weft_send(rt, other, 0, NULL, 0) == 0);
    mc_assert(finish(first) == 0 && finish(second) == 0);
    model_close(rt);
}
MC_CASE(process_link_is_whole, link_is_whole, .proves = "W6 W10", .mode = MC_PCT, .depth = 4, .max_exec = 3000,
        .outcomes = "linked not");
