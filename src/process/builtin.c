/* builtin.c - the table of the library's own commands, and those of them that complete at once. */
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

/* JOIN, LEAVE: the group's name, for the process that asks. */
static int join_or_leave(const weft_command *command, void *arg) {
    (void)arg;
    char group[WEFTI_NAME_SIZE] = {0};
    if (!command->size || command->size >= sizeof group || memchr(command->data, 0, command->size))
        return -EINVAL;
    memcpy(group, command->data, command->size);
    int error = command->command == WEFT_COMMAND_GROUP_JOIN ? weft_group_join(command->rt, group, command->from)
                                                            : weft_group_leave(command->rt, group, command->from);
    return wefti_command_done(command, error, NULL, 0);
}

static int publish(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_publish *asked = command->data;
    if (command->size < sizeof *asked || !memchr(asked->group, 0, sizeof asked->group))
        return -EINVAL;
    int count = weft_publish(command->rt, asked->group, asked->tag, asked + 1, command->size - sizeof *asked);
    return wefti_command_done(command, count < 0 ? count : 0, &count, sizeof count);
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
        [WEFT_COMMAND_STREAM_OPEN - WEFTI_COMMAND_FIRST] = wefti_command_stream_open,
        [WEFT_COMMAND_STREAM_READ - WEFTI_COMMAND_FIRST] = wefti_command_stream_read,
        [WEFT_COMMAND_STREAM_WRITE - WEFTI_COMMAND_FIRST] = wefti_command_stream_write,
        [WEFT_COMMAND_STREAM_CLOSE - WEFTI_COMMAND_FIRST] = wefti_command_stream_close,
        [WEFT_COMMAND_HTTP - WEFTI_COMMAND_FIRST] = wefti_command_http,
        [WEFT_COMMAND_GROUP_JOIN - WEFTI_COMMAND_FIRST] = join_or_leave,
        [WEFT_COMMAND_GROUP_LEAVE - WEFTI_COMMAND_FIRST] = join_or_leave,
        [WEFT_COMMAND_PUBLISH - WEFTI_COMMAND_FIRST] = publish,
        [WEFT_COMMAND_ASK - WEFTI_COMMAND_FIRST] = wefti_command_ask,
    };
    size_t at = command - WEFTI_COMMAND_FIRST;
    return at < sizeof handlers / sizeof *handlers ? handlers[at] : NULL;
}
