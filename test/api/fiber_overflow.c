/* fiber_overflow.c - what happens when a fiber's stack overflows: the process ends, and says whose it was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fiber.h"
#include "stack/stack.h"

/* -- Overflow -------------------------------------------------------------------------------------------------------------- */

static volatile unsigned depth;

static __attribute__((noinline)) unsigned recurse(unsigned n) {
    volatile char frame[200];
    frame[0] = (char)n;
    depth = n;
    return n == UINT32_MAX ? 0 : recurse(n + 1) + (unsigned)frame[0];
}

static int overflow_by_recursion(void *arg) {
    (void)arg;
    return (int)recurse(0);
}

/* Compiled with -fstack-clash-protection, like all of this program (cmake/tests.cmake): each page of a frame is touched in turn. */
static __attribute__((noinline)) int one_large_frame(int at) {
    volatile char frame[128 << 10];
    frame[at] = 1;
    return frame[at];
}

static int overflow_by_one_frame(void *arg) {
    (void)arg;
    int got = one_large_frame(depth ? 5 : 0);
    depth++; /* no tail call: we are in the backtrace */
    return got;
}

static int overflow_after_a_wait(void *arg) {
    weft_yield();
    weft_sleep(1000);
    return overflow_by_recursion(arg);
}

static void destroy_by_recursion(void *value) {
    (void)value;
    recurse(0);
}

static int overflow_in_destructor(void *arg) {
    unsigned key;
    REQUIRE_EQ(weft_local_create(&key, destroy_by_recursion), 0);
    return weft_local_set(key, arg);
}

static int report = -1; /* a file for what the ending process says; -1: its standard error */

/* Who calls the function for the program is not what the report names. */
static int under_supervisor(void *fn) {
    const weft_supervised_fiber child = {"deep\tthought", *(weft_fiber_fn *)fn, fn, WEFT_RESTART_TEMPORARY, 0};
    return weft_supervise(NULL, &child, 1);
}
static int under_timeout(void *fn) { return weft_timeout(WEFT_NEVER, *(weft_fiber_fn *)fn, fn); }

static weft_fiber_fn under; /* NULL: nobody */

static void run_overflow(void *fn) {
    weft_runtime *rt = NULL;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    if (report >= 0)
        dup2(report, STDERR_FILENO);
    if (weft_runtime_create(NULL, &rt))
        _exit(3);
    spec.fn = under ? under : *(weft_fiber_fn *)fn;
    spec.arg = fn;
    spec.name = "deep\tthought";
    if (weft_fiber_spawn(rt, &spec, &task))
        _exit(4);
    weft_join(task, NULL, WEFT_NEVER);
    _exit(5); /* not reached */
}

/* How many frames of the backtrace are in the function that begins there?  Each line ends in the address: [0x...]. */
static unsigned frames_in(const char *text, uintptr_t fn) {
    unsigned count = 0;
    for (const char *at = strstr(text, "backtrace:\n"); at && (at = strstr(at, "[0x")); at++)
        count += strtoull(at + 1, NULL, 16) - fn < 512;
    return count;
}

/* The fiber's name, its entry and a backtrace with the function that was too much. */
static void expect_overflow(weft_fiber_fn fn, uintptr_t culprit, unsigned frames) {
    static char text[1 << 16];
    char entry[400];
    Dl_info info = {0};
    if (dladdr((void *)(uintptr_t)fn, &info) && info.dli_fname && *info.dli_fname)
        snprintf(entry, sizeof entry, "(entry %s+%#zx, stack of 65536 bytes)", info.dli_fname,
                 (size_t)((uintptr_t)fn - (uintptr_t)info.dli_fbase));
    else /* linked statically */
        snprintf(entry, sizeof entry, "(entry %p, stack of 65536 bytes)", (void *)(uintptr_t)fn);
    report = memfd_create("report", MFD_CLOEXEC);
    REQUIRE_GE(report, 0);
    REQUIRE_ABORTS(run_overflow, &fn, "");
    ssize_t size = pread(report, text, sizeof text - 1, 0);
    REQUIRE_GT(size, 0);
    text[size] = 0;
    CHECK_CONTAINS(text, under == under_timeout ? "stack overflow in fiber \"fiber\""
                                                : "stack overflow in fiber \"deep?thought\"");
    CHECK_CONTAINS(text, entry);
    CHECK_GE(frames_in(text, culprit), frames);
    if (frames == 1)
        CHECK_GE(frames_in(text, (uintptr_t)fn), 1); /* down to the entry */
    close(report);
    report = -1;
}

