/* weft/process.h - actors: processes with a mailbox, an identity, links and monitors.
 *
 * A process is a task that others send messages to.  It is written in one of two ways:
 *
 * As a fiber, which waits for messages where it wants them:
 *
 *     static int echo(void *arg) {
 *         weft_message m;
 *         while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL)
 *             weft_send(NULL, m.from, m.tag, m.data, m.size);
 *         return 0;
 *     }
 *     weft_process_go(NULL, echo, NULL, &pid);
 *
 * Or as a class with init, step and close: a state machine that is called with the events that came, and has no stack.  That is what a
 * language runtime builds on, and a million of them fit into a small machine.
 *
 * Identity.  A weft_pid names a process of one runtime.  It is never used again while anybody could still hold it; sending to one
 * that has ended is an error and harms nobody.
 *
 * Order.  What one task or thread does to a process arrives in the order in which it was done, messages and system events (exit, down,
 * cancel, completed commands) alike: a child's last message before its DOWN or EXIT, a command handler's messages before the completion,
 * a sender's messages before its weft_process_cancel.  There is no promise about what different tasks and threads do.  System events do
 * not count in a bounded mailbox and are never refused for lack of room.  Not in this order are weft_process_exit, the end of a process
 * through a link, and the CANCEL of a runtime that stops, which is read before all that is in the mailbox.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <weft/base.h>
#include <weft/context.h>
#include <weft/fiber.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

typedef uint64_t weft_pid;
#define WEFT_PID_NONE WEFT_CAST(weft_pid, 0)

typedef enum weft_message_type {
    WEFT_MESSAGE = 1,       /* somebody sent it */
    WEFT_MESSAGE_YIELD = 2, /* a command has completed: tag is that of the yield */
    WEFT_MESSAGE_EXIT = 3,  /* a linked process has ended, and this one traps exits: error is its reason */
    WEFT_MESSAGE_DOWN = 4,  /* a monitored process has ended: tag is what weft_monitor gave, error its reason */
    WEFT_MESSAGE_CANCEL =
        5, /* the process is asked to end; of a runtime that stops (error -ESHUTDOWN), soon it will be ended */
} weft_message_type;

/* A message, or an event of a step.
 *
 * How long `data` is valid:
 *   of a message that weft_receive gave   until the process's next weft_receive, also if that fails, or its next weft_process_supervise
 *   of a reply that weft_ask gave         until the process's next weft_ask that has sent its question
 *   of an event of a step                 until the step returns
 *   in a filter                           until the filter returns
 * So a server may ask another process while it works on a request.  All of them end with the process.  With a size of 0, `data` means
 * nothing. */
typedef struct weft_message {
    weft_message_type type;
    int error; /* of a command that failed; the reason of an exit */
    uint64_t tag; /* the sender's, or as the type says */
    weft_pid from; /* WEFT_PID_NONE: no process */
    const void *data;
    size_t size;
} weft_message;

/* -- Sending ---------------------------------------------------------------------------------------- */

/* Copies a message into a mailbox.  rt NULL: the caller's runtime.  `data` may be NULL only with a
 * size of 0, here and below.
 *
 * If the mailbox is full and its policy is to block, a fiber or thread waits for room.  A step of a
 * class does not wait, nor does a process that sends to itself.
 *
 * Returns 0, or
 *   -EINVAL        no runtime
 *   -ESRCH         no such process, or it has ended
 *   -EHOSTUNREACH  the relay that leads to the process was detached, see <weft/relay.h>
 *   -ENOBUFS       the mailbox is full, and the call does not wait
 *   -EMSGSIZE      larger than 4 GiB, or than the mailbox
 *   -ENOMEM        no memory
 *   -ECANCELED     the fiber was cancelled while it waited
 *   or the error of the relay's `send`
 * May be called from anywhere.  May suspend, also if the mailbox has room: a fiber yields when its
 * slice is used up, so it must not hold a lock that blocks a thread. */
WEFT_API int weft_send(weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size);

/* As weft_send, but neither waits nor yields; it spends the slice.
 *
 * Returns as weft_send, and
 *   -ENOBUFS  the mailbox is full, also if its policy is to block
 *   -EDQUOT   the caller has a budget that cannot pay for it
 * May be called from anywhere.  Does not suspend. */
WEFT_API int weft_try_send(weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size);

/* Send without copying: `release(data)` is called once when the receiver is done with it, also when the message could not be delivered
 * later; on failure of this call it is not called.  NULL: nothing is called.  It runs where the message is given up, perhaps in this very call, on any
 * worker or sending thread: it must not block, nor receive or ask (-EDEADLK in a process that is just receiving).  May suspend, as weft_send. */
