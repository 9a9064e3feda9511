/* ctx_switch.c - a switch keeps what a call keeps, passes on a pointer, and is quick. */
#define _GNU_SOURCE
#define PROCESSOR_CODE /* here and nowhere else */
#include "ctx.h"

/* -- Registers ------------------------------------------------------------------------------------------- */

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
