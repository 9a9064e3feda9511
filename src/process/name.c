/* name.c - names of processes and groups of them: in a table under a lock, which grows with them.
 *
 * What.   A name has one member, a group any number.  Each process has a list of its own memberships, so that its end, and whatever is about one process,
 *         takes no longer when there are many names, or many members.
 * Who.    All of it, and wefti_rest(process)->names: under names_lock.  A process's list is empty before its slot has another owner.
 */
#include <string.h>

#include "fiber/slice.h"
#include "process/process.h"
#include "task/account.h"

#define BUCKETS 64u     /* at first */
#define PUBLISH_FEW 64u /* members of a group that need no memory */

struct wefti_member {
    struct wefti_name *of;
    weft_pid pid;
    struct wefti_member *next, *prev; /* of its name */
    struct wefti_member *also;        /* of its process */
};

struct wefti_name {
    struct wefti_name *next; /* in its bucket */
    struct wefti_member *members; /* at least one */
    size_t count;
    uint32_t hash;
    bool group;
    char text[WEFTI_NAME_SIZE];
};

struct wefti_names {
    struct wefti_name **bucket;
    uint32_t buckets, count;
};

static uint32_t hash_of(const char *text) {
    uint32_t value = 2166136261u;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

/* -- The table --------------------------------------------------------------------------------------------- */

static struct wefti_names *make(void) {
    struct wefti_names *names = wefti_alloc(sizeof *names);
    struct wefti_name **bucket = wefti_alloc(BUCKETS * sizeof *bucket);
    if (names && bucket) {
        names->bucket = bucket;
        names->buckets = BUCKETS;
        return names;
    }
    if (names)
        wefti_free(names, sizeof *names);
    if (bucket)
        wefti_free(bucket, BUCKETS * sizeof *bucket);
    return NULL;
}

/* Where it hangs, or would. */
static struct wefti_name **find(struct wefti_names *names, const char *text, bool group) {
    uint32_t hash = hash_of(text);
    struct wefti_name **at = &names->bucket[hash & (names->buckets - 1)];
    while (*at && ((*at)->hash != hash || (*at)->group != group || strcmp((*at)->text, text) != 0))
        at = &(*at)->next;
    return at;
}

/* Twice as many buckets, if there is memory. */
static void grow(struct wefti_names *names) {
    uint32_t more = 2 * names->buckets;
    struct wefti_name **bucket = more ? wefti_alloc(more * sizeof *bucket) : NULL;
    if (!bucket)
        return;
    for (uint32_t i = 0; i < names->buckets; i++)
        for (struct wefti_name *name = names->bucket[i], *next; name; name = next) {
            next = name->next;
            name->next = bucket[name->hash & (more - 1)];
            bucket[name->hash & (more - 1)] = name;
        }
    wefti_free(names->bucket, names->buckets * sizeof *bucket);
    names->bucket = bucket;
    names->buckets = more;
}

/* A new one, without members. */
static struct wefti_name *make_name(struct wefti_names *names, const char *text, bool group) {
    struct wefti_name *name = wefti_alloc(sizeof *name);
    if (!name)
        return NULL;
    if (names->count >= names->buckets)
        grow(names);
    name->hash = hash_of(text);
    name->group = group;
    memcpy(name->text, text, strlen(text) + 1);
    name->next = names->bucket[name->hash & (names->buckets - 1)];
    names->bucket[name->hash & (names->buckets - 1)] = name;
    names->count++;
    return name;
}

static void drop_name(struct wefti_names *names, struct wefti_name *name) {
    struct wefti_name **at = &names->bucket[name->hash & (names->buckets - 1)];
    while (*at != name)
        at = &(*at)->next;
    *at = name->next;
    names->count--;
    wefti_free(name, sizeof *name);
}

/* -- Members ----------------------------------------------------------------------------------------------- */

static void put_in(struct wefti_name *name, struct wefti_process *process, struct wefti_member *member, weft_pid pid) {
    *member = (struct wefti_member){name, pid, name->members, NULL, wefti_rest(process)->names};
    if (name->members)
        name->members->prev = member;
    name->members = member;
    name->count++;
    wefti_rest(process)->names = member;
}

/* Out of its process's list it is already; the last one takes its name with it. */
static void take_out(struct wefti_names *names, struct wefti_member *member) {
    struct wefti_name *name = member->of;
    *(member->prev ? &member->prev->next : &name->members) = member->next;
    if (member->next)
        member->next->prev = member->prev;
    wefti_free(member, sizeof *member);
    if (--name->count == 0)
        drop_name(names, name);
}

/* Where the membership of that name is in its process's list; *... NULL: there is none. */
static struct wefti_member **member_of(struct wefti_process *process, const struct wefti_name *name, weft_pid pid) {
    struct wefti_member **at = &wefti_rest(process)->names;
    while (*at && ((*at)->of != name || (*at)->pid != pid))
        at = &(*at)->also;
    return at;
}

/* -- Calls ------------------------------------------------------------------------------------------------- */

/* The lock is held from here to unlock, when it succeeds. */
static int lock_names(struct weft_runtime *rt, const char *name, struct wefti_processes **out) {
    struct wefti_processes *table = wefti_processes_of(rt, true);
    if (!name || !*name || strlen(name) >= WEFTI_NAME_SIZE)
        return -EINVAL;
    if (!table)
        return wefti_no_processes(rt, -ENOMEM);
    wefti_lock_take(&table->names_lock);
    if (!table->names && !(table->names = make())) {
        wefti_lock_give(&table->names_lock);
        return -ENOMEM;
    }
    *out = table;
    return 0;
}

static int add(struct weft_runtime *rt, const char *text, weft_pid pid, bool group) {
    struct wefti_processes *table;
    int error = lock_names(rt, text, &table);
    if (error)
        return error;
    struct wefti_name *name = *find(table->names, text, group);
    /* Under both locks: a process that is alive here finds the name when it ends. */
    struct wefti_process *process = name && !group ? NULL : wefti_process_lock(table, pid);
    struct wefti_member *member = NULL;
    if (name && !group)
        error = -EEXIST;
    else if (!process)
        error = -ESRCH;
    else if (name && *member_of(process, name, pid))
        error = -EEXIST;
    else if (!(member = wefti_alloc(sizeof *member)))
        error = -ENOMEM;
    else if (!name && !(name = make_name(table->names, text, group)))
        error = -ENOMEM;
    if (!error) {
        put_in(name, process, member, pid);
        process->named = true;
    } else if (member) {
        wefti_free(member, sizeof *member);
    }
    if (process)
        wefti_lock_give(&process->lock);
    wefti_lock_give(&table->names_lock);
    return error;
}

/* pid WEFT_PID_NONE: whoever has it. */
static int remove_name(struct weft_runtime *rt, const char *text, weft_pid pid, bool group) {
    struct wefti_processes *table;
    int error = lock_names(rt, text, &table);
    if (error)
        return error;
    struct wefti_name *name = *find(table->names, text, group);
    pid = pid || !name ? pid : name->members->pid;
    struct wefti_process *process = name ? wefti_process_at(table, wefti_pid_index(pid)) : NULL;
    struct wefti_member **at = process ? member_of(process, name, pid) : NULL, *member = at ? *at : NULL;
    if (member) {
        *at = member->also;
        take_out(table->names, member);
    }
    wefti_lock_give(&table->names_lock);
    return member ? 0 : -ESRCH;
}

void wefti_names_end(struct wefti_process *process) {
    process->named = false;
    for (struct wefti_member *member; (member = wefti_rest(process)->names);) {
        wefti_rest(process)->names = member->also;
        take_out(process->table->names, member);
    }
}

void wefti_names_fini(struct wefti_names *names) {
    if (!names)
        return;
    for (uint32_t i = 0; i < names->buckets; i++)
        while (names->bucket[i])
            take_out(names, names->bucket[i]->members); /* nobody is left to have a list */
    wefti_free(names->bucket, names->buckets * sizeof(struct wefti_name *));
    wefti_free(names, sizeof *names);
}

int weft_register(weft_runtime *rt, const char *name, weft_pid pid) { return add(rt, name, pid, false); }
int weft_unregister(weft_runtime *rt, const char *name) { return remove_name(rt, name, WEFT_PID_NONE, false); }
int weft_group_join(weft_runtime *rt, const char *group, weft_pid pid) { return add(rt, group, pid, true); }
int weft_group_leave(weft_runtime *rt, const char *group, weft_pid pid) {
    return pid ? remove_name(rt, group, pid, true) : -ESRCH;
}

weft_pid weft_whereis(weft_runtime *rt, const char *text) {
    struct wefti_processes *table;
    if (lock_names(rt, text, &table))
        return WEFT_PID_NONE;
    struct wefti_name *name = *find(table->names, text, false);
    weft_pid pid = name ? name->members->pid : WEFT_PID_NONE;
    wefti_lock_give(&table->names_lock);
    return pid;
}

/* Sends to one member without waiting for room; a fiber that cannot pay for it waits for a recharge.  Returns 0, or an error of weft_try_send. */
static int send_to(struct wefti_processes *table, weft_pid pid, uint64_t tag, const void *data, size_t size) {
    wefti_slice_use_heavy(WEFT_NOW);
    int error = size > UINT32_MAX ? -EMSGSIZE : wefti_charge_channel_call(WEFT_NEVER);
    if (error)
        return error;
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE, tag, data, size);
    if (!message)
        return -ENOMEM;
    error = wefti_message_send(table, wefti_worker_here(), pid, message, WEFT_NOW);
    if (error)
        wefti_message_free(table, message);
    return error;
}

int weft_publish(weft_runtime *rt, const char *group, uint64_t tag, const void *data, size_t size) {
    wefti_slice_use_heavy(WEFT_NEVER);
    weft_pid few[PUBLISH_FEW], *pids = few;
    size_t room = PUBLISH_FEW, count;
    struct wefti_processes *table;
    /* Nothing is sent under the lock: first the pids, into more room if there are many. */
    for (;;) {
        int error = lock_names(rt, group, &table);
        if (error)
            return error; /* at the first time only */
        struct wefti_name *name = *find(table->names, group, true);
        count = name ? name->count : 0;
        size_t at = 0;
        for (struct wefti_member *member = count && count <= room ? name->members : NULL; member; member = member->next)
            pids[at++] = member->pid;
        wefti_lock_give(&table->names_lock);
        if (count <= room)
            break;
        if (pids != few)
            wefti_free(pids, room * sizeof *pids);
        room = count + count / 2;
        if (!(pids = wefti_alloc_raw(room * sizeof *pids)))
            return -ENOMEM;
    }
    int sent = 0;
    for (size_t i = 0; i < count; i++)
        sent += send_to(table, pids[i], tag, data, size) == 0;
    if (pids != few)
        wefti_free(pids, room * sizeof *pids);
    return sent;
}