WEFT_API int weft_send_ref(weft_runtime *rt, weft_pid to, uint64_t tag, void *data, size_t size,
                           void (*release)(void *data));

/* Tags of questions and monitors have this bit. */
#define WEFT_TAG_RESERVED (UINT64_C(1) << 63)

/* Sends a question, and waits for the reply: a message with the same tag, which weft_reply sends.  Other messages stay in the mailbox.
 *
 * The message that weft_receive gave last stays valid; an earlier reply does not.  `data` may be that reply's.
 *
 * A late reply is discarded, as is a second one.  A reply arrives also if the caller's own mailbox is full, but not if it is larger than that
 * mailbox: then weft_reply returns -EMSGSIZE, and may be called again with less.  A question that a full mailbox drops, as its policy says,
 * is not answered: give a deadline.
 *
 * Returns 0 and fills `reply`, or
 *   -EINVAL     not in a process that is a fiber, or no `reply`
 *   -EDEADLK    `to` is the caller; or in a filter, or in a release function of a message
 *   -ESRCH      no such process, or it ended before it replied
 *   -ETIMEDOUT  no reply came before the deadline
 *   -ECANCELED  the process is to end
 *   and as weft_send
 * Call from a process that is a fiber.  May suspend. */
WEFT_API int weft_ask(weft_pid to, const void *data, size_t size, weft_message *reply, weft_deadline until);
/* Send to the sender of a message, with its tag.  In a task of the runtime.  May suspend.  As weft_send; -EINVAL: no process has sent it. */
WEFT_API int weft_reply(const weft_message *to, const void *data, size_t size);

/* -- A process that is a fiber ------------------------------------------------------------------------ */

/* What to take: true takes the message.  Must not receive or ask itself (-EDEADLK). */
typedef bool (*weft_filter_fn)(const weft_message *message, void *arg);

/* Takes the first message or system event that the filter accepts (NULL: any); the others keep
 * their places.  The message's data stays valid until the next call; a weft_ask in between does not end it.
 *
 * Returns 0, or
 *   -EINVAL     not in a process that is a fiber
 *   -EDEADLK    in a filter, or in a release function of a message that it lets go
 *   -ETIMEDOUT  no such message came before the deadline
 *   -ECANCELED  the process is to end; also if there are messages
 *   -EDQUOT     with WEFT_NOW: it has a budget that cannot pay for the call
 * May suspend; with WEFT_NOW it does not. */
WEFT_API int weft_receive(weft_message *message, weft_filter_fn filter, void *arg, weft_deadline until);

/* -- A process that is a class ------------------------------------------------------------------------ */

typedef enum weft_step_status {
    WEFT_STEP_CONTINUE = 0, /* call me again soon, with what has come */
    WEFT_STEP_IDLE = 1, /* when a message comes */
    /* When a system event has come: a command that I have yielded has completed, or another.  If no
     * command is under way, as CONTINUE. */
    WEFT_STEP_YIELD = 2,
    WEFT_STEP_DONE = 3, /* I have ended; `status` is the result */
    WEFT_STEP_UPGRADE = 4, /* go on as another class: `upgrade` */
} weft_step_status; /* any other value ends the process with -EINVAL */

typedef struct weft_process_class weft_process_class;

/* What a step says.  It is filled in with CONTINUE; set fields of it, do not write it as a whole. */
typedef struct weft_step {
    weft_step_status status;
    int result; /* with DONE: 0 or a negative error */
    /* With UPGRADE: the class that the process goes on as, with the same state, pid and mailbox.  Its state_size is at most that of the
     * class that the process was started with; otherwise the process ends with -EINVAL.  A class with a smaller state leaves the bytes
     * behind it unchanged, so that a later upgrade finds them again.  Its init is not called; at the end its close is called, and not that of
     * earlier classes.  The events of this step were for the old class; the new one gets those that follow. */
    const weft_process_class *upgrade;
    struct wefti_step *internal;
} weft_step;

/* In a step: ask for a command; its completion comes as a WEFT_MESSAGE_YIELD with that tag.  `data` is copied.
 * Returns 0; -ENOMEM; -EMSGSIZE; -EINVAL (it is not what the step was given). */
WEFT_API int weft_yield_command(weft_step *step, unsigned command, uint64_t tag, const void *data, size_t size);

#define WEFT_PROCESS_STATE_MAX 432

