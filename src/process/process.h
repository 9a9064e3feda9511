/* process.h - the process object, its mailbox, and the table of all of them.  Internal.
 *
 * What.   A process lives in a slot of its runtime's table; a pid is the slot's index and a generation.  Slots are reused and never given
 *         back while the runtime lives, so looking at one is always safe.
 * Words.  lane: the newest message of a stack, below the lower bits of the generation (0: closed).
 *         system event: a message of any type but WEFT_MESSAGE: a completion, DOWN, EXIT, CANCEL.
 *         A bounded mailbox keeps what has come in `ordered` instead, under the slot's lock, and its lane stays closed.
 * Race.   start:  O1 the task's fields, its word      sender: S1 push with the pid's generation
 *                 O2 open the lane                            S2 it was empty, or a system event was pushed: wake the task
 *                                                     process: P1 take all: exchange for empty
 *                                                              P2 nothing taken, nothing left over: PENDING
 *                                                     end:     X1 exchange for closed
 *                                                              X2 the next generation, when nothing is done for it any more;
 *                                                                 until then it is `ending`
 * Claim.  A message is delivered to the process it was sent to, once, or the send fails, or the process ends with it unread.
 * Why.    S1 compares the generation in the word itself: after X1 it fails, also when the slot has a new owner.  S1 after O2 knows the task.
 *         S2 after S1 finds the task idle, or sets NOTIFIED, which the runner captures after P2 (word.h); if S1 comes before P1 it
 *         is taken.  Who finds the lane not empty need not wake: whoever made it so did, or will.  O2 opens it so, as QUEUED: the task is
 *         about to be queued, and its first P1 comes after that.
 *         A message does not wake a class that waits for commands (W34), so a system event wakes the task whatever it finds in the lane.
 *         The task that S2 wakes may have gone meanwhile: wefti_wake_loosely.
 * Order.  What one producer pushes, messages and system events alike, arrives in the order in which it was pushed: there is one lane, P1 takes
 *         all of it, and appends it to `pending` oldest first.  send.c appends to `pending` directly only while the lane is empty.
 *         The event that says that the runtime stops goes to the front.
 *         The lane has 22 bits of the generation, the pid all 32: to be deceived, a sender would have to stop between looking at the slot and
 *         S1 for exactly a multiple of four million owners.
 * Start.  start:  A1 the fields, then alive           close: Z1 the runtime's phase, or `closing`
 *                 A2 fence (light)                           Z2 fence (heavy)
 *                 A3 closing? tell it                        Z3 each slot, under its lock: alive? tell it
 *         So starting takes no lock: a slot has no owner but its starter until A1, who locks it finds `alive` false, or all the fields.
 *         By the fences A3 sees Z1, or Z3 sees A1; `told`, under the lock, is set by one of the two.
 * Lock.   The slot's lock guards links, monitors, the bounded mailbox and its waiters, and ending.  While it is held and the generation is the
 *         pid's, the task is alive.  No function of the user is called under it.  Under it these may be taken: the lock of a second slot, by
 *         a call that links (link.c); a stream's lock (stream.c); and when records are swept (records.c), the lock of the table, and after that
 *         has been given back, the lock of the relays.
 *         names_lock is taken before it (name.c).
 * Checked by.  test/model/process.c
 */
#ifndef WEFTI_PROCESS_PROCESS_H
#define WEFTI_PROCESS_PROCESS_H

#include <weft/process.h>

#include <string.h>

#include "fiber/fiber.h"
#include "fiber/wait.h"
#include "queue/nodes.h"

/* -- Messages ---------------------------------------------------------------------------------------------- */

#define WEFTI_MESSAGE_INLINE 24u

/* A message; or a link or monitor, which becomes the message that tells of the end: so that this never lacks memory. */
struct wefti_message {
    struct wefti_link link; /* in a lane or chain; of a record, the next in its list */
    uint64_t tag; /* of a record: the monitor's number, or 0: a link */
    weft_pid from; /* of a record: whose end it tells of */
    uint32_t size;
    int error;
    uint8_t type;
    bool is_inline;
    bool is_reply;
    uint8_t reserved[5];
    union {
        unsigned char bytes[WEFTI_MESSAGE_INLINE];
        struct {
            void *data;
            void (*release)(void *data);
        } outside;
        struct {
            struct wefti_message *prev;
            weft_pid to; /* who is told */
        } record;
    };
};
_Static_assert(sizeof(struct wefti_message) <= WEFTI_NODE_SIZE, "a message is one node");

