/* ctx_unwind.c - debuggers and profilers find their way through a switch. */
#define _GNU_SOURCE
#include "ctx.h"

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
