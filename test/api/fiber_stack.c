/* fiber_stack.c - stacks of fibers: sizes, reuse, thousands alive, and what happens when one overflows. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fiber.h"
#include "stack/stack.h"

/* -- Sizes ----------------------------------------------------------------------------------------------------------------- */

/* Touch that many bytes below us, a page at a time, as deep calls would. */
static __attribute__((noinline)) unsigned use_stack(size_t bytes) {
    volatile char frame[1024];
    frame[0] = (char)bytes;
    unsigned below = bytes > sizeof frame + 128 ? use_stack(bytes - sizeof frame) : 0;
    return below + 1 + (unsigned)(frame[0] - (char)bytes);
}

static int use_most(void *arg) {
    size_t bytes = (size_t)(uintptr_t)arg;
    CHECK_GT(use_stack(bytes), 0);
    weft_yield();
    CHECK_GT(use_stack(bytes), 0);
    return 0;
}

API_TEST(fiber_stack_sizes, "J16", .workers = {1, 2}) {
    static const size_t sizes[] = {1, 16384, 16385, 65536, 1 << 20, 16 << 20, 0};
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[14];
    for (int i = 0; i < 14; i++) {
        size_t size = sizes[i % 7], least = size ? size : 65536;
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = use_most;
        spec.stack_size = size;
        spec.arg = (void *)(harness_is_slow() ? least / 4 : least < 16384 ? 8000 : least / 4 * 3 - 4096);
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task[i]), 0);
    }
    for (int i = 0; i < 14; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

API_TEST(fiber_stack_of_the_runtime, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.stack_size = 1 << 20;
    weft_runtime *rt = fixture_begin(&config);
    CHECK_EQ(fixture_finish(fiber_go(rt, use_most, (void *)(700 << 10))).status, 0);
    fixture_end(rt);
}

/* A gigabyte of address space costs what is touched. */
API_TEST(fiber_stack_largest, "", .workers = {1}) {
    if (harness_is_slow())
        SKIP("sanitizers shadow it");
    weft_runtime *rt = fixture_begin_patient();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task[4];
    spec.fn = use_most;
    spec.stack_size = (size_t)1 << 30;
    spec.arg = (void *)(1 << 20);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task[i]), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_LT(harness_rss(), 100u << 20);
    fixture_end(rt);
}

/* -- Reuse ----------------------------------------------------------------------------------------------------------------- */

static uintptr_t lowest, highest; /* plain: one worker */

static int note_stack(void *arg) {
    (void)arg;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    lowest = here < lowest ? here : lowest;
    highest = here > highest ? here : highest;
    weft_yield();
    return 0;
}

/* One after the other they use the same few stacks. */
static int use_stacks_again(void *arg) {
    (void)arg;
    lowest = UINTPTR_MAX;
    highest = 0;
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(fiber_call(note_stack, NULL).status, 0);
    CHECK_LE(highest - lowest, 4 * 65536);
    return 0;
}

API_TEST(fiber_stack_reused, "", .workers = {1}) { CHECK_EQ(fiber_run(use_stacks_again, NULL).status, 0); }

/* Sizes in turn: what one leaves, the next of its size finds, and memory does not grow. */
static int sizes_in_turn(void *arg) {
    (void)arg;
    size_t before = 0;
    for (int round = 0; round < 300; round++) {
        weft_task *task[8];
        for (int i = 0; i < 8; i++) {
            weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
            spec.fn = use_most;
            spec.stack_size = (size_t)16384 << i % 4;
            spec.arg = (void *)4000;
            REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
            weft_task_drop(task[i]);
        }
        if (round == 50)
            before = harness_rss();
    }
    if (!harness_is_slow())
        CHECK_LT(harness_rss(), before + (4u << 20));
    return 0;
}

API_TEST(fiber_stack_mixed_sizes, "", .workers = {1, 2}) { CHECK_EQ(fiber_run(sizes_in_turn, NULL).status, 0); }

/* -- Thousands ------------------------------------------------------------------------------------------------------------- */

struct crowd {
    struct event gate;
    atomic_uint passed;
};

static int stand_in_crowd(void *arg) {
    struct crowd *crowd = arg;
    volatile unsigned mine = 12345;
    CHECK_EQ(event_wait(&crowd->gate, WEFT_NEVER), 0);
    CHECK_EQ(mine, 12345);
    atomic_fetch_add(&crowd->passed, 1);
    return 0;
}

static int make_crowd(void *arg) {
    struct crowd *crowd = arg;
    unsigned count = harness_is_slow() ? 2000 : 10000;
    for (int round = 0; round < 3; round++) {
        crowd->gate.set = false;
        atomic_store(&crowd->passed, 0);
        for (unsigned i = 0; i < count; i++)
            REQUIRE_EQ(weft_fiber_go(NULL, stand_in_crowd, crowd, NULL), 0);
        while (event_waiting(&crowd->gate) < count)
            weft_yield();
        event_set(&crowd->gate);
        while (atomic_load(&crowd->passed) < count)
            weft_yield();
    }
    return 0;
}

API_TEST(fiber_stack_thousands, "J9", .workers = {1, 2, 4}, .timeout = 60) {
    static struct crowd crowd;
    CHECK_EQ(fiber_run(make_crowd, &crowd).status, 0);
}

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
    return one_large_frame(depth ? 5 : 0);
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

static void run_overflow(void *fn) {
    weft_runtime *rt = NULL;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    if (weft_runtime_create(NULL, &rt))
        _exit(3);
    spec.fn = *(weft_fiber_fn *)fn;
    spec.arg = fn;
    spec.name = "deep thought";
    if (weft_fiber_spawn(rt, &spec, &task))
        _exit(4);
    weft_join(task, NULL, WEFT_NEVER);
    _exit(5); /* not reached */
}

static void expect_overflow(weft_fiber_fn fn) {
    char entry[64];
    snprintf(entry, sizeof entry, "(entry %p, stack of 65536 bytes)", (void *)(uintptr_t)fn);
    REQUIRE_ABORTS(run_overflow, &fn, "stack overflow in fiber \"deep thought\"");
    REQUIRE_ABORTS(run_overflow, &fn, entry);
    REQUIRE_ABORTS(run_overflow, &fn, "backtrace:\n");
}

API_TEST(fiber_overflow_recursion, "J15", .workers = {1, 2}) { expect_overflow(overflow_by_recursion); }
API_TEST(fiber_overflow_one_frame, "J15", .workers = {1, 2}) {
    if (harness_is_slow())
        SKIP("sanitizer builds are without -fstack-clash-protection");
#ifdef __riscv
    SKIP("gcc 12 takes -fstack-clash-protection for this processor, and does nothing");
#endif
    expect_overflow(overflow_by_one_frame);
}
API_TEST(fiber_overflow_after_a_wait, "", .workers = {1, 2}) { expect_overflow(overflow_after_a_wait); }
API_TEST(fiber_overflow_in_destructor, "", .workers = {1}) { expect_overflow(overflow_in_destructor); }

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
    REQUIRE_ABORTS(run_overflow, &fn, "stack overflow in fiber \"deep thought\"");
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
