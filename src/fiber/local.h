/* local.h - fiber-locals.  Internal. */
#ifndef WEFTI_FIBER_LOCAL_H
#define WEFTI_FIBER_LOCAL_H

#include "task/fiber.h"

/* The fiber has ended: call the destructors. */
void wefti_locals_end(struct wefti_fiber *fiber);

#endif
