/* process_profile.c - which profiles have processes: none, cluster and sovereign; core and service
 * refuse them. */
#include "fixture.h"

static int nop(void *arg) { return (void)arg, 0; }

static int end_at_once(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_DONE;
    return 0;
}

static void profile_has(weft_profile profile, int expected) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = end_at_once};
    weft_config config = WEFT_CONFIG_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_caps caps;
    weft_pid pid = 7;
    config.profile = profile;
    config.caps = &caps;
    weft_runtime *rt = fixture_begin(&config);
    spec.fn = nop;
    spec.cap = profile == WEFT_PROFILE_SOVEREIGN ? &caps.spawn : NULL;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), expected);
    spec.cap = NULL;
    spec.fn = NULL;
    spec.class_ = &class_;
    if (profile != WEFT_PROFILE_SOVEREIGN) /* whose classes have no capability */
        CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), expected);
    if (expected) {
        CHECK_EQ(pid, 7);
        CHECK_EQ(weft_process_go(rt, nop, NULL, NULL), expected);
        CHECK_EQ(weft_process_count(rt), 0);
        CHECK_EQ(fixture_stats(rt).denied, 3);
        CHECK_EQ(fixture_stats(rt).spawned, 0);
    } else {
        REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
    }
    fixture_end(rt);
}

/* All processes of a runtime with a profile can be stopped; a profile that has none allows the stop's own. */
static int wait_for_cancel(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0)
        if (m.type == WEFT_MESSAGE_CANCEL)
            return 0;
    return -ECANCELED;
}
static void stop_all_under(weft_profile profile, int expected) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_process_left left[1];
    weft_caps caps;
    config.profile = profile;
    config.caps = &caps;
    weft_runtime *rt = fixture_begin(&config);
    spec.fn = wait_for_cancel;
    spec.cap = profile == WEFT_PROFILE_SOVEREIGN ? &caps.spawn : NULL;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), expected);
    uint64_t denied = fixture_stats(rt).denied;
    CHECK_EQ(weft_process_stop_all(rt, fixture_soon(), left, 1), 0);
    CHECK_EQ(weft_process_count(rt), 0);
    CHECK_EQ(fixture_stats(rt).denied, denied);
    CHECK_EQ(weft_process_stop_all(rt, fixture_soon(), NULL, 0), -EBUSY);
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), expected ? expected : -ESHUTDOWN);
    fixture_end(rt);
}
API_TEST(profile_none_stops_all, "J3 W36", .workers = {1, 2}) { stop_all_under(WEFT_PROFILE_NONE, 0); }
API_TEST(profile_core_stops_all, "J1 W36", .workers = {1, 2}) { stop_all_under(WEFT_PROFILE_CORE, -EPERM); }
API_TEST(profile_service_stops_all, "J2 W36", .workers = {1, 2}) { stop_all_under(WEFT_PROFILE_SERVICE, -EPERM); }
API_TEST(profile_cluster_stops_all, "J3 W36", .workers = {1, 2}) { stop_all_under(WEFT_PROFILE_CLUSTER, 0); }
API_TEST(profile_sovereign_stops_all, "J4 W36", .workers = {1, 2}) { stop_all_under(WEFT_PROFILE_SOVEREIGN, 0); }

API_TEST(profile_none_has_processes, "J3", .workers = {1, 2}) { profile_has(WEFT_PROFILE_NONE, 0); }
API_TEST(profile_core_has_no_processes, "J1", .workers = {1, 2}) { profile_has(WEFT_PROFILE_CORE, -EPERM); }
API_TEST(profile_service_has_no_processes, "J2 J3", .workers = {1, 2}) { profile_has(WEFT_PROFILE_SERVICE, -EPERM); }
API_TEST(profile_cluster_has_processes, "J3", .workers = {1, 2}) { profile_has(WEFT_PROFILE_CLUSTER, 0); }
API_TEST(profile_sovereign_has_processes, "J4", .workers = {1, 2}) { profile_has(WEFT_PROFILE_SOVEREIGN, 0); }
