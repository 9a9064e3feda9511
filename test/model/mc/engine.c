/* engine.c - one execution: modelled threads are fibers on one OS thread.
 *
 * A thread has a stack, a view of memory (memory.c) and its own copy of the program's thread-locals, which are
 * swapped in when it is entered.  Who is entered when is schedule.c's affair.  An execution that finds a bug is
 * left at once: its threads are never resumed, and their stacks are used again by the next one.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

struct mc_engine mc;
static char *tls_image; /* how the thread-locals of the program start */

/* Save the callee's registers and this stack in *save, and continue where `load` was saved. */
void mc_switch(void **save, void *load);
#if defined(__x86_64__)
__asm__(".text\n.globl mc_switch\n.type mc_switch,@function\nmc_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n    ret\n"
        ".size mc_switch, . - mc_switch\n");
enum { SWITCH_WORDS = 6 };
#else
#error "the model checker runs on x86-64 only"
#endif

void *mc_reserve(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("model checker: mmap");
        exit(2);
    }
    return p;
}

static int find_tls(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            mc.tls = info->dlpi_tls_data;
            mc.tls_size = info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1; /* the program itself comes first */
}

void mc_engine_init(void) {
    dl_iterate_phdr(find_tls, NULL);
    char *stacks = mc_reserve((size_t)MC_THREADS * MC_STACK);
    tls_image = mc_reserve((MC_THREADS + 1) * (mc.tls_size + 1));
    memcpy(tls_image, mc.tls, mc.tls_size);
    mc.stacks = (uintptr_t)stacks;
    for (int i = 0; i < MC_THREADS; i++) {
        mc.t[i].stack = stacks + (size_t)i * MC_STACK;
        mc.t[i].tls = tls_image + (size_t)(i + 1) * (mc.tls_size + 1);
        mprotect(mc.t[i].stack, 4096, PROT_NONE); /* an overflow is a crash, not a riddle */
    }
}

/* -- Going from thread to thread --------------------------------------------------------------------- */
void mc_enter(int thread) {
    if (thread == mc.run)
        return;
    struct mc_thread *from = mc_me(), *to = &mc.t[thread];
    memcpy(from->tls, mc.tls, mc.tls_size);
    memcpy(mc.tls, to->tls, mc.tls_size);
    mc.run = thread;
    mc_switch(&from->sp, to->sp);
}

void mc_leave(void) {
    mc_switch(&mc_me()->sp, mc.main_sp);
    __builtin_unreachable();
}

_Noreturn static void fail_v(uintptr_t pc, uintptr_t other_pc, const char *format, va_list args) {
    if (!mc.running) {
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        exit(2);
    }
    vsnprintf(mc.fault.message, sizeof mc.fault.message, format, args);
    mc.fault.pc = pc;
    mc.fault.other_pc = other_pc;
    mc.fault.found = true;
    mc_leave();
}

void mc_fail_at(uintptr_t pc, uintptr_t other_pc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_v(pc, other_pc, format, args);
}

void mc_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_v((uintptr_t)__builtin_return_address(0), 0, format, args);
}

/* -- Threads ----------------------------------------------------------------------------------------- */
static void thread_main(void) {
    struct mc_thread *t = mc_me();
    t->fn(t->arg);
    if (t->foreign_count)
        mc_frames_gone(UINTPTR_MAX, t->op.pc);
    if (mc.tracing)
        mc_trace(OP_END, 0, 0, 0, 0, 0, 0, 0);
    t->state = MC_DONE;
    mc.ready &= ~(1u << mc.run);
    for (int i = 0; i < mc.count; i++)
        if (mc.t[i].state == MC_JOINING && mc.t[i].joins == mc.run)
            mc_unblock(i);
    mc_decide();
    abort(); /* nobody resumes a finished thread */
}