/* The whole struct must stay as it is while a process of this class lives. */
struct weft_process_class {
    size_t size; /* sizeof(weft_process_class); that of an earlier header will do */
    const char *name;
    const char *const *methods; /* entry points, ended by NULL; NULL: any */
    size_t state_size; /* at most WEFT_PROCESS_STATE_MAX, zeroed; larger state goes behind a pointer */
    /* Once, before the first step, in the call of weft_process_spawn: weft_self() is who calls that, and `self` is not there yet (-ESRCH).  A negative
     * error refuses the process: nothing has been started, and close is not called.  May be NULL, as close. */
    int (*init)(void *state, weft_pid self, const char *method, const void *input, size_t size);
    /* Again and again, with at most 64 of the messages and system events that came since, in order.  After WEFT_STEP_YIELD it is called when a system
     * event has come: the messages before that are in front of it, in the same step, or if they are more than 64 in steps before it.
     * Returns 0, or a negative error that ends the process. */
    int (*step)(void *state, const weft_message *events, size_t count, weft_step *out);
    /* Once, after the last step; also if there was none. */
    void (*close)(void *state);
    /* Called instead of `init` if it is not NULL.  `context` is never NULL: without one in the spec it is empty, with a deadline of
     * WEFT_NEVER.  `inputs` are the payloads of the spec: `inputs`, or the single `input`.
     *
     * The library copies the context with its parents (deadline, trace context, keys and values), the list and the bytes of each payload,
     * when weft_process_spawn is called.  The copy belongs to the process: it is not changed, and it is valid until `close` has
     * returned, so that the class may keep `context`, `inputs` and what they point to.  It has no `parent`, since what the parents say is
     * in it.  `method` is not copied: it is valid during the call.
     *
     * After the deadline has passed nothing happens by itself.  A class that is to end then asks for a WEFT_COMMAND_TIMER at
     * context->deadline, or passes the deadline on as `until` of its commands. */
    int (*init_ctx)(void *state, weft_pid self, const char *method, const weft_context *context,
                    const weft_payload *inputs, size_t count);
};

/* -- Starting ----------------------------------------------------------------------------------------- */

/* What happens to a message for a full mailbox. */
typedef enum weft_mailbox_policy {
    WEFT_MAILBOX_REFUSE = 0, /* the sender is told */
    WEFT_MAILBOX_BLOCK = 1, /* the sender waits */
    WEFT_MAILBOX_DROP_NEWEST = 2,
    WEFT_MAILBOX_DROP_OLDEST = 3,
} weft_mailbox_policy;

/* How a process is started.
 *
 * What the spec points to is used during the call only: `name` and `registered` are copied, and so are payloads and contexts for init_ctx.  Longer must
 * stay: the class, while a process of it lives; `arg`, while the function uses it; the fund, until it is destroyed. */
typedef struct weft_process_spec {
    size_t size; /* set by WEFT_PROCESS_SPEC_INIT */
    weft_fiber_fn fn; /* a fiber ... */
    void *arg;
    const weft_process_class *class_; /* ... or a class, ... */
    const char *method; /* ... its entry point, ... */
    const void *input; /* ... and what it gets */
    size_t input_size;
    const char *name; /* for dumps; copied, 47 bytes at most; NULL: the class's, which is not copied */
    const char *registered; /* a name under which weft_whereis finds it; copied, as in weft_register; NULL: none */
    uint32_t max_messages; /* of the mailbox; 0: no bound */
    uint64_t max_bytes; /* of the messages in it, an empty one counting as one byte; 0: no bound */
    weft_mailbox_policy policy;
    bool trap_exit; /* exits of linked processes come as messages; a request to end does not interrupt its waits */
    bool wake_blocked_on_message; /* a class that waits for a command is also called when a message comes */
    size_t stack_size;
    /* Of a fiber, as weft_fiber_spec: what its budget comes out of (NULL: its spawner's, which has that of the nursery it is in), how much, and the
     * right to spawn.  A class is not metered: a fund or a budget is -EINVAL, its spawner pays for the spawn, and its right to spawn is as in weft_spec. */
    weft_fund *fund;
    const weft_budget *budget;
    const weft_cap *cap;
    /* Of a class; with a fiber -EINVAL.  NULL: no context.  What they point to is used during the call only. */
    const weft_context *context;
    /* A list instead of `input`.  A class that has no init_ctx takes one payload at most. */
    const weft_payload *inputs;
    size_t input_count;
    /* Of a fiber; with a class -EINVAL.  As in weft_fiber_spec: called once with `arg` when the process has ended, also if it was ended before its
     * function was entered; before its end is told to others.  Not called if the spawn fails.  NULL: nothing is called. */
    void (*release)(void *arg);
    /* Of a supervised process, see <weft/supervisor.h>: how long it may take to end when it is stopped, in ns; 0: the supervisor's `grace`;
     * WEFT_SHUTDOWN_INFINITE; WEFT_SHUTDOWN_KILL. */
    int64_t shutdown;
} weft_process_spec;

