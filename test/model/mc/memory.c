/* memory.c - atomics: a machine of messages and views that does what C11 (with C++20's release sequences)
 * allows, except load buffering.
 *
 * Words.  location: 1 to 8 bytes that are accessed atomically.  message: one store to it, numbered by a
 *         timestamp in modification order.  view: for each location the oldest message still readable, and for
 *         each thread how far its plain accesses are known (the clocks).
 * Rules.  cur is what the thread knows.  A load may return any message not older than cur, and raises cur to it.
 *         An acquiring load adds the message's view to cur, a relaxed one to acq, which an acquire fence adds
 *         to cur.  A releasing store gives its message a copy of cur, a relaxed one gives it rel, the copy made by
 *         the last release fence.  A read-modify-write reads the last message and passes on its view (the
 *         release sequence); a later store by the same thread does not.
 *         Fences: fence.c.  A seq_cst access may not go behind what seq_cst fences share, and a store raises it there.
 * Not covered.  Load buffering.  Stores that are placed before existing messages in modification order (2+2W).
 *         Orders of seq_cst operations that no execution in time has (psc_ar in litmus_table.c).  Messages more than MC_RING back.
 */
#include "view.h"

struct message {
    uint64_t value;
    const struct mc_view *view; /* NULL: nothing known */
};

struct location {
    uintptr_t addr;
    uint32_t next;  /* in the same 8 bytes of memory, or in the list of unused ones */
    uint16_t first; /* timestamp of the oldest message that counts: memory was new, or written plainly */
    uint16_t hi;    /* of the newest */
    uint16_t changed; /* of the newest that changed the value */
    uint8_t size;
    bool exclusive, shared, known; /* two threads compete for it: in this execution; says shared.c */
    bool anew;                                  /* take the value from memory at the next access */
    uint16_t read[MC_THREADS], wrote[MC_THREADS]; /* clock of each thread's last atomic access */
    struct message m[MC_RING];
};

static struct location *locs; /* [0] is not used */
static uint32_t loc_count, loc_unused;

void mc_memory_init(void) {
    locs = mc_reserve(MC_LOCS * sizeof *locs);
    mc_views_init();
    mc.order_view = mc_view_make();
    for (int i = 0; i < MC_THREADS; i++) {
        mc.t[i].cur = mc_view_make();
        mc.t[i].acq = mc_view_make();
    }
}

void mc_memory_reset(void) {
    for (uint32_t i = 1; i < loc_count; i++)
        locs[i].hi = 0;
    loc_count = 1;
    loc_unused = 0;
    mc_views_reset();
    mc_view_reset(mc.order_view);
}

/* -- Threads and their views ------------------------------------------------------------------------- */
static inline uint16_t clock_of(const struct mc_thread *t) { return t->cur->t[t - mc.t]; }

void mc_memory_spawn(struct mc_thread *child, struct mc_thread *parent) {
    mc_view_reset(child->cur);
    mc_view_reset(child->acq);
    child->rel = NULL;
    if (parent) {
        mc_view_join(child->cur, parent->cur);
        mc_tick(parent);
    }
    child->cur->t[child - mc.t] = 1; /* 0 is: knows nothing of that thread */
}

void mc_memory_join(struct mc_thread *thread, const struct mc_thread *ended) { mc_view_join(thread->cur, ended->cur); }

/* -- Locations --------------------------------------------------------------------------------------- */
uint64_t mc_peek(uintptr_t addr, int size) {
    uint64_t v = 0;
    memcpy(&v, (void *)addr, (size_t)size);
    return v;
}

static void poke(uintptr_t addr, int size, uint64_t value) {
    switch (size) {
    case 1: *(uint8_t *)addr = (uint8_t)value; break;
    case 2: *(uint16_t *)addr = (uint16_t)value; break;
    case 4: *(uint32_t *)addr = (uint32_t)value; break;
    default: *(uint64_t *)addr = value;
    }
}

/* Begin again with the value that is in memory.  Timestamps go on, so that views of the past stay below. */
static void restart(struct location *l) {
    if (unlikely(l->hi >= UINT16_MAX - 1))
        mc_fail_at(0, 0, "too many stores to one location");
    l->first = l->changed = ++l->hi;
    l->m[l->hi % MC_RING] = (struct message){mc_peek(l->addr, l->size), NULL};
    memset(l->read, 0, sizeof l->read);
    memset(l->wrote, 0, sizeof l->wrote);
    l->anew = false;
}