/* The type of a record in a process's list that is neither a link nor a monitor: a helper (helper.h), whose task is `to`. */
#define WEFTI_RECORD_HELPER 64
/* ... or a stream (stream.c): its number is the tag, `to` is WEFTI_STREAM_KEY, and `from` where it is. */
#define WEFTI_RECORD_STREAM 65
#define WEFTI_STREAM_KEY ((weft_pid)1) /* no pid, and no task */

/* The answer to a question of weft_ask. */
static inline bool wefti_message_is_answer(const struct wefti_message *message) {
    return message->is_reply && (message->tag & WEFT_TAG_RESERVED);
}

static inline struct wefti_message *wefti_message_of(struct wefti_link *link) {
    return (struct wefti_message *)(void *)link; /* its first field */
}

/* What it counts in a mailbox that is bounded by bytes: empty ones are not for nothing. */
static inline uint32_t wefti_message_weight(const struct wefti_message *message) {
    return message->size ? message->size : 1;
}

/* -- Lanes ------------------------------------------------------------------------------------------------- */

typedef _Atomic uint64_t wefti_lane;

/* Messages are aligned to their size, so the pointer has 42 bits that say something. */
#define WEFTI_LANE_SHIFT 42
#define WEFTI_LANE_POINTER ((UINT64_C(1) << WEFTI_LANE_SHIFT) - 1)
#define WEFTI_LANE_TAG ((UINT32_C(1) << (64 - WEFTI_LANE_SHIFT)) - 1)
#define WEFTI_LANE_CLOSED UINT64_C(0)
#define WEFTI_LANE_QUEUED UINT64_C(1) /* instead of a pointer: nothing has come, and the process will look (O2) */
_Static_assert(WEFTI_NODE_SIZE == 64, "six bits of the pointer are zero");

static inline struct wefti_link *wefti_lane_first(uint64_t lane) {
    uint64_t pointer = lane & WEFTI_LANE_POINTER;
    return pointer > WEFTI_LANE_QUEUED ? (struct wefti_link *)(uintptr_t)(pointer << 6) : NULL;
}
static inline uint64_t wefti_lane_word(uint32_t generation, const void *message) {
    return (uint64_t)generation << WEFTI_LANE_SHIFT | (uintptr_t)message >> 6;
}

/* -- The process ------------------------------------------------------------------------------------------- */

#ifndef WEFTI_PROCESS_CHUNK
#define WEFTI_PROCESS_CHUNK 16384u /* 2 MiB, and as much for what few need; touched as they are used */
#define WEFTI_PROCESS_CHUNKS 1024u
#endif
#ifndef WEFTI_PROCESS_CACHE
#define WEFTI_PROCESS_CACHE 64u /* free slots that a worker fetches and gives back at a time */
#endif

/* Two lines: all that a message costs, of a class with an unbounded mailbox; its beginning and end. */
struct wefti_process {
    _Alignas(64) wefti_lane messages;
    _Atomic(struct weft_task *) task;
    _Atomic weft_pid pid; /* of the process that is there, or will be next; 0: all are used up */
    struct wefti_chain pending; /* the process's own: taken out of the lane, in order, and not yet read */
    uint32_t system_count; /* the process's own: system events in `pending` */
    _Atomic bool wake_blocked;
    _Atomic bool
        receiving; /* when it is idle, it waits for messages: a class, or a fiber in weft_receive.  A hint to send.c */
    _Atomic bool
        handed; /* messages come straight into `pending`: it is queued, and has not run since; atomic for send.c */
    bool idle; /* a class: has nothing to do without messages */
    union {
        struct {
            bool bounded; /* fixed while it lives, as is_fiber */
            bool is_fiber;
            bool blocked; /* a class: waits for commands.  A fiber: is in its filter, or in a release function */
            bool has_system; /* a class: system_count is not 0 */
        };
        uint32_t unusual; /* one of them is true: to the process itself */
    };
    _Atomic bool ending; /* from X1 to X2: its release functions run.  Set under the lock */
    bool heard; /* of a fiber, under the lock: has read a request to end (shutdown.c) */
    uint16_t state_room; /* a class: state_size of the class it was started with; fixed while it lives */

