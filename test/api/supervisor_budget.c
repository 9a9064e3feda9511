/* supervisor_budget.c - supervised fibers with budgets: capabilities, and children that are exhausted. */
#include <unistd.h>

#include <string.h>

#include <weft/cap.h>
#include <weft/supervisor.h>

#include "budget.h"

#define EVENTS 64

static struct {
    weft_caps caps;
    weft_fund *fund;
    weft_chan *chan;
    weft_supervisor_config config;
    weft_restart restart;
    unsigned messages; /* that the child sends */
    atomic_uint sent, runs;
    int status; /* of weft_supervise */
    struct event {
        weft_supervised what;
        int status;
        int64_t at;
    } event[EVENTS];
    unsigned events;
    atomic_bool reported; /* that it is exhausted */
} world;

static unsigned count_of(weft_supervised what) {
    unsigned count = 0;
    for (unsigned i = 0; i < world.events; i++)
        count += world.event[i].what == what;
    return count;
}

static const struct event *first_of(weft_supervised what) {
    for (unsigned i = 0; i < world.events; i++)
        if (world.event[i].what == what)
            return &world.event[i];
    REQUIRE(false);
    return NULL;
}

static void note(void *arg, size_t child, weft_supervised what, int status) {
    (void)arg;
    if (what == WEFT_SUPERVISED_EXHAUSTED)
        world.reported = true;
    CHECK_EQ(child, 0);
    REQUIRE(world.events < EVENTS);
    world.event[world.events++] = (struct event){what, status, weft_now()};
}

static int send_some(void *arg) {
    (void)arg;
    atomic_fetch_add(&world.runs, 1);
    for (unsigned i = 0; i < world.messages; i++) {
        int error = weft_chan_send(world.chan, &i, WEFT_NEVER);
        if (error)
            return error;
        atomic_fetch_add(&world.sent, 1);
    }
    return 0;
}

static int supervise(void *arg) {
    (void)arg;
    const weft_supervised_fiber kid = {"kid", send_some, NULL, world.restart, 0};
    world.status = weft_supervise(&world.config, &kid, 1);
    return 0;
}

static const weft_budget its = {1000, 0, 0, 10, 0};

/* A runtime, a fund with so many channel_ops, and a child with 10 of them that sends `messages`. */
static weft_runtime *open_world(weft_profile profile, unsigned channel_ops, unsigned messages) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = profile;
    config.caps = &world.caps;
    weft_runtime *rt = fixture_begin(&config);
    world.fund = new_fund(rt, (weft_budget){10000, 0, 10, channel_ops, 0});
    REQUIRE_EQ(weft_chan_create(sizeof(unsigned), WEFT_UNBOUNDED, &world.chan), 0);
    world.messages = messages;
    world.restart = WEFT_RESTART_TEMPORARY;
    world.events = 0;
    atomic_store(&world.sent, 0);
    atomic_store(&world.runs, 0);
    world.config = (weft_supervisor_config)WEFT_SUPERVISOR_CONFIG_INIT;
    world.config.fund = world.fund;
    world.config.budget = &its;
    world.config.report = note;
    world.config.recharge = (weft_budget){0, 0, 0, 10, 0};
    return rt;
}

static weft_task *start(weft_runtime *rt) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task = NULL;
    spec.fn = supervise;
    spec.cap = world.caps.spawn.id && weft_runtime_fund(rt) ? &world.caps.spawn : NULL;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    return task;
}

static void close_world(weft_runtime *rt) {
    weft_chan_drop(world.chan);
    end_fund(world.fund);
    fixture_end(rt);
}

/* -- What is done with an exhausted child -------------------------------------------------------------------------- */

