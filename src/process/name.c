/* name.c - names of processes and groups of them: few, changed seldom, in a table under a lock. */
#include <string.h>

#include "process/process.h"

#define NAME_MAX_SIZE 64u
#define BUCKETS 256u
#define PUBLISH_FEW 64u /* members of a group that need no memory */

struct wefti_name {
    struct wefti_name *next; /* in its bucket */
    weft_pid pid;
    bool group;
    char text[NAME_MAX_SIZE];
};

struct wefti_names {
    struct wefti_name *bucket[BUCKETS];
};

static uint32_t hash(const char *text) {
    uint32_t value = 2166136261u;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value % BUCKETS;
}

/* The lock is held from here to unlock, when it succeeds. */
static int lock_names(struct weft_runtime *rt, const char *name, struct wefti_processes **out) {
    struct wefti_processes *table = wefti_processes_of(rt, true);
    if (!name || !*name || strlen(name) >= NAME_MAX_SIZE)
        return -EINVAL;
    if (!table)
        return rt || wefti_worker_self() ? -ENOMEM : -EINVAL;
    wefti_lock_take(&table->names_lock);
    if (!table->names && !(table->names = wefti_alloc(sizeof *table->names))) {
        wefti_lock_give(&table->names_lock);
        return -ENOMEM;
    }
    *out = table;
    return 0;
}

static int add(struct weft_runtime *rt, const char *name, weft_pid pid, bool group) {
    struct wefti_processes *table;
    struct wefti_name *entry = NULL;
    int error = lock_names(rt, name, &table);
    if (error)
        return error;
    struct wefti_name **bucket = &table->names->bucket[hash(name)];
    for (struct wefti_name *there = *bucket; there; there = there->next)
        if (there->group == group && !strcmp(there->text, name) && (!group || there->pid == pid))
            error = -EEXIST;
    /* Under both locks: a process that is alive here finds the name when it ends. */
    struct wefti_process *process = error ? NULL : wefti_process_lock(table, pid);
    if (!error)
        error = !process ? -ESRCH : !(entry = wefti_alloc(sizeof *entry)) ? -ENOMEM : 0;
    if (!error) {
        entry->next = *bucket;
        entry->pid = pid;
        entry->group = group;
        memcpy(entry->text, name, strlen(name) + 1);
        *bucket = entry;
        process->named = true;
    }
    if (process)
        wefti_lock_give(&process->lock);
    wefti_lock_give(&table->names_lock);
    return error;
}

/* Take out of a bucket what `name` (NULL: any) and `pid` (0: any) say.  How many. */
static int drop(struct wefti_name **at, const char *name, weft_pid pid, int group) {
    int count = 0;
    while (*at) {
        struct wefti_name *entry = *at;
        if ((name && strcmp(entry->text, name)) || (pid && entry->pid != pid) ||
            (group >= 0 && entry->group != (bool)group)) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        wefti_free(entry, sizeof *entry);
        count++;
    }
    return count;
}

static int remove_name(struct weft_runtime *rt, const char *name, weft_pid pid, bool group) {
    struct wefti_processes *table;
    int error = lock_names(rt, name, &table);
    if (error)
        return error;
    int count = drop(&table->names->bucket[hash(name)], name, pid, group);
    wefti_lock_give(&table->names_lock);
    return count ? 0 : -ESRCH;
}

void wefti_names_end(struct wefti_process *process, weft_pid pid) {
    struct wefti_processes *table = process->table;
    process->named = false;
    wefti_lock_take(&table->names_lock);
    for (uint32_t i = 0; i < BUCKETS; i++)
        drop(&table->names->bucket[i], NULL, pid, -1);
    wefti_lock_give(&table->names_lock);
}

void wefti_names_fini(struct wefti_names *names) {
    if (!names)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        drop(&names->bucket[i], NULL, WEFT_PID_NONE, -1);
    wefti_free(names, sizeof *names);
}

int weft_register(weft_runtime *rt, const char *name, weft_pid pid) { return add(rt, name, pid, false); }
int weft_unregister(weft_runtime *rt, const char *name) { return remove_name(rt, name, WEFT_PID_NONE, false); }
int weft_group_join(weft_runtime *rt, const char *group, weft_pid pid) { return add(rt, group, pid, true); }
int weft_group_leave(weft_runtime *rt, const char *group, weft_pid pid) { return remove_name(rt, group, pid, true); }

weft_pid weft_whereis(weft_runtime *rt, const char *name) {
    struct wefti_processes *table;
    weft_pid pid = WEFT_PID_NONE;
    if (lock_names(rt, name, &table))
        return WEFT_PID_NONE;
    for (struct wefti_name *entry = table->names->bucket[hash(name)]; entry; entry = entry->next)
        if (!entry->group && !strcmp(entry->text, name))
            pid = entry->pid;
    wefti_lock_give(&table->names_lock);
    return pid;
}

int weft_publish(weft_runtime *rt, const char *group, uint64_t tag, const void *data, size_t size) {
    weft_pid few[PUBLISH_FEW], *pids = few;
    size_t room = PUBLISH_FEW, count;
    struct wefti_processes *table;
    /* Nothing is sent under the lock: first the pids, into more room if there are many. */
    for (;;) {
        int error = lock_names(rt, group, &table);
        if (error)
            return error; /* at the first time only */
        count = 0;
        for (struct wefti_name *entry = table->names->bucket[hash(group)]; entry; entry = entry->next)
            if (entry->group && !strcmp(entry->text, group) && count++ < room)
                pids[count - 1] = entry->pid;
        wefti_lock_give(&table->names_lock);
        if (count <= room)
            break;
        if (pids != few)
            wefti_free(pids, room * sizeof *pids);
        room = count + count / 2;
        if (!(pids = wefti_alloc(room * sizeof *pids)))
            return -ENOMEM;
    }
    int sent = 0;
    for (size_t i = 0; i < count; i++)
        sent += weft_try_send(table->rt, pids[i], tag, data, size) == 0;
    if (pids != few)
        wefti_free(pids, room * sizeof *pids);
    return sent;
}
