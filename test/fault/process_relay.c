/* process_relay.c - contexts and relays when memory runs out: what is refused has done nothing, and every end is told. */
#include <weft/relay.h>

#include "sweep.h"

/* -- A context and payloads: init_ctx sees all of them, or is not called. */

static atomic_uint begun, closed;
static int check_init(void *state, weft_pid self, const char *method, const weft_context *context,
                      const weft_payload *inputs, size_t count) {
    (void)state, (void)self, (void)method;
    const weft_context_value *user = weft_context_find(context, "user");
    CHECK(user && user->size == 3);
    REQUIRE_EQ(count, 2);
    CHECK_EQ(memcmp(inputs[1].data, "two", 3), 0);
    atomic_fetch_add(&begun, 1);
    return 0;
}
static int end_at_once(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_DONE;
    return 0;
}
static void count_close(void *state) {
    (void)state;
    atomic_fetch_add(&closed, 1);
}
static const weft_process_class checked = {
    .size = sizeof checked, .step = end_at_once, .close = count_close, .init_ctx = check_init};

static void contexts(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_context_value values[] = {{"user", "ada", 3}};
    weft_payload inputs[] = {{"one", 3}, {"two", 3}};
    weft_context context = WEFT_CONTEXT_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid = 7;
    atomic_store(&begun, 0);
    atomic_store(&closed, 0);
    context.values = values;
    context.value_count = 1;
    spec.class_ = &checked;
    spec.context = &context;
    spec.inputs = inputs;
    spec.input_count = 2;
    spec.registered = "checked";
    int error = weft_process_spawn(rt, &spec, &pid, NULL);
    CHECK(sweep_is_clean(error));
    if (error)
        CHECK_EQ(pid, 7);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    CHECK_EQ(atomic_load(&closed), atomic_load(&begun));
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

TEST(process_context_out_of_memory, "W2 W4", .timeout = 120) { sweep(contexts); }

/* -- A runtime that is its own peer. */

struct peer {
    weft_runtime *rt;
    unsigned node;
    atomic_uint released;
};
static struct peer peer;

static int turn_back(void *state, const weft_parcel *parcel) {
    struct peer *to = state;
    return weft_relay_deliver(to->rt, to->node, parcel, WEFT_NOW);
}
static void count_release(void *state) { atomic_fetch_add(&((struct peer *)state)->released, 1); }

static int answer(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL)
        if (m.tag & WEFT_TAG_RESERVED)
            (void)weft_reply(&m, NULL, 0); /* without memory it is not answered */
    return 0;
}

static int use(void *arg) {
    weft_message m;
    weft_pid there = weft_relay_pid(peer.node, *(weft_pid *)arg);
    uint64_t monitor;
    char large[300] = {0};
    int error = weft_send(NULL, there, 1, large, sizeof large);
    CHECK(sweep_is_clean(error) || error == -ESRCH); /* the server had no memory for its stack */
    error = weft_ask(there, large, sizeof large, &m, weft_after(20000000));
    CHECK(sweep_is_clean(error) || error == -ETIMEDOUT || error == -ESRCH);
    error = weft_monitor(there, &monitor);
    CHECK(sweep_is_clean(error));
    CHECK_EQ(weft_relay_detach(NULL, peer.node, -ECONNRESET), 0);
    if (!error) { /* the monitor may have been refused there: then that was told */
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, fixture_soon()), 0);
        CHECK_EQ(m.type, WEFT_MESSAGE_DOWN);
        CHECK_EQ(m.tag, monitor);
    }
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
    return 0;
}

static void relays(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_relay relay = WEFT_RELAY_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_pid server;
    relay.send = turn_back;
    relay.release = count_release;
    peer.rt = rt;
    peer.node = 0;
    atomic_store(&peer.released, 0);
    int attached = weft_relay_attach(rt, &relay, &peer, &peer.node);
    CHECK(sweep_is_clean(attached));
    int error = attached ? attached : weft_process_go(rt, answer, NULL, &server);
    if (!error) {
        spec.fn = use;
        spec.arg = &server;
        error = weft_process_spawn(rt, &spec, NULL, &task);
        CHECK(sweep_is_clean(error));
        if (!error)
            CHECK(sweep_is_clean(fixture_finish(task).status)); /* no memory for its stack */
    }
    /* Without memory for the message that asks it to end, the server is ended by force. */
    error = weft_runtime_stop(rt, weft_after(wefti_fault_count() ? 50000000 : harness_patience()));
    CHECK(error == 0 || error == -ECANCELED);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    CHECK_EQ(atomic_load(&peer.released), attached ? 0 : 1);
}

TEST(process_relay_out_of_memory, "W30", .timeout = 120) { sweep(relays); }

/* -- A monitor from the other side that there is no memory for is answered with a DOWN. */

static weft_parcel answered;
static unsigned answers;
static int keep_parcel(void *state, const weft_parcel *parcel) {
    (void)state;
    answered = *parcel;
    answers++;
    return 0;
}
static int idle(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    return 0;
}

API_TEST(process_relay_monitor_without_memory, "W30", .workers = {1}) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = idle};
    weft_runtime *rt = fixture_begin_patient();
    weft_relay relay = WEFT_RELAY_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_parcel parcel = WEFT_PARCEL_INIT;
    unsigned node;
    relay.send = keep_parcel;
    spec.class_ = &class_;
    REQUIRE_EQ(weft_relay_attach(rt, &relay, NULL, &node), 0);
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &parcel.to, NULL), 0);
    parcel.type = WEFT_PARCEL_MONITOR;
    parcel.from = parcel.to; /* as the other side knows its own */
    parcel.tag = WEFT_TAG_RESERVED | 7;
    wefti_fault_set(0, true); /* there has been no message: the record would be the first */
    int error = weft_relay_deliver(rt, node, &parcel, WEFT_NOW);
    wefti_fault_set(-1, false);
    CHECK_EQ(error, 0);
    REQUIRE_EQ(answers, 1);
    CHECK_EQ(answered.type, WEFT_PARCEL_DOWN);
    CHECK_EQ(answered.error, -ENOMEM);
    CHECK_EQ(answered.tag, parcel.tag);
    CHECK_EQ(answered.to, parcel.from);
    CHECK_EQ(answered.from, parcel.to);
    fixture_end(rt);
}
