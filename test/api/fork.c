/* fork.c - fork and join: the right answer on any scheduler, any depth, any thread. */
#include "fixture.h"

struct fib {
    unsigned n;
    uint64_t result;
};

static void fib(void *arg) {
    struct fib *f = arg;
    if (f->n < 2) {
        f->result = f->n;
        return;
    }
    struct fib a = {f->n - 1, 0}, b = {f->n - 2, 0};
    weft_job job;
    weft_fork(&job, fib, &b);
    fib(&a);
    weft_join_job(&job);
    f->result = a.result + b.result;
}

static weft_poll run_fib(weft_task *self, void *state) {
    fib(state);
    return weft_done(self, 0, NULL);
}

API_TEST(fork_fib, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct fib f = {harness_is_slow() ? 18 : 25, 0};
    for (int i = 0; i < 3; i++) {
        f.result = 0;
        fixture_finish(fixture_go(rt, run_fib, &f));
        CHECK_EQ(f.result, harness_is_slow() ? 2584 : 75025);
    }
    fixture_end(rt);
}

/* Many tasks fork at once, also more than there are workers. */
API_TEST(fork_in_many_tasks, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct fib f[64];
    weft_task *task[64];
    for (unsigned i = 0; i < 64; i++) {
        f[i] = (struct fib){i % 16, 0};
        task[i] = fixture_go(rt, run_fib, &f[i]);
    }
    static const uint64_t expected[16] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
    for (unsigned i = 0; i < 64; i++) {
        fixture_finish(task[i]);
        CHECK_EQ(f[i].result, expected[i % 16]);
    }
    fixture_end(rt);
}

/* A plain thread runs its forks at the join: the same answer. */
TEST(fork_on_plain_thread, "") {
    struct fib f = {15, 0};
    fib(&f);
    CHECK_EQ(f.result, 610);
}

/* -- Deep and wide -------------------------------------------------------------------------------------------- */

enum { WIDE = 1000 };

static void add_one(void *arg) { atomic_fetch_add((atomic_uint *)arg, 1); }

static weft_poll fork_wide(weft_task *self, void *state) {
    weft_job job[WIDE];
    atomic_uint *sum = state;
    for (int i = 0; i < WIDE; i++) /* far more than 256 at once */
        weft_fork(&job[i], add_one, sum);
    for (int i = WIDE - 1; i >= 0; i--)
        weft_join_job(&job[i]);
    CHECK_EQ(*sum, WIDE);
    return weft_done(self, 0, NULL);
}

API_TEST(fork_many_at_once, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (int i = 0; i < 10; i++) {
        atomic_uint sum = 0;
        fixture_finish(fixture_go(rt, fork_wide, &sum));
    }
    fixture_end(rt);
}

struct nest {
    unsigned depth;
    atomic_uint *count;
};

static void nest(void *arg) {
    struct nest *n = arg, inner = {n->depth - 1, n->count};
    weft_job job;
    atomic_fetch_add(n->count, 1);
    if (n->depth == 0)
        return;
    weft_job leaf;
    weft_fork(&leaf, add_one, n->count);
    weft_fork(&job, nest, &inner);
    weft_join_job(&job);
    weft_join_job(&leaf);
}

static weft_poll run_nest(weft_task *self, void *state) {
    nest(state);
    return weft_done(self, 0, NULL);
}

API_TEST(fork_nested_deep, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_uint count = 0;
    struct nest n = {600, &count};
    fixture_finish(fixture_go(rt, run_nest, &n));
    CHECK_EQ(count, 2 * 600 + 1);
    fixture_end(rt);
}

/* -- What is written before a fork is seen by the job, and what it wrote after the join ------------------------- */

struct sums {
    unsigned *in, *out, count;
};

static void double_all(void *arg) {
    struct sums *s = arg;
    if (s->count == 1) {
        *s->out = 2 * *s->in;
        return;
    }
    struct sums left = {s->in, s->out, s->count / 2};
    struct sums right = {s->in + left.count, s->out + left.count, s->count - left.count};
    weft_job job;
    weft_fork(&job, double_all, &right);
    double_all(&left);
    weft_join_job(&job);
}

static weft_poll run_double(weft_task *self, void *state) {
    double_all(state);
    return weft_done(self, 0, NULL);
}

API_TEST(fork_visibility, "", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (unsigned round = 0; round < (harness_is_slow() ? 20 : 200); round++) {
        unsigned in[257], out[257]; /* plain memory */
        for (unsigned i = 0; i < 257; i++)
            in[i] = i * round, out[i] = 0;
        struct sums s = {in, out, 257};
        fixture_finish(fixture_go(rt, run_double, &s));
        for (unsigned i = 0; i < 257; i++)
            REQUIRE_EQ(out[i], 2 * i * round);
    }
    fixture_end(rt);
}

/* Idle workers take forked jobs. */
static atomic_uint met;

static void meet(void *arg) {
    (void)arg;
    atomic_fetch_add(&met, 1);
    REQUIRE_EVENTUALLY(atomic_load(&met) == 2); /* only when both run at once */
}

static weft_poll fork_meeting(weft_task *self, void *state) {
    static atomic_uint others;
    (void)state;
    weft_job job[64];
    for (int i = 0; i < 64; i++) /* jobs are offered when somebody wants some, which takes a fork or two */
        weft_fork(&job[i], i ? add_one : meet, &others);
    meet(NULL);
    for (int i = 63; i >= 0; i--)
        weft_join_job(&job[i]);
    return weft_done(self, 0, NULL);
}

API_TEST(fork_is_stolen, "B1", .sched = "ring deque fifo reactor", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) >= weft_runtime_workers(rt) - 1);
    fixture_finish(fixture_go(rt, fork_meeting, NULL));
    CHECK_GE(fixture_stats(rt).jobs_stolen, 1);
    fixture_end(rt);
}

/* Jobs may spawn tasks. */
static void spawn_one(void *arg) { REQUIRE_EQ(weft_go(NULL, fixture_count, arg, NULL), 0); }

static weft_poll fork_spawners(weft_task *self, void *state) {
    weft_job job[100];
    for (int i = 0; i < 100; i++)
        weft_fork(&job[i], spawn_one, state);
    for (int i = 99; i >= 0; i--)
        weft_join_job(&job[i]);
    return weft_done(self, 0, NULL);
}

API_TEST(fork_spawns, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(weft_go(rt, fork_spawners, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(ran == 2000);
    fixture_end(rt);
}
