/* child.c - child processes: how they are started, talked to, signalled and waited for. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "io_fixture.h"

static weft_child_spec shell(const char **argv, const char *script) {
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    argv[0] = "sh", argv[1] = "-c", argv[2] = script, argv[3] = NULL;
    spec.argv = argv;
    return spec;
}

static weft_child *start(const weft_child_spec *spec) {
    weft_child *child = NULL;
    REQUIRE_EQ(weft_child_start(spec, &child, fixture_soon()), 0);
    return child;
}

static weft_child_end finish(weft_child *child) {
    weft_child_end end = {-1, -1};
    CHECK_EQ(weft_child_wait(child, &end, fixture_soon()), 0);
    weft_child_close(child);
    return end;
}

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* All that a script writes. */
static const char *said_by(const weft_child_spec *given, weft_child_end *end) {
    static _Thread_local char text[4096];
    weft_child_spec spec = *given;
    spec.out = WEFT_CHILD_PIPE;
    weft_child *child = start(&spec);
    weft_io *out = weft_child_take(child, 1);
    REQUIRE(out);
    CHECK(!weft_child_take(child, 1)); /* once */
    ssize_t n = weft_read_exact(out, text, sizeof text - 1, fixture_soon());
    REQUIRE_GE(n, 0);
    text[n] = 0;
    weft_close(out);
    *end = finish(child);
    return text;
}

/* -- Ends ---------------------------------------------------------------------------------------------------------- */

