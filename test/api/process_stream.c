/* process_stream.c - byte streams of a process: opened, read, written and closed by commands, and closed when it ends. */
#include <fcntl.h>

#include "process_sequence.h"

static char path[64];
static weft_io *ends[2];

static void name_file(void) { snprintf(path, sizeof path, "/tmp/weft-stream-%d", (int)getpid()); }

static void open_path(weft_step *out, uint64_t tag, int flags) {
    weft_command_stream_open open = {NULL, flags, 0600, WEFT_NEVER};
    ask_with(out, WEFT_COMMAND_STREAM_OPEN, tag, &open, sizeof open, path, strlen(path));
}
static void adopt(weft_step *out, uint64_t tag, weft_io *io) {
    weft_command_stream_open open = {io, 0, 0, WEFT_NEVER};
    ask_with(out, WEFT_COMMAND_STREAM_OPEN, tag, &open, sizeof open, NULL, 0);
}
static void read_stream(weft_step *out, uint64_t tag, uint64_t stream, size_t most, weft_deadline until) {
    weft_command_stream_io io = {stream, most, until};
    ask_with(out, WEFT_COMMAND_STREAM_READ, tag, &io, sizeof io, NULL, 0);
}
static void write_stream(weft_step *out, uint64_t tag, uint64_t stream, const char *text) {
    weft_command_stream_io io = {stream, 0, WEFT_NEVER};
    ask_with(out, WEFT_COMMAND_STREAM_WRITE, tag, &io, sizeof io, text, strlen(text));
}
static void close_stream(weft_step *out, uint64_t tag, uint64_t stream) {
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_STREAM_CLOSE, tag, &stream, sizeof stream), 0);
}

/* -- A file. */

static void create(weft_step *out, uint64_t tag) { open_path(out, tag, O_RDWR | O_CREAT | O_TRUNC); }
static void write_one(weft_step *out, uint64_t tag) { write_stream(out, tag, sequence_number(0), "hello, "); }
static void write_two(weft_step *out, uint64_t tag) { write_stream(out, tag, sequence_number(0), "stream"); }
static void close_first(weft_step *out, uint64_t tag) { close_stream(out, tag, sequence_number(0)); }
static void open_again(weft_step *out, uint64_t tag) { open_path(out, tag, O_RDONLY); }
static void read_five(weft_step *out, uint64_t tag) { read_stream(out, tag, sequence_number(4), 5, WEFT_NEVER); }
static void read_rest(weft_step *out, uint64_t tag) { read_stream(out, tag, sequence_number(4), 100, WEFT_NEVER); }
static void close_second(weft_step *out, uint64_t tag) { close_stream(out, tag, sequence_number(4)); }

API_TEST(process_stream_file, "W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {create,    write_one, write_two, close_first,  open_again,
                                      read_five, read_rest, read_rest, close_second, close_second};
    name_file();
    int before = count_descriptors();
    sequence_run(stages, 10);
    for (unsigned i = 0; i < 9; i++)
        CHECK_EQ(sequence.error[i], 0);
    CHECK_EQ(sequence.error[9], -EBADF); /* closed already */
    CHECK_NE(sequence_number(0), sequence_number(4));
    CHECK_EQ(sequence.size[5], 5);
    CHECK_EQ(memcmp(sequence.data[5], "hello", 5), 0);
    CHECK_EQ(sequence.size[6], 8);
    CHECK_EQ(memcmp(sequence.data[6], ", stream", 8), 0);
    CHECK_EQ(sequence.size[7], 0); /* the end */
    CHECK_EQ(count_descriptors(), before);
    unlink(path);
}

