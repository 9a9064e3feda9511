/* table.c - the table of a runtime's processes: slots, pids, finding (process.h has the design). */
#include "plat/cache.h"
#include "process/relay.h"

/* In the model a chunk is less than a page. */
#define CHUNK_BYTES ((sizeof(struct wefti_process_chunk) + 4095) & ~(size_t)4095)
#define MAP_BYTES (WEFTI_BITS_WORDS(WEFTI_PROCESS_CHUNK) * sizeof(uint64_t))

static struct wefti_processes *table_of(struct wefti_annex *annex) {
    return (struct wefti_processes *)(void *)annex; /* its first field */
}

/* Of the runtime nobody is left: every node and every slot is where it is kept. */
static void check_all_back(struct wefti_processes *table) {
#ifdef WEFTI_DEBUG
    uint32_t nodes = 0, slots = 0;
    for (uint32_t i = 0; i < table->rt->workers; i++) {
        const struct wefti_worker *w = &table->rt->worker[i];
        nodes += w->messages.loaded.count + w->messages.spare.count;
        slots += w->slots.count;
    }
    for (uint32_t i = 0; i < WEFTI_PROCESS_CHUNKS; i++)
        slots += table->free[i].bits.count;
    for (uint32_t i = 0; i < table->made; i++)
        slots += !load_own(&wefti_process_at(table, i)->pid); /* all are used up */
    wefti_assert(nodes == table->nodes.out, table->nodes.out - nodes);
    wefti_assert(slots == table->made, table->made - slots);
#else
    (void)table;
#endif
}

static int end(struct wefti_annex *annex) {
    struct wefti_processes *table = table_of(annex);
    wefti_relays_fini(table);
    check_all_back(table);
    for (uint32_t i = 0; i < WEFTI_PROCESS_CHUNKS; i++) {
        struct wefti_process_chunk *chunk = load_own(&table->chunk[i]);
        if (!chunk)
            continue;
        wefti_unmap(chunk, CHUNK_BYTES);
        wefti_free(table->free[i].map, MAP_BYTES);
    }
    wefti_names_fini(table->names);
    wefti_handlers_fini(load_own(&table->handlers));
    wefti_nodes_fini(&table->nodes);
    wefti_free(table, sizeof *table);
    return 0;
}

bool wefti_process_tell_stop(struct wefti_processes *table, weft_pid pid) {
    struct wefti_process *process = wefti_process_lock(table, pid);
    if (!process)
        return false;
    bool tell = !process->told;
    process->told = true;
    wefti_lock_give(&process->lock);
    if (!tell || wefti_mailbox_tell(table, pid, WEFT_MESSAGE_CANCEL, 0, WEFT_PID_NONE, -ESHUTDOWN, NULL, 0) != -ENOMEM)
        return true;
    if ((process = wefti_process_lock(table, pid))) { /* another attempt may find memory */
        process->told = false;
        wefti_lock_give(&process->lock);
    }
    return false;
}

void wefti_processes_fence(struct wefti_processes *table) {
    if (!table->rt->heavy_fence || wefti_fence_heavy()) /* Z2, pairs with A2 */
        fence_seq_cst(); /* Z2, the same */
}

/* W35: everyone is asked to end, once.  Z1 is the runtime's new phase. */
static void closing(struct wefti_annex *annex) {
    struct wefti_processes *table = table_of(annex);
    weft_pid pid;
    wefti_processes_fence(table);
    for (uint32_t i = 0; wefti_process_visit(table, i, &pid, NULL); i++) /* Z3 */
        if (pid)
            wefti_process_tell_stop(table, pid);
}

bool wefti_process_visit(struct wefti_processes *table, uint32_t index, weft_pid *pid, bool *ending) {
    wefti_lock_take(&table->lock);
    bool made = index < table->made;
    wefti_lock_give(&table->lock);
    if (!made)
        return false;
    struct wefti_process *process = wefti_process_at(table, index);
    wefti_lock_take(&process->lock);
    *pid = wefti_process_is_there(process) ? wefti_process_pid(process) : WEFT_PID_NONE;
    if (ending)
        *ending = load_acquire(&process->ending); /* pairs with X2 */
    wefti_lock_give(&process->lock);
    return true;
}

