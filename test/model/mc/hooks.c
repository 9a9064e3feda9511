/* hooks.c - the functions that code compiled with -fsanitize=thread calls: our stand-in for its runtime.
 *
 * Atomic operations go to memory.c, plain accesses to shadow.c.  Outside of an execution (constructors, main)
 * they do what they say at once.  clang turns a weak compare-and-swap into the _val form, which cannot
 * say "failed, with the expected value": spurious failures are explored only in code compiled by gcc.
 */
#include <string.h>

#include "internal.h"

#define PC ((uintptr_t)__builtin_return_address(0))
#define HOOK __attribute__((visibility("default")))

HOOK void __tsan_init(void);
HOOK void __tsan_func_entry(void *pc);
HOOK void __tsan_func_exit(void);
void __tsan_init(void) {}

/* The caller's frame, if it keeps a frame pointer (compile with -fno-omit-frame-pointer): on entry we see that it
 * does, because the word above is the return address that clang tells us. */
static bool has_frames;
#define FRAME (*(uintptr_t *)__builtin_frame_address(0))

void __tsan_func_entry(void *pc) {
    int owner;
    if (unlikely(!has_frames) && mc.running && mc_on_thread_stack(FRAME, &owner))
        has_frames = *(void **)(FRAME + 8) == pc;
}

/* When the caller returns, the part of the stack below its frame pointer is no longer its own. */
void __tsan_func_exit(void) {
    int owner;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), frame = FRAME;
    if (unlikely(mc.running && mc_me()->foreign_count) && mc_on_thread_stack(here, &owner) && owner == mc.run) {
        mc_frames_gone(has_frames && frame > here && frame - here < MC_STACK ? frame : here, PC);
    }
}

/* -- Plain accesses ---------------------------------------------------------------------------------- */
#define PLAIN(name, size, write)                                                                                       \
    HOOK void name(void *p);                                                                                           \
    void name(void *p) { mc_plain((uintptr_t)p, (size), (write), PC); }
