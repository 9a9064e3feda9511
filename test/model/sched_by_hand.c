/* sched_by_hand.c - workers made by hand: who is woken, who does not sleep, and what a claim hands over.
 *
 * Most of these have one thread: they are about a decision, not about a race.  Worker 1 has announced itself as asleep,
 * and worker 0, on this thread, does something that must wake it. */
#include "sched/jobs.h"

#include "model.h"

static struct weft_runtime rt;
static struct wefti_worker worker[3];
static struct weft_task tasks[4];
static _Atomic int polled;

static weft_poll wait_for_ever(weft_task *self, void *state) {
    (void)self, (void)state;
    add_relaxed(&polled, 1);
    return WEFT_PENDING;
}

static void start(const struct wefti_sched *sched, uint32_t workers) {
    rt.sched = sched;
    rt.workers = rt.idle.workers = workers;
    rt.worker = worker;
    rt.park_timeout = INT64_MAX;
    for (uint32_t i = 0; i < workers; i++) {
        worker[i].rt = &rt;
        worker[i].index = i;
        worker[i].stack_top = UINTPTR_MAX;
        wefti_worker_share(&worker[i], true);
        worker[i].average = worker[i].length = WEFTI_AVERAGE_START;
        worker[i].tick_left = worker[i].global_left = worker[i].global_interval = 100;
        worker[i].watched_polls = UINT64_MAX;
        wefti_random_init(&worker[i].random, i);
    }
    for (int i = 0; i < 4; i++) {
        tasks[i].poll = wait_for_ever;
        wefti_word_spawn(&tasks[i].word, false);
    }
}

/* Claimed by a notify, and woken. */
static bool was_woken(const struct wefti_worker *w) {
    return load_relaxed(&w->claimed) && load_relaxed(&w->park.word) == WEFTI_PARK_NOTIFIED;
}

/* -- Work that pays for a wake is offered to a sleeper at once. */

static void submit(int i, enum wefti_submit why) { worker[0].sched->submit(&worker[0], &tasks[i], why); }

MC_TEST(idle_ring_offers, .proves = "B17 B38") {
    start(&wefti_sched_ring, 2);
    mc_assert(wefti_worker_announce(&worker[1]));
    submit(0, WEFTI_SUBMIT_SPAWN);
    mc_assert(!was_woken(&worker[1])); /* it is in the slot, and about to be run here */
    submit(1, WEFTI_SUBMIT_SPAWN);
    mc_assert(was_woken(&worker[1]));
}

MC_TEST(idle_ring_offers_overflow, .proves = "B9 B38") {
    start(&wefti_sched_ring, 2);
    wefti_worker_share(&worker[0], false); /* no stealing: what overflows is all that others can take */
    static struct weft_task filler[WEFTI_RING_CAP];
    for (uint32_t i = 0; i < WEFTI_RING_CAP; i++)
        worker[0].sched->submit(&worker[0], &filler[i], WEFTI_SUBMIT_AGAIN);
    wefti_idle_announce(&rt.idle, 1);
    submit(0, WEFTI_SUBMIT_AGAIN);
    mc_assert(was_woken(&worker[1]));
}

MC_TEST(idle_deque_offers) {
    start(&wefti_sched_deque, 2);
    mc_assert(wefti_worker_announce(&worker[1]));
    submit(0, WEFTI_SUBMIT_SPAWN);
    mc_assert(was_woken(&worker[1]));
}

MC_TEST(idle_deque_offers_again) {
    start(&wefti_sched_deque, 2);
    mc_assert(wefti_worker_announce(&worker[1]));
    submit(0, WEFTI_SUBMIT_AGAIN);
    mc_assert(was_woken(&worker[1]));
}

MC_TEST(idle_deque_offers_overflow, .proves = "W18") {
    start(&wefti_sched_deque, 2);
    wefti_worker_share(&worker[0], false);
    static struct weft_task filler[WEFTI_DEQUE_CAP];
    for (uint32_t i = 0; i < WEFTI_DEQUE_CAP; i++)
        worker[0].sched->submit(&worker[0], &filler[i], WEFTI_SUBMIT_SPAWN);
    wefti_idle_announce(&rt.idle, 1);
    submit(0, WEFTI_SUBMIT_SPAWN);
    mc_assert(was_woken(&worker[1]));
}

