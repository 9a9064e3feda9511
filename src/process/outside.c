/* outside.c - the library's own commands that may wait: a message for a full mailbox, channels, blocking calls, sockets.  Each that has to
 * wait does so in a fiber (helper.h). */
#include "process/helper.h"

/* The payload of the job, as its command defines it. */
#define ASKED(type, job) ((const type *)(const void *)(job)->data)

/* -- Messages -------------------------------------------------------------------------------------------------- */

static int deliver(struct wefti_processes *table, const weft_command_send *asked, size_t size, weft_pid from,
                   int64_t until) {
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE, asked->tag, asked + 1, size - sizeof *asked);
    if (!message)
        return -ENOMEM;
    message->from = from;
    int error = wefti_message_send(table, wefti_worker_here(), asked->to, message, until);
    if (error)
        wefti_message_free(table, message);
    return error;
}

static void send_later(struct wefti_job_for *job) {
    const weft_command_send *asked = ASKED(weft_command_send, job);
    job->helper.error = deliver(job->helper.table, asked, job->size, job->helper.pid, asked->until);
}

int wefti_command_send(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_send *asked = command->data;
    if (command->size < sizeof *asked)
        return -EINVAL;
    int error = deliver(wefti_process_self()->table, asked, command->size, command->from, WEFT_NOW);
    if (error == -ENOBUFS && asked->until != WEFT_NOW) /* full: if its policy is to wait, there */
        return wefti_helper_go(command, send_later, "a message");
    return wefti_command_done(command, error, NULL, 0);
}

/* -- Channels -------------------------------------------------------------------------------------------------- */

static void chan_send_later(struct wefti_job_for *job) {
    const weft_command_chan *asked = ASKED(weft_command_chan, job);
    job->helper.error = weft_chan_send(asked->chan, asked + 1, asked->until);
}

int wefti_command_chan_send(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_chan *asked = command->data;
    if (command->size < sizeof *asked || command->size != sizeof *asked + asked->size)
        return -EINVAL;
    int error = weft_chan_send(asked->chan, asked + 1, WEFT_NOW);
    if (error == -ETIMEDOUT && asked->until != WEFT_NOW)
        return wefti_helper_go(command, chan_send_later, "a channel");
    return wefti_command_done(command, error, NULL, 0);
}

/* Behind the payload there is room for the value. */
static void chan_recv_later(struct wefti_job_for *job) {
    const weft_command_chan *asked = ASKED(weft_command_chan, job);
    bool large = asked->size > sizeof job->helper.small;
    job->helper.error = weft_chan_recv(asked->chan, large ? job->helper.large : job->helper.small, asked->until);
    job->helper.size = job->helper.error ? 0 : (uint32_t)asked->size;
}

static void chan_recv_large(struct wefti_job_for *job) {
    const weft_command_chan *asked = ASKED(weft_command_chan, job);
    job->helper.large = wefti_large_new(asked->size);
    job->helper.release = wefti_large_free;
    job->helper.error = -ENOMEM;
    if (job->helper.large)
        chan_recv_later(job);
}

int wefti_command_chan_recv(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_chan *asked = command->data;
    if (command->size != sizeof *asked || asked->size > WEFT_CHAN_VALUE_MAX)
        return -EINVAL;
    bool large = asked->size > WEFTI_MESSAGE_INLINE;
    unsigned char value[WEFTI_MESSAGE_INLINE];
    int error = large ? -ETIMEDOUT : weft_chan_recv(asked->chan, value, WEFT_NOW);
    if (error == -ETIMEDOUT && (large || asked->until != WEFT_NOW))
        return wefti_helper_go(command, large ? chan_recv_large : chan_recv_later, "a channel");
    return wefti_command_done(command, error, value, asked->size);
}

/* -- Blocking calls --------------------------------------------------------------------------------------------- */

