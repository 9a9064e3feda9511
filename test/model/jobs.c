/* jobs.c - forked jobs: fork, steal, join, and the forker that sleeps. */
#include "sched/jobs.h"

#include "model.h"

static struct weft_runtime rt;
static struct wefti_worker worker[2];
static int done[6]; /* plain: a job's work, ordered by the join */

static const struct wefti_sched *const sched = &wefti_sched_ring;

static void start(void) {
    rt.sched = sched;
    rt.workers = rt.idle.workers = 2;
    rt.worker = worker;
    for (uint32_t i = 0; i < 2; i++) {
        worker[i].rt = &rt;
        worker[i].sched = sched;
        worker[i].index = i;
        worker[i].shared = true;
        wefti_random_init(&worker[i].random, i);
    }
}

static void job(void *i) { done[(intptr_t)i]++; }

static void thief(void *turns) {
    wefti_self_set(&worker[1]);
    for (intptr_t i = 0; i < (intptr_t)turns; i++)
        wefti_jobs_run_stolen(&worker[1]);
    wefti_self_set(NULL);
}

MC_TEST(jobs_join_against_steal, .proves = "W16", .bound = 3) {
    start();
    wefti_self_set(&worker[0]);
    int t = mc_spawn(thief, (void *)2);
    weft_job a;
    weft_fork(&a, job, (void *)0);
    weft_join_job(&a);
    mc_assert(done[0] == 1);
    mc_join(t);
    wefti_self_set(NULL);
}

MC_TEST(jobs_two_forks, .proves = "W16 W17") {
    start();
    wefti_self_set(&worker[0]);
    int t = mc_spawn(thief, (void *)2);
    weft_job a, b;
    weft_fork(&a, job, (void *)0);
    weft_fork(&b, job, (void *)1);
    weft_join_job(&b);
    weft_join_job(&a);
    mc_assert(done[0] == 1 && done[1] == 1);
    mc_join(t);
    wefti_self_set(NULL);
}

/* More forks than the deque holds: the last run at once. */
MC_TEST(jobs_full, .proves = "W18", .bound = 1) {
    start();
    wefti_self_set(&worker[0]);
    int t = mc_spawn(thief, (void *)1);
    weft_job jobs[6];
    for (int i = 0; i < 6; i++)
        weft_fork(&jobs[i], job, (void *)(intptr_t)i);
    for (int i = 5; i >= 0; i--)
        weft_join_job(&jobs[i]);
    for (int i = 0; i < 6; i++)
        mc_assert(done[i] == 1);
    mc_join(t);
    wefti_self_set(NULL);
}

/* The forker sleeps on a job whose frame goes away right after: the thief does not touch it any more. */
static weft_job *heap_job;

static void run_it(void *unused) {
    (void)unused;
    wefti_job_run(heap_job, &worker[0]);
}

MC_TEST(jobs_forker_sleeps, .proves = "W16", .bound = 3) {
    start();
    heap_job = wefti_alloc(sizeof *heap_job);
    weft_job *mine = heap_job;
    mine->fn = job;
    mine->arg = (void *)0;
    int t = mc_spawn(run_it, NULL);
    _Atomic uint32_t *state = wefti_job_state(mine);
    bool waited = false;
    while (load_acquire(state) != WEFTI_JOB_DONE) { /* as wait_done in fork.c, nested too deep to help */
        uint32_t found = WEFTI_JOB_NEW;
        if (!waited)
            waited = cas_relaxed(state, &found, WEFTI_JOB_WAITED);
        else
            wefti_park_sleep(&worker[0].park, INT64_MAX);
    }
    mc_assert(done[0] == 1);
    wefti_free(mine, sizeof *mine);
    mc_join(t);
}
