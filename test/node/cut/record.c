/* record.c - see record.h. */
#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define INTERPOSED __attribute__((visibility("default")))

enum { FILES_MAX = 1 << 12 };
#define ROOM ((size_t)1 << 30) /* of addresses; only what is written costs memory */

struct shared {
    size_t used;
    size_t files; /* that are watched, by inode */
    uint64_t file[FILES_MAX];
    char root[256];
    _Alignas(16) unsigned char bytes[];
};
static struct shared *shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool watching;
static uint64_t left; /* records until the end */

void record_open(void) {
    shared = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED)
        abort();
}

static uint64_t ino_of(const char *path) {
    struct stat info;
    return lstat(path, &info) ? 0 : info.st_ino;
}

static void watch(uint64_t ino) {
    for (size_t i = 0; i < shared->files; i++)
        if (shared->file[i] == ino)
            return;
    if (shared->files == FILES_MAX)
        abort();
    shared->file[shared->files++] = ino;
}

static void watch_all(const char *path) {
    char command[400], line[32];
    snprintf(command, sizeof command, "find '%s' -printf '%%i\\n'", path);
    FILE *inodes = popen(command, "r");
    while (inodes && fgets(line, sizeof line, inodes))
        watch(strtoull(line, NULL, 10));
    if (!inodes || pclose(inodes))
        abort();
}

void record_begin(const char *root) {
    shared->used = shared->files = 0;
    snprintf(shared->root, sizeof shared->root, "%s", root);
    watch_all(root);
}

void record_life(uint64_t records) {
    left = records;
    watching = true;
}

const struct record *record_next(const struct record *record) {
    size_t at = 0;
    if (record)
        at = (size_t)((const unsigned char *)record - shared->bytes) + sizeof *record +
             ((record->data_size + 15) & ~(size_t)15);
    return at < shared->used ? (const struct record *)(const void *)(shared->bytes + at) : NULL;
}

/* Under the lock. */
static struct record *note(enum record_kind kind, uint64_t ino, uint64_t at, size_t data_size) {
    struct record *record = (struct record *)(void *)(shared->bytes + shared->used);
    size_t size = sizeof *record + ((data_size + 15) & ~(size_t)15);
    if (sizeof *shared + shared->used + size > ROOM)
        abort();
    *record = (struct record){(uint32_t)kind, 0, ino, at, data_size};
    shared->used += size;
    return record;
}

static void end_call(void) {
    if (watching && left-- == 0)
        kill(getpid(), SIGKILL);
    pthread_mutex_unlock(&lock);
}

void record_ack(const void *data, size_t size) {
    pthread_mutex_lock(&lock);
    memcpy(note(RECORD_ACK, 0, 0, size)->data, data, size);
    end_call();
}

static bool is_below(const char *path) {
    return watching && !strncmp(path, shared->root, strlen(shared->root)) && path[strlen(shared->root)] == '/';
}

/* Its inode, if it is watched, else 0. */
static uint64_t watched(int fd) {
    struct stat info;
    if (!watching || fstat(fd, &info))
        return 0;
    for (size_t i = 0; i < shared->files; i++)
        if (shared->file[i] == info.st_ino && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
            return info.st_ino;
    return 0;
}

/* The folder that a path is in, and its name there. */
static uint64_t folder_of(const char *path, const char **name) {
    char above[512];
    const char *slash = strrchr(path, '/');
    snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
    *name = slash + 1;
    return ino_of(above);
}

static void note_made(const char *path, bool folder) {
    const char *name;
    uint64_t above = folder_of(path, &name), ino = ino_of(path);
    struct record *record = note(RECORD_MAKE, ino, above, strlen(name) + 1);
    record->size = folder;
    memcpy(record->data, name, strlen(name) + 1);
    watch(ino);
}

/* -- The calls ------------------------------------------------------------------------------------------------------- */

INTERPOSED int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    if (!is_below(path))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&lock);
    bool known = ino_of(path) != 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && !known)
        note_made(path, false);
    else if (fd >= 0 && flags & O_TRUNC)
        note(RECORD_LENGTH, ino_of(path), 0, 0)->size = 1;
    end_call();
    return fd;
}

INTERPOSED int mkdir(const char *path, mode_t mode) {
    if (!is_below(path))
        return (int)syscall(SYS_mkdir, path, mode);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_mkdir, path, mode);
    if (result == 0)
        note_made(path, true);
    end_call();
    return result;
}

