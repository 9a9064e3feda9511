/* process_table.c - pids: generations that wrap, slots that are used again or used up, pids that nobody ever had. */
#include "process/process.h"

#include <weft/command.h>
#include <weft/weft.h>

#include "harness.h"

static unsigned heard;

static int hear(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        REQUIRE_EQ(events[i].type, WEFT_MESSAGE);
        heard++;
        if (events[i].tag)
            out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class hearing = {.size = sizeof hearing, .step = hear};

static weft_pid begin(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid = WEFT_PID_NONE;
    spec.class_ = &hearing;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    return pid;
}

static void refuses(weft_pid pid) {
    uint64_t monitor;
    weft_message m;
    CHECK_EQ(weft_send(NULL, pid, 0, "m", 1), -ESRCH);
    CHECK_EQ(weft_process_cancel(NULL, pid), -ESRCH);
    CHECK_EQ(weft_process_exit(NULL, pid, -EIO), -ESRCH);
    CHECK_EQ(weft_command_complete(NULL, pid, 1, 0, NULL, 0), -ESRCH);
    CHECK_EQ(weft_link(pid), -ESRCH);
    CHECK_EQ(weft_register(NULL, "name", pid), -ESRCH);
    CHECK(!weft_process_is_alive(NULL, pid));
    REQUIRE_EQ(weft_monitor(pid, &monitor), 0);
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    CHECK_EQ(m.type, WEFT_MESSAGE_DOWN);
    CHECK_EQ(m.error, -ESRCH);
}

/* It hears twice, and ends. */
static void live(weft_pid pid) {
    unsigned before = heard;
    REQUIRE_EQ(weft_send(NULL, pid, 0, NULL, 0), 0);
    weft_yield(); /* it may be idle, or not have begun */
    REQUIRE_EQ(weft_send(NULL, pid, 1, NULL, 0), 0);
    while (weft_process_is_alive(NULL, pid))
        weft_yield();
    CHECK_EQ(heard, before + 2);
    refuses(pid);
}

static struct wefti_process *slot_of(weft_pid pid) {
    return wefti_process_at(wefti_processes_here(wefti_worker_here()->rt), wefti_pid_index(pid));
}

/* The next owner of that slot, after so many. */
static weft_pid begin_as(weft_pid before, uint32_t generation) {
    store_relaxed(&slot_of(before)->pid,
                  wefti_pid_of(generation, wefti_pid_index(before))); /* it is free, and our worker's */
    weft_pid pid = begin();
    REQUIRE_EQ(wefti_pid_index(pid), wefti_pid_index(before)); /* the newest first */
    REQUIRE_EQ(wefti_pid_generation(pid), generation);
    return pid;
}

static int wrap(void *arg) {
    (void)arg;
    weft_pid first = begin();
    CHECK_EQ(wefti_pid_generation(first), 1);
    live(first);
    /* The lane's part of it is all ones, and would be 0 next, which is that of a closed one. */
    weft_pid pid = begin_as(first, WEFTI_LANE_TAG);
    live(pid);
    weft_pid next = begin();
    CHECK_EQ(wefti_pid_index(next), wefti_pid_index(first));
    CHECK_EQ(wefti_pid_generation(next), WEFTI_LANE_TAG + 2);
    refuses(first); /* the same lower bits */
    refuses(pid);
    live(next);
    /* The last of all: then the slot is used up. */
    weft_pid last = begin_as(next, UINT32_MAX);
    live(last);
    for (int i = 0; i < 200; i++) {
        weft_pid other = begin();
        CHECK_NE(wefti_pid_index(other), wefti_pid_index(last));
        live(other);
    }
    refuses(last);
    refuses(first);
    return 0;
}

/* Of slots that nobody has had, in memory that is there, and beyond it. */
static int forged(void *arg) {
    (void)arg;
    weft_pid kind = WEFTI_PID_KIND << WEFTI_PID_KIND_SHIFT;
    for (unsigned bits = 0; bits < WEFTI_PROCESS_INDEX_BITS; bits++)
        for (weft_pid generation = 0; generation < 2; generation++)
            refuses(kind | generation << WEFTI_PROCESS_INDEX_BITS | ((UINT64_C(1) << bits) + 1));
    refuses(weft_self() & ~(UINT64_C(0xffffffff) << WEFTI_PROCESS_INDEX_BITS)); /* generation 0 of one that is there */
    refuses(weft_self() ^ kind);
    refuses(weft_self() ^ UINT64_C(3) << WEFTI_PID_KIND_SHIFT);
    refuses(WEFT_PID_NONE);
    refuses(UINT64_MAX);
    return 0;
}

/* Who has the slot now is not put out of a group for who had it. */
static int stale(void *arg) {
    (void)arg;
    weft_pid first = begin();
    live(first);
    weft_pid next = begin();
    REQUIRE_EQ(wefti_pid_index(next), wefti_pid_index(first));
    REQUIRE_EQ(weft_group_join(NULL, "group", next), 0);
    CHECK_EQ(weft_group_leave(NULL, "group", first), -ESRCH);
    CHECK_EQ(weft_group_leave(NULL, "group", next), 0);
    live(next);
    return 0;
}

/* Many at once, again and again: the slots are those of the first. */
static int crowds(void *arg) {
    enum { CROWD = 8 * WEFTI_PROCESS_CACHE };
    static weft_pid pid[CROWD];
    struct wefti_processes *table = wefti_processes_here(wefti_worker_here()->rt);
    (void)arg;
    for (int round = 0; round < 4; round++) {
        for (unsigned i = 0; i < CROWD; i++)
            pid[i] = begin();
        for (unsigned i = 0; i < CROWD; i++)
            REQUIRE_EQ(weft_send(NULL, pid[i], 1, NULL, 0), 0);
        while (weft_process_count(NULL) > 1)
            weft_yield();
        CHECK_LE(table->made, CROWD + WEFTI_PROCESS_CACHE);
    }
    return 0;
}

static void in_process(weft_fiber_fn fn) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt;
    weft_task *task;
    weft_result result;
    config.workers = 1;
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    spec.fn = fn;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    CHECK_EQ(result.status, 0);
    weft_task_drop(task);
    CHECK_EQ(weft_process_count(rt), 0);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}

TEST(process_generations_wrap, "W10 W30 W38") { in_process(wrap); }
TEST(process_forged_pids, "W10 W30") { in_process(forged); }
TEST(process_slots_used_again, "W10 W38") { in_process(crowds); }
TEST(process_stale_member, "W10 W30") { in_process(stale); }
