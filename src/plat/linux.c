/* linux.c - plat.h for Linux: threads, futexes, clock, memory. */
#define _GNU_SOURCE
#include "base/assert.h"
#include "plat/fault.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef WEFTI_MEMORY_CHECKED
#include <sanitizer/asan_interface.h>
#endif

__thread void *wefti_self_ptr __attribute__((tls_model("initial-exec")));
__thread uint64_t wefti_thread_number __attribute__((tls_model("initial-exec")));

uint64_t wefti_thread_number_take(void) {
    static _Atomic uint64_t last;
    return wefti_thread_number = WEFTI_THREAD | (add_relaxed(&last, 8) + 8); /* a number, nothing behind it */
}
#ifdef WEFTI_FENCE_BY_RMW
_Atomic int wefti_fence_word;
#endif

/* -- Fault points ----------------------------------------------------------------------------------- */

/* Armed only by tests.  `left` counts down over all threads; the call that takes it to 0 fails. */
static _Atomic bool fault_armed;
static _Atomic bool fault_persistent;
static _Atomic int64_t fault_left;
static _Atomic int64_t fault_seen;

void wefti_fault_set(int64_t nth, bool persistent) {
    store_relaxed(&fault_persistent, persistent);
    store_relaxed(&fault_left, nth + 1);
    store_relaxed(&fault_seen, 0);
    store_release(&fault_armed, nth >= 0);
}

int64_t wefti_fault_count(void) { return load_relaxed(&fault_seen); }

bool wefti_fault_here(void) {
    if (!load_acquire(&fault_armed))
        return false;
    add_relaxed(&fault_seen, 1);
    int64_t left = sub_relaxed(&fault_left, 1) - 1;
    return left == 0 || (left < 0 && load_relaxed(&fault_persistent));
}

/* -- Threads ---------------------------------------------------------------------------------------- */

struct start {
    void (*fn)(void *);
    void *arg;
    char name[16]; /* the kernel's limit */
};

/* Whatever runs on our threads is to return.  One that ends its thread, with pthread_exit or by pthread_cancel, takes a worker or a blocking
 * job with it for which somebody waits for ever: better to say so.  Frames of fibers end before thread_main's, so no cleanup handler
 * there would hear of it; a key's destructor does. */
static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static bool end_known;

static void thread_ended(void *name) {
    (void)name;
    wefti_misuse("pthread_exit", "called on a thread of weft's: a fiber, task or blocking job must return instead");
}

static void make_end_key(void) { end_known = pthread_key_create(&end_key, thread_ended) == 0; }

static void *thread_main(void *raw) {
    struct start start = *(struct start *)raw;
    free(raw);
    if (start.name[0])
        pthread_setname_np(pthread_self(), start.name);
    pthread_once(&end_once, make_end_key);
    bool told = end_known && pthread_setspecific(end_key, &end_key) == 0;
    start.fn(start.arg);
    if (told)
        pthread_setspecific(end_key, NULL);
    return NULL;
}

int wefti_cancel_off(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void wefti_cancel_on(int before) { pthread_setcancelstate(before, NULL); }

int wefti_thread_start(struct wefti_thread *thread, void (*fn)(void *), void *arg, const char *name) {
    if (wefti_fault_here())
        return -EAGAIN;
    struct start *start = calloc(1, sizeof *start);
    if (!start)
        return -ENOMEM;
    start->fn = fn;
    start->arg = arg;
    if (name)
        strncpy(start->name, name, sizeof start->name - 1);
    pthread_t os;
    int error = pthread_create(&os, NULL, thread_main, start);
    if (error) {
        free(start);
        return -error;
    }
    thread->os = (uintptr_t)os;
    return 0;
}

void wefti_thread_join(struct wefti_thread *thread) { pthread_join((pthread_t)thread->os, NULL); }

void wefti_thread_yield(void) { sched_yield(); }

void wefti_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#else
    fence_light();
#endif
}

