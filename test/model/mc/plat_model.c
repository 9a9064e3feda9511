/* plat_model.c - plat.h in the model: threads, futexes, time and memory as choices of the search.
 *
 * Futex.  wait compares the latest value, as the kernel does, and sleeps in one step; wake chooses which
 *         sleepers.  Neither orders memory between the two threads: production code may not rely on it.
 *         A wait with a deadline sleeps for ever, unless the test grants time-outs: `timeouts` may strike at
 *         any moment, `idle_timeouts` only when nothing else can happen.
 * Time.   Each look at the clock adds 1 us; a time-out moves it to the deadline.
 * Faults. Any allocation, map or thread start may fail as long as the test's `failures` last; besides,
 *         wefti_fault_set() makes a given one fail.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"
#include "plat/plat.h"

#define PC ((uintptr_t)__builtin_return_address(0))

__thread void *wefti_self_ptr;

static int64_t fault_at = -1, fault_seen;
static bool fault_persistent;
static uint64_t seed;
enum { STACKS = 64 << 20 };
static char *stacks;
static size_t stacks_used;

static void mc_pokes_reset(void);

void mc_plat_reset(void) {
    stacks_used = 0;
    fault_at = -1;
    fault_seen = 0;
    mc_pokes_reset();
    seed = 0x9E3779B97F4A7C15u;
}

static bool fails(void) {
    int64_t n = fault_seen++;
    if (fault_at >= 0 && (n == fault_at || (fault_persistent && n > fault_at)))
        return true;
    if (mc.failures > 0 && mc_pick(2, mc_is_random() && mc_draw() % 4 ? 0 : -1)) {
        mc.failures--;
        return true;
    }
    return false;
}

/* -- Threads ----------------------------------------------------------------------------------------- */
int wefti_thread_start(struct wefti_thread *thread, void (*fn)(void *), void *arg, const char *name) {
    (void)name;
    if (fails())
        return -EAGAIN;
    mc_plain((uintptr_t)thread, sizeof *thread, true, PC);
    thread->os = (uintptr_t)mc_spawn_at(fn, arg, PC);
    return 0;
}

void wefti_thread_join(struct wefti_thread *thread) {
    mc_plain((uintptr_t)thread, sizeof *thread, false, PC);
    mc_join_at((int)thread->os, PC);
}

int wefti_cancel_off(void) { return 0; }
void wefti_cancel_on(int before) { (void)before; }
void wefti_sleep_until(int64_t until) {
    _Atomic uint32_t never = 0;
    while (wefti_clock() < until)
        wefti_futex_wait(&never, 0, until);
}

void wefti_thread_yield(void) { mc_relax(PC); }
void wefti_relax(void) { mc_relax(PC); }
uint64_t wefti_thread_id(void) { return WEFTI_THREAD | 8 * (uint64_t)(mc_self() + 1); }
uintptr_t wefti_stack_limit(void) { return 0; }
size_t wefti_thread_stack(void **base) {
    *base = NULL;
    return 0;
}
unsigned wefti_cpu_count(void) { return mc.test->cpus ? (unsigned)mc.test->cpus : 2; }

/* -- Futex ------------------------------------------------------------------------------------------- */
int wefti_futex_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until) {
    uintptr_t addr = (uintptr_t)word;
    mc_point(OP_WAIT, addr, 4, MO_RELAXED, PC);
    uint32_t found = (uint32_t)mc_read_latest(addr, 4, PC);
    struct mc_thread *t = mc_me();
    int result;
    if (found != expect) {
        result = -EAGAIN;
    } else if (until <= mc.clock) {
        result = -ETIMEDOUT;
    } else {
        if (mc.tracing)
            mc_trace(OP_WAIT, 0, addr, 4, found, expect, 1, PC);
        t->until = until;
        t->wait_result = 0;
        mc_block(MC_ASLEEP, PC);
        t->until = INT64_MAX;
        result = t->wait_result ? -ETIMEDOUT : 0;
    }
    if (mc.tracing)
        mc_trace(result == -EAGAIN ? OP_WAIT : OP_RESUME, 0, addr, 4, found, expect, result, PC);
    return result;
}

