/* shadow.c - plain memory: data races, dead memory, and undoing of what an execution wrote to globals.
 *
 * What.   For each 8 bytes that instrumented code touches there is a cell, found through a table of 64 KiB
 *         chunks.  It lists the last plain accesses to the bytes (who, when, which of the 8) and the atomic
 *         locations in them.
 * Race.   Two accesses race when they touch a byte in common, one writes, not both are atomic, and neither
 *         happens before the other: the later one's thread does not know the earlier one's clock (memory.c).
 *         A write forgets the accesses that it covers: they all happened before it.
 * Life.   Freed and dead memory, the edges of heap objects and the unused rest of the heap give an error on
 *         any access.  Freeing counts as a write of the whole object, so that a missing order between the last use and
 *         the free is found in every interleaving, not only when the use comes late.  A thread's stack is
 *         memory like any other; in addition nobody may touch another's frames that have returned, and what others
 *         did to a frame must happen before its return.
 *         A life is kept where it costs least: of a chunk, of a line of 64 bytes, of a cell; whichever is not OK counts.
 *         Allocating counts as a write of the first 64 bytes: who gets an object without an order races with that.
 * Undo.   The first touch of a global, or of memory from wefti_map, saves its 8 bytes; mc_shadow_reset() puts them
 *         back.
 * Not covered.  Accesses by code that is not instrumented.  Liveness is per 8 bytes, not per byte.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "view.h"

enum {
    RECENT = 16,
    CHUNK_BITS = 16,
    CHUNK_CELLS = 1 << (CHUNK_BITS - 3),
    LINE_BITS = 6,
    CHUNK_LINES = 1 << (CHUNK_BITS - LINE_BITS),
    LINE_CELLS = CHUNK_CELLS / CHUNK_LINES,
    MARKS = 1 << 16,
    TABLE = 1 << 14,
    ACCESSES = 1 << 22,
    TOUCHES = 1 << 21
};

struct access {
    uintptr_t pc;
    uint32_t next;
    uint16_t clock;
    uint8_t mask; /* which of the 8 bytes */
    uint8_t thread : 7, write : 1;
};

struct chunk {
    uintptr_t key; /* address >> CHUNK_BITS */
    uint8_t life;  /* of all of it; a line's and a cell's own come on top */
    bool map;      /* from wefti_map */
    bool undo;     /* that, or holds globals of the program */
    uint8_t line_life[CHUNK_LINES];
    bool line_used[CHUNK_LINES]; /* has a cell that is touched */
    struct mc_cell cells[CHUNK_CELLS];
};

struct touch {
    struct chunk *chunk;
    uintptr_t addr;
    uint64_t before; /* to be put back, if `undo` */
    bool undo;
};

/* Lines whose life was set. */
struct mark {
    struct chunk *chunk;
    uint16_t first, count;
};

extern char __data_start[], _end[]; /* from the linker */

static struct chunk *table[TABLE], *recent[RECENT], *marked[256];
static int marked_count;
static struct access *accesses; /* [0] is not used */
static uint32_t access_count, access_unused;
static struct touch *touches;
static uint32_t touch_count;
static struct mark *marks;
static uint32_t mark_count;

void mc_shadow_init(void) {
    accesses = mc_reserve(ACCESSES * sizeof *accesses);
    touches = mc_reserve(TOUCHES * sizeof *touches);
    marks = mc_reserve(MARKS * sizeof *marks);
    access_count = 1;
}

static struct chunk *chunk_find(uintptr_t addr) {
    uintptr_t key = addr >> CHUNK_BITS;
    size_t i = (key * 0x9E3779B97F4A7C15u) >> 50;
    for (; table[i]; i = (i + 1) % TABLE)
        if (table[i]->key == key)
            return recent[key % RECENT] = table[i];
    static int made;
    if (++made > TABLE / 2)
        mc_fail_at(0, 0, "the test touches too much memory");
    struct chunk *c = table[i] = mc_reserve(sizeof *c);
    c->key = key;
    c->map = mc_in_map(addr);
    c->undo = c->map || (key >= (uintptr_t)__data_start >> CHUNK_BITS && key <= (uintptr_t)_end >> CHUNK_BITS);
    return recent[key % RECENT] = c;
}

static inline struct chunk *chunk_of(uintptr_t addr) {
    struct chunk *c = recent[(addr >> CHUNK_BITS) % RECENT];
    return likely(c && c->key == addr >> CHUNK_BITS) ? c : chunk_find(addr);
}

