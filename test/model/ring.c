/* ring.c - the local queue under all interleavings: 4 slots, half is 2. */
#include "queue/ring.h"

#include "model.h"

static struct wefti_ring ring, mine, third;
static struct wefti_chain overflow;

static void start_at(uint32_t index) {
    struct wefti_ring *all[] = {&ring, &mine, &third};
    for (int i = 0; i < 3; i++) {
        store_relaxed(&all[i]->head, wefti_ring_pack(index, index));
        store_relaxed(&all[i]->tail, index);
        mc_exclusive(all[i]->slot, sizeof all[i]->slot); /* whoever uses a slot is ordered after who used it before */
    }
}

static void push(int i) { mc_assert(wefti_ring_push(&ring, make(i))); }

/* As sched/ring.c does it. */
static void push_or_overflow(int i) {
    struct wefti_link *item = make(i);
    struct wefti_chain half[2];
    while (!wefti_ring_push(&ring, item)) {
        if (wefti_ring_overflow(&ring, half) == 0) {
            if (!wefti_ring_push(&ring, item))
                wefti_chain_append(&overflow, item);
            return;
        }
        wefti_chain_join(&overflow, half[0]);
        wefti_chain_join(&overflow, half[1]);
    }
}

static void empty(struct wefti_ring *from) {
    for (struct wefti_link *item; (item = wefti_ring_pop(from, true));)
        got(item);
}

static void thief(void *into) {
    uint32_t taken = 0;
    struct wefti_link *item = wefti_ring_steal(&ring, into, &taken);
    mc_assert(taken <= WEFTI_RING_HALF);
    got(item);
    empty(into);
}

MC_TEST(ring_pop_against_steal, .proves = "B8 B10 B12 B13 B15") {
    start_at(0);
    int t = mc_spawn(thief, &mine);
    push(0), push(1), push(2);
    got(wefti_ring_pop(&ring, true));
    got(wefti_ring_pop(&ring, true));
    mc_join(t);
    empty(&ring);
    all_came_out(0, 3);
}

MC_TEST(ring_two_thieves, .proves = "B14 B15") {
    start_at(0);
    push(0), push(1), push(2);
    int a = mc_spawn(thief, &mine), b = mc_spawn(thief, &third);
    got(wefti_ring_pop(&ring, true));
    mc_join(a), mc_join(b);
    empty(&ring);
    all_came_out(0, 3);
}

MC_TEST(ring_wraps, .proves = "B15") {
    start_at(UINT32_MAX - 1);
    int t = mc_spawn(thief, &mine);
    push(0), push(1), push(2), push(3);
    got(wefti_ring_pop(&ring, true));
    push_or_overflow(4);
    mc_join(t);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 5);
}

/* A slot is filled again while a thief may still be copying it. */
MC_TEST(ring_reuses_slots, .proves = "B15") {
    start_at(0);
    push(0), push(1), push(2), push(3);
    int t = mc_spawn(thief, &mine);
    got(wefti_ring_pop(&ring, true));
    got(wefti_ring_pop(&ring, true));
    push_or_overflow(4), push_or_overflow(5);
    mc_join(t);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 6);
}

MC_TEST(ring_overflow_during_steal, .proves = "B9 B16") {
    start_at(0);
    push(0), push(1), push(2), push(3);
    int t = mc_spawn(thief, &mine);
    push_or_overflow(4);
    mc_join(t);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 5);
}

/* The thief releases between the push that found the ring full and the overflow: moving half would pass the tail. */
MC_TEST(ring_overflow_after_release, .proves = "B9 B16") {
    start_at(0);
    push(0), push(1), push(2), push(3);
    int t = mc_spawn(thief, &mine);
    got(wefti_ring_pop(&ring, true));
    got(wefti_ring_pop(&ring, true));
    push_or_overflow(4), push_or_overflow(5), push_or_overflow(6);
    mc_join(t);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 7);
}