/* It is given more as often as it needs, out of the fund. */
API_TEST(supervise_recharges, "J3 J40", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 60, 45);
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, 0);
    CHECK_EQ(atomic_load(&world.sent), 45);
    CHECK_EQ(count_of(WEFT_SUPERVISED_EXHAUSTED), 4);
    CHECK_EQ(count_of(WEFT_SUPERVISED_RECHARGED), 4);
    CHECK_EQ(count_of(WEFT_SUPERVISED_REFUSED), 0);
    weft_budget left;
    weft_fund_left(world.fund, &left);
    CHECK_EQ(left.channel_ops, 15);
    close_world(rt);
}

/* By default as much as a child is born with. */
API_TEST(supervise_recharges_default, "J12 J40", .workers = {1}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 1000, 150);
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    world.config.recharge = (weft_budget){0};
    weft_budget more = {100000, UINT64_C(10) << 20, 0, 0, 1000};
    REQUIRE_EQ(weft_fund_add(world.fund, &more), 0);
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, 0);
    CHECK_EQ(atomic_load(&world.sent), 150);
    CHECK_EQ(count_of(WEFT_SUPERVISED_RECHARGED), 2); /* 10 + 100 + 100 */
    close_world(rt);
}

/* No oftener than its period allows. */
API_TEST(supervise_recharge_period, "J3 J40", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 60, 45);
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    world.config.recharge_period = 3000000;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, 0);
    CHECK_EQ(atomic_load(&world.sent), 45);
    int64_t last = 0;
    for (unsigned i = 0; i < world.events; i++)
        if (world.event[i].what == WEFT_SUPERVISED_RECHARGED) {
            CHECK(!last || world.event[i].at - last >= 2900000); /* noted a moment after it is given */
            last = world.event[i].at;
        }
    CHECK_EQ(count_of(WEFT_SUPERVISED_RECHARGED), 4);
    close_world(rt);
}

/* When the fund is empty it is refused, which is a failure: it would be started again, if there were a budget for it. */
API_TEST(supervise_recharge_ends, "J40", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 35, 45);
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    world.config.backoff_min = -1;
    world.config.intensity = 3;
    world.restart = WEFT_RESTART_TRANSIENT;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, -EDQUOT);
    CHECK_EQ(atomic_load(&world.sent), 30);
    CHECK_EQ(count_of(WEFT_SUPERVISED_RECHARGED), 2);
    CHECK_EQ(count_of(WEFT_SUPERVISED_REFUSED), 1);
    CHECK_EQ(first_of(WEFT_SUPERVISED_REFUSED)->status, -EDQUOT);
    CHECK_EQ(first_of(WEFT_SUPERVISED_ENDED)->status, -EDQUOT);
    close_world(rt);
}

API_TEST(supervise_refuses, "J33 J40", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 100, 45);
    world.config.on_exhausted = WEFT_EXHAUSTED_REFUSE;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, 0); /* a temporary child may fail */
    CHECK_EQ(atomic_load(&world.sent), 10);
    CHECK_EQ(first_of(WEFT_SUPERVISED_REFUSED)->status, 0);
    CHECK_EQ(first_of(WEFT_SUPERVISED_ENDED)->status, -EDQUOT);
    close_world(rt);
}

API_TEST(supervise_policy_invalid, "J40", .workers = {1}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_NONE, 100, 5);
    world.config.on_exhausted = (weft_exhausted_policy)3;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, -EINVAL);
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    world.config.recharge_period = -1;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, -EINVAL);
    close_world(rt);
}

/* -- Nothing stops silently --------------------------------------------------------------------------------------- */