static int note_gone(const char *path, long call) {
    const char *name;
    pthread_mutex_lock(&lock);
    uint64_t above = folder_of(path, &name);
    int result = (int)syscall(call, path);
    if (result == 0)
        memcpy(note(RECORD_UNLINK, above, 0, strlen(name) + 1)->data, name, strlen(name) + 1);
    end_call();
    return result;
}
INTERPOSED int unlink(const char *path) {
    return is_below(path) ? note_gone(path, SYS_unlink) : (int)syscall(SYS_unlink, path);
}
INTERPOSED int rmdir(const char *path) {
    return is_below(path) ? note_gone(path, SYS_rmdir) : (int)syscall(SYS_rmdir, path);
}

INTERPOSED int rename(const char *from, const char *to) {
    if (!is_below(from))
        return (int)syscall(SYS_rename, from, to);
    const char *old, *new;
    pthread_mutex_lock(&lock);
    uint64_t above = folder_of(from, &old);
    if (folder_of(to, &new) != above) /* the store does no such thing, so the model has no word for it */
        abort();
    int result = (int)syscall(SYS_rename, from, to);
    if (result == 0) {
        struct record *record = note(RECORD_RENAME, above, 0, strlen(old) + strlen(new) + 2);
        memcpy(record->data, old, strlen(old) + 1);
        memcpy(record->data + strlen(old) + 1, new, strlen(new) + 1);
    }
    end_call();
    return result;
}

/* Two records for O_DSYNC: between them it is on the disk or not. */
static void note_write(int fd, uint64_t ino, const struct iovec *parts, int count, uint64_t at, size_t size) {
    struct record *record = note(RECORD_WRITE, ino, at, size);
    size_t done = 0;
    for (int i = 0; i < count && done < size; i++) {
        size_t piece = parts[i].iov_len < size - done ? parts[i].iov_len : size - done;
        memcpy(record->data + done, parts[i].iov_base, piece);
        done += piece;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags & O_DSYNC)
        note(RECORD_WRITTEN, ino, 0, 0);
}

INTERPOSED ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    uint64_t ino = watched(fd);
    if (!ino)
        return syscall(SYS_pwrite64, fd, bytes, size, at);
    pthread_mutex_lock(&lock);
    ssize_t result = syscall(SYS_pwrite64, fd, bytes, size, at);
    if (result > 0)
        note_write(fd, ino, &(struct iovec){(void *)(uintptr_t)bytes, size}, 1, (uint64_t)at, (size_t)result);
    end_call();
    return result;
}

INTERPOSED ssize_t writev(int fd, const struct iovec *parts, int count) {
    uint64_t ino = watched(fd);
    if (!ino)
        return syscall(SYS_writev, fd, parts, count);
    pthread_mutex_lock(&lock);
    off_t at = lseek(fd, 0, SEEK_CUR);
    ssize_t result = syscall(SYS_writev, fd, parts, count);
    if (result > 0)
        note_write(fd, ino, parts, count, (uint64_t)at, (size_t)result);
    end_call();
    return result;
}

INTERPOSED ssize_t write(int fd, const void *bytes, size_t size) {
    return watched(fd) ? writev(fd, &(struct iovec){(void *)(uintptr_t)bytes, size}, 1)
                       : syscall(SYS_write, fd, bytes, size);
}

static int note_sync(int fd, long call) {
    uint64_t ino = watched(fd);
    if (!ino)
        return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(call, fd);
    if (result == 0)
        note(RECORD_SYNC, ino, 0, 0);
    end_call();
    return result;
}
INTERPOSED int fsync(int fd) { return note_sync(fd, SYS_fsync); }
INTERPOSED int fdatasync(int fd) { return note_sync(fd, SYS_fdatasync); }

INTERPOSED int fallocate(int fd, int mode, off_t at, off_t size) {
    uint64_t ino = watched(fd);
    if (!ino)
        return (int)syscall(SYS_fallocate, fd, mode, at, size);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_fallocate, fd, mode, at, size);
    if (result == 0)
        note(RECORD_LENGTH, ino, (uint64_t)(at + size), 0);
    end_call();
    return result;
}

INTERPOSED int ftruncate(int fd, off_t size) {
    uint64_t ino = watched(fd);
    if (!ino)
        return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0)
        note(RECORD_LENGTH, ino, (uint64_t)size, 0)->size = 1;
    end_call();
    return result;
}