static struct location *make(struct mc_cell *cell, uintptr_t addr, int size, uintptr_t pc) {
    uint32_t id = loc_unused;
    if (id) {
        loc_unused = locs[id].next;
    } else {
        if (loc_count == MC_LOCS)
            mc_fail_at(pc, 0, "more than %d atomic locations", MC_LOCS - 1);
        id = loc_count++;
    }
    struct location *l = &locs[id];
    l->addr = addr;
    l->size = (uint8_t)size;
    l->next = cell->locs;
    cell->locs = id;
    l->exclusive = mc_is_exclusive(addr);
    l->shared = l->known = mc.mode == MC_BOUNDED && mc_shared_has(mc_shared_key(addr));
    restart(l);
    return l;
}

/* Did another thread use it, in a way that is not ordered with this access? */
static void look_for_rivals(struct location *l, bool write, uintptr_t pc) {
    const struct mc_view *cur = mc_me()->cur;
    for (int i = 0; i < mc.count; i++) {
        if (i == mc.run || (l->wrote[i] <= cur->t[i] && (!write || l->read[i] <= cur->t[i])))
            continue;
        if (l->exclusive)
            mc_fail_at(pc, 0, "not exclusive: atomic %s of %p by T%d is not ordered after a %s by T%d",
                       write ? "write" : "read", (void *)l->addr, mc.run, l->wrote[i] > cur->t[i] ? "write" : "read",
                       i);
        l->shared = true;
        mc_shared_add(mc_shared_key(l->addr));
        return;
    }
}

static struct location *find(uintptr_t addr, int size, bool write, uintptr_t pc) {
    if (unlikely(addr & (uintptr_t)(size - 1)))
        mc_fail_at(pc, 0, "atomic access of %d bytes to %p, which is not aligned", size, (void *)addr);
    struct mc_cell *cell = mc_cell_atomic(addr, size, write, pc);
    struct location *l = NULL;
    for (uint32_t id = cell->locs; id; id = locs[id].next) {
        if (locs[id].addr == addr && locs[id].size == size)
            l = &locs[id];
        else if (addr < locs[id].addr + locs[id].size && locs[id].addr < addr + (uintptr_t)size)
            mc_fail_at(pc, 0, "mixed sizes: atomic access of %d bytes to %p, before of %d bytes to %p", size,
                       (void *)addr, locs[id].size, (void *)locs[id].addr);
    }
    if (unlikely(!l))
        l = make(cell, addr, size, pc);
    else if (unlikely(l->anew))
        restart(l);
    if ((!l->shared && mc.mode == MC_BOUNDED) || l->exclusive)
        look_for_rivals(l, write, pc);
    (write ? l->wrote : l->read)[mc.run] = clock_of(mc_me());
    return l;
}

bool mc_op_is_shared(const struct mc_op *op) {
    if (op->kind == OP_FENCE)
        return op->order == MO_SEQ_CST;
    if (op->kind < OP_LOAD || op->kind > OP_CAS || op->order == MO_SEQ_CST)
        return true;
    for (uint32_t id = mc_cell_look(op->addr)->locs; id; id = locs[id].next)
        if (locs[id].addr == op->addr)
            return locs[id].known;
    return mc_shared_has(mc_shared_key(op->addr));
}

uint32_t mc_loc_next(uint32_t id) { return locs[id].next; }

static void unlink_loc(uint32_t id, uint32_t *head) {
    while (*head != id)
        head = &locs[*head].next;
    *head = locs[id].next;
    locs[id].next = loc_unused;
    loc_unused = id;
}

void mc_loc_plain(struct mc_cell *cell, uint32_t id, uintptr_t addr, size_t size, bool write, const char *how,
                  uintptr_t pc) {
    struct location *l = &locs[id];
    const struct mc_view *cur = mc_me()->cur;
    if (addr >= l->addr + l->size || l->addr >= addr + size)
        return;
    for (int i = 0; i < mc.count; i++) {
        if (i == mc.run)
            continue;
        if (l->wrote[i] > cur->t[i] || (write && l->read[i] > cur->t[i]))
            mc_fail_at(pc, 0, "data race: %s of %p by T%d is not ordered after an atomic %s by T%d", how,
                       (void *)l->addr, mc.run, l->wrote[i] > cur->t[i] ? "write" : "read", i);
    }
    if (!write)
        return;
    if (addr <= l->addr && addr + size >= l->addr + l->size)
        l->anew = true;
    else
        unlink_loc(id, &cell->locs);
}

void mc_locs_forget(struct mc_cell *cell) {
    while (cell->locs)
        unlink_loc(cell->locs, &cell->locs);
}

