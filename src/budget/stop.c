/* stop.c - stopping a fiber that is cancelled, exhausted and does not end: the locks it holds, and the report. */
#include <stdio.h>

#include "budget/fund.h"

/* -- Locks ------------------------------------------------------------------------------------------------- */

static struct wefti_held *held_by_caller(void) {
    struct wefti_fiber *self = wefti_fiber_self();
    return self && self->account ? &self->account->held : NULL;
}

int wefti_held_add(const void *lock, enum wefti_waits kind) {
    struct wefti_held *held = held_by_caller();
    if (!held)
        return 0;
    if (held->count == WEFTI_HELD) {
        held->more++;
        return 0;
    }
    held->lock[held->count].address = lock;
    held->lock[held->count++].kind = kind;
    return 0;
}

int wefti_held_remove(const void *lock, enum wefti_waits kind) {
    struct wefti_held *held = held_by_caller();
    if (!held)
        return 0;
    for (uint32_t i = held->count; i-- > 0;) /* most often the newest */
        if (held->lock[i].address == lock && held->lock[i].kind == kind) {
            held->lock[i] = held->lock[--held->count];
            return 0;
        }
    if (held->more) /* it had no room; else another task has locked it, as with a read lock */
        held->more--;
    return 0;
}

/* -- The end ----------------------------------------------------------------------------------------------- */

#define ROOM 1024u

static void report(const struct wefti_fiber *self, int64_t grace) {
    const struct wefti_held *held = &self->account->held;
    char text[ROOM], name[WEFTI_NAME_ROOM];
    int size = snprintf(text, sizeof text,
                        "weft: fiber \"%s\" is stopped: its budget is exhausted, it was cancelled, and it went on for "
                        "%lld ops; it holds",
                        wefti_printable(self->task.name, name, sizeof name), (long long)grace);
    for (uint32_t i = 0; i < held->count; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "%s %s (%p)", i ? "," : "",
                         wefti_words(held->lock[i].kind), held->lock[i].address); /* WEFTI_HELD of them fit */
    if (held->more)
        size += snprintf(text + size, sizeof text - (size_t)size, "%s %u locks that are not listed",
                         held->count ? " and" : "", held->more);
    size += snprintf(text + size, sizeof text - (size_t)size, held->count || held->more ? "\n" : " no lock\n");
    wefti_write(2, text, (size_t)size);
}

void wefti_budget_stop(struct wefti_fiber *self) {
    self->account->killed = true;
    report(self, wefti_worker_here()->rt->grace_ops);
    wefti_fiber_stop(self);
}