    _Alignas(64) struct wefti_processes *table;
    struct wefti_lock lock;
    int reason; /* of an exit that was asked for; under the lock */
    _Atomic bool alive; /* set by who starts it, last of all (A1); else under the lock */
    bool trap_exit, told,
        named; /* under the lock.  told: that the runtime stops; named: has names, or is in groups (name.c) */
    uint8_t policy; /* fixed while it lives, as the next */
    bool own; /* the library's: weft_config.max_processes is for others */
    bool awaits; /* of a bounded mailbox, under the lock: an answer has its place (receive.c) */
    bool
        outdated; /* likewise, of one that drops the oldest: some of `ordered` went, so what is older, in `pending`, goes */
    uint32_t in_flight; /* the process's own: commands */
    uint32_t pending_count; /* when bounded, the process's own: messages in `pending` that count */
    union { /* under the lock */
        struct wefti_message *newest_cancel; /* unbounded: the last one pushed; NULL: it has left the lane */
        struct wefti_link
            *trimmed_to; /* bounded: no message that could be dropped is before this one in `ordered`, nor is it one */
    };
    union { /* all zero in a slot that nobody has */
        /* A fiber's own: wefti_receive_told has refused all up to this one in `pending`; NULL: none. */
        struct wefti_link *passed;
        uint32_t cap; /* of a class: the use of the capability it was spawned with; 0: none */
    };
    struct wefti_message *answer; /* the process's own: the reply that weft_ask gave last */
    union {
        struct wefti_message *links; /* and monitors; under the lock */
        struct wefti_link free; /* of a slot that nobody has */
    };
};

/* Two lines more, that many a process never touches: what fibers and records use; what a bounded mailbox needs. */
struct wefti_process_rest {
    _Alignas(64) struct wefti_message *current; /* the message that weft_receive gave last */
    uint64_t asking; /* the number of weft_ask's question; when bounded, written under the lock */
    uint64_t monitors; /* numbers given so far */
    struct wefti_owner owner; /* of its fiber */
    uint64_t pending_bytes; /* when bounded; and so the next */
    _Atomic uint32_t ordered_count; /* of `ordered`: a look */
    uint32_t records; /* in `links`, as the next under the lock: records.c */
    struct wefti_index *lookup; /* NULL: there are few */
    struct wefti_member *names; /* under names_lock: name.c */

    /* Of a bounded mailbox, under the lock. */
    _Alignas(64) struct wefti_chain ordered; /* instead of `messages` */
    struct wefti_waiters senders; /* that wait for room, each with its message */
    uint64_t queued_bytes, max_bytes;
    uint32_t queued; /* unread messages; of a mailbox that drops the oldest, those in `ordered` */
    uint32_t max_messages;
};

/* Apart, so that of processes that do without it, its pages do not exist: the pages that the
 * kernel must clear are most of what creating many costs. */
struct wefti_process_chunk {
    struct wefti_process process[WEFTI_PROCESS_CHUNK];
    struct wefti_process_rest rest[WEFTI_PROCESS_CHUNK];
};
_Static_assert(sizeof(struct wefti_process) == 128 && sizeof(struct wefti_process_rest) == 128,
               "powers of two, as the chunk; and one's distance to the other is the same for all");

static inline struct wefti_process_rest *wefti_rest(const struct wefti_process *process) {
    return (struct wefti_process_rest *)(void *)((char *)(uintptr_t)process +
                                                 offsetof(struct wefti_process_chunk, rest));
}
static inline struct wefti_process *wefti_process_of_rest(struct wefti_process_rest *rest) {
    return (struct wefti_process *)(void *)((char *)rest - offsetof(struct wefti_process_chunk, rest));
}
#define WEFTI_PROCESS_INDEX_BITS 24
#define WEFTI_PID_KIND UINT64_C(1) /* in the highest byte */
#define WEFTI_PID_KIND_SHIFT 56

