/* ctx_switch.c - a switch keeps what a call keeps, and a new context starts as a function does.
 *
 * Each test has a process of its own, so the sides of its switches are globals: `home` is the thread it runs on, `away`
 * and `third` are contexts.  The sanitizers are told about every switch (leaving, arrived); what they cannot follow is
 * left out, with the reason.  test/cross/check runs this file on emulated processors.
 */
#define _GNU_SOURCE
#include "../cross/processor.h"
#include "ctx/ctx.h"
#include "harness.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define NUMBER(value) ((void *)(uintptr_t)(value))
#define PLAIN_BUILD_ONLY(why) (harness_is_slow() ? SKIP("a sanitizer " why) : (void)0)

/* In src/ctx/switch.S: the first frame of a context. */
void wefti_ctx_trampoline(void);

/* -- The sides of a switch ------------------------------------------------------------------------------- */

struct side {
    struct wefti_ctx ctx;
    unsigned char *base; /* of the stack; of a thread's only where a sanitizer asks for it */
    size_t size;
    void *fake, *fiber; /* the sanitizers' own */
};
static struct side home, away, third;

/* The calling thread. */
static void side_is_thread(struct side *side) {
    memset(side, 0, sizeof *side);
#ifdef WITH_ASAN
    pthread_attr_t attr;
    void *base;
    REQUIRE_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
    REQUIRE_EQ(pthread_attr_getstack(&attr, &base, &side->size), 0);
    side->base = base;
    pthread_attr_destroy(&attr);
#endif
#ifdef WITH_TSAN
    side->fiber = __tsan_get_current_fiber();
#endif
}

/* A new context on the given memory, which may have been a stack before. */
static void side_make_on(struct side *side, void *base, size_t size, void (*entry)(void *)) {
    *side = (struct side){.base = base, .size = size};
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(base, size);
#endif
#ifdef WITH_TSAN
    side->fiber = __tsan_create_fiber(0);
#endif
    wefti_ctx_init(&side->ctx, base, size, entry, wefti_ctx_modes());
}

static void side_make(struct side *side, void (*entry)(void *)) {
    size_t size = harness_is_slow() ? 256 * 1024 : 64 * 1024;
    void *base = malloc(size);
    REQUIRE(base);
    side_make_on(side, base, size, entry);
}

/* Not the one that runs. */
static void side_forget(struct side *side) {
#ifdef WITH_TSAN
    __tsan_destroy_fiber(side->fiber);
#endif
    (void)side;
}

static void side_free(struct side *side) {
    side_forget(side);
    free(side->base);
}

/* Just before the switch.  Inlined, since a function must not begin on one side and end on the other. */
ALWAYS_INLINE void leaving(struct side *from, struct side *to) {
    (void)from;
    (void)to;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->base, to->size);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

/* Just after it, and first of all in an entry. */
ALWAYS_INLINE void arrived(struct side *self) {
    (void)self;
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(self->fake, NULL, NULL);
#endif
}

static void *go(struct side *from, struct side *to, void *pass) {
    leaving(from, to);
    pass = wefti_ctx_switch(&from->ctx, &to->ctx, pass);
    arrived(from);
    return pass;
}

/* The last switch of a context. */
static _Noreturn void finish(struct side *from, struct side *to, void *pass) {
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(NULL, to->base, to->size);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    wefti_ctx_switch(&from->ctx, &to->ctx, pass);
    abort();
}

/* -- Registers ------------------------------------------------------------------------------------------- */

static void *go_regs(struct side *from, struct side *to, void *pass, struct regs *regs) {
    leaving(from, to);
    pass = test_regs_switch(&from->ctx, &to->ctx, pass, regs);
    arrived(from);
    return pass;
}

static void regs_random(struct regs *regs, uint64_t *state) {
    for (int i = 0; i < REGISTERS; i++)
        regs->in[i] = harness_random(state);
}

/* All registers that are wrong, then the end of the test. */
static void regs_check(const struct regs *regs) {
    int wrong = 0;
    for (int i = 0; i < REGISTERS; i++)
        if (regs->out[i] != regs->in[i] && ++wrong)
            harness_note(__FILE__, __LINE__, "%s: expected %#jx, found %#jx", register_name[i], (uintmax_t)regs->in[i],
                         (uintmax_t)regs->out[i]);
    REQUIRE_EQ(wrong, 0);
    REQUIRE_EQ(regs->sp_out, regs->sp_in);
}

/* Every time it runs, `away` takes the registers that it holds while it is suspended from here. */
static struct regs away_regs;
static uint64_t away_sp;
static void regs_entry(void *pass) {
    arrived(&away);
    for (;;) {
        struct regs mine = away_regs;
        scramble();
        pass = go_regs(&away, &home, pass, &mine);
        regs_check(&mine);
        away_sp = mine.sp_in;
    }
}

TEST(registers_each, "J15") {
    side_is_thread(&home);
    side_make(&away, regs_entry);
    go(&home, &away, NULL);
    for (int i = 0; i < REGISTERS; i++) {
        for (int inverted = 0; inverted < 2; inverted++) {
            struct regs mine = {0};
            for (int j = 0; j < REGISTERS; j++) {
                mine.in[j] = (j == i) == !inverted ? UINT64_C(0x0123456789abcdef) : 0;
                away_regs.in[j] = ~mine.in[j];
            }
            go(&home, &away, NULL); /* now it holds them */
            go_regs(&home, &away, NULL, &mine);
            regs_check(&mine);
        }
    }
    side_free(&away);
}

TEST(registers_together, "J15") {
    struct regs mine;
    side_is_thread(&home);
    side_make(&away, regs_entry);
    for (int i = 0; i < REGISTERS; i++) {
        mine.in[i] = UINT64_C(0x1111000000000000) + (unsigned)i;
        away_regs.in[i] = UINT64_C(0xeeee000000000000) + (unsigned)i;
    }
    for (int round = 0; round < 4; round++) {
        go_regs(&home, &away, NULL, &mine);
        regs_check(&mine);
    }
    side_free(&away);
}

TEST(registers_random, "J15") {
    uint64_t random = harness_seed();
    side_is_thread(&home);
    side_make(&away, regs_entry);
    for (int round = 0; round < 20000; round++) {
        struct regs mine;
        regs_random(&mine, &random);
        regs_random(&away_regs, &random);
        go_regs(&home, &away, NULL, &mine);
        regs_check(&mine);
    }
    side_free(&away);
}

/* The stack pointer, however deep the caller is. */
static NOINLINE void at_depth(int depth) {
    volatile unsigned char room[40];
    struct regs mine = {.in = {(unsigned)depth}};
    room[0] = (unsigned char)depth;
    go_regs(&home, &away, NULL, &mine);
    regs_check(&mine);
    CHECK_EQ(mine.sp_in % 16, 0);
    if (depth)
        at_depth(depth - 1);
    go_regs(&home, &away, NULL, &mine);
    regs_check(&mine);
    CHECK_EQ(room[0], (unsigned char)depth);
}
TEST(stack_pointer, "J15") {
    side_is_thread(&home);
    side_make(&away, regs_entry);
    at_depth(50);
    CHECK_GE((uintptr_t)away.ctx.sp, (uintptr_t)away.base);
    CHECK_LT((uintptr_t)away.ctx.sp, (uintptr_t)away.base + away.size);
    CHECK_GE(away_sp, (uintptr_t)away.base);
    CHECK_LT(away_sp, (uintptr_t)away.base + away.size);
    CHECK_EQ(away_sp % 16, 0);
    side_free(&away);
}