static struct wefti_processes *make_table(struct weft_runtime *rt) {
    struct wefti_processes *table = wefti_alloc(sizeof *table);
    if (!table)
        return NULL;
    table->annex = (struct wefti_annex){closing, NULL, NULL, end, wefti_process_describe};
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
    if (!w && WEFTI_UNLIKELY(wefti_is_forked())) /* no process runs in a forked child, and its locks may be held */
        return NULL;
    struct wefti_annex *there = wefti_annex(rt, WEFTI_ANNEX_PROCESSES);
    return there || !make ? table_of(there) : make_table(rt);
}

int wefti_no_process(void) { return wefti_is_forked() ? -ENOTRECOVERABLE : -EINVAL; }

int wefti_no_processes(const struct weft_runtime *rt, int error) {
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    return rt || wefti_worker_self() ? error : -EINVAL;
}

/* -- Slots ------------------------------------------------------------------------------------------------- */

/* Worker w's own, or NULL. */
static struct wefti_chain *cache_of(struct wefti_processes *table, struct wefti_worker *w) {
    return w && w->rt == table->rt && WEFTI_PROCESS_CACHE > 1 ? &w->slots : NULL;
}

static struct wefti_process *process_of(struct wefti_link *free) {
    return (struct wefti_process *)(void *)((char *)free - offsetof(struct wefti_process, free));
}

/* Under the lock: a chunk, and its map. */
static struct wefti_process_chunk *make_chunk(struct wefti_processes *table, uint32_t at) {
    struct wefti_process_chunk *chunk = wefti_map(CHUNK_BYTES);
    if (!chunk)
        return NULL;
    if (!(table->free[at].map = wefti_alloc(MAP_BYTES))) {
        wefti_unmap(chunk, CHUNK_BYTES);
        return NULL;
    }
    wefti_map_large(chunk->process, sizeof chunk->process, at * sizeof chunk->process);
    wefti_map_large(chunk->rest, sizeof chunk->rest, 0); /* few need it */
    store_relaxed(&table->chunk[at], chunk); /* nothing is in it yet */
    return chunk;
}

/* Under the lock: up to so many that were never used. */
static void make_slots(struct wefti_processes *table, struct wefti_chain *into, uint32_t count) {
    for (; count && table->made / WEFTI_PROCESS_CHUNK < WEFTI_PROCESS_CHUNKS; count--) {
        uint32_t made = table->made, at = made / WEFTI_PROCESS_CHUNK;
        struct wefti_process_chunk *chunk = load_own(&table->chunk[at]);
        if (!chunk && !(chunk = make_chunk(table, at)))
            return;
        struct wefti_process *process = &chunk->process[made % WEFTI_PROCESS_CHUNK]; /* zeroed: nobody finds it yet */
        wefti_map_ahead(chunk, (size_t)((char *)process - (char *)chunk), sizeof *process, sizeof chunk->process);
        process->table = table;
        store_relaxed(&process->pid, wefti_pid_of(1, made)); /* A1 publishes it */
        wefti_chain_append(into, &process->free);
        table->made++;
    }
}

/* Under the lock: up to so many free ones, in the order of their addresses (nodes.h says why). */
static void find_slots(struct wefti_processes *table, struct wefti_chain *into, uint32_t count) {
    uint32_t chunks = (table->made + WEFTI_PROCESS_CHUNK - 1) / WEFTI_PROCESS_CHUNK;
    for (; into->count < count && table->low < chunks; table->low += into->count < count) {
        struct wefti_process_chunk *chunk = load_own(&table->chunk[table->low]);
        struct wefti_bits *bits = &table->free[table->low].bits;
        while (into->count < count && bits->count)
            wefti_chain_append(into, &chunk->process[wefti_bits_take(bits, table->free[table->low].map)].free);
    }
}

/* Under the lock: nobody has it. */
static void free_slot(struct wefti_processes *table, struct wefti_link *slot) {
    uint32_t index = wefti_pid_index(load_own(&process_of(slot)->pid)), at = index / WEFTI_PROCESS_CHUNK;
    wefti_bits_add(&table->free[at].bits, table->free[at].map, index % WEFTI_PROCESS_CHUNK);
    table->low = at < table->low ? at : table->low;
}

static void fetch_slots(struct wefti_processes *table, struct wefti_chain *into, uint32_t count) {
    wefti_lock_take(&table->lock);
    find_slots(table, into, count);
    if (!into->count)
        make_slots(table, into, count);
    wefti_lock_give(&table->lock);
}

