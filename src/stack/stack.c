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
#define WARM_MAX 4096u                /* free stacks of a class that keep their pages ... */
#define WARM_IDLE 256u                /* ... and while nobody asks for them */
#define LARGE_SHIFT 8u                /* so much fewer of a size above the default */
#define TRIM_MAX 128u                 /* given back at a time */

struct wefti_stack_chunk {
    struct wefti_stack_chunk *next;
    char *memory;
    size_t bytes, allocated; /* mapped, and of this struct */
    uint32_t log2, carved, capacity;
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

/* Under the lock: a stack never used before.  Only the newest chunk of a class has room. */
static struct wefti_stack *carve(struct wefti_stack_pool *pool, uint32_t log2) {
    struct wefti_stack_chunk **newest = &pool->newest[log2 - WEFTI_STACK_MIN_LOG], *chunk = *newest;
    if (!chunk || chunk->carved == chunk->capacity) {
        if (!(chunk = new_chunk(log2)))
            return NULL;
        chunk->next = pool->chunks;
        pool->chunks = *newest = chunk;
    }
    char *low = chunk->memory + ((size_t)chunk->carved << log2);
    size_t guard = wefti_stack_guard(low);
    if (!guard)
        return NULL;
    struct wefti_stack *stack = &chunk->stack[chunk->carved++];
    *stack =
        (struct wefti_stack){.base = low + guard, .size = ((size_t)1 << log2) - guard, .log2 = log2, .blank = true};
    announce(stack);
    return stack;
}

struct wefti_stack *wefti_stack_pool_take(struct wefti_stack_pool *pool, uint32_t log2, void (*entry)(void *pass)) {
    uint32_t class = log2 - WEFTI_STACK_MIN_LOG;
    wefti_lock_take(&pool->lock);
    struct wefti_stack *stack = pool->free[class];
    if (stack) {
        pool->free[class] = stack->next;
        if (--pool->count[class] < pool->least[class])
            pool->least[class] = pool->count[class];
    } else if ((stack = pool->blank[class])) {
        pool->blank[class] = stack->next;
    } else if (!(stack = carve(pool, log2))) {
        store_relaxed(&pool->refused, true); /* a hint for who spawns */
    }
    wefti_lock_give(&pool->lock);
    /* A free stack was left by whoever ran on it last, and goes on from there, unless its pages are gone. */
    if (stack && stack->blank) {
        wefti_ctx_init(&stack->ctx, stack->base, stack->size, entry, pool->modes);
        stack->blank = false;
    }
    return stack;
}

static uint32_t kept(uint32_t class, uint32_t count) {
    return class > WEFTI_STACK_DEFAULT_LOG - WEFTI_STACK_MIN_LOG ? count >> LARGE_SHIFT : count;
}

/* Under the lock. */
static void put(struct wefti_stack_pool *pool, struct wefti_stack *stack) {
    uint32_t class = stack->log2 - WEFTI_STACK_MIN_LOG;
    struct wefti_stack **list = stack->blank ? &pool->blank[class] : &pool->free[class];
    stack->next = *list;
    *list = stack;
    if (!stack->blank && ++pool->count[class] > kept(class, WARM_IDLE))
        store_relaxed(&pool->many, true);  /* a hint */
    store_relaxed(&pool->refused, false); /* a hint */
}

/* Nobody else knows of it. */
static void drop_pages(struct wefti_stack *stack) {
    wefti_memory_live(stack->base, stack->size); /* the frames of whoever ran on it are gone with the pages */
    wefti_pages_drop(stack->base, stack->size);
    stack->blank = true;
}

bool wefti_stack_pool_refuses(struct wefti_stack_pool *pool, uint32_t log2) {
    if (WEFTI_LIKELY(!load_relaxed(&pool->refused))) /* a hint */
        return false;
    wefti_lock_take(&pool->lock);
    struct wefti_stack *stack = pool->free[log2 - WEFTI_STACK_MIN_LOG];
    if (!stack)
        stack = pool->blank[log2 - WEFTI_STACK_MIN_LOG];
    if (!stack && (stack = carve(pool, log2)))
        put(pool, stack);
    wefti_lock_give(&pool->lock);
    return !stack;
}

void wefti_stack_pool_give(struct wefti_stack_pool *pool, struct wefti_stack *stack) {
    uint32_t class = stack->log2 - WEFTI_STACK_MIN_LOG;
    wefti_lock_take(&pool->lock);
    bool warm = pool->count[class] < kept(class, WARM_MAX);
    if (warm)
        put(pool, stack);
    wefti_lock_give(&pool->lock);
    if (warm)
        return;
    drop_pages(stack);
    wefti_lock_take(&pool->lock);
    put(pool, stack);
    wefti_lock_give(&pool->lock);
}

void wefti_stack_pool_trim(struct wefti_stack_pool *pool) {
    if (!load_relaxed(&pool->many)) /* a hint */
        return;
    struct wefti_stack *idle = NULL;
    uint32_t taken = 0;
    bool many = false;
    wefti_lock_take(&pool->lock);
    for (uint32_t class = 0; class < WEFTI_STACK_CLASSES; class ++) {
        uint32_t floor = kept(class, WARM_IDLE);
        for (uint32_t unused = pool->least[class]; unused > floor && taken < TRIM_MAX; unused--, taken++) {
            struct wefti_stack *stack = pool->free[class];
            pool->free[class] = stack->next;
            pool->count[class]--;
            stack->next = idle;
            idle = stack;
        }
        pool->least[class] = pool->count[class];
        many |= pool->count[class] > floor;
    }
    store_relaxed(&pool->many, many); /* a hint */
    wefti_lock_give(&pool->lock);
    for (struct wefti_stack *stack = idle; stack; stack = stack->next)
        drop_pages(stack);
    wefti_lock_take(&pool->lock);
    for (struct wefti_stack *next; idle; idle = next) {
        next = idle->next;
        put(pool, idle);
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
