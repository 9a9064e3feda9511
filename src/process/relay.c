/* relay.c - relays: the nodes of a runtime, what is handed on to them, and what they deliver (relay.h has the design).
 *
 * Words.  node: an attached relay, by its number.  users: calls of its send function that are under way; the last one out of a detached node
 *         releases it.
 * Monitors.  A monitor of a process behind a node is a record in the node's table, and becomes the DOWN message.  It is taken out, under the
 *         lock, by the first of three: the DOWN parcel, the demonitor, the detach.  So the end is told once.  Our own processes that the
 *         other side monitors have a record in their list, as for any monitor (link.c), whose `to` is a pid of that node.
 */
#include "process/relay.h"

#include <string.h>

#include "base/known.h"
#include "fiber/slice.h"
#include "task/account.h"

#define BUCKETS 256u   /* of a node's monitors */
#define SWEEP_FROM                                                                                                     \
    64u /* monitors: then those of ended processes are thrown out, and whenever there are twice as many */

struct node {
    weft_relay relay;
    void *state;
    uint32_t users;
    bool attached;
    uint32_t monitors, sweep_at;
    struct wefti_message *bucket[BUCKETS];
};

struct wefti_relays {
    struct wefti_lock lock;
    unsigned last; /* node number that was given last */
    struct node *node[WEFT_NODE_MAX + 1]; /* by number; [0] is unused */
    bool used[WEFT_NODE_MAX + 1]; /* was ever attached */
};

/* -- Pids ------------------------------------------------------------------------------------------------------ */

unsigned weft_pid_node(weft_pid pid) { return wefti_pid_node(pid); }

static weft_pid with_node(weft_pid pid, unsigned node) {
    weft_pid bare = pid & ((UINT64_C(1) << WEFTI_PID_KIND_SHIFT) - 1);
    return (WEFTI_PID_KIND + node) << WEFTI_PID_KIND_SHIFT | bare;
}

/* Of a process of its own runtime. */
static bool is_bare(weft_pid pid) { return pid >> WEFTI_PID_KIND_SHIFT == WEFTI_PID_KIND; }

weft_pid weft_pid_theirs(weft_pid pid) { return pid >> WEFTI_PID_KIND_SHIFT ? with_node(pid, 0) : pid; }

weft_pid weft_relay_pid(unsigned node, weft_pid theirs) {
    return node && node <= WEFT_NODE_MAX && is_bare(theirs) ? with_node(theirs, node) : WEFT_PID_NONE;
}

/* -- Nodes ------------------------------------------------------------------------------------------------------ */

static struct wefti_relays *relays_of(struct wefti_processes *table) {
    wefti_lock_take(&table->lock);
    struct wefti_relays *relays = table->relays;
    wefti_lock_give(&table->lock);
    return relays;
}

static struct wefti_relays *make(struct wefti_processes *table) {
    wefti_lock_take(&table->lock);
    if (!table->relays)
        table->relays = wefti_alloc(sizeof *table->relays);
    struct wefti_relays *relays = table->relays;
    wefti_lock_give(&table->lock);
    return relays;
}

/* Nobody uses it any more. */
static void release(struct node *node) {
    if (node->relay.release)
        node->relay.release(node->state);
    wefti_free(node, sizeof *node);
}

/* A call begins: the node, which stays until leave.  NULL, and *error: why there is none. */
static struct node *enter(struct wefti_processes *table, unsigned number, int *error) {
    struct wefti_relays *relays = number && number <= WEFT_NODE_MAX ? relays_of(table) : NULL;
    *error = -ESRCH;
    if (!relays)
        return NULL;
    wefti_lock_take(&relays->lock);
    struct node *node = relays->node[number];
    if (node)
        node->users++;
    else if (relays->used[number])
        *error = -EHOSTUNREACH;
    wefti_lock_give(&relays->lock);
    return node;
}

static void leave(struct wefti_processes *table, struct node *node) {
    struct wefti_relays *relays = relays_of(table);
    wefti_lock_take(&relays->lock);
    bool last = --node->users == 0 && !node->attached;
    wefti_lock_give(&relays->lock);
    if (last)
        release(node);
}

/* In a call that has entered. */
static int hand_on(struct node *node, const weft_parcel *parcel) {
    int error = node->relay.send(node->state, parcel);
    return error < 0 ? error : 0;
}