struct weft_command;
struct wefti_names;
struct wefti_member;
struct wefti_index;
struct wefti_handlers;
struct wefti_relays;

struct wefti_processes {
    struct wefti_annex annex; /* first: of the runtime */
    struct weft_runtime *rt;
    struct wefti_lock lock;
    uint16_t
        blocked; /* the sub-state of a task whose class waits for commands: messages do not wake it (W34); 0: they do */
    uint32_t made; /* slots that have ever been used, or a worker keeps for it */
    uint32_t low; /* no chunk before this has free slots */
    _Atomic uint64_t alive; /* those that were begun outside less those that ended there; the others: worker->alive */
    _Atomic uint32_t counted; /* slots in use, if the runtime has a limit */
    _Atomic bool closing; /* weft_process_stop_all: who appears is told at once; Z1, as the runtime's phase */
    struct wefti_nodes nodes;
    struct wefti_lock names_lock;
    struct wefti_names *names;
    _Atomic(struct wefti_handlers *) handlers; /* command.c */
    struct wefti_relays *relays; /* relay.c; NULL: there have been none; under the lock */
    _Atomic(struct wefti_process_chunk *) chunk[WEFTI_PROCESS_CHUNKS];
    struct {
        uint64_t *map;
        struct wefti_bits bits; /* those that are free, and no worker keeps (worker->slots) */
    } free[WEFTI_PROCESS_CHUNKS];
};

/* -- table.c ----------------------------------------------------------------------------------------------- */
/* The runtime's table; rt NULL: the caller's.  Without one it is created if `make`.  Returns NULL in a forked child, and if there is no
 * runtime, no table or no memory for one. */
struct wefti_processes *wefti_processes_of(struct weft_runtime *rt, bool make);
/* The error for a NULL of wefti_processes_of: -ENOTRECOVERABLE in a forked child, -EINVAL without a runtime, else `error`. */
int wefti_no_processes(const struct weft_runtime *rt, int error);
/* The error for a call that is not in a process: -EINVAL, or in a forked child -ENOTRECOVERABLE. */
int wefti_no_process(void);
/* The same, of the runtime that a process is in. */
static inline struct wefti_processes *wefti_processes_here(struct weft_runtime *rt) {
    return (struct wefti_processes *)(void *)wefti_annex(rt, WEFTI_ANNEX_PROCESSES); /* its first field */
}
/* A free slot.  w: the caller's worker, or NULL, as in all of these.  own: as in the process.  0; -EDQUOT (there are as many as there may
 * be); -ENOMEM. */