/* What was stolen is stolen again, from the thief's ring. */
static void third_thief(void *unused) {
    (void)unused;
    uint32_t taken = 0;
    got(wefti_ring_steal(&mine, &third, &taken));
    empty(&third);
}

MC_TEST(ring_steal_from_thief, .proves = "B12 B15") {
    start_at(0);
    push(0), push(1), push(2), push(3);
    int a = mc_spawn(thief, &mine), b = mc_spawn(third_thief, NULL);
    mc_join(a), mc_join(b);
    empty(&ring);
    empty(&mine);
    all_came_out(0, 4);
}

/* The length that others read never wraps around. */
static void reader(void *unused) {
    (void)unused;
    mc_assert(wefti_ring_length(&ring) <= WEFTI_RING_CAP);
}

MC_TEST(ring_length_is_sane, .proves = "B7") {
    start_at(0);
    int t = mc_spawn(reader, NULL);
    push(0);
    got(wefti_ring_pop(&ring, true));
    push(1);
    got(wefti_ring_pop(&ring, true));
    mc_join(t);
}

/* -- The first thread is the thief: it holds a claim, is stopped once, and the others run to their ends. */

static void push_four(void) { push(0), push(1), push(2), push(3); }

static void pop_two_push_three(void *unused) {
    (void)unused;
    got(wefti_ring_pop(&ring, true));
    got(wefti_ring_pop(&ring, true));
    push_or_overflow(4), push_or_overflow(5), push_or_overflow(6);
}

/* The owner finds the ring full because of a thief, which then lets go: half of the ring is not there to be moved. */
MC_TEST(ring_full_then_released, .proves = "B9 B16") {
    push_four();
    int owner = mc_spawn(pop_two_push_three, NULL);
    thief(&mine);
    mc_join(owner);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 7);
}

/* Whoever sees the head that the overflow moved sees the tail from before: else the length is less than nothing. */
MC_TEST(ring_overflow_publishes_tail, .proves = "B9 B15") {
    int t = mc_spawn(thief, &mine);
    push_four();
    push_or_overflow(4);
    mc_join(t);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 5);
}

static void push_two(void *unused) {
    (void)unused;
    push_or_overflow(4), push_or_overflow(5);
}

/* While a thief copies, a second one leaves the ring alone: its release would give away what the first still reads. */
MC_TEST(ring_second_thief_waits, .proves = "B14 B15") {
    push_four();
    int other = mc_spawn(thief, &third), owner = mc_spawn(push_two, NULL);
    thief(&mine);
    mc_join(other), mc_join(owner);
    empty(&ring);
    got_chain(overflow);
    all_came_out(0, 6);
}

static void pop_one(void *unused) {
    (void)unused;
    got(wefti_ring_pop(&ring, true));
}

/* The release is made, whatever the owner pops meanwhile: a ring with a claim that nobody holds is never stolen from again. */
MC_TEST(ring_steal_lets_go, .proves = "B13 B15") {
    push_four();
    int owner = mc_spawn(pop_one, NULL);
    thief(&mine);
    mc_join(owner);
    uint64_t head = load_relaxed(&ring.head);
    mc_assert(wefti_ring_steal_of(head) == wefti_ring_real_of(head));
}

static void steal_two(void *unused) {
    (void)unused;
    uint32_t taken = 0;
    got(wefti_ring_steal(&ring, &mine, &taken));
}

/* An owner that uses the room a thief has left, to steal something itself, comes after that thief's copying.  (Were it before,
 * the thief could copy the new items; the checker does not let loads see the future, so the test asks for the order.) */
MC_TEST(ring_steals_into_room_of_thief, .proves = "B15", .bound = 3) {
    push_four();
    mc_assert(wefti_ring_push(&third, make(4)));
    int t = mc_spawn(steal_two, NULL);
    uint32_t taken = 0;
    struct wefti_link *item = wefti_ring_steal(&third, &ring, &taken);
    if (item)
        mc_assert(load_relaxed(&mine.slot[0]) == &items[1].link);
    mc_join(t);
}
