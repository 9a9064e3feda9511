/* slice.c - a poll task whose slice is used up is polled again (fiber/slice.h). */
#include <string.h>
#include <weft/time.h>

#include "model.h"
#include "sched/sched.h"

static struct weft_runtime rt;
static struct wefti_worker worker;
static struct weft_task task; /* being run: a wake only notes itself */

static bool has_no_work(struct wefti_worker *w) { return w == NULL; }
static const struct wefti_sched sched = {.name = "model", .has_work = has_no_work};

static bool was_woken(void) { return load_relaxed(&task.word) & WEFTI_NOTIFIED; }

/* A poll call whose slice is used up, while another task could run, wakes its task again: nobody else will. */
MC_TEST(slice_poll_wakes, .proves = "B46") {
    rt.workers = 1;
    rt.worker = &worker;
    worker.rt = &rt;
    worker.sched = &sched;
    store_relaxed(&worker.timers_next, INT64_MAX);
    wefti_word_spawn(&task.word, false);
    wefti_word_enter(&task.word);
    weft_wait *wait = wefti_alloc(sizeof *wait);
    memset(wait, 0, sizeof *wait);
    worker.current = &task;
    worker.look_left = 1; /* timers are to be looked at: others_wait */
    wefti_self_set(&worker);
    while (!was_woken()) {
        int64_t before = worker.calls_left;
        int error = weft_sleep_poll(&task, wait, 0); /* is over */
        mc_assert(error == 0 || error == -EAGAIN);
        if (error) {
            mc_assert(was_woken());
            break;
        }
        mc_assert(worker.calls_left != before);
    }
    wefti_self_set(NULL);
    wefti_free(wait, sizeof *wait);
}
