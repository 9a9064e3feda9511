/* atomic.h - C11 atomics with the memory order in the name.
 *
 * Every atomic access of the library goes through these, so that the order is read at the call and can be
 * weakened there, one at a time, by `make mutants`.  There is no sequentially consistent load or store: where
 * two sides each write one word and read the other's, both use fence_seq_cst(), and say so.
 *
 * load_own() is the owner's read of a word that only the owner writes: no other thread's store can be missed.
 */
#ifndef WEFTI_BASE_ATOMIC_H
#define WEFTI_BASE_ATOMIC_H

#include <stdatomic.h>

#define load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define load_own(p) atomic_load_explicit((p), memory_order_relaxed)

#define store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)

#define xchg_relaxed(p, v) atomic_exchange_explicit((p), (v), memory_order_relaxed)
#define xchg_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define xchg_release(p, v) atomic_exchange_explicit((p), (v), memory_order_release)
#define xchg_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)

#define add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define add_acquire(p, v) atomic_fetch_add_explicit((p), (v), memory_order_acquire)
#define add_release(p, v) atomic_fetch_add_explicit((p), (v), memory_order_release)
#define add_acq_rel(p, v) atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define sub_relaxed(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define sub_acquire(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acquire)
#define sub_release(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_release)
#define sub_acq_rel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define or_relaxed(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define or_acquire(p, v) atomic_fetch_or_explicit((p), (v), memory_order_acquire)
#define or_release(p, v) atomic_fetch_or_explicit((p), (v), memory_order_release)
#define or_acq_rel(p, v) atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define and_relaxed(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define and_acquire(p, v) atomic_fetch_and_explicit((p), (v), memory_order_acquire)
#define and_release(p, v) atomic_fetch_and_explicit((p), (v), memory_order_release)
#define and_acq_rel(p, v) atomic_fetch_and_explicit((p), (v), memory_order_acq_rel)

/* Compare and swap: true on success; on failure *expect holds what was found, read relaxed, or acquire
 * for the two whose success acquires. */
#define cas_relaxed(p, expect, v)                                                                                      \
    atomic_compare_exchange_strong_explicit((p), (expect), (v), memory_order_relaxed, memory_order_relaxed)
#define cas_acquire(p, expect, v)                                                                                      \
    atomic_compare_exchange_strong_explicit((p), (expect), (v), memory_order_acquire, memory_order_acquire)
#define cas_release(p, expect, v)                                                                                      \
    atomic_compare_exchange_strong_explicit((p), (expect), (v), memory_order_release, memory_order_relaxed)
#define cas_acq_rel(p, expect, v)                                                                                      \
    atomic_compare_exchange_strong_explicit((p), (expect), (v), memory_order_acq_rel, memory_order_acquire)

/* A full fence, for a store-load handshake between two threads; both sides have one.  ThreadSanitizer does
 * not understand fences, so under it this is a read-modify-write of one global word: the same
 * ordering, seen by it. */
#if defined(__SANITIZE_THREAD__) && !defined(WEFTI_MODEL)
#define WEFTI_FENCE_BY_RMW 1
#elif defined(__has_feature) && !defined(WEFTI_MODEL)
#if __has_feature(thread_sanitizer)
#define WEFTI_FENCE_BY_RMW 1
#endif
#endif
#ifdef WEFTI_FENCE_BY_RMW
extern _Atomic int wefti_fence_word;
#define fence_seq_cst() ((void)atomic_fetch_add_explicit(&wefti_fence_word, 0, memory_order_seq_cst))
#else
#define fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
#endif

/* Keeps the compiler from moving accesses across; emits nothing.  The light half of an asymmetric fence whose
 * heavy half is wefti_fence_heavy() (plat.h). */
#define fence_light() atomic_signal_fence(memory_order_seq_cst)

#endif
