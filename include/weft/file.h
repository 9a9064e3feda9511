/* weft/file.h - files and directories, without stopping a worker.
 *
 * What a system call does with a file may take as long as the disk does, so each call here is a job of the runtime's pool of threads
 * (<weft/blocking.h>), for which the calling fiber waits while others run; but for these: a read of up to 64 KiB that finds everything in the
 * system's memory is made at once, without waiting for anything; and with io_uring (<weft/runtime.h>) such a read that has to wait for its
 * disk, and everything that goes past the memory (O_DIRECT), is an operation of the kernel, without a thread.  Which way it went makes no other
 * difference.  On a plain thread the call is made in place.  A poll task gets -EINVAL from all of them, and uses weft_blocking_poll.
 *
 *     weft_file *log;
 *     weft_file_open("log", O_WRONLY | O_CREAT | O_APPEND, 0644, &log, WEFT_NEVER);
 *     weft_file_write(log, line, size, 0, WEFT_NEVER);
 *     weft_file_sync(log, WEFT_NEVER);
 *
 * Late and cancelled calls.  One that has not begun is taken back: nothing was done, -ETIMEDOUT or -ECANCELED.  One that has begun cannot be stopped
 * (at most the kernel lets go of one that has done nothing yet): the call waits for it, and returns what it returned, however late.  So buffers and names are the call's until it returns, and never
 * longer: they may lie on the stack, and nothing is copied.
 *
 * Every call returns, beside the errors of the system calls it makes, -ETIMEDOUT; -ECANCELED; -EAGAIN (there is no thread for it, and the system
 * refuses one); -ENOMEM; -ESHUTDOWN (the runtime is being stopped); -EINVAL (in a poll task).  An interrupted system call is repeated.
 *
 * One file may be used by several fibers at once; reads and writes name their places, so they do not get in each other's way.
 *
 * Pipes, FIFOs and terminals have no places (-ESPIPE): use open(2) with O_NONBLOCK, and weft_io_open of <weft/io.h>.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

struct iovec; /* <sys/uio.h> */
struct stat;  /* <sys/stat.h> */
typedef struct weft_file weft_file;

/* Open a file, as open(2): flags of <fcntl.h>, to which O_CLOEXEC is added; `mode` of one that is made. */
WEFT_API WEFT_MUST_USE int weft_file_open(const char *path, int flags, unsigned mode, weft_file **out,
                                          weft_deadline until);
/* Use an open descriptor, which is closed with the file.  Never waits.  Returns 0; -EBADF; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_file_adopt(int fd, weft_file **out);
/* Close.  NULL is allowed.  It waits for close(2), whatever cancels the caller; calls that are under way go on, and the last of them closes.
 * Returns 0, or the error of close(2); -EBADF (closed already, and still in use).  It is closed in any case. */
WEFT_API int weft_file_close(weft_file *file);
/* The descriptor, for weft_sendfile, locks, and looking; -EINVAL of NULL. */
WEFT_API int weft_file_fd(const weft_file *file);

/* Read from `offset`.  Returns how many bytes: less than `size` only at the end of the file. */
WEFT_API ssize_t weft_file_read(weft_file *file, void *buffer, size_t size, off_t offset, weft_deadline until);
/* Into several parts. */
WEFT_API ssize_t weft_file_readv(weft_file *file, const struct iovec *parts, int count, off_t offset,
                                 weft_deadline until);
/* Write all of it at `offset`; at the end, whatever the offset, when the file was opened with O_APPEND.
 * Returns `size`; a negative error, after which an unknown part has been written. */
WEFT_API ssize_t weft_file_write(weft_file *file, const void *bytes, size_t size, off_t offset, weft_deadline until);
WEFT_API ssize_t weft_file_writev(weft_file *file, const struct iovec *parts, int count, off_t offset,
                                  weft_deadline until);

/* Have everything that was written reach the disk; `data`: without times and the like, which nothing depends on.  After an error nobody knows
 * what has: a second try says nothing.  Returns 0 or a negative error. */
WEFT_API WEFT_MUST_USE int weft_file_sync(weft_file *file, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_file_sync_data(weft_file *file, weft_deadline until);

/* Size, times, owner and so on.  Returns 0 or a negative error. */
WEFT_API int weft_file_stat(weft_file *file, struct stat *out, weft_deadline until);
/* Make it so long, by cutting it or with zeroes.  Returns 0 or a negative error. */
WEFT_API int weft_file_truncate(weft_file *file, off_t size, weft_deadline until);

/* -- By name ------------------------------------------------------------------------------------------- */

/* As stat(2), which follows links. */
WEFT_API int weft_path_stat(const char *path, struct stat *out, weft_deadline until);
/* As rename(2): `to` is replaced in one step. */
WEFT_API int weft_path_rename(const char *from, const char *to, weft_deadline until);
/* Remove a file, or an empty directory. */
WEFT_API int weft_path_remove(const char *path, weft_deadline until);
WEFT_API int weft_path_mkdir(const char *path, unsigned mode, weft_deadline until);
/* Have a file, or the names in a directory, reach the disk: a name that was made or changed is safe only then. */
WEFT_API WEFT_MUST_USE int weft_path_sync(const char *path, weft_deadline until);

/* -- Directories ---------------------------------------------------------------------------------------- */

typedef struct weft_dir weft_dir;

enum {
    WEFT_DIR_OTHER = 0, /* or the file system does not say: weft_path_stat */
    WEFT_DIR_FILE = 1,
    WEFT_DIR_FOLDER = 2,
    WEFT_DIR_LINK = 3,
};

/* The names in a directory, sorted by bytes, without "." and "..".  Returns 0; -ENOENT, -ENOTDIR, ... */
WEFT_API WEFT_MUST_USE int weft_dir_list(const char *path, weft_dir **out, weft_deadline until);
/* How many there are; the name and the kind of one of them.  index must be below the count. */
WEFT_API size_t weft_dir_count(const weft_dir *dir);
WEFT_API const char *weft_dir_name(const weft_dir *dir, size_t index);
WEFT_API int weft_dir_kind(const weft_dir *dir, size_t index);
/* NULL is allowed. */
WEFT_API void weft_dir_free(weft_dir *dir);

/* -- Whole files ---------------------------------------------------------------------------------------- */

/* Read a whole file, of at most `limit` bytes, into memory that weft_file_free gives back; a zero byte follows, which is not counted.
 * Returns its size; -EFBIG (more than the limit). */
WEFT_API WEFT_MUST_USE ssize_t weft_file_load(const char *path, size_t limit, void **bytes, weft_deadline until);
/* NULL is allowed. */
WEFT_API void weft_file_free(void *bytes);

/* Write a whole file so that after a crash at any moment there is the old one or the new one: beside it under another name, to the disk,
 * renamed, and the directory to the disk.  `mode` is what the new file has.
 * A symbolic link at `path` is replaced by the file; what it points to stays as it is.  A directory there is not replaced (-EISDIR).  The other name is
 * that of the file and 17 bytes more, so that where names have 255 bytes, those of more than 238 are refused: -ENAMETOOLONG.
 * Returns 0; a negative error, after which the old file is still there, unless it was the last step that failed. */
WEFT_API WEFT_MUST_USE int weft_file_save(const char *path, const void *bytes, size_t size, unsigned mode,
                                          weft_deadline until);

WEFT_EXTERN_C_END
#endif
