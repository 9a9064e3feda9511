/* io.c - work for the I/O threads: straight to them and back, or through the control thread of a scheduler that has one. */
#include "sched/sched.h"

void wefti_io_submit(struct weft_runtime *rt, struct wefti_io *io) {
    if (rt->sched->io)
        rt->sched->io(rt, io, false);
    else
        io->route(io);
}

void wefti_io_complete(struct weft_runtime *rt, struct wefti_io *io) {
    if (rt->sched->io)
        rt->sched->io(rt, io, true);
    else
        wefti_wake(io->waker);
}
