/* ctx_frames.c - what the compiler keeps in a frame is there after a switch. */
#define _GNU_SOURCE
#include "ctx.h"

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