/* A call does not keep vector registers (the callee-saved halves of aarch64 apart), so neither does a switch: whatever
 * the other side left there arrives.  This pins the cost down; nobody may depend on it. */
static uint64_t vector_seen;
static void vector_entry(void *pass) {
    arrived(&away);
    for (;;) {
        leaving(&away, &home);
        vector_seen = test_vector_switch(&away.ctx, &home.ctx, pass, 0xaaaa);
        arrived(&away);
    }
}
TEST(vector_registers_are_the_callers, "J15") {
    side_is_thread(&home);
    side_make(&away, vector_entry);
    for (int round = 0; round < 3; round++) {
        leaving(&home, &away);
        uint64_t seen = test_vector_switch(&home.ctx, &away.ctx, NULL, 0xbbbb);
        arrived(&home);
        CHECK_EQ(seen, 0xaaaa);
        CHECK_EQ(vector_seen, round ? 0xbbbb : 0);
    }
    side_free(&away);
}

/* -- What is passed, and where a switch goes ------------------------------------------------------------- */

static void echo_entry(void *pass) {
    arrived(&away);
    for (;;)
        pass = go(&away, &home, NUMBER(~(uintptr_t)pass));
}
TEST(pass_both_ways, "J15 J16") {
    uint64_t random = harness_seed();
    side_is_thread(&home);
    side_make(&away, echo_entry);
    CHECK_EQ(go(&home, &away, NULL), -1);
    CHECK_EQ(go(&home, &away, NUMBER(UINTPTR_MAX)), 0);
    CHECK_EQ(go(&home, &away, &random), ~(intptr_t)&random);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = harness_random(&random);
        REQUIRE_EQ(go(&home, &away, NUMBER(value)), ~(intptr_t)value);
    }
    side_free(&away);
}

TEST(ping_pong, "J15") {
    uintptr_t rounds = harness_is_slow() ? 20000 : 1000000;
    side_is_thread(&home);
    side_make(&away, echo_entry);
    for (uintptr_t i = 0; i < rounds; i++)
        REQUIRE_EQ(go(&home, &away, NUMBER(i)), ~(intptr_t)i);
    side_free(&away);
}

/* A context is a value: it may be copied, lie on any stack, and the one that is continued is not written to. */
TEST(contexts_are_values, "J15") {
    side_is_thread(&home);
    side_make(&away, echo_entry);
    go(&home, &away, NULL);
    const struct wefti_ctx copy = away.ctx;
    leaving(&home, &away);
    void *pass = wefti_ctx_switch(&home.ctx, &copy, NUMBER(5));
    arrived(&home);
    CHECK_EQ(pass, ~(intptr_t)5);
    CHECK_EQ(copy.sp, away.ctx.sp); /* suspended at the same place again */
    side_free(&away);
}

TEST(switch_to_oneself, "J15") {
    uint64_t random = harness_seed();
    side_is_thread(&home);
    for (uintptr_t i = 0; i < 100; i++) {
        struct regs mine;
        regs_random(&mine, &random);
        CHECK_EQ(test_regs_switch(&home.ctx, &home.ctx, NUMBER(i), &mine), i);
        regs_check(&mine);
    }
}

/* home -> away -> third -> home, each with its own registers. */
static uint64_t chain_steps;
static void chain_turn(struct side *self, struct side *next, uint64_t random) {
    for (;;) {
        struct regs mine;
        chain_steps++;
        regs_random(&mine, &random);
        go_regs(self, next, NULL, &mine);
        regs_check(&mine);
    }
}
static void chain_away(void *pass) {
    arrived(&away);
    chain_turn(&away, &third, (uintptr_t)pass);
}
static void chain_third(void *pass) {
    arrived(&third);
    chain_turn(&third, &home, (uintptr_t)pass + 1);
}
TEST(chain_of_three, "J15") {
    uint64_t random = harness_seed();
    side_is_thread(&home);
    side_make(&away, chain_away);
    side_make(&third, chain_third);
    for (int i = 0; i < 1000; i++) {
        struct regs mine;
        regs_random(&mine, &random);
        go_regs(&home, &away, NUMBER(i), &mine);
        regs_check(&mine);
    }
    CHECK_EQ(chain_steps, 2000);
    side_free(&away);
    side_free(&third);
}

/* Any context continues any other. */
enum { CROWD = 20 };
static struct crowd {
    struct side side[CROWD];
    unsigned runs[CROWD], left;
    uint64_t random;
} crowd;
static void crowd_entry(void *pass) {
    unsigned self = (unsigned)(uintptr_t)pass;
    struct regs mine;
    arrived(&crowd.side[self]);
    for (;;) {
        crowd.runs[self]++;
        if (crowd.left-- == 0)
            go(&crowd.side[self], &home, NULL);
        unsigned next = (unsigned)(harness_random(&crowd.random) % CROWD);
        if (next == self)
            continue;
        regs_random(&mine, &crowd.random);
        go_regs(&crowd.side[self], &crowd.side[next], NUMBER(next), &mine);
        regs_check(&mine);
    }
}
TEST(crowd_at_random, "J15 J16") {
    unsigned total = 0, rounds = harness_is_slow() ? 2000 : 50000;
    side_is_thread(&home);
    crowd.random = harness_seed();
    crowd.left = rounds;
    for (int i = 0; i < CROWD; i++)
        side_make(&crowd.side[i], crowd_entry);
    go(&home, &crowd.side[0], NUMBER(0));
    for (int i = 0; i < CROWD; i++) {
        CHECK_GT(crowd.runs[i], 0);
        total += crowd.runs[i];
        side_free(&crowd.side[i]);
    }
    CHECK_EQ(total, rounds + 1);
}

/* Generators inside generators: each one makes, runs and ends the next. */
struct nest {
    struct side side, *parent;
    int depth;
};
static void nest_entry(void *pass) {
    struct nest *self = pass, child = {.parent = &self->side, .depth = self->depth - 1};
    arrived(&self->side);
    for (uintptr_t i = 1; i <= 3; i++)
        go(&self->side, self->parent, NUMBER(i));
    if (self->depth) {
        side_make(&child.side, nest_entry);
        for (void *got; (got = go(&self->side, &child.side, &child));)
            go(&self->side, self->parent, got);
        side_free(&child.side);
    }
    finish(&self->side, self->parent, NULL);
}
TEST(generators_nested, "J15 J16") {
    struct nest top = {.parent = &home, .depth = 15};
    uintptr_t count = 0, sum = 0;
    side_is_thread(&home);
    side_make(&top.side, nest_entry);
    for (void *got; (got = go(&home, &top.side, &top)); count++)
        sum += (uintptr_t)got;
    CHECK_EQ(count, 3 * 16);
    CHECK_EQ(sum, 6 * 16);
    side_free(&top.side);
}

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

/* -- Modes of floating point ----------------------------------------------------------------------------- */

