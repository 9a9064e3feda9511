/* shared.c - which atomic locations threads really compete for: bounded search switches threads only there.
 *
 * What.   An operation on a location that no two threads use at the same time commutes with everything others
 *         do, so switching before it is the same as switching before the next one that does not.  "At the same
 *         time": one of them writes, and neither access happens before the other.  A word that is only touched
 *         under a lock does not count, the lock's own word does.
 * How.    The search starts with no location shared.  Any execution that sees two threads compete for one adds it,
 *         and the search begins again with the larger set, until a whole search adds none.  Restarts are few and
 *         early.
 * Why.    Suppose that an execution within the bound has a competition which was never seen.  Up to the first
 *         one, all operations on other locations commute, so an execution that switches only at known ones
 *         comes to the same state with no more preemptions, and sees it.
 * Words.  A location is known by where its object was allocated and the offset in it, or by its address if it is
 *         no heap object: the same place in all executions.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { KEYS = 1 << 14 };
static uint64_t known[KEYS], fresh[256]; /* a hash table; those found since the search last began */
static int known_count, fresh_count;

static struct {
    uintptr_t addr;
    size_t size;
} exclusive[16];
static int exclusive_count;

uint64_t mc_shared_key(uintptr_t addr) {
    uintptr_t made;
    size_t offset;
    uint64_t key = mc_heap_place(addr, &made, &offset) ? (made * 0x9E3779B97F4A7C15u) ^ offset : addr;
    return key ? key : 1;
}

static uint64_t *slot(uint64_t key) {
    size_t i = (key * 0xD1B54A32D192ED03u) >> 50;
    while (known[i] && known[i] != key)
        i = (i + 1) % KEYS;
    return &known[i];
}

bool mc_shared_has(uint64_t key) { return *slot(key) == key; }

void mc_shared_add(uint64_t key) {
    for (int i = 0; i < fresh_count; i++)
        if (fresh[i] == key)
            return;
    if (fresh_count < 256)
        fresh[fresh_count++] = key;
}

/* Take in what was found; true if that changes the search. */
bool mc_shared_grow(void) {
    bool grown = false;
    for (int i = 0; i < fresh_count; i++) {
        uint64_t *s = slot(fresh[i]);
        if (*s)
            continue;
        if (++known_count > KEYS / 2)
            abort(); /* four times MC_LOCS would have to be in use at once */
        *s = fresh[i];
        grown = true;
    }
    fresh_count = 0;
    return grown;
}

/* -- Locations that must not be competed for ---------------------------------------------------------- */
void mc_exclusive(const volatile void *memory, size_t size) {
    if (exclusive_count == 16)
        mc_fail("more than 16 exclusive ranges");
    exclusive[exclusive_count].addr = (uintptr_t)memory;
    exclusive[exclusive_count++].size = size;
}

bool mc_is_exclusive(uintptr_t addr) {
    for (int i = 0; i < exclusive_count; i++)
        if (addr - exclusive[i].addr < exclusive[i].size)
            return true;
    return false;
}

void mc_shared_reset(void) { exclusive_count = 0; }