static int send_to_node(struct wefti_processes *table, unsigned number, const weft_parcel *parcel) {
    int error;
    struct node *node = enter(table, number, &error);
    if (!node)
        return error;
    error = hand_on(node, parcel);
    leave(table, node);
    return error;
}

int wefti_relay_send(struct wefti_processes *table, weft_pid to, struct wefti_message *message) {
    unsigned number = wefti_pid_node(to);
    if (WEFTI_LIKELY(!number))
        return -ESRCH;
    weft_message shown;
    wefti_message_show(message, &shown);
    weft_parcel parcel = WEFT_PARCEL_INIT;
    parcel.type = message->is_reply ? WEFT_PARCEL_REPLY : WEFT_PARCEL_MESSAGE;
    parcel.to = with_node(to, 0);
    parcel.from = is_bare(shown.from) ? shown.from : WEFT_PID_NONE;
    parcel.tag = shown.tag;
    parcel.data = shown.data;
    parcel.data_size = shown.size;
    int error = send_to_node(table, number, &parcel);
    if (!error)
        wefti_message_free(table, message);
    return error;
}

/* Offer a message for a name that is not known here to all relays but one.  parcel->hops: those that it has passed. */
static int send_by_name(struct wefti_processes *table, unsigned but, const weft_parcel *parcel) {
    if (!relays_of(table))
        return -ESRCH;
    if (parcel->hops >= WEFT_RELAY_HOPS_MAX)
        return -ELOOP;
    int result = -ESRCH; /* or the first failure of a relay behind which the name may be */
    for (unsigned number = 1; number <= WEFT_NODE_MAX; number++) {
        int none;
        struct node *node = number == but ? NULL : enter(table, number, &none);
        if (!node)
            continue;
        int error = node->relay.takes_names ? hand_on(node, parcel) : -ESRCH;
        leave(table, node);
        if (error != -ESRCH && error != -EHOSTUNREACH && error != -ENOTCONN)
            return error;
        result = result == -ESRCH ? error : result;
    }
    return result;
}

int weft_send_name(weft_runtime *rt, const char *name, uint64_t tag, const void *data, size_t size) {
    wefti_slice_use_heavy(WEFT_NEVER);
    struct wefti_worker *w = wefti_worker_self();
    rt = rt ? rt : w ? w->rt : NULL;
    if (!rt || !name || !*name || strlen(name) >= WEFTI_NAME_SIZE)
        return wefti_no_process();
    weft_pid pid = weft_whereis(rt, name);
    int error = pid ? weft_send(rt, pid, tag, data, size) : -ESRCH;
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (error != -ESRCH || !table)
        return table ? error : wefti_no_processes(rt, -ESRCH);
    if (size > UINT32_MAX)
        return -EMSGSIZE;
    struct wefti_process *self = wefti_process_self();
    weft_parcel parcel = WEFT_PARCEL_INIT;
    parcel.from = self && self->table == table ? wefti_process_pid(self) : WEFT_PID_NONE;
    parcel.name = name;
    parcel.tag = tag;
    parcel.data = data;
    parcel.data_size = size;
    return send_by_name(table, 0, &parcel);
}

/* -- Monitors of processes behind a node: under the lock --------------------------------------------------------- */

static struct wefti_message *next_of(struct wefti_message *record) { return wefti_message_of(record->link.next); }

static struct wefti_message **bucket_of(struct node *node, weft_pid to, uint64_t monitor) {
    uint64_t hash = (to ^ monitor * UINT64_C(0xC2B2AE3D27D4EB4F)) * UINT64_C(0x9E3779B97F4A7C15);
    return &node->bucket[(hash >> 32) % BUCKETS];
}

static void push(struct wefti_message **list, struct wefti_message *record) {
    record->link.next = *list ? &(*list)->link : NULL;
    *list = record;
}

/* pid WEFT_PID_NONE: whoever it is about. */
static struct wefti_message *take_monitor(struct node *node, weft_pid pid, weft_pid to, uint64_t monitor) {
    struct wefti_message **list = bucket_of(node, to, monitor), *record = *list, *before = NULL;
    while (record && !(record->record.to == to && record->tag == monitor && (!pid || record->from == pid))) {
        before = record;
        record = next_of(record);
    }
    if (!record)
        return NULL;
    if (before)
        before->link.next = record->link.next;
    else
        *list = next_of(record);
    node->monitors--;
    return record;
}

