/* timers.c - alarms set, cleared and rung at the same time; and the whole runtime with tasks that sleep. */
#include "model.h"
#include "model_rt.h"
#include "sched/sched.h"

#define MS INT64_C(1000000)

/* -- The owner, another worker that rings for it, and the task -------------------------------------------------- */

static struct weft_runtime hand;
static struct wefti_worker worker[2];
static struct weft_task task[2]; /* being run: a wake only notes itself */

static bool has_no_work(struct wefti_worker *w) { return w == NULL; }
static const struct wefti_sched idle_sched = {.name = "model", .has_work = has_no_work};

static struct wefti_alarm *begin(void) {
    hand.workers = 2;
    hand.worker = worker;
    for (uint32_t i = 0; i < 2; i++) {
        worker[i].rt = &hand;
        worker[i].sched = &idle_sched;
        worker[i].index = i;
        worker[i].shared = true;
        store_relaxed(&worker[i].timers_next, INT64_MAX);
        wefti_word_spawn(&task[i].word, false);
        wefti_word_enter(&task[i].word);
    }
    return wefti_alloc(sizeof(struct wefti_alarm));
}

static bool was_woken(int i) { return load_relaxed(&task[i].word) & WEFTI_NOTIFIED; }

static void ring(void *unused) {
    (void)unused;
    wefti_timers_run(&worker[0], 10 * MS);
}

static void help(void *unused) {
    (void)unused;
    wefti_timers_help(&worker[1], 10 * MS);
}

/* The task goes on for another reason, and takes its alarm with it. */
static void clear(void *alarm) {
    wefti_alarm_clear(alarm);
    wefti_free(alarm, sizeof(struct wefti_alarm));
}

static void clear_against_ring(void) {
    struct wefti_alarm *alarm = begin();
    wefti_alarm_set(&worker[0], alarm, &task[0], MS);
    int a = mc_spawn(mc_arg() & 1 ? help : ring, NULL), b = mc_spawn(clear, alarm);
    if (mc_arg() & 2)
        ring(NULL);
    mc_join(a);
    mc_join(b);
    mc_assert(!wefti_timers_any(&worker[0]));
    mc_outcome("%s", was_woken(0) ? "rang" : "cleared");
}
MC_CASE(timers_clear_or_ring, clear_against_ring, .arg = 0, .proves = "R15", .bound = MC_UNBOUNDED,
        .mode = MC_SLEEP_SETS, .outcomes = "rang cleared");
MC_CASE(timers_clear_or_help, clear_against_ring, .arg = 1, .proves = "R15", .bound = 3, .outcomes = "rang cleared");
MC_CASE(timers_clear_ring_help, clear_against_ring, .arg = 3, .proves = "R15", .bound = 2, .outcomes = "rang cleared");

/* The owner sets a second one while another worker rings the first. */
MC_TEST(timers_set_against_help, .bound = 3) {
    struct wefti_alarm *first = begin(), *second = wefti_alloc(sizeof *second);
    wefti_alarm_set(&worker[0], first, &task[0], MS);
    int helper = mc_spawn(help, NULL);
    wefti_alarm_set(&worker[0], second, &task[1], 5000 * MS);
    mc_join(helper);
    mc_assert(was_woken(0) && !was_woken(1));
    mc_assert(load_relaxed(&worker[0].timers_next) <= 5000 * MS); /* the sleeper does not miss it */
    clear(first);
    clear(second);
    mc_assert(!wefti_timers_any(&worker[0]));
}

/* Who was woken by its alarm sees that it rang, and goes. */
static void wait_for_alarm(void *alarm) {
    while (!(load_acquire(&task[0].word) & WEFTI_NOTIFIED))
        wefti_relax();
    mc_assert(load_relaxed(&((struct wefti_alarm *)alarm)->timer.rang));
    clear(alarm);
}

