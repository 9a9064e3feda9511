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
#include <weft/http.h>
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
    /* Byte streams: files, sockets, pipes, whatever is a weft_io.  A stream belongs to its process, which names it by a number; when the
     * process ends, its streams are closed.  Of a socket or the like one read and one write may be under way, of a file one of both:
     * another completes with -EBUSY.  A number that is not open completes with -EBADF.
     *
     * weft_command_stream_open, and of a file its path behind it; data: the stream's number, a uint64_t. */
    WEFT_COMMAND_STREAM_OPEN = 208,
    /* weft_command_stream_io; data: at most `most` bytes, nothing at the end of the stream. */
    WEFT_COMMAND_STREAM_READ = 209,
    /* weft_command_stream_io, and behind it the bytes, all of which are written. */
    WEFT_COMMAND_STREAM_WRITE = 210,
    /* The stream's number, a uint64_t; as weft_close and weft_file_close.  Of a socket, what is under way completes with -EBADF; of a file it goes
     * on, and then the file is closed. */
    WEFT_COMMAND_STREAM_CLOSE = 211,
    /* An HTTP request.  weft_command_http, and behind it the method, the URL and the fields ("Name: value\r\n...", perhaps none), each ended
     * by a zero byte, and then the body; data: weft_command_http_answer, and behind it the answer's fields and its body.  As
     * weft_http_fetch, which follows redirects; -EMSGSIZE: a body of more than max_body. */
    WEFT_COMMAND_HTTP = 212,
    /* The group's name, 1 to 63 bytes; as weft_group_join and weft_group_leave of the process that asks. */
    WEFT_COMMAND_GROUP_JOIN = 213,
    WEFT_COMMAND_GROUP_LEAVE = 214,
    /* weft_command_publish, and behind it the message's bytes; data: an int, to how many processes it was sent; as weft_publish. */
    WEFT_COMMAND_PUBLISH = 215,
    /* weft_command_ask, and behind it the question's bytes; data: those of the reply; as weft_ask.  The question's `from` is a process of the
     * library's own, which ends with the reply: answer it with weft_reply. */
    WEFT_COMMAND_ASK = 216,
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

typedef struct weft_command_stream_open {
    /* A socket, pipe or other stream; NULL: a file.  It is the library's as soon as the step has returned, unless that has ended the
     * process or the command is malformed (-EINVAL): on any other error it is closed. */
    weft_io *io;
    int flags; /* of a file, as open(2) */
    unsigned mode; /* ... of one that is created */
    weft_deadline until; /* ... for opening it */
} weft_command_stream_open;

typedef struct weft_command_stream_io {
    uint64_t stream; /* its number */
    size_t most; /* bytes to read, of STREAM_READ only: at least 1, at most UINT32_MAX */
    weft_deadline until;
} weft_command_stream_io;

typedef struct weft_command_http {
    /* Connections to use again; NULL: none.  It stays open until the completion; if the process has ended, until the runtime has stopped. */
    weft_http_pool *pool;
    size_t max_body; /* bytes of the answer's body; 0 = 1 MiB, at most 2 GiB */
    weft_deadline until; /* for all of it */
} weft_command_http;

typedef struct weft_command_http_answer {
    int status;
    uint32_t fields_size; /* of the fields, "Name: value\r\n...", right behind this struct */
    size_t body_size; /* of the body, behind them */
} weft_command_http_answer;

typedef struct weft_command_publish {
    char group[64]; /* ended by a zero */
    uint64_t tag;
} weft_command_publish;

typedef struct weft_command_ask {
    weft_pid to;
    weft_deadline until;
} weft_command_ask;

WEFT_EXTERN_C_END
#endif
