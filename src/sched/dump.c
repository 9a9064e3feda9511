/* dump.c - every task and every worker, in words: what a hang says of itself. */
#include "sched/sched.h"
#include "task/fiber.h"

#include <stdio.h>
#include <string.h>

#define FIND_MAX                                                                                                       \
    1000u /* up to so many live tasks, who has come after the table was made is looked for by a walk over all */

/* What a task is to others.  Addresses are only compared; names outlive their tasks. */
struct place {
    const struct weft_task *task;     /* NULL: a free entry */
    const char *name;                 /* NULL: not met itself */
    const struct weft_task *owner;    /* of a child, else NULL */
    const char *owner_name, *nursery; /* ... */
    const char *joins;                /* the task it waits for, or NULL */
};

/* All of them: a hash table.  A look: a slot that is used anew meanwhile may be shown at its former place. */
struct places {
    struct place *place; /* NULL: no memory */
    uint64_t size;       /* a power of two */
    uint64_t left;       /* entries that may still be filled */
    const struct weft_task *owner;
};

#define PATH_NURSERIES 4u    /* nurseries of a fiber's path that are shown ... */
#define PATH_NAME 24u  /* ... and bytes of each name */
#define PATH_ROOM (PATH_NURSERIES * (2 * PATH_NAME + 12) + 16)

struct out {
    int fd, error;
    uint64_t live, tasks, most;
    struct places places;
};

static void line(struct out *out, const char *text, int size, size_t room) {
    if (size > 0 && !out->error)
        out->error = wefti_write(out->fd, text, (size_t)size < room ? (size_t)size : room - 1);
}

