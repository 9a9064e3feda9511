/* chan_oneshot.c - one value, once; and both ways of dropping an end. */
#include "chan.h"

struct shot {
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
};

static struct shot shot_new(void) {
    struct shot shot;
    REQUIRE_EQ(weft_oneshot_create(sizeof(int), &shot.sender, &shot.receiver), 0);
    return shot;
}

TEST(oneshot_each_order, "J35") {
    int value = 5, got = 0;
    struct shot shot = shot_new();
    CHECK(!weft_oneshot_is_unwanted(shot.sender));
    CHECK_EQ(weft_oneshot_recv(shot.receiver, &got, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_oneshot_send(shot.sender, &value), 0);
    CHECK_EQ(weft_oneshot_recv(shot.receiver, &got, WEFT_NEVER), 0);
    CHECK_EQ(got, 5);
    CHECK_EQ(weft_oneshot_recv(shot.receiver, &got, WEFT_NEVER), -EPIPE); /* exactly once */
    weft_oneshot_receiver_drop(shot.receiver);

    shot = shot_new(); /* the sender goes without a word */
    weft_oneshot_sender_drop(shot.sender);
    CHECK_EQ(weft_oneshot_recv(shot.receiver, &got, WEFT_NEVER), -EPIPE);
    weft_oneshot_receiver_drop(shot.receiver);

    shot = shot_new(); /* the receiver does not want it */
    weft_oneshot_receiver_drop(shot.receiver);
    CHECK(weft_oneshot_is_unwanted(shot.sender));
    CHECK_EQ(weft_oneshot_send(shot.sender, &value), -EPIPE);

    shot = shot_new();
    weft_oneshot_receiver_drop(shot.receiver);
    weft_oneshot_sender_drop(shot.sender);

    shot = shot_new(); /* sent, never received */
    CHECK_EQ(weft_oneshot_send(shot.sender, &value), 0);
    weft_oneshot_receiver_drop(shot.receiver);
    weft_oneshot_sender_drop(NULL);
    weft_oneshot_receiver_drop(NULL);
}

/* J35: an asynchronous call. */
struct call {
    weft_oneshot_sender *answer;
    int question, way;
};

static int callee(void *arg) {
    struct call *call = arg;
    int answer = call->question * 2;
    if (call->way == 1)
        weft_oneshot_sender_drop(call->answer);
    else
        CHECK_EQ(weft_oneshot_send(call->answer, &answer), 0);
    return 0;
}

static int caller(void *arg) {
    unsigned count = *(unsigned *)arg;
    for (unsigned i = 0; i < count; i++) {
        struct shot shot = shot_new();
        struct call call = {shot.sender, (int)i, (int)i % 2};
        weft_task *task = fiber_go(NULL, callee, &call);
        int answer = -1, error = weft_oneshot_recv(shot.receiver, &answer, WEFT_NEVER);
        REQUIRE_EQ(error, call.way ? -EPIPE : 0);
        REQUIRE_EQ(answer, call.way ? -1 : (int)i * 2);
        weft_oneshot_receiver_drop(shot.receiver);
        REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
    }
    return 0;
}

API_TEST(oneshot_async_call, "J35", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned count = fixture_is_slow() ? 100 : 1000;
    weft_task *callers[4];
    for (int i = 0; i < 4; i++)
        callers[i] = fiber_go(rt, caller, &count);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(callers[i]).status, 0);
    fixture_end(rt);
}

/* Both ends at once, on two threads: the value is received, or the sender learns that it was not. */
struct duel {
    struct shot *shots;
    unsigned count;
    atomic_uint sent, received, refused;
};

static void duel_thread(unsigned index, void *arg) {
    struct duel *duel = arg;
    for (unsigned i = 0; i < duel->count; i++) {
        int value = (int)i;
        if (index == 0) {
            int error = weft_oneshot_send(duel->shots[i].sender, &value);
            atomic_fetch_add(error ? &duel->refused : &duel->sent, 1);
            continue;
        }
        if (i % 3) {
            REQUIRE_EQ(weft_oneshot_recv(duel->shots[i].receiver, &value, WEFT_NEVER), 0);
            REQUIRE_EQ(value, i);
            atomic_fetch_add(&duel->received, 1);
        }
        weft_oneshot_receiver_drop(duel->shots[i].receiver);
    }
}

TEST(oneshot_both_ends_at_once, "J35") {
    struct duel duel = {.count = fixture_is_slow() ? 1000 : 10000};
    duel.shots = calloc(duel.count, sizeof *duel.shots);
    for (unsigned i = 0; i < duel.count; i++)
        duel.shots[i] = shot_new();
    harness_threads(2, duel_thread, &duel);
    CHECK_EQ(duel.sent + duel.refused, duel.count);
    CHECK_EQ(duel.received, duel.count - (duel.count + 2) / 3);
    free(duel.shots);
}

struct asker {
    weft_oneshot_receiver *receiver;
    weft_wait wait;
};

static void end_asker(void *state) {
    struct asker *asker = state;
    weft_wait_end(&asker->wait);
    weft_oneshot_receiver_drop(asker->receiver);
}

static weft_poll ask(weft_task *self, void *state) {
    struct asker *asker = state;
    int value = 0, error = weft_oneshot_recv_poll(asker->receiver, self, &asker->wait, &value);
    return error == -EAGAIN ? WEFT_PENDING : weft_done(self, error, (void *)(intptr_t)value);
}

API_TEST(oneshot_poll, "J35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int way = 0; way < 3; way++)
        for (int i = 0; i < 50; i++) {
            struct shot shot = shot_new();
            struct asker asker = {.receiver = shot.receiver};
            weft_spec spec = WEFT_SPEC_INIT;
            weft_task *task = NULL;
            int value = 7;
            spec.poll = ask;
            spec.state = &asker;
            spec.state_size = sizeof asker;
            spec.drop = end_asker;
            REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
            if (way == 2)
                weft_task_cancel(task);
            int error = 0;
            if (way == 1)
                weft_oneshot_sender_drop(shot.sender);
            else
                error = weft_oneshot_send(shot.sender, &value);
            weft_result result = fixture_finish(task);
            if (way == 0)
                CHECK_EQ((intptr_t)result.value, 7);
            else if (way == 1)
                CHECK_EQ(result.status, -EPIPE);
            else
                CHECK(result.status == -ECANCELED || result.status == 0); /* it was being polled */
            CHECK(error == 0 || (way == 2 && error == -EPIPE));
        }
    fixture_end(rt);
}
