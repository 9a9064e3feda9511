/* ctx_modes.c - the modes of floating point belong to the context. */
#define _GNU_SOURCE
#include "ctx.h"

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
static struct side many[4];
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
