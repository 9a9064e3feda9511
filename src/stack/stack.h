/* stack.h - stacks for fibers: mapped in chunks, guarded, pooled, and the switch from one to another.
 *
 * What.   A stack is 2^k bytes of address space, lowest page a guard.  Its pages cost memory once touched, and stay touched when
 *         it goes back to the pool: the next fiber finds them warm (a first touch costs as much as fifty spawns).
 *         A worker keeps a few of the usual size, last in first out; the rest is in the runtime's pool under a lock.  What nobody
 *         needs there loses its pages, a few hundred stacks every 10 ms: a peak is not paid for at once, nor kept.
 * Who.    A cache: its worker.  A stack in use: who runs on it.  A stack given back is run on until its owner has switched away, and
 *         the cache it went to is that same worker's: nobody can take it before.
 * Checkers.  ASan, TSan and valgrind are told of every stack and every switch, here and nowhere else.
 */
#ifndef WEFTI_STACK_STACK_H
#define WEFTI_STACK_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "ctx/ctx.h"
#include "queue/lock.h"
#include "time/alarm.h"

#define WEFTI_STACK_MIN_LOG 14u     /* 16 KiB */
#define WEFTI_STACK_DEFAULT_LOG 16u /* 64 KiB */
#define WEFTI_STACK_MAX_LOG 30u     /* 1 GiB */
#define WEFTI_STACK_CLASSES (WEFTI_STACK_MAX_LOG + 1 - WEFTI_STACK_MIN_LOG)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFTI_STACK_ASAN 1
#elif __has_feature(thread_sanitizer) && !defined(WEFTI_MODEL)
#define WEFTI_STACK_TSAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WEFTI_STACK_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define WEFTI_STACK_TSAN 1
#endif

/* The limits of a fiber's shields that others have taken the place of, oldest first: each is earlier than the one before. */
#define WEFTI_LIMITS 4u
struct wefti_limits {
    uint32_t count;
    struct {
        int64_t before; /* what counted until then */
        uint64_t shields; /* how many there were with it, as in the word */
    } at[WEFTI_LIMITS];
};

struct wefti_stack {
    /* One line: what a fiber that was left long ago needs, to be woken and to go on. */
    _Alignas(64) struct wefti_ctx ctx; /* where it was left */
    struct wefti_alarm alarm; /* of the fiber that runs on it, while it waits for something until a time */

    struct wefti_stack *next; /* in a cache or pool */
    char *base; /* the lowest usable byte */
    size_t size;
    uint32_t log2; /* class: size and guard are 2^log2 */
    bool blank; /* never run on, or its pages were given back to the system */
    void *escape; /* of a fiber that may be discarded: where to */
    struct wefti_limits limits; /* of the fiber that runs on it */
    void *announced; /* TSan's name for it; ASan's fake stack while it is left; valgrind's number */
};

_Static_assert(offsetof(struct wefti_stack, next) == 64, "one line");

struct wefti_stack_cache {
    struct wefti_stack *first;
    uint32_t count;
};

struct wefti_stack_chunk;

struct wefti_stack_pool {
    struct wefti_lock lock;
    /* Of each class: those with pages, how many, and the least there have been since the last trim; those without. */
    struct wefti_stack *free[WEFTI_STACK_CLASSES];
    uint32_t count[WEFTI_STACK_CLASSES], least[WEFTI_STACK_CLASSES];
    struct wefti_stack *blank[WEFTI_STACK_CLASSES];
    uint64_t modes; /* of floating point, with which a stack begins */
    struct wefti_stack_chunk *chunks, *newest[WEFTI_STACK_CLASSES];
    /* The system has given no more, and nothing has come back since.  A line of its own: every spawn looks. */
    _Alignas(64) _Atomic bool refused;
    _Atomic bool many; /* there may be something to trim ... */
    _Atomic int64_t trim_at; /* ... from then on; under the lock, read anywhere as a hint */
};

/* The class of stacks of at least that many bytes; 0: too large. */
static inline uint32_t wefti_stack_log2(size_t size) {
    uint32_t log2 = WEFTI_STACK_MIN_LOG;
    while (log2 <= WEFTI_STACK_MAX_LOG && ((size_t)1 << log2) < size)
        log2++;
    return log2 <= WEFTI_STACK_MAX_LOG ? log2 : 0;
}

/* In zeroed memory.  Stacks begin with the caller's floating-point modes, whoever they are made by. */
void wefti_stack_pool_init(struct wefti_stack_pool *pool);
/* All stacks must be free. */
void wefti_stack_pool_fini(struct wefti_stack_pool *pool);

/* A stack of 2^log2 bytes on which nothing runs, ready to be switched to: it then calls entry(pass).  NULL: the system refuses. */
struct wefti_stack *wefti_stack_pool_take(struct wefti_stack_pool *pool, uint32_t log2, void (*entry)(void *pass));
/* Is there no sense in asking for one?  Tries, if the last one who asked was refused; so it is false again as soon as the system
 * has memory. */
bool wefti_stack_pool_refuses(struct wefti_stack_pool *pool, uint32_t log2);
void wefti_stack_pool_give(struct wefti_stack_pool *pool, struct wefti_stack *stack);
/* Called now and then: each 10 ms, of what nobody has needed since the last time some lose their pages, all but a few hundred. */
void wefti_stack_pool_trim_now(struct wefti_stack_pool *pool, int64_t now);
static inline void wefti_stack_pool_trim(struct wefti_stack_pool *pool, int64_t now) {
    if (load_relaxed(&pool->many) && now >= load_relaxed(&pool->trim_at)) /* hints */
        wefti_stack_pool_trim_now(pool, now);
}

/* Describe the calling thread's own stack, so that it can be left and returned to. */
void wefti_stack_adopt(struct wefti_stack *stack);

/* A first frame on a stack calls this before anything else. */
void wefti_stack_begun(void);

#if defined(WEFTI_STACK_ASAN) || defined(WEFTI_STACK_TSAN)
void *wefti_stack_switch(struct wefti_stack *from, struct wefti_stack *to, void *pass);
#elif defined(WEFTI_MODEL)
/* The checker does not see what assembly reads and writes: here it does. */
static inline void *wefti_stack_switch(struct wefti_stack *from, struct wefti_stack *to, void *pass) {
    struct wefti_ctx target = {*(void *volatile *)&to->ctx.sp};
    *(void *volatile *)&from->ctx.sp = NULL;
    *(void *volatile *)&to->ctx.sp = NULL; /* it is run on: nobody may switch to it before it was left again */
    return wefti_ctx_switch(&from->ctx, &target, pass);
}
#else
/* Leave `from`, on which we run, for `to`; returns when somebody switches back to `from`, with his `pass`. */
static inline void *wefti_stack_switch(struct wefti_stack *from, struct wefti_stack *to, void *pass) {
    return wefti_ctx_switch(&from->ctx, &to->ctx, pass);
}
#endif

#endif