/* How the processor rounds, by what it makes of a tenth. */
static enum rounding rounding_seen(void) {
    static volatile double one = 1.0, minus = -1.0, ten = 10.0;
    volatile double plus_tenth = one / ten, minus_tenth = minus / ten;
    uint64_t plus, less;
    memcpy(&plus, (void *)&plus_tenth, sizeof plus);
    memcpy(&less, (void *)&minus_tenth, sizeof less);
    bool away_above = (plus & 0xff) == 0x9a, away_below = (less & 0xff) == 0x9a;
    return away_above ? (away_below ? NEAREST : UP) : (away_below ? DOWN : ZERO);
}

static uint64_t modes_in_away;
static void modes_entry(void *pass) {
    arrived(&away);
    for (;;) {
        modes_in_away = modes();
        pass = go(&away, &home, pass);
    }
}

/* Every bit on its own: kept at home, not seen away. */
TEST(modes_each_bit, "J15") {
    uint64_t normal = modes();
    unsigned tried = 0;
    side_is_thread(&home);
    side_make(&away, modes_entry);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t changed = normal ^ UINT64_C(1) << bit;
        if (!(MODES >> bit & 1))
            continue;
        modes_set(changed);
        bool exists = modes() == changed;
        modes_set(normal);
        if (!exists) /* on this processor */
            continue;
        tried++;
        modes_in_away = 0;
        modes_set(changed);
        go(&home, &away, NULL);
        uint64_t after = modes();
        modes_set(normal);
        CHECK_EQ(after, changed);
        CHECK_EQ(modes_in_away, normal);
        go(&home, &away, NULL);
        CHECK_EQ(modes(), normal);
        CHECK_EQ(modes_in_away, normal);
    }
    CHECK_GE(tried, 3);
    side_free(&away);
}

/* And what it is for: four contexts that round in four ways. */
static enum rounding rounding_found[4];
static void rounding_entry(void *pass) {
    unsigned self = (unsigned)(uintptr_t)pass;
    arrived(&many[self]);
    round_to((enum rounding)self);
    for (;;) {
        rounding_found[self] = rounding_seen();
        go(&many[self], &home, NULL);
    }
}
TEST(rounding_is_the_contexts_own, "J15") {
    side_is_thread(&home);
    for (unsigned i = 0; i < 4; i++)
        side_make(&many[i], rounding_entry);
    for (unsigned i = 0; i < 400; i++) {
        unsigned next = i * 7 / 4 % 4;
        rounding_found[next] = (enum rounding)9;
        go(&home, &many[next], NUMBER(next));
        REQUIRE_EQ(rounding_found[next], next);
        REQUIRE_EQ(rounding_seen(), NEAREST);
    }
    for (unsigned i = 0; i < 4; i++)
        side_free(&many[i]);
}

/* Numbers that are too small: lost in one context, kept in the other. */
static double tiny_half(void) {
    static volatile double least = 2.2250738585072014e-308, half = 0.5;
    return least * half;
}
static bool tiny_lost;
static void flush_entry(void *pass) {
    arrived(&away);
#if defined(__x86_64__)
    modes_set(modes() | 0x8040); /* FTZ, DAZ */
#elif defined(__aarch64__)
    modes_set(modes() | 1 << 24); /* FZ */
#endif
    for (;;) {
        tiny_lost = tiny_half() == 0;
        pass = go(&away, &home, pass);
    }
}
TEST(flush_to_zero_is_the_contexts_own, "J15") {
#if defined(__riscv)
    SKIP("this processor has no such mode");
#endif
    side_is_thread(&home);
    side_make(&away, flush_entry);
    for (int i = 0; i < 10; i++) {
        tiny_lost = false;
        go(&home, &away, NULL);
        CHECK(tiny_lost);
        CHECK(tiny_half() > 0);
    }
    side_free(&away);
}

TEST(new_context_has_its_makers_modes, "J16") {
    uint64_t normal = modes();
    side_is_thread(&home);
    for (int mode = NEAREST; mode <= ZERO; mode++) {
        modes_set(normal);
        round_to((enum rounding)mode);
        uint64_t expected = modes();
        side_make(&away, modes_entry);
        round_to((enum rounding)(3 - mode)); /* whoever starts it has others */
        uint64_t mine = modes();
        go(&home, &away, NULL);
        CHECK_EQ(modes_in_away, expected);
        CHECK_EQ(modes(), mine);
        side_free(&away);
    }
    modes_set(normal);
}

#if defined(__x86_64__)
/* SSE and x87 are two machines with two control words: either alone makes the switch load it. */
static volatile long double ld_one = 1.0L, ld_three = 3.0L, ld_zero = 0.0L;
static volatile double d_one = 1.0, d_zero = 0.0;
static uint64_t x87_third(void) {
    volatile long double quotient = ld_one / ld_three;
    uint64_t mantissa;
    memcpy(&mantissa, (void *)&quotient, sizeof mantissa);
    return mantissa;
}
static uint64_t x87_found;
static void x87_entry(void *pass) {
    arrived(&away);
    modes_set((modes() & ~(UINT64_C(3) << 40)) | UINT64_C(2) << 40); /* 53 bits of precision */
    for (;;) {
        x87_found = x87_third();
        pass = go(&away, &home, pass);
    }
}
#endif
TEST(x87_precision_is_the_contexts_own, "J15") {
#if defined(__x86_64__)
    side_is_thread(&home);
    side_make(&away, x87_entry);
    for (int i = 0; i < 10; i++) {
        go(&home, &away, NULL);
        CHECK_EQ(x87_found & 0x7ff, 0);
        CHECK_EQ(x87_third() & 0x7ff, 0x2ab);
    }
    side_free(&away);
#else
    SKIP("x86-64 only");
#endif
}

/* Flags that one side has raised must not trap on a side that asks for traps: it has done nothing wrong. */
#if defined(__x86_64__)
static sigjmp_buf trap_back;
static volatile sig_atomic_t traps;
static void on_trap(int signal) {
    (void)signal;
    traps++;
    siglongjmp(trap_back, 1);
}
static void trapping_entry(void *first) {
    void *volatile pass = first;
    arrived(&away);
    modes_set(modes() & ~(UINT64_C(1) << 9 | UINT64_C(1) << 34)); /* division by zero traps, in SSE and in x87 */
    for (;;) {
        if (sigsetjmp(trap_back, 1) == 0) {
            volatile double sum = d_one + d_one;
            volatile long double ld_sum = ld_one + ld_three;
            (void)sum;
            (void)ld_sum;
            if (pass == NUMBER(1))
                sum = d_one / d_zero;
            if (pass == NUMBER(2)) {
                ld_sum = ld_one / ld_zero;
                ld_sum = ld_one + ld_three;
            }
        } else {
            modes_set(modes() & ~(UINT64_C(1) << 9 | UINT64_C(1) << 34)); /* the handler began with the kernel's */
        }
        pass = go(&away, &home, pass);
    }
}
#endif
TEST(exception_flags_do_not_trap_elsewhere, "J15") {
#if defined(__x86_64__)
    uint64_t normal = modes();
    side_is_thread(&home);
    side_make(&away, trapping_entry);
    signal(SIGFPE, on_trap);
    for (int i = 0; i < 5; i++) {
        volatile double quotient = d_one / d_zero; /* raises flags, and traps not */
        volatile long double ld_quotient = ld_one / ld_zero;
        CHECK(quotient > 1 && ld_quotient > 1);
        go(&home, &away, NUMBER(0));
        CHECK_EQ(traps, 0);
        CHECK_EQ(modes(), normal);
    }
    go(&home, &away, NUMBER(1)); /* traps are on there, or the test proves nothing */
    CHECK_EQ(traps, 1);
    go(&home, &away, NUMBER(2)); /* x87 traps at the instruction after */
    CHECK_EQ(traps, 2);
    CHECK_EQ(modes(), normal);
    volatile long double quotient = ld_one / ld_zero;
    CHECK(quotient > 1);
    CHECK_EQ(traps, 2);
    side_free(&away);
#else
    SKIP("this processor does not trap");
#endif
}