API_TEST(fiber_overflow_recursion, "J15", .workers = {1, 2}) {
    expect_overflow(overflow_by_recursion, (uintptr_t)recurse, 20);
}
API_TEST(fiber_overflow_one_frame, "J15", .workers = {1, 2}) {
    if (harness_is_slow())
        SKIP("sanitizer builds are without -fstack-clash-protection");
#ifdef __riscv
    SKIP("gcc 12 takes -fstack-clash-protection for this processor, and does nothing");
#endif
    expect_overflow(overflow_by_one_frame, (uintptr_t)one_large_frame, 1);
}
API_TEST(fiber_overflow_after_a_wait, "", .workers = {1, 2}) {
    expect_overflow(overflow_after_a_wait, (uintptr_t)recurse, 20);
}
API_TEST(fiber_overflow_supervised, "J3 J15", .workers = {1, 2}) {
    under = under_supervisor;
    expect_overflow(overflow_by_recursion, (uintptr_t)recurse, 20);
}
API_TEST(fiber_overflow_in_timeout, "J15", .workers = {1}) {
    under = under_timeout;
    expect_overflow(overflow_by_recursion, (uintptr_t)recurse, 20);
}
API_TEST(fiber_overflow_in_destructor, "", .workers = {1}) {
    expect_overflow(overflow_in_destructor, (uintptr_t)recurse, 20);
}

/* A function that the program exports is named. */
API_TEST(fiber_overflow_entry_is_named, "", .workers = {1}) {
    char text[400], expected[32] = "malloc, ";
    Dl_info info = {0};
    if (!dladdr((void *)(uintptr_t)malloc, &info) || !info.dli_sname || info.dli_saddr != (void *)(uintptr_t)malloc)
        SKIP("nothing is exported");
    snprintf(expected, sizeof expected, "%s, ", info.dli_sname);
    wefti_symbol((uintptr_t)malloc, text, sizeof text);
    CHECK_CONTAINS(text, expected);
    CHECK_CONTAINS(text, "+0x");
    wefti_symbol(1, text, sizeof text);
    CHECK_STR(text, "0x1");
}

/* A driven worker's thread has a signal stack while it is driven. */
static void drive_overflow(void *fn) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    config.driven = true;
    config.workers = 1;
    if (weft_runtime_create(&config, &rt) || weft_fiber_go(rt, *(weft_fiber_fn *)fn, fn, NULL))
        _exit(3);
    for (int i = 0; i < 1000; i++)
        weft_drive(rt, 0);
    _exit(5);
}

API_TEST(fiber_overflow_driven, "", .workers = {1}) {
    weft_fiber_fn fn = overflow_by_recursion;
    REQUIRE_ABORTS(drive_overflow, &fn, "stack overflow in fiber \"fiber\"");
}

/* Leaving a fiber with hardly any stack left: the scheduler's own frames run over, and it is told whose they were. */
static __attribute__((noinline)) void yield_at(size_t bytes) {
    volatile char frame[64];
    frame[0] = 0;
    char here;
    uintptr_t base = (uintptr_t)((struct wefti_fiber *)(void *)weft_task_self())->stack->base;
    if ((uintptr_t)&here - base > bytes)
        yield_at(bytes);
    else
        weft_sleep(1);
    frame[0]++;
}

static int overflow_at_the_end(void *arg) {
    (void)arg;
    for (size_t left = 4000; left > 100; left -= 32)
        yield_at(left);
    return 0;
}

API_TEST(fiber_overflow_in_the_switch, "", .workers = {1, 2}) {
    if (harness_is_slow())
        SKIP("sanitizer frames are larger than the steps");
    weft_fiber_fn fn = overflow_at_the_end;
    REQUIRE_ABORTS(run_overflow, &fn, "stack overflow in fiber \"deep?thought\"");
}

/* -- Over the guard --------------------------------------------------------------------------------------------------------- */

/* Frames larger than the guard, in code that was compiled without -fstack-clash-protection: they jump over it, and go on in what lies
 * below, the stack of another fiber or nothing. */
#if defined(__GNUC__) && !defined(__clang__)
#define JUMPS __attribute__((noinline, optimize("no-stack-clash-protection")))
#else
#define JUMPS __attribute__((noinline))
#endif

static JUMPS unsigned recurse_by_6000(unsigned n) {
    volatile char frame[6000];
    frame[0] = (char)n;
    depth = n;
    return n == UINT32_MAX ? 0 : recurse_by_6000(n + 1) + (unsigned)frame[0];
}
static int overflow_by_6000(void *arg) {
    (void)arg;
    return (int)recurse_by_6000(0);
}

static JUMPS int frame_of_256_megabytes(void) {
    volatile char frame[256 << 20];
    frame[0] = 1;
    return frame[0];
}
static int overflow_far(void *arg) {
    (void)arg;
    return frame_of_256_megabytes();
}

/* Another fiber has the stack below, and waits. */
static int under_parent(void *fn) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = *(weft_fiber_fn *)fn;
    spec.arg = fn;
    spec.name = "child";
    REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task), 0);
    weft_join(task, NULL, WEFT_NEVER);
    weft_task_drop(task);
    return 0;
}

API_TEST(fiber_overflow_over_the_guard, "J15", .workers = {1, 2}) {
#ifdef __clang__
    SKIP("clang has no such attribute");
#endif
    if (harness_is_slow())
        SKIP("sanitizers touch each frame");
    under = under_parent;
    weft_fiber_fn fn[] = {overflow_by_6000, overflow_far};
    for (int i = 0; i < 2; i++)
        REQUIRE_ABORTS(run_overflow, &fn[i], "stack overflow in fiber \"child\"");
}

