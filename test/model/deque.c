/* deque.c - the split deque under all interleavings: 4 slots. */
#include "queue/deque.h"

#include "model.h"

static struct wefti_deque deque;

static void start_at(uint16_t index) {
    store_relaxed(&deque.shared, wefti_deque_pack(0, index, index));
    deque.bottom = deque.split_own = deque.top_seen = index;
}

static void push(int i) { mc_assert(wefti_deque_push(&deque, make(i))); }

static bool pop(void) {
    struct wefti_link *item = wefti_deque_pop(&deque, (uint32_t)(mc_arg() ? mc_arg() : WEFTI_DEQUE_CAP));
    got(item);
    return item != NULL;
}

static void empty(void) {
    while (pop())
        ;
}

static void thief(void *unused) {
    (void)unused;
    void *out[2];
    uint32_t count = wefti_deque_steal(&deque, out, 2);
    for (uint32_t i = 0; i < count; i++)
        got(out[i]);
}

MC_TEST(deque_pop_against_steal, .proves = "W12 W16 W17 J14", .bound = 3) {
    start_at(0);
    int t = mc_spawn(thief, NULL);
    push(0), push(1), push(2);
    wefti_deque_publish(&deque, 3);
    pop(), pop();
    mc_join(t);
    empty();
    all_came_out(0, 3);
}

MC_TEST(deque_two_thieves, .proves = "W16 W17", .bound = 3) {
    start_at(0);
    push(0), push(1), push(2), push(3);
    wefti_deque_publish(&deque, 4);
    int a = mc_spawn(thief, NULL), b = mc_spawn(thief, NULL);
    pop();
    mc_join(a), mc_join(b);
    empty();
    all_came_out(0, 4);
}

/* The half-steal trap: the thief plans {0, 1}; the owner pops everything down to 0 and pushes others in their place. */
MC_TEST(deque_half_steal_trap, .proves = "W17", .bound = 3) {
    start_at(0);
    push(0), push(1), push(2), push(3);
    wefti_deque_publish(&deque, 4);
    int t = mc_spawn(thief, NULL);
    empty();
    push(4), push(5), push(6), push(7);
    wefti_deque_publish(&deque, 4);
    mc_join(t);
    empty();
    all_came_out(0, 8);
}

/* The same {split, top} over other items: without the tag the thief's swap would succeed. */
MC_TEST(deque_aba, .proves = "W17", .bound = 3) {
    start_at(0);
    push(0);
    wefti_deque_publish(&deque, 1);
    int t = mc_spawn(thief, NULL);
    if (pop()) {
        push(1);
        wefti_deque_publish(&deque, 1);
    } else {
        push(1);
    }
    mc_join(t);
    empty();
    all_came_out(0, 2);
}

/* A slot is filled again after its thief has read it. */
MC_TEST(deque_reuses_slots, .proves = "W18", .bound = 3) {
    start_at(0);
    push(0), push(1), push(2), push(3);
    wefti_deque_publish(&deque, 4);
    int t = mc_spawn(thief, NULL);
    struct wefti_link *more = make(4);
    bool pushed = wefti_deque_push(&deque, more);
    if (pushed)
        wefti_deque_publish(&deque, 1);
    mc_join(t);
    if (!pushed)
        got(more);
    empty();
    all_came_out(0, 5);
}

/* Full: the owner takes out the oldest half while a thief is at it. */
MC_TEST(deque_overflow, .proves = "W18", .bound = 3) {
    start_at(0);
    push(0), push(1), push(2), push(3);
    wefti_deque_publish(&deque, 1);
    int t = mc_spawn(thief, NULL);
    void *oldest[2];
    uint32_t taken;
    wefti_deque_take_oldest(&deque, 2, oldest, &taken);
    for (uint32_t i = 0; i < taken; i++)
        got(oldest[i]);
    push(4);
    wefti_deque_publish(&deque, 1);
    mc_join(t);
    empty();
    all_came_out(0, 5);
}

MC_TEST(deque_wraps, .proves = "W17 W18") {
    start_at(UINT16_MAX - 1);
    push(0), push(1), push(2), push(3);
    wefti_deque_publish(&deque, 3);
    int t = mc_spawn(thief, NULL);
    pop(), pop();
    push(4);
    wefti_deque_publish(&deque, wefti_deque_private(&deque));
    mc_join(t);
    empty();
    all_came_out(0, 5);
}

static void *copied[2]; /* plain */

static void copy_two(void *unused) {
    (void)unused;
    wefti_deque_steal(&deque, copied, 2);
}

/* A slot is filled again after its thief has read it. */
MC_TEST(deque_fills_slot_after_thief, .proves = "W18", .bound = 3) {
    for (int i = 0; i < 4; i++)
        push(i);
    wefti_deque_publish(&deque, 4);
    int t = mc_spawn(copy_two, NULL);
    if (wefti_deque_push(&deque, make(4)))
        mc_assert(copied[0] == &items[0] && copied[1] == &items[1]);
    mc_join(t);
}
