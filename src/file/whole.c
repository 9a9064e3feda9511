/* whole.c - files that are read or written as a whole. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"

#define FIRST 4096 /* bytes, of a file that does not tell its size */

/* -- Loading -------------------------------------------------------------------------------------------------- */

/* Before the bytes. */
struct block {
    _Alignas(64) size_t size; /* of all of it */
};

struct loading {
    const char *path;
    size_t limit;
    struct block *block;
};

static struct block *resize(struct block *block, size_t used, size_t room) {
    struct block *larger = wefti_alloc(sizeof *larger + room + 1);
    if (larger) {
        larger->size = sizeof *larger + room + 1;
        if (used)
            memcpy(larger + 1, block + 1, used);
    }
    if (block)
        wefti_free(block, block->size);
    return larger;
}

/* What the file is said to have is only where to begin: it may grow, and files of /proc say 0. */
static ssize_t load(int fd, struct loading *loading) {
    struct stat about;
    size_t used = 0, room = FIRST;
    if (fstat(fd, &about))
        return -errno;
    if (about.st_size > 0)
        room = (size_t)about.st_size < loading->limit ? (size_t)about.st_size + 1 : loading->limit + 1;
    for (struct block *block = NULL;;) {
        block = resize(block, used, room);
        if (!block)
            return -ENOMEM;
        ssize_t n = wefti_file_read_all(fd, (char *)(block + 1) + used, room - used);
        used += n > 0 ? (size_t)n : 0;
        if (n < 0 || used > loading->limit) {
            wefti_free(block, block->size);
            return n < 0 ? n : -EFBIG;
        }
        if (used < room) {
            ((char *)(block + 1))[used] = 0;
            loading->block = block;
            return (ssize_t)used;
        }
        room = room > loading->limit / 2 ? loading->limit + 1 : 2 * room;
    }
}

static ssize_t load_job(void *arg) {
    struct loading *loading = arg;
    int fd = open(loading->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t result = load(fd, loading);
    close(fd);
    return result;
}

ssize_t weft_file_load(const char *path, size_t limit, void **bytes, weft_deadline until) {
    if (!path || !bytes)
        return -EINVAL;
    struct loading loading = {path, limit < SIZE_MAX / 4 ? limit : SIZE_MAX / 4, NULL};
    ssize_t size = wefti_file_run(load_job, &loading, "load a file", until);
    if (size >= 0)
        *bytes = loading.block + 1;
    return size;
}

void weft_file_free(void *bytes) {
    if (bytes) {
        struct block *block = (struct block *)bytes - 1;
        wefti_free(block, block->size);
    }
}

/* -- Saving --------------------------------------------------------------------------------------------------- */

struct saving {
    const char *path;
    const void *bytes;
    size_t size;
    unsigned mode;
};

static ssize_t write_new(int fd, const struct saving *s) {
    ssize_t result = wefti_file_write_all(fd, s->bytes, s->size);
    if (result >= 0)
        result = fchmod(fd, (mode_t)s->mode) ? -errno : wefti_file_sync_fd(fd, false);
    if (close(fd) && !result && errno != EINTR)
        result = -errno;
    return result;
}

static ssize_t save_job(void *arg) {
    const struct saving *s = arg;
    char path[4096];
    int size = snprintf(path, sizeof path, "%s.%016llx", s->path, (unsigned long long)wefti_random_seed());
    if (size < 0 || (size_t)size >= sizeof path)
        return -ENAMETOOLONG;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    ssize_t error = write_new(fd, s);
    if (!error && rename(path, s->path))
        error = -errno;
    if (error) {
        unlink(path);
        return error;
    }
    return wefti_file_sync_folder(s->path);
}

int weft_file_save(const char *path, const void *bytes, size_t size, unsigned mode, weft_deadline until) {
    if (!path || (size && !bytes))
        return -EINVAL;
    struct saving saving = {path, bytes, size, mode & 07777};
    return (int)wefti_file_run(save_job, &saving, "save a file", until);
}
