/* io_writers.c - several write to one stream at a time: the bytes of each call stay together, and each gets its turn. */
#include <pthread.h>
#include <weft/stream.h>

#include "io_fixture.h"

enum { WRITERS = 4, PIECES = 6, SIZE = 300000, SMALL = 1000 };

/* A call writes SIZE times the same letter. */
struct writer {
    weft_io *io;
    int letter, way;
    int file; /* of the way SENDFILE */
    unsigned size;
    atomic_uint *done;
};

enum { WRITE, WRITEV, SENDFILE, SOME, WAYS };

static ssize_t write_once(const struct writer *w, char *bytes) {
    struct iovec parts[3] = {{bytes, 5}, {bytes, 0}, {bytes + 5, w->size - 5}};
    off_t from = 0;
    switch (w->way) {
    case WRITEV: return weft_writev(w->io, parts, 3, fixture_soon());
    case SENDFILE: return weft_sendfile(w->io, w->file, &from, w->size, fixture_soon());
    case SOME: return weft_write_some(w->io, bytes, w->size, fixture_soon());
    default: return weft_write(w->io, bytes, w->size, fixture_soon());
    }
}

static void write_letters(struct writer *w) {
    char *bytes = malloc(SIZE);
    REQUIRE(bytes);
    memset(bytes, w->letter, SIZE);
    for (int i = 0; i < PIECES; i++)
        REQUIRE_EQ(write_once(w, bytes), w->size);
    free(bytes);
    atomic_fetch_add(w->done, 1);
}

static int writer_fiber(void *arg) {
    write_letters(arg);
    return 0;
}

static void *writer_thread(void *arg) {
    write_letters(arg);
    return NULL;
}

/* Reads all, and checks that a letter comes `size` times in a row, or a multiple of it. */
static void read_runs(weft_io *in, size_t all, size_t size) {
    char *bytes = malloc(4096);
    int last = -1;
    size_t run = 0;
    REQUIRE(bytes);
    while (all) {
        ssize_t n = weft_read(in, bytes, all < 4096 ? all : 4096, fixture_soon());
        REQUIRE_GT(n, 0);
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != last)
                CHECK_EQ(run % size, 0);
            run = bytes[i] == last ? run + 1 : 1;
            last = bytes[i];
        }
        all -= (size_t)n;
    }
    CHECK_EQ(run % size, 0);
    free(bytes);
}

static int letters_file(int letter) {
    char path[] = "/tmp/weft-writers-XXXXXX", *bytes = malloc(SIZE);
    int file = mkstemp(path);
    REQUIRE(bytes && file >= 0);
    unlink(path);
    memset(bytes, letter, SIZE);
    REQUIRE_EQ(write(file, bytes, SIZE), SIZE);
    free(bytes);
    return file;
}

/* Fibers, one in each way, and a plain thread. */
static void many(weft_io *in, weft_io *out, unsigned size, bool thread) {
    atomic_uint done = 0;
    struct writer writers[WRITERS + 1];
    weft_task *tasks[WRITERS];
    pthread_t other;
    for (int i = 0; i <= WRITERS; i++)
        writers[i] = (struct writer){.io = out,
                                     .letter = 'a' + i,
                                     .way = i % SOME,
                                     .size = size,
                                     .done = &done,
                                     .file = i % SOME == SENDFILE ? letters_file('a' + i) : -1};
    for (int i = 0; i < WRITERS; i++)
        tasks[i] = io_go(NULL, writer_fiber, &writers[i]);
    writers[WRITERS].way = WRITE;
    if (thread)
        REQUIRE_EQ(pthread_create(&other, NULL, writer_thread, &writers[WRITERS]), 0);
    read_runs(in, (size_t)(WRITERS + thread) * PIECES * size, size);
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(io_join(tasks[i]), 0);
    if (thread)
        pthread_join(other, NULL);
    CHECK_EQ(atomic_load(&done), WRITERS + thread);
    for (int i = 0; i <= WRITERS; i++)
        if (writers[i].file >= 0)
            close(writers[i].file);
}

static int whole_calls(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        if (!io_pair(kind, &in, &out))
            continue;
        many(in, out, SIZE, !fixture_on("sim")); /* a thread is outside the simulator's time */
        many(in, out, SMALL, !fixture_on("sim"));
        CHECK_EQ(weft_close(out), 0);
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}
API_TEST(io_writers_whole, "", .workers = {1, 2}) { io_run(whole_calls, NULL); }

/* -- A stream above a descriptor ------------------------------------------------------------------------------------ */

