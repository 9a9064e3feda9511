/* parallel.c - parallel loops and reductions: every index once, the same sum on any number of workers. */
#include "fixture.h"

static struct {
    atomic_uchar hit[100000];
    atomic_size_t parts, largest;
    size_t begin;
} loop;

static void hit(size_t begin, size_t end, void *arg) {
    CHECK_EQ(arg, &loop);
    REQUIRE_LT(begin, end);
    atomic_fetch_add(&loop.parts, 1);
    size_t largest = atomic_load(&loop.largest);
    while (end - begin > largest && !atomic_compare_exchange_weak(&loop.largest, &largest, end - begin))
        continue;
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&loop.hit[i - loop.begin], 1);
}

static void expect_covered(weft_runtime *rt, size_t begin, size_t count, size_t grain) {
    memset(loop.hit, 0, count + 1);
    loop.parts = loop.largest = 0;
    loop.begin = begin;
    REQUIRE_EQ(weft_parallel_for(rt, begin, begin + count, grain, hit, &loop), 0);
    for (size_t i = 0; i < count; i++)
        REQUIRE_EQ(loop.hit[i], 1);
    CHECK_EQ(loop.hit[count], 0);
    if (grain)
        CHECK(loop.largest <= grain);
    CHECK_EQ(loop.parts != 0, count != 0);
}

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 1023, 5000};
static const size_t grains[] = {0, 1, 2, 3, 7, 64, 1000, 100000, SIZE_MAX};

API_TEST(parallel_covers, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
            expect_covered(rt, c * 7, counts[c], grains[g]);
    expect_covered(rt, 0, 99999, 0);
    expect_covered(rt, 0, 99999, 10);
    expect_covered(rt, SIZE_MAX - 5000, 5000, 7); /* at the end of all numbers */
    fixture_end(rt);
}

static weft_poll loop_inside(weft_task *self, void *state) {
    (void)state;
    expect_covered(NULL, 5, 1000, 10); /* rt NULL: the one that runs us */
    expect_covered(weft_runtime_current(), 5, 1000, 0);
    return weft_done(self, 0, NULL);
}

API_TEST(parallel_inside_a_task, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    fixture_finish(fixture_go(rt, loop_inside, NULL));
    fixture_end(rt);
}

static void inner_part(size_t begin, size_t end, void *arg) { atomic_fetch_add((atomic_size_t *)arg, end - begin); }

static void outer_part(size_t begin, size_t end, void *arg) {
    for (size_t i = begin; i < end; i++)
        REQUIRE_EQ(weft_parallel_for(NULL, 0, i, 3, inner_part, arg), 0);
}

API_TEST(parallel_nested, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_size_t sum = 0;
    REQUIRE_EQ(weft_parallel_for(rt, 0, 100, 4, outer_part, &sum), 0);
    CHECK_EQ(sum, 99 * 100 / 2);
    fixture_end(rt);
}

API_TEST(parallel_huge_range, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_size_t sum = 0;
    REQUIRE_EQ(weft_parallel_for(rt, 0, SIZE_MAX, 0, inner_part, &sum), 0);
    CHECK(sum == SIZE_MAX);
    sum = 0;
    REQUIRE_EQ(weft_parallel_for(rt, 0, SIZE_MAX, SIZE_MAX, inner_part, &sum), 0);
    CHECK(sum == SIZE_MAX);
    fixture_end(rt);
}

