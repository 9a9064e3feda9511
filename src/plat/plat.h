/* plat.h - everything weft asks of the operating system, and nothing else does.
 *
 * The seam is the linker's: the library is built with plat/linux.c, the model checker links its own version
 * of these functions (test/model/mc) under unchanged sources.  No other folder calls the OS or libc for
 * threads, sleeping, time, memory or randomness; tools/layers checks that.
 */
#ifndef WEFTI_PLAT_H
#define WEFTI_PLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/atomic.h"

/* -- Threads ---------------------------------------------------------------------------------------- */
struct wefti_thread {
    uintptr_t os;
};
/* Start a thread named `name` (may be NULL).  Returns 0; -EAGAIN or -ENOMEM when the system refuses. */
int wefti_thread_start(struct wefti_thread *thread, void (*fn)(void *), void *arg, const char *name);
void wefti_thread_join(struct wefti_thread *thread);
/* Let another thread have this core, if one wants it. */
void wefti_thread_yield(void);
/* One turn of a spin loop: the loop reads something that another thread will write. */
void wefti_relax(void);
/* The address that this thread's stack must not grow below, with room to spare for whoever asks. */
uintptr_t wefti_stack_limit(void);
/* The calling thread's stack: its lowest address into *base, its size as result.  0 when it cannot be told. */
size_t wefti_thread_stack(void **base);
/* CPUs this process may use: affinity mask, and cgroup quota rounded up; at least 1. */
unsigned wefti_cpu_count(void);

/* What the calling thread is (a worker, or NULL).  The model checker swaps it when it switches threads. */
extern __thread void *wefti_self_ptr __attribute__((tls_model("initial-exec")));
static inline void *wefti_self(void) { return wefti_self_ptr; }
static inline void wefti_self_set(void *self) { wefti_self_ptr = self; }
/* A number that no other thread has or will have.  It has WEFTI_THREAD, which no address has, and is a multiple of 8.  An address in the thread's memory
 * would not do: a later thread may get the memory of one that has ended. */
#define WEFTI_THREAD (UINT64_C(1) << 63)
#ifdef WEFTI_MODEL /* all its threads are one */
uint64_t wefti_thread_id(void);
#else
extern __thread uint64_t wefti_thread_number __attribute__((tls_model("initial-exec"))); /* 0: it has none yet */
uint64_t wefti_thread_number_take(void);
static inline uint64_t wefti_thread_id(void) {
    return __builtin_expect(wefti_thread_number != 0, 1) ? wefti_thread_number : wefti_thread_number_take();
}
#endif

/* From off to on, pthread_cancel does not end the calling thread: not in the midst of a call that holds something, or that others know of.  It acts at the
 * thread's next cancellation point after that. */
int wefti_cancel_off(void);
void wefti_cancel_on(int before);

/* -- Futex ------------------------------------------------------------------------------------------ */
/* Sleep while *word == expect, until woken or until the monotonic time `until` (INT64_MAX: no limit).
 * Returns 0 (woken, perhaps for no reason), -EAGAIN (the word differed) or -ETIMEDOUT. */
int wefti_futex_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until);
/* Sleep until that monotonic time.  A cancellation point: by plain threads that hold nothing. */
void wefti_sleep_until(int64_t until);
/* Wake at most `count` sleepers of `word`.  Does not touch the memory, which may be gone.
 * Returns how many woke. */
int wefti_futex_wake(_Atomic uint32_t *word, int count);

/* The heavy half of an asymmetric fence: every thread of the process passes a full fence between the
 * start and the end of this call; their half is fence_light().  Returns 0, or -ENOSYS where the system cannot. */
int wefti_fence_heavy(void);
/* Called once before the first wefti_fence_heavy().  0 or -ENOSYS. */
int wefti_fence_heavy_init(void);

/* -- Time ------------------------------------------------------------------------------------------- */
/* Monotonic nanoseconds. */
int64_t wefti_clock(void);
/* The same as it was at the system's last tick, for less: never later, and earlier by less than WEFTI_COARSE unless the system is late itself. */
#define WEFTI_COARSE INT64_C(10000000)
int64_t wefti_clock_coarse(void);
/* ns since 1970, as people count; may jump, and is as fine as the kernel's tick. */
int64_t wefti_wall_clock(void);

