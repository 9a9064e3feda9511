/* life.c - many lookups on one channel: who comes, leads, leaves, is cancelled; runtimes that use it, and stop. */
#include "server.h"

#define MS INT64_C(1000000)

struct place {
    struct server server;
    weft_cares *cares;
};

static void begin_place(struct place *place, int ms) {
    server_begin(&place->server);
    place->cares = server_channel(&place->server, ms, NULL);
}
static void end_place(struct place *place) {
    weft_cares_free(place->cares);
    server_end(&place->server);
}
static void run_place(weft_fiber_fn fn, int ms) {
    struct place place;
    begin_place(&place, ms);
    io_run(fn, &place);
    end_place(&place);
}

/* A lookup in a fiber. */
struct ask {
    struct place *place;
    const char *name;
    weft_deadline until;
    int result;
    weft_addr addrs[16];
};

static int ask_main(void *arg) {
    struct ask *ask = arg;
    ask->result = weft_cares_resolve(ask->place->cares, ask->name, "80", AF_INET, ask->addrs, 16,
                                     ask->until ? ask->until : WEFT_NEVER);
    return ask->result < 0 ? ask->result : 0;
}

/* -- Many at once ------------------------------------------------------------------------------------------------------ */

enum { MANY = 200 };

static int one_of_many(void *arg) {
    struct ask *ask = arg;
    char name[32], expected[32];
    int number = (int)(intptr_t)ask->name;
    snprintf(name, sizeof name, "n%d.test", number);
    snprintf(expected, sizeof expected, "127.0.0.%d:80", number);
    for (int i = 0; i < 3; i++) {
        int count =
            weft_cares_resolve(ask->place->cares, name, "80", i == 1 ? 0 : AF_INET, ask->addrs, 16, fixture_soon());
        CHECK_EQ(count, i == 1 ? 2 : 1);
        CHECK(addr_is(&ask->addrs[0], expected) || (count == 2 && addr_is(&ask->addrs[1], expected)));
    }
    return 0;
}

