/* run.c - what the jobs on files share: being handed over, and system calls that are repeated until they are through. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "budget/cap.h"
#include "file/file.h"
#include "task/account.h"

struct job {
    wefti_file_fn *fn;
    void *arg;
    ssize_t result;
};

static int perform(void *arg) {
    struct job *job = arg;
    job->result = job->fn(job->arg);
    return 0;
}

ssize_t wefti_file_run_paid(wefti_file_fn *fn, void *arg, const char *name, weft_deadline until) {
    struct job job = {fn, arg, 0};
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.cap = &wefti_cap_library;
    spec.fn = perform;
    spec.arg = &job;
    spec.name = name;
    bool plain = !wefti_worker_here(); /* then the job runs here, and has files open and memory allocated */
    int cancel = plain ? wefti_cancel_off() : 0;
    int error = weft_blocking_call(&spec, NULL, until);
    if (plain)
        wefti_cancel_on(cancel);
    return error ? error : job.result;
}

ssize_t wefti_file_run(wefti_file_fn *fn, void *arg, const char *name, weft_deadline until) {
    int error = wefti_charge_syscall_call();
    return error ? error : wefti_file_run_paid(fn, arg, name, until);
}

ssize_t wefti_file_read_all(int fd, void *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (char *)bytes + done, size - done);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

ssize_t wefti_file_write_all(int fd, const void *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = wefti_write_quietly(fd, (const char *)bytes + done, size - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

int wefti_file_sync_fd(int fd, bool data) {
    int error;
    do
        error = data ? fdatasync(fd) : fsync(fd);
    while (error && errno == EINTR);
    return error ? -errno : 0;
}

int wefti_file_sync_folder(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    if (size >= sizeof folder)
        return -ENAMETOOLONG;
    memcpy(folder, path, size);
    folder[size] = 0;
    int fd = open(!slash ? "." : size ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = wefti_file_sync_fd(fd, false);
    close(fd);
    return error == -EINVAL ? 0 : error; /* a file system that does not sync directories */
}