int wefti_futex_wake(_Atomic uint32_t *word, int count) {
    uintptr_t addr = (uintptr_t)word;
    mc_point(OP_WAKE, addr, 4, MO_RELAXED, PC);
    int woken = 0;
    unsigned set = 0;
    while (woken < count) {
        int sleeper[MC_THREADS], n = 0;
        for (int i = 0; i < mc.count; i++)
            if (mc.t[i].state == MC_ASLEEP && mc.t[i].op.addr == addr)
                sleeper[n++] = i;
        if (!n)
            break;
        int who = sleeper[n <= count - woken ? 0 : mc_pick(n, -1)];
        mc.t[who].wait_result = 0;
        mc_unblock(who);
        set |= 1u << who;
        woken++;
    }
    if (mc.tracing)
        mc_trace(OP_WAKE, 0, addr, 4, set, (uint64_t)count, woken, PC);
    return woken;
}

int wefti_fence_heavy_init(void) { return 0; }

int wefti_fence_heavy(void) {
    mc_fence_heavy(PC);
    return 0;
}

/* -- Time, memory ------------------------------------------------------------------------------------ */
int64_t wefti_clock(void) { return mc.clock += 1000; }
int64_t wefti_clock_coarse(void) { return mc.clock; }
int64_t wefti_wall_clock(void) { return mc.clock; }

void *wefti_alloc(size_t size) { return fails() ? NULL : mc_heap_alloc(size, false, PC); }
void *wefti_alloc_raw(size_t size) { return wefti_alloc(size); }
void wefti_free(void *memory, size_t size) { mc_heap_free(memory, size, false, PC); }
void *wefti_map(size_t size) { return fails() ? NULL : mc_heap_alloc(size, true, PC); }
void wefti_unmap(void *memory, size_t size) { mc_heap_free(memory, size, true, PC); }
void wefti_unmap_reserve(void *memory, size_t size) { mc_heap_free(memory, size, true, PC); }
void wefti_map_large(void *memory, size_t size, size_t before) { (void)memory, (void)size, (void)before; }
void wefti_map_now(void *memory, size_t size) { (void)memory, (void)size; }

/* -- Stacks ------------------------------------------------------------------------------------------ */
/* Memory like any other, at the same addresses in every execution: who runs on a stack that another has left must know of it. */
void *wefti_stack_map(size_t bytes) {
    if (fails())
        return NULL;
    if (!stacks)
        stacks = mc_reserve(STACKS);
    if (stacks_used + bytes > STACKS)
        mc_fail_at(PC, 0, "more than %d MiB of stacks", STACKS >> 20);
    stacks_used += bytes;
    return stacks + stacks_used - bytes;
}
void wefti_stack_unmap(void *memory, size_t bytes) { (void)memory, (void)bytes; }
size_t wefti_stack_guard(void *low, size_t apart, uint32_t *count) {
    (void)low, (void)apart;
    *count = 1;
    return fails() ? 0 : 4096;
}
void wefti_stack_touch(void *low, size_t apart, uint32_t count) { (void)low, (void)apart, (void)count; }
void wefti_pages_drop(void *memory, size_t bytes) { (void)memory, (void)bytes; }
void wefti_pages_drop_many(const struct wefti_pages *pages, uint32_t count) { (void)pages, (void)count; }
/* One OS thread runs all the model's threads: each has an errno of its own. */
int *wefti_errno_at(void) {
    static int numbers[8];
    return &numbers[mc_self()];
}
struct wefti_exceptions *wefti_exceptions_at(void) { return NULL; }
void wefti_symbol(uintptr_t address, char *text, size_t room) { (void)address, (void)text, (void)room; }
void wefti_overflow_report(bool (*who)(uintptr_t address, char *text, size_t room)) { (void)who; }
bool wefti_signal_stack_begin(void **memory) {
    (void)memory;
    return false;
}
void wefti_signal_stack_end(void) {}
void wefti_signal_stack_free(void *memory) { (void)memory; }