static void run_reported(void *arg) {
    weft_runtime *rt = arg;
    weft_budget more = {0, 0, 0, 40, 0};
    weft_task *task = start(rt), *found = NULL;
    REQUIRE_EQ(weft_fund_wait_exhausted(world.fund, fixture_soon()), 0);
    REQUIRE_EQ(weft_fund_exhausted(world.fund, &found, 1), 1);
    /* Not before the supervisor has come to it: what is recharged at once is not reported. */
    REQUIRE_EVENTUALLY(world.config.report ? world.reported : lseek(STDERR_FILENO, 0, SEEK_END) > 0);
    REQUIRE_EQ(weft_fund_recharge(world.fund, found, &more, NULL), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
}

/* By default others see to it; it is reported, to the supervisor's function or on stderr. */
API_TEST(supervise_reports, "J3 J40", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 100, 45);
    CHECK_STR(fixture_said(run_reported, rt), "");
    CHECK_EQ(count_of(WEFT_SUPERVISED_EXHAUSTED), 1);
    CHECK_EQ(count_of(WEFT_SUPERVISED_RECHARGED) + count_of(WEFT_SUPERVISED_REFUSED), 0);
    CHECK_EQ(atomic_load(&world.sent), 45);
    world.config.report = NULL;
    CHECK_STR(fixture_said(run_reported, rt),
              "weft: fiber \"kid\" has no channel_ops left in its budget, and waits to be recharged\n");
    CHECK_EQ(world.status, 0);
    close_world(rt);
}

static void run_refused(void *arg) { CHECK_EQ(fixture_finish(start(arg)).status, 0); }

API_TEST(supervise_reports_refusal, "J40", .workers = {1}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_CLUSTER, 15, 45);
    world.config.report = NULL;
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    CHECK_STR(fixture_said(run_refused, rt),
              "weft: fiber \"kid\" has no channel_ops left in its budget, and is refused: its fund has too little\n");
    close_world(rt);
}

static int want_channel_ops(void *arg) {
    (void)arg;
    for (unsigned i = 0;; i++) {
        int error = weft_chan_send(world.chan, &i, WEFT_NEVER);
        if (error)
            return error;
    }
}

static void run_unwatched(void *arg) {
    weft_task *task[2];
    for (int i = 0; i < 2; i++) {
        task[i] = charged(arg, world.fund, its, want_channel_ops, NULL);
        REQUIRE_EVENTUALLY(strcmp(weft_task_state(task[i]), "exhausted") == 0);
    }
    for (int i = 0; i < 2; i++) {
        weft_task_cancel(task[i]);
        CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    }
}

/* A fiber without a supervisor, whose fund nobody watches, is reported, the first of each fund. */
API_TEST(exhausted_unwatched, "J11 J13", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_NONE, 100, 0);
    CHECK_STR(fixture_said(run_unwatched, rt),
              "weft: fiber \"fiber\" has no channel_ops left in its budget, and waits to be "
              "recharged: nobody watches its fund\n");
    close_world(rt);
}

/* -- Capabilities ------------------------------------------------------------------------------------------------- */

/* Under `sovereign` the config has what the children are started and recharged with. */
API_TEST(supervise_sovereign, "J4 J7 J40", .workers = {1, 2}) {
    weft_runtime *rt = open_world(WEFT_PROFILE_SOVEREIGN, 100, 25);
    world.config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, -EPERM);
    CHECK_EQ(atomic_load(&world.runs), 0);
    CHECK_EQ(world.events, 0);

    world.config.cap = &world.caps.spawn;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, 0);
    CHECK_EQ(atomic_load(&world.sent), 10);
    CHECK_EQ(first_of(WEFT_SUPERVISED_REFUSED)->status, -EPERM); /* it may be started, and not be recharged */

    world.events = 0;
    world.config.recharge_cap = &world.caps.budget;
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, 0);
    CHECK_EQ(atomic_load(&world.sent), 10 + 25);
    CHECK_EQ(count_of(WEFT_SUPERVISED_RECHARGED), 2);

    weft_grant part = WEFT_GRANT_INIT;
    weft_cap none;
    part.kind = WEFT_CAP_SPAWN;
    REQUIRE_EQ(weft_cap_delegate(rt, &world.caps.spawn, &part, &none), 0);
    world.config.cap = &none; /* no task at all; and no budget as large as its */
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, -EPERM);
    world.config.budget = &(weft_budget){0};
    CHECK_EQ(fixture_finish(start(rt)).status, 0);
    CHECK_EQ(world.status, -EDQUOT);
    close_world(rt);
}
