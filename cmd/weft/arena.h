/* arena.h - memory for one request's JSON: taken piece by piece, given back at once.
 *
 * jansson allocates for each value, string and table, and gives each back; that is a third of what a transaction costs to read.  While an
 * arena is in use on a thread, jansson's memory comes from it.  The tree is never released: it ends with the arena.
 *
 * Not covered.  Such a tree must not be changed or kept: jansson would mix both kinds of memory.
 */
#ifndef WEFT_CMD_ARENA_H
#define WEFT_CMD_ARENA_H

#include <stddef.h>

struct arena_piece;

/* All zero is an empty one. */
struct arena {
    struct arena_piece *pieces; /* the newest first */
    char *at, *end;             /* what is left of it */
};

/* Once, before any thread uses jansson. */
void arena_install(void);
/* Until arena_leave, on this thread, which does not suspend meanwhile. */
void arena_enter(struct arena *arena);
void arena_leave(void);
void arena_free(struct arena *arena);

#endif
