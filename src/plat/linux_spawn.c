/* linux_spawn.c - plat.h for Linux: starting a program, and the process behind a descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plat/fault.h"
#include "plat/plat.h"

extern char **environ;

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

static int set_files(posix_spawn_file_actions_t *files, const struct wefti_spawn *spawn) {
    int error = 0;
    for (int i = 0; i < 3 && !error; i++)
        if (spawn->fd[i] >= 0)
            error = posix_spawn_file_actions_adddup2(files, spawn->fd[i], i);
    if (!error && spawn->cwd)
        error = posix_spawn_file_actions_addchdir_np(files, spawn->cwd);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    if (!error && spawn->close_others)
        error = posix_spawn_file_actions_addclosefrom_np(files, 3);
#endif
    return error;
}

static int set_attributes(posix_spawnattr_t *attributes, const struct wefti_spawn *spawn) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    int error = posix_spawnattr_setsigdefault(attributes, &all);
    if (!error)
        error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error && spawn->group) {
        flags |= POSIX_SPAWN_SETPGROUP;
        error = posix_spawnattr_setpgroup(attributes, 0);
    }
    return error ? error : posix_spawnattr_setflags(attributes, flags);
}

int wefti_spawn(const struct wefti_spawn *spawn, int *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (wefti_fault_here())
        return -EAGAIN;
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return -error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_files(&files, spawn);
        if (!error)
            error = set_attributes(&attributes, spawn);
        char *const *argv = (char *const *)(uintptr_t)spawn->argv, /* only read */
            *const *env = spawn->env ? (char *const *)(uintptr_t)spawn->env : environ;
        pid_t made = 0;
        if (!error)
            error = spawn->search ? posix_spawnp(&made, spawn->path, &files, &attributes, argv, env)
                                  : posix_spawn(&made, spawn->path, &files, &attributes, argv, env);
        if (!error)
            *pid = made;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return -error;
}

int wefti_pidfd_open(int pid) {
    if (wefti_fault_here())
        return -EMFILE;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : fd;
}

int wefti_process_signal(int pidfd, int pid, int number) {
    int error = pidfd >= 0 ? (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) : kill(pid, number);
    return error ? -errno : 0;
}

int wefti_process_reap(int pidfd, int pid, int *code, int *number) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    int error;
    do
        error = waitid(pidfd >= 0 ? P_PIDFD : P_PID, (id_t)(pidfd >= 0 ? pidfd : pid), &info, WEXITED | WNOHANG);
    while (error && errno == EINTR);
    if (error)
        return -errno;
    if (info.si_pid == 0)
        return -EAGAIN;
    *code = info.si_code == CLD_EXITED ? info.si_status : 0;
    *number = info.si_code == CLD_EXITED ? 0 : info.si_status;
    return 0;
}