/* -- Memory ----------------------------------------------------------------------------------------- */
/* Zeroed memory, aligned to 64 bytes; NULL when there is none. */
void *wefti_alloc(size_t size);
/* The same, of any content: pages that are never written cost nothing. */
void *wefti_alloc_raw(size_t size);
void wefti_free(void *memory, size_t size);
/* Zeroed pages straight from the system; untouched pages cost nothing.  `size` is a power of two and a multiple of the
 * page, and the memory is aligned to it.  NULL on failure. */
void *wefti_map(size_t size);
void wefti_unmap(void *memory, size_t size);
/* The same, but the addresses stay reserved: no later map gets them. */
void wefti_unmap_reserve(void *memory, size_t size);
/* A hint: all of these pages are about to be written.  Having them at once costs two thirds of what they cost one by one. */
void wefti_map_now(void *memory, size_t size);
#define WEFTI_MAP_PIECE ((size_t)64 * 1024)
/* The same for who uses a map from its beginning to its end, and is about to use so much at that place: piece by piece, but for the first. */
static inline void wefti_map_ahead(void *map, size_t at, size_t size, size_t end) {
    size_t piece = (at + size - 1) & ~(WEFTI_MAP_PIECE - 1); /* that its last byte is in */
    if (piece && at <= piece && piece < end)
        wefti_map_now((char *)map + piece, WEFTI_MAP_PIECE);
}
/* A hint, from who has mapped so many bytes before this for the same purpose: all of it will be used, too.  From the second piece on large
 * pages serve where the system has them: they cost a quarter, and what of the last is not used after all is less than half of the whole.
 * The first gets none, also where the system gives them to all who do not say no. */
void wefti_map_large(void *memory, size_t size, size_t before);
/* Tell the checkers (ASan, the model checker) that a piece of memory we keep is dead, or alive again.
 * Nothing in other builds. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFTI_MEMORY_CHECKED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(WEFTI_MODEL)
#define WEFTI_MEMORY_CHECKED 1
#endif
#ifdef WEFTI_MEMORY_CHECKED
void wefti_memory_dead(void *memory, size_t size);
void wefti_memory_live(void *memory, size_t size);
#else
static inline void wefti_memory_dead(void *memory, size_t size) { (void)memory, (void)size; }
static inline void wefti_memory_live(void *memory, size_t size) { (void)memory, (void)size; }
#endif

/* -- Stacks ------------------------------------------------------------------------------------------ */
/* Address space for stacks, a multiple of the page; touched pages cost memory.  NULL when the system refuses. */
void *wefti_stack_map(size_t bytes);
void wefti_stack_unmap(void *memory, size_t bytes);
/* Of *count stacks, `apart` bytes apart, turn the first page of each into a guard.  Returns the guard's size, and in *count how many have got
 * one: the first ones, at least one; 0 when the system refuses. */
size_t wefti_stack_guard(void *low, size_t apart, uint32_t *count);
/* Have the last page of each brought in, in one call where the system has one: two thirds of the cost of touching them one by one. */
void wefti_stack_touch(void *low, size_t apart, uint32_t count);
/* Forget what these pages hold, and give them back to the system. */
void wefti_pages_drop(void *memory, size_t bytes);
/* The same of several ranges, in one call where the system has one: a quarter of the cost. */
struct wefti_pages {
    void *memory;
    size_t bytes;
};
#define WEFTI_PAGES_MAX 64u /* ranges at a time; so many stacks also */
void wefti_pages_drop_many(const struct wefti_pages *pages, uint32_t count);
/* Where the calling thread's errno is; not inlined, since a compiler may keep the address that `errno` itself gives it. */
int *wefti_errno_at(void);
/* Where the C++ runtime keeps what the calling thread has thrown and is not done with: the first fields of the C++ ABI's
 * __cxa_eh_globals.  NULL in a program without C++.  Each thread its own, which lives as long as the thread. */
struct wefti_exceptions {
    void *caught; /* a list, linked through the exceptions */
    unsigned uncaught; /* how many are on their way to a handler */
};
struct wefti_exceptions *wefti_exceptions_at(void);

/* A function in words: its name if the program exports it, and where it is, as addr2line wants it.  Also in a signal handler that is
 * about to end the process. */
void wefti_symbol(uintptr_t address, char *text, size_t room);
/* Report stack overflows: from now on, when a thread that has a signal stack touches an address that it may not, `who` is asked whether that is
 * the guard of the stack it runs on, and says so in words; the process then ends with that text and a backtrace.  Other
 * faults go to whoever had the signal before.  Once a process. */