int wefti_process_take(struct wefti_processes *table, struct wefti_worker *w, bool own, struct wefti_process **out);
/* X2: its mailbox is closed, and what was unread thrown away.  Not before: release functions, which are the user's, speak for it. */
void wefti_process_give(struct wefti_process *process, struct wefti_worker *w);
/* One more that is alive, or (-1) one less. */
static inline void wefti_process_count(struct wefti_processes *table, struct wefti_worker *w, int change) {
    if (WEFTI_LIKELY(w && w->rt == table->rt))
        wefti_count(&w->counters.processes, (uint64_t)(int64_t)change);
    else
        add_relaxed(&table->alive, (uint64_t)(int64_t)change); /* a figure */
}
/* Under its lock: it has begun, all its fields are there, and it has not ended. */
static inline bool wefti_process_is_there(struct wefti_process *process) {
    return load_acquire(&process->alive); /* pairs with A1 */
}
/* A1 is done: is it to be told at once that all are to end?  If not, who closes finds it. */
static inline bool wefti_process_is_late(struct wefti_processes *table) {
    if (WEFTI_LIKELY(table->rt->heavy_fence))
        fence_light(); /* A2, pairs with Z2 */
    else
        fence_seq_cst(); /* A2, the same */
    return load_relaxed(&table->rt->phase) != WEFTI_OPEN || load_relaxed(&table->closing); /* A3; A2 orders it */
}
/* Z2, after Z1. */
void wefti_processes_fence(struct wefti_processes *table);
/* Tell it that all are to end, if nobody has. */
bool wefti_process_tell_stop(struct wefti_processes *table, weft_pid pid);
static inline uint32_t wefti_pid_generation(weft_pid pid) { return (uint32_t)(pid >> WEFTI_PROCESS_INDEX_BITS); }
static inline uint32_t wefti_pid_index(weft_pid pid) { return pid & ((1u << WEFTI_PROCESS_INDEX_BITS) - 1); }
static inline weft_pid wefti_pid_of(uint32_t generation, uint32_t index) {
    return WEFTI_PID_KIND << WEFTI_PID_KIND_SHIFT | (uint64_t)generation << WEFTI_PROCESS_INDEX_BITS | index;
}
static inline weft_pid wefti_process_pid(struct wefti_process *process) {
    return load_relaxed(&process->pid); /* the lock, or our own */
}
/* Where the slot with that number is, or NULL: it was never used. */
static inline struct wefti_process_chunk *wefti_process_chunk_of(struct wefti_processes *table, uint32_t index) {
    if (index / WEFTI_PROCESS_CHUNK >= WEFTI_PROCESS_CHUNKS)
        return NULL;
    return load_relaxed(&table->chunk[index / WEFTI_PROCESS_CHUNK]); /* zeroed; O2 and A1 publish what it holds */
}
/* A slot by its number, or NULL. */
static inline struct wefti_process *wefti_process_at(struct wefti_processes *table, uint32_t index) {
    struct wefti_process_chunk *chunk = wefti_process_chunk_of(table, index);
    return chunk ? &chunk->process[index % WEFTI_PROCESS_CHUNK] : NULL;
}
/* Is the slot at a pid's place what the pid names?  Only a hint: the lane or the lock decides. */
static inline bool wefti_process_is(struct wefti_process *process, weft_pid pid) {
    return pid && /* as a slot has before its first owner, and after its last: it would fit a closed lane */
           load_relaxed(&process->pid) == pid; /* a hint */
}
/* The slot that a pid names; NULL: none, or it has another owner by now.  Only a hint. */
static inline struct wefti_process *wefti_process_find(struct wefti_processes *table, weft_pid pid) {
    struct wefti_process *process = table ? wefti_process_at(table, wefti_pid_index(pid)) : NULL;
    return process && wefti_process_is(process, pid) ? process : NULL;
}
/* A walk over all slots.  Stores the process in that slot, or WEFT_PID_NONE, and whether one there is not alive any more but still ending
 * (may be NULL).  If neither, all that was done for its last process is visible to the caller.  Returns false if there are no more slots. */
bool wefti_process_visit(struct wefti_processes *table, uint32_t index, weft_pid *pid, bool *ending);
/* Take the lock of the process that a pid names; NULL: there is none. */
struct wefti_process *wefti_process_lock(struct wefti_processes *table, weft_pid pid);

/* -- message.c --------------------------------------------------------------------------------------------- */
/* from: the calling process.  NULL: no memory, or more than fits into a size. */
struct wefti_message *wefti_message_new(struct wefti_processes *table, uint8_t type, uint64_t tag, const void *data,
                                        size_t size);
/* The same, w: the caller's worker. */
static inline struct wefti_message *wefti_message_new_on(struct wefti_processes *table, struct wefti_worker *w,
                                                         uint8_t type, uint64_t tag, const void *data, size_t size);
/* Calls the release function of what was sent by reference: not under a lock. */
void wefti_message_free(struct wefti_processes *table, struct wefti_message *message);
void wefti_messages_free(struct wefti_processes *table, struct wefti_chain *chain);
static inline void wefti_message_show(struct wefti_message *message, weft_message *out) {
    out->type = (weft_message_type)message->type;
    out->error = message->error;
    out->tag = message->tag;
    out->from = message->from;
    out->data = message->is_inline ? message->bytes : message->outside.data;
    out->size = message->size;
}

/* -- mailbox.c --------------------------------------------------------------------------------------------- */
/* S1 and S2 of a message that is never refused: a system event, or the answer that a process with a bounded mailbox waits for.  process: the
 * slot of `to`.  Returns false if the process has ended: the message is still the caller's.  Takes the slot's lock. */
