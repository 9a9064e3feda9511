/* bias.c - the lock that costs its usual user nothing: nobody is inside with another, whoever comes. */
#include "queue/bias.h"

#include "model.h"

static struct wefti_bias *bias;
static int inside; /* plain: two at once is a data race */
static int worker[3];

static void enter(int self, int times) {
    for (int i = 0; i < times; i++) {
        wefti_bias_take(bias, self ? &worker[self] : NULL, self != 0 ? WEFTI_BIAS_STREAK : 0);
        inside++;
        wefti_bias_give(bias);
    }
}

static void start(void) { bias = wefti_alloc(sizeof *bias); }
static void end(void) { wefti_free(bias, sizeof *bias); }

static void owner_twice(void *unused) {
    (void)unused;
    enter(1, 2);
}
static void other_once(void *unused) {
    (void)unused;
    enter(2, 1);
}
static void thread_once(void *unused) {
    (void)unused;
    enter(0, 1);
}

/* It is the worker's own when the thread comes. */
MC_TEST(bias_revoked, .proves = "R33", .bound = 3, .seconds = 4) {
    start();
    enter(1, 2);
    mc_assert(load_relaxed(&bias->owner) == &worker[1]);
    int t = mc_spawn(thread_once, NULL);
    enter(1, 2);
    mc_join(t);
    mc_assert(inside == 5);
    end();
}

/* Two others at once. */
MC_TEST(bias_two_others, .proves = "R33", .bound = 2, .seconds = 4) {
    start();
    enter(1, 2);
    int t = mc_spawn(thread_once, NULL), u = mc_spawn(other_once, NULL);
    enter(1, 2);
    mc_join(t);
    mc_join(u);
    mc_assert(inside == 6);
    end();
}

/* Two workers become owner in turn, from the beginning. */
MC_TEST(bias_two_workers, .proves = "R33", .bound = 3, .seconds = 4) {
    start();
    int t = mc_spawn(owner_twice, NULL);
    enter(2, 3);
    mc_join(t);
    mc_assert(inside == 5);
    end();
}

/* The owner gives it up, while another comes; then it is as it was at first. */
MC_TEST(bias_reset, .proves = "R33", .bound = 3, .seconds = 4) {
    start();
    enter(1, 2);
    mc_assert(load_relaxed(&bias->owner) == &worker[1]);
    int t = mc_spawn(thread_once, NULL);
    wefti_bias_reset(bias, &worker[1]);
    enter(1, 1);
    mc_join(t);
    mc_assert(inside == 4);
    mc_assert(load_relaxed(&bias->owner) == NULL);
    end();
}

/* Another makes it nobody's, while its owner is inside or comes in. */
static void reset_by_other(void *unused) {
    (void)unused;
    wefti_bias_reset(bias, NULL);
    enter(2, 1);
}
MC_TEST(bias_reset_by_other, .proves = "R33", .bound = 3, .seconds = 4) {
    start();
    enter(1, 2);
    int t = mc_spawn(reset_by_other, NULL);
    enter(1, 1);
    mc_join(t);
    mc_assert(inside == 4 && bias->losses == 0);
    end();
}

/* After three losses it stays an ordinary lock. */
MC_TEST(bias_gives_up, .proves = "R33", .bound = 1) {
    start();
    for (int i = 0; i < 6; i++) {
        enter(1, 300);
        mc_assert((load_relaxed(&bias->owner) != NULL) == (i < 3));
        enter(2, 1);
        mc_assert(load_relaxed(&bias->owner) == NULL);
    }
    end();
}

/* Who comes last frees it: the one before does not touch it any more. */
static _Atomic int entered;
static void enter_and_say(void *unused) {
    (void)unused;
    wefti_bias_take(bias, &worker[1], WEFTI_BIAS_STREAK);
    add_relaxed(&entered, 1);
    wefti_bias_give(bias);
}
MC_TEST(bias_freed, .proves = "R33", .bound = 3) {
    start();
    mc_atomic_begin();
    enter(1, 2);
    mc_atomic_end();
    int t = mc_spawn(enter_and_say, NULL);
    while (!load_relaxed(&entered))
        wefti_relax();
    wefti_bias_take(bias, NULL, 0);
    wefti_bias_give(bias);
    end();
    mc_join(t);
}