void wefti_overflow_report(bool (*who)(uintptr_t address, char *text, size_t room));
/* A stack for the calling thread's signals, unless it has one.  *memory is made when it is NULL, and kept for the next time.  True: end
 * it before the thread goes on without us. */
bool wefti_signal_stack_begin(void **memory);
void wefti_signal_stack_end(void);
void wefti_signal_stack_free(void *memory);

/* -- Descriptors -------------------------------------------------------------------------------------- */
enum {
    WEFTI_READABLE = 1,
    WEFTI_WRITABLE = 2,
    WEFTI_READ_ENDED = 4, /* the peer writes no more, or there was an error: not told again */
    WEFTI_WRITE_ENDED = 8,
    WEFTI_DONE = 16, /* an operation */
};
struct wefti_poller {
    const struct wefti_poller_kind *kind;
    int poll, poke; /* descriptors; poke: writing to it ends a wait */
    uint32_t pending; /* what was begun, added or removed, and is not yet known to the system: the next wait tells it */
    void *room; /* the kind's own */
    uint32_t batch; /* events per wait, at most */
};
struct wefti_poll_event {
    void *tag;
    uint32_t ready; /* WEFTI_READABLE, WEFTI_WRITABLE; after an error or hang-up all four; or WEFTI_DONE alone */
    int32_t result; /* of an operation that is done: what the call would return, or -errno */
};
/* Opens a poller for the calling thread, which alone adds, arms, begins, cancels and waits.  `uring`: with io_uring if the system allows it,
 * else with epoll.  One wait returns at most `batch` events.  Returns 0; -EMFILE, -ENFILE, -ENOMEM. */
int wefti_poller_open(struct wefti_poller *poller, bool uring, uint32_t batch);
/* The owner's last call: it lets go of every file.  Others may remove and poke until it is closed. */
void wefti_poller_quit(struct wefti_poller *poller);
void wefti_poller_close(struct wefti_poller *poller);
const char *wefti_poller_name(const struct wefti_poller *poller);
/* Would io_uring do?  0, or why not: -ENOSYS, -EPERM, -ENOMEM, ... */
int wefti_uring_probe(void);
/* For tests: io_uring refuses with that error (0: as the system says), and has room for so many completions (0: the default). */
void wefti_uring_limit(int error, unsigned completions);
/* ... how often one was found to have had more than it had room for. */
uint64_t wefti_uring_overflows(void);
/* Tell of every change of fd's readiness from now on, and once of what it is now.  0 or a negative errno (-EPERM: always ready). */
int wefti_poller_add(struct wefti_poller *poller, int fd, void *tag);
/* The same for some of it, and once only: again after each event. */
int wefti_poller_arm(struct wefti_poller *poller, int fd, void *tag, uint32_t what, bool again);
/* Any thread that knows of the add (a lock orders the two), before the descriptor is closed.  io_uring holds on to the file until its owner has looked, which is poked for it. */
void wefti_poller_remove(struct wefti_poller *poller, int fd);
/* Operations, which the system carries out when it can.  The buffer is its own until the operation is DONE; there is exactly one such event
 * for each.  False: not begun, make the call yourself. */
enum {
    WEFTI_OP_RECV, /* of a socket: `bytes`, so many as `size` says */
    WEFTI_OP_SEND,
    WEFTI_OP_READV, /* of a file, from `at`: `bytes` are struct iovec, so many as `size` says, and are its own as well */
    WEFTI_OP_WRITEV,
};
struct wefti_poll_op {
    int what, fd;
    void *bytes;
    size_t size;
    int64_t at;
};
bool wefti_poller_has_ops(const struct wefti_poller *poller);
bool wefti_poller_begin(struct wefti_poller *poller, const struct wefti_poll_op *op, void *tag);
/* Ask for its end; it may be done already, or not be stopped any more: the event comes in any case.  False: try again later. */
bool wefti_poller_cancel(struct wefti_poller *poller, void *tag);
/* Waits for events until the monotonic time `until` (0: do not wait, INT64_MAX: no limit).  `events` has room for the poller's batch.
 * Returns their number, 0 also after a poke.  Events beyond the batch are returned by the next wait. */
