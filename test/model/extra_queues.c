/* extra_queues.c - the ring and the deque again: each test is here because of a mutant that the others let live.
 *
 * In most of them the first thread is the thief: it holds a claim, is stopped once, and the others run to their ends. */
#include "queue/deque.h"
#include "queue/ring.h"

#include "model.h"

static struct wefti_ring ring, mine, third;
static struct wefti_chain overflow;

static void push(int i) { mc_assert(wefti_ring_push(&ring, make(i))); }

static void push_four(void) { push(0), push(1), push(2), push(3); }

/* As sched/ring.c does it. */
static void push_or_overflow(int i) {
    struct wefti_link *item = make(i);
    while (!wefti_ring_push(&ring, item))
        if (wefti_ring_overflow(&ring, &overflow) == 0) {
            if (!wefti_ring_push(&ring, item))
                wefti_chain_append(&overflow, item);
            return;
        }
}

static void empty(struct wefti_ring *from) {
    for (struct wefti_link *item; (item = wefti_ring_pop(from, true));)
        got(item);
}

static void thief(void *into) {
    uint32_t taken = 0;
    got(wefti_ring_steal(&ring, into, &taken));
    empty(into);
}

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

/* -- deque */

static struct wefti_deque deque;
static void *copied[2]; /* plain */

static void deque_thief(void *unused) {
    (void)unused;
    wefti_deque_steal(&deque, copied, 2);
}

/* The same for the deque: a slot is filled again after its thief has read it. */
MC_TEST(deque_fills_slot_after_thief, .proves = "W18", .bound = 3) {
    for (int i = 0; i < 4; i++)
        mc_assert(wefti_deque_push(&deque, make(i)));
    wefti_deque_publish(&deque, 4);
    int t = mc_spawn(deque_thief, NULL);
    if (wefti_deque_push(&deque, make(4)))
        mc_assert(copied[0] == &items[0] && copied[1] == &items[1]);
    mc_join(t);
}
