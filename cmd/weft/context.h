/* context.h - the block context listener: asks its source for the environment that blocks see, and hands it to the lane.
 *
 * Sources: the wall clock; a file with JSON; the JSON-RPC of an upstream node.  When one fails, the last good value stays, and the failure is
 * counted.  Nobody else sets the lane's environment.
 */
#ifndef WEFT_CMD_CONTEXT_H
#define WEFT_CMD_CONTEXT_H

#include <weft/shard.h>

#include "base/atomic.h"
#include "queue/lock.h"
#include "url.h"

enum context_kind { CONTEXT_WALL, CONTEXT_FILE, CONTEXT_HTTP };

struct context {
    enum context_kind kind;
    const char *path; /* of the file */
    struct url url; /* of the upstream */
    int64_t every; /* ns */
    _Atomic uint64_t updates, failures;
    struct wefti_lock lock; /* guards `why` */
    char why[160]; /* the last failure */
};

/* From "wall", "file:PATH" or "http://HOST[:PORT][/PATH]".  0; -EINVAL. */
int context_parse(struct context *context, const char *text);
/* One look.  0: *env is new; a negative error: it is as before, counted.  Call from: a fiber. */
int context_poll(struct context *context, weft_block_env *env);
/* From JSON: an environment of ours, or an Ethereum block.  0; -EBADMSG, `why` says what is missing. */
int context_decode(const char *json, size_t size, weft_block_env *env, char *why, size_t room);

#endif