bool wefti_mailbox_push_system(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                               struct wefti_message *message);
/* S1 under the lock of a process that is alive; wefti_mailbox_wake, S2, follows without the lock. */
void wefti_mailbox_put_system(struct wefti_process *process, struct wefti_message *message);
void wefti_mailbox_wake(struct wefti_process *process);
/* A message, by the lane; waiting for room at most until then if the policy is that.  0: it is the receiver's; an error: still the
 * caller's. */
int wefti_mailbox_send(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                       struct wefti_message *message, int64_t until);
/* O2.  handed: as in send.c, the process's own already. */
void wefti_mailbox_open(struct wefti_process *process, bool handed);
/* P1: all that has come, behind what is in `pending`.  Returns true if that has changed in front of it as well: the runtime stops, or messages
 * were dropped. */
bool wefti_mailbox_take(struct wefti_process *process);
static inline bool wefti_mailbox_is_empty(struct wefti_process *process) {
    return !(load_relaxed(&process->messages) & WEFTI_LANE_POINTER) &&
           !(process->bounded && load_relaxed(&wefti_rest(process)->ordered_count)); /* a look */
}
/* So many messages have been taken out of `pending` of a bounded mailbox: room for others. */
void wefti_mailbox_make_room(struct wefti_process *process, uint32_t count, uint64_t bytes);
static inline void wefti_mailbox_used(struct wefti_process *process, uint32_t count, uint64_t bytes) {
    if (WEFTI_UNLIKELY(process->bounded) && count)
        wefti_mailbox_make_room(process, count, bytes);
}
/* X1, under the lock: nothing more comes in.  What is unread is to be thrown away after it. */
void wefti_mailbox_close(struct wefti_process *process, struct wefti_chain *unread);
/* After it, if there are any: those who wait for room are told that the process has ended. */
void wefti_mailbox_turn_away(struct wefti_process *process);
/* Something that the system says: never refused but for want of memory. */
int wefti_mailbox_tell(struct wefti_processes *table, weft_pid to, uint8_t type, uint64_t tag, weft_pid from, int error,
                       const void *data, size_t size);

/* weft_process_cancel.  C1: if the newest thing in the mailbox is a request that the process has not taken out, that one stands for this one
 * too; else a new one is put behind all that has come.  So the caller's earlier messages are always in front of the request, and its
 * later ones behind it.  C1 is under the lock.  The process, having taken a request out (P1), takes the lock once (R1) before it reads
 * the request: a caller whose C1 comes before R1 is ordered before the read; one whose C1 comes after R1 finds that the request is gone. */
int wefti_mailbox_ask_to_end(struct wefti_processes *table, weft_pid to, weft_pid from);
/* Takes the item behind `before` (NULL: the first) out of a chain.  If that leaves two requests to end side by side, which nothing tells
 * apart any more, the second goes to `merged`: so a process that never reads them has at most one more of them than of other things. */
struct wefti_message *wefti_mailbox_unlink(struct wefti_chain *chain, struct wefti_link *before,
                                           struct wefti_chain *merged);

/* -- receive.c --------------------------------------------------------------------------------------------- */
/* Has something come, to the process (`arg`) itself?  For its waits. */
bool wefti_something_came(void *arg);
/* weft_receive of the process itself, with a filter that never takes later what it has refused: a later call goes on where this one ended,
 * so that messages for others, however many, are looked at once. */
int wefti_receive_told(struct wefti_process *self, weft_message *message, weft_filter_fn filter, void *arg,
                       int64_t until);
/* Until something has come, also when it is cancelled. */
void wefti_receive_firmly(struct wefti_process *self, const char *what);

/* -- send.c ------------------------------------------------------------------------------------------------ */
/* As wefti_mailbox_send, and if the process waits for it, straight into its hands.  w: the caller's worker, or NULL. */
int wefti_message_send(struct wefti_processes *table, struct wefti_worker *w, weft_pid to,
                       struct wefti_message *message, int64_t until);

