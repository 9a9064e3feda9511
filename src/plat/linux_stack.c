/* linux_stack.c - plat.h for Linux: memory for stacks, and what happens when one overflows. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#endif

#include "plat/fault.h"
#include "plat/plat.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

#ifndef SYS_process_madvise
#define SYS_process_madvise 440 /* on every machine */
#endif
#define PIDFD_SELF_PROCESS (-10001) /* PIDFD_SELF_THREAD_GROUP of newer headers */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SIGNAL_STACK ((size_t)65536)
#define FRAMES 64

/* -- Memory ----------------------------------------------------------------------------------------- */

static size_t page_size(void) {
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

void *wefti_stack_map(size_t bytes) {
    if (wefti_fault_here())
        return NULL;
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes,
            MADV_NOHUGEPAGE); /* a huge page for one touched byte would cost 2 MiB; an error means there are none */
    return memory;
}

void wefti_stack_unmap(void *memory, size_t bytes) { munmap(memory, bytes); }

/* Can it be read?  New memory is zero, so there is no 1 to wait for. */
static bool is_readable(const void *address) {
    return syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, 1, &(struct timespec){0}, NULL, 0) == -1 && errno == EAGAIN;
}

/* One call for several ranges; Linux 6.13 and later allow it for the own process, 6.14 and later without
 * a descriptor.  Returns the number of bytes that were advised, those of the first ranges; -1: none.
 * Valgrind 3.19 does not know the call and prints a warning each time: it is not made there. */
static long advise_many(const struct iovec *range, uint32_t count, int advice) {
    if (RUNNING_ON_VALGRIND)
        return -1;
    return syscall(SYS_process_madvise, PIDFD_SELF_PROCESS, range, (size_t)count, advice, 0);
}

/* The pages at the same place of each stack. */
static long advise_stacks(char *page, size_t apart, uint32_t count, int advice) {
    struct iovec range[WEFTI_PAGES_MAX];
    count = count < WEFTI_PAGES_MAX ? count : WEFTI_PAGES_MAX;
    for (uint32_t i = 0; i < count; i++)
        range[i] = (struct iovec){page + i * apart, page_size()};
    return advise_many(range, count, advice);
}

void wefti_stack_touch(void *low, size_t apart, uint32_t count) {
    advise_stacks((char *)low + apart - page_size(), apart, count, MADV_POPULATE_WRITE); /* or when they are used */
}

/* A guard in the page table costs nothing.  Before Linux 6.13 there is only mprotect, which splits a mapping in two, of which a
 * process may have no more than vm.max_map_count. */
size_t wefti_stack_guard(void *low, size_t apart, uint32_t *count) {
    static _Atomic bool installs, no_install, told;
    if (wefti_fault_here())
        return 0;
    size_t size = page_size();
    if (*count > 1 && load_relaxed(&installs)) { /* a hint */
        long done = advise_stacks(low, apart, *count, MADV_GUARD_INSTALL);
        if (done >= (long)size) {
            *count = (uint32_t)((size_t)done / size);
            return size;
        }
    }
    *count = 1;
    if (!load_relaxed(&no_install)) { /* a hint */
        if (madvise(low, size, MADV_GUARD_INSTALL) == 0) {
            if (load_relaxed(&installs)) /* a hint */
                return size;
            if (!is_readable(low)) { /* emulators take unknown advice, and do nothing */
                store_relaxed(&installs, true);
                return size;
            }
        } else if (errno != EINVAL) {
            return 0;
        }
        store_relaxed(&no_install, true);
    }
    if (mprotect(low, size, PROT_NONE) == 0)
        return size;
    if (!xchg_relaxed(&told, true)) {
        static const char text[] = "weft: no more guard pages for stacks: raise vm.max_map_count to twice the number "
                                   "of fibers, or run Linux 6.13 or later\n";
        wefti_write(2, text, sizeof text - 1);
    }
    return 0;
}

void wefti_pages_drop(void *memory, size_t bytes) { madvise(memory, bytes, MADV_DONTNEED); }

