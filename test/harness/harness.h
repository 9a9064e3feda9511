/* harness.h - the test programs' frame: register, run each test in its own process, report.
 *
 *     TEST(push_full, "B9") {                          // runs once
 *         REQUIRE_EQ(wefti_ring_len(&ring), 256);      // stops the test
 *         CHECK_EQ(moved, 128);                        // notes the failure and goes on
 *     }
 *     API_TEST(join_result, "B33 B55", .workers = { 1, 2, 4 }) {      // on every scheduler, times every count
 *         ...weft_runtime_create(NULL, &rt)...         // WEFT_SCHED and WEFT_WORKERS are set
 *     }
 *
 * The second argument names the requirements that the test proves (docs/requirements.md).  Options follow it:
 * .workers (API_TEST; sim has one worker always), .sched ("ring deque": only these), .timeout (seconds).
 * A test that exits by itself, crashes, or takes longer than its time has failed; SKIP leaves it out.  A test
 * that hangs gets SIGUSR1 first, which calls the hook of harness_on_hang: let it print what it knows.
 */
#ifndef WEFT_TEST_HARNESS_H
#define WEFT_TEST_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HARNESS_WORKERS_MAX 8

struct harness_test {
    const char *name;
    const char *ids;
    const char *file;
    int line;
    void (*fn)(void);
    bool api;                              /* runs on every scheduler */
    unsigned workers[HARNESS_WORKERS_MAX]; /* WEFT_WORKERS of each run; none: not set */
    const char *sched;                     /* of an API test: the schedulers it is for; NULL: all */
    unsigned timeout;                      /* seconds; 0: 30 */
    struct harness_test *next;
};
void harness_register(struct harness_test *test);

#define TEST(name_, ids_, ...) HARNESS_TEST(name_, ids_, false, __VA_ARGS__)
#define API_TEST(name_, ids_, ...) HARNESS_TEST(name_, ids_, true, __VA_ARGS__)
#define HARNESS_TEST(name_, ids_, api_, ...)                                                                           \
    static void test_##name_(void);                                                                                    \
    __attribute__((constructor)) static void register_##name_(void) {                                                  \
        static struct harness_test test = {.name = #name_,                                                             \
                                           .ids = ids_,                                                                \
                                           .file = __FILE__,                                                           \
                                           .line = __LINE__,                                                           \
                                           .fn = test_##name_,                                                         \
                                           .api = api_,                                                                \
                                           __VA_ARGS__};                                                               \
        harness_register(&test);                                                                                       \
    }                                                                                                                  \
    static void test_##name_(void)

/* -- Claims: (found, expected).  CHECK notes a failure and goes on, REQUIRE ends the test.  Any thread. -- */
#define CHECK(claim) ((claim) ? (void)0 : harness_note(__FILE__, __LINE__, "expected %s", #claim))
#define REQUIRE(claim) ((claim) ? (void)0 : harness_fail(__FILE__, __LINE__, "expected %s", #claim))

#define CHECK_EQ(found, expected) HARNESS_INT(harness_note, ==, found, expected)
#define CHECK_NE(found, expected) HARNESS_INT(harness_note, !=, found, expected)
#define CHECK_LT(found, expected) HARNESS_INT(harness_note, <, found, expected)
#define CHECK_LE(found, expected) HARNESS_INT(harness_note, <=, found, expected)
#define CHECK_GT(found, expected) HARNESS_INT(harness_note, >, found, expected)
#define CHECK_GE(found, expected) HARNESS_INT(harness_note, >=, found, expected)
#define REQUIRE_EQ(found, expected) HARNESS_INT(harness_fail, ==, found, expected)
#define REQUIRE_NE(found, expected) HARNESS_INT(harness_fail, !=, found, expected)
#define REQUIRE_LT(found, expected) HARNESS_INT(harness_fail, <, found, expected)
#define REQUIRE_LE(found, expected) HARNESS_INT(harness_fail, <=, found, expected)
#define REQUIRE_GT(found, expected) HARNESS_INT(harness_fail, >, found, expected)
#define REQUIRE_GE(found, expected) HARNESS_INT(harness_fail, >=, found, expected)
/* Integers, enums and pointers, compared as intmax_t. */
#define HARNESS_INT(fail, op, found, expected)                                                                         \
    do {                                                                                                               \
        intmax_t harness_f = (intmax_t)(found), harness_e = (intmax_t)(expected);                                      \
        if (!(harness_f op harness_e))                                                                                 \
            fail(__FILE__, __LINE__, "expected %s %s %s (%jd), found %jd", #found, #op, #expected, harness_e,          \
                 harness_f);                                                                                           \
    } while (0)

