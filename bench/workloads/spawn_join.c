/* spawn_join.c - one task spawns empty tasks in groups of 1,000 and joins each: ns a task.
 *
 * Two ways to wait: spawn_join uses weft_join inside the poll, where the worker helps; spawn_join_poll
 * returns to the worker and is woken, as a task should.  Both are measured inside the runtime, on a worker.
 * As fibers: a fiber spawns fibers, and waits in weft_join.
 */
#include <errno.h>

#include "../harness/bench.h"

enum { GROUP = 1000 };

struct spawner {
    uint64_t groups;    /* still to do */
    unsigned joined;    /* of the group under way; GROUP = none is */
    uint64_t wrong;     /* spawns and joins that failed */
    int64_t start, end;
    weft_task *group[GROUP];
};

static weft_poll empty(weft_task *self, void *state) {
    (void)self;
    (void)state;
    return WEFT_READY;
}

static int empty_fiber(void *arg) {
    (void)arg;
    return 0;
}

/* The slots of tasks that could not be spawned hold NULL and are not joined. */
static void spawn_group(struct spawner *s) {
    for (unsigned i = 0; i < GROUP; i++)
        if (weft_go(NULL, empty, NULL, &s->group[i]) != 0) {
            s->group[i] = NULL;
            s->wrong++;
        }
}

static void spawn_fibers(struct spawner *s) {
    for (unsigned i = 0; i < GROUP; i++)
        if (weft_fiber_go(NULL, empty_fiber, NULL, &s->group[i]) != 0) {
            s->group[i] = NULL;
            s->wrong++;
        }
}

static inline void join_groups(struct spawner *s, void (*spawn)(struct spawner *s)) {
    s->start = bench_now();
    for (; s->groups > 0; s->groups--) {
        spawn(s);
        for (unsigned i = 0; i < GROUP; i++) {
            weft_result result = {-1, NULL};
            if (!s->group[i])
                continue;
            int code = weft_join(s->group[i], &result, WEFT_NEVER);
            s->wrong += code != 0 || result.status != 0;
            weft_task_drop(s->group[i]);
        }
    }
    s->end = bench_now();
}

static weft_poll with_join(weft_task *self, void *state) {
    join_groups(state, spawn_group);
    return weft_done(self, 0, NULL);
}

static int in_fibers(void *arg) {
    join_groups(arg, spawn_fibers);
    return 0;
}

static weft_poll with_join_poll(weft_task *self, void *state) {
    struct spawner *s = state;
    if (s->start == 0)
        s->start = bench_now();
    for (;;) {
        for (; s->joined < GROUP; s->joined++) {
            weft_result result = {-1, NULL};
            weft_task *task = s->group[s->joined];
            if (!task)
                continue;
            int code = weft_join_poll(task, self, &result);
            if (code == -EAGAIN)
                return WEFT_PENDING;
            s->wrong += code != 0 || result.status != 0;
            weft_task_drop(task);
        }
        if (s->groups == 0)
            break;
        s->groups--;
        spawn_group(s);
        s->joined = 0;
    }
    s->end = bench_now();
    return weft_done(self, 0, NULL);
}

static void measure(struct bench_run *run, weft_poll_fn poll, weft_fiber_fn fn) {
    uint64_t count = run->quick ? 100000 : 1000000;
    struct spawner s = {.groups = count / GROUP, .joined = GROUP};
    bench_in_kind(run, poll, fn, &s, count + 1);
    bench_check(run, s.wrong == 0, "%llu spawns or joins failed", (unsigned long long)s.wrong);
    run->value[0] = (double)(s.end - s.start) / (double)count;
}

static void spawn_join(struct bench_run *run) { measure(run, with_join, in_fibers); }
static void spawn_join_poll(struct bench_run *run) { measure(run, with_join_poll, NULL); }

const struct bench_workload bench_spawn_join = {
    .name = "spawn_join",
    .about = "1 M empty tasks spawned in groups of 1,000 and joined with weft_join: ns/task",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"spawn_join", "ns/task", "floor_locked_add"}},
    .run = spawn_join,
};

const struct bench_workload bench_spawn_join_poll = {
    .name = "spawn_join_poll",
    .about = "the same, joined with weft_join_poll: ns/task",
    .kinds = BENCH_POLL,
    .figures = {{"spawn_join_poll", "ns/task", "floor_locked_add"}},
    .run = spawn_join_poll,
};
