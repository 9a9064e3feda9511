/* supervise.c - supervisors drawn at random, each start and end held against a model of what supervisor.h says.  Under sim: time is exact. */
#include <weft/supervisor.h>

#include "../api/fixture.h"

#define CHILDREN 5
#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define LIMIT (60 * SECOND)
#define SLACK (5 * MS) /* the time that the steps themselves take */

/* What the model knows. */
struct child {
    enum { DOWN, UP, WAITING } state;
    unsigned starts;
    int64_t began, pause, soonest, latest; /* the last two: of its next start */
};

static struct {
    uint64_t seed, random;
    size_t count;
    weft_supervised_fiber spec[CHILDREN]; /* of processes, what they have in common with fibers */
    weft_supervisor_config config;
    struct child child[CHILDREN];
    int64_t begun, limit, restart[64]; /* when it decided to start something again */
    unsigned restarts, told;
    size_t sweeps; /* children from there on are being ended, newest first; CHILDREN: none is */
    bool gave_up, close_call;
    int why;
    unsigned all_restarts, all_gave_up, all_ended, all_late;
} sup;

#define MUST(claim)                                                                                                    \
    ((claim)                                                                                                           \
         ? (void)0                                                                                                     \
         : harness_fail(__FILE__, __LINE__, "seed %ju, event %u: expected %s", (uintmax_t)sup.seed, sup.told, #claim))

static unsigned draw(unsigned below) { return (unsigned)(harness_random(&sup.random) >> 24) % below; }

/* Lives for a while, and ends well or badly; now and then not at all. */
static int live(void *arg) {
    (void)arg;
    unsigned what = draw(10);
    int error = what == 0 ? weft_sleep_until(WEFT_NEVER) : weft_sleep(draw(10) * 700 * MS);
    return error ? error : what < 5 ? -EIO : what < 6 ? -EPROTO : 0;
}

/* The same, of a process: asked to end, it takes a moment. */
static int live_as_process(void *arg) {
    (void)arg;
    unsigned what = draw(10);
    int64_t until = what == 0 ? WEFT_NEVER : weft_after(draw(10) * 700 * MS);
    weft_message m;
    int error = weft_receive(&m, NULL, NULL, until);
    if (!error && draw(2))
        weft_sleep(draw(150) * MS);
    return error != -ETIMEDOUT ? -ECANCELED : what < 5 ? -EIO : what < 6 ? -EPROTO : 0;
}

static bool is_close(int64_t a, int64_t b) { return a - b < SLACK && b - a < SLACK; }

/* It has ended by itself: what has to happen now? */
static void decide(size_t at, int status, int64_t now) {
    struct child *child = &sup.child[at];
    weft_restart restart = sup.spec[at].restart;
    const weft_supervisor_config *config = &sup.config;
    if (restart == WEFT_RESTART_TEMPORARY || (restart == WEFT_RESTART_TRANSIENT && status == 0))
        return;
    if (config->intensity && sup.restarts >= config->intensity) {
        int64_t since = now - sup.restart[(sup.restarts - config->intensity) % 64];
        sup.close_call = sup.close_call || is_close(since, 5 * SECOND);
        if (since < 5 * SECOND) {
            sup.gave_up = true;
            sup.why = status < 0 ? status : -ELOOP;
            return;
        }
    }
    sup.restart[sup.restarts++ % 64] = now;
    sup.all_restarts++;
    if (now - child->began + SLACK / 2 >= 5 * SECOND)
        child->pause = 0;
    child->pause = child->pause ? child->pause * 2 : SECOND;
    if (child->pause > 90 * SECOND)
        child->pause = 90 * SECOND;
    size_t first = config->strategy == WEFT_STRATEGY_ONE_FOR_ALL ? 0 : at;
    size_t last = config->strategy == WEFT_STRATEGY_ONE_FOR_ONE ? at : sup.count - 1;
    if (config->strategy != WEFT_STRATEGY_ONE_FOR_ONE)
        sup.sweeps = first;
    for (size_t i = first; i <= last; i++) {
        struct child *other = &sup.child[i];
        if (other->state == WAITING)
            other->state = DOWN;
        other->soonest = now + child->pause - child->pause / 9;
        other->latest =
            sup.spec[i].restart == WEFT_RESTART_TEMPORARY ? 0 : now + child->pause + child->pause / 9 + SLACK;
        if (i == at && other->latest)
            other->state = WAITING;
    }
}

/* Nothing of a sweep is left that runs: those wait now. */
static void sweep_on(void) {
    if (sup.sweeps == CHILDREN)
        return;
    for (size_t i = sup.sweeps; i < sup.count; i++)
        if (sup.child[i].state == UP)
            return;
    for (size_t i = sup.sweeps; i < sup.count; i++)
        sup.child[i].state = !sup.gave_up && sup.child[i].latest ? WAITING : DOWN;
    sup.sweeps = CHILDREN;
}

static void report(void *arg, size_t at, weft_supervised what, int status) {
    (void)arg;
    struct child *child = &sup.child[at];
    int64_t now = weft_now();
    bool late = now - sup.begun >= sup.limit; /* cancelled */
    sup.told++;
    sweep_on();
    switch (what) {
    case WEFT_SUPERVISED_STARTED:
        MUST(!sup.gave_up && sup.sweeps == CHILDREN && now - sup.begun < sup.limit + SLACK);
        if (sup.told <= sup.count) {
            MUST(at == sup.told - 1 && child->starts == 0);
        } else {
            MUST(child->state == WAITING && now >= child->soonest && now <= child->latest);
            for (size_t i = 0; i < at && sup.config.strategy != WEFT_STRATEGY_ONE_FOR_ONE; i++) /* in order */
                MUST(sup.child[i].state != WAITING || sup.child[i].latest != child->latest);
            MUST(sup.spec[at].restart != WEFT_RESTART_TEMPORARY);
        }
        child->state = UP;
        child->starts++;
        child->began = now;
        break;
    case WEFT_SUPERVISED_ENDED:
        MUST(child->state == UP);
        child->state = DOWN;
        if (late) { /* all at once */
            sup.close_call = sup.close_call || (status != -ECANCELED && is_close(now - sup.begun, sup.limit));
            break;
        }
        if (sup.sweeps == CHILDREN && !sup.gave_up) {
            decide(at, status, now);
            break;
        }
        MUST(sup.gave_up || at >= sup.sweeps);
        for (size_t i = at + 1; i < sup.count; i++) /* newest first */
            MUST(sup.child[i].state != UP);
        break;
    default: MUST((sup.gave_up && sup.sweeps == CHILDREN) || sup.close_call); sup.all_gave_up++;
    }
}

static int supervise(void *arg) {
    (void)arg;
    return weft_supervise(&sup.config, sup.spec, sup.count);
}

static int supervise_processes(void *arg) {
    weft_process_child child[CHILDREN];
    (void)arg;
    for (size_t i = 0; i < sup.count; i++) {
        child[i] = (weft_process_child)WEFT_PROCESS_CHILD(NULL, live_as_process, NULL);
        child[i].restart = sup.spec[i].restart;
    }
    return weft_process_supervise(&sup.config, child, sup.count);
}

/* How it ended, if need be at the limit; -ETIMEDOUT for that, as of fibers. */
static int supervise_within_limit(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    uint64_t monitor;
    weft_message m;
    spec.fn = supervise_processes;
    REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
    int error = weft_receive(&m, NULL, NULL, sup.begun + sup.limit);
    if (error) {
        REQUIRE_EQ(weft_process_cancel(NULL, pid), 0);
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    }
    return error && m.error == -ECANCELED ? -ETIMEDOUT : m.error;
}

static int one_run(void *arg) {
    sup.begun = weft_now();
    int status = arg ? supervise_within_limit() : weft_timeout(sup.limit, supervise, NULL);
    for (size_t i = 0; i < sup.count; i++)
        MUST(sup.child[i].state != UP);
    if (sup.close_call)
        return 0;
    bool late = weft_now() - sup.begun >= sup.limit;
    MUST(sup.gave_up ? status == sup.why : late ? status == -ETIMEDOUT : status == 0);
    sup.all_late += late;
    sup.all_ended += !late && !sup.gave_up;
    sweep_on();
    for (size_t i = 0; i < sup.count && !late && !sup.gave_up; i++)
        MUST(sup.child[i].state == DOWN);
    return 0;
}

static void many_runs(bool processes) {
    uint64_t first = harness_seed();
    for (unsigned run = 0; run < (harness_is_slow() ? 60 : 400); run++) {
        weft_config config = WEFT_CONFIG_INIT;
        config.seed = sup.seed = sup.random = first + run;
        sup.count = 1 + draw(CHILDREN);
        sup.limit = draw(2) ? LIMIT : (10 + draw(990)) * LIMIT / 1000; /* also in the midst of something */
        sup.config = (weft_supervisor_config)WEFT_SUPERVISOR_CONFIG_INIT;
        sup.config.strategy = (weft_strategy)draw(3);
        sup.config.intensity = draw(5);
        sup.config.report = report;
        for (size_t i = 0; i < sup.count; i++)
            sup.spec[i] = (weft_supervised_fiber){NULL, live, NULL, (weft_restart)draw(3), 0};
        memset(sup.child, 0, sizeof sup.child);
        sup.restarts = sup.told = 0;
        sup.gave_up = sup.close_call = false;
        sup.sweeps = CHILDREN;
        weft_runtime *rt = fixture_begin(&config);
        weft_task *task;
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        spec.fn = one_run;
        spec.arg = processes ? &sup : NULL;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
        fixture_finish(task);
        fixture_end(rt);
    }
    printf("%u restarts, %u gave up, %u ended, %u were cancelled\n", sup.all_restarts, sup.all_gave_up, sup.all_ended,
           sup.all_late);
    CHECK(sup.all_restarts && sup.all_gave_up && sup.all_ended && sup.all_late);
}

API_TEST(random_supervisors, "J3", .sched = "sim", .timeout = 60) { many_runs(false); }
API_TEST(random_process_supervisors, "W6", .sched = "sim", .timeout = 60) { many_runs(true); }
