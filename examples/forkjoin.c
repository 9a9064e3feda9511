/* forkjoin.c - computation on all cores: divide and conquer, a loop, a sum. */
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

struct fib {
    int n;
    uint64_t result;
};

static void fib(void *arg) {
    struct fib *f = arg;
    if (f->n < 2) {
        f->result = (uint64_t)f->n;
        return;
    }
    struct fib a = {f->n - 1, 0}, b = {f->n - 2, 0};
    weft_job job;
    weft_fork(&job, fib, &b); /* another worker may take it */
    fib(&a);
    weft_join_job(&job);
    f->result = a.result + b.result;
}

static weft_poll fib_task(weft_task *self, void *state) {
    fib(state);
    return weft_done(self, 0, NULL);
}

static void fill(size_t begin, size_t end, void *arg) {
    uint32_t *numbers = arg;
    for (size_t i = begin; i < end; i++)
        numbers[i] = (uint32_t)i + 1;
}

static void add_part(size_t begin, size_t end, void *acc, void *arg) {
    const uint32_t *numbers = arg;
    for (size_t i = begin; i < end; i++)
        *(uint64_t *)acc += numbers[i];
}

static void add_sums(void *left, const void *right, void *arg) {
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
}

int main(void) {
    enum { COUNT = 1000000 };
    static uint32_t numbers[COUNT];
    const uint64_t zero = 0;
    uint64_t sum = 0;
    struct fib f = {25, 0};
    weft_runtime *rt;

    if (weft_run(NULL, fib_task, &f, NULL) < 0 || weft_runtime_create(NULL, &rt) < 0)
        return 1;
    printf("fib(%d) = %llu\n", f.n, (unsigned long long)f.result);
    if (weft_parallel_for(rt, 0, COUNT, 0, fill, numbers) < 0 ||
        weft_parallel_reduce(rt, 0, COUNT, 0, sizeof sum, &zero, add_part, add_sums, numbers, &sum) < 0)
        return 1;
    printf("1 + 2 + ... + %d = %llu\n", COUNT, (unsigned long long)sum);
    return weft_runtime_destroy(rt) < 0;
}