MC_TEST(timers_woken_means_rang, .proves = "R15", .bound = 3) {
    struct wefti_alarm *alarm = begin();
    wefti_alarm_set(&worker[0], alarm, &task[0], MS);
    int waiter = mc_spawn(wait_for_alarm, alarm), helper = mc_spawn(help, NULL);
    ring(NULL);
    mc_join(waiter);
    mc_join(helper);
}

/* A poll that finds that its alarm rang, without having been woken for that, may do with the memory what it likes. */
static int64_t until;

static void ring_then(void *unused) {
    (void)unused;
    wefti_timers_run(&worker[0], until + MS);
}

MC_TEST(timers_sleep_poll_rang, .proves = "R15", .bound = 3) {
    struct wefti_alarm *unused = begin();
    wefti_free(unused, sizeof *unused);
    weft_wait *wait = wefti_alloc(sizeof *wait);
    worker[0].current = &task[0];
    wefti_self_set(&worker[0]);
    until = wefti_clock() + MS;
    mc_assert(weft_sleep_poll(&task[0], wait, until) == -EAGAIN);
    int other = mc_spawn(ring_then, NULL);
    while (weft_sleep_poll(&task[0], wait, until) == -EAGAIN)
        wefti_relax();
    wefti_free(wait, sizeof *wait);
    wefti_self_set(NULL);
    mc_join(other);
}

/* Not early, and only what is overdue is rung for others. */
MC_TEST(timers_help_only_late) {
    struct wefti_alarm *alarm = begin();
    wefti_alarm_set(&worker[0], alarm, &task[0], 10 * MS);
    mc_assert(!wefti_timers_run(&worker[0], 10 * MS - 1));
    mc_assert(!wefti_timers_overdue(&worker[1], 11 * MS - 1));
    mc_assert(!wefti_timers_help(&worker[1], 11 * MS - 1));
    wefti_timers_help_one(&worker[1], 11 * MS - 1);
    mc_assert(!was_woken(0));
    mc_assert(wefti_timers_overdue(&worker[1], 11 * MS));
    if (mc_choose(2)) {
        mc_assert(wefti_timers_help(&worker[1], 11 * MS));
    } else {
        wefti_timers_help_one(&worker[1], 11 * MS); /* one of the two times it is worker 0's turn */
        wefti_timers_help_one(&worker[1], 11 * MS);
    }
    mc_assert(was_woken(0) && wefti_timers_next(&worker[0]) == INT64_MAX);
    clear(alarm);
}

/* -- The whole runtime ------------------------------------------------------------------------------------------- */

static weft_runtime *rt;
static _Atomic int woke;
static _Atomic uint32_t release;

static void start(weft_sched sched, unsigned workers, int64_t park_timeout) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = sched;
    config.workers = workers;
    config.seed = 1;
    config.park_timeout_ns = park_timeout;
    rt = model_create(&config);
}

static void stop(int expect) {
    mc_atomic_begin();
    mc_assert(weft_runtime_stop(rt, expect ? WEFT_NOW : WEFT_NEVER) == expect);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

struct sleeper {
    weft_wait wait;
    weft_deadline until;
};

static weft_poll nap(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->until)
        s->until = weft_after(3 * MS);
    if (weft_sleep_poll(self, &s->wait, s->until) == -EAGAIN)
        return WEFT_PENDING;
    mc_assert(weft_now() >= s->until);
    add_relaxed(&woke, 1);
    store_release(&release, 1);
    wefti_futex_wake(&release, 1);
    return weft_done(self, 0, NULL);
}

static void end_wait(void *state) { weft_wait_end(&((struct sleeper *)state)->wait); }

static weft_task *go_nap(void) {
    weft_task *sleeper;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = nap;
    spec.state_size = sizeof(struct sleeper);
    spec.drop = end_wait;
    mc_assert(weft_spawn(rt, &spec, &sleeper) == 0);
    return sleeper;
}