/* Passes on what is written, a little at a time. */
static ssize_t copy_write(void *below, const weft_stream_call *call, const struct iovec *parts, int count) {
    size_t done = 0;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < parts[i].iov_len;) {
            size_t left = parts[i].iov_len - at;
            ssize_t n = weft_try_write(below, (const char *)parts[i].iov_base + at, left < 5000 ? left : 5000);
            if (n == -EAGAIN)
                n = weft_stream_wait(below, call, WEFT_FD_WRITE);
            if (n < 0)
                return n;
            at += (size_t)n;
            done += (size_t)n;
            if (done && !call->all)
                return (ssize_t)done;
        }
    return (ssize_t)done;
}
static int copy_close(void *below) { return weft_close(below); }
static void copy_discard(void *below) { (void)below; }
static const weft_stream copies = {
    .size = sizeof copies, .write = copy_write, .close = copy_close, .discard = copy_discard};

static int whole_calls_of_layer(void *unused) {
    (void)unused;
    weft_io *in, *below, *out;
    REQUIRE_EQ(weft_socketpair(&in, &below), 0);
    REQUIRE_EQ(weft_stream_open(&copies, below, weft_io_fd(below), &out), 0);
    many(in, out, SIZE, !fixture_on("sim"));
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(weft_close(in), 0);
    return 0;
}
API_TEST(io_writers_layer, "", .workers = {1, 2}) { io_run(whole_calls_of_layer, NULL); }

/* -- Turns ------------------------------------------------------------------------------------------------------------ */

struct turn {
    weft_io *io;
    char letter;
    weft_deadline until;
    size_t size;
    ssize_t expected;
};

static int write_turn(void *arg) {
    struct turn *turn = arg;
    char *bytes = malloc(turn->size);
    REQUIRE(bytes);
    memset(bytes, turn->letter, turn->size);
    CHECK_EQ(weft_write(turn->io, bytes, turn->size, turn->until), turn->expected);
    free(bytes);
    return 0;
}

static weft_task *begin_turn(struct turn *turn) {
    weft_task *task = io_go(NULL, write_turn, turn);
    io_until_it_waits(task);
    return task;
}

/* The pair, and above it perhaps a stream. */
static weft_io *open_out(bool layer, weft_io **in) {
    weft_io *below, *out;
    REQUIRE_EQ(weft_socketpair(in, &below), 0);
    if (!layer)
        return below;
    REQUIRE_EQ(weft_stream_open(&copies, below, weft_io_fd(below), &out), 0);
    return out;
}