#define WEFT_SHUTDOWN_INFINITE WEFT_CAST(int64_t, -1) /* as long as it wants */
#define WEFT_SHUTDOWN_KILL INT64_MIN /* it is not asked, but ended by force at once */

#define WEFT_PROCESS_SPEC_INIT                                                                                         \
    {sizeof(weft_process_spec),                                                                                        \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     WEFT_MAILBOX_REFUSE,                                                                                              \
     false,                                                                                                            \
     false,                                                                                                            \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0}

/* Starts a process.  `handle` may be NULL; with it the process can be joined as a task.
 *
 * Returns 0, what init or init_ctx returned, or
 *   -EINVAL     no function or two, a method that the class does not have, a malformed context or payload, an `input` and a list
 *   -ETIMEDOUT  the deadline of the context has passed: init was not called
 *   -EMSGSIZE   the context and the payloads are larger than 4 GiB
 *   -EEXIST     the name is taken
 *   -EDQUOT     weft_config.max_processes processes are alive; also as weft_fiber_spawn
 *   -EPERM      the profile is `core` or `service`, which have no processes; also as weft_fiber_spawn
 *   -ENOMEM, -EAGAIN, -ESHUTDOWN, -E2BIG, -ECANCELED  as weft_spawn and weft_fiber_spawn
 * May be called from any thread. */
WEFT_API WEFT_MUST_USE int weft_process_spawn(weft_runtime *rt, const weft_process_spec *spec, weft_pid *pid,
                                              weft_task **handle);
WEFT_API WEFT_MUST_USE int weft_process_go(weft_runtime *rt, weft_fiber_fn fn, void *arg, weft_pid *pid);
/* The same, and linked to, or monitored by, the calling process from the first moment. */
WEFT_API WEFT_MUST_USE int weft_process_spawn_linked(const weft_process_spec *spec, weft_pid *pid);
WEFT_API WEFT_MUST_USE int weft_process_spawn_monitored(const weft_process_spec *spec, weft_pid *pid,
                                                        uint64_t *monitor);

/* The calling process, or WEFT_PID_NONE. */
WEFT_API weft_pid weft_self(void);
WEFT_API bool weft_process_is_alive(weft_runtime *rt, weft_pid pid);
/* How many are alive. */
WEFT_API uint64_t weft_process_count(weft_runtime *rt);

/* -- Ending ------------------------------------------------------------------------------------------- */

/* Asks a process to end: it gets a WEFT_MESSAGE_CANCEL, behind all that the caller has sent it before.
 *
 * Requests between which nothing else has come are one, `from` the first caller: a process that does not read them is not sent any number of them.
 *
 * Returns 0, or
 *   -EINVAL  no runtime
 *   -ESRCH   no such process, or it has ended
 *   -ENOMEM  no memory for the message
 * May be called from any thread. Does not suspend. */
WEFT_API int weft_process_cancel(weft_runtime *rt, weft_pid pid);
/* End it, also if it traps exits: it runs no further (a fiber sees -ECANCELED where it waits, under a shield when that is gone), and its reason is
 * `reason`, a negative error; of several the first.  Who joins a fiber's task gets what its function returned.  It may be the caller.  0; -ESRCH; -EINVAL (no negative error; no runtime). */
WEFT_API int weft_process_exit(weft_runtime *rt, weft_pid pid, int reason);

/* When one of two linked processes ends with an error, the other ends with that error too, or gets a WEFT_MESSAGE_EXIT if it traps exits.
 * An end without error is told to those who trap, and ignored by the others.  By the calling process.
 * Returns 0; -EINVAL (not in a process); -ESRCH: then, if it traps exits, the message comes as well; -ENOMEM. */
WEFT_API int weft_link(weft_pid pid);
/* Removes the link between the caller and another process.  After it has returned 0 the other's end does nothing to the caller; a
 * WEFT_MESSAGE_EXIT of it may have come before.
 *
 * Returns 0, also if there was no link or `pid` is of another node (<weft/relay.h>), or
 *   -EINVAL     not in a process
 *   -ECANCELED  no process of this runtime has that pid any more, and the caller is about to end, for that reason or for another
 * Does not suspend. */