static inline struct mc_cell *cell_of(struct chunk *chunk, uintptr_t addr) {
    return &chunk->cells[addr >> 3 & (CHUNK_CELLS - 1)];
}

static inline unsigned line_of(uintptr_t addr) { return addr >> LINE_BITS & (CHUNK_LINES - 1); }

struct mc_cell *mc_cell_look(uintptr_t addr) { return cell_of(chunk_of(addr), addr); }

static void touch(struct chunk *chunk, struct mc_cell *cell, uintptr_t addr) {
    if (touch_count == TOUCHES)
        mc_fail_at(0, 0, "one execution touches too much memory");
    cell->touched = true;
    chunk->line_used[line_of(addr)] = true;
    addr &= ~(uintptr_t)7;
    bool undo = chunk->undo && (chunk->map || (addr >= (uintptr_t)__data_start && addr + 8 <= (uintptr_t)_end));
    touches[touch_count++] = (struct touch){chunk, addr, undo ? mc_peek(addr, 8) : 0, undo};
}

void mc_shadow_reset(void) {
    for (uint32_t i = 0; i < touch_count; i++) {
        const struct touch *t = &touches[i];
        *cell_of(t->chunk, t->addr) = (struct mc_cell){0};
        t->chunk->line_used[line_of(t->addr)] = false;
        if (t->undo)
            memcpy((void *)t->addr, &t->before, 8);
    }
    for (uint32_t i = 0; i < mark_count; i++)
        memset(marks[i].chunk->line_life + marks[i].first, LIFE_OK, marks[i].count);
    for (int i = 0; i < marked_count; i++)
        marked[i]->life = LIFE_OK;
    touch_count = 0;
    marked_count = 0;
    mark_count = 0;
    access_count = 1;
    access_unused = 0;
}

/* -- Life -------------------------------------------------------------------------------------------- */
static const char *const life_name[] = {
    [LIFE_FREED] = "use after free",
    [LIFE_DEAD] = "use of dead memory",
    [LIFE_EDGE] = "access past the end of an object",
    [LIFE_WILD] = "wild access: heap memory that was never allocated",
};

static void report_dead(uintptr_t addr, enum mc_life life, const char *how, uintptr_t pc) {
    char object[200];
    uintptr_t made = 0, freed = 0;
    if (!mc_heap_describe(addr, object, sizeof object, &made, &freed))
        object[0] = 0;
    mc_fail_at(pc, life == LIFE_FREED ? freed : made, "%s: %s of %p by T%d%s%s", life_name[life], how, (void *)addr,
               mc.run, object[0] ? ", in " : "", object);
}

static void check_stack(struct mc_cell *cell, uintptr_t addr, const char *how, uintptr_t pc) {
    int owner, other;
    if (!mc_on_thread_stack(addr, &owner) || owner == mc.run)
        return;
    struct mc_thread *t = &mc.t[owner];
    bool gone = t->state == MC_DONE || t->state == MC_ABSENT;
    if (gone || (mc_on_thread_stack((uintptr_t)t->sp, &other) && other == owner && addr < (uintptr_t)t->sp))
        mc_fail_at(pc, 0, "use after return: %s of %p by T%d, in a frame of T%d that has returned", how, (void *)addr,
                   mc.run, owner);
    if (!cell->foreign && t->foreign_count < MC_FOREIGN) {
        cell->foreign = true;
        t->foreign[t->foreign_count++] = addr & ~(uintptr_t)7;
    }
}

static inline uint8_t life_of(const struct chunk *chunk, const struct mc_cell *cell, uintptr_t addr) {
    uint8_t line = chunk->line_life[line_of(addr)];
    if (likely(!(chunk->life | line | cell->life)))
        return LIFE_OK;
    return cell->life ? cell->life : line ? line : chunk->life;
}

bool mc_is_dead(const volatile void *memory) {
    uintptr_t addr = (uintptr_t)memory;
    struct chunk *chunk = chunk_of(addr);
    return life_of(chunk, cell_of(chunk, addr), addr) != LIFE_OK;
}

static inline void check_life(struct chunk *chunk, struct mc_cell *cell, uintptr_t addr, const char *how,
                              uintptr_t pc) {
    uint8_t life = life_of(chunk, cell, addr);
    if (unlikely(life))
        report_dead(addr, life, how, pc);
    if (unlikely(!cell->touched)) {
        if (mc_heap_is_wild(addr))
            report_dead(addr, LIFE_WILD, how, pc);
        touch(chunk, cell, addr);
    }
    check_stack(cell, addr, how, pc);
}

