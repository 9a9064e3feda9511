/* command.h - the commands that a step has asked for.  Internal. */
#ifndef WEFTI_PROCESS_COMMAND_H
#define WEFTI_PROCESS_COMMAND_H

#include "process/process.h"

/* Messages whose `error` is the command's number. */
struct wefti_commands {
    struct wefti_chain asked;
};

/* Hand each to its handler; the completion comes to `pid` by the system's lane. */
void wefti_commands_dispatch(struct wefti_commands *commands, weft_pid pid);

#endif
