/* ctx_first.c - a new context starts as a function does. */
#define _GNU_SOURCE
#include "ctx.h"

/* -- The first run --------------------------------------------------------------------------------------- */

static void argument_entry(void *pass) {
    void *second;
    arrived(&away);
    second = go(&away, &home, pass); /* the argument comes back as it is */
    go(&away, &home, second);
    abort();
}
TEST(entry_argument, "J16") {
    int something;
    side_is_thread(&home);
    side_make(&away, argument_entry);
    CHECK_EQ(go(&home, &away, &something), &something);
    CHECK_EQ(go(&home, &away, NUMBER(77)), 77);
    side_free(&away);
}

void test_probe_body(void *probe) {
    arrived(&away);
    finish(&away, &home, probe);
}
static struct probe probed(void *base, size_t size) {
    struct probe probe = {.frame = 1};
    side_make_on(&away, base, size, test_probe_entry);
    CHECK_EQ(go(&home, &away, &probe), &probe);
    side_forget(&away);
    CHECK_EQ(probe.arg, &probe);
    return probe;
}

TEST(entry_alignment, "J16") {
    size_t size = 64 * 1024;
    unsigned char *base = malloc(size);
    REQUIRE(base);
    side_is_thread(&home);
    struct probe probe = probed(base, size);
    CHECK_EQ((probe.sp + PUSHED) % 16, 0);
    CHECK_LE(probe.sp, (uintptr_t)base + size);
    CHECK_GE(probe.sp, (uintptr_t)base + size - 64); /* the first frame costs next to nothing */
    CHECK_EQ(probe.frame, 0);                        /* tools that follow frame pointers stop here */
    free(base);
}

/* Whatever the memory begins and ends with, the stack is aligned and stays inside. */
TEST(stack_odd_bases, "J16") {
    size_t room = 32 * 1024, edge = 64;
    unsigned char *memory = malloc(room + 2 * edge);
    REQUIRE(memory);
    side_is_thread(&home);
    for (size_t from = 0; from < 40; from++) {
        for (size_t less = 0; less < 20; less++) {
            unsigned char *base = memory + edge + from;
            size_t size = room - 64 - less;
#ifdef WITH_ASAN
            __asan_unpoison_memory_region(memory, room + 2 * edge);
#endif
            memset(memory, 0xa5, room + 2 * edge);
            struct probe probe = probed(base, size);
            CHECK_EQ((probe.sp + PUSHED) % 16, 0);
            CHECK_LE(probe.sp, (uintptr_t)base + size);
            for (unsigned char *end = base + size; end < memory + room + 2 * edge; end++)
                REQUIRE_EQ(*end, 0xa5);
        }
    }
    free(memory);
}

/* What the compiler and libc assume of an aligned stack: moves that fault otherwise. */
typedef double four __attribute__((vector_size(32), aligned(32)));
struct aligned_case {
    char text[120];
    double sum;
    uintptr_t bad;
};
static void aligned_entry(void *pass) {
    struct aligned_case *found = pass;
    alignas(16) volatile char small[16] = {1};
    alignas(64) volatile char large[64] = {2};
    volatile four numbers = {1.5, 2.5, 3.5, 4.5};
    arrived(&away);
#if defined(__x86_64__)
    __asm__ volatile("movaps %0, %%xmm0\n movaps %%xmm0, %0" : "+m"(*(volatile char(*)[16])small) : : "xmm0");
#endif
    found->bad = (uintptr_t)small % 16 + (uintptr_t)large % 64 + (uintptr_t)&numbers % 32;
    go(&away, &home, NULL);
    found->bad += small[0] - 1u + large[0] - 2u;
    found->sum = numbers[0] + numbers[1] + numbers[2] + numbers[3];
    snprintf(found->text, sizeof found->text, "%.3f %Lg %d %s %.1e %c %a %d", 3.14159, 2.5L, 7, "text", 1e100, 'c', 1.0,
             -1);
    finish(&away, &home, NULL);
}
TEST(stack_takes_aligned_moves, "J16") {
    struct aligned_case found = {.bad = 99};
    side_is_thread(&home);
    side_make(&away, aligned_entry);
    go(&home, &away, &found);
    go(&home, &away, NULL);
    CHECK_EQ(found.bad, 0);
    CHECK_EQ(found.sum * 10, 120);
    CHECK_STR(found.text, "3.142 2.5 7 text 1.0e+100 c 0x1p+0 -1");
    side_free(&away);
}