/* -- process.c --------------------------------------------------------------------------------------------- */
/* The calling process, or NULL. */
struct wefti_process *wefti_process_self(void);
/* Under its lock: it is to end for that reason, if it has none yet.  Then, without the lock, execute what this returns: its task. */
struct weft_task *wefti_process_condemn(struct wefti_process *process, int reason);
void wefti_process_execute(struct weft_task *task);
/* End it, with -ECANCELED: its time is over, and shields do not put that off. */
void wefti_process_force(struct wefti_processes *table, weft_pid pid);
/* Does it have a release function?  A spec of an earlier header has no such field. */
bool wefti_process_spec_releases(const weft_process_spec *spec);

/* -- shutdown.c -------------------------------------------------------------------------------------------- */
/* The process has been sent a request to end.  If it is a fiber, its waits fail until it has read a request, unless it traps exits. */
void wefti_process_interrupt(struct wefti_processes *table, weft_pid pid);
/* The running process, a fiber, has read a request. */
void wefti_process_heard(struct wefti_process *self);

/* weft_process_spawn for the library's own. */
int wefti_process_spawn_own(struct weft_runtime *rt, const weft_process_spec *spec, weft_task **handle);
/* The same of a class, in a step, for a command that it completes: its state begins with a struct wefti_helper, and the record has the handle. */
int wefti_process_spawn_helper(const weft_process_spec *spec, const struct weft_command *command);

/* The first header had no init_ctx. */
#define WEFTI_CLASS_SIZE_MIN offsetof(weft_process_class, init_ctx)

/* In front of a class's own state. */
struct wefti_process_header {
    struct wefti_process *process;
    const weft_process_class *class_;
};
_Static_assert(WEFT_PROCESS_STATE_MAX + sizeof(struct wefti_process_header) == WEFT_STATE_MAX, "as promised");

/* -- step.c ------------------------------------------------------------------------------------------------ */
/* The poll function of processes that are classes. */
weft_poll wefti_process_poll(struct weft_task *task, void *state);

/* process.c: for dumps. */
const char *wefti_process_describe(struct weft_task *task);
/* process.c: the owner of those that are fibers. */
extern const struct wefti_owner_kind wefti_process_owner;
/* The process that a fiber is, or NULL. */
static inline struct wefti_process *wefti_process_of_fiber(struct weft_task *task) {
    struct wefti_owner *owner = wefti_task_is_fiber(task) ? wefti_fiber_of(task)->owner : NULL;
    return owner && owner->kind == &wefti_process_owner
               ? wefti_process_of_rest(
                     (struct wefti_process_rest *)(void *)((char *)owner - offsetof(struct wefti_process_rest, owner)))
               : NULL;
}
/* The process that a class's task is. */
static inline struct wefti_process *wefti_process_of_class(struct weft_task *task) {
    return ((struct wefti_process_header *)(void *)(task + 1))->process; /* its state: WEFTI_STATE_LARGE */
}
/* The process that a task is, or NULL. */
static inline struct wefti_process *wefti_process_of(struct weft_task *task) {
    return task->poll == wefti_process_poll ? wefti_process_of_class(task) : wefti_process_of_fiber(task);
}
/* Its pid, or WEFT_PID_NONE.  task: may be NULL. */
static inline weft_pid wefti_pid_of_task(struct weft_task *task) {
    if (WEFTI_UNLIKELY(!task))
        return WEFT_PID_NONE;
    if (task->poll == wefti_process_poll)
        return wefti_process_pid(wefti_process_of_class(task));
    struct wefti_process *process = wefti_process_of_fiber(task);
    return process ? wefti_process_pid(process) : WEFT_PID_NONE;
}

/* -- link.c ------------------------------------------------------------------------------------------------ */
/* Tell everyone who is linked to a process, or monitors it; called once, without locks, with the list that it had. */
void wefti_links_end(struct wefti_processes *table, struct wefti_message *links, int reason);
/* The same for one that never began: it is only forgotten. */
void wefti_links_forget(struct wefti_processes *table, struct wefti_message *links);
/* A number for a monitor of the process with that pid. */
uint64_t wefti_monitor_number(struct wefti_process *self, weft_pid pid);
/* The how manieth of its process it is. */
static inline uint64_t wefti_monitor_count(uint64_t monitor) {
    return (monitor & ~WEFT_TAG_RESERVED) >> WEFTI_PROCESS_INDEX_BITS;
}
/* A record in the list of `pid`, which tells `to` of its end.  *record may be NULL; it is not set if `pid` is of another node. */
int wefti_monitor_add(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor,
                      struct wefti_message **record);