/* Control words that are equal are not loaded, which would cost more than the rest of the switch.  It shows in the flags:
 * they stay. */
#if defined(__x86_64__)
enum { FLAG_SSE = 0x4, FLAG_X87 = 0x400 }; /* division by zero */
static unsigned flags(void) {
    uint32_t mxcsr;
    uint16_t status;
    __asm__ volatile("stmxcsr %0\n fnstsw %1" : "=m"(mxcsr), "=m"(status));
    return (mxcsr & FLAG_SSE) | ((unsigned)status << 8 & FLAG_X87);
}
static void flags_raise(void) {
    volatile double quotient = d_one / d_zero;
    volatile long double ld_quotient = ld_one / ld_zero;
    (void)quotient;
    (void)ld_quotient;
}
static unsigned flags_in_away;
static void flags_entry(void *pass) {
    arrived(&away);
    for (;;) {
        flags_in_away = flags();
        pass = go(&away, &home, pass);
    }
}
#endif
TEST(equal_modes_are_not_loaded, "J15") {
#if defined(__x86_64__)
    uint64_t normal = modes();
    side_is_thread(&home);
    side_make(&away, flags_entry);
    for (int i = 0; i < 3; i++) {
        modes_set(normal); /* and no flags */
        go(&home, &away, NULL);
        CHECK_EQ(flags_in_away, 0);
        flags_raise();
        go(&home, &away, NULL);
        CHECK_EQ(flags_in_away, FLAG_SSE | FLAG_X87);
        CHECK_EQ(flags(), FLAG_SSE | FLAG_X87);
        modes_set(normal ^ 0x8000); /* SSE differs, x87 does not */
        flags_raise();
        go(&home, &away, NULL);
        CHECK_EQ(flags_in_away & FLAG_X87, FLAG_X87);
        CHECK_EQ(flags() & FLAG_X87, FLAG_X87);
    }
    modes_set(normal);
    side_free(&away);
#else
    SKIP("x86-64 only");
#endif
}

/* -- What the compiler keeps in a frame ------------------------------------------------------------------ */

/* The same function at every level of optimization: what it computes must not depend on switches in the middle. */
#if defined(__clang__)
#define LEVEL_0 __attribute__((optnone))
#define LEVEL_1
#define LEVEL_2
#define LEVEL_3
#else
#define LEVEL_0 __attribute__((optimize("O0")))
#define LEVEL_1 __attribute__((optimize("O1")))
#define LEVEL_2 __attribute__((optimize("O2")))
#define LEVEL_3 __attribute__((optimize("O3")))
#endif
struct mixed {
    uint64_t a;
    double b;
    char text[20];
};
#define SPILL(name, level)                                                                                             \
    static NOINLINE level uint64_t name(uint64_t seed, bool switching) {                                               \
        uint64_t a = seed * 3, b = a ^ seed >> 3, c = a + b, d = b * 5, e = c ^ d, f = d + 7, g = e * 9, h = ~f;       \
        double p = (double)(a & 0xffff), q = p / 3, r = q + 0.25, s = r * q, t = s - p, u = t / 7;                     \
        long double v = (long double)u / 11;                                                                           \
        struct mixed m = {a, q, "kept on the stack"};                                                                  \
        uint64_t row[3 + seed % 9], rows = 3 + seed % 9;                                                               \
        for (uint64_t i = 0; i < rows; i++)                                                                            \
            row[i] = a + i * b;                                                                                        \
        for (int i = 0; i < 5; i++) {                                                                                  \
            if (switching)                                                                                             \
                go(&away, &home, NULL);                                                                                \
            a += h ^ row[0], b ^= a >> 7, c += b, d -= c, e ^= d, f += e, g ^= f, h += g;                              \
            p += u, q -= p / 8, r += q, s = s / 2 + r, t -= s, u += t / 16, v += (long double)p / 3;                   \
            m.a += a, m.b += s, m.text[i]++, row[a % rows] += f;                                                       \
        }                                                                                                              \
        for (uint64_t i = 0; i < rows; i++)                                                                            \
            a = a * 31 + row[i];                                                                                       \
        for (size_t i = 0; i < sizeof m.text; i++)                                                                     \
            a = a * 31 + (unsigned char)m.text[i];                                                                     \
        return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ m.a ^ (uint64_t)(int64_t)(p + q + r + s + t + u + m.b + (double)v);     \
    }
SPILL(spill_0, LEVEL_0)
SPILL(spill_1, LEVEL_1)
SPILL(spill_2, LEVEL_2)
SPILL(spill_3, LEVEL_3)
static uint64_t (*const spills[])(uint64_t, bool) = {spill_0, spill_1, spill_2, spill_3};
static bool spill_done;
static uint64_t spill_result;
static void spill_entry(void *pass) {
    unsigned level = (unsigned)(uintptr_t)pass % 4;
    arrived(&away);
    for (uint64_t seed = (uintptr_t)pass;; seed = (uintptr_t)go(&away, &home, NULL)) {
        spill_result = spills[level](seed, true);
        spill_done = true;
    }
}
TEST(locals_at_every_optimization, "J15") {
    uint64_t random = harness_seed();
    side_is_thread(&home);
    for (unsigned level = 0; level < 4; level++) {
        side_make(&away, spill_entry);
        for (int i = 0; i < 200; i++) {
            uint64_t seed = i ? harness_random(&random) >> 32 : level;
            unsigned switches = 0;
            spill_done = false;
            for (; !spill_done; switches++) {
                struct regs mine;
                regs_random(&mine, &random);
                go_regs(&home, &away, NUMBER(seed), &mine);
                regs_check(&mine);
                scramble();
            }
            CHECK_EQ(switches, 6);
            CHECK_EQ(spill_result, spills[level](seed, false));
        }
        side_free(&away);
    }
}

/* A leaf function may keep things below the stack pointer: signals that come on the context's stack leave them alone
 * (storm_of_signals), and so does a switch made in between. */
static NOINLINE uint64_t leaf(uint64_t seed) {
    volatile uint64_t low[12];
    for (unsigned i = 0; i < 12; i++)
        low[i] = seed * (i + 1);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 12; i++)
        sum += low[i];
    return sum;
}