/* One more, if that may be. */
static bool admit(struct wefti_processes *table) {
    uint32_t most = table->rt->max_processes;
    if (WEFTI_LIKELY(!most) || add_relaxed(&table->counted, 1) < most) /* a count */
        return true;
    sub_relaxed(&table->counted, 1);
    return false;
}

/* The worker's are used up, or there is no worker: one, and for a worker the next ones. */
static __attribute__((noinline)) struct wefti_link *fetch_slot(struct wefti_processes *table,
                                                               struct wefti_chain *cache) {
    struct wefti_chain one = {NULL, NULL, 0}, *from = cache ? cache : &one;
    fetch_slots(table, from, cache ? WEFTI_PROCESS_CACHE : 1);
    return wefti_chain_take(from);
}

int wefti_process_take(struct wefti_processes *table, struct wefti_worker *w, bool own, struct wefti_process **out) {
    if (WEFTI_LIKELY(!own) && !admit(table))
        return -EDQUOT;
    struct wefti_chain *cache = cache_of(table, w);
    struct wefti_link *slot =
        WEFTI_LIKELY(cache && cache->count) ? wefti_chain_take_first(cache) : fetch_slot(table, cache);
    if (WEFTI_UNLIKELY(!slot)) {
        if (table->rt->max_processes && !own)
            sub_relaxed(&table->counted, 1); /* a count, as in admit */
        return -ENOMEM;
    }
    *out = process_of(slot);
    if (cache && cache->count) { /* the next, by the time it is wanted */
        wefti_fetch_own(process_of(cache->first));
        wefti_fetch_own(cache->first);
    }
    (*out)->own = own;
    return 0;
}

/* The worker has enough of them, or there is no worker. */
static __attribute__((noinline)) void return_slots(struct wefti_processes *table, struct wefti_chain *cache,
                                                   struct wefti_link *slot) {
    wefti_lock_take(&table->lock);
    free_slot(table, slot);
    for (uint32_t i = 0; cache && i < WEFTI_PROCESS_CACHE; i++)
        free_slot(table, wefti_chain_take(cache));
    wefti_lock_give(&table->lock);
}

/* The next owner's.  The generation's lower bits are not 0, which is the closed lane's; when all are used up, the slot is. */
static weft_pid next_pid(struct wefti_process *process) {
    weft_pid pid = load_own(&process->pid);
    uint32_t next = wefti_pid_generation(pid) + 1;
    next += (next & WEFTI_LANE_TAG) == 0 && next != 0;
    pid = next ? wefti_pid_of(next, wefti_pid_index(pid)) : WEFT_PID_NONE;
    store_relaxed(&process->pid, pid); /* a hint to find; who has the lock finds it not alive, or A1 publishes it */
    return pid;
}

void wefti_process_give(struct wefti_process *process, struct wefti_worker *w) {
    struct wefti_processes *table = process->table;
    if (table->rt->max_processes && !process->own)
        sub_relaxed(&table->counted, 1); /* a count */
    weft_pid next = next_pid(process);
    store_release(&process->ending, false); /* X2, pairs with wefti_process_visit: release functions have returned */
    if (!next)
        return; /* all are used up */
    struct wefti_chain *cache = cache_of(table, w);
    if (WEFTI_LIKELY(cache && cache->count < 2 * WEFTI_PROCESS_CACHE))
        wefti_nodes_push(cache, &process->free); /* the newest first: it is in our caches still */
    else
        return_slots(table, cache, &process->free);
}

/* -- How many ---------------------------------------------------------------------------------------------- */

uint64_t weft_process_count(weft_runtime *rt) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (!table)
        return 0;
    uint64_t sum = load_relaxed(&table->alive); /* figures */
    for (uint32_t i = 0; i < table->rt->workers; i++)
        sum += load_relaxed(&table->rt->worker[i].counters.processes);
    return (int64_t)sum > 0 ? sum : 0; /* an end may be seen before its beginning */
}

struct wefti_process *wefti_process_lock(struct wefti_processes *table, weft_pid pid) {
    struct wefti_process *process = wefti_process_find(table, pid);
    if (!process)
        return NULL;
    wefti_lock_take(&process->lock);
    if (wefti_process_is_there(process) && load_own(&process->pid) == pid)
        return process;
    wefti_lock_give(&process->lock);
    return NULL;
}
