/* dump.c - every task and every worker, in words: what a hang says of itself. */
#include "sched/sched.h"
#include "task/fiber.h"

#include <stdio.h>

#define FIND_MAX 1000u /* up to so many live tasks, each that waits for another is told apart by a walk over all */

struct out {
    int fd, error;
    uint64_t live, tasks, most;
};

static void line(struct out *out, const char *text, int size, size_t room) {
    if (size > 0 && !out->error)
        out->error = wefti_write(out->fd, text, (size_t)size < room ? (size_t)size : room - 1);
}

/* Names come from users: control bytes would forge lines or move a terminal's cursor. */
static const char *printable(const char *name, char *buffer, size_t room) {
    size_t i = 0;
    for (; name[i] && i + 1 < room; i++)
        buffer[i] = name[i] >= ' ' && name[i] != 127 ? name[i] : '?';
    buffer[i] = 0;
    return buffer;
}

uint16_t wefti_reason(struct weft_runtime *rt, const char *what) {
    for (uint32_t i = 1; i < WEFTI_REASONS; i++) {
        const char *found = NULL;
        /* Release: the string, to dump_task; a slot is written once. */
        const char *there = load_relaxed(&rt->reasons[i]); /* only compared */
        if (there == what || (!there && (cas_release(&rt->reasons[i], &found, what) || found == what)))
            return (uint16_t)i;
    }
    return 0;
}

struct joined_by {
    wefti_waker waiter;
    const char *name; /* of the task it waits for, or NULL */
};

/* Names are static or outlive their task, so this one may be printed after the reference is gone. */
static void find_joined(struct weft_task *task, void *arg) {
    struct joined_by *find = arg;
    /* A look: a joiner that has just registered may be missed. */
    if ((load_relaxed(&task->word) & WEFTI_JOINED) && load_relaxed(&task->joiner) == find->waiter)
        find->name = task->name;
    wefti_task_unref(task, 0);
}

static void dump_task(struct weft_task *task, void *arg) {
    struct out *out = arg;
    if (out->tasks++ >= out->most) {
        wefti_task_unref(task, 0);
        return;
    }
    struct weft_runtime *rt = wefti_task_rt(task);
    char text[320], name[64], what[96] = "";
    uint64_t word = load_relaxed(&task->word); /* a look */
    if (wefti_word_life(word) == WEFTI_IDLE) {
        const char *reason = wefti_word_sub(word) ? load_acquire(&rt->reasons[wefti_word_sub(word)]) : NULL;
        if (!reason && wefti_task_is_fiber(task))
            reason = load_relaxed(&wefti_fiber_of(task)->waits); /* a static string */
        struct joined_by find = {wefti_waker_task(task), NULL};
        char buffer[64];
        if (!reason && out->live <= FIND_MAX)
            wefti_slab_walk(&rt->slab, find_joined, &find);
        if (reason)
            snprintf(what, sizeof what, ", waits for %s", printable(reason, buffer, sizeof buffer));
        else if (find.name)
            snprintf(what, sizeof what, ", waits for task \"%s\"", printable(find.name, buffer, sizeof buffer));
        else if (wefti_word_refs(word) <= 2 + !!(word & WEFTI_JOINABLE))
            snprintf(what, sizeof what, ", waits for a waker that nobody holds");
        else
            snprintf(what, sizeof what, ", waits for a waker");
    }
    int size = snprintf(text, sizeof text, "  task %p \"%s\" %s%s%s%s%s\n", (void *)task,
                        printable(task->name, name, sizeof name), weft_task_state(task),
                        word & WEFTI_CANCELLED ? " cancelled" : "", word & WEFTI_SHIELD_MASK ? " shielded" : "",
                        word & WEFTI_JOINED ? " joined" : "", what);
    line(out, text, size, sizeof text);
    wefti_task_unref(task, 0);
}

int wefti_dump(struct weft_runtime *rt, int fd, uint64_t most) {
    struct out out = {fd, 0, wefti_live(rt), 0, most};
    char text[256];
    int size = snprintf(
        text, sizeof text,
        "weft runtime %p: scheduler %s, %u workers (%u asleep, %u searching), %llu live, %u in the global queue\n",
        (void *)rt, rt->sched->name, rt->workers, wefti_idle_parked(&rt->idle),
        load_relaxed(&rt->idle.searching), /* figures */
        (unsigned long long)wefti_live(rt), wefti_inject_length(&rt->inject) + load_relaxed(&rt->inject.held));
    line(&out, text, size, sizeof text);
    if (rt->sched->describe)
        line(&out, text, rt->sched->describe(rt, text, sizeof text), sizeof text);
    for (uint32_t i = 0; i < rt->workers; i++) {
        const struct wefti_counters *c = &rt->worker[i].counters;
        size = snprintf(text, sizeof text,
                        "  worker %u: %llu polls, %llu steals, %llu parks, %llu wakes, %u in its ring\n", i,
                        (unsigned long long)load_relaxed(&c->polls), (unsigned long long)load_relaxed(&c->steals),
                        (unsigned long long)load_relaxed(&c->parks), (unsigned long long)load_relaxed(&c->wakes),
                        wefti_ring_length(&rt->worker[i].ring)); /* figures */
        line(&out, text, size, sizeof text);
    }
    wefti_slab_walk(&rt->slab, dump_task, &out);
    if (out.tasks > most) {
        size = snprintf(text, sizeof text, "  ... and %llu more\n", (unsigned long long)(out.tasks - most));
        line(&out, text, size, sizeof text);
    }
    return out.error;
}

int weft_dump(weft_runtime *rt, int fd) { return wefti_dump(rt, fd, UINT64_MAX); }
