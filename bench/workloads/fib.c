/* fib.c - fork-join fib(35) without a cut-off: ns a fork, where a fork is an inner node of the call tree. */
#include "../harness/bench.h"

/* n, fib(n), and the inner nodes of its call tree: fib(n + 1) - 1. */
struct problem {
    long n, value, forks;
};

struct fib {
    long n, result;
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

struct measured {
    struct fib fib;
    int64_t ns;
};

static int in_fiber(void *arg) {
    struct measured *m = arg;
    int64_t start = bench_now();
    fib(&m->fib);
    m->ns = bench_now() - start;
    return 0;
}

static weft_poll in_task(weft_task *self, void *state) { return weft_done(self, in_fiber(state), NULL); }

static void run_fib(struct bench_run *run) {
    static const struct problem full = {35, 9227465, 14930351}, quick = {27, 196418, 317810};
    const struct problem *p = run->quick ? &quick : &full;
    struct measured m = {{p->n, -1}, 0};
    bench_in_kind(run, in_task, in_fiber, &m, 0);
    bench_check(run, m.fib.result == p->value, "fib(%ld) is %ld, not %ld", p->n, p->value, m.fib.result);
    run->value[0] = (double)m.ns / (double)p->forks;
}

const struct bench_workload bench_fib = {
    .name = "fib",
    .about = "fork-join fib(35), no cut-off: ns/fork",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"fib", "ns/fork", "floor_fence"}},
    .run = run_fib,
};
