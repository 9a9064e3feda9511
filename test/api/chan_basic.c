/* chan_basic.c - channels without races: order, capacity, closing, handles, arguments. */
#include "chan.h"

/* -- Order ----------------------------------------------------------------------------------------------- */

struct flow {
    weft_chan *ch;
    size_t size;
    unsigned count;
};

static void fill(unsigned char *bytes, size_t size, unsigned number) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(number + i * 7);
}

static int send_flow(void *arg) {
    struct flow *flow = arg;
    unsigned char value[2000];
    for (unsigned i = 0; i < flow->count; i++) {
        fill(value, flow->size, i);
        REQUIRE_EQ(weft_chan_send(flow->ch, flow->size ? value : NULL, WEFT_NEVER), 0);
    }
    weft_chan_close(flow->ch);
    return 0;
}

static int recv_flow(void *arg) {
    struct flow *flow = arg;
    unsigned char value[2000], expected[2000];
    for (unsigned i = 0; i < flow->count; i++) {
        REQUIRE_EQ(weft_chan_recv(flow->ch, flow->size ? value : NULL, WEFT_NEVER), 0);
        fill(expected, flow->size, i);
        REQUIRE_EQ(memcmp(value, expected, flow->size), 0);
    }
    REQUIRE_EQ(weft_chan_recv(flow->ch, value, WEFT_NEVER), -EPIPE);
    return 0;
}

static const size_t capacities[] = {0, 1, 2, 7, 64, WEFT_UNBOUNDED};

API_TEST(chan_values_in_order, "R26 R27 R29", .workers = {1, 2, 4}) {
    static const size_t sizes[] = {0, 1, 4, 8, 12, 64, 1999};
    weft_runtime *rt = fixture_begin_patient();
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct flow flow = {.size = sizes[s], .count = 300};
            REQUIRE_EQ(weft_chan_create(sizes[s], capacities[c], &flow.ch), 0);
            CHECK_EQ(weft_chan_capacity(flow.ch), capacities[c]);
            weft_task *receiver = fiber_go(rt, recv_flow, &flow), *sender = fiber_go(rt, send_flow, &flow);
            fixture_finish(receiver);
            fixture_finish(sender);
            CHECK_EQ(weft_chan_destroy(flow.ch), 0);
        }
    fixture_end(rt);
}

static void flow_thread(unsigned index, void *arg) {
    if (index)
        recv_flow(arg);
    else
        send_flow(arg);
}

/* No runtime at all. */
TEST(chan_between_threads, "R26 R27 R29") {
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
        struct flow flow = {.size = 8, .count = 2000};
        REQUIRE_EQ(weft_chan_create(8, capacities[c], &flow.ch), 0);
        harness_threads(2, flow_thread, &flow);
        CHECK_EQ(weft_chan_destroy(flow.ch), 0);
    }
}

/* -- Capacity -------------------------------------------------------------------------------------------- */