/* Take such a record out.  False: the process has ended, and the message has come or is coming. */
bool wefti_monitor_remove(struct wefti_processes *table, weft_pid pid, struct wefti_message *record);
/* The record, which has been taken out, becomes the message. */
void wefti_monitor_tell(struct wefti_processes *table, struct wefti_message *record, int reason);
int wefti_link_both(struct wefti_processes *table, weft_pid self, weft_pid other);

/* -- records.c: under the process's lock --------------------------------------------------------------------- */
/* Puts a record into the list.  Returns records that were taken out of it because the processes they were to tell have ended: the caller
 * frees them with wefti_records_free, without the lock. */
__attribute__((warn_unused_result)) struct wefti_message *wefti_record_put(struct wefti_process *process,
                                                                           struct wefti_message *record);
void wefti_records_free(struct wefti_processes *table, struct wefti_message *records);
void wefti_record_take(struct wefti_process *process, struct wefti_message *record);
/* One that tells `to`, with that tag; WEFT_PID_NONE: a helper's.  NULL: none. */
struct wefti_message *wefti_record_find(struct wefti_process *process, weft_pid to, uint64_t tag);
/* At its end: the list is the caller's. */
struct wefti_message *wefti_records_take_all(struct wefti_process *process);

#define WEFTI_NAME_SIZE 64u /* with the zero at the end */

/* -- name.c ------------------------------------------------------------------------------------------------ */
/* At its end, under names_lock. */
void wefti_names_end(struct wefti_process *process);
void wefti_names_fini(struct wefti_names *names);

/* -- command.c --------------------------------------------------------------------------------------------- */
void wefti_handlers_fini(struct wefti_handlers *handlers);

/* -- message.c: the inner parts ------------------------------------------------------------------------------ */
/* Memory that a message may carry, and the release function for it. */
void *wefti_large_new(size_t size);
void wefti_large_free(void *data);
bool wefti_message_fill_large(struct wefti_message *message, const void *data, size_t size);

/* w: read anew if the caller may have waited, and be on another worker. */
static inline struct wefti_nodes_cache *wefti_messages_cache(struct wefti_processes *table, struct wefti_worker *w) {
    return w && w->rt == table->rt ? &w->messages : NULL;
}

/* Up to WEFTI_MESSAGE_INLINE bytes, without a call. */
static inline void wefti_message_copy(unsigned char *to, const unsigned char *from, size_t size) {
    if (WEFTI_LIKELY(size == 8)) {
        memcpy(to, from, 8);
    } else if (size > 8) {
        memcpy(to, from, 8);
        if (size > 16)
            memcpy(to + 8, from + 8, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else if (size) {
        to[0] = from[0];
        to[size / 2] = from[size / 2];
        to[size - 1] = from[size - 1];
    }
}

/* All but what it carries. */
static inline void wefti_message_address(struct wefti_message *message, weft_pid from, uint8_t type, uint64_t tag,
                                         size_t size) {
    message->tag = tag;
    message->from = from;
    message->size = (uint32_t)size;
    message->error = 0;
    message->type = type;
    message->is_inline = true;
    message->is_reply = false;
}

static inline struct wefti_message *wefti_message_new_on(struct wefti_processes *table, struct wefti_worker *w,
                                                         uint8_t type, uint64_t tag, const void *data, size_t size) {
    struct wefti_nodes_cache *cache = wefti_messages_cache(table, w);
    struct wefti_message *message = size <= UINT32_MAX ? wefti_nodes_take(&table->nodes, cache) : NULL;
    if (WEFTI_UNLIKELY(!message))
        return NULL;
    wefti_message_address(message, wefti_pid_of_task(cache ? wefti_current(w) : NULL), type, tag, size);
    if (WEFTI_LIKELY(size <= WEFTI_MESSAGE_INLINE)) {
        wefti_message_copy(message->bytes, data, size);
    } else if (wefti_message_fill_large(message, data, size)) {
        message->is_inline = false;
    } else {
        wefti_nodes_give(&table->nodes, cache, message);
        return NULL;
    }
    return message;
}

#endif