/* -- Descriptors -------------------------------------------------------------------------------------- */
/* There are none: what waits for them is tested on a real system.  There are pollers to sleep in, and to be poked in: a poke is a token
 * that stays until a wait uses it up.  Like a futex it orders no memory. */
#define POKES 8
static bool poked[POKES];
static int pokes;

static void mc_pokes_reset(void) {
    pokes = 0;
    for (int i = 0; i < POKES; i++)
        poked[i] = false;
}

/* True: poked. */
static bool sleep_on_poke(int poke, int64_t until, uintptr_t pc) {
    uintptr_t addr = (uintptr_t)&poked[poke];
    mc_point(OP_WAIT, addr, 1, MO_RELAXED, pc);
    if (!poked[poke] && until > mc.clock) {
        struct mc_thread *t = mc_me();
        if (mc.tracing)
            mc_trace(OP_WAIT, 0, addr, 1, 0, 0, 1, pc);
        t->until = until;
        t->wait_result = 0;
        mc_block(MC_ASLEEP, pc);
        t->until = INT64_MAX;
    }
    bool found = poked[poke];
    poked[poke] = false;
    if (mc.tracing)
        mc_trace(OP_RESUME, 0, addr, 1, found, 0, 0, pc);
    return found;
}

void wefti_poke(int poke) {
    if (poke < 0 || poke >= pokes)
        mc_fail_at(PC, 0, "there is no poke %d", poke);
    uintptr_t addr = (uintptr_t)&poked[poke];
    mc_point(OP_WAKE, addr, 1, MO_RELAXED, PC);
    poked[poke] = true;
    for (int i = 0; i < mc.count; i++)
        if (mc.t[i].state == MC_ASLEEP && mc.t[i].op.addr == addr) {
            mc.t[i].wait_result = 0;
            mc_unblock(i);
        }
    if (mc.tracing)
        mc_trace(OP_WAKE, 0, addr, 1, 0, 1, 1, PC);
}

int wefti_poke_open(void) { return pokes < POKES ? pokes++ : -EMFILE; }

int wefti_uring_probe(void) { return -ENOSYS; }
int wefti_poller_open(struct wefti_poller *poller, bool uring, uint32_t batch) {
    (void)uring;
    poller->batch = batch;
    poller->poll = 0;
    poller->room = NULL;
    poller->poke = fails() ? -EMFILE : wefti_poke_open();
    return poller->poke < 0 ? poller->poke : 0;
}
void wefti_poller_quit(struct wefti_poller *poller) { (void)poller; }
void wefti_poller_close(struct wefti_poller *poller) { (void)poller; }
int wefti_poller_add(struct wefti_poller *poller, int fd, void *tag) {
    (void)poller, (void)fd, (void)tag;
    return -EBADF;
}
int wefti_poller_arm(struct wefti_poller *poller, int fd, void *tag, uint32_t what, bool again) {
    (void)poller, (void)fd, (void)tag, (void)what, (void)again;
    return -EBADF;
}
void wefti_poller_remove(struct wefti_poller *poller, int fd) { (void)poller, (void)fd; }
ssize_t wefti_readv_now(int fd, const struct iovec *parts, int count, int64_t at) {
    (void)fd, (void)parts, (void)count, (void)at;
    return -EOPNOTSUPP;
}
bool wefti_poller_has_ops(const struct wefti_poller *poller) {
    (void)poller;
    return false;
}
bool wefti_poller_begin(struct wefti_poller *poller, const struct wefti_poll_op *op, void *tag) {
    (void)poller, (void)op, (void)tag;
    return false;
}
bool wefti_poller_cancel(struct wefti_poller *poller, void *tag) {
    (void)poller, (void)tag;
    return true;
}
int wefti_poller_wait(struct wefti_poller *poller, struct wefti_poll_event *events, int64_t until) {
    (void)events;
    sleep_on_poke(poller->poke, until, PC);
    return 0;
}
int wefti_fd_sleep(int fd, uint32_t what, int poke, int64_t until) {
    (void)fd, (void)what;
    return sleep_on_poke(poke, until, PC) ? 1 : -ETIMEDOUT;
}
int wefti_fds_sleep(const struct wefti_fd_wish *wishes, unsigned count, int poke, int64_t until) {
    (void)wishes, (void)count;
    return sleep_on_poke(poke, until, PC) ? 1 : -ETIMEDOUT;
}
int wefti_fd_state(int fd, uint32_t what) {
    (void)fd, (void)what;
    return 0;
}
ssize_t wefti_recv(int fd, void *bytes, size_t size) {
    (void)fd, (void)bytes, (void)size;
    return -ENOTSOCK;
}
ssize_t wefti_send(int fd, const void *bytes, size_t size) {
    (void)fd, (void)bytes, (void)size;
    return -ENOTSOCK;
}
ssize_t wefti_write_quietly(int fd, const void *bytes, size_t size) { return write(fd, bytes, size); }
ssize_t wefti_writev_quietly(int fd, const struct iovec *parts, int count) {
    (void)fd, (void)parts, (void)count;
    return -1;
}
bool wefti_file_is_cached(int fd, int64_t at, size_t size) {
    (void)fd, (void)at, (void)size;
    return true;
}
ssize_t wefti_sendfile_quietly(int fd, int file, off_t *offset, size_t size) {
    (void)fd, (void)file, (void)offset, (void)size;
    return -1;
}

