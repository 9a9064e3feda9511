/* local.h - fiber-locals.  Internal. */
#ifndef WEFTI_FIBER_LOCAL_H
#define WEFTI_FIBER_LOCAL_H

#include "task/fiber.h"

/* The running fiber has returned: call the destructors, on its stack; they may still wait. */
void wefti_locals_end(struct wefti_fiber *fiber);
/* The same without their destructors: the fiber was stopped, and no code of its runs any more. */
void wefti_locals_forget(struct wefti_fiber *fiber);

#endif