MC_TEST(idle_fifo_wakes_each, .proves = "K3") {
    start(&wefti_sched_fifo, 2);
    mc_assert(wefti_worker_announce(&worker[1]));
    submit(0, WEFTI_SUBMIT_SPAWN);
    mc_assert(was_woken(&worker[1]));
}

/* A searcher that comes back with more than it can run at once. */
MC_TEST(idle_batch_is_offered, .proves = "B25 B39") {
    start(&wefti_sched_ring, 2);
    mc_assert(wefti_worker_announce(&worker[1]));
    wefti_inject_push_one(&rt.inject, &tasks[0].link);
    wefti_inject_push_one(&rt.inject, &tasks[1].link);
    worker[0].searching = wefti_idle_try_search(&rt.idle);
    mc_assert(worker[0].searching && wefti_worker_turn(&worker[0]));
    mc_assert(was_woken(&worker[1]));
}

static void nothing(void *unused) { (void)unused; }

MC_TEST(idle_fork_is_offered) {
    start(&wefti_sched_ring, 2);
    mc_assert(wefti_worker_announce(&worker[1])); /* which says that it would take jobs */
    wefti_self_set(&worker[0]);
    weft_job job;
    weft_fork(&job, nothing, NULL);
    mc_assert(was_woken(&worker[1]));
    weft_join_job(&job);
    wefti_self_set(NULL);
}

/* Nobody sleeps, but a forker waits for a stolen job and would run others. */
MC_TEST(jobs_waiting_forker_is_woken) {
    start(&wefti_sched_ring, 2);
    wefti_idle_set_forking(&rt.idle, 1);
    wefti_self_set(&worker[0]);
    weft_job job;
    weft_fork(&job, nothing, NULL);
    mc_assert(load_relaxed(&worker[1].park.word) == WEFTI_PARK_NOTIFIED);
    weft_join_job(&job);
    wefti_self_set(NULL);
}

/* The sleeper that kept watch goes to work: another takes over. */
MC_TEST(idle_watch_is_handed_on, .proves = "B37") {
    start(&wefti_sched_ring, 2);
    mc_assert(wefti_worker_announce(&worker[1]));
    worker[0].owes_watch = true;
    wefti_worker_found(&worker[0]);
    mc_assert(was_woken(&worker[1]));
    mc_assert(!wefti_idle_keep_watch(&rt.idle, 0)); /* though it lies down first */
    wefti_worker_return(&worker[1]);
    wefti_worker_found(&worker[1]);
    mc_assert(wefti_idle_keep_watch(&rt.idle, 0)); /* that one works, too */
}

/* It was woken by one who has lain down since: that one watches, and is left alone. */
MC_TEST(idle_watch_is_taken, .proves = "B37") {
    start(&wefti_sched_ring, 2);
    mc_assert(wefti_worker_announce(&worker[1]) && wefti_idle_keep_watch(&rt.idle, 1));
    wefti_notify_one(&rt, &worker[0], &worker[1]);
    mc_assert(wefti_worker_announce(&worker[0]) && wefti_idle_keep_watch(&rt.idle, 0));
    wefti_idle_leave_watch(&rt.idle, 1); /* not its any more */
    wefti_worker_return(&worker[1]);
    worker[1].owes_watch = true;
    wefti_worker_found(&worker[1]);
    mc_assert(!was_woken(&worker[0]) && wefti_idle_keep_watch(&rt.idle, 0));
}

/* -- Nobody goes to sleep, or ends a search, past work that others could take. */

static void publish_job(struct wefti_worker *w, weft_job *job) {
    mc_assert(wefti_deque_push(&w->jobs, job));
    wefti_deque_publish(&w->jobs, 1);
}

static bool sleeps(struct wefti_worker *w) {
    bool asleep = wefti_worker_announce(w);
    wefti_worker_return(w);
    return asleep;
}

MC_TEST(idle_sees_job, .proves = "B40") {
    start(&wefti_sched_ring, 2);
    weft_job job;
    mc_assert(sleeps(&worker[1]));
    publish_job(&worker[0], &job);
    mc_assert(!sleeps(&worker[1]));
}

