/* jobs.h - forked jobs: where they wait, how they are taken, how the forker learns that they are done.
 *
 * What.   A job lives in the forker's frame; its address lies in the forker's job deque.  A fork that finds nothing of it
 *         public publishes the older half; the rest is private, where the join pops it for nothing.  What is taken is the
 *         oldest: a divide-and-conquer program pays for sharing near the root only.
 * Words.  job->state: NEW, DONE, or WAITED (the forker sleeps, or is about to).
 * Race.   thief: T1 run the job                  forker: J1 NEW -> WAITED
 *                T2 exchange for DONE                    J2 sleep, marked as one who would run jobs
 *                T3 it was WAITED: wake the forker's worker
 * Claim.  The join returns after the job has run, and a sleeping forker is woken.
 * Why.    T2 and J1 act on one word.  T2 releases what the job wrote; the forker acquires it.  After T2 the job's memory may
 *         be gone: T3 wakes the worker, which is not.
 * Checked by.  test/model/jobs.c
 */
#ifndef WEFTI_SCHED_JOBS_H
#define WEFTI_SCHED_JOBS_H

#include <weft/fork.h>

#include "sched/sched.h"

enum { WEFTI_JOB_NEW = 0, WEFTI_JOB_DONE = 1, WEFTI_JOB_WAITED = 2 };

static inline _Atomic uint32_t *wefti_job_state(weft_job *job) { return (_Atomic uint32_t *)(void *)&job->state; }

/* Run a job that was taken from the deque of `forker`. */
void wefti_job_run(weft_job *job, struct wefti_worker *forker);
/* None of ours is public: publish the older half, and wake somebody for it. */
void wefti_jobs_publish(struct wefti_worker *w);

#endif
