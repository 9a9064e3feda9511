/* table.c - the table of a runtime's processes: slots, pids, finding (process.h has the design). */
#include "process/process.h"

#define PID_KIND UINT64_C(1) /* in the highest byte */
#define PID_KIND_SHIFT 56

static struct wefti_processes *table_of(struct wefti_annex *annex) {
    return (struct wefti_processes *)(void *)annex; /* its first field */
}

static int end(struct wefti_annex *annex) {
    struct wefti_processes *table = table_of(annex);
    for (uint32_t i = 0; i < WEFTI_PROCESS_CHUNKS; i++) {
        struct wefti_process *chunk = load_own(&table->chunk[i]);
        if (chunk)
            wefti_free(chunk, WEFTI_PROCESS_CHUNK * sizeof *chunk);
    }
    wefti_names_fini(table->names);
    wefti_handlers_fini(load_own(&table->handlers));
    wefti_nodes_fini(&table->nodes);
    wefti_free(table, sizeof *table);
    return 0;
}

/* W35: everyone is asked to end, once.  Who appears while we walk finds the runtime's new phase: the locks order the two. */
static void closing(struct wefti_annex *annex) {
    struct wefti_processes *table = table_of(annex);
    wefti_lock_take(&table->lock);
    uint32_t made = table->made;
    wefti_lock_give(&table->lock);
    for (uint32_t i = 0; i < made; i++) {
        struct wefti_process *process = wefti_process_at(table, i);
        wefti_lock_take(&process->lock);
        weft_pid pid = process->alive && !process->told ? wefti_process_pid(process) : WEFT_PID_NONE;
        process->told = true;
        wefti_lock_give(&process->lock);
        if (pid)
            wefti_mailbox_tell(table, pid, WEFT_MESSAGE_CANCEL, 0, WEFT_PID_NONE, -ESHUTDOWN, NULL, 0);
    }
}

static struct wefti_processes *make_table(struct weft_runtime *rt) {
    struct wefti_processes *table = wefti_alloc(sizeof *table);
    if (!table)
        return NULL;
    table->annex = (struct wefti_annex){closing, NULL, NULL, end};
    table->rt = rt;
    table->blocked = wefti_reason(rt, "a command");
    struct wefti_annex *there = wefti_annex_hang(rt, WEFTI_ANNEX_PROCESSES, &table->annex);
    if (there != &table->annex)
        wefti_free(table, sizeof *table);
    return table_of(there);
}

struct wefti_processes *wefti_processes_of(struct weft_runtime *rt, bool make) {
    struct wefti_worker *w = wefti_worker_self();
    if (!rt && !(rt = w ? w->rt : NULL))
        return NULL;
    struct wefti_annex *there = wefti_annex(rt, WEFTI_ANNEX_PROCESSES);
    return there || !make ? table_of(there) : make_table(rt);
}

weft_pid wefti_process_pid(const struct wefti_process *process) {
    uint64_t generation = load_relaxed((_Atomic uint32_t *)(uintptr_t)&process->generation); /* the lock, or our own */
    return PID_KIND << PID_KIND_SHIFT | generation << WEFTI_PROCESS_INDEX_BITS | process->index;
}

struct wefti_process *wefti_process_take(struct wefti_processes *table) {
    wefti_lock_take(&table->lock);
    struct wefti_process *process = table->free;
    if (process) {
        table->free = process->next_free;
    } else if (table->made / WEFTI_PROCESS_CHUNK < WEFTI_PROCESS_CHUNKS) {
        uint32_t made = table->made, at = made / WEFTI_PROCESS_CHUNK;
        struct wefti_process *chunk = load_own(&table->chunk[at]);
        if (!chunk && (chunk = wefti_alloc(WEFTI_PROCESS_CHUNK * sizeof *chunk))) {
            for (uint32_t i = 0; i < WEFTI_PROCESS_CHUNK; i++) {
                chunk[i].index = made + i;
                chunk[i].table = table;
                store_relaxed(&chunk[i].generation, 1); /* published with the chunk */
            }
            store_release(&table->chunk[at], chunk); /* pairs with at */
        }
        if (chunk) {
            process = &chunk[made % WEFTI_PROCESS_CHUNK];
            table->made++;
        }
    }
    wefti_lock_give(&table->lock);
    return process;
}

void wefti_process_give(struct wefti_process *process) {
    struct wefti_processes *table = process->table;
    if (load_own(&process->generation) == 0)
        return; /* all its pids are used up */
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
    struct wefti_process *process =
        table && pid >> PID_KIND_SHIFT == PID_KIND ? wefti_process_at(table, wefti_pid_index(pid)) : NULL;
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