/* Strings: equal, or containing a part. */
#define CHECK_STR(found, expected) HARNESS_STR(harness_note, "==", harness_str_eq, found, expected)
#define REQUIRE_STR(found, expected) HARNESS_STR(harness_fail, "==", harness_str_eq, found, expected)
#define CHECK_CONTAINS(found, part) HARNESS_STR(harness_note, "with", harness_str_has, found, part)
#define REQUIRE_CONTAINS(found, part) HARNESS_STR(harness_fail, "with", harness_str_has, found, part)
#define HARNESS_STR(fail, verb, holds, found, expected)                                                                \
    do {                                                                                                               \
        const char *harness_f = (found), *harness_e = (expected);                                                      \
        if (!holds(harness_f, harness_e))                                                                              \
            fail(__FILE__, __LINE__, "expected %s %s \"%s\", found \"%s\"", #found, verb, harness_e,                   \
                 harness_f ? harness_f : "(null)");                                                                    \
    } while (0)

/* Wait (10 s at most, looking every 50 us) until another thread has made the claim true. */
#define REQUIRE_EVENTUALLY(claim)                                                                                      \
    do {                                                                                                               \
        int64_t harness_until = harness_clock() + harness_patience();                                                  \
        while (!(claim)) {                                                                                             \
            if (harness_clock() > harness_until)                                                                       \
                harness_fail(__FILE__, __LINE__, "expected in time: %s", #claim);                                      \
            harness_nap();                                                                                             \
        }                                                                                                              \
    } while (0)

/* fn(arg), in a child process, must end by SIGABRT after writing `text` to stderr. */
#define REQUIRE_ABORTS(fn, arg, text) harness_aborts(__FILE__, __LINE__, #fn, fn, arg, text)

/* Leave this test out, and say why. */
#define SKIP(...) harness_skip(__VA_ARGS__)

/* -- Help for tests -------------------------------------------------------------------------------------- */

/* What to do when this test hangs, for instance weft_dump.  Runs in a signal handler. */
void harness_on_hang(void (*hook)(void *arg), void *arg);

/* Run fn(0..count-1, arg) on `count` threads that start together; return when all have. */
void harness_threads(unsigned count, void (*fn)(unsigned index, void *arg), void *arg);

/* The seed of this test: new in every run, printed when the test fails, chosen with --seed. */
uint64_t harness_seed(void);
/* The next random number of a generator whose state was first set to a seed. */
uint64_t harness_random(uint64_t *state);

/* The scheduler of the running API test ("ring"), "" in a TEST.  Worker count declared for this run, or 0. */
const char *harness_sched(void);
unsigned harness_workers(void);

/* True in sanitizer builds: tests may do less of the same. */
bool harness_is_slow(void);

/* Bytes of memory and number of threads of this process now, from /proc. */
size_t harness_rss(void);
unsigned harness_thread_count(void);

/* -- Used by the macros ---------------------------------------------------------------------------------- */
#define HARNESS_PRINTF(text, first) __attribute__((format(printf, text, first)))
HARNESS_PRINTF(3, 4) void harness_note(const char *file, int line, const char *format, ...);
HARNESS_PRINTF(3, 4) _Noreturn void harness_fail(const char *file, int line, const char *format, ...);
HARNESS_PRINTF(1, 2) _Noreturn void harness_skip(const char *format, ...);
/* What was written to a descriptor so far, as a string to free. */
char *harness_read_back(int fd);
void harness_aborts(const char *file, int line, const char *what, void (*fn)(void *), void *arg, const char *text);
bool harness_str_eq(const char *found, const char *expected);
bool harness_str_has(const char *found, const char *part);
int64_t harness_clock(void);
int64_t harness_patience(void);
void harness_nap(void);

#endif