void wefti_memory_dead(void *memory, size_t size) {
    if (mc.tracing)
        mc_trace(OP_DEAD, 0, (uintptr_t)memory, 0, size, 0, 0, PC);
    mc_check_quiescent((uintptr_t)memory, size, PC);
    mc_mark((uintptr_t)memory, size, LIFE_DEAD);
}

void wefti_memory_live(void *memory, size_t size) {
    if (mc.tracing)
        mc_trace(OP_LIVE, 0, (uintptr_t)memory, 0, size, 0, 0, PC);
    mc_mark((uintptr_t)memory, size, LIFE_OK);
}

/* -- The rest ---------------------------------------------------------------------------------------- */
uint64_t wefti_random_seed(void) { return seed += 0x9E3779B97F4A7C15u; }

const char *wefti_env(const char *name) {
    (void)name;
    return NULL;
}

/* Output of production code is shown once, in the run that is traced. */
int wefti_write(int fd, const void *bytes, size_t size) {
    return !mc.tracing || write(fd, bytes, size) >= 0 ? 0 : -EIO;
}

void wefti_fault_set(int64_t nth, bool persistent) {
    fault_at = nth;
    fault_persistent = persistent;
    fault_seen = 0;
}

int64_t wefti_fault_count(void) { return fault_seen; }

/* -- What the model has none of ----------------------------------------------------------------------- */
int wefti_signal_catch(int number, void (*handler)(int)) {
    (void)number, (void)handler;
    return -ENOSYS;
}
void wefti_signal_restore(int number, void (*handler)(int)) { (void)number, (void)handler; }
void wefti_fork_watch(void) {}
void wefti_fork_unwatch(void) {}
bool wefti_is_forked(void) { return false; }
int wefti_at_exit(void (*fn)(void)) {
    (void)fn;
    return 0;
}
int wefti_spawn(const struct wefti_spawn *spawn, int *pid) {
    (void)spawn, (void)pid;
    return -ENOSYS;
}
int wefti_pidfd_open(int pid) {
    (void)pid;
    return -ENOSYS;
}
int wefti_process_signal(int pidfd, int pid, int number) {
    (void)pidfd, (void)pid, (void)number;
    return -ENOSYS;
}
int wefti_process_reap(int pidfd, int pid, int *code, int *number) {
    (void)pidfd, (void)pid, (void)code, (void)number;
    return -ECHILD;
}