static void mark_cells(struct chunk *chunk, uintptr_t addr, uintptr_t end, enum mc_life life) {
    for (; addr < end; addr += 8) {
        struct mc_cell *cell = cell_of(chunk, addr);
        if (cell->life == life && !cell->locs)
            continue;
        if (!cell->touched)
            touch(chunk, cell, addr);
        mc_locs_forget(cell);
        cell->life = (uint8_t)life;
    }
}

static void mark_lines(struct chunk *chunk, unsigned first, unsigned count, enum mc_life life) {
    for (unsigned line = first; line < first + count; line++) {
        struct mc_cell *cell = &chunk->cells[line * LINE_CELLS];
        for (int i = 0; chunk->line_used[line] && i < LINE_CELLS; i++, cell++) {
            mc_locs_forget(cell);
            cell->life = LIFE_OK; /* the line's counts */
        }
    }
    memset(chunk->line_life + first, life, count);
    if (life == LIFE_OK)
        return;
    if (mark_count == MARKS)
        mc_fail_at(0, 0, "one execution frees too often");
    marks[mark_count++] = (struct mark){chunk, (uint16_t)first, (uint16_t)count};
}

/* Some cells of one line change: its life is theirs first. */
static void mark_part(struct chunk *chunk, uintptr_t addr, uintptr_t end, enum mc_life life) {
    unsigned line = line_of(addr);
    uintptr_t start = addr & -((uintptr_t)1 << LINE_BITS);
    if (chunk->line_life[line])
        mark_cells(chunk, start, start + (1u << LINE_BITS), chunk->line_life[line]);
    chunk->line_life[line] = LIFE_OK;
    mark_cells(chunk, addr, end, life);
}

/* Give the whole cells in a range a new life; their atomic locations are forgotten. */
void mc_mark(uintptr_t addr, size_t size, enum mc_life life) {
    uintptr_t end = (addr + size) & ~(uintptr_t)7, line = (uintptr_t)1 << LINE_BITS;
    addr = (addr + 7) & ~(uintptr_t)7;
    while (addr < end) {
        struct chunk *chunk = chunk_of(addr);
        uintptr_t base = chunk->key << CHUNK_BITS, top = base + (1u << CHUNK_BITS);
        uintptr_t stop = end < top ? end : top;
        bool whole = addr == base && stop == top;
        if (whole && life != LIFE_OK && marked_count < 256) {
            if (!chunk->life)
                marked[marked_count++] = chunk;
            chunk->life = (uint8_t)life;
            addr = stop;
            continue;
        }
        if (chunk->life && !whole)
            mark_lines(chunk, 0, CHUNK_LINES, chunk->life); /* part of it changes: push it down first */
        chunk->life = LIFE_OK;
        while (addr < stop) {
            uintptr_t next = (addr | (line - 1)) + 1, lines = (stop - addr) >> LINE_BITS;
            if ((addr & (line - 1)) || !lines) {
                next = next < stop ? next : stop;
                mark_part(chunk, addr, next, life);
            } else {
                next = addr + (lines << LINE_BITS);
                mark_lines(chunk, line_of(addr), (unsigned)lines, life);
            }
            addr = next;
        }
    }
}

/* -- Races ------------------------------------------------------------------------------------------- */
static inline uint8_t mask_of(uintptr_t addr, size_t size) { return (uint8_t)(((1u << size) - 1) << (addr & 7)); }

static const char *word(bool write) { return write ? "write" : "read"; }

static void check_accesses(struct mc_cell *cell, uintptr_t addr, uint8_t mask, bool write, const char *how,
                           uintptr_t pc) {
    const struct mc_view *cur = mc_me()->cur;
    for (uint32_t i = cell->accesses; i; i = accesses[i].next) {
        const struct access *a = &accesses[i];
        if ((a->mask & mask) && (write || a->write) && unlikely(a->clock > cur->t[a->thread]) && a->thread != mc.run)
            mc_fail_at(pc, a->pc, "data race: %s of %p by T%d is not ordered after a plain %s by T%d", how,
                       (void *)addr, mc.run, word(a->write), a->thread);
    }
}

