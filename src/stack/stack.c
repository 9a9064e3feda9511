/* stack.c - stacks for fibers (stack.h has the design). */
#include "stack/stack.h"

#include "plat/plat.h"

#ifdef WEFTI_STACK_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WEFTI_STACK_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(WEFTI_MODEL) && defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(low, high) 0u
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

#ifndef WEFTI_STACK_CHUNK
#define WEFTI_STACK_CHUNK ((size_t)4 << 20) /* mapped at a time, if stacks are smaller */
#endif
#define SHIFT 832u                    /* cache lines, 13: far from what the neighbours use, and all of them in turn */
#define SHIFT_MAX 2048u
#define WARM_LARGE 16u                /* free stacks of a class above the default that keep their pages */
#define WARM_IDLE 256u                /* ... of the default and below, that keep them while nobody asks for them */
#define CARVE_MAX 16u                 /* made at a time */
#define TRIM_EVERY INT64_C(10000000)  /* ns */
#define TRIM_MAX 512u                 /* lose them at a time */

struct wefti_stack_chunk {
    struct wefti_stack_chunk *next;
    char *memory;
    size_t bytes, allocated; /* mapped, and of this struct */
    uint32_t log2, carved, capacity;
    bool follows; /* another of its class: many are wanted */
    struct wefti_stack stack[];
};

static void announce(struct wefti_stack *stack) {
    (void)stack;
#if defined(WEFTI_STACK_TSAN)
    stack->announced = __tsan_create_fiber(0);
#elif !defined(WEFTI_STACK_ASAN)
    stack->announced = (void *)(uintptr_t)VALGRIND_STACK_REGISTER(stack->base, stack->base + stack->size);
#endif
}

static void renounce(struct wefti_stack *stack) {
    (void)stack;
#if defined(WEFTI_STACK_TSAN)
    __tsan_destroy_fiber(stack->announced);
#elif !defined(WEFTI_STACK_ASAN)
    VALGRIND_STACK_DEREGISTER((unsigned)(uintptr_t)stack->announced);
#endif
}

void wefti_stack_pool_init(struct wefti_stack_pool *pool) { pool->modes = wefti_ctx_modes(); }

void wefti_stack_pool_fini(struct wefti_stack_pool *pool) {
    struct wefti_stack_chunk *chunk = pool->chunks, *next;
    for (; chunk; chunk = next) {
        next = chunk->next;
        for (uint32_t i = 0; i < chunk->carved; i++)
            renounce(&chunk->stack[i]);
        wefti_memory_live(chunk->memory, (size_t)chunk->carved << chunk->log2); /* for who has these addresses next */
        wefti_stack_unmap(chunk->memory, chunk->bytes);
        wefti_free(chunk, chunk->allocated);
    }
    pool->chunks = NULL;
}

static struct wefti_stack_chunk *new_chunk(uint32_t log2) {
    size_t size = (size_t)1 << log2, capacity = WEFTI_STACK_CHUNK >> log2;
    if (!capacity)
        capacity = 1;
    size_t allocated = sizeof(struct wefti_stack_chunk) + capacity * sizeof(struct wefti_stack);
    struct wefti_stack_chunk *chunk = wefti_alloc(allocated);
    if (!chunk)
        return NULL;
    *chunk = (struct wefti_stack_chunk){
        .bytes = capacity * size, .allocated = allocated, .log2 = log2, .capacity = (uint32_t)capacity};
    chunk->memory = wefti_stack_map(chunk->bytes);
    if (!chunk->memory) {
        wefti_free(chunk, allocated);
        return NULL;
    }
    return chunk;
}

static void put(struct wefti_stack_pool *pool, struct wefti_stack *stack);

/* Some that lie one above the other, and were never used. */
struct fresh {
    struct wefti_stack *first;
    uint32_t count;
};

/* Under the lock.  The first is the caller's, the others are in the pool.  They are made by the dozen where many are wanted, since a call to the system
 * for each costs more than all the rest.  Only the newest chunk of a class has room. */