/* Of a file one command at a time: the others are refused, or come after it; what is closed meanwhile is closed by the last. */
static int crowd(void *raw, const weft_message *events, size_t count, weft_step *out) {
    int *left = raw;
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(events[i].error == 0 || (events[i].error == -EBUSY && events[i].tag == 1));
        if (events[i].tag == 0)
            memcpy(&number, events[i].data, sizeof number);
        else
            --*left;
    }
    out->status = WEFT_STEP_YIELD;
    if (!count)
        open_path(out, 0, O_RDWR | O_CREAT | O_TRUNC);
    if (number) {
        *left = 9;
        for (int i = 0; i < 4; i++) {
            write_stream(out, 1, number, "text");
            read_stream(out, 1, number, 4, WEFT_NEVER);
        }
        close_stream(out, 2, number);
    } else if (count && !*left) {
        out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class crowd_class = {.size = sizeof crowd_class, .state_size = sizeof(int), .step = crowd};
API_TEST(process_stream_file_busy, "W28 W39", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    name_file();
    int before = count_descriptors();
    spec.class_ = &crowd_class;
    for (int i = 0; i < 10; i++) {
        weft_task *task;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
    CHECK_LE(count_descriptors(), before); /* the runtime had some */
    unlink(path);
}

/* It ends with a file open, and while another is being opened: neither stays open. */
static void create_and_more(weft_step *out, uint64_t tag) {
    open_path(out, tag, O_RDWR | O_CREAT | O_TRUNC);
    for (int i = 0; i < 8; i++)
        open_path(out, 100, O_RDWR | O_CREAT);
}
API_TEST(process_stream_file_left_open, "W6 W38", .workers = {1, 2}) {
    static const stage_fn stages[] = {create_and_more};
    name_file();
    for (int i = 0; i < 20; i++) {
        int before = count_descriptors();
        weft_runtime *rt = fixture_begin(NULL);
        weft_task *task;
        weft_pid pid = sequence_begin(rt, stages, 1, &task);
        if (i % 2)
            weft_process_exit(rt, pid, -EIO);
        int status = fixture_finish(task).status;
        CHECK(status == 0 || status == -ECANCELED);
        fixture_end(rt);
        CHECK_EQ(count_descriptors(), before);
    }
    unlink(path);
}

static void open_missing(weft_step *out, uint64_t tag) { open_path(out, tag, O_RDONLY); }
API_TEST(process_stream_no_file, "W39") {
    static const stage_fn stages[] = {open_missing};
    name_file();
    sequence_run(stages, 1);
    CHECK_EQ(sequence.error[0], -ENOENT);
    CHECK_EQ(sequence.size[0], 0);
}

/* -- Two ends of a socket. */

static void adopt_one(weft_step *out, uint64_t tag) { adopt(out, tag, ends[0]); }
static void adopt_other(weft_step *out, uint64_t tag) { adopt(out, tag, ends[1]); }
static void talk(weft_step *out, uint64_t tag) {
    read_stream(out, tag, sequence_number(0), 100, WEFT_NEVER);
    read_stream(out, 100, sequence_number(0), 100, WEFT_NEVER); /* busy */
    write_stream(out, 101, sequence_number(1), "over here");
}
static void read_in_vain(weft_step *out, uint64_t tag) {
    read_stream(out, tag, sequence_number(0), 1, weft_after(1000000));
}
static void read_and_cancel(weft_step *out, uint64_t tag) {
    read_stream(out, tag, sequence_number(0), 1, WEFT_NEVER);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 102, &tag, sizeof tag), 0);
}
static void read_and_close(weft_step *out, uint64_t tag) {
    read_stream(out, tag, sequence_number(0), 1, WEFT_NEVER);
    close_stream(out, 103, sequence_number(0));
}
static void read_end(weft_step *out, uint64_t tag) { read_stream(out, tag, sequence_number(1), 1, WEFT_NEVER); }

API_TEST(process_stream_socket, "W28 W39", .workers = {1, 2}) {
    static const stage_fn stages[] = {adopt_one,       adopt_other,    talk,    read_in_vain,
                                      read_and_cancel, read_and_close, read_end};
    int before = count_descriptors();
    REQUIRE_EQ(weft_socketpair(&ends[0], &ends[1]), 0);
    sequence_run(stages, 7);
    CHECK_EQ(sequence.error[0], 0);
    CHECK_EQ(sequence.error[1], 0);
    CHECK_EQ(sequence.error[2], 0);
    CHECK_EQ(sequence.size[2], 9);
    CHECK_EQ(memcmp(sequence.data[2], "over here", 9), 0);
    CHECK_EQ(sequence.later[0], -EBUSY);
    CHECK_EQ(sequence.later[1], 0);
    CHECK_EQ(sequence.error[3], -ETIMEDOUT);
    CHECK_EQ(sequence.error[4], -ECANCELED);
    CHECK_EQ(sequence.later[2], 0);
    CHECK_EQ(sequence.error[5], -EBADF); /* closed while it waited */
    CHECK_EQ(sequence.later[3], 0);
    CHECK_EQ(sequence.error[6], 0); /* the other end has seen the close */
    CHECK_EQ(sequence.size[6], 0);
    CHECK_EQ(count_descriptors(), before); /* the second end was the process's */
}