int wefti_poller_wait(struct wefti_poller *poller, struct wefti_poll_event *events, int64_t until);
/* End a wait of the poller whose `poke` this is; kept if it comes first. */
void wefti_poke(int poke);
/* Something to poke for a plain thread; -EMFILE, -ENFILE, -ENOMEM. */
int wefti_poke_open(void);
/* A plain thread waits for one descriptor.  0: it is ready, or is none; 1: poked (and that is used up; poke -1: cannot be); -ETIMEDOUT. */
int wefti_fd_sleep(int fd, uint32_t what, int poke, int64_t until);
/* The same for several. */
struct wefti_fd_wish {
    int fd;
    uint32_t what;
};
#define WEFTI_WISHES_MAX 64
int wefti_fds_sleep(const struct wefti_fd_wish *wishes, unsigned count, int poke, int64_t until);
/* What of `what` a descriptor is ready for now; 0: nothing. */
int wefti_fd_state(int fd, uint32_t what);
/* recv and send, which is without SIGPIPE; the result or -errno. */
#include "plat/transfer.h"
#ifndef WEFTI_DIRECT_CALLS
ssize_t wefti_recv(int fd, void *bytes, size_t size);
ssize_t wefti_send(int fd, const void *bytes, size_t size);
#endif
/* write and writev of something that is no socket, and sendfile, without SIGPIPE. */
ssize_t wefti_write_quietly(int fd, const void *bytes, size_t size);
ssize_t wefti_writev_quietly(int fd, const struct iovec *parts, int count);
ssize_t wefti_sendfile_quietly(int fd, int file, off_t *offset, size_t size);

/* Read from a place in a file what can be had without waiting for a disk; the result or -errno: -EAGAIN (nothing), -EOPNOTSUPP (nobody
 * knows). */
ssize_t wefti_readv_now(int fd, const struct iovec *parts, int count, int64_t at);
/* Are these bytes of a regular file in the page cache? True if the file system does not know. */
bool wefti_file_is_cached(int fd, int64_t at, size_t size);

/* -- Signals, forks, exit ---------------------------------------------------------------------------------- */
#define WEFTI_SIGNALS 65 /* numbers below it */
/* Have `handler` called, on the thread's signal stack if it has one, and remember what was there.  One at a time a number.  0; -EINVAL. */
int wefti_signal_catch(int number, void (*handler)(int));
/* Put back what was there, unless another handler is there by now. */
void wefti_signal_restore(int number, void (*handler)(int));

/* There is something that a child made by fork(2) would not have, such as threads.  As long as there is, a child knows that it is one:
 * wefti_is_forked, and no thread of it is a worker.  unwatch: that is gone. */
void wefti_fork_watch(void);
void wefti_fork_unwatch(void);
bool wefti_is_forked(void);

/* Have fn() called by exit(3), or when the library is unloaded.  0; -ENOMEM. */
int wefti_at_exit(void (*fn)(void));

/* -- Processes ----------------------------------------------------------------------------------------- */
struct wefti_spawn {
    const char *path;
    bool search; /* in PATH */
    const char *const *argv, *const *env; /* env NULL: ours */
    const char *cwd; /* NULL: ours */
    int fd[3]; /* what becomes 0, 1 and 2, itself above 2; -1: as ours */
    bool close_others; /* above 2, where the system can */
    bool group;
};
/* Start a program, and wait until it runs; blocks.  0; a negative errno of whatever failed on the way there. */
int wefti_spawn(const struct wefti_spawn *spawn, int *pid);
/* A descriptor that becomes readable when the process, a child that nobody has reaped, ends.  -ENOSYS, -EMFILE, ... */
int wefti_pidfd_open(int pid);
/* By descriptor, or without one (-1) by number; a negative one is a group.  0 or a negative errno. */
int wefti_process_signal(int pidfd, int pid, int number);
/* Has it ended?  0, and how; -EAGAIN: not yet; -ECHILD: others have reaped it.  Does not wait. */
int wefti_process_reap(int pidfd, int pid, int *code, int *number);

/* -- Random, environment, faults -------------------------------------------------------------------- */
uint64_t wefti_random_seed(void);
const char *wefti_env(const char *name);

/* Write all of it to a descriptor, or a negative errno value. */
int wefti_write(int fd, const void *bytes, size_t size);

/* Fault points.  test/fault makes the nth allocation, map or thread creation fail; production code never
 * calls these.  wefti_fault_set(n, persistent): the nth call from now (0 = the next) fails, and with
 * `persistent` all later ones.  wefti_fault_count: calls seen since set. */
void wefti_fault_set(int64_t nth, bool persistent);
int64_t wefti_fault_count(void);

#endif
