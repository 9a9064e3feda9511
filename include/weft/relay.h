/* weft/relay.h - relays: messages between processes of different runtimes, in one program or in several.
 *
 * A relay is a pair of functions that a program attaches to a runtime.  The runtime gives it every message for a process on the other side; what
 * comes from there the program passes to weft_relay_deliver.  How the bytes travel is the program's business: a call into another runtime of the
 * same program, a socket, a shared ring.  examples/relay.c has two: a direct call, and a Unix socket between two operating system processes.
 *
 * Addresses.  Attaching a relay gives it a node number, from 1 to 254.  A pid carries the node number of the relay that leads to its process, and
 * 0 for a process of the runtime itself.  So weft_send, weft_reply, weft_ask and weft_monitor take a pid from the other side like any other.
 * Node numbers mean something in one runtime only: the same process has different pids in two runtimes.  In a parcel each pid is
 * written as its own runtime knows it, and weft_relay_deliver turns `from` into a pid of the receiving runtime.  A pid inside a message's
 * bytes is not translated: convert it with weft_relay_pid.
 *
 * Order.  The messages that one process sends to another reach the relay in the order in which they were sent.  A relay that keeps this order, and
 * delivers with one thread or fiber, keeps the order per sender.
 *
 * Names.  A message for an unknown name goes from relay to relay until one knows it.  Relays that take names should form a tree: in a cycle, a
 * message for a name that no runtime knows is passed on 16 times and fails with -ELOOP.
 *
 * What crosses a relay: messages, replies, questions (weft_ask), monitors and their DOWN messages.  Links, cancels, exits, names
 * (weft_register, weft_whereis) and process groups do not: weft_link, weft_process_cancel, weft_process_exit, weft_register and
 * weft_group_join return -ESRCH for a pid of the other side, weft_process_is_alive returns false, and weft_unlink does nothing.
 */
#ifndef WEFT_RELAY_H
#define WEFT_RELAY_H

#include <weft/process.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_NODE_MAX 254u
#define WEFT_RELAY_HOPS_MAX 16u

typedef enum weft_parcel_type {
    WEFT_PARCEL_MESSAGE = 1,   /* of weft_send and weft_send_name */
    WEFT_PARCEL_REPLY = 2,     /* of weft_reply */
    WEFT_PARCEL_MONITOR = 3,   /* `from` wants to be told of the end of `to`, with that tag */
    WEFT_PARCEL_DEMONITOR = 4, /* ... and does not any more */
    WEFT_PARCEL_DOWN = 5,      /* `from` has ended with `error`: `to` is told, with that tag */
} weft_parcel_type;

/* What a relay carries.  All of it must arrive as it was sent. */
typedef struct weft_parcel {
    size_t size; /* sizeof(weft_parcel) */
    weft_parcel_type type;
    int error;
    uint32_t hops; /* relays that it has passed before: only a message by name passes more than one */
    uint32_t reserved;
    weft_pid to;      /* as the receiving runtime knows it; WEFT_PID_NONE: by name */
    weft_pid from;    /* as the sending runtime knows it; WEFT_PID_NONE: no process, or one behind another relay */
    const char *name; /* NULL: by pid */
    uint64_t tag;
    const void *data; /* valid during the call */
    size_t data_size;
} weft_parcel;

#define WEFT_PARCEL_INIT {sizeof(weft_parcel), WEFT_PARCEL_MESSAGE, 0, 0, 0, 0, 0, 0, 0, 0, 0}

typedef struct weft_relay {
    size_t size; /* set by WEFT_RELAY_INIT */
    /* Takes a parcel for the other side; copies what it keeps.  Called in the task or thread that sends, by several at once, also while a
     * process ends: it must not suspend or block.  A parcel is offered once.
     *
     * A relay that refuses a WEFT_PARCEL_DOWN is detached, with its error as the reason: without that parcel a process on the other side would
     * wait for ever.  `release` should then end the connection, so that the other side detaches its relay, too.  To stay attached under load, keep
     * room for those parcels, or do not bound them.  -ESRCH does not detach: the process on the other side is gone.
     *
     * Returns 0 if the parcel is accepted, which does not mean that it arrives, or a negative error, which the sender gets:
     *   -ENOBUFS       its queue is full
     *   -ESRCH         no such process or name there, if it knows
     *   -EHOSTUNREACH  it has no connection */
    int (*send)(void *state, const weft_parcel *parcel);
    /* The relay was detached, or its runtime destroyed, and no `send` and no weft_relay_deliver is under way: `state` is not used any more.  May be NULL
     * only if `state` stays valid until the runtime is destroyed.  Called once, perhaps in weft_relay_detach itself.  Must not suspend. */
    void (*release)(void *state);
    /* It is offered messages for names that the runtime does not know. */
    bool takes_names;
} weft_relay;

