/* weft/command.h - commands: what processes that are classes ask of the outside, and who does it.
 *
 * A step asks with weft_yield_command; the handler of that number is called at once, on the same worker, and must not block.  It
 * completes the command there and then, later, or from any other thread; the process gets a WEFT_MESSAGE_YIELD with the tag.
 *
 *     weft_command_timer timer = {weft_after(1000000000)};
 *     weft_yield_command(out, WEFT_COMMAND_TIMER, 7, &timer, sizeof timer);
 *     out->status = WEFT_STEP_YIELD;              // called again in a second, with tag 7
 *
 * Numbers below 192, and those from 256 on, are the program's; the others are the library's own commands, at the end of this file.
 */
#ifndef WEFT_COMMAND_H
#define WEFT_COMMAND_H

#include <weft/blocking.h>
#include <weft/chan.h>
#include <weft/net.h>
#include <weft/process.h>

WEFT_EXTERN_C_BEGIN

/* What is asked.  `data` is valid during the handler's call. */
typedef struct weft_command {
    weft_runtime *rt;
    weft_pid from;
    unsigned command;
    uint64_t tag;
    const void *data;
    size_t size;
} weft_command;

/* Returns 0: weft_command_complete has been or will be called, once; a negative error completes it with that error. */
typedef int (*weft_command_fn)(const weft_command *command, void *arg);

/* Before the runtime's first process.  rt NULL: the caller's.  Returns 0; -EEXIST (also for the library's own); -EBUSY (there have been processes); -EINVAL; -ENOMEM. */
WEFT_API int weft_command_register(weft_runtime *rt, unsigned command, weft_command_fn fn, void *arg);

/* Complete a command, from anywhere, once.  `data` is copied.  Returns 0; -ESRCH: the process has ended, and nothing happens; -EMSGSIZE;
 * -ENOMEM: it is not completed, try again; -EINVAL (no runtime). */
WEFT_API int weft_command_complete(weft_runtime *rt, weft_pid pid, uint64_t tag, int error, const void *data,
                                   size_t size);

/* -- The library's own -------------------------------------------------------------------------------- */

/* A command whose payload has the wrong size completes with -EINVAL.  What waits has a deadline, `until`: it completes with -ETIMEDOUT then.
 * When the process ends, what it waits for is cancelled; the completion is told to nobody, and a connection that comes with it is closed.
 * Several that wait (for the same channel, or times that have passed) complete in any order. */
enum {
    /* Nothing; the completion's data: an int64_t, as weft_now. */
    WEFT_COMMAND_CLOCK = 192,
    /* weft_command_timer; completes at that time. */
    WEFT_COMMAND_TIMER = 193,
    /* A uint64_t, the tag of a command of this process that waits: that completes with -ECANCELED (unless it was about to complete), and this
     * one with 0; -ESRCH: nothing with that tag waits.  A blocking call that has begun goes on, and completes when it ends. */
    WEFT_COMMAND_CANCEL = 194,
    /* weft_command_spawn; data: weft_command_spawned.  Errors as weft_process_spawn. */
    WEFT_COMMAND_SPAWN = 195,
    /* weft_command_send, and behind it the message's bytes; completes when it is in the mailbox.  Unlike weft_send in a step it waits for room, if
     * that is the mailbox's policy.  While one waits, another that is sent to the same process may overtake it. */
    WEFT_COMMAND_SEND = 196,
    /* A weft_pid; as weft_link and weft_unlink. */
    WEFT_COMMAND_LINK = 197,
    WEFT_COMMAND_UNLINK = 198,
    /* A weft_pid; data: the monitor's number, a uint64_t.  The other: that number. */
    WEFT_COMMAND_MONITOR = 199,
    WEFT_COMMAND_DEMONITOR = 200,
    /* weft_command_chan, and behind it the value; as weft_chan_send. */
    WEFT_COMMAND_CHAN_SEND = 201,
    /* weft_command_chan; data: the value; as weft_chan_recv. */
    WEFT_COMMAND_CHAN_RECV = 202,
    /* weft_command_blocking; data: an int, what the function returned; as weft_blocking. */
    WEFT_COMMAND_BLOCKING = 203,
    /* weft_command_connect; data: weft_command_socket. */
    WEFT_COMMAND_CONNECT = 204,
    /* weft_command_socket_io of a listening socket; data: weft_command_socket. */
    WEFT_COMMAND_ACCEPT = 205,
    /* weft_command_socket_io; data: what was read, nothing at the end of the stream. */
    WEFT_COMMAND_READ = 206,
    /* weft_command_socket_io, and behind it the bytes, all of which are written. */
    WEFT_COMMAND_WRITE = 207,
};

typedef struct weft_command_timer {
    weft_deadline at;
} weft_command_timer;

/* What the spec points to must stay valid until the completion. */
typedef struct weft_command_spawn {
    weft_process_spec spec;
    bool linked, monitored; /* by the process that asks; not both */
} weft_command_spawn;

typedef struct weft_command_spawned {
    weft_pid pid;
    uint64_t monitor; /* if `monitored` */
} weft_command_spawned;

typedef struct weft_command_send {
    weft_pid to;
    uint64_t tag;
    weft_deadline until;
} weft_command_send;

/* The channel must be there until the completion. */
typedef struct weft_command_chan {
    weft_chan *chan;
    size_t size; /* of a value */
    weft_deadline until;
} weft_command_chan;

typedef struct weft_command_blocking {
    weft_blocking_fn fn;
    void *arg; /* valid until the completion; if the process has ended, until fn has */
    weft_deadline until;
} weft_command_blocking;

typedef struct weft_command_connect {
    weft_addr addr;
    weft_deadline until;
} weft_command_connect;

/* Close with weft_close when there is no command on it. */
typedef struct weft_command_socket {
    weft_io *io;
    weft_addr peer;
} weft_command_socket;

typedef struct weft_command_socket_io {
    weft_io *io;
    size_t most; /* bytes to read, of READ only */
    weft_deadline until;
} weft_command_socket_io;

WEFT_EXTERN_C_END
#endif
