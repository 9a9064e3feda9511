/* reader.c - reading lines and other pieces that end with a mark, through a buffer of the caller's. */
#include <errno.h>
#include <string.h>
#include <weft/io.h>

#include "fiber/slice.h"
#include "io/desc.h"

void weft_reader_init(weft_reader *reader, weft_io *io, void *buffer, size_t room) {
    *reader = (weft_reader){io, buffer, room, 0, 0};
}

/* Read more behind what is there, which is moved to the front when that makes room.  As weft_read; -EMSGSIZE: full. */
static ssize_t fill(weft_reader *reader, weft_deadline until) {
    if (reader->from == reader->to)
        reader->from = reader->to = 0;
    if (reader->to == reader->room) {
        if (reader->from == 0)
            return -EMSGSIZE;
        reader->to -= reader->from;
        memmove(reader->buffer, reader->buffer + reader->from, reader->to);
        reader->from = 0;
    }
    ssize_t n = weft_read(reader->io, reader->buffer + reader->to, reader->room - reader->to, until);
    reader->to += n > 0 ? (size_t)n : 0;
    return n;
}

/* Up to the next mark behind the first `seen` bytes, if it is there; its length, or 0. */
static size_t find(const weft_reader *reader, char mark, size_t seen) {
    const char *begin = reader->buffer + reader->from;
    size_t size = reader->to - reader->from;
    const char *found = size > seen ? memchr(begin + seen, mark, size - seen) : NULL;
    return found ? (size_t)(found - begin) + 1 : 0;
}

/* The same, reading on; at the end of the stream all that is there. */
static ssize_t find_on(weft_reader *reader, char mark, weft_deadline until) {
    size_t size = 0;
    ssize_t n = 1;
    while (n > 0 && !size) {
        size_t seen = reader->to - reader->from;
        n = fill(reader, until);
        size = n > 0 ? find(reader, mark, seen) : 0;
    }
    return n < 0 ? n : n == 0 ? (ssize_t)(reader->to - reader->from) : (ssize_t)size;
}

/* A call that may read several times begins, and has ended: closed in between, the stream could be another connection's. */
static int enter(const weft_reader *reader) { return reader->io ? wefti_desc_enter(reader->io) : -EINVAL; }
static ssize_t leave(const weft_reader *reader, ssize_t result) {
    wefti_desc_leave(reader->io);
    return result;
}

ssize_t weft_read_until(weft_reader *reader, char mark, char **piece, weft_deadline until) {
    wefti_slice_use(until);
    if (!piece)
        return -EINVAL;
    ssize_t size = (ssize_t)find(reader, mark, 0);
    if (!size) {
        int error = enter(reader);
        size = error ? error : leave(reader, find_on(reader, mark, until));
    }
    if (size < 0)
        return size;
    *piece = reader->buffer + reader->from;
    reader->from += (size_t)size;
    return size;
}

ssize_t weft_reader_read(weft_reader *reader, void *buffer, size_t size, weft_deadline until) {
    wefti_slice_use(until);
    size_t there = reader->to - reader->from;
    if (!there)
        return weft_read(reader->io, buffer, size, until); /* no need to copy it twice */
    there = there < size ? there : size;
    memcpy(buffer, reader->buffer + reader->from, there);
    reader->from += there;
    return (ssize_t)there;
}

ssize_t weft_reader_read_exact(weft_reader *reader, void *buffer, size_t size, weft_deadline until) {
    wefti_slice_use(until);
    size_t done = 0;
    if (size <= reader->to - reader->from)
        return size ? weft_reader_read(reader, buffer, size, until) : 0;
    ssize_t n = enter(reader);
    if (n)
        return n;
    for (n = 1; n > 0 && done < size; done += n > 0 ? (size_t)n : 0)
        n = weft_reader_read(reader, (char *)buffer + done, size - done, until);
    return leave(reader, n < 0 ? n : (ssize_t)done);
}
