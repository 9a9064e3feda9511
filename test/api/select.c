/* select.c - waiting for whichever comes first: exactly one case happens, fairly, and nothing is lost by the others. */
#include "chan.h"

static bool is_idle(weft_task *task) { return strcmp(weft_task_state(task), "idle") == 0; }

/* -- What it does -------------------------------------------------------------------------------------------- */

TEST(select_now, "R27") {
    weft_chan *a = chan_of_ints(1), *b = chan_of_ints(1);
    int x = 1, y = 2;
    weft_case cases[] = {weft_case_recv(a, &x), weft_case_recv(b, &y), {0}};
    CHECK_EQ(weft_select(cases, 3, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 3, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 0, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(NULL, 0, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, WEFT_SELECT_MAX + 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(send_int(b, 7), 0);
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 1);
    CHECK_EQ(cases[1].result, 0);
    CHECK_EQ(x, 1);
    CHECK_EQ(y, 7);
    weft_case sends[] = {weft_case_recv(b, &y), weft_case_send(a, &y)};
    CHECK_EQ(weft_select(sends, 2, WEFT_NEVER), 1);
    CHECK_EQ(weft_select(sends, 2, WEFT_NOW), -ETIMEDOUT); /* a is full, b is empty */
    CHECK_EQ(recv_int(a), 7);
    weft_chan_close(b);
    CHECK_EQ(weft_select(sends, 1, WEFT_NEVER), 0);
    CHECK_EQ(sends[0].result, -EPIPE);
    weft_chan_close(a);
    CHECK_EQ(weft_select(sends + 1, 1, WEFT_NEVER), 0);
    CHECK_EQ(sends[1].result, -EPIPE);
    CHECK_EQ(weft_chan_destroy(a), 0);
    CHECK_EQ(weft_chan_destroy(b), 0);
}

static int timers(void *arg) {
    weft_chan *ch = arg;
    int x;
    int64_t began = weft_now();
    weft_case cases[] = {weft_case_recv(ch, &x), weft_case_at(weft_after(3000000)), weft_case_at(weft_after(1000000)),
                         weft_case_at(WEFT_NEVER)};
    REQUIRE_EQ(weft_select(cases, 4, WEFT_NEVER), 2);
    REQUIRE_EQ(cases[2].result, 0);
    REQUIRE_GE(weft_now() - began, 1000000);
    weft_case far = weft_case_at(weft_after(INT64_C(60000000000)));
    REQUIRE_EQ(weft_select(&far, 1, weft_after(1000)), -ETIMEDOUT);
    REQUIRE_EQ(weft_select(cases, 2, WEFT_NEVER), 1);
    REQUIRE_GE(weft_now() - began, 3000000);
    cases[0] = weft_case_at(WEFT_NOW);
    REQUIRE_EQ(weft_select(cases, 1, WEFT_NOW), 0);
    weft_task *self = weft_task_self();
    if (self) {
        weft_task_cancel(self);
        REQUIRE_EQ(weft_select(cases, 1, WEFT_NEVER), 0); /* does not wait */
        cases[0] = weft_case_recv(ch, &x);
        REQUIRE_EQ(weft_select(cases, 1, WEFT_NEVER), -ECANCELED);
        REQUIRE_EQ(weft_select(cases, 1, WEFT_NOW), -ETIMEDOUT);
    }
    return 0;
}

API_TEST(select_timers, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(0);
    fiber_run(rt, timers, ch);
    timers(ch); /* in a thread */
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}

static weft_poll in_a_poll(weft_task *self, void *state) {
    int x;
    weft_case c = weft_case_recv(state, &x);
    CHECK_EQ(weft_select(&c, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(&c, 1, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(select_does_not_stop_a_poll, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(0);
    fixture_finish(fixture_go(rt, in_a_poll, ch));
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}

/* It does not meet itself. */
static int both_ends(void *arg) {
    weft_chan *ch = arg;
    int in = 0, out = 1;
    weft_case cases[] = {weft_case_send(ch, &out), weft_case_recv(ch, &in), weft_case_send(ch, &out)};
    int index = weft_select(cases, 3, WEFT_NEVER);
    REQUIRE_EQ(cases[index].result, 0);
    REQUIRE(index != 1 || in == 5);
    weft_fiber_result((void *)(intptr_t)index);
    return 0;
}

static int both_ends_alone(void *arg) {
    int in = 0, out = 1;
    weft_case cases[] = {weft_case_send(arg, &out), weft_case_recv(arg, &in), weft_case_send(arg, &out)};
    REQUIRE_EQ(weft_select(cases, 3, weft_after(1000000)), -ETIMEDOUT);
    REQUIRE_EQ(in, 0);
    return 0;
}

API_TEST(select_both_ends_of_a_rendezvous, "R27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(0);
    fiber_run(rt, both_ends_alone, ch);
    weft_task *task = fiber_go(rt, both_ends, ch);
    CHECK_EQ(send_int(ch, 5), 0);
    CHECK_EQ((intptr_t)fixture_finish(task).value, 1);
    task = fiber_go(rt, both_ends, ch);
    CHECK_EQ(recv_int(ch), 1);
    CHECK((intptr_t)fixture_finish(task).value != 1);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}

/* -- Fairness ------------------------------------------------------------------------------------------------- */

/* Whatever set of cases is ready, each of them comes about as often. */
static int fairness(void *arg) {
    (void)arg;
    enum { CASES = 10, ROUNDS = 3000 };
    weft_chan *ch[CASES];
    weft_case cases[CASES];
    int x = 0, hits[CASES] = {0};
    for (int i = 0; i < CASES; i++) {
        ch[i] = chan_of_ints(1);
        cases[i] = weft_case_recv(ch[i], &x);
    }
    for (int i = 0; i < 3; i++) /* three neighbours are ready */
        REQUIRE_EQ(send_int(ch[i], i), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int index = weft_select(cases, CASES, WEFT_NEVER);
        REQUIRE_EQ(x, index);
        hits[index]++;
        REQUIRE_EQ(send_int(ch[index], index), 0);
    }
    for (int i = 0; i < 3; i++)
        REQUIRE(hits[i] > ROUNDS / 3 - 200 && hits[i] < ROUNDS / 3 + 200); /* 7 times the standard deviation */
    for (int i = 0; i < CASES; i++)
        weft_chan_drop(ch[i]);
    return 0;
}

API_TEST(select_is_fair, "R29", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fiber_run(rt, fairness, NULL);
    fairness(NULL);
    fixture_end(rt);
}

/* -- Waiting ---------------------------------------------------------------------------------------------------- */

struct both {
    weft_chan *a, *b;
    int x, y;
};

static int wait_for_both(void *arg) {
    struct both *both = arg;
    weft_case cases[] = {weft_case_recv(both->a, &both->x), weft_case_recv(both->b, &both->y)};
    int index = weft_select(cases, 2, WEFT_NEVER);
    weft_fiber_result((void *)(intptr_t)(index < 0 ? index : cases[index].result ? 10 + index : index));
    return 0;
}

API_TEST(select_waits, "R27 R30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int way = 0; way < 5; way++) {
        struct both both = {chan_of_ints(1), chan_of_ints(0), -1, -1};
        weft_task *task = fiber_go(rt, wait_for_both, &both);
        REQUIRE_EVENTUALLY(is_idle(task));
        int value = 3, expected = way;
        if (way < 2)
            CHECK_EQ(weft_chan_send(way ? both.b : both.a, &value, WEFT_NOW), 0);
        else if (way < 4)
            weft_chan_close(way == 2 ? both.a : both.b), expected = 8 + way;
        else
            weft_task_cancel(task), expected = -ECANCELED;
        CHECK_EQ((intptr_t)fixture_finish(task).value, expected);
        CHECK_EQ(both.x, way == 0 ? 3 : -1);
        CHECK_EQ(both.y, way == 1 ? 3 : -1);
        CHECK_EQ(weft_chan_destroy(both.a), 0); /* nobody is in its lists */
        CHECK_EQ(weft_chan_destroy(both.b), 0);
    }
    fixture_end(rt);
}

/* -- Exactly one ------------------------------------------------------------------------------------------------ */

#define LANES 4

struct race {
    weft_chan *lane[LANES];
    struct tally *tally;
    atomic_uint next, senders;
    bool hasty;
};

static void race_begin(struct race *race, size_t capacity, unsigned count, unsigned senders) {
    for (int i = 0; i < LANES; i++)
        race->lane[i] = chan_of_ints(capacity);
    race->tally = tally_new(count);
    race->next = 0;
    race->senders = senders;
}

static void race_close(struct race *race) {
    for (int i = 0; i < LANES; i++)
        weft_chan_close(race->lane[i]);
}

static void race_end(struct race *race) {
    for (int i = 0; i < LANES; i++)
        CHECK_EQ(weft_chan_destroy(race->lane[i]), 0);
    tally_end(race->tally);
}

static weft_deadline race_until(struct race *race) { return race->hasty ? hasty() : WEFT_NEVER; }

/* Sends each number once, on any lane. */
static int select_send(void *arg) {
    struct race *race = arg;
    for (unsigned number; (number = atomic_fetch_add(&race->next, 1)) < race->tally->count;) {
        int value = (int)number, index;
        weft_case cases[LANES];
        for (int i = 0; i < LANES; i++)
            cases[i] = weft_case_send(race->lane[i], &value);
        while ((index = weft_select(cases, LANES, race_until(race))) == -ETIMEDOUT)
            ;
        REQUIRE(index >= 0 && cases[index].result == 0);
    }
    atomic_fetch_sub(&race->senders, 1);
    return 0;
}

/* Receives on all lanes, until each is closed. */
static int select_recv(void *arg) {
    struct race *race = arg;
    int values[LANES], open = LANES;
    weft_case cases[LANES];
    for (int i = 0; i < LANES; i++)
        cases[i] = weft_case_recv(race->lane[i], &values[i]);
    while (open) {
        for (int i = 0; i < LANES; i++)
            values[i] = -5;
        int index = weft_select(cases, LANES, race_until(race));
        if (index == -ETIMEDOUT || index == -ECANCELED) {
            for (int i = 0; i < LANES; i++)
                REQUIRE_EQ(values[i], -5);
            if (index == -ECANCELED)
                return 0;
            continue;
        }
        REQUIRE_GE(index, 0);
        for (int i = 0; i < LANES; i++)
            REQUIRE(i == index || values[i] == -5); /* the others did not happen */
        if (cases[index].result == -EPIPE) {
            cases[index] = (weft_case){0};
            open--;
        } else {
            REQUIRE_EQ(cases[index].result, 0);
            tally_add(race->tally, values[index]);
        }
    }
    return 0;
}

struct plain {
    struct race *race;
    int lane;
};

static int plain_recv(void *arg) {
    struct plain *plain = arg;
    for (int value; (value = recv_int(plain->race->lane[plain->lane])) != -EPIPE;)
        tally_add(plain->race->tally, value);
    return 0;
}

static void select_thread(unsigned index, void *arg) {
    struct race *race = arg;
    if (index < 4) {
        (index % 2 ? select_send : select_recv)(race);
        return;
    }
    REQUIRE_EVENTUALLY(race->senders == 0);
    race_close(race);
}

/* Selects against selects, plain receivers between them, fibers and threads. */
static void select_race(weft_runtime *rt, size_t capacity, bool hasty) {
    struct race race = {.hasty = hasty};
    struct plain plain[LANES];
    weft_task *tasks[8 + LANES];
    race_begin(&race, capacity, fixture_is_slow() ? 400 : 4000, 6);
    for (int i = 0; i < 8; i++)
        tasks[i] = fiber_go(rt, i % 2 ? select_send : select_recv, &race);
    for (int i = 0; i < LANES; i++) {
        plain[i] = (struct plain){&race, i};
        tasks[8 + i] = fiber_go(rt, plain_recv, &plain[i]);
    }
    harness_threads(5, select_thread, &race);
    for (int i = 0; i < 8 + LANES; i++)
        CHECK_EQ(fixture_finish(tasks[i]).status, 0);
    race_end(&race);
}

API_TEST(select_exactly_one_lost_wake, "R27 R29 R33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    select_race(rt, 0, false);
    select_race(rt, 1, false);
    select_race(rt, 3, false);
    fixture_end(rt);
}

API_TEST(select_deadline_loses_nothing, "R28 R29", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    select_race(rt, 0, true);
    select_race(rt, 1, true);
    fixture_end(rt);
}

API_TEST(select_cancel_loses_nothing, "R29 R30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (size_t capacity = 0; capacity < 2; capacity++) {
        struct race race = {.hasty = false};
        race_begin(&race, capacity, fixture_is_slow() ? 300 : 3000, 3);
        weft_task *senders[3], *receivers[6] = {NULL};
        uint64_t random = harness_seed();
        for (int i = 0; i < 3; i++)
            senders[i] = fiber_go(rt, select_send, &race);
        while (tally_sum(race.tally) < race.tally->count) {
            weft_task **one = &receivers[harness_random(&random) % 6];
            if (*one) {
                weft_task_cancel(*one);
                fixture_finish(*one);
            }
            *one = fiber_go(rt, select_recv, &race);
        }
        race_close(&race);
        for (int i = 0; i < 6; i++)
            if (receivers[i])
                fixture_finish(receivers[i]);
        for (int i = 0; i < 3; i++)
            fixture_finish(senders[i]);
        race_end(&race);
    }
    fixture_end(rt);
}

/* Two that offer each other both ends of the same rendezvous. */
struct mirror {
    weft_chan *ch[2];
    atomic_uint sent, received;
    unsigned rounds;
};

static int mirror_fiber(void *arg) {
    struct mirror *m = arg;
    for (unsigned i = 0; i < m->rounds; i++) {
        int in = 0, out = 1;
        weft_case cases[] = {weft_case_send(m->ch[0], &out), weft_case_recv(m->ch[0], &in),
                             weft_case_send(m->ch[1], &out), weft_case_recv(m->ch[1], &in)};
        int index = weft_select(cases, 4, WEFT_NEVER);
        REQUIRE(index >= 0 && cases[index].result == 0);
        REQUIRE_EQ(in, index % 2);
        atomic_fetch_add(index % 2 ? &m->received : &m->sent, 1);
    }
    return 0;
}

static void mirror_thread(unsigned index, void *arg) {
    (void)index;
    mirror_fiber(arg);
}

API_TEST(select_mirrored, "R27 R33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct mirror m = {.ch = {chan_of_ints(0), chan_of_ints(0)}, .rounds = fixture_is_slow() ? 200 : 2000};
    weft_task *tasks[2] = {fiber_go(rt, mirror_fiber, &m), fiber_go(rt, mirror_fiber, &m)};
    for (int i = 0; i < 2; i++) /* two only: each needs the other to the end */
        CHECK_EQ(fixture_finish(tasks[i]).status, 0);
    harness_threads(2, mirror_thread, &m);
    CHECK_EQ(m.sent, 2 * m.rounds);
    CHECK_EQ(m.received, 2 * m.rounds);
    CHECK_EQ(weft_chan_destroy(m.ch[0]), 0);
    CHECK_EQ(weft_chan_destroy(m.ch[1]), 0);
    fixture_end(rt);
}

/* -- Other things ------------------------------------------------------------------------------------------------- */

struct things {
    weft_chan *ch;
    weft_oneshot_receiver *shot;
    weft_subscriber *subscriber;
    weft_watch *watch;
};

static int wait_for_things(void *arg) {
    struct things *t = arg;
    int a, b, c, d;
    uint64_t missed = 0, version = 1;
    weft_case cases[20] = {weft_case_recv(t->ch, &a), weft_case_oneshot(t->shot, &b),
                           weft_case_subscriber(t->subscriber, &c, &missed), weft_case_watch(t->watch, &version, &d)};
    int seen = 0;
    while (seen < 4) {
        int index = weft_select(cases, 20, WEFT_NEVER); /* more than a few */
        REQUIRE(index >= 0 && index < 4);
        REQUIRE_EQ(cases[index].result, 0);
        REQUIRE(index != 3 || version == 2);
        cases[index] = (weft_case){0};
        seen++;
    }
    REQUIRE_EQ(a * 1000 + b * 100 + c * 10 + d, 1234);
    return 0;
}

API_TEST(select_all_kinds, "R29 J35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int first = 0; first < 4; first++) {
        struct things t = {.ch = chan_of_ints(0)};
        weft_oneshot_sender *sender;
        weft_broadcast *broadcast;
        REQUIRE_EQ(weft_oneshot_create(sizeof(int), &sender, &t.shot), 0);
        REQUIRE_EQ(weft_broadcast_create(sizeof(int), 2, &broadcast), 0);
        REQUIRE_EQ(weft_subscribe(broadcast, &t.subscriber), 0);
        REQUIRE_EQ(weft_watch_create(sizeof(int), NULL, &t.watch), 0);
        weft_task *task = fiber_go(rt, wait_for_things, &t);
        for (int i = 0; i < 4; i++) {
            int which = (first + i) % 4, value = which + 1;
            REQUIRE_EVENTUALLY(is_idle(task));
            CHECK_EQ(which == 0   ? weft_chan_send(t.ch, &value, WEFT_NEVER)
                     : which == 1 ? weft_oneshot_send(sender, &value)
                     : which == 2 ? weft_broadcast_send(broadcast, &value)
                                  : weft_watch_set(t.watch, &value),
                     0);
        }
        CHECK_EQ(fixture_finish(task).status, 0);
        weft_oneshot_receiver_drop(t.shot);
        weft_unsubscribe(t.subscriber);
        weft_broadcast_drop(broadcast);
        weft_watch_drop(t.watch);
        CHECK_EQ(weft_chan_destroy(t.ch), 0);
    }
    fixture_end(rt);
}

/* Close against a select that is about to wait. */
API_TEST(select_against_close, "R30", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < (fixture_is_slow() ? 50 : 500); i++) {
        struct both both = {chan_of_ints(0), chan_of_ints(0), -1, -1};
        weft_task *task = fiber_go(rt, wait_for_both, &both);
        weft_chan_close(i % 2 ? both.a : both.b);
        CHECK_EQ((intptr_t)fixture_finish(task).value, i % 2 ? 10 : 11);
        CHECK_EQ(weft_chan_destroy(both.a), 0);
        CHECK_EQ(weft_chan_destroy(both.b), 0);
    }
    fixture_end(rt);
}