size_t wefti_thread_stack(void **base) {
    static __thread void *lowest; /* in the main thread, asking costs a walk through /proc/self/maps */
    static __thread size_t size;
    pthread_attr_t attr;
    if (!size && pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &lowest, &size))
            size = 0;
        pthread_attr_destroy(&attr);
    }
    *base = lowest;
    return size;
}

uintptr_t wefti_stack_limit(void) {
    void *base;
    size_t size = wefti_thread_stack(&base);
    return size ? (uintptr_t)base + (size / 4 < 262144 ? size / 4 : 262144) : 0;
}

/* A small file as text; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, text, room - 1);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    return size > 0;
}

/* "quota period" in microseconds, as CPUs rounded up; 0 = no limit. */
static unsigned quota_cpus(const char *text, long long period) {
    char *end;
    long long quota = strtoll(text, &end, 10);
    if (end == text || quota <= 0)
        return 0; /* "max", or -1 */
    if (*end == ' ')
        period = strtoll(end, NULL, 10);
    return period > 0 ? (unsigned)((quota + period - 1) / period) : 0;
}

/* The quota of one group, as cgroup v2 or v1 has it in its folder. */
static unsigned group_cpus(const char *mount, const char *group, bool v2) {
    char path[1200], text[64], period[64];
    snprintf(path, sizeof path, "%s%s/%s", mount, group, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_text(path, text, sizeof text))
        return 0;
    snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", mount, group);
    return quota_cpus(text, !v2 && read_text(path, period, sizeof period) ? strtoll(period, NULL, 10) : 0);
}

/* The smallest quota from a group up to the root; `group` is cut meanwhile. */
static unsigned least_cpus(const char *mount, char *group, bool v2) {
    for (unsigned least = 0;;) {
        char *slash = strrchr(group, '/');
        unsigned cpus = group_cpus(mount, group, v2);
        if (cpus && (!least || cpus < least))
            least = cpus;
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Does a line of /proc/self/cgroup, "7:cpu,cpuacct:/group", name the controller of CPU time?  v2 names none: "0::/group". */
static bool has_cpu(const char *names, size_t size) {
    for (const char *at = names, *comma; at < names + size; at = comma + 1) {
        comma = memchr(at, ',', (size_t)(names + size - at));
        comma = comma ? comma : names + size;
        if (comma - at == 3 && !strncmp(at, "cpu", 3))
            return true;
    }
    return false;
}

/* The smallest quota of our control group, and of those that it is in. */
static unsigned cgroup_cpus(void) {
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"};
    char text[4096], none[1] = "";
    unsigned least = 0;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        text[0] = 0;
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        next += *next ? (*next = 0, 1) : 0;
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group || strlen(group + 1) > 1000)
            continue;
        size_t size = (size_t)(group - names - 1);
        bool v2 = size == 0;
        unsigned cpus = v2 || has_cpu(names + 1, size) ? least_cpus(mounts[v2], group + 1, v2) : 0;
        if (cpus && (!least || cpus < least))
            least = cpus;
    }
    unsigned cpus = least ? 0 : group_cpus(mounts[0], none, false); /* we may see another tree than we are in */
    return cpus ? cpus : least;
}

unsigned wefti_cpu_count(void) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* for machines with more CPUs than a cpu_set_t holds */
    unsigned count = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set)
                     : online > 0                                ? (unsigned)online
                                                                 : 1;
    unsigned quota = cgroup_cpus();
    if (quota && quota < count)
        count = quota;
    return count ? count : 1;
}

/* -- Futex ------------------------------------------------------------------------------------------ */

int wefti_futex_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until) {
    int64_t limit = until;
    if (until == INT64_MAX && wefti_is_forked()) { /* a lock that another thread of our parent held, or the like */
        static const char text[] = "weft: a forked child would wait for ever; it may only exec or exit\n";
        wefti_write(2, text, sizeof text - 1);
        abort();
    }
#ifdef WEFTI_FENCE_BY_RMW
    /* ThreadSanitizer holds a signal back that comes just before this call, until the thread does something that it knows: let it, now
     * and then, by a wake for no reason. */
    int64_t look = wefti_clock() + 50000000;
    limit = look < until ? look : until;
#endif
    struct timespec at = {limit / 1000000000, limit % 1000000000};
    /* WAIT_BITSET takes an absolute monotonic time, so that an interrupted wait can simply be repeated. */
    long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expect, limit == INT64_MAX ? NULL : &at, NULL,
                     FUTEX_BITSET_MATCH_ANY);
    if (r == 0 || errno == EINTR)
        return 0;
    return errno != ETIMEDOUT ? -EAGAIN : limit < until ? 0 : -ETIMEDOUT;
}

