/* sendfile.c - files to streams, without reading a disk on a worker.
 *
 * What.   sendfile(2) and pread(2) of a file that is not in the page cache wait for the disk, and with them everything else on the worker. So
 *         a fiber first asks whether the next piece is cached, and if not has a thread of the blocking pool read it.
 * Not covered.  The kernel may evict a piece between the two calls; then the worker reads it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <weft/blocking.h>
#include <weft/stream.h>

#include "budget/cap.h"
#include "fiber/slice.h"
#include "io/mem.h"
#include "io/writer.h"

#define PIECE ((size_t)256 << 10) /* bytes that are looked up, and read, at once */
#define LAYER_PIECE 16384u        /* bytes per record of a layer */

struct file {
    int fd;
    off_t *offset; /* NULL: the file's own position */
    size_t size;
};

static ssize_t or_error(ssize_t result) { return result < 0 ? -errno : result; }

static off_t position(const struct file *file) { return file->offset ? *file->offset : lseek(file->fd, 0, SEEK_CUR); }

/* -- Into the page cache ------------------------------------------------------------------------------------ */

struct range {
    int fd;
    off_t at;
    size_t size;
};

/* On a thread of the pool. A failure is met again, and reported, by the call that sends. */
static int read_range(void *arg) {
    struct range *range = arg;
    char bytes[16384];
    while (range->size) {
        ssize_t n = pread(range->fd, bytes, range->size < sizeof bytes ? range->size : sizeof bytes, range->at);
        if (n <= 0)
            break;
        range->at += n;
        range->size -= (size_t)n;
    }
    return 0;
}

/* Sees that the next file->size bytes can be read without waiting for a disk. Elsewhere than in a fiber nobody else waits for the thread.
 * Returns 0, or -ETIMEDOUT or -ECANCELED. Without a thread for it, the caller reads the disk itself. */
static int make_cached(const struct file *file, weft_deadline until) {
    struct stat about;
    struct range range = {file->fd, 0, file->size};
    if (!weft_in_fiber() || fstat(file->fd, &about) || !S_ISREG(about.st_mode))
        return 0;
    range.at = position(file);
    if (range.at < 0 || range.at >= about.st_size)
        return 0;
    if ((uint64_t)(about.st_size - range.at) < range.size)
        range.size = (size_t)(about.st_size - range.at);
    if (wefti_file_is_cached(range.fd, range.at, range.size))
        return 0;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.cap = &wefti_cap_library;
    spec.fn = read_range;
    spec.arg = &range;
    spec.name = "read a file to send";
    int error = weft_blocking_call(&spec, NULL, until);
    return error == -ETIMEDOUT || error == -ECANCELED ? error : 0;
}

/* -- To a descriptor ------------------------------------------------------------------------------------------ */

static ssize_t send_to_memory(struct wefti_mem *mem, struct file *file) {
    char bytes[4096];
    size_t size = file->size < sizeof bytes ? file->size : sizeof bytes;
    off_t at = position(file);
    ssize_t n = at < 0 ? -1 : pread(file->fd, bytes, size, at);
    if (n <= 0)
        return or_error(n);
    n = wefti_mem_write(mem, bytes, (size_t)n);
    if (n > 0 && file->offset)
        *file->offset += n;
    else if (n > 0)
        lseek(file->fd, n, SEEK_CUR);
    return n;
}

static ssize_t send_once(struct weft_io *io, void *arg) {
    struct file *file = arg;
    if (io->mem)
        return send_to_memory(io->mem, file);
    return or_error(wefti_sendfile_quietly(io->fd, file->fd, file->offset, file->size));
}

static ssize_t send_piece(struct weft_io *out, struct file *piece, weft_deadline until) {
    size_t size = piece->size, done = 0;
    int error = make_cached(piece, until);
    if (error)
        return error;
    while (done < size) {
        piece->size = size - done;
        ssize_t n = wefti_desc_call(out, WEFTI_OUT, send_once, piece, 0, until);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* -- To a layer ----------------------------------------------------------------------------------------------- */

/* Through a buffer: the bytes that a layer sends are not those of the file. */
static ssize_t send_layer_piece(struct weft_io *out, struct file *piece, char *buffer, weft_deadline until) {
    int error = make_cached(piece, until);
    if (error)
        return error;
    ssize_t n = or_error(piece->offset ? pread(piece->fd, buffer, piece->size, *piece->offset)
                                       : read(piece->fd, buffer, piece->size));
    weft_stream_call call = {.until = until, .all = true};
    struct iovec part = {buffer, n > 0 ? (size_t)n : 0};
    ssize_t written = n > 0 ? wefti_layer_write_held(out, &call, &part, 1) : n;
    if (written > 0 && piece->offset)
        *piece->offset += n;
    return written;
}

/* Between wefti_write_begin and wefti_write_end.  buffer: for a layer. */
static ssize_t send_held(struct weft_io *out, int fd, off_t *offset, size_t size, char *buffer, weft_deadline until) {
    size_t done = 0, most = buffer ? LAYER_PIECE : PIECE;
    ssize_t n = 1;
    for (; n > 0 && done < size; done += n > 0 ? (size_t)n : 0) {
        struct file piece = {fd, offset, size - done < most ? size - done : most};
        n = buffer ? send_layer_piece(out, &piece, buffer, until) : send_piece(out, &piece, until);
    }
    return n < 0 ? n : (ssize_t)done;
}

ssize_t weft_sendfile(weft_io *out, int fd, off_t *offset, size_t size, weft_deadline until) {
    wefti_slice_use(until);
    if (WEFTI_UNLIKELY(!out))
        return -EINVAL;
    bool layered = out->layer != NULL;
    char *buffer = layered ? wefti_alloc(LAYER_PIECE) : NULL;
    if (layered && !buffer)
        return -ENOMEM;
    ssize_t n = wefti_write_begin(out, until);
    if (!n) {
        n = send_held(out, fd, offset, size, buffer, until);
        wefti_write_end(out);
    }
    if (buffer)
        wefti_free(buffer, LAYER_PIECE);
    return n;
}