static void capacity(size_t capacity) {
    weft_chan *ch = chan_of_ints(capacity);
    int value = 5;
    CHECK_EQ(weft_chan_recv(ch, &value, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(value, 5);
    for (int round = 0; round < 3; round++) { /* the ring wraps around at different places */
        for (size_t i = 0; i < capacity; i++) {
            value = (int)i;
            CHECK_EQ(weft_chan_length(ch), i);
            CHECK_EQ(weft_chan_send(ch, &value, WEFT_NOW), 0);
        }
        CHECK_EQ(weft_chan_send(ch, &value, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(weft_chan_send(ch, &value, 1), -ETIMEDOUT);
        CHECK_EQ(weft_chan_send(ch, &value, weft_after(1000)), -ETIMEDOUT);
        CHECK_EQ(weft_chan_length(ch), capacity);
        for (size_t i = 0; i < capacity; i++) {
            CHECK_EQ(weft_chan_recv(ch, &value, WEFT_NOW), 0);
            CHECK_EQ(value, i);
            if (i == 0 && round == 0) {
                value = (int)capacity;
                CHECK_EQ(weft_chan_send(ch, &value, WEFT_NOW), 0);
                CHECK_EQ(weft_chan_send(ch, &value, WEFT_NOW), -ETIMEDOUT);
            }
        }
        while (weft_chan_recv(ch, &value, WEFT_NOW) == 0)
            ;
    }
    CHECK_EQ(weft_chan_recv(ch, &value, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_chan_destroy(ch), 0);
}

TEST(chan_capacity_is_exact, "R26") {
    capacity(0);
    capacity(1);
    capacity(2);
    capacity(9);
}

TEST(chan_unbounded_grows, "R26") {
    weft_chan *ch = chan_of_ints(WEFT_UNBOUNDED);
    int sent = 0, got = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 5000; i++, sent++)
            REQUIRE_EQ(weft_chan_send(ch, &sent, WEFT_NOW), 0);
        for (int i = 0; i < 4000 + round * 300; i++, got++)
            REQUIRE_EQ(recv_int(ch), got);
        CHECK_EQ(weft_chan_length(ch), sent - got);
    }
    weft_chan_close(ch);
    while (got < sent)
        REQUIRE_EQ(recv_int(ch), got++);
    CHECK_EQ(recv_int(ch), -EPIPE);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    ch = chan_of_ints(WEFT_UNBOUNDED); /* destroyed with values in it */
    for (int i = 0; i < 3000; i++)
        CHECK_EQ(send_int(ch, i), 0);
    CHECK_EQ(weft_chan_destroy(ch), 0);
}

/* -- Phases ---------------------------------------------------------------------------------------------- */

struct one {
    weft_chan *ch;
    int value;
    atomic_int result; /* 1: not yet */
};

static int send_one(void *arg) {
    struct one *one = arg;
    atomic_store(&one->result, weft_chan_send(one->ch, &one->value, WEFT_NEVER));
    return 0;
}

static int recv_one(void *arg) {
    struct one *one = arg;
    atomic_store(&one->result, weft_chan_recv(one->ch, &one->value, WEFT_NEVER));
    return 0;
}

static bool is_idle(weft_task *task) { return strcmp(weft_task_state(task), "idle") == 0; }

/* R26, R28: a sender that waits is kept, and its value enters the buffer as soon as there is room. */
API_TEST(chan_waiting_sender_takes_the_room, "R26 R28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct one one = {chan_of_ints(1), 2, 1};
    CHECK_EQ(send_int(one.ch, 1), 0);
    weft_task *sender = fiber_go(rt, send_one, &one);
    REQUIRE_EVENTUALLY(is_idle(sender));
    CHECK_EQ(one.result, 1);
    CHECK_EQ(weft_chan_destroy(one.ch), -EBUSY);
    CHECK_EQ(weft_chan_length(one.ch), 1);
    CHECK_EQ(recv_int(one.ch), 1);
    CHECK_EQ(weft_chan_length(one.ch), 1); /* already */
    fixture_finish(sender);
    CHECK_EQ(one.result, 0);
    CHECK_EQ(recv_int(one.ch), 2);
    CHECK_EQ(weft_chan_destroy(one.ch), 0);
    fixture_end(rt);
}

/* R27: both are resumed, and nothing was in between. */
API_TEST(chan_rendezvous, "R27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(0);
    struct one sender = {ch, 7, 1}, receiver = {ch, 0, 1};
    weft_task *first = fiber_go(rt, send_one, &sender);
    REQUIRE_EVENTUALLY(is_idle(first));
    CHECK_EQ(sender.result, 1);
    CHECK_EQ(weft_chan_length(ch), 0);
    weft_task *second = fiber_go(rt, recv_one, &receiver);
    fixture_finish(second);
    fixture_finish(first);
    CHECK_EQ(sender.result, 0);
    CHECK_EQ(receiver.value, 7);

    receiver = (struct one){ch, 0, 1}; /* the other way round */
    first = fiber_go(rt, recv_one, &receiver);
    REQUIRE_EVENTUALLY(is_idle(first));
    int eight = 8;
    CHECK_EQ(weft_chan_send(ch, &eight, WEFT_NOW), 0);
    CHECK_EQ(weft_chan_send(ch, &eight, WEFT_NOW), -ETIMEDOUT);
    fixture_finish(first);
    CHECK_EQ(receiver.value, 8);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}

/* -- Close ----------------------------------------------------------------------------------------------- */

TEST(chan_close_keeps_what_is_in, "R30") {
    for (size_t c = 1; c < sizeof capacities / sizeof *capacities; c++) {
        weft_chan *ch = chan_of_ints(capacities[c]);
        CHECK_EQ(send_int(ch, 1), 0);
        CHECK(!weft_chan_is_closed(ch));
        weft_chan_close(ch);
        weft_chan_close(ch);
        CHECK(weft_chan_is_closed(ch));
        CHECK_EQ(send_int(ch, 2), -EPIPE);
        CHECK_EQ(weft_chan_length(ch), 1);
        CHECK_EQ(recv_int(ch), 1);
        CHECK_EQ(recv_int(ch), -EPIPE);
        int value = 9;
        CHECK_EQ(weft_chan_recv(ch, &value, WEFT_NOW), -EPIPE);
        CHECK_EQ(value, 9);
        weft_chan_close(ch);
        CHECK_EQ(weft_chan_destroy(ch), 0);
    }
}

/* -- Handles --------------------------------------------------------------------------------------------- */

TEST(chan_handles, "R30") {
    weft_chan *ch = chan_of_ints(4);
    CHECK_EQ(weft_chan_clone(ch), ch);
    CHECK_EQ(weft_chan_destroy(ch), -EBUSY);
    CHECK_EQ(send_int(ch, 3), 0);
    weft_chan_drop(ch);
    CHECK_EQ(recv_int(ch), 3);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    ch = chan_of_ints(4);
    CHECK_EQ(send_int(ch, 3), 0);
    weft_chan_drop(ch); /* with a value in it */
    weft_chan_drop(NULL);
    CHECK_EQ(weft_chan_destroy(NULL), 0);
}

TEST(chan_in_the_callers_memory, "R26") {
    weft_chan room;
    int buffer[3];
    for (int again = 0; again < 2; again++) {
        REQUIRE_EQ(weft_chan_init(&room, sizeof(int), 3, buffer), 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(send_int(&room, i), 0);
        int value = 3;
        CHECK_EQ(weft_chan_send(&room, &value, WEFT_NOW), -ETIMEDOUT);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(recv_int(&room), i);
        CHECK_EQ(weft_chan_fini(&room), 0);
    }
    REQUIRE_EQ(weft_chan_init(&room, sizeof(int), WEFT_UNBOUNDED, NULL), 0);
    for (int i = 0; i < 3000; i++)
        CHECK_EQ(send_int(&room, i), 0);
    CHECK_EQ(weft_chan_fini(&room), 0);
}

TEST(chan_refuses_nonsense, "R26") {
    weft_chan *untouched = (weft_chan *)(void *)&capacities, *ch = untouched;
    weft_chan room;
    CHECK_EQ(weft_chan_create(WEFT_CHAN_VALUE_MAX + 1, 1, &ch), -EINVAL);
    CHECK_EQ(weft_chan_create(1, WEFT_CHAN_CAPACITY_MAX + 1, &ch), -EINVAL);
    CHECK_EQ(weft_chan_create(WEFT_CHAN_VALUE_MAX, WEFT_CHAN_CAPACITY_MAX, &ch), -EINVAL);
    CHECK_EQ(weft_chan_init(&room, 1, WEFT_CHAN_CAPACITY_MAX + 1, NULL), -EINVAL);
    CHECK_EQ(weft_chan_init(&room, WEFT_CHAN_VALUE_MAX + 1, 0, NULL), -EINVAL);
    CHECK_EQ(weft_chan_init(&room, 1, 4, NULL), -EINVAL); /* where would they be? */
    REQUIRE_EQ(weft_chan_init(&room, 0, 4, NULL), 0);
    CHECK_EQ(weft_chan_send(&room, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_chan_fini(&room), 0);
    CHECK_EQ(ch, untouched);
}

/* The most that there may be, of values without size: there is nothing to allocate. */
TEST(chan_of_the_largest_capacity, "R26") {
    weft_chan *ch, room;
    weft_broadcast *b;
    REQUIRE_EQ(weft_chan_create(0, WEFT_CHAN_CAPACITY_MAX, &ch), 0);
    CHECK_EQ(weft_chan_capacity(ch), WEFT_CHAN_CAPACITY_MAX);
    CHECK_EQ(weft_chan_send(ch, NULL, WEFT_NOW), 0);
    weft_chan_drop(ch);
    CHECK_EQ(weft_chan_create(0, WEFT_CHAN_CAPACITY_MAX + 1, &ch), -EINVAL);
    REQUIRE_EQ(weft_chan_init(&room, 0, WEFT_CHAN_CAPACITY_MAX, NULL), 0);
    CHECK_EQ(weft_chan_fini(&room), 0);
    CHECK_EQ(weft_chan_init(&room, 0, WEFT_CHAN_CAPACITY_MAX + 1, NULL), -EINVAL);
    REQUIRE_EQ(weft_broadcast_create(0, WEFT_CHAN_CAPACITY_MAX, &b), 0);
    weft_broadcast_drop(b);
    CHECK_EQ(weft_broadcast_create(0, WEFT_CHAN_CAPACITY_MAX + 1, &b), -EINVAL);
    REQUIRE_EQ(weft_broadcast_create(WEFT_CHAN_VALUE_MAX, 1, &b), 0);
    weft_broadcast_drop(b);
}

/* A channel on the stack of who receives the last value goes away at once, whatever the sender still has to do. */
static int send_to_parent(void *arg) { return send_int(arg, 1); }

static int parent(void *arg) {
    unsigned count = *(unsigned *)arg;
    int sum = 0;
    for (unsigned round = 0; round < count; round++) {
        weft_chan ch;
        int buffer[2];
        if (weft_chan_init(&ch, sizeof(int), round % 3, buffer))
            return -EINVAL;
        for (int i = 0; i < 4; i++)
            if (weft_fiber_go(NULL, send_to_parent, &ch, NULL))
                return -ENOMEM;
        for (int i = 0; i < 4; i++)
            sum += recv_int(&ch);
        if (weft_chan_fini(&ch))
            return -EBUSY;
        memset(&ch, 0xee, sizeof ch);
    }
    return sum == 4 * (int)count ? 0 : -EIO;
}

API_TEST(chan_ends_with_its_last_value, "R27", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned rounds = fixture_is_slow() ? 300 : 3000;
    weft_task *parents[4];
    for (int i = 0; i < 4; i++)
        parents[i] = fiber_go(rt, parent, &rounds);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(parents[i]).status, 0);
    fixture_end(rt);
}