/* Names come from users: control bytes would forge lines or move a terminal's cursor. */
const char *wefti_printable(const char *name, char *buffer, size_t room) {
    size_t i = 0;
    for (; i + 1 < room; i++) {
        char c = load_relaxed((const _Atomic char *)&name[i]); /* a look: it may be in a label (label.h) */
        if (!c)
            break;
        buffer[i] = c >= ' ' && c != 127 ? c : '?';
    }
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

/* What a poll task waits for, as its `status` says (task/waits.h); 0 of fibers, and of one that was woken meanwhile, when it means something else. */
static unsigned waits_of(const struct weft_task *task) {
    unsigned waits = (unsigned)load_relaxed(&task->status) & (WEFTI_WAITS_MASK | WEFTI_WAITS_OTHERS); /* a look */
    bool waits_still = wefti_word_life(load_relaxed(&task->word)) == WEFTI_IDLE; /* as above */
    return waits_still && !wefti_task_is_fiber(task) ? waits : 0;
}

/* What it waits for, or NULL, and who has that: wefti_fiber_describe. */
static const char *describe(struct weft_task *task, uint64_t *by, uint64_t *many) {
    const char *waits = NULL;
    if (wefti_task_is_fiber(task))
        return wefti_fiber_describe(wefti_fiber_of(task), by, many);
    for (int i = 0; i < WEFTI_ANNEXES && !waits; i++) {
        struct wefti_annex *annex = wefti_annex(wefti_task_rt(task), i);
        waits = annex && annex->describe ? annex->describe(task) : NULL;
    }
    return waits;
}

/* -- What is known of all ------------------------------------------------------------------------------------ */

/* Where `task` is, or the free entry where it would be; NULL: it is not there, or there is no room. */
static struct place *find_place(const struct places *places, const struct weft_task *task) {
    if (!places->place)
        return NULL;
    uint64_t at = (uint64_t)(uintptr_t)task / 64 * UINT64_C(0x9E3779B97F4A7C15) >> 20;
    while (places->place[at & (places->size - 1)].task && places->place[at & (places->size - 1)].task != task)
        at++;
    return &places->place[at & (places->size - 1)];
}

static const struct place *known(const struct places *places, const struct weft_task *task) {
    const struct place *place = find_place(places, task);
    return place && place->task ? place : NULL;
}

static struct place *add_place(struct places *places, const struct weft_task *task) {
    struct place *place = find_place(places, task);
    if (place && !place->task) {
        if (!places->left)
            return NULL;
        places->left--;
        place->task = task;
    }
    return place;
}

static void note_child(const struct weft_task *child, const char *nursery, void *arg) {
    struct places *places = arg;
    struct place *place = add_place(places, child);
    if (!place)
        return;
    place->owner = places->owner;
    place->owner_name = places->owner->name;
    place->nursery = nursery;
}

static void note_task(struct weft_task *task, void *arg) {
    struct places *places = arg;
    struct place *place = add_place(places, task);
    if (place)
        place->name = task->name;
    /* A look: a joiner that has just registered may be missed. */
    wefti_waker joiner = load_relaxed(&task->word) & WEFTI_JOINED ? load_relaxed(&task->joiner) : 1;
    if (!(joiner & 1) && (place = add_place(places, (const struct weft_task *)joiner)))
        place->joins = task->name;
    if (wefti_task_is_fiber(task)) {
        struct wefti_fiber *fiber = wefti_fiber_of(task);
        places->owner = task;
        wefti_lock_take(&fiber->lock); /* what is in the list stays there */
        for (struct wefti_owned *owned = fiber->owned; owned; owned = owned->below)
            owned->list(owned, note_child, places);
        wefti_lock_give(&fiber->lock);
    }
    wefti_task_unref(task, 0);
}

static void find_places(struct weft_runtime *rt, struct places *places, uint64_t live) {
    places->size = 64;
    while (places->size < 2 * live)
        places->size *= 2;
    places->left = places->size / 2;
    places->place = wefti_alloc(places->size * sizeof *places->place);
    if (places->place)
        wefti_slab_walk(&rt->slab, note_task, places);
}

/* The task of that address, if there is one. */
struct owned_by {
    uint64_t by;
    const char *name;
};

static void find_owner(struct weft_task *task, void *arg) {
    struct owned_by *find = arg;
    if ((uint64_t)(uintptr_t)task == find->by)
        find->name = task->name;
    wefti_task_unref(task, 0);
}

/* Of a fiber that waits for a lock: the lock's owner. */
static void keeper(const struct out *out, struct weft_runtime *rt, uint64_t by, uint64_t many, char *what,
                   size_t room) {
    struct owned_by find = {by, NULL};
    char name[WEFTI_NAME_ROOM];
    size_t used = strlen(what);
    const struct place *place = known(&out->places, (const struct weft_task *)(uintptr_t)by);
    if (place && place->name)
        find.name = place->name;
    else if (by && out->live <= FIND_MAX)
        wefti_slab_walk(&rt->slab, find_owner, &find);
    if (find.name)
        snprintf(what + used, room - used, ", which task \"%s\" has", wefti_printable(find.name, name, sizeof name));
    else if (by)
        snprintf(what + used, room - used, ", which %s has",
                 out->live <= FIND_MAX ? "no task of this runtime" : "somebody");
    else if (many)
        snprintf(what + used, room - used, ", which %llu %s", (unsigned long long)many,
                 many == 1 ? "reader has" : "readers have");
}

/* ", in main > nursery > ...": the innermost PATH_NURSERIES nurseries. */
static void path_of(const struct places *places, const struct weft_task *task, char *text, size_t room) {
    const struct place *path[PATH_NURSERIES + 1];
    unsigned depth = 0;
    int size = 0;
    while (depth <= PATH_NURSERIES && (path[depth] = known(places, task)) && path[depth]->owner)
        task = path[depth++]->owner;
    for (unsigned i = depth < PATH_NURSERIES ? depth : PATH_NURSERIES; i-- > 0;) {
        char owner[PATH_NAME], nursery[PATH_NAME];
        size += snprintf(text + size, room - (size_t)size, "%s%s\"%s\" > \"%s\"", size ? " > " : ", in ",
                         !size && depth > PATH_NURSERIES ? "... > " : "",
                         wefti_printable(path[i]->owner_name, owner, sizeof owner),
                         wefti_printable(path[i]->nursery, nursery, sizeof nursery));
    }
}

/* How long it has waited: since the tick before it began to, so a little too long; of poll tasks to a unit more or less. */
static void since(struct weft_runtime *rt, struct weft_task *task, bool joins, char *what, size_t room) {
    uint32_t status = (uint32_t)load_relaxed(&task->status); /* a look; before one at the clock, which is later then */
    int64_t ns, now = wefti_now(rt);
    if (wefti_task_is_fiber(task)) {
        if (!joins && !load_relaxed(&wefti_fiber_of(task)->waits)) /* a look; who joins has nothing there */
            return;
        ns = now - load_relaxed(&wefti_fiber_of(task)->waits_since); /* as above */
    } else { /* modulo 2^50 ns: 13 days */
        uint32_t from = status >> WEFTI_WAITS_BITS << WEFTI_WAITS_BITS;
        ns = (int64_t)((wefti_since(now) - from) >> WEFTI_WAITS_BITS) << WEFTI_SINCE_SHIFT;
        if (wefti_word_life(load_relaxed(&task->word)) != WEFTI_IDLE) /* woken meanwhile: it means something else */
            return;
    }
    size_t used = strlen(what);
    snprintf(what + used, room - used, " for %lld.%03d s", (long long)(ns > 0 ? ns / 1000000000 : 0),
             (int)(ns > 0 ? ns / 1000000 % 1000 : 0));
}

static void dump_task(struct weft_task *task, void *arg) {
    struct out *out = arg;
    if (out->tasks++ >= out->most) {
        wefti_task_unref(task, 0);
        return;
    }
    struct weft_runtime *rt = wefti_task_rt(task);
    char text[768], name[WEFTI_NAME_ROOM], what[256] = "", path[PATH_ROOM] = "";
    uint64_t word = load_relaxed(&task->word); /* a look */
    if (wefti_task_life(task) == WEFTI_IDLE) {
        const char *reason = wefti_word_sub(word) ? load_acquire(&rt->reasons[wefti_word_sub(word)]) : NULL;
        uint64_t by = 0, many = 0;
        unsigned waits = reason ? 0 : waits_of(task);
        if (!reason)
            reason = describe(task, &by, &many);
        if (!reason && (waits & WEFTI_WAITS_MASK) != WEFTI_A_TASK)
            reason = wefti_words(waits);
        const char *others = waits & WEFTI_WAITS_OTHERS ? " and others" : "";
        const struct place *place = reason ? NULL : known(&out->places, task);
        const char *joins = place ? place->joins : NULL;
        char buffer[64];
        if (reason)
            snprintf(what, sizeof what, ", waits for %s%s", wefti_printable(reason, buffer, sizeof buffer), others);
        else if (joins)
            snprintf(what, sizeof what, ", waits for task \"%s\"%s", wefti_printable(joins, buffer, sizeof buffer),
                     others);
        else if (wefti_words(waits))
            snprintf(what, sizeof what, ", waits for %s%s", wefti_words(waits), others);
        else if (wefti_word_refs(word) <= 2 + !!(word & WEFTI_JOINABLE))
            snprintf(what, sizeof what, ", waits for a waker that nobody holds");
        else
            snprintf(what, sizeof what, ", waits for a waker");
        since(rt, task, joins, what, sizeof what);
        keeper(out, rt, by, many, what, sizeof what);
    }
    path_of(&out->places, task, path, sizeof path);
    int size = snprintf(text, sizeof text, "  task %p \"%s\" %s%s%s%s%s%s\n", (void *)task,
                        wefti_printable(task->name, name, sizeof name), weft_task_state(task),
                        word & WEFTI_CANCELLED ? " cancelled" : "", word & WEFTI_SHIELD_MASK ? " shielded" : "",
                        word & WEFTI_JOINED ? " joined" : "", what, path);
    line(out, text, size, sizeof text);
    wefti_task_unref(task, 0);
}

int wefti_dump(struct weft_runtime *rt, int fd, uint64_t most) {
    struct out out = {fd, 0, wefti_live(rt), 0, most, {NULL, 0, 0, NULL}};
    char text[512];
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
    find_places(rt, &out.places, out.live);
    wefti_slab_walk(&rt->slab, dump_task, &out);
    if (out.places.place)
        wefti_free(out.places.place, out.places.size * sizeof *out.places.place);
    if (out.tasks > most) {
        size = snprintf(text, sizeof text, "  ... and %llu more\n", (unsigned long long)(out.tasks - most));
        line(&out, text, size, sizeof text);
    }
    return out.error;
}

int weft_dump(weft_runtime *rt, int fd) { return rt ? wefti_dump(rt, fd, UINT64_MAX) : -EINVAL; }
