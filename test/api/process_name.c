/* process_name.c - names, and groups with publish. */
#include "process.h"

API_TEST(process_names, "W10", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid a = go_process(rt, echo_server, NULL), b = 0, c = 7;
    weft_task *task;
    CHECK_EQ(weft_whereis(rt, "a"), WEFT_PID_NONE);
    CHECK_EQ(weft_register(rt, "a", a), 0);
    CHECK_EQ(weft_register(rt, "also a", a), 0);
    CHECK_EQ(weft_whereis(rt, "a"), a);
    CHECK_EQ(weft_whereis(rt, "also a"), a);
    CHECK_EQ(weft_register(rt, "a", a), -EEXIST);
    CHECK_EQ(weft_register(rt, "costarring", a), 0);
    CHECK_EQ(weft_whereis(rt, "liquid"), WEFT_PID_NONE); /* has the same hash */
    CHECK_EQ(weft_register(rt, "b", 12345), -ESRCH);
    CHECK_EQ(weft_register(rt, "", a), -EINVAL);
    CHECK_EQ(weft_register(rt, NULL, a), -EINVAL);
    CHECK_EQ(weft_register(NULL, "x", a), -EINVAL);
    char name[65];
    memset(name, 'n', sizeof name);
    name[64] = 0;
    CHECK_EQ(weft_register(rt, name, a), -EINVAL);
    name[63] = 0;
    CHECK_EQ(weft_register(rt, name, a), 0);
    CHECK_EQ(weft_whereis(rt, name), a);
    CHECK_EQ(weft_unregister(rt, name), 0);
    CHECK_EQ(weft_unregister(rt, name), -ESRCH);
    CHECK_EQ(weft_whereis(rt, name), WEFT_PID_NONE);
    spec.fn = echo_server;
    spec.registered = "b";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &b, &task), 0);
    CHECK_EQ(weft_whereis(rt, "b"), b);
    CHECK_EQ(weft_register(rt, "b", a), -EEXIST);
    weft_task *none = NULL;
    CHECK_EQ(weft_process_spawn(rt, &spec, &c, &none), -EEXIST); /* refused, and nothing is left of it */
    CHECK_EQ(c, 7);
    CHECK_EQ(none, NULL);
    CHECK_EQ(weft_process_count(rt), 2);
    end_server(rt, b, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_whereis(rt, "b"), WEFT_PID_NONE); /* free again */
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &b, NULL), 0);
    CHECK_EQ(weft_whereis(rt, "b"), b);
    CHECK_EQ(weft_whereis(rt, "a"), a);
    fixture_end(rt);
}

/* A class whose name is taken has had its init: it is closed. */
static atomic_int opened;
static int open_it(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)self, (void)method, (void)input, (void)size;
    atomic_fetch_add(&opened, 1);
    return 0;
}
static void close_it(void *state) {
    (void)state;
    atomic_fetch_sub(&opened, 1);
}
static int never_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count, (void)out;
    REQUIRE(!"never");
    return 0;
}
API_TEST(process_name_taken_closes, "W6", .workers = {1}) {
    static const weft_process_class class_ = {
        .size = sizeof class_, .init = open_it, .step = never_step, .close = close_it};
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid a = go_process(rt, echo_server, NULL);
    CHECK_EQ(weft_register(rt, "a", a), 0);
    spec.class_ = &class_;
    spec.registered = "a";
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EEXIST);
    CHECK_EQ(atomic_load(&opened), 0);
    fixture_end(rt);
}