static int make_thread(void (*fn)(void *), void *arg, uintptr_t pc) {
    if (mc.count == MC_THREADS)
        mc_fail_at(pc, 0, "more than %d threads", MC_THREADS);
    int id = mc.count++;
    struct mc_thread *t = &mc.t[id];
    void **sp = (void **)(t->stack + MC_STACK - 64);
    *--sp = NULL;
    *--sp = (void *)thread_main; /* where mc_switch returns to, with the stack aligned as after a call */
    for (int i = 0; i < SWITCH_WORDS; i++)
        *--sp = NULL;
    t->sp = sp;
    t->op = (struct mc_op){0, pc, OP_NONE, 0, 0};
    t->fn = fn;
    t->arg = arg;
    t->quiet = t->foreign_count = 0;
    t->read_count = t->relaxes = t->owed = 0;
    t->until = INT64_MAX;
    mc_memory_spawn(t, id ? mc_me() : NULL);
    memcpy(t->tls, tls_image, mc.tls_size);
    t->priority = mc.mode == MC_PCT ? 1 + (int)(mc_draw() % 100000) : 0;
    mc_unblock(id);
    return id;
}

int mc_spawn_at(void (*fn)(void *), void *arg, uintptr_t pc) {
    int id = make_thread(fn, arg, pc);
    if (mc.tracing)
        mc_trace(OP_SPAWN, 0, 0, 0, (uint64_t)id, 0, 0, pc);
    return id;
}

int mc_spawn(void (*fn)(void *), void *arg) { return mc_spawn_at(fn, arg, (uintptr_t)__builtin_return_address(0)); }

void mc_join_at(int thread, uintptr_t pc) {
    if (thread < 0 || thread >= mc.count || thread == mc.run)
        mc_fail_at(pc, 0, "join of a thread that does not exist: %d", thread);
    struct mc_thread *t = mc_me();
    while (mc.t[thread].state != MC_DONE) {
        t->op = (struct mc_op){0, pc, OP_NONE, 0, 0};
        t->joins = thread;
        mc_block(MC_JOINING, pc);
    }
    mc_memory_join(t, &mc.t[thread]);
    if (mc.tracing)
        mc_trace(OP_JOIN, 0, 0, 0, (uint64_t)thread, 0, 0, pc);
}

void mc_join(int thread) { mc_join_at(thread, (uintptr_t)__builtin_return_address(0)); }
int mc_self(void) { return mc.run; }
intptr_t mc_arg(void) { return mc.test->arg; }
void mc_atomic_begin(void) { mc_me()->quiet++; }
void mc_atomic_end(void) { mc_me()->quiet--; }

int mc_choose(int n) {
    int c = mc_pick(n, -1);
    if (mc.tracing)
        mc_trace(OP_CHOOSE, 0, 0, 0, (uint64_t)c, (uint64_t)n, 0, (uintptr_t)__builtin_return_address(0));
    return c;
}

/* -- One execution ----------------------------------------------------------------------------------- */
static void test_main(void *unused) {
    (void)unused;
    mc.test->body();
}

void mc_execute(void) {
    const struct mc_test *test = mc.test;
    mc_shadow_reset();
    mc_memory_reset();
    mc_shared_reset();
    mc_heap_reset();
    mc_plat_reset();
    mc.count = 0;
    mc.ready = mc.raw = mc.spun = mc.asleep = 0;
    mc.steps = mc.preemptions = mc.grace = mc.lowest = 0;
    mc.sleeping = 0;
    mc.out_of_sleep = false;
    mc.timeouts = test->timeouts;
    mc.idle_timeouts = test->idle_timeouts;
    mc.spurious = test->spurious;
    mc.failures = test->failures;
    mc.stale_reads = mc.stale_limit > 0 ? mc.stale_limit : -1;
    mc.changes = mc.grace_changes = 0;
    mc.clock = 1000000000;
    mc.list->position = 0;
    mc.list->mode = mc.mode;
    mc.list->bound = mc.bound;
    mc.list->stale_counts = mc.stale_counts;
    mc.run = mc.last = 0;
    make_thread(test_main, NULL, (uintptr_t)test->body);
    mc.raw = 0;
    memcpy(mc.tls, tls_image, mc.tls_size);
    mc.running = true;
    mc_switch(&mc.main_sp, mc.t[0].sp);
    if (!mc.fault.found && !mc.out_of_sleep && !test->leaks_ok)
        mc_heap_leaks();
    mc.running = false;
    memcpy(mc.tls, tls_image, mc.tls_size);
    mc_shadow_reset();
    mc.total_steps += (uint64_t)mc.steps;
    if (mc.steps > mc.longest)
        mc.longest = mc.steps;
}
