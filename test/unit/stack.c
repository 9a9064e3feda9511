/* stack.c - src/stack: classes, chunks, guards, reuse, refusal. */
#define _GNU_SOURCE
#include "stack/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "plat/plat.h"

static struct wefti_stack home;
static struct wefti_stack_pool *pool;

static void begin(void) {
    pool = wefti_alloc(sizeof *pool);
    REQUIRE(pool);
    wefti_stack_pool_init(pool);
    wefti_stack_adopt(&home);
}

static void end(void) {
    wefti_stack_pool_fini(pool);
    wefti_free(pool, sizeof *pool);
}

/* Says what it was passed plus one, for ever. */
static struct wefti_stack *current;

static void echo(void *pass) {
    wefti_stack_begun();
    for (;;)
        pass = wefti_stack_switch(current, &home, (void *)((uintptr_t)pass + 1));
}

static uintptr_t call(struct wefti_stack *stack, uintptr_t pass) {
    current = stack;
    return (uintptr_t)wefti_stack_switch(&home, stack, (void *)pass);
}

TEST(stack_classes, "") {
    CHECK_EQ(wefti_stack_log2(0), WEFTI_STACK_MIN_LOG);
    CHECK_EQ(wefti_stack_log2(1), WEFTI_STACK_MIN_LOG);
    CHECK_EQ(wefti_stack_log2(16384), 14);
    CHECK_EQ(wefti_stack_log2(16385), 15);
    CHECK_EQ(wefti_stack_log2(65536), 16);
    CHECK_EQ(wefti_stack_log2((size_t)1 << 30), 30);
    CHECK_EQ(wefti_stack_log2(((size_t)1 << 30) + 1), 0);
    CHECK_EQ(wefti_stack_log2(SIZE_MAX), 0);
}

TEST(stack_runs, "J16") {
    begin();
    for (uint32_t log2 = WEFTI_STACK_MIN_LOG; log2 <= 24; log2 += 2) {
        struct wefti_stack *stack = wefti_stack_pool_take(pool, log2, echo);
        REQUIRE(stack);
        CHECK_EQ(stack->log2, log2);
        CHECK_EQ((uintptr_t)stack->base % 4096, 0);
        CHECK_GE(stack->size, ((size_t)1 << log2) - (64 << 10));
        CHECK_LT(stack->size, (size_t)1 << log2);
        for (uintptr_t i = 0; i < 100; i++)
            CHECK_EQ(call(stack, i), i + 1);
        wefti_stack_pool_give(pool, stack);
    }
    end();
}

/* A stack that comes back goes on where it was left: its runner is not begun again. */
static unsigned begun;

static void count_begins(void *pass) {
    begun++;
    echo(pass);
}

TEST(stack_goes_on, "") {
    begin();
    for (int i = 0; i < 20; i++) {
        struct wefti_stack *stack = wefti_stack_pool_take(pool, 16, count_begins);
        REQUIRE(stack);
        CHECK_EQ(call(stack, 1), 2);
        wefti_stack_pool_give(pool, stack);
    }
    CHECK_EQ(begun, 1);
    end();
}

/* Guards: every stack has its own, below it, and none overlaps another. */
TEST(stack_guards, "J15") {
    begin();
    struct wefti_stack *stack[200];
    for (int i = 0; i < 200; i++) {
        stack[i] = wefti_stack_pool_take(pool, 16, echo);
        REQUIRE(stack[i]);
        memset(stack[i]->base, i, 64); /* the lowest bytes can be used ... */
        CHECK_EQ(call(stack[i], 5), 6);
    }
    int null = memfd_create("guards", 0);
    REQUIRE_GE(null, 0);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(stack[i]->base[63], (char)i); /* ... and are nobody else's */
        CHECK_EQ(write(null, stack[i]->base - 1, 1), -1); /* the kernel may not read below either */
        CHECK_EQ(errno, EFAULT);
        CHECK_EQ(write(null, stack[i]->base, 1), 1);
        wefti_stack_pool_give(pool, stack[i]);
    }
    close(null);
    end();
}

/* What was not needed from one look to the next loses its pages, some hundreds at a time, and begins anew when used again; the first few keep
 * them. */
TEST(stack_pages_go_back, "") {
    begin();
    enum { COUNT = 1500, KEEP = 256 };
    static struct wefti_stack *stack[COUNT];
    int64_t now = 1000000000;
    for (int i = 0; i < COUNT; i++) {
        REQUIRE(stack[i] = wefti_stack_pool_take(pool, 16, count_begins));
        memset(stack[i]->base, 1, stack[i]->size / 2);
        CHECK_EQ(call(stack[i], 1), 2);
    }
    CHECK_EQ(begun, COUNT);
    size_t before = harness_rss();
    wefti_stack_pool_trim(pool, now); /* all are in use */
    for (int i = 0; i < COUNT; i++)
        wefti_stack_pool_give(pool, stack[i]);
    static const struct {
        int after; /* ms since the look before */
        unsigned blank;
    } look[] = {{10, 0}, {9, 0}, {1, 512}, {5, 512}, {5, 1024}, {10, 1244}, {10, 1244}}; /* the first takes note */
    unsigned blank = 0;
    for (size_t k = 0; k < sizeof look / sizeof *look; k++) {
        wefti_stack_pool_trim(pool, now += look[k].after * INT64_C(1000000));
        blank = 0;
        for (int i = 0; i < COUNT; i++)
            blank += stack[i]->blank;
        CHECK_EQ(blank, look[k].blank);
    }
    CHECK_EQ(blank, COUNT - KEEP);
    if (!harness_is_slow())
        CHECK_LT(harness_rss() + (1200u * 30 << 10), before);
    for (int i = 0; i < COUNT; i++) {
        struct wefti_stack *again = wefti_stack_pool_take(pool, 16, count_begins);
        REQUIRE(again);
        CHECK_EQ(call(again, 3), 4);
        CHECK_EQ(begun, COUNT + (i < KEEP ? 0 : i + 1 - KEEP)); /* those with pages come first */
    }
    end();
}

