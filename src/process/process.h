/* process.h - the process object, its mailbox, and the table of all of them.  Internal.
 *
 * What.   A process lives in a slot of its runtime's table; a pid is the slot's index and a generation.  Slots are reused and never given
 *         back while the runtime lives, so looking at one is always safe.
 * Words.  lane: the newest message of a stack, below 16 bits of the generation.  Two lanes: messages, and what the system says.
 * Race.   sender: S1 push with the pid's generation      process: P1 take all: exchange for empty
 *                 S2 it was empty: wake the task                  P2 nothing taken, nothing left over: PENDING
 *                                                         end:    X1 exchange for empty with the next generation
 * Claim.  A message is delivered to the process it was sent to, once, or the send fails, or the process ends with it unread.
 * Why.    S1 compares the generation with the word itself: after X1 it fails, also when the slot has a new owner.  S2 after S1 finds the task
 *         idle, or sets NOTIFIED, which the runner captures after P2 (word.h); if S1 comes before P1 it is taken.  Who finds the lane
 *         not empty need not wake: whoever made it so did, or will.
 *         The task that S2 wakes may have gone meanwhile: wefti_wake_loosely.
 * Lock.   links, monitors, name, the bound's waiters, and ending: the slot's lock.  While it is held and the generation is the
 *         pid's, the task is alive.
 */
#ifndef WEFTI_PROCESS_PROCESS_H
#define WEFTI_PROCESS_PROCESS_H

#include <weft/process.h>

#include "fiber/fiber.h"
#include "fiber/wait.h"
#include "queue/nodes.h"

/* -- Messages ---------------------------------------------------------------------------------------------- */

#define WEFTI_MESSAGE_INLINE 24u

struct wefti_message {
    struct wefti_link link;
    uint64_t tag;
    weft_pid from;
    uint32_t size;
    int error;
    uint8_t type;
    bool is_inline;
    uint8_t reserved[6];
    union {
        unsigned char bytes[WEFTI_MESSAGE_INLINE];
        struct {
            void *data;
            void (*release)(void *data);
        } outside;
    };
};
_Static_assert(sizeof(struct wefti_message) <= WEFTI_NODE_SIZE, "a message is one node");

/* The task's sub-state while a class waits for commands: messages do not wake it (W34). */
#define WEFTI_SUB_BLOCKED UINT16_MAX

/* -- The process ------------------------------------------------------------------------------------------- */

typedef _Atomic uint64_t wefti_lane;

struct wefti_link_record {
    struct wefti_link_record *next;
    weft_pid pid;
    uint64_t monitor; /* 0: a link; else pid is told with this number */
};

struct wefti_process {
    wefti_lane messages, system;
    _Atomic(struct weft_task *) task;
    _Atomic uint32_t generation; /* of the process that is there, or will be next */
    uint32_t index;
    struct wefti_processes *table;
    struct wefti_chain pending; /* taken out of the lanes, not yet used; the process's own */
    struct wefti_message *current; /* the message that weft_receive gave last */

    /* Fixed while it lives. */
    struct wefti_owner owner; /* of its fiber */
    const weft_process_class *class_;
    uint32_t max_messages;
    uint8_t policy;
    bool wake_blocked, is_fiber;
    bool blocked, idle; /* a class: waits for commands; has nothing to do without messages */

    /* Under the lock. */
    struct wefti_lock lock;
    bool alive, trap_exit;
    int reason; /* of an exit that was asked for */
    struct wefti_link_record *links;
    struct wefti_waiters senders;   /* that wait for room */
    struct wefti_chain ordered;     /* instead of `messages`, when the oldest may have to go */
    _Atomic uint32_t ordered_count; /* of them */
    uint64_t ordered_bytes;
    _Atomic uint32_t queued;        /* messages, when bounded */
    _Atomic uint64_t queued_bytes;
    uint64_t max_bytes;
    bool named;                     /* it has names, or is in groups: name.c */
    uint32_t in_flight;             /* commands */
    struct wefti_process *next_free;
};

#define WEFTI_PROCESS_CHUNK 1024u
#define WEFTI_PROCESS_CHUNKS 4096u

struct wefti_names;
struct wefti_handlers;