/* Whoever finds that it has ended finds its name free: also in the midst of its end, when what it has not read is released. */
static weft_pid named;
static atomic_int released;
static void take_name(void *arg) {
    weft_pid me = *(weft_pid *)arg;
    CHECK(!weft_process_is_alive(NULL, named));
    CHECK_EQ(weft_whereis(NULL, "a"), WEFT_PID_NONE);
    CHECK_EQ(weft_register(NULL, "a", me), 0);
    CHECK_EQ(weft_publish(NULL, "g", 0, NULL, 0), 0);
    atomic_fetch_add(&released, 1);
}
static int name_of_the_ended(void *arg) {
    weft_pid me = weft_self();
    (void)arg;
    named = go_process(NULL, sit, NULL);
    REQUIRE_EQ(weft_register(NULL, "a", named), 0);
    REQUIRE_EQ(weft_group_join(NULL, "g", named), 0);
    REQUIRE_EQ(weft_process_exit(NULL, named, -EIO), 0); /* it does not read any more */
    int error = weft_send_ref(NULL, named, 0, &me, sizeof me, take_name);
    if (!error) {
        UNTIL(atomic_load(&released));
        CHECK_EQ(weft_whereis(NULL, "a"), me);
    }
    REQUIRE(error == 0 || error == -ESRCH); /* it has ended meanwhile */
    return 0;
}
API_TEST(process_name_free_at_end, "W6 W10", .workers = {1, 2}) { in_process(name_of_the_ended, NULL); }

/* -- Groups. */

static atomic_uint heard;
static int listener(void *arg) {
    weft_message m;
    (void)arg;
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error || m.type == WEFT_MESSAGE_CANCEL || m.tag == TAG_END)
            return error;
        CHECK_EQ(memcmp(m.data, "news", 4), 0);
        atomic_fetch_add(&heard, 1);
    }
}

API_TEST(process_groups, "W10 W31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    enum { COUNT = 200 }; /* more than publish keeps on its stack */
    weft_pid pid[COUNT];
    CHECK_EQ(weft_publish(rt, "readers", 1, "news", 4), 0);
    for (int i = 0; i < COUNT; i++) {
        pid[i] = go_process(rt, listener, NULL);
        CHECK_EQ(weft_group_join(rt, "readers", pid[i]), 0);
        CHECK_EQ(weft_publish(rt, "readers", 1, "news", 4), i + 1); /* as many as fit there, and one more */
    }
    REQUIRE_EVENTUALLY(atomic_load(&heard) == COUNT * (COUNT + 1) / 2);
    atomic_store(&heard, 0);
    CHECK_EQ(weft_group_join(rt, "readers", pid[0]), -EEXIST);
    CHECK_EQ(weft_group_join(rt, "readers", 12345), -ESRCH);
    CHECK_EQ(weft_group_join(rt, "others", pid[0]), 0);
    CHECK_EQ(weft_register(rt, "readers", pid[0]), 0); /* a name is no group */
    CHECK_EQ(weft_publish(rt, "readers", 1, "news", 4), COUNT);
    REQUIRE_EVENTUALLY(atomic_load(&heard) == COUNT);
    CHECK_EQ(weft_group_leave(rt, "readers", pid[5]), 0);
    CHECK_EQ(weft_group_leave(rt, "readers", pid[5]), -ESRCH);
    CHECK_EQ(weft_group_leave(rt, "readers", WEFT_PID_NONE), -ESRCH);
    end_server(rt, pid[6], 0);
    REQUIRE_EVENTUALLY(weft_publish(rt, "readers", 1, "news", 4) == COUNT - 2);
    CHECK_EQ(weft_publish(rt, "others", 1, "news", 4), 1);
    CHECK_EQ(weft_publish(rt, "", 1, "news", 4), -EINVAL);
    fixture_end(rt);
}

/* One in the midst leaves, then its neighbours; what it was in is not theirs. */
API_TEST(process_groups_shrink, "W10", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pid pid[5];
    static const int order[] = {2, 1, 3, 0};
    for (int i = 0; i < 5; i++) {
        pid[i] = go_process(rt, listener, NULL);
        CHECK_EQ(weft_group_join(rt, "few", pid[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_group_leave(rt, "few", pid[order[i]]), 0);
        CHECK_EQ(weft_publish(rt, "few", 1, "news", 4), 4 - i);
    }
    CHECK_EQ(weft_group_join(rt, "few", pid[2]), 0);
    CHECK_EQ(weft_publish(rt, "few", 1, "news", 4), 2);
    fixture_end(rt);
}
