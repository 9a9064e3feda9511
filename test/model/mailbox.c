/* mailbox.c - a mailbox made by hand: opened, sent to and closed at once; and the table in which it is found. */
#include "process/process.h"

#include "model.h"

#define GENERATION 1u

static struct weft_runtime rt;
static struct wefti_processes table;
static struct wefti_process_chunk chunk; /* the first in it is the one */
#define process (chunk.process[0])
static struct weft_task task;
static _Alignas(WEFTI_NODE_SIZE) struct wefti_message message;
static bool sent;

/* What a test is called with: a message, the same where O2 is QUEUED, or what the system says. */
enum { MESSAGE, SYSTEM, QUEUED };

static void begin(void) {
    table.rt = &rt;
    process.table = &table;
    store_relaxed(&process.pid, wefti_pid_of(GENERATION, 0));
    store_relaxed(&table.chunk[0], &chunk);
}

/* Its task, which runs: a wake only notes itself; then the lanes. */
static void start_process(void) {
    wefti_word_spawn(&task.word, false);
    wefti_word_enter(&task.word);
    store_relaxed(&process.task, &task); /* O1 */
    wefti_mailbox_open(&process, mc_arg() != QUEUED); /* O2 */
}

static void send(void *unused) {
    (void)unused;
    message.size = 7; /* plain */
    sent = mc_arg() == SYSTEM
               ? wefti_mailbox_push_system(&table, &process, wefti_process_pid(&process), &message)
               : wefti_mailbox_send(&table, &process, wefti_process_pid(&process), &message, WEFT_NOW) == 0;
}

/* Who finds the lane open knows the task, and wakes it; or need not, as it has not looked yet. */
static void send_against_open(void) {
    begin();
    int a = mc_spawn(send, NULL);
    start_process();
    mc_join(a);
    if (sent)
        mc_assert(mc_arg() == QUEUED || (load_relaxed(&task.word) & WEFTI_NOTIFIED));
    mc_assert(wefti_mailbox_is_empty(&process) == (!sent && mc_arg() != QUEUED));
    wefti_mailbox_take(&process);
    mc_assert(wefti_mailbox_is_empty(&process) && process.pending.count == sent);
    mc_outcome(sent ? "sent" : "early");
}
MC_CASE(mailbox_message_against_open, send_against_open, .arg = MESSAGE, .proves = "W30", .bound = 3,
        .outcomes = "sent early");
MC_CASE(mailbox_message_against_open_queued, send_against_open, .arg = QUEUED, .proves = "W30", .bound = 3,
        .outcomes = "sent early");
MC_CASE(mailbox_system_against_open, send_against_open, .arg = SYSTEM, .proves = "W30", .bound = 3,
        .outcomes = "sent early");

/* One that was queued looks for the first time: who sends meanwhile is seen, or wakes it. */
static void send_against_first_look(void) {
    begin();
    start_process();
    int a = mc_spawn(send, NULL);
    wefti_mailbox_take(&process);
    uint32_t taken = process.pending.count;
    mc_join(a);
    mc_assert(sent && taken == !(load_relaxed(&task.word) & WEFTI_NOTIFIED));
    mc_outcome(taken ? "taken" : "woken");
}
MC_CASE(mailbox_message_against_first_look, send_against_first_look, .arg = QUEUED, .proves = "W33", .bound = 3,
        .outcomes = "taken woken");

/* A message and then a system event of one producer, against two looks: in order, and the event is counted. */
static _Alignas(WEFTI_NODE_SIZE) struct wefti_message event;

static void send_message_and_event(void *unused) {
    (void)unused;
    message.type = WEFT_MESSAGE;
    event.type = WEFT_MESSAGE_DOWN;
    mc_assert(wefti_mailbox_send(&table, &process, wefti_process_pid(&process), &message, WEFT_NOW) == 0);
    mc_assert(wefti_mailbox_push_system(&table, &process, wefti_process_pid(&process), &event));
}

MC_TEST(mailbox_order, .proves = "W29", .bound = 3, .outcomes = "0 1 2") {
    begin();
    start_process();
    int a = mc_spawn(send_message_and_event, NULL);
    wefti_mailbox_take(&process);
    uint32_t early = process.pending.count;
    mc_assert(early == 0 || process.pending.first == &message.link);
    mc_assert(process.system_count == (early == 2) && process.has_system == (early == 2));
    mc_join(a);
    mc_assert(early == 2 || (load_relaxed(&task.word) & WEFTI_NOTIFIED));
    wefti_mailbox_take(&process);
    mc_assert(process.pending.count == 2 && process.pending.last == &event.link);
    mc_assert(message.link.next == &event.link && event.link.next == NULL && process.system_count == 1);
    mc_outcome("%u", early);
}