static void block(struct wefti_job_for *job) {
    const weft_command_blocking *asked = ASKED(weft_command_blocking, job);
    int result = 0;
    job->helper.error = weft_blocking(asked->fn, asked->arg, &result, asked->until);
    job->helper.size = job->helper.error ? 0 : sizeof result;
    memcpy(job->helper.small, &result, sizeof result);
}

int wefti_command_blocking(const weft_command *command, void *arg) {
    (void)arg;
    return command->size == sizeof(weft_command_blocking) ? wefti_helper_go(command, block, "a blocking call")
                                                          : -EINVAL;
}

/* -- Sockets ------------------------------------------------------------------------------------------------------ */

void wefti_socket_unseen(void *data) {
    weft_close(((weft_command_socket *)data)->io);
    wefti_large_free(data);
}

/* Who connects: a place for the answer, first. */
static weft_command_socket *socket_new(struct wefti_job_for *job) {
    weft_command_socket *socket = wefti_large_new(sizeof *socket);
    job->helper.error = -ENOMEM;
    if (socket)
        memset(socket, 0, sizeof *socket);
    return socket;
}

static void socket_done(struct wefti_job_for *job, weft_command_socket *socket, int error) {
    job->helper.error = error;
    if (error) {
        wefti_large_free(socket);
        return;
    }
    job->helper.large = socket;
    job->helper.size = sizeof *socket;
    job->helper.release = wefti_socket_unseen;
}

static void connect_to(struct wefti_job_for *job) {
    const weft_command_connect *asked = ASKED(weft_command_connect, job);
    weft_command_socket *socket = socket_new(job);
    if (!socket)
        return;
    socket->peer = asked->addr;
    socket_done(job, socket, weft_connect(&asked->addr, &socket->io, asked->until));
}

static void accept_one(struct wefti_job_for *job) {
    const weft_command_socket_io *asked = ASKED(weft_command_socket_io, job);
    weft_command_socket *socket = socket_new(job);
    if (socket)
        socket_done(job, socket, weft_accept(asked->io, &socket->io, &socket->peer, asked->until));
}

static void read_some(struct wefti_job_for *job) {
    const weft_command_socket_io *asked = ASKED(weft_command_socket_io, job);
    job->helper.large = wefti_large_new(asked->most);
    job->helper.release = wefti_large_free;
    ssize_t got = job->helper.large ? weft_read(asked->io, job->helper.large, asked->most, asked->until) : -ENOMEM;
    job->helper.error = got < 0 ? (int)got : 0;
    job->helper.size = got < 0 ? 0 : (uint32_t)got;
}

static void write_all(struct wefti_job_for *job) {
    const weft_command_socket_io *asked = ASKED(weft_command_socket_io, job);
    ssize_t put = weft_write(asked->io, asked + 1, job->size - sizeof *asked, asked->until);
    job->helper.error = put < 0 ? (int)put : 0;
}

int wefti_command_connect(const weft_command *command, void *arg) {
    (void)arg;
    return command->size == sizeof(weft_command_connect) ? wefti_helper_go(command, connect_to, "connect") : -EINVAL;
}

/* They begin alike: a socket. */
static bool is_socket(const weft_command *command, bool more) {
    const weft_command_socket_io *asked = command->data;
    return (more ? command->size >= sizeof *asked : command->size == sizeof *asked) && asked->io;
}

int wefti_command_accept(const weft_command *command, void *arg) {
    (void)arg;
    return is_socket(command, false) ? wefti_helper_go(command, accept_one, "accept") : -EINVAL;
}

int wefti_command_read(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_socket_io *asked = command->data;
    bool good = is_socket(command, false) && asked->most && asked->most <= UINT32_MAX;
    return good ? wefti_helper_go(command, read_some, "read") : -EINVAL;
}

int wefti_command_write(const weft_command *command, void *arg) {
    (void)arg;
    return is_socket(command, true) ? wefti_helper_go(command, write_all, "write") : -EINVAL;
}