#define WEFT_RELAY_INIT {sizeof(weft_relay), 0, 0, false}

/* Attaches a relay to `rt` (NULL: the caller's runtime), and stores its node number.  The functions are copied.  A free node
 * number is given again as late as possible, but with few free ones that is soon: do not keep pids of a relay that was detached.
 *
 * Returns 0, or
 *   -EINVAL  no runtime, no send function, no place for the node number
 *   -E2BIG   the struct sets a field of a newer library
 *   -ENOSPC  254 relays are attached
 *   -ENOMEM  no memory
 * May be called from any thread.  Does not suspend. */
WEFT_API WEFT_MUST_USE int weft_relay_attach(weft_runtime *rt, const weft_relay *relay, void *state, unsigned *node);

/* Detaches a relay: the connection is lost, or no longer wanted.  `send` is not called again.  Every process that monitors one of the other
 * side gets its WEFT_MESSAGE_DOWN with `reason` (0: -EHOSTUNREACH), weft_ask returns -ESRCH, and sending to the other side fails with
 * -EHOSTUNREACH.  A weft_relay_deliver that another thread has begun may still deliver.
 *
 * Returns 0, or
 *   -EINVAL    no runtime, or a reason above 0
 *   -ENOTCONN  no such node
 * May be called from any thread, and from `send`.  Does not suspend. */
WEFT_API int weft_relay_detach(weft_runtime *rt, unsigned node, int reason);

/* Delivers a parcel from the other side: to the process `to`, or if that is WEFT_PID_NONE, to the one that is registered as `name`.  A name that is
 * not registered is offered to the other relays that take names, with no `from`.  node 0: from outside of any relay; then it is
 * a message without a sender.  The bytes are copied.  A parcel from a peer is trusted as far as a process of this runtime is.
 *
 * A full mailbox that blocks its senders blocks this call until there is room, or until the deadline; with WEFT_NOW it does not
 * wait.  A relay that waits passes the backpressure on to its connection, and with it to all other processes behind it.
 *
 * Returns 0, or
 *   -EINVAL     a malformed parcel, or no runtime
 *   -E2BIG      the struct sets a field of a newer library
 *   -ENOTCONN   the node is not attached; or it has been, because its `send` refused a WEFT_PARCEL_DOWN that answers this parcel, and was detached
 *   -ESRCH      no such process or name; not of a monitor, which is answered with a WEFT_PARCEL_DOWN
 *   -ENOBUFS    the mailbox is full, and refuses or must not be waited for
 *   -EMSGSIZE   larger than 4 GiB, or than the mailbox
 *   -ELOOP      it has passed WEFT_RELAY_HOPS_MAX relays
 *   -ETIMEDOUT  there was no room by the deadline
 *   -ECANCELED  the caller was cancelled while it waited
 *   -EDQUOT     with WEFT_NOW: the caller has a budget that cannot pay for the call
 *   -ENOMEM     no memory
 * May be called from any thread.  May suspend, unless the deadline is WEFT_NOW. */
WEFT_API int weft_relay_deliver(weft_runtime *rt, unsigned node, const weft_parcel *parcel, weft_deadline until);

/* Sends to the process that is registered as `name`.  If no process has that name, the relays that take names are tried in the order of their node numbers; those that
 * return -ESRCH, -EHOSTUNREACH or -ENOTCONN are passed over.
 *
 * Returns 0, or
 *   -EINVAL  no runtime, or a name that is empty or longer than 63 bytes
 *   -ESRCH   nobody has that name
 *   and as weft_send, or what the relay returned; if all were passed over, the first error of those that is not -ESRCH
 * May be called from any thread.  May suspend as weft_send. */
WEFT_API int weft_send_name(weft_runtime *rt, const char *name, uint64_t tag, const void *data, size_t size);

/* The pid of a process behind a relay: `theirs` is its pid as its own runtime knows it.  WEFT_PID_NONE if that is not a pid of that runtime
 * itself, or if the node number is not from 1 to 254. */
WEFT_API weft_pid weft_relay_pid(unsigned node, weft_pid theirs);
/* The node number of a pid; 0: a process of the runtime itself. */
WEFT_API unsigned weft_pid_node(weft_pid pid);
/* The pid as its own runtime knows it: without the node number. */
WEFT_API weft_pid weft_pid_theirs(weft_pid pid);

WEFT_EXTERN_C_END
#endif