static NOINLINE uint64_t dig(unsigned depth, uint64_t seed) {
    uint64_t mark[6];
    for (unsigned i = 0; i < 6; i++)
        mark[i] = seed + i * depth;
    go(&away, &home, mark);
    uint64_t below = depth ? dig(depth - 1, seed * 3 + 1) : leaf(seed);
    go(&away, &home, mark);
    for (unsigned i = 0; i < 6; i++)
        CHECK_EQ(mark[i], seed + i * depth);
    return below + 1;
}
static void dig_entry(void *pass) {
    arrived(&away);
    spill_result = dig((unsigned)(uintptr_t)pass, 1);
    finish(&away, &home, NULL);
}
TEST(recursion, "J15") {
    unsigned depth = harness_is_slow() ? 100 : 300, visits = 0;
    uint64_t bottom = 1;
    side_is_thread(&home);
    side_make(&away, dig_entry);
    for (unsigned i = 0; i < depth; i++)
        bottom = bottom * 3 + 1;
    while (go(&home, &away, NUMBER(depth))) {
        leaf(visits);
        scramble();
        visits++;
    }
    CHECK_EQ(visits, 2 * (depth + 1));
    CHECK_EQ(spill_result, bottom * 78 + depth + 1);
    side_free(&away);
}

/* Arguments that have not been fetched yet wait in the frame, and partly in the register save area. */
static NOINLINE double take(int count, ...) {
    double sum = 0;
    va_list args, twice;
    va_start(args, count);
    va_copy(twice, args);
    for (int i = 0; i < count; i++) {
        go(&away, &home, NULL);
        sum += va_arg(args, int);
        go(&away, &home, NULL);
        sum += va_arg(args, double);
    }
    for (int i = 0; i < count; i++) {
        sum += 1000 * va_arg(twice, int);
        sum += 1000 * va_arg(twice, double);
    }
    va_end(twice);
    va_end(args);
    return sum;
}
static double taken;
static void take_entry(void *pass) {
    arrived(&away);
    taken = take((int)(uintptr_t)pass, 1, 0.5, 2, 1.5, 3, 2.5, 4, 3.5, 5, 4.5, 6, 5.5, 7, 6.5, 8, 7.5, 9, 8.5, 10, 9.5);
    finish(&away, &home, &taken);
}
TEST(variadic_calls, "J15") {
    side_is_thread(&home);
    side_make(&away, take_entry);
    char text[64];
    unsigned switches = 1;
    for (; !go(&home, &away, NUMBER(10)); switches++) {
        snprintf(text, sizeof text, "%d %f %d %f %d %f %d %f", 1, 2., 3, 4., 5, 6., 7, 8.);
        scramble();
    }
    CHECK_EQ(switches, 21);
    CHECK_EQ(taken * 2, 2 * 105 * 1001);
    side_free(&away);
}

/* longjmp within one context, with switches before, between and after. */
static jmp_buf jump;
static NOINLINE void jump_from(int depth) {
    if (go(&away, &home, NULL) == &jump) /* never */
        return;
    if (depth)
        jump_from(depth - 1);
    longjmp(jump, 7);
}
static volatile int jumps;
static void jump_entry(void *pass) {
    volatile int rounds = (int)(uintptr_t)pass;
    arrived(&away);
    int found = setjmp(jump);
    if (found) {
        CHECK_EQ(found, 7);
        jumps++;
        rounds--;
        go(&away, &home, NULL);
    }
    if (rounds)
        jump_from(3);
    finish(&away, &home, NUMBER(1));
}
TEST(long_jumps, "J15") {
    volatile unsigned switches = 0;
    side_is_thread(&home);
    side_make(&away, jump_entry);
    for (; !go(&home, &away, NUMBER(10)); switches++) {
        jmp_buf mine;
        if (setjmp(mine) == 0) /* the other side may jump too */
            longjmp(mine, 1);
    }
    CHECK_EQ(jumps, 10);
    CHECK_EQ(switches, 50);
    side_free(&away);
}

/* -- Threads --------------------------------------------------------------------------------------------- */

/* A context that goes home to whoever continued it, with its registers unchanged. */
struct job {
    struct side side;
    uint64_t random, steps;
    pthread_t seen;
};
struct visit {
    struct job *job;
    struct side *host;
};
/* A function of its own, since the compiler may take a thread for the same before and after a switch. */
static NOINLINE pthread_t this_thread(void) {
    __asm__ volatile("" ::: "memory");
    return pthread_self();
}
static void job_entry(void *pass) {
    struct visit *visit = pass;
    struct job *job = visit->job;
    arrived(&job->side);
    for (;;) {
        struct regs mine;
        job->steps++;
        job->seen = this_thread();
        regs_random(&mine, &job->random);
        visit = go_regs(&job->side, visit->host, NULL, &mine);
        regs_check(&mine);
    }
}
static void job_step(struct job *job) {
    struct side host;
    struct regs mine;
    uint64_t random = (uintptr_t)&host;
    side_is_thread(&host);
    regs_random(&mine, &random);
    go_regs(&host, &job->side, &(struct visit){job, &host}, &mine);
    regs_check(&mine);
    CHECK(pthread_equal(job->seen, this_thread()));
}
static void *job_step_thread(void *job) {
    job_step(job);
    return NULL;
}

TEST(resumed_by_a_new_thread_each_time, "J15") {
    struct job job = {.random = harness_seed()};
    side_make(&job.side, job_entry);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        REQUIRE_EQ(pthread_create(&thread, NULL, job_step_thread, &job), 0);
        pthread_join(thread, NULL); /* the thread that saved it is gone */
        job_step(&job);
    }
    CHECK_EQ(job.steps, 40);
    side_free(&job.side);
}

/* Two threads, turn by turn. */
static sem_t turns[2];
enum { TURNS = 2000 };
static void relay(unsigned index, void *job) {
    for (int i = 0; i < TURNS; i++) {
        while (sem_wait(&turns[index]))
            continue;
        job_step(job);
        sem_post(&turns[1 - index]);
    }
}
TEST(resumed_by_two_threads_in_turn, "J15") {
    struct job job = {.random = harness_seed()};
    side_make(&job.side, job_entry);
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    harness_threads(2, relay, &job);
    CHECK_EQ(job.steps, 2 * TURNS);
    side_free(&job.side);
}

/* Four threads take contexts from one list as a scheduler would. */
enum { JOBS = 16 };
static struct {
    pthread_mutex_t lock;
    struct job job[JOBS];
    unsigned free[JOBS], count;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
static void pool_work(unsigned index, void *arg) {
    uint64_t random = *(uint64_t *)arg + index;
    for (int i = 0, rounds = harness_is_slow() ? 300 : 5000; i < rounds; i++) {
        pthread_mutex_lock(&pool.lock);
        unsigned at = (unsigned)(harness_random(&random) % pool.count), job = pool.free[at];
        pool.free[at] = pool.free[--pool.count];
        pthread_mutex_unlock(&pool.lock);
        job_step(&pool.job[job]);
        pthread_mutex_lock(&pool.lock);
        pool.free[pool.count++] = job;
        pthread_mutex_unlock(&pool.lock);
    }
}
TEST(resumed_by_many_threads, "J15 J16") {
    uint64_t seed = harness_seed(), steps = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        pool.job[i].random = seed + i;
        pool.free[pool.count++] = i;
        side_make(&pool.job[i].side, job_entry);
    }
    harness_threads(4, pool_work, &seed);
    for (unsigned i = 0; i < JOBS; i++) {
        steps += pool.job[i].steps;
        side_free(&pool.job[i].side);
    }
    CHECK_EQ(steps, 4 * (harness_is_slow() ? 300 : 5000));
}

