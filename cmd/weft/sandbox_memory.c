/* sandbox_memory.c - the memory of one contract's call: metered, bounded, and released as a whole.
 *
 * What.   Small blocks come from chunks, by size class; large ones from the process's heap, in a list. Both are released by sandbox_memory_free, whatever
 *         state Lua is in: a call that was interrupted (interrupt.h) cannot be closed by lua_close.
 * Held.   Only calls of the heap are held sections. The free lists may be left inconsistent by an interrupt: nobody uses them afterwards.
 * Bound.  `used` counts what Lua asked for, at most `most`. What the chunks take is bounded by twice that: a contract that frees blocks of one class and
 *         then allocates another does not get its memory many times over.
 */
#include <errno.h>
#include <lua.h>

#include "interrupt.h"
#include "sandbox.h"

enum { CLASS = 16, SMALL = CLASS * SANDBOX_CLASSES, CHUNK = 32 * 1024 };

/* In front of each large block, and of each chunk. */
struct sandbox_block {
    struct sandbox_block *next, *before;
};
struct free_block {
    struct free_block *next;
};

static void link_block(struct sandbox *box, struct sandbox_block *block) {
    block->next = box->blocks;
    block->before = NULL;
    if (block->next)
        block->next->before = block;
    box->blocks = block;
}

static void unlink_block(struct sandbox *box, struct sandbox_block *block) {
    if (block->next)
        block->next->before = block->before;
    if (block->before)
        block->before->next = block->next;
    else
        box->blocks = block->next;
}

static void *take_large(struct sandbox *box, size_t size) {
    interrupt_hold();
    struct sandbox_block *block = mem_resize(NULL, sizeof *block + size);
    if (block)
        link_block(box, block);
    interrupt_release();
    return block ? block + 1 : NULL;
}

static void give_large(struct sandbox *box, void *memory) {
    interrupt_hold();
    struct sandbox_block *block = (struct sandbox_block *)memory - 1;
    unlink_block(box, block);
    free(block);
    interrupt_release();
}

static void *resize_large(struct sandbox *box, void *memory, size_t size) {
    interrupt_hold();
    struct sandbox_block *block = (struct sandbox_block *)memory - 1;
    unlink_block(box, block);
    struct sandbox_block *moved = mem_resize(block, sizeof *block + size);
    link_block(box, moved ? moved : block);
    interrupt_release();
    return moved ? moved + 1 : NULL;
}

static size_t class_of(size_t size) { return (size - 1) / CLASS; }

static void *take_small(struct sandbox *box, size_t size) {
    size_t class = class_of(size), room = (class + 1) * CLASS;
    struct free_block *block = box->freed[class];
    if (block) {
        box->freed[class] = block->next;
        return block;
    }
    if ((size_t)(box->fresh_end - box->fresh_at) <
        room) { /* what is left of the old chunk is lost: less than one small block */
        if (box->chunks * CHUNK > 2 * box->most) {
            box->full = box->ended = true;
            return NULL;
        }
        unsigned char *chunk = take_large(box, CHUNK);
        if (!chunk)
            return NULL;
        box->chunks++;
        box->fresh_at = chunk;
        box->fresh_end = chunk + CHUNK;
    }
    box->fresh_at += room;
    return box->fresh_at - room;
}

static void *take(struct sandbox *box, size_t size) {
    return size <= SMALL ? take_small(box, size) : take_large(box, size);
}

static void give(struct sandbox *box, void *memory, size_t size) {
    if (size > SMALL) {
        give_large(box, memory);
    } else if (size) {
        struct free_block *block = memory;
        block->next = box->freed[class_of(size)];
        box->freed[class_of(size)] = block;
    }
}

static void *move(struct sandbox *box, void *memory, size_t old, size_t size) {
    if (old > SMALL && size > SMALL)
        return resize_large(box, memory, size);
    if (old && old <= SMALL && size <= SMALL && class_of(old) == class_of(size))
        return memory;
    void *moved = take(box, size);
    if (moved && memory) {
        memcpy(moved, memory, old < size ? old : size);
        give(box, memory, old);
    }
    return moved;
}

/* For a new object Lua passes its type. Only objects are paid for: arrays and hash parts grow by what is put into them, which costs
 * instructions, and when a hash part grows depends on the hash's seed, which nobody chooses. */
static bool is_object(size_t tag) {
    return tag == LUA_TSTRING || tag == LUA_TTABLE || tag == LUA_TFUNCTION || tag == LUA_TUSERDATA;
}

void *sandbox_allocate(void *arg, void *memory, size_t old, size_t size) {
    struct sandbox *box = arg;
    size_t tag = memory ? 0 : old;
    old = memory ? old : 0;
    if (size == 0) {
        box->used -= old;
        if (memory)
            give(box, memory, old);
        return NULL;
    }
    if (size > old && (size - old > box->most - box->used || (tag == LUA_TSTRING && size > SANDBOX_STRING_MAX + 64))) {
        /* Lua now collects garbage, and may find room then. The call ends all the same: whether it finds room must not show. */
        box->full = box->ended = true;
        return NULL;
    }
    void *moved = move(box, memory, old, size);
    if (!moved && size > old) {
        if (!box->full)
            box->error = -ENOMEM; /* this node's memory, not the contract's: another node would have had it */
        box->ended = true;
        return NULL;
    }
    box->used = box->used - old + size;
    box->fresh += is_object(tag) ? size : 0;
    return moved ? moved : memory; /* Lua relies on shrinking a block never failing */
}

void sandbox_memory_free(struct sandbox *box) {
    for (struct sandbox_block *block = box->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    box->blocks = NULL;
}
