/* signal.c - signals that fibers wait for: who is told, how often, and that everything is as before in the end. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "io_fixture.h"

static const int two[] = {SIGUSR1, SIGUSR2};

static weft_signals *open_two(void) {
    weft_signals *signals = NULL;
    REQUIRE_EQ(weft_signal_open(two, 2, &signals), 0);
    return signals;
}

/* -- What it does ------------------------------------------------------------------------------------------------ */

static int basics(void *unused) {
    (void)unused;
    weft_signals *signals = open_two();
    CHECK_EQ(weft_signal_wait(signals, WEFT_NOW), -ETIMEDOUT);
    weft_deadline until = weft_after(2000000);
    CHECK_EQ(weft_signal_wait(signals, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        CHECK_EQ(weft_signal_wait(signals, fixture_soon()), SIGUSR1);
        CHECK_EQ(weft_signal_wait(signals, WEFT_NOW), -ETIMEDOUT);
    }
    raise(SIGUSR2), raise(SIGUSR1), raise(SIGUSR2); /* each one that came is told */
    int seen1 = 0, seen2 = 0;
    for (int i = 0; i < 3; i++) {
        int number = weft_signal_wait(signals, WEFT_NOW);
        seen1 += number == SIGUSR1;
        seen2 += number == SIGUSR2;
    }
    CHECK_EQ(seen1, 1);
    CHECK_EQ(seen2, 2);
    weft_signal_close(signals);
    weft_signal_close(NULL);

    static const int bad[] = {0, -1, 65, 1000, SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, 32};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        signals = (weft_signals *)(void *)&until;
        CHECK_EQ(weft_signal_open(&bad[i], 1, &signals), -EINVAL);
        CHECK_EQ(signals, (weft_signals *)(void *)&until);
    }
    CHECK_EQ(weft_signal_open(two, 0, &signals), -EINVAL);
    CHECK_EQ(weft_signal_open(NULL, 1, &signals), -EINVAL);
    return 0;
}

API_TEST(signal_basics, "", .workers = {1, 2}) { io_run(basics, NULL); }
TEST(signal_basics_thread, "") { CHECK_EQ(basics(NULL), 0); }

/* -- As before ---------------------------------------------------------------------------------------------------- */

static atomic_int old_calls;
static void old_handler(int number) {
    (void)number;
    atomic_fetch_add(&old_calls, 1);
}

TEST(signal_disposition_comes_back, "") {
    struct sigaction mine = {.sa_handler = old_handler, .sa_flags = SA_NODEFER}, found;
    sigaddset(&mine.sa_mask, SIGHUP);
    sigaction(SIGUSR1, &mine, NULL);
    signal(SIGUSR2, SIG_IGN);
    weft_signals *a = open_two(), *b = open_two();
    raise(SIGUSR1), raise(SIGUSR2);
    CHECK_EQ(old_calls, 0);
    weft_signal_close(a);
    raise(SIGUSR1);
    CHECK_EQ(old_calls, 0); /* still caught for b */
    weft_signal_close(b);
    raise(SIGUSR1);
    CHECK_EQ(old_calls, 1);
    sigaction(SIGUSR1, NULL, &found);
    CHECK_EQ(found.sa_flags & SA_NODEFER, SA_NODEFER);
    CHECK(sigismember(&found.sa_mask, SIGHUP));
    sigaction(SIGUSR2, NULL, &found);
    CHECK(found.sa_handler == SIG_IGN);
    /* One that was changed meanwhile is left alone. */
    a = open_two();
    signal(SIGUSR1, SIG_IGN);
    weft_signal_close(a);
    sigaction(SIGUSR1, NULL, &found);
    CHECK(found.sa_handler == SIG_IGN);
}

/* -- Who is told --------------------------------------------------------------------------------------------------- */

static int wait_one(void *signals) {
    int number = weft_signal_wait(signals, fixture_soon());
    return number < 0 ? number : 0;
}

static int several(void *unused) {
    (void)unused;
    weft_signals *a = open_two(), *b = open_two();
    weft_task *task[6];
    for (int i = 0; i < 6; i++)
        task[i] = io_go(NULL, wait_one, i < 4 ? a : b);
    for (int i = 0; i < 6; i++)
        io_until_it_waits(task[i]);
    raise(SIGUSR1), raise(SIGUSR1); /* two of each */
    unsigned done;
    do {
        (void)weft_yield();
        done = 0;
        for (int i = 0; i < 6; i++)
            done += weft_task_is_done(task[i]);
    } while (done < 4);
    io_rest();
    CHECK_EQ(weft_task_is_done(task[0]) + weft_task_is_done(task[1]) + weft_task_is_done(task[2]) +
                 weft_task_is_done(task[3]),
             2);
    CHECK(weft_task_is_done(task[4]) && weft_task_is_done(task[5]));
    raise(SIGUSR2), raise(SIGUSR1); /* for the other two */
    for (int i = 0; i < 6; i++)
        CHECK_EQ(io_join(task[i]), 0);
    weft_signal_close(a);
    CHECK(weft_signal_wait(b, WEFT_NOW) > 0);
    CHECK(weft_signal_wait(b, WEFT_NOW) > 0);
    CHECK_EQ(weft_signal_wait(b, WEFT_NOW), -ETIMEDOUT);
    weft_signal_close(b);
    return 0;
}

API_TEST(signal_several_wait, "", .workers = {1, 2}) { io_run(several, NULL); }

/* Signals from everywhere, at any moment; each is told once to each of two. */
#define STORM 400

