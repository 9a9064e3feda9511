/* steal.c - one task spawns all the work, every worker should do its share: speed-up against one worker. */
#include <errno.h>
#include <stdlib.h>

#include "../harness/bench.h"

/* About the same total at each size; the shorter the piece, the more the hand-over weighs. */
static const struct {
    unsigned us, count;
} sizes[] = {{1, 200000}, {10, 20000}, {100, 2000}};

struct piece {
    uint64_t turns;
    unsigned char *hit; /* one byte a task: done exactly once */
};

struct producer {
    unsigned count, spawned, joined;
    uint64_t turns;
    uint64_t wrong;
    int64_t start, end;
    weft_task **tasks;
    unsigned char *hits;
};

static weft_poll work(weft_task *self, void *state) {
    struct piece *piece = state;
    bench_spin(piece->turns);
    ++*piece->hit;
    return weft_done(self, 0, NULL);
}

static void spawn_all(struct producer *p) {
    struct piece piece = {.turns = p->turns};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = work;
    spec.state = &piece;
    spec.state_size = sizeof piece;
    for (; p->spawned < p->count; p->spawned++) {
        piece.hit = &p->hits[p->spawned];
        if (weft_spawn(NULL, &spec, &p->tasks[p->spawned]) != 0) {
            p->tasks[p->spawned] = NULL;
            p->wrong++;
        }
    }
}

static weft_poll produce(weft_task *self, void *state) {
    struct producer *p = state;
    if (p->start == 0) {
        p->start = bench_now();
        spawn_all(p);
    }
    for (; p->joined < p->count; p->joined++) {
        weft_result result = {-1, NULL};
        weft_task *task = p->tasks[p->joined];
        if (!task)
            continue;
        int code = weft_join_poll(task, self, &result);
        if (code == -EAGAIN)
            return WEFT_PENDING;
        p->wrong += code != 0 || result.status != 0;
        weft_task_drop(task);
    }
    p->end = bench_now();
    return weft_done(self, 0, NULL);
}

/* Wall ns for all pieces with `workers` workers. */
static double time_with(struct bench_run *run, unsigned workers, unsigned count, uint64_t turns) {
    struct bench_run part = *run;
    struct producer p = {.count = count, .turns = turns};
    part.workers = workers;
    p.tasks = calloc(count, sizeof *p.tasks);
    p.hits = calloc(count, 1);
    if (bench_check(&part, p.tasks && p.hits, "no memory"))
        bench_in_task(&part, produce, &p, count + 1);
    for (unsigned i = 0; p.hits && i < count; i++)
        p.wrong += p.hits[i] != 1;
    bench_check(&part, p.wrong == 0, "%llu pieces were not done once", (unsigned long long)p.wrong);
    free(p.tasks);
    free(p.hits);
    part.workers = run->workers;
    *run = part;
    return (double)(p.end - p.start);
}

static void steal(struct bench_run *run) {
    uint64_t per_100us = bench_spin_calibrate();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned count = run->quick ? sizes[i].count / 10 : sizes[i].count;
        uint64_t turns = per_100us * sizes[i].us / 100;
        double alone = time_with(run, 1, count, turns);
        double together = time_with(run, run->workers, count, turns);
        run->value[i] = alone / together;
    }
}

const struct bench_workload bench_steal = {
    .name = "steal",
    .about = "one task spawns pieces of 1, 10 or 100 us for all workers: speed-up against one worker",
    .kinds = BENCH_POLL,
    .figures =
        {
            {"steal_1us", "x", BENCH_IDEAL},
            {"steal_10us", "x", BENCH_IDEAL},
            {"steal_100us", "x", BENCH_IDEAL},
        },
    .skip = bench_skip_sim_or_alone,
    .run = steal,
};
