/* file.h - open files, and jobs of the pool that work on files.  Internal.
 *
 * A job lies on the stack of its caller, who waits for its end or takes it out of the queue before it begins: so does what it works on. */
#ifndef WEFTI_FILE_FILE_H
#define WEFTI_FILE_FILE_H

#include <errno.h>
#include <weft/blocking.h>
#include <weft/file.h>

#include "queue/lock.h"

struct weft_file {
    struct wefti_lock lock;
    int fd;
    uint32_t users; /* calls under way; the last one out of a closed file closes it */
    bool closed;
    bool direct;       /* O_DIRECT */
    _Atomic bool slow; /* its system does not know whether a read would wait */
};

/* transfer.c: read or write all of it, in a call that has entered. */
ssize_t wefti_file_transfer(struct weft_file *file, bool writes, const struct iovec *parts, int count, off_t offset,
                            weft_deadline until);

/* What a job does: its result, or a negative error. */
typedef ssize_t wefti_file_fn(void *arg);
/* Pay for a system call, run it, and wait. */
ssize_t wefti_file_run(wefti_file_fn *fn, void *arg, const char *name, weft_deadline until);
/* The same when it has been paid for. */
ssize_t wefti_file_run_paid(wefti_file_fn *fn, void *arg, const char *name, weft_deadline until);

/* In a job: read until the end or `size`; write all of it.  The number of bytes, or a negative error. */
ssize_t wefti_file_read_all(int fd, void *bytes, size_t size);
ssize_t wefti_file_write_all(int fd, const void *bytes, size_t size);
/* In a job: fsync, or with `data` fdatasync. A signal does not end it: the kernel still holds what was not written, and the next
 * call reports its errors. Returns 0 or a negative error. */
int wefti_file_sync_fd(int fd, bool data);
/* In a job: the directory in which a name is reaches the disk.  0 or a negative error. */
int wefti_file_sync_folder(const char *path);

#endif