static void remember(struct mc_cell *cell, uint8_t mask, bool write, uintptr_t pc) {
    uint16_t clock = mc_me()->cur->t[mc.run];
    for (uint32_t *link = &cell->accesses, i; (i = *link) != 0;) {
        struct access *a = &accesses[i];
        if (a->thread == mc.run && a->write == write && a->mask == mask) {
            a->clock = clock;
            a->pc = pc;
            if (!write)
                return;
        }
        if (write && !(a->mask & ~mask)) {
            *link = a->next;
            a->next = access_unused;
            access_unused = i;
        } else {
            link = &a->next;
        }
    }
    uint32_t i = access_unused;
    if (i)
        access_unused = accesses[i].next;
    else if ((i = access_count++) == ACCESSES - 1)
        mc_fail_at(pc, 0, "one execution makes too many plain accesses");
    accesses[i] = (struct access){pc, cell->accesses, clock, mask, (uint8_t)mc.run & 127, write};
    cell->accesses = i;
}

static inline void plain_cell(uintptr_t addr, size_t size, bool write, uintptr_t pc) {
    struct chunk *chunk = chunk_of(addr);
    struct mc_cell *cell = cell_of(chunk, addr);
    uint8_t mask = mask_of(addr, size);
    if (cell->accesses && !cell->locs && !life_of(chunk, cell, addr)) { /* did I do the same just before? */
        const struct access *a = &accesses[cell->accesses];
        if (a->thread == mc.run && a->clock == mc_me()->cur->t[mc.run] && !(mask & ~a->mask) && a->write >= write)
            return;
    }
    const char *how = write ? "plain write" : "plain read";
    check_life(chunk, cell, addr, how, pc);
    if (cell->accesses)
        check_accesses(cell, addr, mask, write, how, pc);
    for (uint32_t id = cell->locs, next; id; id = next) {
        next = mc_loc_next(id);
        mc_loc_plain(cell, id, addr, size, write, how, pc);
    }
    remember(cell, mask, write, pc);
}

void mc_plain(uintptr_t addr, size_t size, bool write, uintptr_t pc) {
    if (unlikely(!mc.running) || mc_in_tls(addr))
        return;
    while (size) {
        size_t n = 8 - (addr & 7);
        if (n > size)
            n = size;
        plain_cell(addr, n, write, pc);
        addr += n;
        size -= n;
    }
}

struct mc_cell *mc_cell_atomic(uintptr_t addr, int size, bool write, uintptr_t pc) {
    struct chunk *chunk = chunk_of(addr);
    struct mc_cell *cell = cell_of(chunk, addr);
    const char *how = write ? "atomic write" : "atomic read";
    check_life(chunk, cell, addr, how, pc);
    if (cell->accesses)
        check_accesses(cell, addr, mask_of(addr, (size_t)size), write, how, pc);
    return cell;
}

static void quiescent_cell(struct mc_cell *cell, uintptr_t addr, const char *how, uintptr_t pc) {
    check_accesses(cell, addr, 0xff, true, how, pc);
    for (uint32_t id = cell->locs, next; id; id = next) {
        next = mc_loc_next(id);
        mc_loc_plain(cell, id, addr & ~(uintptr_t)7, 8, true, how, pc);
    }
    mc_locs_forget(cell);
}

/* As if all whole cells in the range were written now: their accesses must happen before.  Walks the range, or all that
 * this execution touched, whichever is shorter. */
void mc_check_quiescent(uintptr_t addr, size_t size, uintptr_t pc) {
    uintptr_t end = (addr + size) & ~(uintptr_t)7;
    addr = (addr + 7) & ~(uintptr_t)7;
    if (addr < end && (end - addr) >> LINE_BITS <= touch_count) {
        while (addr < end) {
            struct chunk *chunk = chunk_of(addr);
            uintptr_t stop = (addr | ((1u << LINE_BITS) - 1)) + 1; /* the next line */
            if (chunk->line_used[line_of(addr)])
                for (; addr < end && addr < stop; addr += 8)
                    quiescent_cell(cell_of(chunk, addr), addr, "freeing", pc);
            addr = stop;
        }
        return;
    }
    for (uint32_t i = 0; i < touch_count; i++) {
        const struct touch *t = &touches[i];
        if (t->addr >= addr && t->addr < end)
            quiescent_cell(cell_of(t->chunk, t->addr), t->addr, "freeing", pc);
    }
}

/* What others did to a frame must have happened before it returned. */
void mc_frames_gone(uintptr_t end, uintptr_t pc) {
    struct mc_thread *t = mc_me();
    for (int i = 0; i < t->foreign_count;) {
        uintptr_t addr = t->foreign[i];
        if (addr >= end) {
            i++;
            continue;
        }
        struct mc_cell *cell = cell_of(chunk_of(addr), addr);
        cell->foreign = false;
        t->foreign[i] = t->foreign[--t->foreign_count];
        quiescent_cell(cell, addr, "use after return: the end of the frame", pc);
    }
}