static int many(void *arg) {
    static struct ask asks[MANY];
    static weft_task *tasks[MANY];
    for (int i = 0; i < MANY; i++) {
        asks[i] = (struct ask){.place = arg, .name = (const char *)(intptr_t)(i + 1)};
        tasks[i] = io_go(NULL, one_of_many, &asks[i]);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(io_join(tasks[i]), 0);
    return 0;
}
API_TEST(cares_many, "", .workers = {1, 4}) { run_place(many, 5000); }

/* Fibers of two runtimes and plain threads on one channel. */
static void on_thread(unsigned index, void *place) {
    struct ask ask = {.place = place, .name = (const char *)(intptr_t)(index + 1)};
    CHECK_EQ(one_of_many(&ask), 0);
}

static int few(void *arg) {
    struct ask asks[20];
    weft_task *tasks[20];
    for (int i = 0; i < 20; i++) {
        asks[i] = (struct ask){.place = arg, .name = (const char *)(intptr_t)(i + 1)};
        tasks[i] = io_go(NULL, one_of_many, &asks[i]);
    }
    for (int i = 0; i < 20; i++)
        CHECK_EQ(io_join(tasks[i]), 0);
    return 0;
}

API_TEST(cares_everywhere, "", .workers = {2}) {
    if (fixture_on("sim"))
        SKIP("virtual time does not wait for other threads");
    struct place place;
    begin_place(&place, 5000);
    weft_runtime *one = fixture_begin_patient(), *two = fixture_begin_patient();
    weft_task *first = io_go(one, few, &place), *second = io_go(two, few, &place);
    harness_threads(4, on_thread, &place);
    CHECK_EQ(io_join(first), 0);
    CHECK_EQ(io_join(second), 0);
    fixture_end(one);
    fixture_end(two);
    end_place(&place);
}

/* -- Leaving ------------------------------------------------------------------------------------------------------------ */

/* The one who leads is cancelled, or late: another goes on, and has its answer. */
static int leader_leaves(void *arg) {
    struct place *place = arg;
    for (int round = 0; round < 4; round++) {
        bool cancel = round % 2, any_order = round / 2;
        struct ask leader = {.place = place, .name = "silent.test", .until = cancel ? 0 : weft_after(30 * MS)};
        struct ask other = {.place = place, .name = "late.test"}, third = {.place = place, .name = "late.test"};
        weft_task *first = io_go(NULL, ask_main, &leader);
        if (cancel && !any_order) /* one that has a deadline may be over before it is seen waiting */
            io_until_it_waits(first);
        weft_task *second = io_go(NULL, ask_main, &other), *last = io_go(NULL, ask_main, &third);
        while (atomic_load(&place->server.held) < 2)
            (void)weft_sleep(MS);
        if (cancel)
            (void)weft_task_cancel(first);
        CHECK_EQ(io_join(first), cancel ? -ECANCELED : -ETIMEDOUT);
        io_until_it_waits(second); /* on, for its answer */
        atomic_store(&place->server.released, true);
        CHECK_EQ(io_join(second), 0);
        CHECK_EQ(io_join(last), 0);
        CHECK_EQ(other.result, 1);
        CHECK_EQ(third.result, 1);
        CHECK(addr_is(&other.addrs[0], "127.0.0.1:80"));
        while (atomic_load(&place->server.held))
            (void)weft_sleep(MS);
        atomic_store(&place->server.released, false);
    }
    return 0;
}
API_TEST(cares_leader_leaves, "", .workers = {1, 2}) { run_place(leader_leaves, 60000); }

/* All leave: nothing is left of it, neither sockets nor lookups, and the next one begins anew. */
static int all_leave(void *arg) {
    struct place *place = arg;
    enum { ALL = 12 };
    struct ask asks[ALL];
    weft_task *tasks[ALL];
    weft_addr addrs[2];
    asks[0] = (struct ask){.place = place, .name = "silent.test"};
    tasks[0] = io_go(NULL, ask_main, &asks[0]);
    io_until_it_waits(tasks[0]); /* now the worker has a poller */
    (void)weft_task_cancel(tasks[0]);
    CHECK_EQ(io_join(tasks[0]), -ECANCELED);
    unsigned before = server_descriptors();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ALL; i++) {
            asks[i] = (struct ask){.place = place, .name = "silent.test", .until = i % 3 == 2 ? weft_after(5 * MS) : 0};
            tasks[i] = io_go(NULL, ask_main, &asks[i]);
        }
        if (round)
            for (int i = 0; i < ALL; i++)
                if (i % 3 != 2)
                    io_until_it_waits(tasks[i]);
        for (int i = 0; i < ALL; i++)
            if (i % 3 != 2)
                (void)weft_task_cancel(tasks[i]);
        for (int i = 0; i < ALL; i++)
            CHECK_EQ(io_join(tasks[i]), i % 3 == 2 ? -ETIMEDOUT : -ECANCELED);
        CHECK_EQ(server_descriptors(), before);
        REQUIRE_EQ(weft_cares_resolve(place->cares, "four.test", "80", AF_INET, addrs, 2, fixture_soon()), 1);
        CHECK_EQ(server_descriptors(), before);
    }
    return 0;
}
API_TEST(cares_all_leave, "", .workers = {1}) { run_place(all_leave, 60000); }

/* Cancels at any moment against answers: whoever was not cancelled has its answer. */
static int storm(void *arg) {
    struct place *place = arg;
    uint64_t state = harness_seed();
    enum { CROWD = 16 };
    static struct ask asks[CROWD];
    weft_task *tasks[CROWD];
    for (int round = 0; round < (harness_is_slow() ? 5 : 15); round++) {
        bool cancelled[CROWD];
        for (int i = 0; i < CROWD; i++) {
            asks[i] = (struct ask){.place = place, .name = i % 5 ? "four.test" : "many.test"};
            tasks[i] = io_go(NULL, ask_main, &asks[i]);
            if (harness_random(&state) % 4 == 0)
                (void)weft_yield();
        }
        for (int i = 0; i < CROWD; i++) {
            cancelled[i] = harness_random(&state) % 2;
            if (cancelled[i])
                (void)weft_task_cancel(tasks[i]);
            if (harness_random(&state) % 8 == 0)
                (void)weft_yield();
        }
        for (int i = 0; i < CROWD; i++) {
            int status = io_join(tasks[i]);
            CHECK(status == 0 || (cancelled[i] && status == -ECANCELED));
            if (status == 0)
                CHECK_EQ(asks[i].result, i % 5 ? 1 : 12);
        }
    }
    return 0;
}
API_TEST(cares_storm, "", .workers = {1, 4}) { run_place(storm, 5000); }

/* -- A runtime stops ------------------------------------------------------------------------------------------------------ */

