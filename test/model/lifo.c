/* lifo.c - the slot and the batch that a worker keeps for itself, against a thief. */
#include "sched/lifo.h"

#include "model.h"

static struct wefti_lifo lifo;

static void put(int i) {
    wefti_lifo_enter(&lifo);
    got(wefti_lifo_put(&lifo, make(i)));
    wefti_lifo_leave(&lifo);
}

static void take(void) {
    wefti_lifo_enter(&lifo);
    struct wefti_link *item = wefti_lifo_take_batched(&lifo);
    if (!item)
        item = wefti_lifo_take(&lifo);
    wefti_lifo_leave(&lifo);
    got(item);
}

static void thief(void *unused) {
    (void)unused;
    got(wefti_lifo_steal(&lifo));
}

MC_TEST(lifo_take_against_steal, .proves = "B3 B17 B22", .bound = 3) {
    put(0);
    int a = mc_spawn(thief, NULL);
    take();
    mc_join(a);
    take();
    all_came_out(0, 1);
}

MC_TEST(lifo_put_against_steal, .proves = "B3 B17", .bound = 3) {
    int a = mc_spawn(thief, NULL);
    put(0);
    put(1);
    mc_join(a);
    take();
    all_came_out(0, 2);
}

MC_TEST(lifo_batch_against_steal, .proves = "B6 B27", .bound = 3) {
    struct wefti_chain chain = {NULL, NULL, 0};
    wefti_chain_append(&chain, make(0));
    wefti_chain_append(&chain, make(1));
    int a = mc_spawn(thief, NULL);
    wefti_lifo_enter(&lifo);
    wefti_lifo_fill(&lifo, &chain);
    wefti_lifo_leave(&lifo);
    take();
    mc_join(a);
    take(), take();
    all_came_out(0, 2);
}

MC_TEST(lifo_two_thieves, .proves = "B3") {
    put(0);
    int a = mc_spawn(thief, NULL), b = mc_spawn(thief, NULL);
    put(1);
    mc_join(a), mc_join(b);
    take();
    all_came_out(0, 2);
}
