/* failed.c - tasks that fail while nobody can learn of it. */
#include <stdio.h>

#include "sched/sched.h"
#include "task/fiber.h"

const char wefti_failure_is_known[1];

void wefti_task_failed(struct wefti_worker *w, const struct weft_task *task, int status) {
    bool fiber = wefti_task_is_fiber(task);
    if ((fiber && ((const struct wefti_fiber *)(const void *)task)->owner) || status == -ECANCELED ||
        (load_relaxed(&task->word) & WEFTI_JOINABLE)) /* a look */
        return;
    wefti_count(&w->counters.failed, 1);
    if (load_relaxed(&w->rt->failed) || xchg_relaxed(&w->rt->failed, true)) /* one of them says it */
        return;
    char text[512], name[WEFTI_NAME_ROOM];
    int size =
        snprintf(text, sizeof text,
                 "weft: %s \"%s\" has failed, and nobody has its handle: %s (weft_stats.failed counts the next ones)\n",
                 fiber ? "fiber" : "task", wefti_printable(task->name, name, sizeof name), weft_strerror(status));
    wefti_write(2, text, size > 0 && (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}