/* With one flush for all of them since Linux 6.16. */
void wefti_pages_drop_many(const struct wefti_pages *pages, uint32_t count) {
    struct iovec range[WEFTI_PAGES_MAX];
    size_t bytes = 0;
    range[0] = (struct iovec){NULL, 0}; /* for a compiler that thinks of a count of 0 */
    for (uint32_t i = 0; i < count; i++) {
        range[i] = (struct iovec){pages[i].memory, pages[i].bytes};
        bytes += pages[i].bytes;
    }
    if (advise_many(range, count, MADV_DONTNEED) == (long)bytes)
        return;
    for (uint32_t i = 0; i < count; i++) /* those that it has done are done twice */
        wefti_pages_drop(pages[i].memory, pages[i].bytes);
}

/* -- errno ------------------------------------------------------------------------------------------- */

int *wefti_errno_at(void) { return &errno; }

/* Of the C++ ABI (Itanium), which every C++ runtime on Linux follows.  Weak: the program brings it, or has none. */
extern struct wefti_exceptions *__cxa_get_globals(void) __attribute__((weak));

struct wefti_exceptions *wefti_exceptions_at(void) { return __cxa_get_globals ? __cxa_get_globals() : NULL; }

/* -- Overflow ---------------------------------------------------------------------------------------- */

typedef bool (*overflow_fn)(uintptr_t address, char *text, size_t room);
static _Atomic(overflow_fn) overflow_who;
static struct sigaction before[2]; /* SIGSEGV, SIGBUS */

/* dladdr takes the loader's lock, as backtrace_symbols_fd does: a fault within dlopen would hang, where nothing better can be had. */
void wefti_symbol(uintptr_t address, char *text, size_t room) {
    Dl_info info;
    if (!dladdr((void *)address, &info) || !info.dli_fname || !*info.dli_fname)
        snprintf(text, room, "%p", (void *)address);
    else if (info.dli_sname && (uintptr_t)info.dli_saddr == address)
        snprintf(text, room, "%s, %s+%#zx", info.dli_sname, info.dli_fname,
                 (size_t)(address - (uintptr_t)info.dli_fbase));
    else
        snprintf(text, room, "%s+%#zx", info.dli_fname, (size_t)(address - (uintptr_t)info.dli_fbase));
}

static void on_fault(int number, siginfo_t *info, void *context) {
    char text[1024];
    if (load_relaxed(&overflow_who)((uintptr_t)info->si_addr, text, sizeof text)) {
        wefti_write(2, text, strlen(text));
        void *frame[FRAMES];
        int count = backtrace(frame, FRAMES);
        backtrace_symbols_fd(frame, count, 2);
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    struct sigaction *old = &before[number == SIGBUS];
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(number, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
    } else if (old->sa_handler == SIG_DFL || info->si_code > 0) { /* a fault of its own cannot be ignored */
        signal(number, SIG_DFL); /* the access is repeated, and ends the process as it would have */
        if (info->si_code <= 0)
            raise(number); /* sent by somebody: there is nothing to repeat */
    }
}

static void install(void) {
    void *frame[1];
    backtrace(frame, 1); /* the first call loads a library, which a signal handler must not */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
}

/* libweft.so is never unloaded, but a plug-in with libweft.a in it may be: the handlers must not stay behind. */
static __attribute__((destructor)) void uninstall(void) {
    static const int numbers[] = {SIGSEGV, SIGBUS};
    for (int i = 0; i < 2; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
            sigaction(numbers[i], &before[i], NULL);
    }
}

void wefti_overflow_report(bool (*who)(uintptr_t address, char *text, size_t room)) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    store_relaxed(&overflow_who, who); /* before the signal handler is there */
    pthread_once(&once, install);
}

bool wefti_signal_stack_begin(void **memory) {
    stack_t old, new = {0};
    if (sigaltstack(NULL, &old) || !(old.ss_flags & SS_DISABLE))
        return false;
    if (!*memory) {
        void *mapped = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return false; /* an overflow will end the process without a word */
        *memory = mapped;
    }
    new.ss_sp = *memory;
    new.ss_size = SIGNAL_STACK;
    return sigaltstack(&new, NULL) == 0;
}

void wefti_signal_stack_end(void) {
    stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, NULL);
}

void wefti_signal_stack_free(void *memory) {
    if (memory)
        munmap(memory, SIGNAL_STACK);
}