API_TEST(cares_stop, "", .workers = {2}) {
    struct place place;
    if (fixture_on("sim"))
        SKIP("virtual time does not wait for other threads");
    begin_place(&place, 60000);
    unsigned before = server_descriptors();
    weft_runtime *rt = fixture_begin_patient(), *other = fixture_begin_patient();
    REQUIRE_EQ(weft_cares_use(rt, place.cares), 0);
    static struct ask asks[8], apart;
    weft_task *tasks[8];
    for (int i = 0; i < 8; i++) {
        asks[i] = (struct ask){.place = &place, .name = i % 2 ? "silent.test" : "late.test"};
        tasks[i] = io_go(rt, ask_main, &asks[i]);
    }
    REQUIRE_EVENTUALLY(atomic_load(&place.server.asked) >= 8);
    apart = (struct ask){.place = &place, .name = "late.test"};
    weft_task *stays = io_go(other, ask_main, &apart);
    REQUIRE_EVENTUALLY(atomic_load(&place.server.held) == 5);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(tasks[i]).status, -ECANCELED);
    harness_on_hang(NULL, NULL);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
    atomic_store(&place.server.released, true); /* the other runtime's goes on */
    CHECK_EQ(fixture_finish(stays).status, 0);
    CHECK_EQ(apart.result, 1);
    fixture_end(other);
    CHECK_EQ(server_descriptors(), before);
    end_place(&place);
}

/* -- As the runtime's resolver ---------------------------------------------------------------------------------------------- */

static int serve_one(void *listener) {
    weft_io *io;
    char byte;
    int error = weft_accept(listener, &io, NULL, fixture_soon());
    CHECK_EQ(error, 0);
    CHECK_EQ(weft_read(io, &byte, 1, fixture_soon()), 1);
    return weft_close(io);
}

static int used(void *arg) {
    struct place *place = arg;
    weft_addr addrs[16], at;
    weft_io *listener, *io;
    CHECK_EQ(weft_resolve("four.test", "80", 0, addrs, 16, fixture_soon()), 1);
    CHECK(addr_is(&addrs[0], "127.0.0.1:80"));
    CHECK_EQ(weft_resolve("none.test", "80", 0, addrs, 16, fixture_soon()), -ENOENT);
    CHECK_EQ(atomic_load(&place->server.asked), 4);
    /* Of two addresses nobody listens at one: the other answers. */
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &at), 0);
    char text[80];
    weft_addr_format(&at, text, sizeof text);
    weft_task *server = io_go(NULL, serve_one, listener);
    REQUIRE_EQ(weft_tcp_connect("both.test", atoi(strrchr(text, ':') + 1), &io, fixture_soon()), 0);
    CHECK_EQ(weft_write(io, "x", 1, fixture_soon()), 1);
    CHECK_EQ(io_join(server), 0);
    weft_close(io), weft_close(listener);
    CHECK_EQ(weft_tcp_connect("none.test", 80, &io, fixture_soon()), -ENOENT);
    CHECK_EQ(weft_resolve("silent.test", "80", AF_INET, addrs, 16, weft_after(5 * MS)), -ETIMEDOUT);
    while (atomic_load(&place->server.asked) < 9) /* the last question may be on its way still */
        (void)weft_sleep(MS);
    unsigned asked = atomic_load(&place->server.asked);
    CHECK_EQ(weft_cares_use(NULL, NULL), 0); /* the system again */
    CHECK_GT(weft_resolve("localhost", "80", 0, addrs, 16, fixture_soon()), 0);
    CHECK_EQ(atomic_load(&place->server.asked), asked);
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_cares_use(NULL, place->cares), 0);
    CHECK_EQ(weft_cares_resolve(place->cares, "127.0.0.1", "80", 0, addrs, 16, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_resolve("four.test", "80", 0, addrs, 16, WEFT_NEVER), -ECANCELED);
    return 0;
}

API_TEST(cares_used, "", .workers = {1, 2}) {
    struct place place;
    begin_place(&place, 60000);
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_cares_use(rt, place.cares), 0);
    CHECK_EQ(weft_cares_use(NULL, place.cares), -EINVAL); /* no runtime here */
    weft_cares_free(place.cares); /* the runtime keeps it */
    place.cares = server_channel(&place.server, 60000, NULL);
    fixture_finish(io_go(rt, used, &place)); /* it has cancelled itself */
    fixture_end(rt);
    end_place(&place);
}

static weft_poll in_a_poll(weft_task *self, void *arg) {
    struct place *place = arg;
    weft_addr addrs[2];
    CHECK_EQ(weft_cares_resolve(place->cares, "four.test", "80", 0, addrs, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_resolve("four.test", "80", 0, addrs, 2, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}
API_TEST(cares_not_in_a_poll, "", .workers = {1}) {
    struct place place;
    begin_place(&place, 60000);
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_cares_use(rt, place.cares), 0);
    fixture_finish(fixture_go(rt, in_a_poll, &place));
    fixture_end(rt);
    end_place(&place);
}
