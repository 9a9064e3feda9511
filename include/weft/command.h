/* weft/command.h - commands: what processes that are classes ask of the outside, and who does it.
 *
 * A step asks with weft_yield_command; the handler of that number is called at once, on the same worker, and must not block.  It
 * completes the command there and then, later, or from any other thread; the process gets a WEFT_MESSAGE_YIELD with the tag.
 */
#ifndef WEFT_COMMAND_H
#define WEFT_COMMAND_H

#include <weft/process.h>

WEFT_EXTERN_C_BEGIN

/* What is asked.  `data` is valid during the handler's call. */
typedef struct weft_command {
    weft_runtime *rt;
    weft_pid from;
    unsigned command;
    uint64_t tag;
    const void *data;
    size_t size;
} weft_command;

/* Returns 0: weft_command_complete has been or will be called, once; a negative error completes it with that error. */
typedef int (*weft_command_fn)(const weft_command *command, void *arg);

/* Before the runtime's first process.  Returns 0; -EEXIST; -EBUSY (there have been processes); -EINVAL; -ENOMEM. */
WEFT_API int weft_command_register(weft_runtime *rt, unsigned command, weft_command_fn fn, void *arg);

/* Complete a command, from anywhere, once.  `data` is copied.  Returns 0; -ESRCH: the process has ended, and nothing happens; -EMSGSIZE;
 * -ENOMEM: it is not completed, try again. */
WEFT_API int weft_command_complete(weft_runtime *rt, weft_pid pid, uint64_t tag, int error, const void *data,
                                   size_t size);

WEFT_EXTERN_C_END
#endif
