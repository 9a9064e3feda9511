/* system.c - signals and children when memory, descriptors or threads fail at any point. */
#define _GNU_SOURCE
#include <signal.h>

#include "../api/io_fixture.h"
#include "sweep.h"

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* -- Signals ----------------------------------------------------------------------------------------------------- */

static void signals(void) {
    static const int two[] = {SIGHUP, SIGUSR2};
    weft_signals *untouched = (weft_signals *)(void *)&two, *of = untouched;
    struct sigaction before, now;
    sigaction(SIGHUP, NULL, &before); /* ignored, if a nohup started us */
    int error = weft_signal_open(two, 2, &of);
    REQUIRE(error == 0 || error == -ENOMEM || error == -EMFILE);
    if (error) {
        CHECK_EQ(of, untouched);
        sigaction(SIGHUP, NULL, &now);
        CHECK(now.sa_handler == before.sa_handler); /* nothing has changed */
        return;
    }
    raise(SIGUSR2);
    CHECK_EQ(weft_signal_wait(of, fixture_soon()), SIGUSR2);
    weft_signal_close(of);
}

TEST(signals_fail_anywhere, "") {
    unsigned before = descriptors();
    sweep(signals);
    CHECK_LE(descriptors(), before + 1); /* an eventfd that is kept */
}

/* -- Children ----------------------------------------------------------------------------------------------------- */

static int use_child(void *unused) {
    (void)unused;
    const char *argv[] = {"sh", "-c", "read x; exit 7", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    spec.argv = argv;
    spec.in = WEFT_CHILD_PIPE;
    weft_child *untouched = (weft_child *)(void *)argv, *child = untouched;
    int error = weft_child_start(&spec, &child, fixture_soon());
    REQUIRE(error == 0 || error == -ENOMEM || error == -EMFILE || error == -EAGAIN);
    if (error) {
        CHECK_EQ(child, untouched);
        return 0;
    }
    /* Also without a descriptor that tells of its end. */
    weft_case c = weft_case_child(child);
    int index = weft_select(&c, 1, WEFT_NOW);
    REQUIRE(index == -ETIMEDOUT || (index == 0 && c.result == -ENOSYS));
    weft_child_end end = {0, 0};
    CHECK_EQ(weft_child_kill(child, 0), 0);
    weft_close(weft_child_take(child, 0));
    error = weft_child_wait(child, &end, fixture_soon());
    REQUIRE(error == 0 || error == -ENOMEM || error == -EMFILE || error == -EAGAIN);
    if (error) /* there is no poller, or no thread: its end is there all the same */
        REQUIRE_EVENTUALLY(weft_child_wait(child, &end, WEFT_NOW) == 0);
    CHECK_EQ(end.code, 7);
    weft_child_close(child);
    return 0;
}

static void children(void) {
    unsigned before = descriptors();
    weft_runtime *rt = sweep_begin(NULL);
    if (rt) {
        uint64_t spawned = weft_fiber_go(rt, use_child, NULL, NULL) == 0;
        sweep_end_turns(rt, spawned, 10);
    }
    CHECK_EQ(descriptors(), before);
}

API_TEST(children_fail_anywhere, "", .workers = {1}, .timeout = 120) { sweep(children); }

static int without_pidfd(void) {
    const char *argv[] = {"sleep", "60", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    spec.argv = argv;
    weft_child *child;
    weft_child_end end;
    REQUIRE_EQ(weft_child_start(&spec, &child, fixture_soon()), 0);
    weft_case c = weft_case_child(child);
    bool none = weft_select(&c, 1, WEFT_NOW) == 0 && c.result == -ENOSYS;
    CHECK_EQ(weft_child_wait(child, &end, weft_after(3000000)), -ETIMEDOUT);
    CHECK_EQ(weft_child_kill(child, SIGTERM), 0);
    CHECK_EQ(weft_child_wait(child, &end, fixture_soon()), 0);
    CHECK_EQ(end.signal, SIGTERM);
    CHECK_EQ(weft_child_kill(child, SIGTERM), -ESRCH);
    weft_child_close(child);
    return none;
}

/* The third point on a thread: memory, the start, and then the descriptor. */
TEST(child_without_pidfd, "") {
    wefti_fault_set(2, true);
    int none = without_pidfd();
    wefti_fault_set(-1, false);
    CHECK(none);
}
