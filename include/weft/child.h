/* weft/child.h - child processes: start one, talk to it through pipes, wait for its end.
 *
 *     const char *argv[] = {"sort", "-n", NULL};
 *     weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
 *     spec.argv = argv;
 *     spec.in = spec.out = WEFT_CHILD_PIPE;
 *     weft_child *child;
 *     int error = weft_child_start(&spec, &child, WEFT_NEVER);     // -ENOENT: there is no such program
 *     weft_io *in = weft_child_take(child, 0), *out = weft_child_take(child, 1);
 *     ...weft_write(in, ...), weft_close(in), weft_read(out, ...)...
 *     weft_child_end end;
 *     weft_child_wait(child, &end, weft_after(1000000000));
 *     weft_child_close(child);
 *
 * It is started by a job of the pool of threads (<weft/blocking.h>), with posix_spawn: neither the caller's small stack nor the memory of the
 * process is copied, and what goes wrong until the program runs is the error of weft_child_start.
 *
 * The child has three descriptors, and no others (see keep_open).  Its signals are as the system has them, none ignored, none blocked.
 *
 * Its process number stays its own until its end has been seen by weft, so a signal never reaches another process.  For that weft must be the only one
 * who waits for it: a program that calls wait(2) for any child, or ignores SIGCHLD, takes ends away (-ECHILD).
 */
#ifndef WEFT_CHILD_H
#define WEFT_CHILD_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/io.h>
#include <weft/select.h>

WEFT_EXTERN_C_BEGIN

/* Where one of its three descriptors leads. */
enum {
    WEFT_CHILD_INHERIT = 0, /* where ours does */
    WEFT_CHILD_NULL = 1,    /* nowhere: /dev/null */
    WEFT_CHILD_PIPE = 2,    /* to us: weft_child_take gives our end */
    WEFT_CHILD_FD = 3,      /* to a descriptor of ours, which we keep */
    WEFT_CHILD_OUT = 4,     /* err only: where its out does */
};

/* Set up with WEFT_CHILD_SPEC_INIT; 0 always means the default. */
typedef struct weft_child_spec {
    size_t size;             /* sizeof(weft_child_spec): set by WEFT_CHILD_SPEC_INIT */
    const char *const *argv; /* required; ends with NULL */
    const char *const *env;  /* "NAME=value"; ends with NULL; NULL = ours */
    const char *path;        /* of the program; NULL = argv[0], looked for in PATH unless it has a slash */
    const char
        *cwd; /* where it starts; NULL = where we are.  A relative path of the program is looked for from there. */
    int in, out, err; /* WEFT_CHILD_... */
    int in_fd, out_fd, err_fd; /* of those that are WEFT_CHILD_FD */
    bool keep_open; /* it also has those descriptors that are not close-on-exec; weft's own always are */
    bool group; /* it leads a process group, and weft_child_kill is for all of it */
    bool leash; /* it does not outlive us: a wait that is cancelled, and the close, kill it */
} weft_child_spec;

#define WEFT_CHILD_SPEC_INIT {sizeof(weft_child_spec), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false}

typedef struct weft_child weft_child;

/* Start a program.  Call from: a fiber (which suspends) or a plain thread.  The spec and what it points to may go when it has returned.
 * Returns 0; -ENOENT, -EACCES, -ENOEXEC, ... (the program or cwd); -E2BIG (arguments, or a spec from a later weft); -EAGAIN, -ENOMEM, -EMFILE, -ENFILE;
 * -EINVAL (no argv, unknown values, in a poll task); -EBADF (a descriptor in the spec); -ETIMEDOUT, -ECANCELED, -ESHUTDOWN (not started). */
WEFT_API WEFT_MUST_USE int weft_child_start(const weft_child_spec *spec, weft_child **out, weft_deadline until);

/* Our end of a pipe to its in (0), out (1) or err (2), which is the caller's from now on: close it.  NULL: it is none, or has been taken.
 * Those that nobody took are closed with the child. */
WEFT_API weft_io *weft_child_take(weft_child *child, int which);

/* Its process number; -EINVAL of NULL. */
WEFT_API pid_t weft_child_pid(const weft_child *child);

/* How a process ended. */
typedef struct weft_child_end {
    int code; /* what it returned, 0 to 255; if signal is 0 */
    int signal; /* which signal ended it; 0: none */
} weft_child_end;

/* Wait until it has ended.  Several may wait, and a later call gets the same answer.  `end` may be NULL.
 * Call from: a fiber or a plain thread.  May suspend.
 * Returns 0; -ETIMEDOUT; -ECANCELED; -ECHILD (it has, but somebody else has taken how); -EINVAL (in a poll task); as weft_read. */
WEFT_API int weft_child_wait(weft_child *child, weft_child_end *end, weft_deadline until);

/* In a select: it has ended; weft_child_wait then does not wait.  Needs a kernel with pidfd_open (5.3); without it the result is -ENOSYS. */
WEFT_API weft_case weft_case_child(weft_child *child);

/* Send it a signal; 0 asks whether it is there.  From anywhere; never waits.  Returns 0; -ESRCH (it has ended); -EINVAL (no such signal); -EPERM. */
WEFT_API int weft_child_kill(weft_child *child, int number);

/* We do not care any more.  NULL is allowed.  Nobody may be waiting for it.
 * Without `leash` it goes on, and is cleared away when it has ended and weft starts or closes another child.  With it, it is killed, and its end
 * is waited for, whatever cancels the caller (a second at most; it comes at once, unless the system is busy with it). */
WEFT_API void weft_child_close(weft_child *child);

WEFT_EXTERN_C_END
#endif
