/* builtin.c - the library's own commands that complete at once. */
#include "process/helper.h"

static int tell_time(const weft_command *command, void *arg) {
    (void)arg;
    if (command->size)
        return -EINVAL;
    int64_t now = weft_now();
    return wefti_command_done(command, 0, &now, sizeof now);
}

static int cancel(const weft_command *command, void *arg) {
    (void)arg;
    if (command->size != sizeof(uint64_t))
        return -EINVAL;
    uint64_t tag = *(const uint64_t *)command->data;
    return wefti_command_done(command, wefti_helper_cancel_tag(wefti_process_self(), tag) ? 0 : -ESRCH, NULL, 0);
}

static int spawn(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_spawn *asked = command->data;
    weft_command_spawned spawned = {WEFT_PID_NONE, 0};
    if (command->size != sizeof *asked || (asked->linked && asked->monitored))
        return -EINVAL;
    int error = asked->linked      ? weft_process_spawn_linked(&asked->spec, &spawned.pid)
                : asked->monitored ? weft_process_spawn_monitored(&asked->spec, &spawned.pid, &spawned.monitor)
                                   : weft_process_spawn(command->rt, &asked->spec, &spawned.pid, NULL);
    return wefti_command_done(command, error, &spawned, sizeof spawned);
}

/* LINK, UNLINK, MONITOR, DEMONITOR: one number. */
static int link_or_monitor(const weft_command *command, void *arg) {
    (void)arg;
    if (command->size != sizeof(uint64_t))
        return -EINVAL;
    uint64_t number = *(const uint64_t *)command->data, monitor;
    int error;
    switch (command->command) {
    case WEFT_COMMAND_LINK: return wefti_command_done(command, weft_link(number), NULL, 0);
    case WEFT_COMMAND_UNLINK: return wefti_command_done(command, weft_unlink(number), NULL, 0);
    case WEFT_COMMAND_DEMONITOR: return wefti_command_done(command, weft_demonitor(number), NULL, 0);
    default:
        error = weft_monitor(number, &monitor);
        return wefti_command_done(command, error, &monitor, sizeof monitor);
    }
}

weft_command_fn wefti_builtin(unsigned command) {
    static const weft_command_fn handlers[] = {
        [WEFT_COMMAND_CLOCK - WEFTI_COMMAND_FIRST] = tell_time,
        [WEFT_COMMAND_TIMER - WEFTI_COMMAND_FIRST] = wefti_command_timer,
        [WEFT_COMMAND_CANCEL - WEFTI_COMMAND_FIRST] = cancel,
        [WEFT_COMMAND_SPAWN - WEFTI_COMMAND_FIRST] = spawn,
        [WEFT_COMMAND_SEND - WEFTI_COMMAND_FIRST] = wefti_command_send,
        [WEFT_COMMAND_LINK - WEFTI_COMMAND_FIRST] = link_or_monitor,
        [WEFT_COMMAND_UNLINK - WEFTI_COMMAND_FIRST] = link_or_monitor,
        [WEFT_COMMAND_MONITOR - WEFTI_COMMAND_FIRST] = link_or_monitor,
        [WEFT_COMMAND_DEMONITOR - WEFTI_COMMAND_FIRST] = link_or_monitor,
        [WEFT_COMMAND_CHAN_SEND - WEFTI_COMMAND_FIRST] = wefti_command_chan_send,
        [WEFT_COMMAND_CHAN_RECV - WEFTI_COMMAND_FIRST] = wefti_command_chan_recv,
        [WEFT_COMMAND_BLOCKING - WEFTI_COMMAND_FIRST] = wefti_command_blocking,
        [WEFT_COMMAND_CONNECT - WEFTI_COMMAND_FIRST] = wefti_command_connect,
        [WEFT_COMMAND_ACCEPT - WEFTI_COMMAND_FIRST] = wefti_command_accept,
        [WEFT_COMMAND_READ - WEFTI_COMMAND_FIRST] = wefti_command_read,
        [WEFT_COMMAND_WRITE - WEFTI_COMMAND_FIRST] = wefti_command_write,
    };
    size_t at = command - WEFTI_COMMAND_FIRST;
    return at < sizeof handlers / sizeof *handlers ? handlers[at] : NULL;
}