static struct {
    weft_signals *of[2];
    atomic_int sent, got[2];
    weft_event over;
} storm;

static int count_them(void *arg) {
    int which = arg != NULL;
    for (;;) {
        weft_case cases[] = {weft_case_signal(storm.of[which]), weft_case_event(&storm.over)};
        int index = weft_select(cases, 2, fixture_soon());
        REQUIRE_GE(index, 0);
        if (index == 1)
            return 0;
        CHECK(cases[0].result == SIGUSR1 || cases[0].result == SIGUSR2);
        atomic_fetch_add(&storm.got[which], 1);
    }
}

static void send_some(unsigned index, void *unused) {
    (void)unused;
    for (int i = 0; i < STORM; i++) {
        raise(index % 2 ? SIGUSR1 : SIGUSR2); /* to this thread: none is merged */
        atomic_fetch_add(&storm.sent, 1);
        if (i % 16 == 0)
            harness_nap();
    }
}

API_TEST(signal_storm_lost_wake, "", .workers = {1, 2}) {
    memset(&storm, 0, sizeof storm);
    weft_event_init(&storm.over);
    storm.of[0] = open_two(), storm.of[1] = open_two();
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[3] = {io_go(rt, count_them, NULL), io_go(rt, count_them, &storm), io_go(rt, count_them, &storm)};
    harness_threads(2, send_some, NULL);
    REQUIRE_EVENTUALLY(atomic_load(&storm.got[0]) == 2 * STORM && atomic_load(&storm.got[1]) == 2 * STORM);
    weft_event_set(&storm.over);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(io_join(task[i]), 0);
    CHECK_EQ(atomic_load(&storm.got[0]), 2 * STORM);
    CHECK_EQ(atomic_load(&storm.got[1]), 2 * STORM);
    weft_signal_close(storm.of[0]), weft_signal_close(storm.of[1]);
    fixture_end(rt);
}

/* -- Ends of a wait -------------------------------------------------------------------------------------------------- */

static weft_poll in_a_poll(weft_task *self, void *signals) {
    CHECK_EQ(weft_signal_wait(signals, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

static int select_signal(void *signals) {
    weft_case c = weft_case_signal(signals);
    int index = weft_select(&c, 1, fixture_soon());
    return index < 0 ? index : c.result < 0 ? c.result : 0;
}

static int ends(void *unused) {
    (void)unused;
    weft_signals *signals = open_two();
    weft_task *task[4] = {io_go(NULL, wait_one, signals), io_go(NULL, select_signal, signals),
                          io_go(NULL, wait_one, signals), io_go(NULL, select_signal, signals)};
    for (int i = 0; i < 4; i++)
        io_until_it_waits(task[i]);
    weft_task_cancel(task[0]), weft_task_cancel(task[1]);
    CHECK_EQ(io_join(task[0]), -ECANCELED);
    CHECK_EQ(io_join(task[1]), -ECANCELED);
    weft_signal_close(signals);
    CHECK_EQ(io_join(task[2]), -EBADF);
    CHECK_EQ(io_join(task[3]), -EBADF);
    weft_case none = weft_case_signal(NULL);
    CHECK_EQ(weft_select(&none, 1, WEFT_NEVER), 0);
    CHECK_EQ(none.result, -EINVAL);
    return 0;
}

API_TEST(signal_wait_ends, "", .workers = {1, 2}) {
    io_run(ends, NULL);
    weft_runtime *rt = fixture_begin_patient();
    weft_signals *signals = open_two();
    fixture_finish(fixture_go(rt, in_a_poll, signals));
    weft_signal_close(signals);
    fixture_end(rt);
}

TEST(signal_many_open, "") {
    weft_signals *signals[65];
    for (int round = 0; round < 2; round++) { /* the second uses the same eventfds */
        for (int i = 0; i < 64; i++)
            REQUIRE_EQ(weft_signal_open(two, 2, &signals[i]), 0);
        CHECK_EQ(weft_signal_open(two, 2, &signals[64]), -EBUSY);
        raise(SIGUSR1);
        for (int i = 0; i < 64; i++)
            CHECK_EQ(weft_signal_wait(signals[i], WEFT_NOW), SIGUSR1);
        for (int i = 0; i < 64; i++)
            weft_signal_close(signals[i]);
    }
}

/* The signals that servers live by: SIGTERM to stop, SIGHUP to read the configuration again, SIGCHLD. */
static int server(void *unused) {
    (void)unused;
    static const int wanted[] = {SIGTERM, SIGHUP, SIGCHLD};
    weft_signals *signals;
    REQUIRE_EQ(weft_signal_open(wanted, 3, &signals), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK_EQ(weft_signal_wait(signals, fixture_soon()), SIGCHLD);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    kill(getpid(), SIGHUP);
    CHECK_EQ(weft_signal_wait(signals, fixture_soon()), SIGHUP);
    kill(getpid(), SIGTERM);
    CHECK_EQ(weft_signal_wait(signals, fixture_soon()), SIGTERM);
    weft_signal_close(signals);
    return 0;
}

API_TEST(signal_of_servers, "", .workers = {1, 2}) { io_run(server, NULL); }

/* A forked child that gets a signal tells nobody here. */
TEST(signal_of_a_forked_child, "") {
    weft_signals *signals = open_two();
    pid_t child = fork();
    if (child == 0) {
        raise(SIGUSR1);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(weft_signal_wait(signals, WEFT_NOW), -ETIMEDOUT);
    weft_signal_close(signals);
}