/* Those of processes that have ended, or (all) all of them. */
static struct wefti_message *take_monitors(struct wefti_processes *table, struct node *node, bool all) {
    struct wefti_message *taken = NULL;
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct wefti_message *record = node->bucket[i], *next;
        for (node->bucket[i] = NULL; record; record = next) {
            next = next_of(record);
            bool goes = all || !wefti_process_find(table, record->record.to);
            push(goes ? &taken : &node->bucket[i], record);
            node->monitors -= goes;
        }
    }
    node->sweep_at = node->monitors < SWEEP_FROM / 2 ? SWEEP_FROM : 2 * node->monitors;
    return taken;
}

/* -- Monitors ---------------------------------------------------------------------------------------------------- */

static int send_monitor(struct node *node, weft_parcel_type type, const struct wefti_message *record) {
    weft_parcel parcel = WEFT_PARCEL_INIT;
    parcel.type = type;
    parcel.to = with_node(record->from, 0);
    parcel.from = record->record.to;
    parcel.tag = record->tag;
    return hand_on(node, &parcel);
}

int wefti_relay_monitor(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor) {
    int error;
    struct node *node = enter(table, wefti_pid_node(pid), &error);
    if (!node)
        return error;
    struct wefti_message *record = wefti_message_new(table, WEFT_MESSAGE_DOWN, monitor, NULL, 0), *ended = NULL;
    if (!record) {
        leave(table, node);
        return -ENOMEM;
    }
    record->from = pid;
    record->record.to = to;
    struct wefti_message sent = *record; /* once it is in the table, it may be taken out and told */
    struct wefti_relays *relays = relays_of(table);
    wefti_lock_take(&relays->lock);
    bool attached = node->attached;
    if (attached) {
        if (WEFTI_UNLIKELY(node->monitors >= node->sweep_at))
            ended = take_monitors(table, node, false);
        push(bucket_of(node, to, monitor), record);
        node->monitors++;
    }
    wefti_lock_give(&relays->lock);
    for (struct wefti_message *next; ended; ended = next) {
        next = next_of(ended);
        (void)send_monitor(node, WEFT_PARCEL_DEMONITOR, ended); /* if refused: a DOWN will come, and be ignored */
        wefti_message_free(table, ended);
    }
    error = attached ? send_monitor(node, WEFT_PARCEL_MONITOR, &sent) : -EHOSTUNREACH;
    if (error && attached) {
        wefti_lock_take(&relays->lock);
        record = take_monitor(node, pid, to, monitor);
        wefti_lock_give(&relays->lock);
    }
    leave(table, node);
    if (!error)
        return 0;
    if (record)
        wefti_message_free(table, record);
    return record ? error : 0; /* 0: it was detached meanwhile, and the end has been told */
}

bool wefti_relay_demonitor(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor) {
    unsigned first = pid ? wefti_pid_node(pid) : 1, last = pid ? first : WEFT_NODE_MAX;
    struct wefti_relays *relays = relays_of(table);
    for (unsigned number = first; relays && number <= last; number++) {
        int none;
        struct node *node = enter(table, number, &none);
        if (!node)
            continue;
        wefti_lock_take(&relays->lock);
        struct wefti_message *record = take_monitor(node, pid, to, monitor);
        wefti_lock_give(&relays->lock);
        if (record)
            (void)send_monitor(node, WEFT_PARCEL_DEMONITOR, record); /* if refused: as in wefti_relay_monitor */
        leave(table, node);
        if (record) {
            wefti_message_free(table, record);
            return true;
        }
    }
    return false;
}

/* Takes the node off its number, unless another is there by now.  All that monitor a process behind it are told. */
static bool detach(struct wefti_processes *table, unsigned number, const struct node *which, int reason) {
    struct wefti_relays *relays = relays_of(table);
    struct wefti_message *monitors = NULL;
    bool last = false;
    wefti_lock_take(&relays->lock);
    struct node *node = relays->node[number];
    if (which && node != which)
        node = NULL;
    if (node) {
        monitors = take_monitors(table, node, true);
        relays->node[number] = NULL;
        node->attached = false;
        last = node->users == 0;
    }
    wefti_lock_give(&relays->lock);
    for (struct wefti_message *next; monitors; monitors = next) {
        next = next_of(monitors);
        wefti_monitor_tell(table, monitors, reason ? reason : -EHOSTUNREACH);
    }
    if (last)
        release(node);
    return node != NULL;
}

