/* reader.c - reading lines and other pieces that end with a mark, through a buffer of the caller's. */
#include <errno.h>
#include <string.h>
#include <weft/io.h>

#include "fiber/slice.h"

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

ssize_t weft_read_until(weft_reader *reader, char mark, char **piece, weft_deadline until) {
    wefti_slice_use(until);
    if (!piece)
        return -EINVAL;
    for (size_t seen = 0;;) {
        char *begin = reader->buffer + reader->from;
        size_t size = reader->to - reader->from;
        char *found = size > seen ? memchr(begin + seen, mark, size - seen) : NULL;
        if (!found) {
            seen = size;
            ssize_t n = fill(reader, until);
            if (n < 0)
                return n;
            if (n > 0)
                continue;
            begin = reader->buffer + reader->from; /* it may have been moved */
        } else {
            size = (size_t)(found - begin) + 1;
        }
        *piece = begin;
        reader->from += size;
        return (ssize_t)size;
    }
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
    while (done < size) {
        ssize_t n = weft_reader_read(reader, (char *)buffer + done, size - done, until);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}