static int ends(void *unused) {
    (void)unused;
    unsigned before = descriptors();
    const char *argv[4];
    weft_child_spec spec = shell(argv, "exit 7");
    weft_child_end end = finish(start(&spec));
    CHECK_EQ(end.code, 7);
    CHECK_EQ(end.signal, 0);
    spec = shell(argv, "kill -TERM $$; sleep 60");
    end = finish(start(&spec));
    CHECK_EQ(end.signal, SIGTERM);
    CHECK_EQ(end.code, 0);

    spec = shell(argv, "read line; exit 3");
    spec.in = WEFT_CHILD_PIPE;
    weft_child *child = start(&spec);
    CHECK_EQ(weft_child_wait(child, &end, WEFT_NOW), -ETIMEDOUT);
    weft_deadline until = weft_after(2000000);
    CHECK_EQ(weft_child_wait(child, &end, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    CHECK_EQ(weft_child_kill(child, 0), 0);
    CHECK_EQ(weft_child_kill(child, 1000), -EINVAL);
    weft_io *in = weft_child_take(child, 0);
    CHECK_EQ(weft_write(in, "x\n", 2, WEFT_NEVER), 2);
    for (int i = 0; i < 3; i++) { /* as often as you like */
        end.code = -1;
        CHECK_EQ(weft_child_wait(child, &end, fixture_soon()), 0);
        CHECK_EQ(end.code, 3);
    }
    CHECK_EQ(weft_child_wait(child, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_child_kill(child, SIGKILL), -ESRCH);
    CHECK(kill(weft_child_pid(child), 0) < 0); /* reaped */
    weft_close(in);
    weft_child_close(child);
    weft_child_close(NULL);

    spec = shell(argv, "exec sleep 60");
    child = start(&spec);
    CHECK_EQ(weft_child_kill(child, SIGKILL), 0);
    CHECK_EQ(finish(child).signal, SIGKILL);
    CHECK_EQ(descriptors(), before);
    return 0;
}

static int watch_first(void *fn) { /* the worker's poller is there before descriptors are counted */
    weft_io *a, *b;
    char text[1];
    REQUIRE_EQ(weft_pipe(&a, &b), 0);
    CHECK_EQ(weft_read(a, text, 1, weft_after(1000)), -ETIMEDOUT);
    weft_close(a), weft_close(b);
    return ((weft_fiber_fn)fn)(NULL);
}

API_TEST(child_ends, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(io_go(rt, watch_first, ends)).status, 0);
    fixture_end(rt);
}
TEST(child_ends_thread, "") { CHECK_EQ(watch_first(ends), 0); }

/* -- What it is given ------------------------------------------------------------------------------------------------ */

static int given(void *unused) {
    (void)unused;
    const char *argv[8], *env[] = {"FIRST=one", "SECOND=two words", NULL};
    weft_child_end end;
    weft_child_spec spec = shell(argv, "echo \"$0|$1|$2\"");
    argv[3] = "a b", argv[4] = "", argv[5] = "c", argv[6] = NULL;
    CHECK_STR(said_by(&spec, &end), "a b||c\n");
    spec = shell(argv, "echo $FIRST,$SECOND,$HOME");
    spec.env = env;
    CHECK_STR(said_by(&spec, &end), "one,two words,\n");
    spec = shell(argv, "pwd; echo more >&2");
    spec.cwd = "/";
    spec.err = WEFT_CHILD_NULL;
    CHECK_STR(said_by(&spec, &end), "/\n");
    spec.err = WEFT_CHILD_OUT;
    CHECK_STR(said_by(&spec, &end), "/\nmore\n");
    spec = shell(argv, "cat; echo $?");
    spec.in = WEFT_CHILD_NULL;
    CHECK_STR(said_by(&spec, &end), "0\n");
    spec.path = "/bin/sh";
    CHECK_STR(said_by(&spec, &end), "0\n");

    /* Only three descriptors, whatever else is open; the others of ours are close-on-exec. */
    int leak = open("/dev/null", O_RDONLY), low[2];
    REQUIRE_GE(leak, 0);
    spec = shell(argv, "for f in /proc/$$/fd/*; do echo ${f##*/}; done");
    spec.in = spec.err = WEFT_CHILD_NULL;
    const char *text = said_by(&spec, &end);
    char number[16];
    snprintf(number, sizeof number, "\n%d\n", leak);
    CHECK(strncmp(text, "0\n1\n2\n", 6) == 0);
    CHECK(!strstr(text, number));
    spec.keep_open = true;
    CHECK_CONTAINS(said_by(&spec, &end), number);
    close(leak);

    /* Ours, crossed: its in is our out and the other way round. */
    REQUIRE_EQ(pipe2(low, O_CLOEXEC), 0);
    spec = shell(argv, "echo through");
    spec.out = WEFT_CHILD_FD;
    spec.out_fd = low[1];
    CHECK_EQ(finish(start(&spec)).code, 0);
    char back[16];
    CHECK_EQ(read(low[0], back, sizeof back), 8);
    spec.out_fd = 199;
    weft_child *child;
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EBADF);
    close(low[0]), close(low[1]);
    return 0;
}

API_TEST(child_is_given, "", .workers = {1, 2}) { io_run(given, NULL); }

/* Even when our own 0, 1 and 2 are closed, so that pipes get these numbers. */
static int without_three(void *unused) {
    (void)unused;
    const char *argv[4];
    int kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
        close(i);
    }
    weft_child_spec spec = shell(argv, "read x; echo got $x; echo wrong >&2; exit 4");
    spec.in = spec.out = spec.err = WEFT_CHILD_PIPE;
    weft_child *child = NULL;
    int error = weft_child_start(&spec, &child, fixture_soon());
    char out[32] = "", err[32] = "";
    weft_child_end end = {0, 0};
    if (!error) {
        weft_io *io[3];
        for (int i = 0; i < 3; i++)
            io[i] = weft_child_take(child, i);
        (void)!weft_write(io[0], "word\n", 5, fixture_soon());
        (void)!weft_read_exact(io[1], out, 31, fixture_soon());
        (void)!weft_read_exact(io[2], err, 31, fixture_soon());
        (void)weft_child_wait(child, &end, fixture_soon());
        for (int i = 0; i < 3; i++)
            weft_close(io[i]);
        weft_child_close(child);
    }
    for (int i = 0; i < 3; i++)
        dup2(kept[i], i), close(kept[i]);
    CHECK_EQ(error, 0);
    CHECK_STR(out, "got word\n");
    CHECK_STR(err, "wrong\n");
    CHECK_EQ(end.code, 4);
    return 0;
}

API_TEST(child_without_our_three, "", .workers = {1}) { io_run(without_three, NULL); }

/* Signals as the system has them, whatever we ignore, block or catch. */
static int signals_are_plain(void *unused) {
    (void)unused;
    const char *argv[4];
    static const int wanted[] = {SIGTERM};
    weft_signals *signals;
    sigset_t block, before;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    REQUIRE_EQ(weft_signal_open(wanted, 1, &signals), 0);
    weft_child_spec spec = shell(argv, "kill -PIPE $$; exit 1");
    CHECK_EQ(finish(start(&spec)).signal, SIGPIPE);
    spec = shell(argv, "kill -USR1 $$; exit 1");
    CHECK_EQ(finish(start(&spec)).signal, SIGUSR1);
    spec = shell(argv, "kill -TERM $$; exit 1");
    CHECK_EQ(finish(start(&spec)).signal, SIGTERM);
    CHECK_EQ(weft_signal_wait(signals, WEFT_NOW), -ETIMEDOUT);
    weft_signal_close(signals);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return 0;
}

