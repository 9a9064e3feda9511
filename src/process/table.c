/* table.c - the table of a runtime's processes: slots, pids, finding (process.h has the design). */
#include "process/process.h"

#define PID_KIND UINT64_C(1) /* in the highest byte */

static void fini(struct wefti_extension *extension) {
    struct wefti_processes *table = (struct wefti_processes *)(void *)extension; /* its first field */
    for (uint32_t i = 0; i < WEFTI_PROCESS_CHUNKS; i++) {
        struct wefti_process *chunk = load_own(&table->chunk[i]);
        if (chunk)
            wefti_free(chunk, WEFTI_PROCESS_CHUNK * sizeof *chunk);
    }
    wefti_names_fini(table->names);
    wefti_handlers_fini(load_own(&table->handlers));
    wefti_nodes_fini(&table->nodes);
    wefti_free(table, sizeof *table);
}

/* W35: everyone is asked to end. */
static void closing(struct wefti_extension *extension) {
    struct wefti_processes *table = (struct wefti_processes *)(void *)extension; /* its first field */
    uint32_t made = load_acquire(&table->made); /* pairs with wefti_process_take */
    for (uint32_t i = 0; i < made; i++) {
        struct wefti_process *process = &load_relaxed(&table->chunk[i / WEFTI_PROCESS_CHUNK])[i % WEFTI_PROCESS_CHUNK];
        wefti_lock_take(&process->lock);
        weft_pid pid = process->alive ? wefti_process_pid(process) : WEFT_PID_NONE;
        wefti_lock_give(&process->lock);
        if (pid)
            wefti_mailbox_tell(table, pid, WEFT_MESSAGE_CANCEL, 0, WEFT_PID_NONE, -ESHUTDOWN, NULL, 0);
    }
}

static struct wefti_processes *make_table(struct weft_runtime *rt) {
    struct wefti_processes *table = wefti_alloc(sizeof *table);
    struct wefti_extension *none = NULL;
    if (!table)
        return NULL;
    table->extension = (struct wefti_extension){fini, closing};
    table->rt = rt;
    store_relaxed(&table->next_monitor, 1);
    if (cas_acq_rel(&rt->processes, &none, &table->extension)) /* pairs with wefti_processes_of */
        return table;
    wefti_free(table, sizeof *table);
    return (struct wefti_processes *)(void *)none;
}

struct wefti_processes *wefti_processes_of(struct weft_runtime *rt, bool make) {
    struct wefti_worker *w = wefti_worker_self();
    if (!rt && !(rt = w ? w->rt : NULL))
        return NULL;
    struct wefti_extension *there = load_acquire(&rt->processes); /* pairs with make_table */
    return there || !make ? (struct wefti_processes *)(void *)there : make_table(rt);
}

weft_pid wefti_process_pid(const struct wefti_process *process) {
    uint64_t generation = load_relaxed((_Atomic uint32_t *)(uintptr_t)&process->generation); /* the lock, or our own */
    return PID_KIND << 56 | (generation & 0xffffff) << 32 | process->index;
}

struct wefti_process *wefti_process_take(struct wefti_processes *table) {
    wefti_lock_take(&table->lock);
    struct wefti_process *process = table->free;
    if (process) {
        table->free = process->next_free;
    } else {
        uint32_t made = load_own(&table->made), at = made / WEFTI_PROCESS_CHUNK;
        if (at < WEFTI_PROCESS_CHUNKS) {
            struct wefti_process *chunk = load_own(&table->chunk[at]);
            if (!chunk && (chunk = wefti_alloc(WEFTI_PROCESS_CHUNK * sizeof *chunk)))
                store_release(&table->chunk[at], chunk); /* pairs with find */
            if (chunk) {
                process = &chunk[made % WEFTI_PROCESS_CHUNK];
                process->index = made;
                process->table = table;
                store_relaxed(&process->generation, 1);
                store_relaxed(&process->messages, UINT64_C(1) << 48); /* published with `made`, and with the pid */
                store_relaxed(&process->system, UINT64_C(1) << 48);
                store_release(&table->made, made + 1); /* pairs with closing */
            }
        }
    }
    wefti_lock_give(&table->lock);
    return process;
}

void wefti_process_give(struct wefti_process *process) {
    struct wefti_processes *table = process->table;
    wefti_lock_take(&table->lock);
    process->next_free = table->free;
    table->free = process;
    wefti_lock_give(&table->lock);
}

struct wefti_process *wefti_process_at(struct wefti_processes *table, uint32_t index) {
    if (index / WEFTI_PROCESS_CHUNK >= WEFTI_PROCESS_CHUNKS)
        return NULL;
    struct wefti_process *chunk = load_acquire(&table->chunk[index / WEFTI_PROCESS_CHUNK]); /* pairs with take */
    return chunk ? &chunk[index % WEFTI_PROCESS_CHUNK] : NULL;
}

struct wefti_process *wefti_process_find(struct wefti_processes *table, weft_pid pid) {
    struct wefti_process *process = table && pid >> 56 == PID_KIND ? wefti_process_at(table, (uint32_t)pid) : NULL;
    return process && load_relaxed(&process->generation) == wefti_pid_generation(pid) ? process : NULL; /* a hint */
}

struct wefti_process *wefti_process_lock(struct wefti_processes *table, weft_pid pid) {
    struct wefti_process *process = wefti_process_find(table, pid);
    if (!process)
        return NULL;
    wefti_lock_take(&process->lock);
    if (process->alive && load_own(&process->generation) == wefti_pid_generation(pid))
        return process;
    wefti_lock_give(&process->lock);
    return NULL;
}
