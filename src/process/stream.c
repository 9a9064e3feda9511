/* stream.c - byte streams of a process, by number: opened, read, written and closed by commands, and closed when the process ends.
 *
 * What.   A stream is an object with references: one of its record, which lies in the list of its process as that of a helper does, and one of
 *         each helper that uses it.  The record is found by the stream's number.
 * Close.  A weft_io is closed as soon as its record goes, which ends the calls of helpers with -EBADF; the stream has entered it as a call
 *         does, so that it stays until the last reference goes, and a helper that begins later finds it closed.  A file has no such
 *         calls: it is closed with the last reference.
 * Who.    The record: under the process's lock.  References and what is under way: under the stream's, which is taken last.  `at`: the one
 *         command that is under way.
 */
#include <errno.h>
#include <string.h>
#include <weft/file.h>

#include "io/desc.h"
#include "process/helper.h"

struct stream {
    struct wefti_lock lock; /* of the next three */
    uint32_t references;
    bool reading, writing;
    weft_io *io; /* NULL: a file */
    weft_file *file;
    off_t at; /* of a file; of the one command that is under way */
};

/* -- The object ---------------------------------------------------------------------------------------------------- */

static struct stream *stream_new(void) {
    struct stream *stream = wefti_alloc(sizeof *stream);
    if (stream)
        stream->references = 1;
    return stream;
}

/* done (may be NULL): a flag of it, which is reset. */
static void unref_done(struct stream *stream, bool *done) {
    wefti_lock_take(&stream->lock);
    if (done)
        *done = false;
    bool last = --stream->references == 0;
    wefti_lock_give(&stream->lock);
    if (!last)
        return;
    if (stream->io)
        wefti_desc_leave(stream->io);
    weft_file_close(stream->file);
    wefti_free(stream, sizeof *stream);
}
static void unref(struct stream *stream) { unref_done(stream, NULL); }

/* Has nobody else a reference?  Then nobody gets one, since the record is gone. */
static bool is_last(struct stream *stream) {
    wefti_lock_take(&stream->lock);
    bool last = stream->references == 1;
    wefti_lock_give(&stream->lock);
    return last;
}

static struct stream *stream_of(const struct wefti_message *record) {
    return (struct stream *)(uintptr_t)record->from; /* a record of a stream */
}

void wefti_stream_end(struct wefti_message *record) {
    struct stream *stream = stream_of(record);
    if (stream->io)
        weft_close(stream->io);
    unref(stream);
}

/* -- Its number ----------------------------------------------------------------------------------------------------- */

static struct wefti_message *record_new(struct wefti_process *process, struct stream *stream, uint64_t number) {
    struct wefti_message *record = wefti_message_new(process->table, WEFTI_RECORD_STREAM, number, NULL, 0);
    if (record) {
        record->from = (uintptr_t)stream;
        record->record.to = WEFTI_STREAM_KEY;
    }
    return record;
}

/* The stream of that number, with a reference; NULL: none.  taken (may be NULL): its record, which the process has no longer. */
static struct stream *find(struct wefti_process *process, uint64_t number, struct wefti_message **taken) {
    wefti_lock_take(&process->lock);
    struct wefti_message *record = wefti_record_find(process, WEFTI_STREAM_KEY, number);
    struct stream *stream = record ? stream_of(record) : NULL;
    if (record && taken) {
        wefti_record_take(process, record); /* with its reference */
    } else if (record) {
        wefti_lock_take(&stream->lock);
        stream->references++;
        wefti_lock_give(&stream->lock);
    }
    wefti_lock_give(&process->lock);
    if (taken)
        *taken = record;
    return stream;
}

/* -- Opening -------------------------------------------------------------------------------------------------------- */

static int adopt(const weft_command *command, weft_io *io) {
    struct wefti_process *process = wefti_process_self();
    uint64_t number = ++wefti_rest(process)->monitors; /* unique in the process */
    struct stream *stream = stream_new();
    struct wefti_message *record = stream ? record_new(process, stream, number) : NULL;
    int error = record ? wefti_desc_enter(io) : -ENOMEM;
    if (error) {
        if (record)
            wefti_message_free(process->table, record);
        if (stream)
            wefti_free(stream, sizeof *stream);
        weft_close(io); /* its process may end before it hears of this, and would not know whose it is */
        return error;
    }
    stream->io = io;
    wefti_lock_take(&process->lock);
    struct wefti_message *left = wefti_record_put(process, record);
    wefti_lock_give(&process->lock);
    wefti_records_free(process->table, left);
    return wefti_command_done(command, 0, &number, sizeof number);
}

/* What a helper needs to open a file, made in the step. */
struct opening {
    struct stream *stream;
    struct wefti_message *record;
    struct wefti_processes *table;
};

static void opening_drop(void *held) {
    struct opening *opening = held;
    if (opening->record) { /* it was not opened, or its process has ended */
        unref(opening->stream);
        wefti_message_free(opening->table, opening->record);
    }
    wefti_free(opening, sizeof *opening);
}

static void open_file(struct wefti_job_for *job) {
    const weft_command_stream_open *asked = (const weft_command_stream_open *)(const void *)job->data;
    struct opening *opening = job->held;
    struct wefti_helper *helper = &job->helper;
    size_t length = job->size - sizeof *asked;
    char *path = wefti_large_new(length + 1); /* zeroed */
    helper->error = -ENOMEM;
    if (!path)
        return;
    memcpy(path, asked + 1, length);
    helper->error = weft_file_open(path, asked->flags, asked->mode, &opening->stream->file, asked->until);
    wefti_large_free(path);
    struct wefti_process *process = helper->error ? NULL : wefti_process_lock(helper->table, helper->pid);
    if (!process)
        return; /* not opened; or nobody wants it any more, and it is closed with its last reference */
    memcpy(helper->small, &opening->record->tag, sizeof(uint64_t));
    helper->size = sizeof(uint64_t);
    /* Before the completion is sent: should the process end first, its end closes the file. */
    struct wefti_message *left = wefti_record_put(process, opening->record);
    opening->record = NULL;
    wefti_lock_give(&process->lock);
    wefti_records_free(helper->table, left);
}