/* What was needed meanwhile keeps its pages. */
TEST(stack_pages_in_use_stay, "") {
    begin();
    enum { COUNT = 900, NEEDED = 700 };
    static struct wefti_stack *stack[COUNT];
    int64_t now = 1000000000;
    for (int i = 0; i < COUNT; i++) {
        REQUIRE(stack[i] = wefti_stack_pool_take(pool, 16, count_begins));
        CHECK_EQ(call(stack[i], 1), 2);
    }
    for (int i = 0; i < COUNT; i++)
        wefti_stack_pool_give(pool, stack[i]);
    for (int k = 0; k < 8; k++) {
        wefti_stack_pool_trim(pool, now += 10000000);
        for (int i = 0; i < NEEDED; i++) {
            REQUIRE(stack[i] = wefti_stack_pool_take(pool, 16, count_begins));
            CHECK_EQ(call(stack[i], 1), 2);
        }
        for (int i = 0; i < NEEDED; i++)
            wefti_stack_pool_give(pool, stack[i]);
    }
    CHECK_EQ(begun, COUNT);
    end();
}

/* Large free stacks keep their pages only in small numbers. */
TEST(stack_large_pages_go_back, "") {
    begin();
    static struct wefti_stack *stack[20];
    for (int i = 0; i < 20; i++)
        REQUIRE(stack[i] = wefti_stack_pool_take(pool, 20, echo));
    unsigned blank = 0;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(call(stack[i], 0), 1);
        wefti_stack_pool_give(pool, stack[i]);
        blank += stack[i]->blank;
    }
    CHECK_EQ(blank, 4);
    end();
}

/* A class does not take another's. */
TEST(stack_classes_apart, "") {
    begin();
    struct wefti_stack *small = wefti_stack_pool_take(pool, 14, echo), *large = wefti_stack_pool_take(pool, 18, echo);
    REQUIRE(small && large);
    wefti_stack_pool_give(pool, small);
    struct wefti_stack *next = wefti_stack_pool_take(pool, 18, echo);
    CHECK(next != small);
    CHECK_EQ(next->log2, 18);
    wefti_stack_pool_give(pool, large);
    CHECK_EQ(wefti_stack_pool_take(pool, 18, echo), large);
    CHECK_EQ(wefti_stack_pool_take(pool, 14, echo), small);
    end();
}

/* -- Refusal --------------------------------------------------------------------------------------------------------------- */

/* The header, the map, the guard: whichever fails, nothing is lost, and the next one is given. */
TEST(stack_refused, "") {
    begin();
    CHECK(!wefti_stack_pool_refuses(pool, 16));
    for (int64_t nth = 0; nth < 3; nth++) {
        wefti_fault_set(nth, true);
        CHECK_EQ(wefti_stack_pool_take(pool, 20 + (uint32_t)nth, echo), NULL);
        CHECK(wefti_stack_pool_refuses(pool, 20 + (uint32_t)nth)); /* it has tried */
        CHECK(load_relaxed(&pool->refused));
        wefti_fault_set(-1, false);
        CHECK(!wefti_stack_pool_refuses(pool, 20 + (uint32_t)nth));
        CHECK(!load_relaxed(&pool->refused));
        struct wefti_stack *stack = wefti_stack_pool_take(pool, 20 + (uint32_t)nth, echo);
        REQUIRE(stack);
        CHECK_EQ(call(stack, 7), 8);
    }
    end();
}

TEST(stack_refused_until_one_comes_back, "") {
    begin();
    struct wefti_stack *stack = wefti_stack_pool_take(pool, 22, echo); /* a chunk of its own */
    REQUIRE(stack);
    wefti_fault_set(0, true);
    CHECK_EQ(wefti_stack_pool_take(pool, 22, echo), NULL);
    CHECK(wefti_stack_pool_refuses(pool, 22));
    wefti_stack_pool_give(pool, stack);
    CHECK(!wefti_stack_pool_refuses(pool, 22));
    CHECK_EQ(wefti_stack_pool_take(pool, 22, echo), stack);
    wefti_fault_set(-1, false);
    end();
}

/* Threads that take and give at once: nobody gets what another has. */
static void take_and_give(unsigned index, void *arg) {
    (void)arg;
    uint64_t seed = index + 1;
    struct wefti_stack *mine[16] = {NULL};
    for (int i = 0; i < 3000; i++) {
        unsigned at = harness_random(&seed) % 16;
        if (mine[at]) {
            CHECK_EQ(*(unsigned *)(void *)mine[at]->base, index);
            wefti_stack_pool_give(pool, mine[at]);
            mine[at] = NULL;
        } else {
            mine[at] = wefti_stack_pool_take(pool, 14 + (uint32_t)(at % 3), echo);
            REQUIRE(mine[at]);
            *(unsigned *)(void *)mine[at]->base = index;
        }
    }
    for (int i = 0; i < 16; i++)
        if (mine[i])
            wefti_stack_pool_give(pool, mine[i]);
}

TEST(stack_pool_threads, "") {
    begin();
    harness_threads(4, take_and_give, NULL);
    end();
}

TEST(stack_of_thread, "") {
    struct wefti_stack stack;
    char here;
    wefti_stack_adopt(&stack);
    REQUIRE_GT(stack.size, 0);
    CHECK(&here >= stack.base && &here < stack.base + stack.size);
}
