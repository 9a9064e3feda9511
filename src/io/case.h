/* case.h - cases of a select that wait for a descriptor: what kinds built on one share.  Internal.
 *
 * c->thing is the weft_io, c->at one of WEFT_FD_READ and WEFT_FD_WRITE, c->value the kind's own.  c->result becomes what it is ready for, or
 * -EBADF when it was closed. */
#ifndef WEFTI_IO_CASE_H
#define WEFTI_IO_CASE_H

#include "fiber/select.h"
#include "io/desc.h"

void wefti_case_hold(weft_case *c);
void wefti_case_drop(weft_case *c);
bool wefti_case_try(weft_case *c);
int wefti_case_begin(weft_case *c, struct wefti_waiter *waiter);
bool wefti_case_end(weft_case *c, struct wefti_waiter *waiter);
bool wefti_case_served(weft_case *c, struct wefti_waiter *waiter);
extern const struct wefti_case_sleep wefti_case_sleep;

#endif
