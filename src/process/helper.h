/* helper.h - a task that does something for a process: it completes a command, and ends with the process.  Internal.
 *
 * What.   A record of the helper lies in the process's list of links, under its lock, and becomes the completion: so completing never lacks
 *         memory.  When the process ends, it cancels the helpers that it finds there.
 * Race.   helper: H1 it has ended: under the process's lock take     process: E1 alive = false, the list taken (link.c)
 *                    the record out, if it is alive                           E2 for each record: cancel the task, give the
 *                 H2 the record is pushed as completion                          handle back
 * Claim.  A command completes once, or its process ends; the handle is given back once.
 * Why.    H1 and E1 hold one lock: the record is H2's or E2's.  E2 has the handle, so the task is still there.
 */
#ifndef WEFTI_PROCESS_HELPER_H
#define WEFTI_PROCESS_HELPER_H

#include <weft/command.h>

#include "process/process.h"

struct wefti_helper {
    struct wefti_processes *table;
    weft_pid pid; /* of the process */
    uint64_t tag; /* of the command */
    struct weft_task *task;
    struct wefti_message *record;
    /* The completion. */
    int error; /* -ECANCELED unless it says otherwise */
    uint32_t size;
    unsigned char small[WEFTI_MESSAGE_INLINE]; /* data, if `large` is NULL */
    void *large; /* ... from wefti_large_new, or whatever `release` gives back */
    void (*release)(void *data);
};

/* The task can be cancelled from now on, and has a handle: its record goes into the list of the process that runs.  0; -ENOMEM. */
int wefti_helper_attach(struct wefti_helper *helper, const weft_command *command, struct weft_task *task);
/* The task is made, not yet born: it is attached, and begins.  0; -ENOMEM: the task is gone. */
int wefti_helper_begin(struct wefti_helper *helper, const weft_command *command, struct wefti_room *room);
/* H1, H2: at its very end. */
void wefti_helper_end(struct wefti_helper *helper);
/* E2. */
void wefti_helper_cancel(struct wefti_message *record);
/* Cancel the one with that tag.  False: there is none. */
bool wefti_helper_cancel_tag(struct wefti_process *process, uint64_t tag);

/* A fiber that runs fn(job), with a copy of `size` bytes of the command's data in job->data. */
struct wefti_job_for {
    struct wefti_owner owner; /* of the fiber: told of its end */
    struct wefti_helper helper;
    void (*fn)(struct wefti_job_for *job);
    void *held; /* what it uses, ... */
    void (*let_go)(void *held); /* ... and what is called before it completes, also if it never began; may be NULL */
    size_t bytes, size;
    _Alignas(16) unsigned char data[];
};
int wefti_helper_go(const weft_command *command, void (*fn)(struct wefti_job_for *job), const char *name);
/* The same with `held`.  On failure it is still the caller's. */
int wefti_helper_go_with(const weft_command *command, void (*fn)(struct wefti_job_for *job), const char *name,
                         void *held, void (*let_go)(void *held));

/* A connection that is told to nobody is closed: the release function of a completion that carries one, until it is seen. */
void wefti_socket_unseen(void *data);

/* -- command.c ----------------------------------------------------------------------------------------------- */
/* What a handler is given, as the library's own know it. */
struct wefti_request {
    weft_command command;
    struct wefti_processes *table;
    struct wefti_message *message; /* NULL: it has become the completion */
};
/* One of the library's own is done; data: at most WEFTI_MESSAGE_INLINE bytes, and none of the command's.  Its memory is there: what has been done is
 * not told as a failure.  Returns what the handler returns. */
int wefti_command_done(const weft_command *command, int error, const void *data, size_t size);

/* -- builtin.c ----------------------------------------------------------------------------------------------- */
#define WEFTI_COMMAND_FIRST 192u
#define WEFTI_COMMAND_END 256u
/* The handler of one of the library's own, or NULL. */
weft_command_fn wefti_builtin(unsigned command);
/* timer.c, outside.c */
int wefti_command_timer(const weft_command *command, void *arg);
int wefti_command_send(const weft_command *command, void *arg);
int wefti_command_chan_send(const weft_command *command, void *arg);
int wefti_command_chan_recv(const weft_command *command, void *arg);
int wefti_command_blocking(const weft_command *command, void *arg);
int wefti_command_connect(const weft_command *command, void *arg);
int wefti_command_accept(const weft_command *command, void *arg);
int wefti_command_read(const weft_command *command, void *arg);
int wefti_command_write(const weft_command *command, void *arg);
/* stream.c */
int wefti_command_stream_open(const weft_command *command, void *arg);
int wefti_command_stream_read(const weft_command *command, void *arg);
int wefti_command_stream_write(const weft_command *command, void *arg);
int wefti_command_stream_close(const weft_command *command, void *arg);
/* The record of a stream whose process has ended, or that it closes: the stream is closed, the record is still the caller's. */
void wefti_stream_end(struct wefti_message *record);
/* ask.c */
int wefti_command_ask(const weft_command *command, void *arg);
/* http/command.c: above this layer, and named only in the table of commands. */
int wefti_command_http(const weft_command *command, void *arg);

#endif
