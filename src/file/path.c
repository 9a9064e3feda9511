/* path.c - what is done to files by their names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"

struct request {
    const char *path, *other;
    struct stat *about;
    unsigned mode;
};

static ssize_t stat_job(void *arg) {
    struct request *r = arg;
    return stat(r->path, r->about) ? -errno : 0;
}
static ssize_t rename_job(void *arg) {
    struct request *r = arg;
    return rename(r->path, r->other) ? -errno : 0;
}
static ssize_t remove_job(void *arg) { return remove(((struct request *)arg)->path) ? -errno : 0; }
static ssize_t mkdir_job(void *arg) {
    struct request *r = arg;
    return mkdir(r->path, (mode_t)r->mode) ? -errno : 0;
}
static ssize_t sync_job(void *arg) {
    int fd = open(((struct request *)arg)->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t error = wefti_file_sync_fd(fd, false);
    close(fd);
    return error;
}

static int ask(wefti_file_fn *fn, struct request request, const char *name, weft_deadline until) {
    return request.path ? (int)wefti_file_run(fn, &request, name, until) : -EINVAL;
}

int weft_path_stat(const char *path, struct stat *out, weft_deadline until) {
    return out ? ask(stat_job, (struct request){.path = path, .about = out}, "stat a file", until) : -EINVAL;
}
int weft_path_rename(const char *from, const char *to, weft_deadline until) {
    return to ? ask(rename_job, (struct request){.path = from, .other = to}, "rename a file", until) : -EINVAL;
}
int weft_path_remove(const char *path, weft_deadline until) {
    return ask(remove_job, (struct request){.path = path}, "remove a file", until);
}
int weft_path_mkdir(const char *path, unsigned mode, weft_deadline until) {
    return ask(mkdir_job, (struct request){.path = path, .mode = mode}, "make a directory", until);
}
int weft_path_sync(const char *path, weft_deadline until) {
    return ask(sync_job, (struct request){.path = path}, "sync a file", until);
}