int wefti_command_stream_open(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_stream_open *asked = command->data;
    if (command->size < sizeof *asked)
        return -EINVAL;
    size_t length = command->size - sizeof *asked;
    if (asked->io)
        return length ? -EINVAL : adopt(command, asked->io);
    if (!length || memchr(asked + 1, 0, length))
        return -EINVAL;
    struct wefti_process *process = wefti_process_self();
    struct opening *opening = wefti_alloc(sizeof *opening);
    if (!opening)
        return -ENOMEM;
    opening->table = process->table;
    opening->stream = stream_new();
    if (opening->stream)
        opening->record = record_new(process, opening->stream, ++wefti_rest(process)->monitors);
    int error =
        opening->record ? wefti_helper_go_with(command, open_file, "open a stream", opening, opening_drop) : -ENOMEM;
    if (!error)
        return 0;
    if (opening->stream && !opening->record)
        unref(opening->stream);
    opening_drop(opening);
    return error;
}

/* -- Reading and writing ---------------------------------------------------------------------------------------------- */

static void read_done(void *held) { unref_done(held, &((struct stream *)held)->reading); }
static void write_done(void *held) { unref_done(held, &((struct stream *)held)->writing); }

static const weft_command_stream_io *asked_of(struct wefti_job_for *job) {
    return (const weft_command_stream_io *)(const void *)job->data;
}

static void read_some(struct wefti_job_for *job) {
    const weft_command_stream_io *asked = asked_of(job);
    struct stream *stream = job->held;
    struct wefti_helper *helper = &job->helper;
    helper->large = wefti_large_new(asked->most);
    helper->release = wefti_large_free;
    ssize_t got = !helper->large ? -ENOMEM
                  : stream->io   ? weft_read(stream->io, helper->large, asked->most, asked->until)
                                 : weft_file_read(stream->file, helper->large, asked->most, stream->at, asked->until);
    helper->error = got < 0 ? (int)got : 0;
    helper->size = got < 0 ? 0 : (uint32_t)got;
    if (!stream->io && got > 0) /* of a socket, a read and a write may be under way at once */
        stream->at += got;
}

static void write_all(struct wefti_job_for *job) {
    const weft_command_stream_io *asked = asked_of(job);
    struct stream *stream = job->held;
    size_t size = job->size - sizeof *asked;
    ssize_t put = stream->io ? weft_write(stream->io, asked + 1, size, asked->until)
                             : weft_file_write(stream->file, asked + 1, size, stream->at, asked->until);
    job->helper.error = put < 0 ? (int)put : 0;
    if (!stream->io && put > 0)
        stream->at += put;
}

/* A read or a write begins, unless another is under way. */
static int begin(const weft_command *command, bool writes) {
    const weft_command_stream_io *asked = command->data;
    struct stream *stream = find(wefti_process_self(), asked->stream, NULL);
    if (!stream)
        return -EBADF;
    bool *flag = writes ? &stream->writing : &stream->reading;
    wefti_lock_take(&stream->lock);
    bool busy = stream->io ? *flag : stream->reading || stream->writing;
    *flag |= !busy;
    wefti_lock_give(&stream->lock);
    int error = busy ? -EBUSY : 0;
    if (!error) {
        error = writes ? wefti_helper_go_with(command, write_all, "write a stream", stream, write_done)
                       : wefti_helper_go_with(command, read_some, "read a stream", stream, read_done);
        if (!error)
            return 0;
    }
    unref_done(stream, busy ? NULL : flag);
    return error;
}

int wefti_command_stream_read(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_stream_io *asked = command->data;
    bool good = command->size == sizeof *asked && asked->most && asked->most <= UINT32_MAX;
    return good ? begin(command, false) : -EINVAL;
}

int wefti_command_stream_write(const weft_command *command, void *arg) {
    (void)arg;
    return command->size >= sizeof(weft_command_stream_io) ? begin(command, true) : -EINVAL;
}

/* -- Closing ----------------------------------------------------------------------------------------------------------- */

static void drop_reference(void *held) { unref(held); }

/* Nobody else has it: the error of the close is ours to tell.  Else the last command closes it. */
static void close_file(struct wefti_job_for *job) {
    struct stream *stream = job->held;
    job->helper.error = 0;
    if (!is_last(stream))
        return;
    weft_file *file = stream->file;
    stream->file = NULL;
    job->helper.error = weft_file_close(file);
}

int wefti_command_stream_close(const weft_command *command, void *arg) {
    (void)arg;
    if (command->size != sizeof(uint64_t))
        return -EINVAL;
    struct wefti_process *process = wefti_process_self();
    struct wefti_message *record;
    struct stream *stream = find(process, *(const uint64_t *)command->data, &record);
    if (!stream)
        return -EBADF;
    wefti_message_free(process->table, record);
    if (stream->io) {
        weft_io *io = stream->io;
        if (is_last(stream)) { /* no call is under way, and the close is complete */
            wefti_desc_leave(io);
            stream->io = NULL;
        }
        int error = weft_close(io);
        unref(stream);
        return wefti_command_done(command, error, NULL, 0);
    }
    int error = wefti_helper_go_with(command, close_file, "close a stream", stream, drop_reference);
    if (error) { /* it is closed in any case, here */
        unref(stream);
        return wefti_command_done(command, 0, NULL, 0);
    }
    return 0;
}