/* What belongs to the thread stays with it: errno, thread-locals, the signal mask.  A context that goes on elsewhere
 * finds those of the other thread, and has to look them up anew (the compiler may have kept the address of the old). */
static _Thread_local int local;
static NOINLINE void local_set(int value) {
    __asm__ volatile("" ::: "memory");
    local = errno = value;
}
static NOINLINE int local_get(void) {
    __asm__ volatile("" ::: "memory");
    return local == errno ? local : -1;
}
static NOINLINE bool usr2_blocked(void) {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, SIGUSR2);
}
static int locals_found[3];
static bool masks_found[3];
static struct side *locals_host;
static void locals_entry(void *pass) {
    (void)pass;
    arrived(&away);
    for (int i = 0; i < 3; i++) {
        locals_found[i] = local_get();
        masks_found[i] = usr2_blocked();
        local_set(local_get() + 1);
        go(&away, locals_host, NULL);
    }
    abort();
}
static void *locals_thread(void *arg) {
    struct side host;
    sigset_t set;
    side_is_thread(&host);
    locals_host = &host;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    local_set(100);
    go(&host, &away, NULL);
    CHECK_EQ(local_get(), 101);
    CHECK(usr2_blocked());
    return arg;
}
TEST(thread_locals_are_the_threads, "J15") {
    pthread_t thread;
    side_is_thread(&home);
    side_make(&away, locals_entry);
    locals_host = &home;
    local_set(5);
    go(&home, &away, NULL);
    CHECK_EQ(local_get(), 6);
    REQUIRE_EQ(pthread_create(&thread, NULL, locals_thread, NULL), 0);
    pthread_join(thread, NULL);
    locals_host = &home;
    local_set(7);
    go(&home, &away, NULL);
    CHECK_EQ(local_get(), 8);
    CHECK_EQ(locals_found[0], 5);
    CHECK_EQ(locals_found[1], 100);
    CHECK_EQ(locals_found[2], 7);
    CHECK_EQ(masks_found[0] * 4 + masks_found[1] * 2 + masks_found[2], 2);
    side_free(&away);
}

/* pthread_exit from within a context unwinds to the first frame and ends the thread there. */
static bool cleaned;
static void clean(void *arg) {
    (void)arg;
    cleaned = true;
}
static void thread_exit_entry(void *pass) {
    pthread_cleanup_push(clean, NULL);
    pthread_exit(pass);
    pthread_cleanup_pop(0);
}
static void *thread_exit_thread(void *arg) {
    wefti_ctx_switch(&home.ctx, &away.ctx, arg);
    abort();
}
TEST(thread_exit_in_a_context, "J16") {
    PLAIN_BUILD_ONLY("does not expect a thread to end on a foreign stack");
    pthread_t thread;
    void *result;
    side_make(&away, thread_exit_entry);
    REQUIRE_EQ(pthread_create(&thread, NULL, thread_exit_thread, &cleaned), 0);
    REQUIRE_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ(result, &cleaned);
    CHECK(cleaned);
    side_free(&away);
}

/* The same for the whole process, and for a fork, which continues on the same stack in the child. */
static void exit_entry(void *pass) {
    (void)pass;
    arrived(&away);
    exit(21);
}
static void at_exit(void) { _exit(42); }
static void fork_entry(void *pass) {
    arrived(&away);
    fflush(NULL);
    *(pid_t *)pass = fork();
    go(&away, &home, NULL);
    abort();
}
TEST(exit_and_fork_in_a_context, "J16") {
    pid_t child = -1;
    int status;
    side_is_thread(&home);
    side_make(&away, fork_entry);
    go(&home, &away, &child);
    REQUIRE_GE(child, 0);
    side_free(&away);
    if (child == 0) {
        side_make(&away, exit_entry);
        atexit(at_exit);
        go(&home, &away, NULL);
        _exit(1);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    REQUIRE(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
}

/* -- Signals --------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;
static volatile uintptr_t signal_sp;
static void on_signal(int signal) {
    (void)signal;
    signal_sp = (uintptr_t)__builtin_frame_address(0);
    signals++;
    scramble();
}
static bool within(uintptr_t address, const void *base, size_t size) { return address - (uintptr_t)base < size; }
static void raising_entry(void *pass) {
    arrived(&away);
    for (;;) {
        uint64_t before = leaf((uintptr_t)pass);
        raise(SIGUSR2);
        CHECK_EQ(leaf((uintptr_t)pass), before);
        pass = go(&away, &home, pass);
    }
}
TEST(signals_on_the_contexts_stack, "J15 J16") {
    side_is_thread(&home);
    side_make(&away, raising_entry);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_signal}, NULL);
    for (int i = 1; i < 100; i++) {
        go(&home, &away, NUMBER(i));
        REQUIRE_EQ(signals, 2 * i - 1);
        CHECK(within(signal_sp, away.base, away.size));
        raise(SIGUSR2);
        CHECK(!within(signal_sp, away.base, away.size));
    }
    side_free(&away);
}

TEST(signals_on_their_own_stack, "J15 J16") {
    size_t size = 256 * 1024;
    unsigned char *own = malloc(size);
    stack_t old;
    REQUIRE(own);
    side_is_thread(&home);
    side_make(&away, raising_entry);
    REQUIRE_EQ(sigaltstack(&(stack_t){.ss_sp = own, .ss_size = size}, &old), 0);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, NULL);
    for (int i = 1; i < 100; i++) {
        go(&home, &away, NUMBER(i));
        REQUIRE_EQ(signals, i);
        CHECK(within(signal_sp, own, size));
    }
    REQUIRE_EQ(sigaltstack(&old, NULL), 0);
    side_free(&away);
    free(own);
}

/* A timer hits the switch at whatever instruction it is. */
TEST(storm_of_signals, "J15") {
#ifdef WITH_TSAN
    SKIP("the thread sanitizer holds signals back");
#endif
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    uint64_t random = harness_seed(), sum = leaf(3), rounds = 0;
    side_is_thread(&home);
    side_make(&away, regs_entry);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
    REQUIRE_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (; signals < 1000; rounds++) {
        struct regs mine;
        regs_random(&mine, &random);
        for (int i = 0; i < 200; i++) {
            go_regs(&home, &away, NULL, &mine);
            regs_check(&mine);
        }
        REQUIRE_EQ(leaf(3), sum);
        regs_random(&away_regs, &random);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%d signals in %ju switches\n", (int)signals, (uintmax_t)(rounds * 400));
    side_free(&away);
}

/* A handler may switch away and come back: its context is suspended inside it.  Meanwhile the signal stays blocked, for
 * the mask is the thread's. */
static void switching_handler(int signal) {
    (void)signal;
    signals++;
    CHECK_EQ(go(&away, &home, NUMBER(2)), 3);
}
static void interrupted_entry(void *pass) {
    arrived(&away);
    uint64_t before = leaf((uintptr_t)pass);
    raise(SIGUSR2);
    CHECK_EQ(leaf((uintptr_t)pass), before);
    finish(&away, &home, NUMBER(4));
}
TEST(switch_within_a_handler, "J15") {
    PLAIN_BUILD_ONLY("does not follow switches within signal handlers");
    side_is_thread(&home);
    side_make(&away, interrupted_entry);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = switching_handler}, NULL);
    CHECK_EQ(go(&home, &away, NUMBER(1)), 2);
    CHECK(usr2_blocked());
    CHECK_EQ(go(&home, &away, NUMBER(3)), 4);
    CHECK(!usr2_blocked());
    CHECK_EQ(signals, 1);
    side_free(&away);
}

/* The end of a stack is found by the guard page, and reported on another stack. */
static sigjmp_buf overflow_back;
static uintptr_t overflow_at;
static void on_overflow(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    overflow_at = (uintptr_t)info->si_addr;
    siglongjmp(overflow_back, 1);
}
static NOINLINE unsigned fall(unsigned depth) {
    volatile unsigned here[32] = {depth};
    unsigned below = depth == UINT32_MAX ? 0 : fall(depth + 1);
    return below + here[0];
}
static void overflow_entry(void *pass) {
    if (sigsetjmp(overflow_back, 1) == 0)
        fall(0);
    wefti_ctx_switch(&away.ctx, &home.ctx, pass);
}
TEST(overflow_hits_the_guard_page, "J16") {
    PLAIN_BUILD_ONLY("handles this signal itself");
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 16 * page;
    unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static unsigned char own[64 * 1024];
    REQUIRE(memory != MAP_FAILED);
    REQUIRE_EQ(mprotect(memory, page, PROT_NONE), 0);
    REQUIRE_EQ(sigaltstack(&(stack_t){.ss_sp = own, .ss_size = sizeof own}, NULL), 0);
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK}, NULL);
    wefti_ctx_init(&away.ctx, memory + page, size - page, overflow_entry, wefti_ctx_modes());
    CHECK_EQ(wefti_ctx_switch(&home.ctx, &away.ctx, NUMBER(9)), 9);
    CHECK(within(overflow_at, memory, page));
    munmap(memory, size);
}