struct wefti_processes {
    struct wefti_extension extension; /* of the runtime */
    struct weft_runtime *rt;
    struct wefti_lock lock;
    struct wefti_process *free;
    _Atomic uint32_t made; /* slots that have ever been used */
    _Atomic uint64_t alive;
    _Atomic uint64_t next_monitor;
    struct wefti_nodes nodes;
    struct wefti_lock names_lock;
    struct wefti_names *names;
    _Atomic(struct wefti_handlers *) handlers; /* command.c */
    _Atomic(struct wefti_process *) chunk[WEFTI_PROCESS_CHUNKS];
};

/* -- table.c ----------------------------------------------------------------------------------------------- */
/* The runtime's table, made if need be; rt NULL: the caller's.  NULL: no runtime, or no memory. */
struct wefti_processes *wefti_processes_of(struct weft_runtime *rt, bool make);
/* A free slot, or NULL. */
struct wefti_process *wefti_process_take(struct wefti_processes *table);
void wefti_process_give(struct wefti_process *process);
weft_pid wefti_process_pid(const struct wefti_process *process);
/* The slot that a pid names; NULL: none, or it has another owner by now.  Only a hint: the lane or the lock decides. */
struct wefti_process *wefti_process_find(struct wefti_processes *table, weft_pid pid);
/* A slot that has been used, by its number, or NULL. */
struct wefti_process *wefti_process_at(struct wefti_processes *table, uint32_t index);
static inline uint32_t wefti_pid_generation(weft_pid pid) { return (uint32_t)(pid >> 32) & 0xffffff; }
/* Take the lock of the process that a pid names; NULL: there is none. */
struct wefti_process *wefti_process_lock(struct wefti_processes *table, weft_pid pid);

/* -- mailbox.c --------------------------------------------------------------------------------------------- */
struct wefti_message *wefti_message_new(struct wefti_processes *table, uint8_t type, uint64_t tag, const void *data,
                                        size_t size);
void wefti_message_free(struct wefti_processes *table, struct wefti_message *message);
void wefti_message_show(struct wefti_message *message, weft_message *out);
/* S1, S2.  False: the process has ended; the message is still the caller's. */
bool wefti_mailbox_push(struct wefti_process *process, uint32_t generation, bool system, struct wefti_message *message);
/* P1: all that has come, behind `pending`: the system's first. */
void wefti_mailbox_take(struct wefti_process *process);
static inline bool wefti_mailbox_is_empty(struct wefti_process *process) {
    const uint64_t pointer = (UINT64_C(1) << 48) - 1;
    return !(load_relaxed(&process->messages) & pointer) && !(load_relaxed(&process->system) & pointer) &&
           !load_relaxed(&process->ordered_count); /* a look */
}
/* A message has been taken out of a bounded mailbox. */
void wefti_mailbox_used(struct wefti_process *process, const struct wefti_message *message);
/* X1: nothing more comes in, and what is there is thrown away. */
void wefti_mailbox_close(struct wefti_process *process);
/* Something that the system says: never refused but for want of memory. */
int wefti_mailbox_tell(struct wefti_processes *table, weft_pid to, uint8_t type, uint64_t tag, weft_pid from, int error,
                       const void *data, size_t size);

/* -- process.c --------------------------------------------------------------------------------------------- */
/* The calling process, or NULL. */
struct wefti_process *wefti_process_self(void);
/* The poll function of processes that are classes; step.c. */
weft_poll wefti_process_poll(struct weft_task *task, void *state);
/* The process has ended with `status`. */
void wefti_process_ended(struct wefti_process *process, int status);

/* -- link.c ------------------------------------------------------------------------------------------------ */
/* Tell everyone who is linked to a process, or monitors it; called once, without locks. */
void wefti_links_end(struct wefti_process *process, struct wefti_link_record *links, weft_pid pid, int reason);
/* The same for one that never began: it is only forgotten. */
void wefti_links_forget(struct wefti_processes *table, struct wefti_link_record *links, weft_pid pid);
uint64_t wefti_monitor_number(struct wefti_processes *table, uint32_t index);
int wefti_monitor_by(struct wefti_processes *table, weft_pid by, weft_pid pid, uint64_t monitor);
int wefti_link_both(struct wefti_processes *table, weft_pid a, weft_pid b);

/* -- name.c ------------------------------------------------------------------------------------------------ */
void wefti_names_end(struct wefti_process *process, weft_pid pid);
void wefti_names_fini(struct wefti_names *names);
struct wefti_handlers;
void wefti_handlers_fini(struct wefti_handlers *handlers);

#endif
