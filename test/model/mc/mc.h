/* mc.h - what a model test may use: declare a test, make threads, choose, assert.
 *
 * A test is a function that the model checker runs many times, each time with another interleaving of its
 * threads and another choice of the values that C11 lets a load return.  Production sources are compiled
 * unchanged, with -fsanitize=thread, and the checker stands in for the sanitizer's runtime and for plat.h.
 *
 *     MC_TEST(ring_push_steal, .proves = "B15", .bound = 2) {
 *         int thief = mc_spawn(steal_one, &ring);
 *         push(&ring, &task);
 *         mc_join(thief);
 *         mc_assert(load_relaxed(&taken) == 1);
 *     }
 *
 * Rules of a test.
 * - All it does must follow from the choices of the checker: no real time, no real threads, no malloc.
 * - Globals start each execution with the value that they had in the first: the checker undoes all writes
 *   made by instrumented code.
 * - A loop that waits for another thread calls wefti_relax() or wefti_thread_yield() in each turn.
 */
#ifndef MC_H
#define MC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mc_mode {
    MC_BOUNDED,    /* every execution with at most `bound` preemptions */
    MC_SLEEP_SETS, /* every execution, leaving out equivalent ones; for small tests */
    MC_PCT,        /* random priorities with `depth` - 1 changes: finds a bug of depth d with a known chance */
    MC_RANDOM,     /* a random walk */
};

struct mc_test {
    const char *name, *file;
    int line;
    void (*body)(void);
    intptr_t arg;         /* what mc_arg() returns: one body, several cases */
    const char *proves;   /* ids of the requirements that this test proves: "B15 B16" */
    const char *expect;   /* passes only if a bug is found whose message contains this */
    const char *outcomes; /* exactly these mc_outcome() strings occur, separated by spaces */
    enum mc_mode mode;
    int bound;         /* preemptions; 0: 2, or what --bound says; MC_UNBOUNDED: no limit */
    int depth;         /* of PCT; 0: 3 */
    uint64_t max_exec; /* stop after so many executions, and say "incomplete"; 0: no limit */
    double seconds;    /* the same for CPU time */
    int max_steps;     /* more visible steps in one execution are an error; 0: 20,000 */
    int timeouts;      /* futex waits that may time out at any moment, per execution */
    int idle_timeouts; /* futex waits that time out when nothing else can happen, earliest first */
    int spurious;      /* futex waits that may return for no reason */
    int failures;      /* allocations, maps and thread starts that may fail */
    int stale_depth;   /* how many messages back a load may look; 0: 15, the most; MC_NO_STALE: none */
    int stale_reads;   /* loads that may return an old value, per execution; 0: no limit */
    bool stale_counts; /* only executions where loads of old values count as preemptions: for large tests */
    int spins;         /* turns of a spin loop before fairness is enforced; 0: 2 */
    int cpus;          /* wefti_cpu_count(); 0: 2 */
    bool leaks_ok;     /* memory may be left over at the end */
    bool mc_end;
};

#define MC_UNBOUNDED (-1)
#define MC_NO_STALE (-1)

/* MC_TEST(name, .field = value...) { body }  and  MC_CASE(name, body_function, .field = value...); */
#define MC_TEST(...) MC_TEST_(__VA_ARGS__, .mc_end = true)
#define MC_TEST_(test, ...)                                                                                            \
    static void mc_body_##test(void);                                                                                  \
    MC_CASE_(test, mc_body_##test, __VA_ARGS__);                                                                       \
    static void mc_body_##test(void)
#define MC_CASE(...) MC_CASE_(__VA_ARGS__, .mc_end = true)
#define MC_CASE_(test, function, ...)                                                                                  \
    static const struct mc_test mc_test_##test = {                                                                     \
        .name = #test, .file = __FILE__, .line = __LINE__, .body = (function), __VA_ARGS__};                           \
    static const struct mc_test *const mc_entry_##test __attribute__((used, section("mc_tests"))) = &mc_test_##test

/* Threads.  The test body is thread 0; 8 in all.  An execution ends when all have returned.  What the parent
 * did before mc_spawn() happens before the child; what the child did happens before mc_join() returns. */
int mc_spawn(void (*fn)(void *), void *arg);
void mc_join(int thread);
int mc_self(void);

/* Explore all of 0..n-1 (n at most 255). */
int mc_choose(int n);
intptr_t mc_arg(void);

/* No other thread runs between the two (unless this one blocks), and loads return the latest value. */
void mc_atomic_begin(void);
void mc_atomic_end(void);

/* Accesses to this memory, although atomic, must be ordered by happens-before as if they were plain: a slot that is
 * owned by whoever claimed it.  Finds a missing acquire before a store, which the machine cannot show otherwise: it
 * would need load buffering.  Call it before the memory is used; holds for the rest of the execution. */
void mc_exclusive(const volatile void *memory, size_t size);

/* Was this byte's memory freed or said to be dead?  For tests of the checker: whoever else uses it finds out. */
bool mc_is_dead(const volatile void *memory);

/* Record what this execution came to; with .outcomes the set over all executions must be exactly that. */
void mc_outcome(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line in the trace of a failing execution. */
void mc_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

_Noreturn void mc_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define mc_assert(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            mc_fail("assertion failed: %s (%s:%d)", #condition, __FILE__, __LINE__);                                   \
    } while (0)

#endif
