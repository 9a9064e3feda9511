/* nursery_default.c - compiled code on plain threads: the default runtime starts once, is stopped
 * by exit, and stays the parent's after a fork. */
#include <sys/wait.h>
#include <weft/abi.h>

#include "nursery.h"

/* The runtime on which the children of this thread's nurseries run. */
static int note_runtime(void *arg) {
    *(weft_runtime **)arg = weft_runtime_current();
    return 0;
}

static weft_runtime *runtime_of_block(weft_runtime *rt) {
    weft_runtime *found = NULL;
    weft_nursery *n = weft_abi_nursery_create_with(rt, NULL, NULL);
    REQUIRE(n && weft_abi_nursery_spawn(n, note_runtime, &found));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    weft_abi_nursery_destroy(n);
    return found;
}

/* -- The document's block on the main thread */

API_TEST(default_block, "J27 J32 J36", .workers = {1, 2, 4}) {
    weft_task *task[50];
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    for (int i = 0; i < 50; i++)
        REQUIRE(task[i] = weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(did.entered, 50);
    weft_abi_nursery_destroy(n);
    CHECK(!weft_runtime_current()); /* the thread is still a plain one */
}

/* A thread that sleeps is woken by the last child, whenever that ends. */
static int end_after_yields(void *arg) {
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        weft_yield();
    return 0;
}

API_TEST(default_lost_wake, "J27 J29 J30", .workers = {1, 2}) {
    for (int round = 0; round < (fixture_is_slow() ? 200 : 2000); round++) {
        weft_nursery *n = weft_abi_nursery_create();
        REQUIRE(n);
        for (int i = 0; i < 1 + round % 3; i++)
            REQUIRE(weft_abi_nursery_spawn(n, end_after_yields, STATUS(round % 5)));
        REQUIRE_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
        weft_abi_nursery_destroy(n);
    }
}

API_TEST(default_codes, "J27 J33 J34 J37", .workers = {1, 2}) {
    static const int own[] = {-5, -1000, WEFT_ABI_PANIC, WEFT_ABI_BUDGET};
    weft_nursery *n;
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        REQUIRE((n = weft_abi_nursery_create()) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
        REQUIRE(weft_abi_nursery_spawn(n, fail_with, STATUS(own[i])));
        CHECK_EQ(weft_abi_nursery_await(n), own[i]);
        weft_abi_nursery_destroy(n);
    }
    REQUIRE((n = weft_abi_nursery_create()) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
    weft_abi_nursery_cancel(n);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_CANCELLED);
    weft_abi_nursery_destroy(n);
    REQUIRE((n = weft_abi_nursery_create()) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
    weft_abi_nursery_destroy(n); /* not awaited: cancelled */
    CHECK_EQ(did.entered, did.returned);
}

/* -- Which runtime */

static weft_runtime *found[8];
static void one_block(unsigned index, void *arg) {
    (void)arg;
    found[index] = runtime_of_block(NULL);
}

API_TEST(default_starts_once, "J36", .workers = {1, 2}) {
    harness_threads(8, one_block, NULL);
    for (int i = 0; i < 8; i++) {
        CHECK(found[i]);
        CHECK_EQ(found[i], found[0]);
    }
    CHECK_EQ(runtime_of_block(NULL), found[0]);
}

static int in_own_runtime(void *arg) {
    weft_runtime *rt = weft_runtime_current();
    CHECK_EQ(runtime_of_block(NULL), rt);
    CHECK_EQ(runtime_of_block(arg), arg); /* a fiber of one runtime owns a nursery of another */
    return 0;
}

API_TEST(default_is_not_a_hosts, "J36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_runtime *shared = runtime_of_block(NULL);
    weft_task *task;
    CHECK_NE(shared, rt);
    CHECK_EQ(runtime_of_block(rt), rt);
    REQUIRE_EQ(weft_fiber_go(rt, in_own_runtime, shared, &task), 0); /* in a fiber: its own */
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* More children than a runtime takes from outside by default. */
static atomic_bool open_gate;
static int wait_on_worker(void *arg) {
    (void)arg;
    while (!atomic_load(&open_gate))
        harness_nap();
    return 0;
}

API_TEST(default_takes_many, "J36", .workers = {2}) {
    enum { MANY = 70000 };
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    for (int i = 0; i < 2; i++)
        REQUIRE(weft_abi_nursery_spawn(n, wait_on_worker, NULL));
    for (int i = 0; i < MANY; i++)
        REQUIRE_EQ(weft_nursery_go(n, add_one, NULL, NULL), 0);
    atomic_store(&open_gate, true);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(did.entered, MANY);
    weft_abi_nursery_destroy(n);
}

/* -- Exit and fork */

static int pipe_fd[2];
static void say(char letter) { REQUIRE_EQ(write(pipe_fd[1], &letter, 1), 1); }

/* What a child process says until it has exited; it must do so with 0. */
static const char *said_by(void (*fn)(void)) {
    static char text[64];
    int status;
    REQUIRE_EQ(pipe(pipe_fd), 0);
    pid_t pid = fork();
    REQUIRE_GE(pid, 0);
    if (pid == 0) {
        fn();
        exit(0);
    }
    close(pipe_fd[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(pipe_fd[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(pipe_fd[0]);
    REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    return text;
}

static void last_handler(void) { /* registered first: the default runtime has been stopped */
    say(weft_abi_nursery_create() ? 'x' : 'n');
    say(did.entered == did.returned ? 'c' : 'x');
}

static void first_handler(void) { say(runtime_of_block(NULL) ? 'b' : 'x'); }

static void exit_in_a_block(void) {
    static weft_nursery *n; /* never destroyed: that is no leak as long as it can be found */
    REQUIRE_EQ(atexit(last_handler), 0);
    REQUIRE(n = weft_abi_nursery_create());
    REQUIRE_EQ(atexit(first_handler), 0);
    REQUIRE(weft_abi_nursery_spawn(n, add_one, NULL) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
    atomic_fetch_add(&did.returned, 1); /* for add_one */
    REQUIRE_EVENTUALLY(did.entered == 2);
    say('e');
}

API_TEST(default_stops_at_exit, "J8 J36", .workers = {1, 2}) { CHECK_STR(said_by(exit_in_a_block), "ebnc"); }

static int exit_here(void *arg) {
    (void)arg;
    say('f');
    exit(0);
}

static void exit_in_a_fiber(void) {
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n && weft_abi_nursery_spawn(n, exit_here, NULL));
    weft_abi_nursery_await(n);
    for (;;) /* exit(3) in one thread at a time */
        pause();
}

API_TEST(default_exit_in_a_fiber, "J36", .workers = {1, 2}) { CHECK_STR(said_by(exit_in_a_fiber), "f"); }

/* In a blocking job, which a fiber of the runtime waits for: it does not wait for itself. */
static int exit_job(void *arg) {
    (void)arg;
    say('j');
    exit(0);
}
static int exit_in_job(void *arg) {
    (void)arg;
    return weft_blocking(exit_job, NULL, NULL, WEFT_NEVER);
}
static void exit_in_a_job(void) {
    REQUIRE_GE(dup2(pipe_fd[1], STDERR_FILENO), 0); /* nor does it report that tasks do not end */
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n && weft_abi_nursery_spawn(n, exit_in_job, NULL));
    for (;;)
        pause();
}

API_TEST(default_exit_in_a_job, "J36", .workers = {1, 2}) { CHECK_STR(said_by(exit_in_a_job), "j"); }

static weft_nursery *parents;
static void in_forked_child(void) {
    say(weft_abi_nursery_create() ? 'x' : 'n');
    say(weft_abi_nursery_spawn(parents, add_one, NULL) ? 'x' : 'n');
    say(weft_abi_nursery_await(parents) == -ENOTRECOVERABLE ? 'r' : 'x');
    weft_abi_nursery_destroy(parents); /* nothing that could be freed */
}

static void in_early_child(void) { say(runtime_of_block(NULL) ? 'o' : 'x'); }

API_TEST(default_fork, "J36", .workers = {1, 2}) {
    CHECK_STR(said_by(in_early_child), "o"); /* before there is one: a child may have its own */
    parents = weft_abi_nursery_create();
    REQUIRE(parents && weft_abi_nursery_spawn(parents, wait_for_ever, NULL));
    REQUIRE_EVENTUALLY(did.entered == 1);
    CHECK_STR(said_by(in_forked_child), "nnr");
    weft_abi_nursery_cancel(parents);
    CHECK_EQ(weft_abi_nursery_await(parents), WEFT_ABI_CANCELLED); /* not harmed by what the child did */
    weft_abi_nursery_destroy(parents);
}

/* A fork while other threads start the runtime: the child has none, and does not hang. */
static void fork_or_start(unsigned index, void *arg) {
    (void)arg;
    if (index) {
        runtime_of_block(NULL);
        return;
    }
    pid_t pid = fork();
    REQUIRE_GE(pid, 0);
    if (pid == 0) {
        alarm(20);
        weft_nursery *n = weft_abi_nursery_create(); /* NULL; or its own, if it was forked before the start */
        weft_abi_nursery_spawn(n, add_one, NULL);
        weft_abi_nursery_await(n);
        weft_abi_nursery_destroy(n);
        _exit(0);
    }
    int status;
    REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
}

API_TEST(default_fork_while_it_starts, "J36", .workers = {2}) { harness_threads(4, fork_or_start, NULL); }

/* -- Misuse */

static void await_by_another(unsigned index, void *arg) {
    (void)index;
    weft_abi_nursery_await(arg);
}

static void two_await(void *arg) {
    (void)arg;
    weft_nursery *n = weft_abi_nursery_create();
    weft_abi_nursery_spawn(n, wait_for_ever, NULL);
    harness_threads(2, await_by_another, n);
}

static int await_it(void *n) { return weft_abi_nursery_await(n); }

static void child_awaits(void *arg) {
    (void)arg;
    weft_nursery *n = weft_abi_nursery_create();
    weft_abi_nursery_spawn(n, await_it, n);
    weft_abi_nursery_await(n);
}

static void fiber_awaits_a_threads(void *arg) { weft_fiber_run(NULL, await_it, weft_abi_nursery_create(), arg); }

API_TEST(default_misuse, "J36", .workers = {1, 2}) {
    REQUIRE_ABORTS(two_await, NULL, "weft_abi_nursery_await: another thread awaits the nursery");
    REQUIRE_ABORTS(child_awaits, NULL, "weft_abi_nursery_await: the caller is one of the nursery's children");
    REQUIRE_ABORTS(fiber_awaits_a_threads, NULL, "weft_abi_nursery_await: the caller does not own the nursery");
}
