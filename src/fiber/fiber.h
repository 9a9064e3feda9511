/* fiber.h - making fibers that belong to something.  Internal. */
#ifndef WEFTI_FIBER_FIBER_H
#define WEFTI_FIBER_FIBER_H

#include "sched/spawn.h"
#include "task/fiber.h"

/* The caller's spec as this library knows it.  0; -EINVAL; -E2BIG. */
int wefti_fiber_known(const weft_fiber_spec **spec, weft_fiber_spec *known);
/* A fiber, all but started: wefti_spawn_submit(room) does that.  As weft_fiber_spawn. */
int wefti_fiber_make(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_owner *owner,
                     struct wefti_room *room);
/* It is not to be started after all: as if it had not been made. */
void wefti_fiber_unmake(const struct wefti_room *room, const weft_fiber_spec *spec);

#endif