/* In the order in which they came; those that are late, cancelled or do not wait leave no trace. */
static int in_turn(void *layer) {
    weft_io *in, *out = open_out(layer != NULL, &in);
    weft_deadline soon = fixture_soon();
    struct turn turns[] = {{out, 'a', soon, SIZE, SIZE},        {out, 'b', soon, SIZE, SIZE},
                           {out, 'x', soon, SMALL, -ECANCELED}, {out, 'y', weft_after(1000000), SMALL, -ETIMEDOUT},
                           {out, 'c', soon, SMALL, SMALL},      {out, 'd', soon, SIZE, SIZE}};
    enum { COUNT = sizeof turns / sizeof *turns };
    weft_task *tasks[COUNT];
    char *bytes = malloc(SIZE);
    REQUIRE(bytes);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = io_go(NULL, write_turn, &turns[i]);
        if (turns[i].expected != -ETIMEDOUT)
            io_until_it_waits(tasks[i]);
        if (turns[i].expected == -ECANCELED)
            (void)weft_task_cancel(tasks[i]);
        if (turns[i].expected < 0)
            CHECK_EQ(io_join(tasks[i]), 0);
    }
    CHECK_EQ(weft_write(out, "z", 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_write_some(out, "z", 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_try_write(out, "z", 1), layer ? -EOPNOTSUPP : -EAGAIN);
    for (int i = 0; i < COUNT; i++)
        if (turns[i].expected > 0) {
            REQUIRE_EQ(weft_read_exact(in, bytes, turns[i].size, soon), turns[i].size);
            for (size_t k = 0; k < turns[i].size; k++)
                REQUIRE_EQ(bytes[k], turns[i].letter);
            CHECK_EQ(io_join(tasks[i]), 0);
        }
    CHECK_EQ(weft_write(out, "z", 1, soon), 1);
    CHECK_EQ(weft_read(in, bytes, SIZE, soon), 1);
    free(bytes);
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(weft_close(in), 0);
    return 0;
}
API_TEST(io_writers_order, "", .workers = {1, 2}) { io_run(in_turn, NULL); }
API_TEST(io_writers_order_layer, "", .workers = {1, 2}) { io_run(in_turn, (void *)1); }

/* A close ends them all; so does the end of the one that writes. */
static int closed_while_waiting(void *layer) {
    for (int how = 0; how < 2; how++) {
        weft_io *in, *out = open_out(layer != NULL, &in);
        ssize_t first = how ? -ECANCELED : -EBADF, others = how ? SMALL : -EBADF;
        struct turn turns[] = {{out, 'a', fixture_soon(), SIZE * 4, first},
                               {out, 'b', fixture_soon(), SMALL, others},
                               {out, 'c', fixture_soon(), SMALL, others}};
        weft_task *tasks[3];
        char bytes[4096];
        for (int i = 0; i < 3; i++)
            tasks[i] = begin_turn(&turns[i]);
        if (!how)
            CHECK_EQ(weft_close(out), 0);
        else
            (void)weft_task_cancel(tasks[0]);
        CHECK_EQ(io_join(tasks[0]), 0);
        for (ssize_t n = 1; how && n > 0;) /* room for the others */
            n = weft_read(in, bytes, sizeof bytes, weft_after(20000000));
        for (int i = 1; i < 3; i++)
            CHECK_EQ(io_join(tasks[i]), 0);
        if (how)
            CHECK_EQ(weft_close(out), 0);
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}
API_TEST(io_writers_end, "", .workers = {1, 2}) { io_run(closed_while_waiting, NULL); }
API_TEST(io_writers_end_layer, "", .workers = {1, 2}) { io_run(closed_while_waiting, (void *)1); }

/* A fiber that never stops writing does not keep another from it. */
struct endless {
    weft_io *io;
    atomic_bool stop;
};

static int write_endlessly(void *arg) {
    struct endless *endless = arg;
    static char bytes[SIZE];
    while (!atomic_load(&endless->stop))
        REQUIRE_EQ(weft_write(endless->io, bytes, SIZE, fixture_soon()), SIZE);
    return 0;
}

static int read_all(void *in) {
    char bytes[4096];
    while (weft_read(in, bytes, sizeof bytes, fixture_soon()) > 0)
        ;
    return 0;
}

static int not_starved(void *unused) {
    (void)unused;
    struct endless endless = {0};
    weft_io *in;
    REQUIRE_EQ(weft_socketpair(&in, &endless.io), 0);
    weft_task *writer = io_go(NULL, write_endlessly, &endless), *reader = io_go(NULL, read_all, in);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_write(endless.io, "b", 1, fixture_soon()), 1);
    atomic_store(&endless.stop, true);
    CHECK_EQ(io_join(writer), 0);
    CHECK_EQ(weft_close(endless.io), 0);
    CHECK_EQ(io_join(reader), 0);
    return weft_close(in);
}
API_TEST(io_writers_starved, "", .workers = {1, 2}) { io_run(not_starved, NULL); }

/* -- Poll tasks --------------------------------------------------------------------------------------------------- */

struct poller {
    weft_io *io;
    weft_wait wait;
    atomic_uint polls;
    atomic_bool dropped;
};

static weft_poll poll_write(weft_task *self, void *state) {
    struct poller *poller = state;
    atomic_fetch_add(&poller->polls, 1);
    ssize_t n = weft_write_poll(poller->io, self, &poller->wait, "p", 1);
    if (n == -EAGAIN)
        return WEFT_PENDING;
    CHECK_EQ(n, 1);
    return WEFT_READY;
}

/* It waits for whoever writes, and is told when that has ended. Dropped meanwhile, it is not waited for. */
static int poll_task_waits(void *layer) {
    for (int dropped = 0; dropped < 2; dropped++) {
        weft_io *in, *out = open_out(layer != NULL, &in);
        struct turn turn = {out, 'a', fixture_soon(), SIZE, SIZE}, next = {out, 'b', fixture_soon(), SMALL, SMALL};
        struct poller poller = {.io = out};
        weft_task *task = begin_turn(&turn), *poll = fixture_go(NULL, poll_write, &poller);
        while (!atomic_load(&poller.polls) || strcmp(weft_task_state(poll), "idle"))
            (void)weft_yield();
        weft_task *behind = begin_turn(&next);
        if (dropped) {
            (void)weft_task_cancel(poll);
            (void)fixture_finish(poll);
            weft_wait_end(&poller.wait);
        }
        char *bytes = malloc(SIZE);
        size_t all = SIZE + SMALL + !dropped;
        unsigned polled = 0;
        REQUIRE(bytes);
        while (all) {
            ssize_t n = weft_read(in, bytes, all < SIZE ? all : SIZE, fixture_soon());
            REQUIRE_GT(n, 0);
            for (ssize_t i = 0; i < n; i++)
                polled += bytes[i] == 'p';
            all -= (size_t)n;
        }
        CHECK_EQ(polled, !dropped);
        free(bytes);
        CHECK_EQ(io_join(task), 0);
        CHECK_EQ(io_join(behind), 0);
        if (!dropped)
            (void)fixture_finish(poll);
        CHECK_EQ(weft_close(out), 0);
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}
API_TEST(io_writers_poll, "", .workers = {1, 2}) { io_run(poll_task_waits, NULL); }
API_TEST(io_writers_poll_layer, "", .workers = {1, 2}) { io_run(poll_task_waits, (void *)1); }
