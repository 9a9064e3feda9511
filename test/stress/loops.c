/* loops.c - forks, parallel loops and tasks on the same workers. */
#include "../api/fixture.h"

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

static uint64_t plain_fib(unsigned n) {
    uint64_t a = 0, b = 1;
    for (; n; n--) {
        uint64_t c = a + b;
        a = b;
        b = c;
    }
    return a;
}

static void add(size_t begin, size_t end, void *acc, void *arg) {
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(uint64_t *)acc += i;
}

static void combine(void *left, const void *right, void *arg) {
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
}

struct worker {
    uint64_t random;
    unsigned left;
};

/* Computes something, yields, computes something else. */
static weft_poll compute(weft_task *self, void *state) {
    struct worker *w = state;
    uint64_t dice = harness_random(&w->random), zero = 0, sum = 0;
    if (w->left-- == 0)
        return weft_done(self, 0, NULL);
    if (dice % 3) {
        struct fib f = {(unsigned)(dice % 17), 0};
        fib(&f);
        REQUIRE_EQ(f.result, plain_fib(f.n));
    } else {
        size_t n = dice % 1000;
        REQUIRE_EQ(weft_parallel_reduce(NULL, 0, n, dice % 50, sizeof sum, &zero, add, combine, NULL, &sum), 0);
        REQUIRE_EQ(sum, n ? n * (n - 1) / 2 : 0);
    }
    CHECK_EQ(weft_task_self(), self);
    return WEFT_YIELD;
}

API_TEST(loops_among_tasks, "B1", .workers = {1, 2, 4}, .timeout = 60) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 40; i++) {
        struct worker w = {harness_seed() + (uint64_t)i, harness_is_slow() ? 10 : 500};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = compute;
        spec.state = &w;
        spec.state_size = sizeof w;
        REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    }
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    fixture_end(rt);
}