TEST(made_but_never_run, "J16") {
    unsigned char memory[1024];
    struct wefti_ctx ctx;
    for (int i = 0; i < 1000; i++) {
        size_t size = 512 + (unsigned)i % 17;
        memset(memory, 0xa5, sizeof memory);
        wefti_ctx_init(&ctx, memory, size, echo_entry, wefti_ctx_modes());
        CHECK_GE((uintptr_t)ctx.sp, (uintptr_t)memory + size - 256); /* only the top is written */
        for (unsigned char *at = memory; at < (unsigned char *)ctx.sp; at++)
            REQUIRE_EQ(*at, 0xa5);
        for (unsigned char *at = memory + size; at < memory + sizeof memory; at++)
            REQUIRE_EQ(*at, 0xa5);
    }
}

/* A stack is used again after its context has ended, or was left in the middle. */
static void again_entry(void *pass) {
    arrived(&away);
    if ((uintptr_t)pass % 2)
        go(&away, &home, NUMBER((uintptr_t)pass * 2));
    finish(&away, &home, NUMBER((uintptr_t)pass * 2));
}
TEST(stack_made_again, "J16") {
    size_t size = 64 * 1024;
    void *base = malloc(size);
    REQUIRE(base);
    side_is_thread(&home);
    for (uintptr_t i = 0; i < 500; i++) {
        side_make_on(&away, base, size, again_entry);
        REQUIRE_EQ(go(&home, &away, NUMBER(i)), i * 2);
        side_forget(&away);
    }
    free(base);
}

/* 1 KiB is enough for a context that calls nothing of libc, and a switch does not write below its own frame. */
static void tiny_entry(void *pass) {
    for (;;)
        pass = test_regs_switch(&away.ctx, &home.ctx, NUMBER((uintptr_t)pass + 1), &away_regs);
}
TEST(stack_of_1k, "J15 J16") {
    PLAIN_BUILD_ONLY("needs more stack than that");
    static unsigned char memory[3][1024];
    uint64_t random = harness_seed();
    size_t unused = 0;
    memset(memory, 0xa5, sizeof memory);
    regs_random(&away_regs, &random);
    wefti_ctx_init(&away.ctx, memory[1], sizeof memory[1], tiny_entry, wefti_ctx_modes());
    for (uintptr_t i = 0; i < 1000; i++) {
        struct regs mine;
        regs_random(&mine, &random);
        REQUIRE_EQ(test_regs_switch(&home.ctx, &away.ctx, NUMBER(i), &mine), i + 1);
        regs_check(&mine);
    }
    regs_check(&away_regs);
    for (size_t i = 0; i < sizeof memory[0]; i++)
        REQUIRE_EQ(memory[0][i] & memory[2][i], 0xa5);
    while (memory[1][unused] == 0xa5)
        unused++;
    printf("a context with two frames has used %zu bytes of its stack\n", sizeof memory[1] - unused);
    CHECK_GE(unused, 256);
}

enum { THOUSANDS = 5000 };
static struct side many[THOUSANDS];
static uint64_t many_sum;
static void many_entry(void *pass) {
    struct side *self = pass;
    arrived(self);
    for (;;) {
        many_sum += (uint64_t)(self - many);
        go(self, &home, NULL);
    }
}
TEST(thousands, "J15 J16") {
    size_t count = harness_is_slow() ? 300 : THOUSANDS, size = harness_is_slow() ? 64 * 1024 : 4096;
    unsigned char *stacks = malloc(count * size);
    REQUIRE(stacks);
    side_is_thread(&home);
    for (size_t i = 0; i < count; i++)
        side_make_on(&many[i], stacks + i * size, size, many_entry);
    for (uint64_t round = 1; round <= 4; round++) {
        for (size_t i = 0; i < count; i++)
            go(&home, &many[round % 2 ? i : count - 1 - i], &many[i]); /* only the first time is it looked at */
        CHECK_EQ(many_sum, round * (count * (count - 1) / 2));
    }
    for (size_t i = 0; i < count; i++)
        side_forget(&many[i]);
    free(stacks);
}

static void returning_entry(void *pass) {
    (void)pass;
    arrived(&away);
}
TEST(entry_that_returns_traps, "J16") {
    int status;
    fflush(NULL);
    pid_t child = fork();
    REQUIRE_GE(child, 0);
    if (child == 0) {
        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        side_is_thread(&home);
        side_make(&away, returning_entry);
        go(&home, &away, NULL);
        _exit(0);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP);
}
