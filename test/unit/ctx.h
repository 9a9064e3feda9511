/* ctx.h - what the tests of the context switch share: the sides of a switch.
 *
 * Each test has a process of its own, so the sides of its switches are globals: `home` is the thread it runs on, `away`
 * and `third` are contexts.  The sanitizers are told about every switch (leaving, arrived); what they cannot follow is
 * left out, with the reason.  test/cross/check runs these files on emulated processors.
 */
#ifndef WEFT_TEST_CTX_H
#define WEFT_TEST_CTX_H

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
__attribute__((unused)) static struct side home, away, third;

/* The calling thread. */
static inline void side_is_thread(struct side *side) {
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
static inline void side_make_on(struct side *side, void *base, size_t size, void (*entry)(void *)) {
    *side = (struct side){.base = base, .size = size};
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(base, size);
#endif
#ifdef WITH_TSAN
    side->fiber = __tsan_create_fiber(0);
#endif
    wefti_ctx_init(&side->ctx, base, size, entry, wefti_ctx_modes());
}

static inline void side_make(struct side *side, void (*entry)(void *)) {
    size_t size = harness_is_slow() ? 256 * 1024 : 64 * 1024;
    void *base = malloc(size);
    REQUIRE(base);
    side_make_on(side, base, size, entry);
}

/* Not the one that runs. */
static inline void side_forget(struct side *side) {
#ifdef WITH_TSAN
    __tsan_destroy_fiber(side->fiber);
#endif
    (void)side;
}

static inline void side_free(struct side *side) {
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

static inline void *go(struct side *from, struct side *to, void *pass) {
    leaving(from, to);
    pass = wefti_ctx_switch(&from->ctx, &to->ctx, pass);
    arrived(from);
    return pass;
}

/* The last switch of a context. */
static inline _Noreturn void finish(struct side *from, struct side *to, void *pass) {
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

static inline void *go_regs(struct side *from, struct side *to, void *pass, struct regs *regs) {
    leaving(from, to);
    pass = test_regs_switch(&from->ctx, &to->ctx, pass, regs);
    arrived(from);
    return pass;
}

static inline void regs_random(struct regs *regs, uint64_t *state) {
    for (int i = 0; i < REGISTERS; i++)
        regs->in[i] = harness_random(state);
}

/* All registers that are wrong, then the end of the test. */
static inline void regs_check(const struct regs *regs) {
    int wrong = 0;
    for (int i = 0; i < REGISTERS; i++)
        if (regs->out[i] != regs->in[i] && ++wrong)
            harness_note(__FILE__, __LINE__, "%s: expected %#jx, found %#jx", register_name[i], (uintmax_t)regs->in[i],
                         (uintmax_t)regs->out[i]);
    REQUIRE_EQ(wrong, 0);
    REQUIRE_EQ(regs->sp_out, regs->sp_in);
}

/* Every time it runs, `away` takes the registers that it holds while it is suspended from here. */
__attribute__((unused)) static struct regs away_regs;
__attribute__((unused)) static uint64_t away_sp;
static inline void regs_entry(void *pass) {
    arrived(&away);
    for (;;) {
        struct regs mine = away_regs;
        scramble();
        pass = go_regs(&away, &home, pass, &mine);
        regs_check(&mine);
        away_sp = mine.sp_in;
    }
}

/* -- Others ---------------------------------------------------------------------------------------------- */

/* Gives back what it gets, inverted. */
static inline void echo_entry(void *pass) {
    arrived(&away);
    for (;;)
        pass = go(&away, &home, NUMBER(~(uintptr_t)pass));
}

/* A leaf function may keep things below the stack pointer: signals that come on the context's stack leave them alone
 * (storm_of_signals), and so does a switch made in between. */
__attribute__((unused)) static NOINLINE uint64_t leaf(uint64_t seed) {
    volatile uint64_t low[12];
    for (unsigned i = 0; i < 12; i++)
        low[i] = seed * (i + 1);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 12; i++)
        sum += low[i];
    return sum;
}

__attribute__((unused)) static NOINLINE bool usr2_blocked(void) {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, SIGUSR2);
}

static inline bool within(uintptr_t address, const void *base, size_t size) { return address - (uintptr_t)base < size; }

#endif
