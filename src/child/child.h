/* child.h - a child process.  Internal.
 *
 * Its number is its own until it is reaped, which only happens here, under the lock; a signal by number is sent under the lock too, and only
 * when it was not.  With a pidfd neither could go wrong; kernels before 5.3 have none, and a process may be out of descriptors. */
#ifndef WEFTI_CHILD_CHILD_H
#define WEFTI_CHILD_CHILD_H

#include <weft/child.h>

#include "io/desc.h"
#include "queue/lock.h"

struct weft_child {
    struct wefti_lock lock;
    int pid;
    weft_io *end; /* a pidfd; NULL: there is none */
    bool group, leash;
    bool ended;            /* and reaped */
    int error;             /* of the reaping: 0 or -ECHILD */
    weft_child_end how;
    weft_io *pipe[3];
    struct weft_child *next; /* among those left alone */
};

/* Reap those that were closed before they ended. */
void wefti_child_sweep(void);

#endif