void wefti_sleep_until(int64_t until) {
    struct timespec at = {until / 1000000000, until % 1000000000};
    while (wefti_clock() < until) {
        if (wefti_is_forked() && until == INT64_MAX) {
            _Atomic uint32_t never = 0;
            wefti_futex_wait(&never, 0, until); /* says why it ends the process */
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}

int wefti_futex_wake(_Atomic uint32_t *word, int count) {
    long r = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    return r > 0 ? (int)r : 0;
}

int wefti_fence_heavy_init(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -ENOSYS;
}

int wefti_fence_heavy(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -ENOSYS;
}

/* -- Time ------------------------------------------------------------------------------------------- */

int64_t wefti_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t wefti_clock_coarse(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t wefti_wall_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* -- Memory ----------------------------------------------------------------------------------------- */

void *wefti_alloc_raw(size_t size) { return wefti_fault_here() ? NULL : aligned_alloc(64, (size + 63) & ~(size_t)63); }

void *wefti_alloc(size_t size) {
    void *memory = wefti_alloc_raw(size);
    if (memory)
        memset(memory, 0, (size + 63) & ~(size_t)63);
    return memory;
}

void wefti_free(void *memory, size_t size) {
    (void)size;
    free(memory);
}

void *wefti_map(size_t size) {
    if (wefti_fault_here())
        return NULL;
    /* Twice the size holds an aligned piece; the ends go back. */
    char *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)memory & (size - 1);
    if (before)
        munmap(memory, before);
    munmap(memory + before + size, size - before);
    return memory + before;
}

void wefti_map_large(void *memory, size_t size, size_t before) {
#ifdef MADV_HUGEPAGE
    madvise(memory, size, before ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* an error means that there are none */
#else
    (void)memory, (void)size, (void)before;
#endif
}

void wefti_map_now(void *memory, size_t size) {
#ifdef MADV_POPULATE_WRITE
    uintptr_t from = ((uintptr_t)memory + 4095) & ~(uintptr_t)4095, to = ((uintptr_t)memory + size) & ~(uintptr_t)4095;
    if (from < to)
        madvise((void *)from, to - from,
                MADV_POPULATE_WRITE); /* Linux 5.14; without it they come as they are written */
#else
    (void)memory, (void)size;
#endif
}

void wefti_unmap_reserve(void *memory, size_t size) {
#ifdef WEFTI_MEMORY_CHECKED
    wefti_memory_live(memory, size); /* as wefti_unmap */
#endif
    /* Without a mapping to put there, the old one stays as it is. */
    (void)!mmap(memory, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void wefti_unmap(void *memory, size_t size) {
#ifdef WEFTI_MEMORY_CHECKED
    wefti_memory_live(memory, size); /* the next owner of these addresses is not to inherit the marks */
#endif
    munmap(memory, size);
}

#ifdef WEFTI_MEMORY_CHECKED
void wefti_memory_dead(void *memory, size_t size) { __asan_poison_memory_region(memory, size); }
void wefti_memory_live(void *memory, size_t size) { __asan_unpoison_memory_region(memory, size); }
#endif

/* -- Random, environment, output -------------------------------------------------------------------- */

uint64_t wefti_random_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint64_t)wefti_clock() * 0x9E3779B97F4A7C15u;
    return seed ? seed : 1;
}

const char *wefti_env(const char *name) { return getenv(name); }

int wefti_write(int fd, const void *bytes, size_t size) {
    const char *next = bytes;
    while (size) {
        ssize_t n = syscall(SYS_write, fd, next, size); /* no cancellation point */
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        next += n;
        size -= (size_t)n;
    }
    return 0;
}