/* What is in there when it closes comes out, with what was written. */
static void send_against_close(void) {
    begin();
    start_process();
    int a = mc_spawn(send, NULL);
    struct wefti_chain unread = {NULL, NULL, 0};
    wefti_lock_take(&process.lock);
    wefti_mailbox_close(&process, &unread);
    wefti_lock_give(&process.lock);
    if (unread.count)
        mc_assert(unread.first == &message.link && message.size == 7);
    uint32_t count = unread.count;
    mc_join(a);
    mc_assert(sent == (count == 1));
    mc_outcome(sent ? "sent" : "late");
}
MC_CASE(mailbox_message_against_close, send_against_close, .arg = MESSAGE, .proves = "W30", .bound = 3,
        .outcomes = "sent late");
MC_CASE(mailbox_message_against_close_queued, send_against_close, .arg = QUEUED, .proves = "W30", .bound = 3,
        .outcomes = "sent late");
MC_CASE(mailbox_system_against_close, send_against_close, .arg = SYSTEM, .proves = "W30", .bound = 3,
        .outcomes = "sent late");

/* A slot that is found before it has an owner is nobody's. */
static void take_slot(void *unused) {
    (void)unused;
    struct wefti_process *slot;
    mc_assert(wefti_process_take(&table, NULL, false, &slot) == 0 && wefti_pid_index(wefti_process_pid(slot)) == 0 &&
              slot->table == &table);
}

MC_TEST(table_find_against_make, .leaks_ok = true, .bound = 3, .outcomes = "there none") {
    weft_pid first = WEFTI_PID_KIND << WEFTI_PID_KIND_SHIFT | UINT64_C(1) << WEFTI_PROCESS_INDEX_BITS;
    table.rt = &rt;
    int a = mc_spawn(take_slot, NULL);
    struct wefti_process *found = wefti_process_find(&table, first);
    mc_assert(!wefti_process_lock(&table, first));
    if (found)
        mc_assert(!wefti_mailbox_push_system(&table, found, first, &message));
    mc_outcome(found ? "there" : "none");
    mc_join(a);
}

/* Who starts one while all are told to end tells it so, or the walk does (A1 to A3, Z1 to Z3). */
static bool late;

static void start_one(void *unused) {
    (void)unused;
    process.trap_exit = true; /* plain */
    store_release(&process.alive, true); /* A1 */
    late = wefti_process_is_late(&table); /* A2, A3 */
}

static void start_against_close(void) {
    begin();
    rt.heavy_fence = mc_arg();
    store_relaxed(&rt.phase, WEFTI_OPEN);
    table.made = 1;
    int a = mc_spawn(start_one, NULL);
    weft_pid seen = WEFT_PID_NONE;
    store_relaxed(&table.closing, true); /* Z1 */
    wefti_processes_fence(&table); /* Z2 */
    mc_assert(wefti_process_visit(&table, 0, &seen, NULL)); /* Z3 */
    if (seen)
        mc_assert(process.trap_exit);
    mc_join(a);
    mc_assert(late || seen);
    mc_outcome(late && seen ? "both" : late ? "late" : "seen");
}
MC_CASE(table_start_against_close, start_against_close, .arg = 0, .proves = "W35", .bound = 3,
        .outcomes = "both late seen");
MC_CASE(table_start_against_close_heavy, start_against_close, .arg = 1, .proves = "W35", .bound = 3,
        .outcomes = "both late seen");

/* A walk that finds a slot neither alive nor ending sees all that was done for the process there (X2). */
static bool released;

static void end_one(void *unused) {
    (void)unused;
    wefti_lock_take(&process.lock);
    store_relaxed(&process.alive, false);
    store_relaxed(&process.ending, true);
    wefti_lock_give(&process.lock);
    released = true; /* plain: what a release function does */
    wefti_process_give(&process, NULL); /* X2 */
}

MC_TEST(table_visit_against_end, .leaks_ok = true, .proves = "W36", .bound = 3, .outcomes = "alive ending ended") {
    weft_pid seen = WEFT_PID_NONE;
    bool ending = true;
    begin();
    static uint64_t map[WEFTI_BITS_WORDS(WEFTI_PROCESS_CHUNK)];
    table.free[0].map = map;
    store_relaxed(&process.alive, true);
    table.made = 1;
    int a = mc_spawn(end_one, NULL);
    mc_assert(wefti_process_visit(&table, 0, &seen, &ending));
    mc_assert(!seen || !ending);
    if (!seen && !ending)
        mc_assert(released);
    mc_outcome(seen ? "alive" : ending ? "ending" : "ended");
    mc_join(a);
}

/* Who has the lock finds it not started, or all of it. */
MC_TEST(table_lock_against_start, .bound = 3, .outcomes = "alive none") {
    begin();
    int a = mc_spawn(start_one, NULL);
    struct wefti_process *found = wefti_process_lock(&table, wefti_process_pid(&process));
    if (found) {
        mc_assert(found->trap_exit);
        wefti_lock_give(&found->lock);
    }
    mc_outcome(found ? "alive" : "none");
    mc_join(a);
}