API_TEST(child_has_plain_signals, "", .workers = {1}) { io_run(signals_are_plain, NULL); }

/* -- What goes wrong --------------------------------------------------------------------------------------------------- */

static weft_poll in_a_poll(weft_task *self, void *unused) {
    (void)unused;
    const char *argv[4];
    weft_child_spec spec = shell(argv, "exit 0");
    weft_child *child;
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

static int errors(void *unused) {
    (void)unused;
    unsigned before = descriptors();
    const char *argv[4] = {"weft-no-such-program", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    weft_child *untouched = (weft_child *)(void *)argv, *child = untouched;
    spec.in = spec.out = spec.err = WEFT_CHILD_PIPE;
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_child_start(NULL, &child, WEFT_NEVER), -EINVAL);
    spec.argv = argv;
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -ENOENT);
    argv[0] = "/etc/passwd";
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EACCES);
    spec = shell(argv, "exit 0");
    spec.cwd = "/no/such/folder";
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -ENOENT);
    spec = shell(argv, "exit 0");
    spec.in = 77;
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EINVAL);
    spec.in = WEFT_CHILD_OUT;
    CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EINVAL);
    struct {
        weft_child_spec spec;
        uint64_t more;
    } later = {shell(argv, "exit 0"), 1};
    later.spec.size = sizeof later;
    CHECK_EQ(weft_child_start(&later.spec, &child, WEFT_NEVER), -E2BIG);
    spec = shell(argv, "exit 0");
    spec.out = WEFT_CHILD_PIPE;
    if (weft_task_self())
        CHECK_EQ(weft_child_start(&spec, &child, WEFT_NOW), -ETIMEDOUT);
    struct rlimit was, none;
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    for (none.rlim_cur = 0; fcntl((int)none.rlim_cur, F_GETFD) >= 0; none.rlim_cur++)
        ;
    for (int i = 0; i < 3; i++, none.rlim_cur++) { /* room for one more each time */
        REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        CHECK_EQ(weft_child_start(&spec, &child, WEFT_NEVER), -EMFILE);
    }
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK_EQ(child, untouched);
    CHECK_EQ(descriptors(), before);
    return 0;
}

API_TEST(child_errors, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, in_a_poll, NULL));
    CHECK_EQ(fixture_finish(io_go(rt, errors, NULL)).status, 0);
    fixture_end(rt);
}
TEST(child_errors_thread, "") { CHECK_EQ(errors(NULL), 0); }

/* Somebody else takes the ends of all children. */
TEST(child_end_taken, "") {
    const char *argv[4];
    weft_child_spec spec = shell(argv, "exit 0");
    signal(SIGCHLD, SIG_IGN);
    weft_child *child = start(&spec);
    CHECK_EQ(weft_child_wait(child, NULL, fixture_soon()), -ECHILD);
    CHECK_EQ(weft_child_kill(child, SIGTERM), -ESRCH);
    weft_child_close(child);
}

/* -- Waiting ------------------------------------------------------------------------------------------------------------ */

static int wait_for(void *child) {
    weft_child_end end;
    int error = weft_child_wait(child, &end, fixture_soon());
    return error ? error : end.code == 5 ? 0 : -1;
}

