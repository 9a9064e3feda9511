/* thread_cancel.c - pthread_cancel of a plain thread: it ends a sleep, and acts after every other call, which it leaves whole. */
#include "chan.h"

static void *sleep_long(void *arg) {
    (void)arg;
    weft_sleep(INT64_C(3600000000000));
    return NULL;
}

static void *sleep_always(void *arg) {
    (void)arg;
    weft_sleep_until(WEFT_NEVER);
    return NULL;
}

static void *sleep_in_interval(void *arg) {
    (void)arg;
    weft_interval interval;
    weft_interval_init(&interval, INT64_C(3600000000000));
    int passed = weft_interval_wait(&interval);
    (void)passed;
    return NULL;
}

static void check_cancelled(pthread_t thread) {
    void *result = NULL;
    REQUIRE_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
}

TEST(thread_cancel_in_sleep, "") {
    void *(*const sleeps[])(void *) = {sleep_long, sleep_always, sleep_in_interval};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        REQUIRE_EQ(pthread_create(&thread, NULL, sleeps[i], NULL), 0);
        if (i == 0)
            harness_nap(); /* it sleeps, or is about to: both end */
        REQUIRE_EQ(pthread_cancel(thread), 0);
        check_cancelled(thread);
    }
}

/* -- Calls of a thread that has been cancelled, and has yet to act on it ------------------------------------------------- */

static struct {
    weft_chan *ch;
    weft_io *in, *out;
    weft_runtime *rt;
    weft_task *task;
    weft_mutex mutex;
    atomic_int done;
} stage;

static void be_cancelled(void) { pthread_cancel(pthread_self()); }

static void *wait_for_value(void *arg) {
    int value;
    (void)arg;
    be_cancelled();
    REQUIRE_EQ(weft_chan_recv(stage.ch, &value, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_chan_send(stage.ch, &value, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_chan_recv(stage.ch, &value, WEFT_NOW), 0);
    REQUIRE_EQ(weft_mutex_lock(&stage.mutex, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_mutex_unlock(&stage.mutex), 0);
    atomic_fetch_add(&stage.done, 1);
    pthread_testcancel();
    return NULL;
}

static void *wait_for_bytes(void *arg) {
    char bytes[4];
    int value;
    be_cancelled();
    if (arg) {
        weft_case cases[] = {weft_case_io(stage.in, WEFT_FD_READ), weft_case_recv(stage.ch, &value)};
        REQUIRE_EQ(weft_select(cases, 2, WEFT_NEVER), 0);
    }
    REQUIRE_EQ(weft_read(stage.in, bytes, 4, WEFT_NEVER), 4);
    REQUIRE_EQ(weft_read(stage.in, bytes, 4, weft_after(1)), -ETIMEDOUT);
    REQUIRE_EQ(weft_write(stage.out, "more", 4, WEFT_NEVER), 4);
    REQUIRE_EQ(weft_read(stage.in, bytes, 4, WEFT_NOW), 4);
    atomic_fetch_add(&stage.done, 1);
    pthread_testcancel();
    return NULL;
}

static void *wait_for_task(void *arg) {
    (void)arg;
    be_cancelled();
    weft_result result;
    REQUIRE_EQ(weft_join(stage.task, &result, WEFT_NEVER), 0);
    int fd = dup(STDERR_FILENO);
    weft_io *io;
    REQUIRE_EQ(weft_io_open(fd, 0, &io), 0);
    REQUIRE_EQ(weft_close(io), 0);
    atomic_fetch_add(&stage.done, 1);
    pthread_testcancel();
    return NULL;
}

TEST(thread_cancel_in_channel, "") {
    pthread_t thread;
    stage.ch = chan_of_ints(1);
    REQUIRE_EQ(pthread_create(&thread, NULL, wait_for_value, NULL), 0);
    harness_nap();
    CHECK_EQ(send_int(stage.ch, 1), 0);
    check_cancelled(thread);
    CHECK_EQ(atomic_load(&stage.done), 1);
    CHECK_EQ(weft_chan_destroy(stage.ch), 0); /* it waits no more */
    CHECK_EQ(weft_mutex_destroy(&stage.mutex), 0);
}

TEST(thread_cancel_in_read, "") {
    pthread_t thread;
    stage.ch = chan_of_ints(1);
    REQUIRE_EQ(weft_pipe(&stage.in, &stage.out), 0);
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(pthread_create(&thread, NULL, wait_for_bytes, i ? &stage : NULL), 0);
        harness_nap();
        CHECK_EQ(weft_write(stage.out, "four", 4, WEFT_NEVER), 4);
        check_cancelled(thread);
        CHECK_EQ(atomic_load(&stage.done), i + 1);
    }
    CHECK_EQ(weft_close(stage.in), 0); /* it is no user of the descriptor any more */
    CHECK_EQ(weft_close(stage.out), 0);
    CHECK_EQ(weft_chan_destroy(stage.ch), 0);
}

static struct gate gate = GATE_INIT;

API_TEST(thread_cancel_in_join, "", .workers = {1}) {
    pthread_t thread;
    stage.rt = fixture_begin_patient();
    stage.task = fixture_go(stage.rt, fixture_wait_gate, &gate);
    REQUIRE_EQ(pthread_create(&thread, NULL, wait_for_task, NULL), 0);
    harness_nap();
    gate_open(&gate);
    check_cancelled(thread);
    CHECK_EQ(atomic_load(&stage.done), 1);
    weft_task_drop(stage.task);
    fixture_end(stage.rt);
}