/* -- Messages ---------------------------------------------------------------------------------------- */
/* The oldest message that a load may return. */
static uint16_t oldest(const struct mc_thread *t, const struct location *l, int order) {
    uint16_t lo = mc_view_get(t->cur, (uint32_t)(l - locs));
    if (order == MO_SEQ_CST && mc_view_get(mc.order_view, (uint32_t)(l - locs)) > lo)
        lo = mc_view_get(mc.order_view, (uint32_t)(l - locs));
    if (lo < l->first)
        lo = l->first;
    int reach = mc.stale_reads == 0 || t->quiet ? 0 : mc.stale_depth;
    if (mc.stale_counts && mc.preemptions >= mc.bound) {
        mc.bound_hit |= lo < l->hi && reach;
        reach = 0;
    }
    if (l->hi - lo > reach)
        lo = (uint16_t)(l->hi - reach);
    return lo;
}

/* The oldest readable message with the value of `ts` that knows no more.  Reading it instead leaves the thread with
 * less knowledge and the same value: all that can happen after reading `ts` can happen after reading it. */
static uint16_t weakest(const struct location *l, uint16_t ts, uint16_t lo) {
    const struct message *m = &l->m[ts % MC_RING];
    for (uint16_t old = lo; old < ts; old++)
        if (l->m[old % MC_RING].value == m->value && mc_view_no_more(l->m[old % MC_RING].view, m->view))
            return old;
    return ts;
}

/* What a load may return: messages in `option`, the newest value first.  `not` is left out, but for the newest. */
static int options(const struct mc_thread *t, const struct location *l, int order, const uint64_t * not,
                   uint16_t *option) {
    uint16_t lo = oldest(t, l, order), first = option[0] = not ? l->hi : weakest(l, l->hi, lo);
    int n = 1;
    for (uint16_t ts = l->hi; ts-- > lo;)
        if (ts != first && !(not&&l->m[ts % MC_RING].value == *not) && weakest(l, ts, lo) == ts)
            option[n++] = ts;
    return n;
}

static int pick_message(int n) {
    if (likely(n == 1))
        return 0;
    int c = mc_pick(n, mc_is_random() && mc_draw() % 2 ? 0 : -1);
    if (c) {
        mc.stale_reads -= mc.stale_reads > 0;
        mc.preemptions += mc.stale_counts;
    }
    return c;
}

static uint64_t take(struct mc_thread *t, struct location *l, uint16_t ts, int order) {
    uint32_t id = (uint32_t)(l - locs);
    const struct message *m = &l->m[ts % MC_RING];
    mc_view_raise(t->cur, id, ts);
    if (m->view)
        mc_view_join(mc_acquires(order) ? t->cur : t->acq, m->view);
    if (t->read_count && t->read_count <= MC_READS && t->reads[t->read_count - 1].loc == id) {
        t->reads[t->read_count - 1].ts = ts;
    } else {
        if (t->read_count < MC_READS)
            t->reads[t->read_count] = (__typeof__(t->reads[0])){(uint16_t)id, ts};
        t->read_count += t->read_count <= MC_READS;
    }
    return m->value;
}

/* `inherited` is the view of the message that a read-modify-write read. */
static void put(struct mc_thread *t, struct location *l, uint64_t value, int order, const struct mc_view *inherited) {
    if (unlikely(l->hi >= UINT16_MAX - 1))
        mc_fail_at(t->op.pc, 0, "too many stores to one location");
    uint32_t id = (uint32_t)(l - locs);
    uint64_t before = l->m[l->hi % MC_RING].value;
    uint16_t ts = ++l->hi;
    if (value != before) {
        l->changed = ts;
        mc.changes++;
    }
    mc_view_raise(t->cur, id, ts);
    const struct mc_view *view = t->rel;
    if (mc_releases(order)) {
        struct mc_view *own = mc_view_copy(t->cur, inherited ? inherited->n : 0);
        if (inherited && !mc_acquires(order))
            mc_view_join(own, inherited);
        view = own;
    } else if (inherited && view && view != inherited) {
        struct mc_view *own = mc_view_copy(view, inherited->n);
        mc_view_join(own, inherited);
        view = own;
    } else if (inherited) {
        view = inherited;
    }
    l->m[ts % MC_RING] = (struct message){value, view};
    if (order == MO_SEQ_CST)
        mc_view_raise(mc.order_view, id, ts);
    if (mc_releases(order))
        mc_tick(t);
    poke(l->addr, l->size, value);
}