static struct fresh carve(struct wefti_stack_pool *pool, uint32_t log2) {
    struct wefti_stack_chunk **newest = &pool->newest[log2 - WEFTI_STACK_MIN_LOG], *chunk = *newest;
    if (!chunk || chunk->carved == chunk->capacity) {
        if (!(chunk = new_chunk(log2)))
            return (struct fresh){NULL, 0};
        chunk->follows = *newest != NULL;
        chunk->next = pool->chunks;
        pool->chunks = *newest = chunk;
    }
    uint32_t left = chunk->capacity - chunk->carved, count = chunk->follows ? CARVE_MAX : chunk->carved / 2;
    count = count < 1 ? 1 : count < CARVE_MAX ? count : CARVE_MAX;
    count = count < left ? count : left;
    size_t size = (size_t)1 << log2;
    char *low = chunk->memory + chunk->carved * size;
    size_t guard = wefti_stack_guard(low, size, &count);
    if (!guard)
        return (struct fresh){NULL, 0};
    struct wefti_stack *first = &chunk->stack[chunk->carved];
    for (uint32_t i = 0; i < count; i++) {
        first[i] =
            (struct wefti_stack){.base = low + i * size + guard, .size = size - guard, .log2 = log2, .blank = true};
        announce(&first[i]);
    }
    for (uint32_t i = count; i-- > 1;)
        put(pool, &first[i]);
    chunk->carved += count;
    return (struct fresh){first, count};
}

/* Without the lock: who has taken one of them meanwhile is not disturbed. */
static void touch(struct fresh fresh) {
    if (fresh.count > 1)
        wefti_stack_touch(fresh.first->base - (((size_t)1 << fresh.first->log2) - fresh.first->size),
                          (size_t)1 << fresh.first->log2, fresh.count);
}

/* How far below its top a stack begins.  Stacks are powers of two apart: without this the lines that every fiber uses, at the same depth
 * of the same calls, would all be in the same few sets of every cache.  A page still holds a fiber of 2 KB. */
static size_t shift(const struct wefti_stack *stack) {
    size_t most = (size_t)1 << stack->log2 >> 5, number = (uintptr_t)stack->base >> stack->log2;
    return number * SHIFT % (most < SHIFT_MAX ? most : SHIFT_MAX);
}

struct wefti_stack *wefti_stack_pool_take(struct wefti_stack_pool *pool, uint32_t log2, void (*entry)(void *pass)) {
    uint32_t class = log2 - WEFTI_STACK_MIN_LOG;
    wefti_lock_take(&pool->lock);
    struct wefti_stack *stack = pool->free[class];
    struct fresh fresh = {NULL, 0};
    if (stack) {
        pool->free[class] = stack->next;
        if (--pool->count[class] < pool->least[class])
            pool->least[class] = pool->count[class];
    } else if ((stack = pool->blank[class])) {
        pool->blank[class] = stack->next;
    } else {
        fresh = carve(pool, log2);
        if (!(stack = fresh.first))
            store_relaxed(&pool->refused, true); /* a hint for who spawns */
    }
    wefti_lock_give(&pool->lock);
    touch(fresh);
    /* A free stack was left by whoever ran on it last, and goes on from there, unless its pages are gone. */
    if (stack && stack->blank) {
        wefti_ctx_init(&stack->ctx, stack->base, stack->size - shift(stack), entry, pool->modes);
        stack->blank = false;
    }
    return stack;
}

static bool is_large(uint32_t class) { return class > WEFTI_STACK_DEFAULT_LOG - WEFTI_STACK_MIN_LOG; }

/* Under the lock. */
static void put(struct wefti_stack_pool *pool, struct wefti_stack *stack) {
    uint32_t class = stack->log2 - WEFTI_STACK_MIN_LOG;
    struct wefti_stack **list = stack->blank ? &pool->blank[class] : &pool->free[class];
    stack->next = *list;
    *list = stack;
    if (!stack->blank && ++pool->count[class] > WARM_IDLE)
        store_relaxed(&pool->many, true); /* a hint */
    store_relaxed(&pool->refused, false); /* a hint */
}