/* Tells the other side of an end here, in a call that has entered.  If the relay does not take that, a process on the other side would wait for ever: the
 * relay is detached, so that its connection ends and that side learns of it.  A relay that knows that `to` is gone says -ESRCH, and stays. */
static int send_down(struct wefti_processes *table, struct node *node, weft_pid ended, weft_pid to, uint64_t tag,
                     int reason) {
    weft_parcel parcel = WEFT_PARCEL_INIT;
    parcel.type = WEFT_PARCEL_DOWN;
    parcel.error = reason;
    parcel.to = with_node(to, 0);
    parcel.from = ended;
    parcel.tag = tag;
    int error = hand_on(node, &parcel);
    if (!error || error == -ESRCH)
        return 0;
    detach(table, wefti_pid_node(to), node, error);
    return -ENOTCONN;
}

void wefti_relay_down(struct wefti_processes *table, struct wefti_message *record, int reason) {
    int none;
    struct node *node = enter(table, wefti_pid_node(record->record.to), &none);
    if (node) { /* else it was detached: the other side knows */
        (void)send_down(table, node, record->from, record->record.to, record->tag,
                        reason); /* it does what can be done */
        leave(table, node);
    }
    wefti_message_free(table, record);
}

bool wefti_relay_leads_to(struct wefti_processes *table, weft_pid pid) {
    struct wefti_relays *relays = relays_of(table);
    unsigned number = wefti_pid_node(pid);
    if (!relays || !number)
        return false;
    wefti_lock_take(&relays->lock);
    bool attached = relays->node[number] != NULL;
    wefti_lock_give(&relays->lock);
    return attached;
}

/* -- Attaching and detaching -------------------------------------------------------------------------------------- */

int weft_relay_attach(weft_runtime *rt, const weft_relay *given, void *state, unsigned *out) {
    if (!given || !out)
        return -EINVAL;
    weft_relay relay;
    int error = wefti_known_struct(given, offsetof(weft_relay, release), &relay, sizeof relay);
    if (error || !relay.send)
        return error ? error : -EINVAL;
    struct wefti_processes *table = wefti_processes_of(rt, true);
    struct wefti_relays *relays = table ? make(table) : NULL;
    struct node *node = relays ? wefti_alloc(sizeof *node) : NULL;
    if (!node)
        return wefti_no_processes(rt, -ENOMEM);
    node->relay = relay;
    node->state = state;
    node->attached = true;
    node->sweep_at = SWEEP_FROM;
    wefti_lock_take(&relays->lock);
    unsigned number = relays->last;
    for (unsigned i = 0; i < WEFT_NODE_MAX; i++) {
        number = number % WEFT_NODE_MAX + 1;
        if (!relays->node[number])
            break;
    }
    bool full = relays->node[number] != NULL;
    if (!full) {
        relays->node[number] = node;
        relays->used[number] = true;
        relays->last = number;
        *out = number;
    }
    wefti_lock_give(&relays->lock);
    if (full)
        wefti_free(node, sizeof *node);
    return full ? -ENOSPC : 0;
}

int weft_relay_detach(weft_runtime *rt, unsigned number, int reason) {
    if (reason > 0)
        return -EINVAL;
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (!table || !number || number > WEFT_NODE_MAX || !relays_of(table))
        return wefti_no_processes(rt, -ENOTCONN);
    return detach(table, number, NULL, reason) ? 0 : -ENOTCONN;
}

void wefti_relays_fini(struct wefti_processes *table) {
    struct wefti_relays *relays = relays_of(table);
    for (unsigned number = 1; relays && number <= WEFT_NODE_MAX; number++) {
        struct node *node = relays->node[number];
        if (!node)
            continue;
        struct wefti_message *left = take_monitors(table, node, true);
        for (struct wefti_message *next; left; left = next) { /* nobody is left to be told */
            next = next_of(left);
            wefti_message_free(table, left);
        }
        release(node);
    }
    if (relays)
        wefti_free(relays, sizeof *relays);
}

/* -- Delivering --------------------------------------------------------------------------------------------------- */

