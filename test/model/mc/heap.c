/* heap.c - wefti_alloc and wefti_map in the model: every object is known, none is used twice.
 *
 * What.   Memory is handed out in order from one reserved region, so that an object has the same address in
 *         each execution that allocates the same, and freed memory is not reused: any later access is an
 *         error (shadow.c).  Reuse inside a pool of production code is seen through wefti_memory_dead/live.
 * Finds.  Double free, free of something else, a wrong size, an unordered last use, leaks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

enum { OBJECTS = 1 << 16, HEADER = 64, EDGE = 8, CHUNK = 1 << 16, LINE = 64 };

struct object {
    uintptr_t addr, made, freed; /* the latter two: return addresses */
    size_t size;
    bool pages, live;
    int8_t maker, freer;
};

static const size_t SMALL = (size_t)64 << 20, PAGES = (size_t)16 << 30;
static char *small, *pages;
static size_t small_used, pages_used;
static struct object *objects;
static int object_count;

static void *reserve(size_t size, size_t align) {
    char *p = mc_reserve(size + align);
    return p + (-(uintptr_t)p & (align - 1));
}

void mc_heap_init(void) {
    small = reserve(SMALL, CHUNK);
    pages = reserve(PAGES, CHUNK);
    objects = mc_reserve(OBJECTS * sizeof *objects);
}

/* The next execution gets the same addresses.  Small objects are zeroed when they are handed out; in maps, which
 * may be huge, shadow.c undoes what was written. */
void mc_heap_reset(void) {
    object_count = 0;
    small_used = pages_used = 0;
}

static bool within(const char *region, size_t size, uintptr_t addr) { return addr - (uintptr_t)region < size; }

bool mc_heap_is_wild(uintptr_t addr) {
    if (within(small, SMALL, addr))
        return addr - (uintptr_t)small >= small_used;
    return within(pages, PAGES, addr) && addr - (uintptr_t)pages >= pages_used;
}

bool mc_in_heap(uintptr_t addr) { return within(small, SMALL, addr) || within(pages, PAGES, addr); }

bool mc_in_map(uintptr_t addr) { return within(pages, PAGES, addr); }

static char *take_small(size_t size, uintptr_t pc) {
    size_t room = HEADER + (size + EDGE + 63) / 64 * 64;
    if (room > SMALL - small_used)
        mc_fail_at(pc, 0, "out of model memory, asking for %zu bytes", size);
    char *memory = small + small_used + HEADER;
    small_used += room;
    memset(memory, 0, size);
    mc_mark((uintptr_t)memory - EDGE, EDGE, LIFE_EDGE);
    *(int *)(memory - HEADER) = object_count;
    return memory;
}

static char *take_pages(size_t size, uintptr_t pc) {
    if (size < 4096 || (size & (size - 1)))
        mc_fail_at(pc, 0, "wefti_map of %zu bytes: not a power of two and a multiple of the page", size);
    size_t align = size < CHUNK ? CHUNK : size;
    size_t start = -(uintptr_t)pages & (align - 1);
    while (start < pages_used)
        start += align;
    if (start + size + CHUNK > PAGES)
        mc_fail_at(pc, 0, "out of model memory, asking for %zu bytes", size);
    pages_used = start + (size + CHUNK - 1) / CHUNK * CHUNK + CHUNK; /* and a gap */
    return pages + start;
}

void *mc_heap_alloc(size_t size, bool whole_pages, uintptr_t pc) {
    if (object_count == OBJECTS)
        mc_fail_at(pc, 0, "more than %d allocations in one execution", OBJECTS);
    char *memory = whole_pages ? take_pages(size, pc) : take_small(size, pc);
    uintptr_t addr = (uintptr_t)memory;
    mc_mark((addr + size + 7) & ~(uintptr_t)7, EDGE, LIFE_EDGE);
    objects[object_count++] = (struct object){addr, pc, 0, size, whole_pages, true, (int8_t)mc.run, 0};
    if (mc.tracing)
        mc_trace(OP_ALLOC, 0, addr, 0, size, 0, 0, pc);
    if (!whole_pages)
        mc_plain(addr, size < LINE ? size : LINE, true,
                 pc); /* it was zeroed: who uses it comes after; its first bytes stand for all */
    return memory;
}

static struct object *find(uintptr_t addr) {
    for (int i = object_count; i-- > 0;)
        if (addr >= objects[i].addr && addr < objects[i].addr + objects[i].size + (objects[i].size == 0))
            return &objects[i];
    return NULL;
}

static struct object *find_start(uintptr_t addr, bool whole_pages) {
    if (!whole_pages && within(small + HEADER, small_used, addr)) {
        int i = *(int *)(addr - HEADER);
        if (i >= 0 && i < object_count && objects[i].addr == addr)
            return &objects[i];
    }
    return find(addr);
}

void mc_heap_free(void *memory, size_t size, bool whole_pages, uintptr_t pc) {
    uintptr_t addr = (uintptr_t)memory;
    if (!addr)
        return;
    if (mc.tracing)
        mc_trace(OP_FREE, 0, addr, 0, size, 0, 0, pc);
    struct object *o = find_start(addr, whole_pages);
    if (!o || o->addr != addr || o->pages != whole_pages)
        mc_fail_at(pc, o ? o->made : 0, "free of %p, which is not the start of an object of that kind", memory);
    if (!o->live)
        mc_fail_at(pc, o->freed, "double free of %p by T%d, freed before by T%d", memory, mc.run, o->freer);
    if (o->size != size)
        mc_fail_at(pc, o->made, "free of %p with size %zu, allocated with %zu", memory, size, o->size);
    size = (size + 7) & ~(size_t)7; /* whole cells */
    mc_check_quiescent(addr, size, pc);
    mc_mark(addr, size, LIFE_FREED);
    o->live = false;
    o->freed = pc;
    o->freer = (int8_t)mc.run;
}

bool mc_heap_describe(uintptr_t addr, char *text, size_t size, uintptr_t *made, uintptr_t *freed) {
    const struct object *o = find(addr);
    if (!o)
        return false;
    *made = o->made;
    *freed = o->freed;
    snprintf(text, size, "object %d + %zu (%zu bytes, made by T%d)", (int)(o - objects), (size_t)(addr - o->addr),
             o->size, o->maker);
    return true;
}

bool mc_heap_place(uintptr_t addr, uintptr_t *made, size_t *offset) {
    const struct object *o = mc_in_heap(addr) ? find(addr) : NULL;
    if (!o)
        return false;
    *made = o->made;
    *offset = addr - o->addr;
    return true;
}

/* At the end of an execution.  Runs outside of all threads, so it only notes what it finds. */
void mc_heap_leaks(void) {
    int n = 0;
    size_t bytes = 0;
    const struct object *first = NULL;
    for (int i = 0; i < object_count; i++) {
        if (!objects[i].live)
            continue;
        n++;
        bytes += objects[i].size;
        if (!first)
            first = &objects[i];
    }
    if (!n)
        return;
    snprintf(mc.fault.message, sizeof mc.fault.message,
             "leak: %d object%s, %zu bytes; the first has %zu bytes and was made by T%d", n, n > 1 ? "s" : "", bytes,
             first->size, first->maker);
    mc.fault.pc = first->made;
    mc.fault.other_pc = 0;
    mc.fault.found = true;
}