bool wefti_stack_pool_refuses(struct wefti_stack_pool *pool, uint32_t log2) {
    if (WEFTI_LIKELY(!load_relaxed(&pool->refused))) /* a hint */
        return false;
    wefti_lock_take(&pool->lock);
    struct wefti_stack *stack = pool->free[log2 - WEFTI_STACK_MIN_LOG];
    if (!stack)
        stack = pool->blank[log2 - WEFTI_STACK_MIN_LOG];
    if (!stack && (stack = carve(pool, log2).first))
        put(pool, stack);
    wefti_lock_give(&pool->lock);
    return !stack;
}

/* Nobody else knows of them. */
static void drop_pages(struct wefti_stack *list) {
    struct wefti_pages pages[WEFTI_PAGES_MAX];
    uint32_t count = 0;
    for (struct wefti_stack *stack = list; stack; stack = stack->next) {
        wefti_memory_live(stack->base, stack->size); /* the frames of whoever ran on it are gone with the pages */
        pages[count++] = (struct wefti_pages){stack->base, stack->size};
        stack->blank = true;
        if (count == WEFTI_PAGES_MAX || !stack->next) {
            wefti_pages_drop_many(pages, count);
            count = 0;
        }
    }
}

void wefti_stack_pool_give(struct wefti_stack_pool *pool, struct wefti_stack *stack) {
    uint32_t class = stack->log2 - WEFTI_STACK_MIN_LOG;
    wefti_lock_take(&pool->lock);
    bool warm = !is_large(class) || pool->count[class] < WARM_LARGE;
    if (warm)
        put(pool, stack);
    wefti_lock_give(&pool->lock);
    if (warm)
        return;
    stack->next = NULL;
    drop_pages(stack);
    wefti_lock_take(&pool->lock);
    put(pool, stack);
    wefti_lock_give(&pool->lock);
}

/* Under the lock: those that nobody has needed since the last time, but for a few. */
static struct wefti_stack *take_unused(struct wefti_stack_pool *pool) {
    struct wefti_stack *unused = NULL;
    uint32_t taken = 0;
    bool many = false;
    for (uint32_t class = 0; !is_large(class); class ++) {
        for (; pool->least[class] > WARM_IDLE && taken < TRIM_MAX; pool->least[class]--, taken++) {
            struct wefti_stack *stack = pool->free[class];
            pool->free[class] = stack->next;
            pool->count[class]--;
            stack->next = unused;
            unused = stack;
        }
        pool->least[class] = pool->count[class];
        many |= pool->count[class] > WARM_IDLE;
    }
    store_relaxed(&pool->many, many); /* a hint */
    return unused;
}

void wefti_stack_pool_trim_now(struct wefti_stack_pool *pool, int64_t now) {
    wefti_lock_take(&pool->lock);
    struct wefti_stack *unused = NULL;
    if (now >= load_own(&pool->trim_at)) {
        store_relaxed(&pool->trim_at, now + TRIM_EVERY); /* a hint */
        unused = take_unused(pool);
    }
    wefti_lock_give(&pool->lock);
    if (!unused)
        return;
    drop_pages(unused);
    wefti_lock_take(&pool->lock);
    for (struct wefti_stack *next; unused; unused = next) {
        next = unused->next;
        put(pool, unused);
    }
    wefti_lock_give(&pool->lock);
}

void wefti_stack_adopt(struct wefti_stack *stack) {
    void *base;
    *stack = (struct wefti_stack){.size = 0};
    stack->size = wefti_thread_stack(&base);
    stack->base = base;
#if defined(WEFTI_STACK_TSAN)
    stack->announced = __tsan_get_current_fiber();
#endif
}

void wefti_stack_begun(void) {
#if defined(WEFTI_STACK_ASAN)
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

#if defined(WEFTI_STACK_ASAN) || defined(WEFTI_STACK_TSAN)
void *wefti_stack_switch(struct wefti_stack *from, struct wefti_stack *to, void *pass) {
#if defined(WEFTI_STACK_TSAN)
    __tsan_switch_to_fiber(to->announced, 0);
#else
    __sanitizer_start_switch_fiber(&from->announced, to->base, to->size);
#endif
    pass = wefti_ctx_switch(&from->ctx, &to->ctx, pass);
#if defined(WEFTI_STACK_ASAN)
    __sanitizer_finish_switch_fiber(from->announced, NULL, NULL);
#endif
    return pass;
}
#endif