/* -- Unwinding ------------------------------------------------------------------------------------------- */

static void *trace[64];
static int trace_length;
static NOINLINE int trace_from(int depth) {
    int deeper = depth ? trace_from(depth - 1) : (trace_length = backtrace(trace, 64));
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return deeper;
}
static void trace_entry(void *pass) {
    arrived(&away);
    for (;;) {
        trace_from((int)(uintptr_t)pass);
        pass = go(&away, &home, pass);
    }
}
TEST(backtrace_ends_at_the_first_frame, "J16") {
    side_is_thread(&home);
    side_make(&away, trace_entry);
    trace_from(0); /* what libc loads for this, it loads on the thread's stack */
    for (int depth = 0; depth < 10; depth++) {
        trace_length = 0;
        go(&home, &away, NUMBER(depth));
        REQUIRE_GE(trace_length, depth + 2);
        REQUIRE_LE(trace_length, depth + 6);
        CHECK(within((uintptr_t)trace[trace_length - 1], (void *)(uintptr_t)wefti_ctx_trampoline, 64));
    }
    side_free(&away);
}

enum { FRAMES_MAX = 40 };
/* One unwinding from a signal that came at some instruction of the switch or of the trampoline. */
struct walk {
    uintptr_t function[FRAMES_MAX];
    unsigned count; /* of frames, from the interrupted one on */
    bool inside; /* the interrupted frame has been reached */
    struct regs *regs; /* of the side it belongs to, by the stack pointer that was found */
    uint64_t found[REGISTERS_MAX];
};
static struct {
    struct regs home, away;
    unsigned at_home, at_away, first; /* instructions looked at, by the stack they were on */
} steps;
/* An interrupted frame is told by the pc where it stopped. */
static uintptr_t step_pc;
static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *frame, void *arg) {
    struct walk *walk = arg;
    uintptr_t function = _Unwind_GetRegionStart(frame);
    walk->inside |= _Unwind_GetIP(frame) == step_pc;
    if (!walk->inside || !_Unwind_GetIP(frame)) /* the end shows itself as a frame at 0 */
        return _URC_NO_REASON;
    if (walk->count == FRAMES_MAX)
        return _URC_NORMAL_STOP;
    walk->function[walk->count++] = function;
    if (function == (uintptr_t)test_regs_switch) {
        uint64_t sp = _Unwind_GetCFA(frame);
        walk->regs = sp == steps.home.sp_in ? &steps.home : sp == steps.away.sp_in ? &steps.away : NULL;
        for (int i = 0; i < REGISTERS; i++)
            walk->found[i] = _Unwind_GetGR(frame, register_dwarf[i]);
    }
    return _URC_NO_REASON;
}
static void step_home_turn(void);
static void step_away_turn(void);
static void step_entry(void *pass);
/* Look at the stack from an instruction, unless it is none of ours.  What lies below the stack pointer is spoilt first:
 * neither the switch nor an unwinder may need it. */
static void step_look(uintptr_t pc, const ucontext_t *context) {
    uintptr_t function = (uintptr_t)_Unwind_FindEnclosingFunction((void *)(pc + 1));
    uintptr_t in_switch = (uintptr_t)wefti_ctx_switch, in_trampoline = (uintptr_t)wefti_ctx_trampoline;
    struct walk walk = {0};
    if (function != in_switch && function != in_trampoline)
        return;
    step_pc = pc;
    memset((char *)stopped_sp(context) - 1024, 0x5a, 1024);
    CHECK_EQ(_Unwind_Backtrace(walk_frame, &walk), _URC_END_OF_STACK);
    unsigned at = (unsigned)(pc - function);
    REQUIRE_GE(walk.count, 1);
    CHECK_EQ(walk.function[0], function);
    if (walk.function[walk.count - 1] == in_trampoline && walk.count <= 2) {
        steps.first++; /* it has not come to its entry yet */
    } else if (!walk.regs) {
        harness_note(__FILE__, __LINE__, "at byte %u: expected a caller's stack pointer, found neither's", at);
    } else {
        bool is_home = walk.regs == &steps.home;
        *(is_home ? &steps.at_home : &steps.at_away) += 1;
        CHECK_EQ(walk.function[1], test_regs_switch);
        CHECK_EQ(walk.function[2], is_home ? step_home_turn : step_away_turn);
        if (!is_home) {
            CHECK_EQ(walk.count, 5);
            CHECK_EQ(walk.function[3], step_entry);
            CHECK_EQ(walk.function[4], in_trampoline);
        }
        for (int i = 0; i < REGISTERS; i++)
            if (walk.found[i] != walk.regs->in[i]) {
                harness_note(__FILE__, __LINE__, "at byte %u: expected %s = %#jx, found %#jx", at, register_name[i],
                             (uintmax_t)walk.regs->in[i], (uintmax_t)walk.found[i]);
                break;
            }
    }
}