/* A fiber whose stack pointer is where it should be has not run over, whatever it touches. */
static int touch_other_guard(void *arg) {
    (void)arg;
    struct wefti_stack *stack = ((struct wefti_fiber *)(void *)weft_task_self())->stack;
    *(volatile char *)(stack->base + stack->size - 2 * ((size_t)1 << stack->log2)) = 1; /* of the stack below */
    return 0;
}

API_TEST(fiber_overflow_of_nobody, "J15", .workers = {1}) {
    static char text[4096];
    under = under_parent;
    weft_fiber_fn fn = touch_other_guard;
    report = memfd_create("report", MFD_CLOEXEC);
    REQUIRE_GE(report, 0);
    pid_t child = fork();
    REQUIRE_GE(child, 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        run_overflow(&fn);
    }
    int status = 0;
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    REQUIRE_GE(pread(report, text, sizeof text - 1, 0), 0);
    CHECK(!strstr(text, "stack overflow"));
    close(report);
    report = -1;
}

/* -- longjmp from one fiber into another ------------------------------------------------------------------------------------- */

static jmp_buf frame_of_other;
static volatile int jump_stage;

static void wait_a_little(void *arg) {
    if (arg)
        weft_sleep(1000000);
    else
        weft_yield();
}

static int be_jumped_to(void *arg) {
    if (setjmp(frame_of_other) == 0) {
        jump_stage = 1;
        while (jump_stage == 1)
            wait_a_little(arg);
    }
    for (int i = 0; i < 10; i++)
        wait_a_little(arg);
    return 0;
}

static int jump_there(void *arg) {
    (void)arg;
    while (!jump_stage)
        weft_yield();
    jump_stage = 2;
    longjmp(frame_of_other, 1);
}

static void run_jump(void *arg) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task[2];
    config.workers = 1;
    if (weft_runtime_create(&config, &rt))
        _exit(3);
    spec.arg = arg;
    for (int i = 0; i < 2; i++) {
        spec.fn = i ? jump_there : be_jumped_to;
        spec.name = i ? "jumper" : "victim";
        if (weft_fiber_spawn(rt, &spec, &task[i]))
            _exit(4);
    }
    for (int i = 0; i < 2; i++)
        weft_join(task[i], NULL, WEFT_NEVER);
    _exit(5);
}

API_TEST(fiber_longjmp_into_another, "", .workers = {1}) {
    if (harness_is_slow())
        SKIP("sanitizers follow longjmp themselves");
    REQUIRE_ABORTS(run_jump, NULL, "longjmp: fiber \"jumper\" has jumped to the stack of another fiber");
    REQUIRE_ABORTS(run_jump, &frame_of_other, "longjmp: fiber \"jumper\" has jumped to the stack of another fiber");
}

/* -- Other faults are the program's own ------------------------------------------------------------------------------------- */

static void *forbidden;
static volatile sig_atomic_t caught;

static void repair(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_addr != forbidden)
        _exit(7);
    caught = number;
    mprotect(forbidden, 4096, PROT_READ | PROT_WRITE);
}

static int touch_forbidden(void *arg) {
    (void)arg;
    *(volatile char *)forbidden = 1;
    return 0;
}

API_TEST(fiber_overflow_handler_passes_on, "", .workers = {1, 2}) {
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO}, before;
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(forbidden != MAP_FAILED);
    REQUIRE_EQ(sigaction(SIGSEGV, &action, &before), 0);
    CHECK_EQ(fiber_run(touch_forbidden, NULL).status, 0);
    CHECK_EQ(caught, SIGSEGV);
    caught = 0;
    REQUIRE_EQ(mprotect(forbidden, 4096, PROT_NONE), 0);
    touch_forbidden(NULL); /* on a plain thread, too */
    CHECK_EQ(caught, SIGSEGV);
}

static int nothing(void *arg) {
    (void)arg;
    return 0;
}

/* How a child ends that does this after fibers were used: the signal, or -1. */
static int ending(void (*fn)(void), void (*before)(int)) {
    pid_t child = fork();
    REQUIRE_GE(child, 0);
    if (child == 0) {
        signal(SIGSEGV, before);
        weft_fiber_run(NULL, nothing, NULL, NULL);
        fn();
        _exit(0);
    }
    int status = 0;
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void send_segv(void) { kill(getpid(), SIGSEGV); }
static void fault(void) { *(volatile char *)forbidden = 1; }

API_TEST(fiber_overflow_default_ends_process, "", .workers = {1}) {
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(forbidden != MAP_FAILED);
    CHECK_EQ(ending(fault, SIG_DFL), SIGSEGV);
    CHECK_EQ(ending(fault, SIG_IGN), SIGSEGV);
    CHECK_EQ(ending(send_segv, SIG_DFL), SIGSEGV);
    CHECK_EQ(ending(send_segv, SIG_IGN), -1);
}
