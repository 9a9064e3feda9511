/* janus.c - the four functions of libweft-janus, as a Janus compiler lowers a nursery block to
 * them. */
#include <weft/janus.h>

#include "nursery.h"

static int compute(void *arg) {
    int *number = arg;
    *number += 1;
    return *number > 0 ? 0 : -5;
}

/* nursery { spawn compute(x); spawn compute(y) }: no result of a spawn is looked at or released. */
static int block(int *x, int *y) {
    weft_nursery *n = janus_nursery_create();
    janus_nursery_spawn(n, compute, x);
    janus_nursery_spawn(n, compute, y);
    int result = janus_nursery_await(n);
    janus_nursery_destroy(n);
    return result;
}

static int all_blocks(void *arg) {
    (void)arg;
    for (int i = 0; i < 20; i++) {
        int x = i, y = 10 * i;
        CHECK_EQ(block(&x, &y), 0);
        CHECK_EQ(x, i + 1);
        CHECK_EQ(y, 10 * i + 1);
        y = -100;
        CHECK_EQ(block(&x, &y), -5);
    }
    return 0;
}

API_TEST(janus_in_a_fiber, "J26 J32 J33 J36", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(all_blocks, NULL), 0); }

API_TEST(janus_on_main, "J27 J32 J33 J36", .workers = {1, 2, 4}) { all_blocks(NULL); }

/* A block within a block: the inner one belongs to the fiber that opened it. */
static int nested(void *arg) {
    int x = 0, y = 0;
    int result = block(&x, &y);
    *(int *)arg = x + y;
    return result;
}

static int two_levels(void *arg) {
    int sums[5];
    weft_nursery *n = janus_nursery_create();
    for (int i = 0; i < 5; i++)
        janus_nursery_spawn(n, nested, &sums[i]);
    CHECK_EQ(janus_nursery_await(n), 0);
    janus_nursery_destroy(n);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sums[i], 2);
    return (void)arg, 0;
}

API_TEST(janus_nested, "J26 J27 J38", .workers = {1, 2}) {
    two_levels(NULL);
    CHECK_EQ(in_fiber(two_levels, NULL), 0);
}

/* Not awaited: destroy cancels the tasks, and waits for them. */
static int destroyed(void *arg) {
    weft_nursery *n = janus_nursery_create();
    REQUIRE(janus_nursery_spawn(n, wait_for_ever, NULL));
    janus_nursery_destroy(n);
    CHECK_EQ(did.entered, did.returned);
    janus_nursery_destroy(NULL);
    CHECK(!janus_nursery_spawn(NULL, compute, NULL));
    CHECK_EQ(janus_nursery_await(NULL), -EINVAL);
    return (void)arg, 0;
}

API_TEST(janus_destroy, "J27 J34 J36", .workers = {1, 2}) {
    destroyed(NULL);
    CHECK_EQ(in_fiber(destroyed, NULL), 0);
}
