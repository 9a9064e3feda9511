/* file.c - open files: opened and closed, and what is asked of one as a whole.
 *
 * Closing.  A call counts itself in `users` while it is under way; the last one out of a closed file closes the descriptor, so its number is
 * not another file's while a job uses it.  All under the lock. */
#define _GNU_SOURCE
#include "file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fiber/wait.h"

/* -- Opening and closing -------------------------------------------------------------------------------------- */

struct opening {
    const char *path;
    int flags;
    unsigned mode;
};

static ssize_t open_job(void *arg) {
    struct opening *o = arg;
    int fd;
    do
        fd = open(o->path, o->flags | O_CLOEXEC, (mode_t)o->mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Is it read and written past the system's memory?  A pipe with O_DIRECT is something else. */
static bool is_direct(int fd, int flags) { return (flags & O_DIRECT) && lseek(fd, 0, SEEK_CUR) >= 0; }

int weft_file_open(const char *path, int flags, unsigned mode, weft_file **out, weft_deadline until) {
    if (!path || !out)
        return -EINVAL;
    struct weft_file *file = wefti_alloc(sizeof *file); /* before, so that nothing can fail after */
    if (!file)
        return -ENOMEM;
    struct opening opening = {path, flags, mode};
    ssize_t fd = wefti_file_run(open_job, &opening, "open a file", until);
    if (fd < 0) {
        wefti_free(file, sizeof *file);
        return (int)fd;
    }
    file->fd = (int)fd;
    file->direct = is_direct(file->fd, flags);
    *out = file;
    return 0;
}

int weft_file_adopt(int fd, weft_file **out) {
    if (!out)
        return -EINVAL;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    struct weft_file *file = wefti_alloc(sizeof *file);
    if (!file)
        return -ENOMEM;
    file->fd = fd;
    file->direct = is_direct(fd, flags);
    *out = file;
    return 0;
}

int weft_file_fd(const weft_file *file) { return file ? file->fd : -EINVAL; }

static int enter(struct weft_file *file) {
    wefti_lock_take(&file->lock);
    bool open = !file->closed;
    file->users += open;
    wefti_lock_give(&file->lock);
    return open ? 0 : -EBADF;
}

static ssize_t close_job(void *arg) {
    return close(*(int *)arg) && errno != EINTR ? -errno : 0; /* an interrupted one is closed */
}

static int finish(struct weft_file *file) {
    int fd = file->fd;
    wefti_free(file, sizeof *file);
    struct weft_task *self = wefti_fiber_self() ? weft_task_self() : NULL;
    bool shielded = self && weft_shield(self) == 0;
    ssize_t error = self ? wefti_file_run(close_job, &fd, "close a file", WEFT_NEVER) : -EAGAIN;
    if (shielded)
        weft_unshield(self);
    /* Those of the pool, when it did not take the job; close(2) has none of them.  Then here. */
    bool refused = error == -EAGAIN || error == -ENOMEM || error == -ESHUTDOWN || error == -ECANCELED;
    return (int)(refused ? close_job(&fd) : error);
}

/* The call is over: close it, if it was the last of a closed one. */
static void leave(struct weft_file *file) {
    wefti_lock_take(&file->lock);
    bool last = --file->users == 0 && file->closed;
    wefti_lock_give(&file->lock);
    if (last)
        finish(file);
}

int weft_file_close(weft_file *file) {
    if (!file)
        return 0;
    wefti_lock_take(&file->lock);
    bool was = file->closed, last = file->users == 0;
    file->closed = true;
    wefti_lock_give(&file->lock);
    return was ? -EBADF : last ? finish(file) : 0;
}

/* -- Reading and writing --------------------------------------------------------------------------------------- */

static ssize_t transfer(weft_file *file, bool writes, const struct iovec *parts, int count, off_t offset,
                        weft_deadline until) {
    if (!file || count < 0 || (count && !parts) || offset < 0)
        return -EINVAL;
    ssize_t result = enter(file);
    if (result)
        return result;
    result = wefti_file_transfer(file, writes, parts, count, offset, until);
    leave(file);
    return result;
}

ssize_t weft_file_readv(weft_file *file, const struct iovec *parts, int count, off_t offset, weft_deadline until) {
    return transfer(file, false, parts, count, offset, until);
}

ssize_t weft_file_writev(weft_file *file, const struct iovec *parts, int count, off_t offset, weft_deadline until) {
    return transfer(file, true, parts, count, offset, until);
}

ssize_t weft_file_read(weft_file *file, void *buffer, size_t size, off_t offset, weft_deadline until) {
    struct iovec one = {buffer, size};
    return transfer(file, false, &one, 1, offset, until);
}

ssize_t weft_file_write(weft_file *file, const void *bytes, size_t size, off_t offset, weft_deadline until) {
    struct iovec one = {(void *)(uintptr_t)bytes, size};
    return transfer(file, true, &one, 1, offset, until);
}

/* -- The rest --------------------------------------------------------------------------------------------------- */

struct request {
    int fd;
    struct stat *about;
    off_t size;
};

static ssize_t sync_job(void *arg) { return wefti_file_sync_fd(((struct request *)arg)->fd, false); }
static ssize_t sync_data_job(void *arg) { return wefti_file_sync_fd(((struct request *)arg)->fd, true); }
static ssize_t stat_job(void *arg) {
    struct request *r = arg;
    return fstat(r->fd, r->about) ? -errno : 0;
}
static ssize_t truncate_job(void *arg) {
    struct request *r = arg;
    int error;
    do
        error = ftruncate(r->fd, r->size);
    while (error && errno == EINTR);
    return error ? -errno : 0;
}

static int ask(weft_file *file, wefti_file_fn *fn, struct request request, const char *name, weft_deadline until) {
    int error = file ? enter(file) : -EINVAL;
    if (error)
        return error;
    request.fd = file->fd;
    error = (int)wefti_file_run(fn, &request, name, until);
    leave(file);
    return error;
}

int weft_file_sync(weft_file *file, weft_deadline until) {
    return ask(file, sync_job, (struct request){0}, "sync a file", until);
}
int weft_file_sync_data(weft_file *file, weft_deadline until) {
    return ask(file, sync_data_job, (struct request){0}, "sync a file", until);
}
int weft_file_stat(weft_file *file, struct stat *out, weft_deadline until) {
    return out ? ask(file, stat_job, (struct request){.about = out}, "stat a file", until) : -EINVAL;
}
int weft_file_truncate(weft_file *file, off_t size, weft_deadline until) {
    return ask(file, truncate_job, (struct request){.size = size}, "truncate a file", until);
}