/* Stop at the instructions of the switch number `stage`, out of four: to a new context, back, there again, back. */
static int step_stage, step_now;
static void step_arm(void);
static void step_disarm(void);
static NOINLINE void step_home_turn(void) {
    if (step_now++ == step_stage)
        step_arm();
    test_regs_switch(&home.ctx, &away.ctx, NULL, &steps.home);
    step_disarm();
    regs_check(&steps.home);
}
static NOINLINE void step_away_turn(void) {
    if (step_now++ == step_stage)
        step_arm();
    test_regs_switch(&away.ctx, &home.ctx, NULL, &steps.away);
    step_disarm();
    regs_check(&steps.away);
}
static void step_entry(void *pass) {
    (void)pass;
    step_disarm();
    for (;;) {
        step_away_turn();
        __asm__ volatile("" ::: "memory");
    }
}
static void step_four(int stage) {
    step_stage = stage;
    step_now = 0;
    round_to(UP); /* other modes there than here: no instruction is jumped over */
    side_make(&away, step_entry);
    round_to(NEAREST);
    steps.away.sp_in = 0;
    step_home_turn();
    step_home_turn();
    free(away.base);
}

#if defined(__x86_64__)
static void on_step(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    step_look((uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], context);
}
static void step_arm(void) { trap_flag(1); }
static void step_disarm(void) { trap_flag(0); }
static void step_all(void) {
    for (int stage = 0; stage < 4; stage++)
        step_four(stage);
}
#else
/* A breakpoint is written over one instruction after the other. */
static unsigned char *step_at, step_old[4];
static unsigned step_width;
static void step_write(const void *bytes) {
    memcpy(step_at, bytes, step_width);
    __builtin___clear_cache((char *)step_at, (char *)step_at + step_width);
}
static void step_arm(void) {
    step_width = stop_width(step_at);
    memcpy(step_old, step_at, step_width);
    step_write(stop_bytes(step_width));
}
static void step_disarm(void) {
    if (step_width)
        step_write(step_old);
    step_width = 0;
}
static void on_step(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    step_disarm();
    step_look((uintptr_t)step_at, context);
}
static void step_all(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)wefti_ctx_switch & ~(page - 1);
    if (mprotect((void *)begin, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC))
        SKIP("code cannot be written to here");
    for (int stage = 0; stage < 4; stage++)
        for (step_at = (unsigned char *)(uintptr_t)wefti_ctx_switch;
             step_at < (unsigned char *)(uintptr_t)wefti_ctx_trampoline + 16; step_at += stop_width(step_at))
            step_four(stage);
}
#endif

TEST(unwinding_from_every_instruction, "J15 J16") {
    PLAIN_BUILD_ONLY("does not follow single steps");
    uint64_t random = harness_seed();
    regs_random(&steps.home, &random);
    regs_random(&steps.away, &random);
    static unsigned char own[64 * 1024];
    REQUIRE_EQ(sigaltstack(&(stack_t){.ss_sp = own, .ss_size = sizeof own}, NULL), 0);
    sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK}, NULL);
    step_all();
    printf("looked from %u instructions at home, %u away, %u before the entry\n", steps.at_home, steps.at_away,
           steps.first);
    CHECK_GE(steps.at_home, 4 * 12);
    CHECK_GE(steps.at_away, 3 * 12);
    CHECK_GE(steps.first, 12);
}

/* A debugger shows a suspended context when it is given the saved stack pointer, and any place of the switch behind the
 * change of stacks. */
#if defined(__x86_64__)
static NOINLINE void suspended_inner(void) {
    wefti_ctx_switch(&away.ctx, &home.ctx, NULL);
    __asm__ volatile("" ::: "memory");
}
static NOINLINE void suspended_entry(void *pass) {
    (void)pass;
    for (;;) {
        suspended_inner();
        __asm__ volatile("" ::: "memory");
    }
}
static const char *debugger_says(pid_t target, uintptr_t pc) {
    static char text[16384];
    char pid[16], set_sp[64], set_pc[64];
    int pipes[2], status;
    REQUIRE_EQ(pipe(pipes), 0);
    pid_t gdb = fork();
    REQUIRE_GE(gdb, 0);
    if (gdb == 0) {
        snprintf(pid, sizeof pid, "%d", (int)target);
        snprintf(set_sp, sizeof set_sp, "set $rsp = %p", away.ctx.sp);
        snprintf(set_pc, sizeof set_pc, "set $rip = %#jx", (uintmax_t)pc);
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        unsetenv("DEBUGINFOD_URLS");
        execlp("gdb", "gdb", "-nx", "-batch", "-p", pid, "-ex", set_sp, "-ex", set_pc, "-ex", "echo begin\\n", "-ex",
               "bt", "-ex", "echo end\\n", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(pipes[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(pipes[0]);
    REQUIRE_EQ(waitpid(gdb, &status, 0), gdb);
    kill(target, SIGKILL);
    waitpid(target, NULL, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        SKIP("gdb is not installed");
    if (strstr(text, "ptrace: ") || !strstr(text, "begin\n"))
        SKIP("gdb may not look at processes here");
    return strstr(text, "begin\n");
}
#endif
TEST(debugger_sees_a_suspended_context, "J15 J16") {
#if defined(__x86_64__)
    PLAIN_BUILD_ONLY("takes a debugger too long");
    const unsigned char *pc = (const unsigned char *)(uintptr_t)wefti_ctx_switch;
    side_make(&away, suspended_entry);
    wefti_ctx_switch(&home.ctx, &away.ctx, NULL);
    wefti_ctx_switch(&home.ctx, &away.ctx, NULL);
    while (memcmp(pc, "\x48\x8b\x26", 3) != 0) /* movq (%rsi), %rsp */
        REQUIRE_LT((uintptr_t)pc++, (uintptr_t)wefti_ctx_trampoline);
    fflush(NULL);
    pid_t target = fork();
    REQUIRE_GE(target, 0);
    if (target == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        for (;;)
            pause();
    }
    const char *text = debugger_says(target, (uintptr_t)pc + 3), *at = text;
    static const char *const expected[] = {"#0 ", "wefti_ctx_switch", "#1 ", "suspended_inner",
                                           "#2 ", "suspended_entry",  "#3 ", "wefti_ctx_trampoline",
                                           "end"};
    for (size_t i = 0; at && i < sizeof expected / sizeof *expected; i++)
        at = strstr(at, expected[i]);
    if (!at || strstr(text, "#4 ") || strstr(text, "orrupt"))
        harness_note(__FILE__, __LINE__, "expected four frames down to the trampoline, found %s", text);
    side_free(&away);
#else
    SKIP("x86-64 only");
#endif
}

/* -- Speed ----------------------------------------------------------------------------------------------- */

static void fast_entry(void *pass) {
    for (;;)
        pass = wefti_ctx_switch(&away.ctx, &home.ctx, pass);
}
static double nanoseconds_a_switch(unsigned rounds) {
    int64_t began = harness_clock();
    for (unsigned i = 0; i < rounds; i++)
        wefti_ctx_switch(&home.ctx, &away.ctx, NULL);
    return (double)(harness_clock() - began) / rounds / 2;
}
TEST(speed, "J15") {
    PLAIN_BUILD_ONLY("is not there for speed");
    unsigned rounds = 300000;
    side_make(&away, fast_entry);
    nanoseconds_a_switch(rounds / 10);
    double same = nanoseconds_a_switch(rounds);
    round_to(UP);
    double other = nanoseconds_a_switch(rounds);
    round_to(NEAREST);
    printf("%.1f ns a switch, %.1f ns between different modes\n", same, other);
    CHECK(same > 0);
    side_free(&away);
}