static int waits(void *unused) {
    (void)unused;
    const char *argv[4];
    weft_child_spec spec = shell(argv, "read x; exit 5");
    spec.in = WEFT_CHILD_PIPE;
    weft_child *child = start(&spec);
    weft_task *task[5], *cancelled;
    for (int i = 0; i < 5; i++)
        task[i] = io_go(NULL, wait_for, child);
    cancelled = io_go(NULL, wait_for, child);
    io_until_it_waits(cancelled);
    weft_task_cancel(cancelled);
    CHECK_EQ(io_join(cancelled), -ECANCELED);
    weft_event never = WEFT_EVENT_INIT;
    weft_case cases[] = {weft_case_event(&never), weft_case_child(child)};
    CHECK_EQ(weft_select(cases, 2, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 2, weft_after(1000000)), -ETIMEDOUT);
    weft_close(weft_child_take(child, 0));
    CHECK_EQ(weft_select(cases, 2, fixture_soon()), 1);
    CHECK_EQ(cases[1].result, 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(io_join(task[i]), 0);
    weft_child_close(child);
    return 0;
}

API_TEST(child_several_wait, "", .workers = {1, 2}) { io_run(waits, NULL); }

/* Cancelled or closed on a leash: it is gone. */
static int wait_on_leash(void *child) { return weft_child_wait(child, NULL, WEFT_NEVER); }

static int leash(void *unused) {
    (void)unused;
    const char *argv[4];
    weft_child_spec spec = shell(argv, "exec sleep 60");
    spec.leash = true;
    weft_child *child = start(&spec);
    weft_task *task = io_go(NULL, wait_on_leash, child);
    io_until_it_waits(task);
    weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    weft_child_end end;
    CHECK_EQ(weft_child_wait(child, &end, fixture_soon()), 0);
    CHECK_EQ(end.signal, SIGKILL);
    weft_child_close(child);
    child = start(&spec);
    pid_t pid = weft_child_pid(child);
    weft_child_close(child);
    CHECK(kill(pid, 0) < 0);

    /* A group: its children too. */
    spec = shell(argv, "sleep 60 & echo $!; wait");
    spec.leash = spec.group = true;
    spec.out = WEFT_CHILD_PIPE;
    child = start(&spec);
    char text[16] = "";
    weft_io *out = weft_child_take(child, 1);
    REQUIRE_GT(weft_read(out, text, sizeof text - 1, fixture_soon()), 0);
    weft_child_close(child);
    CHECK_EQ(weft_read(out, text, sizeof text, fixture_soon()), 0); /* nobody has the pipe any more */
    weft_close(out);

    /* Without a leash it goes on; when it has ended it is cleared away. */
    spec = shell(argv, "read x; exit 0");
    spec.in = WEFT_CHILD_FD;
    int fd[2];
    REQUIRE_EQ(pipe2(fd, O_CLOEXEC), 0);
    spec.in_fd = fd[0];
    child = start(&spec);
    pid = weft_child_pid(child);
    close(fd[0]);
    weft_child_close(child);
    CHECK_EQ(kill(pid, 0), 0);
    close(fd[1]);
    spec = shell(argv, "exit 0");
    for (int i = 0; i < 1000 && kill(pid, 0) == 0; i++)
        finish(start(&spec));
    CHECK(kill(pid, 0) < 0);
    return 0;
}

API_TEST(child_leash, "", .workers = {1, 2}) { io_run(leash, NULL); }

/* -- Much ---------------------------------------------------------------------------------------------------------------- */

#define MUCH 300000

static int pour(void *arg) {
    weft_io *in = arg;
    char *bytes = malloc(MUCH);
    io_fill(bytes, MUCH, 9);
    ssize_t n = weft_write(in, bytes, MUCH, fixture_soon());
    free(bytes);
    weft_close(in);
    return n == MUCH ? 0 : -1;
}

static int through_cat(void *unused) {
    (void)unused;
    const char *argv[] = {"cat", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    spec.argv = argv;
    spec.in = spec.out = WEFT_CHILD_PIPE;
    weft_child *child = start(&spec);
    weft_task *writer = io_go(NULL, pour, weft_child_take(child, 0));
    weft_io *out = weft_child_take(child, 1);
    char *bytes = malloc(MUCH + 1);
    CHECK_EQ(weft_read_exact(out, bytes, MUCH + 1, fixture_soon()), MUCH);
    CHECK(io_is(bytes, MUCH, 9));
    free(bytes);
    weft_close(out);
    CHECK_EQ(io_join(writer), 0);
    CHECK_EQ(finish(child).code, 0);
    return 0;
}

/* On the smallest stacks, many at once: nothing of starting runs on them, or gets the pipes of another. */
static int at_once(void *unused) {
    (void)unused;
    enum { CHILDREN = 12 };
    weft_task *task[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = through_cat;
        spec.stack_size = 16384;
        REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task[i]), 0);
    }
    for (int i = 0; i < CHILDREN; i++)
        CHECK_EQ(io_join(task[i]), 0);
    return 0;
}

API_TEST(child_many_at_once, "", .workers = {1, 2}) { io_run(at_once, NULL); }