API_TEST(parallel_for_errors, "") {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(weft_parallel_for(rt, 0, 10, 0, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_parallel_for(NULL, 0, 10, 0, hit, &loop), -EINVAL); /* no runtime here */
    CHECK_EQ(weft_parallel_for(rt, 10, 10, 0, hit, &loop), 0);
    CHECK_EQ(weft_parallel_for(rt, 10, 9, 0, hit, &loop), 0);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(weft_parallel_for(rt, 0, 10, 0, hit, &loop), -ESHUTDOWN);
    CHECK_EQ(loop.parts, 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- Reductions ------------------------------------------------------------------------------------------------- */

static void add_indexes(size_t begin, size_t end, void *acc, void *arg) {
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(uint64_t *)acc += i;
}

static void add(void *left, const void *right, void *arg) {
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
}

API_TEST(parallel_reduce_sum, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            uint64_t zero = 0, sum = 77, n = counts[c];
            REQUIRE_EQ(weft_parallel_reduce(rt, 0, n, grains[g], sizeof sum, &zero, add_indexes, add, NULL, &sum), 0);
            CHECK_EQ(sum, n ? n * (n - 1) / 2 : 0);
        }
    fixture_end(rt);
}

/* Combined in the order of the range: a sum of texts, so to speak. */
struct stretch {
    size_t first, last;
    bool broken;
    char large[200]; /* near the limit */
};

static void map_stretch(size_t begin, size_t end, void *acc, void *arg) {
    struct stretch *s = acc;
    (void)arg;
    CHECK_EQ(s->first, SIZE_MAX); /* a copy of the identity */
    s->first = begin;
    s->last = end;
}

static void combine_stretch(void *left, const void *right, void *arg) {
    struct stretch *l = left;
    const struct stretch *r = right;
    (void)arg;
    l->broken |= r->broken || l->last != r->first;
    l->last = r->last;
}

API_TEST(parallel_reduce_order, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct stretch none = {SIZE_MAX, 0, false, {0}}, total;
    for (size_t grain = 0; grain < 20; grain++) {
        REQUIRE_EQ(
            weft_parallel_reduce(rt, 3, 1003, grain, sizeof total, &none, map_stretch, combine_stretch, NULL, &total),
            0);
        CHECK_EQ(total.first, 3);
        CHECK_EQ(total.last, 1003);
        CHECK(!total.broken);
    }
    fixture_end(rt);
}

static void add_fractions(size_t begin, size_t end, void *acc, void *arg) {
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(double *)acc += 1.0 / (double)(i + 1) / (double)(i % 7 + 1);
}

static void add_doubles(void *left, const void *right, void *arg) {
    (void)arg;
    *(double *)left += *(const double *)right;
}

static double sum_on(weft_sched sched, unsigned workers, size_t grain) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = sched;
    config.workers = workers;
    weft_runtime *rt = fixture_begin(&config);
    double zero = 0, sum = 0;
    REQUIRE_EQ(weft_parallel_reduce(rt, 0, 100000, grain, sizeof sum, &zero, add_fractions, add_doubles, NULL, &sum),
               0);
    fixture_end(rt);
    return sum;
}

/* Floating-point addition depends on the order: the order does not depend on the workers. */
TEST(parallel_reduce_same_bits, "") {
    for (size_t grain = 0; grain <= 1000; grain += 500) {
        double first = sum_on(WEFT_SCHED_RING, 1, grain);
        for (int sched = 1; sched <= 4; sched++)
            for (unsigned workers = 1; workers <= 4; workers++) {
                double other = sum_on((weft_sched)sched, workers, grain);
                CHECK(memcmp(&first, &other, sizeof first) == 0);
            }
    }
}

API_TEST(parallel_reduce_errors, "") {
    weft_runtime *rt = fixture_begin(NULL);
    char acc[257] = {0}, out[257];
    memset(out, 'x', sizeof out);
    CHECK_EQ(weft_parallel_reduce(rt, 0, 9, 0, 0, acc, add_indexes, add, NULL, out), -EINVAL);
    CHECK_EQ(weft_parallel_reduce(rt, 0, 9, 0, 257, acc, add_indexes, add, NULL, out), -EINVAL);
    CHECK_EQ(weft_parallel_reduce(rt, 0, 9, 0, 8, NULL, add_indexes, add, NULL, out), -EINVAL);
    CHECK_EQ(weft_parallel_reduce(rt, 0, 9, 0, 8, acc, NULL, add, NULL, out), -EINVAL);
    CHECK_EQ(weft_parallel_reduce(rt, 0, 9, 0, 8, acc, add_indexes, NULL, NULL, out), -EINVAL);
    CHECK_EQ(weft_parallel_reduce(rt, 0, 9, 0, 8, acc, add_indexes, add, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_parallel_reduce(NULL, 0, 9, 0, 8, acc, add_indexes, add, NULL, out), -EINVAL);
    for (int i = 0; i < 257; i++)
        REQUIRE_EQ(out[i], 'x');
    uint64_t ten = 10, sum = 0; /* an empty range gives the identity */
    CHECK_EQ(weft_parallel_reduce(rt, 5, 5, 0, 8, &ten, add_indexes, add, NULL, &sum), 0);
    CHECK_EQ(sum, 10);
    fixture_end(rt);
}