/* It ends while a read waits: the stream is closed, and the peer sees it. */
static void adopt_and_wait(weft_step *out, uint64_t tag) {
    if (tag == 0)
        adopt(out, tag, ends[0]);
    else
        read_stream(out, tag, sequence_number(0), 1, WEFT_NEVER);
}
API_TEST(process_stream_end_closes, "W6 W38", .workers = {1, 2}) {
    static const stage_fn stages[] = {adopt_and_wait, adopt_and_wait};
    char byte;
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_socketpair(&ends[0], &ends[1]), 0);
    weft_pid pid = sequence_begin(rt, stages, 2, &task);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 2); /* the process, and its read */
    CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(weft_read(ends[1], &byte, 1, fixture_soon()), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    fixture_end(rt);
}

/* Many streams, so that they are found by an index; closed in another order. */
#define MANY 100
static weft_io *others[MANY];
static uint64_t numbers[MANY];
static int many(void *raw, const weft_message *events, size_t count, weft_step *out) {
    int *left = raw;
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(events[i].error, 0);
        if (events[i].tag < MANY)
            memcpy(&numbers[events[i].tag], events[i].data, sizeof(uint64_t));
        --*left;
    }
    out->status = WEFT_STEP_YIELD;
    if (!count)
        for (uint64_t i = 0; i < MANY; i++, ++*left) {
            weft_io *mine;
            REQUIRE_EQ(weft_socketpair(&mine, &others[i]), 0);
            adopt(out, i, mine);
        }
    else if (!*left && numbers[0])
        for (uint64_t i = 0; i < MANY; i += 2, ++*left) {
            close_stream(out, MANY, numbers[i * 7 % MANY]);
            numbers[0] = 0;
        }
    if (!*left)
        out->status = WEFT_STEP_DONE; /* with the other half open */
    return 0;
}
static const weft_process_class many_class = {.size = sizeof many_class, .state_size = sizeof(int), .step = many};
API_TEST(process_stream_many, "W6 W28") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    int before = count_descriptors();
    spec.class_ = &many_class;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_LE(count_descriptors(), before + MANY + 1); /* theirs; and a poller's at most */
    for (int i = 0; i < MANY; i++) {
        char byte;
        CHECK_EQ(weft_read(others[i], &byte, 1, fixture_soon()), 0);
        CHECK_EQ(weft_close(others[i]), 0);
    }
    fixture_end(rt);
}

/* -- What is wrong. */

static void ask_wrong(weft_step *out, uint64_t tag) {
    weft_command_stream_open open = {NULL, 0, 0, WEFT_NEVER}, both = {ends[0], 0, 0, WEFT_NEVER};
    weft_command_stream_io none = {sequence_number(0), 0, WEFT_NEVER}, unknown = {999, 1, WEFT_NEVER};
    weft_command_stream_io much = {sequence_number(0), (size_t)UINT32_MAX + 1, WEFT_NEVER};
    ask_with(out, WEFT_COMMAND_STREAM_OPEN, 100, &open, sizeof open - 1, NULL, 0);
    ask_with(out, WEFT_COMMAND_STREAM_OPEN, 101, &open, sizeof open, NULL, 0); /* neither a path nor a stream */
    ask_with(out, WEFT_COMMAND_STREAM_OPEN, 102, &open, sizeof open, "a\0b", 3);
    ask_with(out, WEFT_COMMAND_STREAM_OPEN, 103, &both, sizeof both, "a", 1);
    ask_with(out, WEFT_COMMAND_STREAM_READ, 104, &none, sizeof none, NULL, 0);
    ask_with(out, WEFT_COMMAND_STREAM_READ, 105, &much, sizeof much, NULL, 0);
    ask_with(out, WEFT_COMMAND_STREAM_READ, 106, &unknown, sizeof unknown, "a", 1);
    ask_with(out, WEFT_COMMAND_STREAM_WRITE, 107, &unknown, sizeof unknown - 1, NULL, 0);
    ask_with(out, WEFT_COMMAND_STREAM_CLOSE, 108, "1234567", 7, NULL, 0);
    ask_with(out, WEFT_COMMAND_STREAM_READ, 109, &unknown, sizeof unknown, NULL, 0);
    ask_with(out, WEFT_COMMAND_STREAM_WRITE, 110, &unknown, sizeof unknown, "a", 1);
    ask_with(out, WEFT_COMMAND_STREAM_CLOSE, 111, &unknown.stream, 8, NULL, 0);
    close_stream(out, tag, sequence_number(0));
}
API_TEST(process_stream_wrong, "W39") {
    static const stage_fn stages[] = {adopt_one, ask_wrong};
    REQUIRE_EQ(weft_socketpair(&ends[0], &ends[1]), 0);
    sequence_run(stages, 2);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(sequence.later[i], i < 9 ? -EINVAL : -EBADF);
    CHECK_EQ(sequence.error[1], 0);
    CHECK_EQ(weft_close(ends[1]), 0);
}