uint64_t mc_load(uintptr_t addr, int size, int order, uintptr_t pc) {
    mc_point(OP_LOAD, addr, size, order, pc);
    struct mc_thread *t = mc_me();
    struct location *l = find(addr, size, false, pc);
    uint16_t option[MC_RING], ts = l->hi;
    if (mc_view_get(t->cur, (uint32_t)(l - locs)) != l->hi)
        ts = option[pick_message(options(t, l, order, NULL, option))];
    uint64_t value = take(t, l, ts, order);
    if (unlikely(mc.tracing))
        mc_trace(OP_LOAD, order, addr, size, value, 0, l->m[l->hi % MC_RING].value == value ? 0 : l->hi - ts, pc);
    return value;
}

void mc_store(uintptr_t addr, int size, uint64_t value, int order, uintptr_t pc) {
    mc_point(OP_STORE, addr, size, order, pc);
    struct location *l = find(addr, size, true, pc);
    put(mc_me(), l, value, order, NULL);
    if (unlikely(mc.tracing))
        mc_trace(OP_STORE, order, addr, size, value, 0, 0, pc);
}

uint64_t mc_rmw(uintptr_t addr, int size, enum mc_rmw rmw, uint64_t operand, int order, uintptr_t pc) {
    mc_point(OP_RMW, addr, size, order, pc);
    struct mc_thread *t = mc_me();
    struct location *l = find(addr, size, true, pc);
    const struct mc_view *inherited = l->m[l->hi % MC_RING].view;
    uint64_t old = take(t, l, l->hi, order), value = operand;
    switch (rmw) {
    case RMW_XCHG: break;
    case RMW_ADD: value = old + operand; break;
    case RMW_SUB: value = old - operand; break;
    case RMW_AND: value = old & operand; break;
    case RMW_OR: value = old | operand; break;
    case RMW_XOR: value = old ^ operand; break;
    case RMW_NAND: value = ~(old & operand); break;
    }
    if (size < 8)
        value &= ((uint64_t)1 << 8 * size) - 1;
    put(t, l, value, order, inherited);
    if (unlikely(mc.tracing))
        mc_trace(OP_RMW, order, addr, size, old, value, (int)rmw, pc);
    return old;
}

/* Success reads the last message.  Failure is a load, and may return any readable message with another value;
 * a weak one may also fail with the right value. */
bool mc_cas(uintptr_t addr, int size, uint64_t *expect, uint64_t value, int order, int fail_order, bool weak,
            uintptr_t pc) {
    mc_point(OP_CAS, addr, size, order, pc);
    struct mc_thread *t = mc_me();
    struct location *l = find(addr, size, true, pc);
    uint16_t option[MC_RING];
    int n = options(t, l, fail_order, expect, option);
    bool match = l->m[l->hi % MC_RING].value == *expect;
    bool spurious = weak && match;
    int c = pick_message(n + spurious);
    bool ok = match && c == 0;
    uint64_t old;
    if (ok) {
        const struct mc_view *inherited = l->m[l->hi % MC_RING].view;
        old = take(t, l, l->hi, order);
        put(t, l, value, order, inherited);
    } else {
        uint16_t ts = c < n ? option[c] : l->hi;
        old = take(t, l, ts, fail_order);
        c = l->hi - ts;
    }
    if (unlikely(mc.tracing))
        mc_trace(OP_CAS, order, addr, size, old, value, ok ? -1 : c, pc);
    *expect = old;
    return ok;
}

uint64_t mc_read_latest(uintptr_t addr, int size, uintptr_t pc) {
    struct location *l = find(addr, size, false, pc);
    mc_view_raise(mc_me()->cur, (uint32_t)(l - locs), l->hi);
    return l->m[l->hi % MC_RING].value;
}

/* -- The spin rule (engine.c) ------------------------------------------------------------------------ */
bool mc_may_spin_on(const struct mc_thread *t) {
    if (t->read_count == 0 || t->read_count > MC_READS)
        return mc.changes != t->changes;
    for (unsigned i = 0; i < t->read_count; i++)
        if (locs[t->reads[i].loc].changed > t->reads[i].ts)
            return true;
    return false;
}

/* The next turn of the loop reads something newer wherever there is something newer, so each turn gets on. */
void mc_spin_resume(struct mc_thread *t) {
    unsigned n = t->read_count > MC_READS ? MC_READS : t->read_count;
    for (unsigned i = 0; i < n; i++)
        if (locs[t->reads[i].loc].hi > t->reads[i].ts)
            mc_view_raise(t->cur, t->reads[i].loc, (uint16_t)(t->reads[i].ts + 1));
    t->read_count = 0;
}
