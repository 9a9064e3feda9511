/* io.c - descriptors when memory, pollers or threads fail at any point: each call succeeds or says why, and nothing leaks. */
#define _GNU_SOURCE
#include "../api/io_fixture.h"
#include "sweep.h"

static bool is_refusal(ssize_t error) {
    return error == -ENOMEM || error == -EMFILE || error == -EAGAIN || error == -ETIMEDOUT;
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* -- Fibers ---------------------------------------------------------------------------------------------------- */

static int read_some(void *arg) {
    char text[8];
    ssize_t n = weft_read(arg, text, sizeof text, weft_after(20000000));
    REQUIRE(n == 4 || is_refusal(n));
    return 0;
}

static int write_some(void *arg) {
    ssize_t n = weft_write(arg, "word", 4, weft_after(20000000));
    REQUIRE(n == 4 || is_refusal(n));
    return 0;
}

static int wait_foreign(void *arg) {
    int found = weft_fd_wait(weft_io_fd(arg), WEFT_FD_READ, weft_after(20000000));
    REQUIRE(found == WEFT_FD_READ || is_refusal(found));
    return 0;
}

static int accept_one(void *arg) {
    weft_io *untouched = arg, *io = untouched;
    int error = weft_accept(arg, &io, NULL, weft_after(20000000));
    REQUIRE(error == 0 || is_refusal(error));
    if (error)
        CHECK_EQ(io, untouched);
    else
        weft_close(io);
    return 0;
}

static void fibers_wait(void) {
    weft_io *in, *out, *listener, *client;
    weft_addr addr;
    weft_task *task[4];
    uint64_t spawned = 0;
    unsigned before = open_descriptors();
    if (weft_socketpair(&in, &out))
        return;
    if (weft_tcp_listen("127.0.0.1", 0, NULL, &listener)) {
        weft_close(in), weft_close(out);
        CHECK_EQ(open_descriptors(), before);
        return;
    }
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_runtime *rt = sweep_begin(NULL);
    if (rt) {
        struct {
            weft_fiber_fn fn;
            void *arg;
        } fiber[4] = {{read_some, in}, {wait_foreign, in}, {accept_one, listener}, {write_some, out}};
        for (int i = 0; i < 4; i++)
            if (weft_fiber_go(rt, fiber[i].fn, fiber[i].arg, &task[spawned]) == 0)
                spawned++;
        if (weft_connect(&addr, &client, weft_after(20000000)) == 0) /* on this thread */
            weft_close(client);
        for (uint64_t i = 0; i < spawned; i++) {
            weft_result result;
            REQUIRE_EQ(weft_join(task[i], &result, fixture_soon()), 0);
            REQUIRE(result.status == 0 || result.status == -ENOMEM);
            weft_task_drop(task[i]);
        }
        sweep_end(rt, spawned);
    }
    weft_close(in), weft_close(out), weft_close(listener);
    CHECK_LE(open_descriptors(), before + 2); /* what is kept: the reserve, a thread's poke */
}

API_TEST(io_fibers_fail_anywhere, "", .workers = {1, 2}, .timeout = 120) { sweep(fibers_wait); }

/* -- Selects ---------------------------------------------------------------------------------------------------- */

static int select_some(void *arg) {
    weft_io *io = arg;
    weft_event never = WEFT_EVENT_INIT;
    char text[8];
    weft_case cases[] = {weft_case_io(io, WEFT_FD_READ), weft_case_fd(weft_io_fd(io), WEFT_FD_READ),
                         weft_case_event(&never)};
    int index = weft_select(cases, 3, weft_after(20000000));
    REQUIRE(index == 0 || index == 1 || is_refusal(index));
    if (index >= 0) {
        CHECK_EQ(cases[index].result, WEFT_FD_READ);
        CHECK_EQ(weft_read(io, text, 8, WEFT_NOW), 4);
    }
    CHECK_EQ(weft_event_destroy(&never), 0);
    return 0;
}

static void selects_wait(void) {
    weft_io *in, *out;
    unsigned before = open_descriptors();
    if (weft_socketpair(&in, &out))
        return;
    weft_runtime *rt = sweep_begin(NULL);
    if (rt) {
        uint64_t spawned = weft_fiber_go(rt, select_some, in, NULL) == 0;
        spawned += weft_fiber_go(rt, write_some, out, NULL) == 0;
        sweep_end(rt, spawned);
    }
    weft_close(in), weft_close(out);
    CHECK_LE(open_descriptors(), before + 1);
}

API_TEST(io_selects_fail_anywhere, "", .workers = {1, 2}, .timeout = 120) { sweep(selects_wait); }

/* No descriptor is left for the duplicate of a foreign one. */
TEST(io_select_without_descriptors, "") {
    weft_io *in, *out;
    REQUIRE_EQ(weft_pipe(&in, &out), 0);
    struct rlimit was, none;
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = (rlim_t)weft_io_fd(out) + 1; /* numbers are given from below */
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    weft_case c = weft_case_fd(weft_io_fd(in), WEFT_FD_READ);
    CHECK_EQ(weft_select(&c, 1, fixture_soon()), -EMFILE);
    c = weft_case_io(in, WEFT_FD_READ); /* needs none, but no poke either */
    CHECK_EQ(weft_select(&c, 1, weft_after(30000000)), -ETIMEDOUT);
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    weft_close(in), weft_close(out);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------- */

struct reading {
    weft_io *io;
    weft_wait wait;
    char text[8];
};

static weft_poll read_poll(weft_task *self, void *state) {
    struct reading *reading = state;
    ssize_t n = weft_read_poll(reading->io, self, &reading->wait, reading->text, sizeof reading->text);
    if (n == -EAGAIN)
        return WEFT_PENDING;
    REQUIRE(n == 4 || is_refusal(n));
    return weft_done(self, 0, NULL);
}

static void end_reading(void *state) { weft_wait_end(&((struct reading *)state)->wait); }

static void poll_tasks_wait(void) {
    struct reading reading = {.io = NULL};
    weft_io *out;
    if (weft_pipe(&reading.io, &out))
        return;
    weft_runtime *rt = sweep_begin(NULL);
    if (rt) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = read_poll;
        spec.state = &reading;
        spec.state_size = sizeof reading;
        spec.drop = end_reading;
        bool spawned = weft_spawn(rt, &spec, NULL) == 0;
        CHECK_EQ(weft_write(out, "word", 4, fixture_soon()), 4); /* never waits */
        sweep_end(rt, spawned);
    }
    weft_close(reading.io), weft_close(out);
}

API_TEST(io_poll_tasks_fail_anywhere, "", .workers = {1, 2}) { sweep(poll_tasks_wait); }

/* -- Driven ----------------------------------------------------------------------------------------------------- */

static void driven(void) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt;
    config.driven = true;
    config.workers = 1;
    if (weft_runtime_create(&config, &rt))
        return;
    int fd = weft_drive_fd(rt);
    REQUIRE(fd >= 0 || is_refusal(fd));
    CHECK_EQ(weft_drive(rt, 0), 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(io_drive_fd_fails_anywhere, "") { sweep(driven); }

/* -- Threads ---------------------------------------------------------------------------------------------------- */

/* A thread that can get no poke still waits, and still hears of a close. */
static weft_io *thread_io;

static void wait_or_close(unsigned index, void *unused) {
    (void)unused;
    char text[8];
    if (index) {
        CHECK_EQ(weft_read(thread_io, text, 8, WEFT_NEVER), -EBADF);
    } else {
        for (int i = 0; i < 200; i++) /* long enough to be asleep, or not */
            harness_nap();
        weft_close(thread_io);
    }
}

TEST(io_thread_without_poke, "") {
    weft_io *out;
    REQUIRE_EQ(weft_pipe(&thread_io, &out), 0);
    wefti_fault_set(0, true);
    harness_threads(2, wait_or_close, NULL);
    wefti_fault_set(-1, false);
    weft_close(out);
}