WEFT_API int weft_unlink(weft_pid pid);
WEFT_API int weft_trap_exit(bool trap);

/* Monitors a process: when it ends, the caller gets a WEFT_MESSAGE_DOWN with the number that is stored in `monitor`, and with its reason in
 * `error`.  If there is no such process, or it has ended, the message comes at once, with -ESRCH.  For a process behind a relay
 * (<weft/relay.h>) it also comes when the relay is detached, with the reason of that, and at once if the relay refuses the monitor, with the
 * relay's error, or was detached before, with -EHOSTUNREACH.
 *
 * Returns 0, or
 *   -EINVAL  not in a process, or no `monitor`
 *   -ENOMEM  no memory, here or in the relay: no message will come
 * Does not suspend. */
WEFT_API int weft_monitor(weft_pid pid, uint64_t *monitor);
/* Returns 0: the message will not come; -ESRCH: it has come, or is on its way; -EINVAL (not in a process, or no number of a monitor). */
WEFT_API int weft_demonitor(uint64_t monitor);

/* One that did not stop by itself. */
typedef struct weft_process_left {
    weft_pid pid;
    char name[48];
} weft_process_left;

/* Stops all processes, before the runtime is stopped.
 *
 * Each process is asked to end (WEFT_MESSAGE_CANCEL, error -ESHUTDOWN), as are those that tasks of the runtime start from now on; from outside no
 * process can be started any more (-ESHUTDOWN).  All waits of a fiber but weft_receive fail with -ECANCELED until it has read the message, unless
 * it traps exits or is shielded.  A process that has not ended by `until` (WEFT_NOW: in 10 s) is ended by force, which a
 * fiber's shields do not put off, and is reported: the first `room` of them in `left`.
 *
 * Returns after all processes have ended and their release functions have returned; a process that does not end is named by weft_dump.  It is not
 * refused because the global queue is at its capacity.  After an error it may be called again.
 *
 * Returns how many had to be ended by force, or
 *   -EINVAL     no runtime, or `room` without `left`
 *   -EDEADLK    the caller is a worker, or a job of the runtime's blocking pool
 *   -EBUSY      it has been called before, or another thread is in it
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  the runtime is stopping
 *   -ECANCELED  the runtime was stopped meanwhile
 * Call from a plain thread, which sleeps. */
WEFT_API int weft_process_stop_all(weft_runtime *rt, weft_deadline until, weft_process_left *left, size_t room);

/* -- Names and groups --------------------------------------------------------------------------------- */

/* Gives a process of this runtime a name, until it ends or weft_unregister is called.  A process may have several names.  When its end is told,
 * and when weft_process_is_alive returns false, the name is free.  The string is copied.
 *
 * weft_whereis returns the process that has the name, or WEFT_PID_NONE.  The others return 0, or
 *   -EINVAL  no runtime, or a name that is empty or longer than 63 bytes
 *   -EEXIST  weft_register: another process has the name, or this one
 *   -ESRCH   no such process; weft_unregister: no process has the name
 *   -ENOMEM  no memory
 * May be called from any thread.  Do not suspend. */
WEFT_API int weft_register(weft_runtime *rt, const char *name, weft_pid pid);
WEFT_API int weft_unregister(weft_runtime *rt, const char *name);
WEFT_API weft_pid weft_whereis(weft_runtime *rt, const char *name);

/* Groups of processes by name, copied as above.  A process that ends leaves its groups.
 *
 * Returns 0, or
 *   -EINVAL  no runtime, or a name that is empty or longer than 63 bytes
 *   -EEXIST  weft_group_join: it is a member
 *   -ESRCH   no such process; weft_group_leave: it is no member
 *   -ENOMEM  no memory
 * May be called from any thread.  Do not suspend. */
WEFT_API int weft_group_join(weft_runtime *rt, const char *group, weft_pid pid);
WEFT_API int weft_group_leave(weft_runtime *rt, const char *group, weft_pid pid);

/* Sends to all members of a group, without waiting for room in their mailboxes.
 *
 * Returns to how many members the message was sent, or
 *   -EINVAL  no runtime, or a name that is empty or longer than 63 bytes
 *   -ENOMEM  no memory
 * May be called from any thread.  May suspend: when the slice is used up, or the caller's budget cannot pay. */
WEFT_API int weft_publish(weft_runtime *rt, const char *group, uint64_t tag, const void *data, size_t size);

WEFT_EXTERN_C_END
#endif
