/* process_sizes.c - what is sent is what comes, of every size: small and large messages, and references. */
#include "process_keeper.h"

/* -- Every size, and nothing beyond it is read. */

enum { SIZES = 48 };

/* The tag is the size; the bytes follow from it. */
static unsigned char byte_of(uint64_t size, size_t at) { return (unsigned char)(size * 7 + at * 3 + 1); }

static int check_sizes(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)out;
    unsigned *next = state;
    for (size_t i = 0; i < count; i++, ++*next) {
        CHECK_EQ(events[i].tag, *next % SIZES);
        REQUIRE_EQ(events[i].size, *next % SIZES);
        for (size_t at = 0; at < events[i].size; at++)
            REQUIRE_EQ(((const unsigned char *)events[i].data)[at], byte_of(events[i].tag, at));
    }
    out->status = *next == 3 * SIZES ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class sizes_class = {
    .size = sizeof sizes_class, .state_size = sizeof(unsigned), .step = check_sizes};

static int send_sizes(void *arg) {
    for (unsigned i = 0; i < 3 * SIZES; i++) {
        size_t size = i % SIZES;
        unsigned char *data = malloc(size ? size : 1); /* no larger: a checker sees who reads beyond it */
        REQUIRE(data);
        for (size_t at = 0; at < size; at++)
            data[at] = byte_of(size, at);
        CHECK_EQ(weft_send(NULL, *(weft_pid *)arg, size, data, size), 0);
        free(data);
        if (i < SIZES)
            weft_yield(); /* one at a time, and then many at once */
    }
    return 0;
}

API_TEST(process_every_size, "W29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task, *sender;
    spec.class_ = &sizes_class;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    REQUIRE_EQ(weft_fiber_go(rt, send_sizes, &pid, &sender), 0);
    CHECK_EQ(fixture_finish(sender).status, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- Large messages, and references. */

static atomic_uint released;
static void release(void *data) {
    REQUIRE_EQ(*(unsigned char *)data, 0xab);
    *(unsigned char *)data = 0;
    atomic_fetch_add(&released, 1);
    free(data);
}
static unsigned char *block(size_t size) {
    unsigned char *data = malloc(size);
    REQUIRE(data);
    memset(data, 0xab, size);
    return data;
}

static int sizes(void *arg) {
    (void)arg;
    static const size_t all[] = {0, 1, 8, 23, 24, 25, 64, 1000, 100000};
    weft_pid server = go_process(NULL, echo_server, NULL);
    unsigned char *data = block(100000);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        weft_message m;
        for (size_t j = 0; j < all[i]; j++)
            data[j] = (unsigned char)(j * 7 + i);
        REQUIRE_EQ(weft_send(NULL, server, i, data, all[i]), 0);
        memset(data, 0, 100000);
        m = expect(WEFT_MESSAGE);
        CHECK_EQ(m.from, server);
        CHECK_EQ(m.tag, i);
        CHECK_EQ(m.size, all[i]);
        for (size_t j = 0; j < all[i]; j++)
            REQUIRE_EQ(((const unsigned char *)m.data)[j], (unsigned char)(j * 7 + i));
    }
    free(data);
    end_server(NULL, server, 0);
    /* Released after the next receive. */
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 1, block(10), 10, release), 0);
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 2, block(10), 10, release), 0);
    weft_message m = expect(WEFT_MESSAGE);
    CHECK_EQ(((const unsigned char *)m.data)[9], 0xab);
    CHECK_EQ(atomic_load(&released), 0);
    m = expect(WEFT_MESSAGE);
    CHECK_EQ(atomic_load(&released), 1);
    CHECK_EQ(m.tag, 2);
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 3, "static", 7, NULL), 0);
    CHECK_STR((const char *)expect(WEFT_MESSAGE).data, "static");
    expect_none(); /* and it has been given back */
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 3, block(10), 10, release), 0); /* never read */
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 3, "static", 7, NULL), 0);
    return 0;
}

API_TEST(process_sizes_and_references, "W7", .workers = {1, 2}) {
    in_process(sizes, NULL);
    CHECK_EQ(atomic_load(&released), 3);
}

API_TEST(process_references_released_once, "W29", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    static const weft_mailbox_policy policies[] = {WEFT_MAILBOX_REFUSE, WEFT_MAILBOX_DROP_NEWEST,
                                                   WEFT_MAILBOX_DROP_OLDEST};
    unsigned expected = 0;
    for (int i = 0; i < 3; i++) {
        struct keeper keeper = {0};
        weft_task *task;
        weft_pid pid = go_keeper(rt, &keeper, 2, 0, policies[i], &task);
        for (int j = 0; j < 4; j++) {
            unsigned char *data = block(8);
            int error = weft_send_ref(rt, pid, 1, data, 8, release);
            if (error) {
                CHECK_EQ(error, -ENOBUFS);
                release(data); /* still ours */
            }
            expected++;
        }
        CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
        atomic_store(&keeper.release, true);
        fixture_finish(task);
        CHECK_EQ(atomic_load(&released), expected);
        unsigned char *data = block(8);
        CHECK_EQ(weft_send_ref(rt, pid, 1, data, 8, release), -ESRCH);
        free(data);
    }
    fixture_end(rt);
}

/* What nobody reads is released at the end of a class, in its name still, and not in that of who has its place next. */
static weft_pid witness, spoke;
static void speak(void *data) {
    spoke = weft_self();
    CHECK_EQ(weft_send(NULL, witness, 1, NULL, 0), 0);
    CHECK_EQ(weft_send(NULL, *(weft_pid *)data, 1, NULL, 0), -ESRCH); /* it has ended */
    CHECK_EQ(weft_link(witness), -ESRCH); /* and so has nobody to be linked to */
    CHECK_EQ(weft_unlink(witness), 0);
}
static int end_unread(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)events;
    (void)count;
    *(weft_pid *)state = weft_self();
    CHECK_EQ(weft_send_ref(NULL, weft_self(), 1, state, sizeof(weft_pid), speak), 0);
    out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class unread_class = {
    .size = sizeof(weft_process_class), .name = "unread", .state_size = sizeof(weft_pid), .step = end_unread};

static int hear_unread(void *arg) {
    (void)arg;
    witness = weft_self();
    for (int i = 0; i < 3; i++) {
        weft_pid pid;
        REQUIRE_EQ(spawn_class(NULL, &unread_class, NULL, 0, &pid, NULL), 0);
        weft_message m = expect(WEFT_MESSAGE);
        CHECK_EQ(m.from, pid);
        CHECK_EQ(spoke, pid);
    }
    return 0;
}

API_TEST(process_unread_is_released_by_its_owner, "W29", .workers = {1, 2}) { in_process(hear_unread, NULL); }