static int deliver_message(struct wefti_processes *table, unsigned number, const weft_parcel *parcel, weft_pid from,
                           int64_t until) {
    weft_pid to = parcel->to ? parcel->to : weft_whereis(table->rt, parcel->name);
    if (!to) {
        weft_parcel on = *parcel;
        on.from = WEFT_PID_NONE; /* its node has no number on the next side */
        on.hops = on.hops < WEFT_RELAY_HOPS_MAX ? on.hops + 1 : WEFT_RELAY_HOPS_MAX;
        return parcel->type == WEFT_PARCEL_MESSAGE ? send_by_name(table, number, &on) : -ESRCH;
    }
    int error = wefti_charge_channel_call(until);
    if (error)
        return error;
    struct wefti_message *message =
        wefti_message_new(table, WEFT_MESSAGE, parcel->tag, parcel->data, parcel->data_size);
    if (!message)
        return -ENOMEM;
    message->from = from;
    message->is_reply = parcel->type == WEFT_PARCEL_REPLY;
    error = wefti_message_send(table, wefti_worker_here(), to, message, until);
    if (error)
        wefti_message_free(table, message);
    return error;
}

/* A monitor that cannot be had is an end that is told at once, with the reason: no such process, or no memory. */
static int deliver_monitor(struct wefti_processes *table, struct node *node, const weft_parcel *parcel, weft_pid from) {
    int error = wefti_monitor_add(table, parcel->to, from, parcel->tag, NULL);
    return error ? send_down(table, node, parcel->to, from, parcel->tag, error) : 0;
}

static int deliver_demonitor(struct wefti_processes *table, const weft_parcel *parcel, weft_pid from) {
    struct wefti_process *process = wefti_process_lock(table, parcel->to);
    if (!process)
        return 0; /* its end is on its way, and will be ignored */
    struct wefti_message *record = wefti_record_find(process, from, parcel->tag);
    if (record)
        wefti_record_take(process, record);
    wefti_lock_give(&process->lock);
    if (record)
        wefti_message_free(table, record);
    return 0;
}

static int deliver_down(struct wefti_processes *table, struct node *node, const weft_parcel *parcel, weft_pid from) {
    struct wefti_relays *relays = relays_of(table);
    wefti_lock_take(&relays->lock);
    struct wefti_message *record = take_monitor(node, from, parcel->to, parcel->tag);
    wefti_lock_give(&relays->lock);
    if (record)
        wefti_monitor_tell(table, record, parcel->error);
    return 0; /* without a record: it was taken back */
}

/* Is it what a relay may deliver? */
static bool is_well_formed(const weft_parcel *parcel, unsigned node) {
    bool message = parcel->type == WEFT_PARCEL_MESSAGE || parcel->type == WEFT_PARCEL_REPLY;
    if ((unsigned)parcel->type < WEFT_PARCEL_MESSAGE || (unsigned)parcel->type > WEFT_PARCEL_DOWN ||
        parcel->error > 0 || (parcel->data_size && !parcel->data))
        return false;
    if (parcel->to ? !is_bare(parcel->to) : !parcel->name || !message)
        return false;
    if (parcel->name && (!*parcel->name || strlen(parcel->name) >= WEFTI_NAME_SIZE))
        return false;
    if (!node)
        return parcel->type == WEFT_PARCEL_MESSAGE && !parcel->from;
    return message ? !parcel->from || is_bare(parcel->from)
                   : is_bare(parcel->from) && (parcel->tag & WEFT_TAG_RESERVED);
}

int weft_relay_deliver(weft_runtime *rt, unsigned number, const weft_parcel *given, weft_deadline until) {
    wefti_slice_use_heavy(until);
    if (!given)
        return -EINVAL;
    weft_parcel parcel;
    int error = wefti_known_struct(given, sizeof parcel, &parcel, sizeof parcel);
    if (error || !is_well_formed(&parcel, number))
        return error ? error : -EINVAL;
    if (parcel.data_size > UINT32_MAX)
        return -EMSGSIZE;
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (!table)
        return wefti_no_processes(rt, number ? -ENOTCONN : -ESRCH);
    struct node *node = number ? enter(table, number, &error) : NULL;
    if (number && !node)
        return -ENOTCONN;
    weft_pid from = parcel.from ? with_node(parcel.from, number) : WEFT_PID_NONE;
    if (parcel.type == WEFT_PARCEL_MONITOR)
        error = deliver_monitor(table, node, &parcel, from);
    else if (parcel.type == WEFT_PARCEL_DEMONITOR)
        error = deliver_demonitor(table, &parcel, from);
    else if (parcel.type == WEFT_PARCEL_DOWN)
        error = deliver_down(table, node, &parcel, from);
    else
        error = deliver_message(table, number, &parcel, from, until);
    if (node)
        leave(table, node);
    return error;
}