MC_TEST(idle_last_searcher_sees_job, .proves = "B39") {
    start(&wefti_sched_ring, 3);
    weft_job job;
    mc_assert(wefti_worker_announce(&worker[2]));
    worker[1].searching = wefti_idle_try_search(&rt.idle);
    publish_job(&worker[0], &job);
    wefti_worker_found(&worker[1]);
    mc_assert(was_woken(&worker[2]));
}

static void sees_global(void) {
    start((const struct wefti_sched *)mc_arg(), 1);
    mc_assert(!rt.sched->one_thread || wefti_sim_init(&rt) == 0);
    mc_assert(sleeps(&worker[0]));
    wefti_inject_push_one(&rt.inject, &tasks[0].link);
    mc_assert(!sleeps(&worker[0]));
    wefti_sim_fini(&rt);
}
MC_CASE(idle_sees_global_ring, sees_global, .arg = (intptr_t)&wefti_sched_ring, .proves = "B40");
MC_CASE(idle_sees_global_deque, sees_global, .arg = (intptr_t)&wefti_sched_deque, .proves = "B40");
MC_CASE(idle_sees_global_fifo, sees_global, .arg = (intptr_t)&wefti_sched_fifo, .proves = "B40");
MC_CASE(idle_sees_global_sim, sees_global, .arg = (intptr_t)&wefti_sched_sim, .proves = "B40");

MC_TEST(idle_sees_ring, .proves = "B40") {
    start(&wefti_sched_ring, 2);
    mc_assert(wefti_ring_push(&worker[0].ring, &tasks[0].link));
    mc_assert(!sleeps(&worker[1]));
}

MC_TEST(idle_sees_deque, .proves = "B40") {
    start(&wefti_sched_deque, 2);
    mc_assert(wefti_deque_push(&worker[0].deque, &tasks[0]));
    mc_assert(sleeps(&worker[1])); /* private: its owner is awake */
    wefti_deque_publish(&worker[0].deque, 1);
    mc_assert(!sleeps(&worker[1]));
}

/* A worker of the simulator that has work does not sleep, though the global queue is empty. */
MC_TEST(idle_sees_simulated, .proves = "B40") {
    start(&wefti_sched_sim, 1);
    mc_assert(wefti_sim_init(&rt) == 0);
    submit(0, WEFTI_SUBMIT_SPAWN);
    mc_assert(!sleeps(&worker[0]));
    wefti_sim_fini(&rt);
}

/* Stopped: no need to sleep and be woken by the stopper's token. */
MC_TEST(idle_stopped_stays_awake, .proves = "K38") {
    start(&wefti_sched_fifo, 1);
    store_relaxed(&rt.phase, WEFTI_STOPPED);
    mc_assert(!sleeps(&worker[0]));
}

/* -- What a claim hands over: all that the waker did before, also to a sleeper that came back by itself. */

static int handed; /* plain */

static void write_and_notify(void *unused) {
    (void)unused;
    handed = 1;
    wefti_notify(&rt, NULL);
}

MC_TEST(idle_claim_hands_over, .proves = "B38 B43") {
    start(&wefti_sched_fifo, 1);
    int a = mc_spawn(write_and_notify, NULL);
    wefti_worker_announce(&worker[0]);
    wefti_worker_return(&worker[0]);
    if (worker[0].searching)
        mc_assert(handed == 1 &&
                  load_relaxed(&rt.idle.searching) == 1); /* so that leaving the search finds us counted */
    mc_join(a);
}

/* Who claims a sleeper finds its flag clear, and knows that it is: else the sleeper's own clearing could come last. */
static void claim(void *unused) {
    (void)unused;
    int index = wefti_idle_claim(&rt.idle, mc_arg());
    if (index < 0)
        return;
    mc_assert(load_relaxed(&worker[0].claimed) == 0);
    add_relaxed(&rt.idle.searching, 1); /* S5 and S6 */
    store_release(&worker[0].claimed, 1);
    wefti_worker_wake(&worker[0]);
}

static void claim_again(void) {
    start(&wefti_sched_fifo, 1);
    int a = mc_spawn(claim, NULL);
    for (int i = 0; i < 2; i++) {
        wefti_worker_announce(&worker[0]);
        if (i == 0)
            wefti_notify(&rt, NULL); /* claims it, unless the other thread has */
        wefti_worker_return(&worker[0]);
    }
    wefti_worker_found(&worker[0]);
    mc_join(a);
}
MC_CASE(idle_claim_finds_flag_clear, claim_again, .arg = false, .proves = "B42 B43");
MC_CASE(idle_claim_finds_flag_clear_last, claim_again, .arg = true, .proves = "B42 B43");

