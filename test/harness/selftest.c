/* selftest.c - tests that pass, fail, crash and hang on purpose; test/harness/check compares what the harness
 * says about them. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(passes, "") {
    CHECK(true);
    CHECK_EQ(2, 2);
    CHECK_STR("a", "a");
    CHECK_CONTAINS("abc", "b");
    printf("hidden unless verbose\n");
}

TEST(notes_twice, "") {
    CHECK_EQ(1 + 1, 3);
    CHECK_STR("found", "expected");
}

TEST(requires, "") {
    REQUIRE_LT(5, 4);
    CHECK(!"reached");
}

TEST(requires_claim, "") { REQUIRE(1 > 2); }
TEST(crashes, "") { raise(SIGKILL); }
TEST(exits, "") { _exit(3); }
TEST(skips, "") { SKIP("not today"); }

static void say_why(void *arg) { dprintf(STDERR_FILENO, "the hook says %s\n", (const char *)arg); }

TEST(hangs, "", .timeout = 1) {
    harness_on_hang(say_why, "hello");
    for (;;)
        pause();
}

TEST(random, "") {
    uint64_t state = harness_seed();
    CHECK_EQ(harness_random(&state), 0);
}

API_TEST(on_all, "", .workers = {1, 3}) {
    char workers[16];
    snprintf(workers, sizeof workers, "%u", harness_workers());
    CHECK_STR(getenv("WEFT_SCHED"), harness_sched());
    CHECK_STR(getenv("WEFT_WORKERS"), workers);
}

API_TEST(on_two, "", .sched = "ring fifo") {
    CHECK(!getenv("WEFT_WORKERS"));
    CHECK_STR(harness_sched(), "ring");
}

static void count(unsigned index, void *arg) { ((int *)arg)[index]++; }

TEST(threads, "") {
    int counts[8] = {0};
    harness_threads(8, count, counts);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(counts[i], 1);
    CHECK_GT(harness_rss(), 4096);
    CHECK_GE(harness_thread_count(), 1);
}

static void set_flag(unsigned index, void *arg) {
    volatile sig_atomic_t *flag = arg;
    if (index == 0)
        REQUIRE_EVENTUALLY(true);
    *flag = 1;
}

TEST(eventually, "") {
    volatile sig_atomic_t flag = 0;
    harness_threads(1, set_flag, (void *)&flag);
    REQUIRE_EVENTUALLY(flag);
}

static void aborts(void *arg) {
    dprintf(STDERR_FILENO, "broken: %s\n", (const char *)arg);
    abort();
}
static void returns(void *arg) { (void)arg; }

TEST(abort_seen, "") { REQUIRE_ABORTS(aborts, "glass", "broken: glass"); }
TEST(abort_missing, "") { REQUIRE_ABORTS(returns, NULL, "glass"); }
TEST(abort_other, "") { REQUIRE_ABORTS(aborts, "wood", "broken: glass"); }

/* Also when the harness itself was started with SIGHUP ignored, as by nohup. */
TEST(hangup_is_default, "") {
    struct sigaction found;
    REQUIRE_EQ(sigaction(SIGHUP, NULL, &found), 0);
    CHECK(found.sa_handler == SIG_DFL);
}

/* Fails once if the environment names a file that does not exist yet. */
TEST(fails_once, "") {
    const char *mark = getenv("SELFTEST_MARK");
    int file = mark ? open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600) : -1;
    CHECK(file < 0);
}
