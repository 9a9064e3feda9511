/* nursery_lend.c - borrowed handles: dropped exactly once, by the nursery or before it, whenever
 * the child ends.
 *
 * model_close destroys the runtime, which fails while a handle is held; a slot that is given back
 * twice breaks an invariant. */
#include "model.h"
#include "model_rt.h"
#include "nursery/nursery.h"
#include <weft/abi.h>

static weft_runtime *rt;
static weft_nursery *n;

static int child(void *arg) { return (void)arg, 0; }
static int fail(void *arg) { return (void)arg, -EIO; }

/* The last child adds itself to n->lent (C1), and the thread takes the list (A3). */
static void awaited(void) {
    rt = model_open(WEFT_SCHED_FIFO, 1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    weft_task *task = weft_abi_nursery_spawn(n, mc_arg() == 1 ? fail : child, NULL);
    mc_assert(task != NULL);
    if (mc_arg() == 2)
        weft_task_drop(task); /* the child may be running, or have ended */
    int result = weft_abi_nursery_await(n);
    mc_assert(result == (mc_arg() == 1 ? -EIO : 0));
    weft_abi_nursery_destroy(n);
    model_close(rt);
}
MC_CASE(nursery_lend_awaited, awaited, .proves = "J36", .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(nursery_lend_failed, awaited, .arg = 1, .proves = "J33 J36", .bound = 1, .stale_counts = true, .seconds = 4);
MC_CASE(nursery_lend_dropped, awaited, .arg = 2, .proves = "J36", .bound = 2, .stale_counts = true, .seconds = 4);

/* A poll task leaves its nursery while children end: each handle is dropped by it, or by the last
 * child. */
static weft_poll leave(weft_task *self, void *state) {
    (void)state;
    mc_assert(weft_nursery_create(NULL, NULL, &n) == 0);
    mc_assert(weft_abi_nursery_spawn(n, child, NULL) != NULL);
    mc_assert(weft_abi_nursery_spawn(n, child, NULL) != NULL);
    return weft_done(self, 0, NULL);
}

static void destroy(void *state) {
    (void)state;
    mc_assert(weft_nursery_destroy(n) == 0);
}

static void abandoned(void) {
    rt = model_open(WEFT_SCHED_FIFO, 2);
    weft_task *task;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = leave;
    spec.drop = destroy;
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    model_close(rt);
}
MC_CASE(nursery_lend_abandoned, abandoned, .proves = "J36", .mode = MC_PCT, .max_exec = 3000);