/* -- A sleep without a limit ends with a token, not with a wake for no reason. */

static void wake(void *unused) {
    (void)unused;
    wefti_park_wake(&worker[0].park);
}

MC_TEST(park_sleeps_on, .proves = "B35", .spurious = 1) {
    int a = mc_spawn(wake, NULL);
    mc_assert(wefti_park_sleep(&worker[0].park, INT64_MAX));
    mc_join(a);
}

/* -- A task ends just when its joiner, a worker that has found nothing to help with, says that it waits. */

static struct weft_task *child;

static void end_child(void *unused) {
    (void)unused;
    uint64_t word = wefti_word_to_complete(&child->word);
    if (word & WEFTI_JOINED) {
        wefti_wake(load_relaxed(&child->joiner)); /* as finish in worker.c */
        wefti_task_unref(child, 0);
    }
}

MC_TEST(join_registers_late, .proves = "B33") {
    start(&wefti_sched_fifo, 1);
    wefti_worker_share(&worker[0], false);
    wefti_slab_init(&rt.slab, &rt);
    child = wefti_slab_take(&rt.slab, NULL, 8);
    mc_assert(child != NULL);
    wefti_word_spawn(&child->word, true);
    mc_assert(wefti_word_enter(&child->word));
    int a = mc_spawn(end_child, NULL);
    wefti_self_set(&worker[0]);
    mc_assert(weft_join(child, NULL, WEFT_NEVER) == 0);
    wefti_self_set(NULL);
    mc_join(a);
    wefti_slab_fini(&rt.slab);
}

/* -- Knowing that nothing is left: a task whose end is counted was counted before as spawned. */

static weft_poll end_at_once(weft_task *self, void *state) {
    (void)state;
    return weft_done(self, 0, NULL);
}

static weft_poll spawn_one_and_wait(weft_task *self, void *state) {
    (void)self, (void)state;
    mc_assert(weft_go(&rt, end_at_once, NULL, NULL) == 0);
    return WEFT_PENDING;
}

static uint64_t ended(void) {
    return load_relaxed(&worker[0].counters.completed) + load_relaxed(&worker[1].counters.completed);
}

static void run_one(void *w) {
    wefti_self_set(w);
    wefti_worker_turn(w);
    wefti_self_set(NULL);
}

static void run_until_end(void *w) {
    wefti_self_set(w);
    while (!ended())
        if (!wefti_worker_turn(w))
            wefti_relax();
    wefti_self_set(NULL);
}

MC_TEST(stop_counts_spawns_first, .proves = "W37", .stale_counts = true, .seconds = 6) {
    start(&wefti_sched_fifo, 2);
    wefti_slab_init(&rt.slab, &rt);
    tasks[0].poll = spawn_one_and_wait; /* never ends */
    mc_assert(wefti_inject_admit(&rt.inject, &tasks[0].link, 8) == 0);
    int a = mc_spawn(run_one, &worker[0]), b = mc_spawn(run_until_end, &worker[1]);
    while (!ended())
        wefti_relax();
    mc_assert(wefti_live(&rt) > 0);
    mc_join(a), mc_join(b);
    wefti_slab_fini(&rt.slab);
}

/* -- What is hung on the runtime is complete for whoever finds it; of two that are hung at once, one stays. */

static struct {
    struct wefti_annex annex;
    int written; /* plain */
} hung[2];

static void hang(void *i) {
    int mine = (int)(intptr_t)i;
    hung[mine].written = 1;
    struct wefti_annex *there = wefti_annex_hang(&rt, 0, &hung[mine].annex);
    mc_assert(hung[there != &hung[0].annex].written == 1);
}

MC_TEST(sched_annex, .bound = 3) {
    int a = mc_spawn(hang, (void *)0), b = mc_spawn(hang, (void *)1);
    struct wefti_annex *there = wefti_annex(&rt, 0);
    mc_assert(!there || hung[there != &hung[0].annex].written == 1);
    mc_join(a), mc_join(b);
}
