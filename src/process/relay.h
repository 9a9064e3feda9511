/* relay.h - what sending, monitors and the end of processes need of relays.  Internal.
 *
 * What.   A pid's highest byte is 1 for a process of the runtime, and node + 1 for one behind a relay.  Every lookup compares whole pids, so a
 *         pid of another node is found nowhere: only then, on the path that would return -ESRCH, is it handed on.
 * Lock.   wefti_relays.lock: the table of nodes, their users and monitors.  Taken last: no other lock is taken under it, and no
 *         user's function is called.  Where the table is, the lock of the processes' table says, which is given back first.
 */
#ifndef WEFTI_PROCESS_RELAY_H
#define WEFTI_PROCESS_RELAY_H

#include <weft/relay.h>

#include "process/process.h"

static inline unsigned wefti_pid_node(weft_pid pid) {
    unsigned kind = (unsigned)(pid >> WEFTI_PID_KIND_SHIFT);
    return kind > WEFTI_PID_KIND ? kind - (unsigned)WEFTI_PID_KIND : 0;
}

/* No process here has that pid.  If it is one of another node, its relay gets the message, which is freed; else -ESRCH.  On an error the
 * message is still the caller's. */
int wefti_relay_send(struct wefti_processes *table, weft_pid to, struct wefti_message *message);

/* The process `to`, of this runtime, monitors `pid`, of another node.  0; a negative error: nothing will be told. */
int wefti_relay_monitor(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor);
/* False: the end has been told, or is being told.  pid WEFT_PID_NONE: of whichever node. */
bool wefti_relay_demonitor(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor);
/* A process here has ended, and the record tells a process of another node: it is sent, and freed. */
void wefti_relay_down(struct wefti_processes *table, struct wefti_message *record, int reason);
/* Is there still a relay to that pid's node? */
bool wefti_relay_leads_to(struct wefti_processes *table, weft_pid pid);

/* At the end of the runtime. */
void wefti_relays_fini(struct wefti_processes *table);

#endif
