/* ctx_signals.c - signals at any moment of a switch. */
#define _GNU_SOURCE
#include "ctx.h"

/* -- Signals --------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;
static volatile uintptr_t signal_sp;
static void on_signal(int signal) {
    (void)signal;
    signal_sp = (uintptr_t)__builtin_frame_address(0);
    signals++;
    scramble();
}
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