#define PLAIN_ALL(n)                                                                                                   \
    PLAIN(__tsan_read##n, n, false)                                                                                    \
    PLAIN(__tsan_write##n, n, true)                                                                                    \
    PLAIN(__tsan_unaligned_read##n, n, false)                                                                          \
    PLAIN(__tsan_unaligned_write##n, n, true)                                                                          \
    PLAIN(__tsan_read_write##n, n, true)                                                                               \
    PLAIN(__tsan_unaligned_read_write##n, n, true)                                                                     \
    PLAIN(__tsan_volatile_read##n, n, false)                                                                           \
    PLAIN(__tsan_volatile_write##n, n, true)                                                                           \
    PLAIN(__tsan_unaligned_volatile_read##n, n, false)                                                                 \
    PLAIN(__tsan_unaligned_volatile_write##n, n, true)
PLAIN_ALL(1)
PLAIN_ALL(2)
PLAIN_ALL(4)
PLAIN_ALL(8)
PLAIN_ALL(16)

HOOK void __tsan_read_range(void *p, size_t size);
HOOK void __tsan_write_range(void *p, size_t size);
HOOK void *__tsan_memset(void *to, int byte, size_t size);
HOOK void *__tsan_memcpy(void *to, const void *from, size_t size);
HOOK void *__tsan_memmove(void *to, const void *from, size_t size);

void __tsan_read_range(void *p, size_t size) { mc_plain((uintptr_t)p, size, false, PC); }
void __tsan_write_range(void *p, size_t size) { mc_plain((uintptr_t)p, size, true, PC); }

void *__tsan_memset(void *to, int byte, size_t size) {
    mc_plain((uintptr_t)to, size, true, PC);
    return memset(to, byte, size);
}

void *__tsan_memcpy(void *to, const void *from, size_t size) {
    mc_plain((uintptr_t)from, size, false, PC);
    mc_plain((uintptr_t)to, size, true, PC);
    return memmove(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size) {
    mc_plain((uintptr_t)from, size, false, PC);
    mc_plain((uintptr_t)to, size, true, PC);
    return memmove(to, from, size);
}

/* -- Atomic operations ------------------------------------------------------------------------------- */
static uint64_t rmw(uintptr_t addr, int size, enum mc_rmw op, uint64_t operand, int order, uintptr_t pc) {
    if (likely(mc.running))
        return mc_rmw(addr, size, op, operand, order, pc);
    uint64_t old = mc_peek(addr, size), value = operand;
    switch (op) {
    case RMW_XCHG: break;
    case RMW_ADD: value = old + operand; break;
    case RMW_SUB: value = old - operand; break;
    case RMW_AND: value = old & operand; break;
    case RMW_OR: value = old | operand; break;
    case RMW_XOR: value = old ^ operand; break;
    case RMW_NAND: value = ~(old & operand); break;
    }
    memcpy((void *)addr, &value, (size_t)size);
    return old;
}

static bool cas(uintptr_t addr, int size, uint64_t *expect, uint64_t value, int order, int fail_order, bool weak,
                uintptr_t pc) {
    if (likely(mc.running))
        return mc_cas(addr, size, expect, value, order, fail_order, weak, pc);
    uint64_t old = mc_peek(addr, size);
    bool ok = old == *expect;
    if (ok)
        memcpy((void *)addr, &value, (size_t)size);
    *expect = old;
    return ok;
}

#define RMW(bits, type, name, op)                                                                                      \
    HOOK type __tsan_atomic##bits##_##name(volatile type *p, type v, int order);                                       \
    type __tsan_atomic##bits##_##name(volatile type *p, type v, int order) {                                           \
        return (type)rmw((uintptr_t)p, bits / 8, op, v, order, PC);                                                    \
    }

#define CAS(bits, type, name, weak)                                                                                    \
    HOOK int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *e, type v, int o, int f);           \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *e, type v, int o, int f) {               \
        uint64_t found = *e;                                                                                           \
        bool ok = cas((uintptr_t)p, bits / 8, &found, v, o, f, weak, PC);                                              \
        *e = (type)found;                                                                                              \
        return ok;                                                                                                     \
    }

#define ATOMIC(bits, type)                                                                                             \
    HOOK type __tsan_atomic##bits##_load(const volatile type *p, int order);                                           \
    HOOK void __tsan_atomic##bits##_store(volatile type *p, type v, int order);                                        \
    HOOK type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type e, type v, int o, int f);              \
    type __tsan_atomic##bits##_load(const volatile type *p, int order) {                                               \
        return likely(mc.running) ? (type)mc_load((uintptr_t)p, bits / 8, order, PC) : *p;                             \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile type *p, type v, int order) {                                            \
        if (likely(mc.running))                                                                                        \
            mc_store((uintptr_t)p, bits / 8, v, order, PC);                                                            \
        else                                                                                                           \
            *p = v;                                                                                                    \
    }                                                                                                                  \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type e, type v, int o, int f) {                  \
        uint64_t found = e;                                                                                            \
        cas((uintptr_t)p, bits / 8, &found, v, o, f, false, PC);                                                       \
        return (type)found;                                                                                            \
    }                                                                                                                  \
    CAS(bits, type, strong, false)                                                                                     \
    CAS(bits, type, weak, true)                                                                                        \
    RMW(bits, type, exchange, RMW_XCHG)                                                                                \
    RMW(bits, type, fetch_add, RMW_ADD)                                                                                \
    RMW(bits, type, fetch_sub, RMW_SUB)                                                                                \
    RMW(bits, type, fetch_and, RMW_AND)                                                                                \
    RMW(bits, type, fetch_or, RMW_OR)                                                                                  \
    RMW(bits, type, fetch_xor, RMW_XOR)                                                                                \
    RMW(bits, type, fetch_nand, RMW_NAND)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

HOOK void __tsan_atomic_thread_fence(int order);
HOOK void __tsan_atomic_signal_fence(int order);

void __tsan_atomic_thread_fence(int order) {
    if (likely(mc.running))
        mc_fence(order, PC);
}

/* fence_light(): orders nothing between threads, its heavy partner does that for both (memory.c).  Going to
 * another thread here is the same as doing so before the next visible operation, so it is not a step. */
void __tsan_atomic_signal_fence(int order) {
    if (mc.running && mc.tracing)
        mc_trace(OP_LIGHT, order, 0, 0, 0, 0, 0, PC);
}

/* Production code that tells ThreadSanitizer about its fibers needs not tell us: a thread here is whatever runs
 * between two switches of the engine, on any stack. */
HOOK void *__tsan_get_current_fiber(void);
HOOK void *__tsan_create_fiber(unsigned flags);
HOOK void __tsan_destroy_fiber(void *fiber);
HOOK void __tsan_switch_to_fiber(void *fiber, unsigned flags);
HOOK void __tsan_set_fiber_name(void *fiber, const char *name);
void *__tsan_get_current_fiber(void) { return &mc; }
void *__tsan_create_fiber(unsigned flags) {
    (void)flags;
    return &mc;
}
void __tsan_destroy_fiber(void *fiber) { (void)fiber; }
void __tsan_switch_to_fiber(void *fiber, unsigned flags) { (void)fiber, (void)flags; }
void __tsan_set_fiber_name(void *fiber, const char *name) { (void)fiber, (void)name; }
