/* jobs.h - forked jobs: where they wait, how they are taken, how the forker learns that they are done.
 *
 * What.   A job lives in the forker's frame; its address lies in the private part of the forker's job deque, where the join
 *         pops it for nothing.  A worker that is idle sets `want` on the others; the next fork then publishes half.
 * Words.  job->state: NEW, DONE, or WAITED (the forker sleeps on it).
 * Race.   thief: T1 run the job                  forker: J1 NEW -> WAITED
 *                T2 exchange for DONE                    J2 sleep while WAITED
 *                T3 it was WAITED: wake
 * Claim.  The join returns after the job has run, and a sleeping forker is woken.
 * Why.    T2 and J1 act on one word.  T2 releases what the job wrote; the forker acquires it.  After T2 the job's memory may
 *         be gone: T3 passes its address to the kernel and does not touch it.
 * Checked by.  test/model/jobs.c
 */
#ifndef WEFTI_SCHED_JOBS_H
#define WEFTI_SCHED_JOBS_H

#include <weft/fork.h>

#include "sched/sched.h"

enum { WEFTI_JOB_NEW = 0, WEFTI_JOB_DONE = 1, WEFTI_JOB_WAITED = 2 };

static inline _Atomic uint32_t *wefti_job_state(weft_job *job) { return (_Atomic uint32_t *)(void *)&job->state; }

/* Run a job that was taken from a deque, on behalf of whoever forked it. */
void wefti_job_run(weft_job *job);
/* Somebody wants jobs: publish half of ours and wake him. */
void wefti_jobs_publish(struct wefti_worker *w);

#endif
