/* start.c - starting a child: its three descriptors, and the job that runs the program.
 *
 * Every descriptor that is to become the child's 0, 1 or 2 is first moved above 2, or putting one in its place could close another that is still
 * needed.  All are close-on-exec until then, so no child that is started at the same time by somebody else gets them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <weft/blocking.h>

#include "budget/cap.h"
#include "child/child.h"
#include "fiber/slice.h"
#include "sched/spawn.h"

struct start {
    struct wefti_spawn spawn;
    int pid;
};

static int spawn_job(void *arg) {
    struct start *start = arg;
    return wefti_spawn(&start->spawn, &start->pid);
}

static int above_two(int fd) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return moved < 0 ? -errno : moved;
}

/* A pipe to the child's `which`: its end, and ours.  0 or a negative error. */
static int make_pipe(int which, int *theirs, weft_io **ours) {
    int fd[2];
    if (pipe2(fd, O_CLOEXEC))
        return -errno;
    int keep = which == 0, error = 0; /* fd[0] is for reading */
    *theirs = above_two(fd[!keep]);
    close(fd[!keep]);
    if (*theirs < 0)
        error = *theirs;
    else if (fcntl(fd[keep], F_SETFL, O_NONBLOCK) < 0) /* of our end only: the other is a description of its own */
        error = -errno;
    if (!error)
        error = wefti_desc_new(fd[keep], WEFTI_STREAM, ours);
    if (error)
        close(fd[keep]);
    return error;
}

static int open_null(int which) {
    int fd = open("/dev/null", (which == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int moved = above_two(fd);
    close(fd);
    return moved;
}

/* One of the three.  -1 in *fd: as ours. */
static int prepare(int which, int kind, int given, int out, int *fd, weft_io **ours) {
    int error = 0;
    switch (kind) {
    case WEFT_CHILD_INHERIT: return 0;
    case WEFT_CHILD_NULL: *fd = open_null(which); break;
    case WEFT_CHILD_PIPE: error = make_pipe(which, fd, ours); break;
    case WEFT_CHILD_FD: *fd = above_two(given); break;
    case WEFT_CHILD_OUT:
        if (which != 2)
            return -EINVAL;
        *fd = above_two(out >= 0 ? out : 1);
        break;
    default: return -EINVAL;
    }
    return error ? error : *fd < 0 ? *fd : 0;
}

static int prepare_all(const weft_child_spec *spec, struct wefti_spawn *spawn, weft_child *child) {
    int kind[3] = {spec->in, spec->out, spec->err}, given[3] = {spec->in_fd, spec->out_fd, spec->err_fd};
    for (int i = 0; i < 3; i++) {
        int error = prepare(i, kind[i], given[i], spawn->fd[1], &spawn->fd[i], &child->pipe[i]);
        if (error)
            return error;
    }
    return 0;
}

static int run(const weft_child_spec *spec, struct start *start, weft_child *child, weft_deadline until) {
    weft_blocking_spec job = WEFT_BLOCKING_SPEC_INIT;
    job.cap = &wefti_cap_library;
    job.fn = spawn_job;
    job.arg = start;
    job.name = "start a program";
    start->spawn.path = spec->path ? spec->path : spec->argv[0];
    start->spawn.search = !spec->path;
    start->spawn.argv = spec->argv;
    start->spawn.env = spec->env;
    start->spawn.cwd = spec->cwd;
    start->spawn.close_others = !spec->keep_open;
    start->spawn.group = spec->group;
    int result = 0, error = prepare_all(spec, &start->spawn, child);
    if (!error)
        error = wefti_charge_syscall_call();
    if (!error)
        error = weft_blocking_call(&job, &result, until);
    return error ? error : result;
}

/* The descriptor that tells of its end; without one weft_child_wait looks again and again. */
static void watch(weft_child *child) {
    int fd = wefti_pidfd_open(child->pid);
    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (wefti_desc_new(fd, 0, &child->end)) {
        child->end = NULL;
        close(fd);
    }
}

int weft_child_start(const weft_child_spec *given, weft_child **out, weft_deadline until) {
    wefti_slice_use_heavy(until);
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    if (!given || !out)
        return -EINVAL;
    int error = wefti_known_struct(given, offsetof(weft_child_spec, env), &spec, sizeof spec);
    if (error)
        return error;
    if (!spec.argv || !spec.argv[0])
        return -EINVAL;
    wefti_child_sweep();
    weft_child *child = wefti_alloc(sizeof *child);
    if (!child)
        return -ENOMEM;
    struct start start = {.spawn = {.fd = {-1, -1, -1}}, .pid = 0};
    error = run(&spec, &start, child, until);
    for (int i = 0; i < 3; i++)
        if (start.spawn.fd[i] >= 0)
            close(start.spawn.fd[i]);
    if (error) {
        for (int i = 0; i < 3; i++)
            weft_close(child->pipe[i]);
        wefti_free(child, sizeof *child);
        return error;
    }
    child->pid = start.pid;
    child->group = spec.group;
    child->leash = spec.leash;
    watch(child);
    *out = child;
    return 0;
}