/* Time passes only when nothing else can: a worker that slept without limit would be a deadlock. */
static void sleep_and_join(void) {
    start((weft_sched)(mc_arg() & 0xff), (unsigned)mc_arg() >> 8, -1);
    weft_task *sleeper = go_nap();
    mc_assert(weft_join(sleeper, NULL, WEFT_NEVER) == 0);
    mc_assert(load_relaxed(&woke) == 1);
    weft_task_drop(sleeper);
    stop(0);
}
#define ON(workers, sched) ((workers) << 8 | (sched))
MC_CASE(rt_sleep_ring, sleep_and_join, .arg = ON(1, WEFT_SCHED_RING), .proves = "R15", .bound = 2, .stale_counts = true,
        .idle_timeouts = 4, .seconds = 4);
MC_CASE(rt_sleep_sim, sleep_and_join, .arg = ON(1, WEFT_SCHED_SIM), .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(rt_sleep_two_ring, sleep_and_join, .arg = ON(2, WEFT_SCHED_RING), .proves = "R15", .mode = MC_PCT,
        .idle_timeouts = 4, .max_exec = 5000);
MC_CASE(rt_sleep_two_deque, sleep_and_join, .arg = ON(2, WEFT_SCHED_DEQUE), .proves = "R15", .mode = MC_PCT,
        .idle_timeouts = 4, .max_exec = 5000);
MC_CASE(rt_sleep_two_fifo, sleep_and_join, .arg = ON(2, WEFT_SCHED_FIFO), .proves = "R15", .mode = MC_PCT,
        .idle_timeouts = 4, .max_exec = 5000);

/* Cancelled while it falls asleep, sleeps, or is woken by its timer. */
static void sleep_and_cancel(void) {
    start((weft_sched)(mc_arg() & 0xff), (unsigned)mc_arg() >> 8, -1);
    weft_task *sleeper = go_nap();
    weft_task_cancel(sleeper);
    weft_result result;
    mc_assert(weft_join(sleeper, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == (load_relaxed(&woke) ? 0 : -ECANCELED));
    weft_task_drop(sleeper);
    stop(0);
}
MC_CASE(rt_sleep_cancel, sleep_and_cancel, .arg = ON(1, WEFT_SCHED_RING), .bound = 2, .stale_counts = true,
        .timeouts = 1, .seconds = 4);
MC_CASE(rt_sleep_cancel_two, sleep_and_cancel, .arg = ON(2, WEFT_SCHED_RING), .mode = MC_PCT, .timeouts = 2,
        .max_exec = 5000);

/* The worker that has the timer is kept in a poll until the sleeper has gone on: another rings it.  The watch goes by hints, so here
 * no load returns an old value. */
static weft_poll stay(weft_task *self, void *state) {
    (void)state;
    while (!load_acquire(&release))
        wefti_futex_wait(&release, 0, INT64_MAX);
    return weft_done(self, 0, NULL);
}

static weft_poll nap_and_stick(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->until)
        mc_assert(weft_go(NULL, stay, NULL, NULL) == 0);
    return nap(self, state);
}

MC_TEST(rt_sleep_stuck, .proves = "B46", .mode = MC_PCT, .idle_timeouts = 40, .stale_depth = MC_NO_STALE,
        .max_exec = 3000) {
    start(WEFT_SCHED_RING, 2, 0);
    weft_task *sleeper;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = nap_and_stick;
    spec.state_size = sizeof(struct sleeper);
    spec.drop = end_wait;
    mc_assert(weft_spawn(rt, &spec, &sleeper) == 0);
    mc_assert(weft_join(sleeper, NULL, WEFT_NEVER) == 0);
    weft_task_drop(sleeper);
    stop(0);
}

/* Driven: the driver sleeps until the timer. */
MC_TEST(rt_sleep_driven, .bound = 2, .stale_counts = true, .idle_timeouts = 4, .seconds = 4) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    config.seed = 1;
    config.driven = true;
    mc_assert(weft_runtime_create(&config, &rt) == 0);
    weft_task *sleeper = go_nap();
    while (!load_relaxed(&woke))
        mc_assert(weft_drive_wait(rt, 0, WEFT_NEVER) > 0);
    weft_task_drop(sleeper);
    stop(0);
}
