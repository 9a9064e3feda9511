/* time_wheel.c - the timer wheel against a sorted list: every timer comes out, at the first look that is not too early, and once. */
#include "time/wheel.h"

#include <stdlib.h>

#include "harness.h"

#define TICK WEFTI_WHEEL_TICK
#define SPAN (INT64_C(1) << 30) /* ticks that the wheel reaches: 64^5 */

static struct wefti_wheel wheel;

static int64_t tick_of(int64_t deadline) { return deadline <= 0 ? 0 : deadline / TICK + (deadline % TICK != 0); }

/* -- The model: all timers, and which of them are in the wheel ---------------------------------------------- */

#define TIMERS 512

struct entry {
    struct wefti_timer timer; /* first: an entry is found by it */
    int64_t deadline;
    bool in;
};

static struct entry entries[TIMERS];

static int64_t earliest(void) {
    int64_t best = INT64_MAX;
    for (unsigned i = 0; i < TIMERS; i++)
        if (entries[i].in && tick_of(entries[i].deadline) < best)
            best = tick_of(entries[i].deadline);
    return best;
}

static unsigned held(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < TIMERS; i++)
        count += entries[i].in;
    return count;
}

static void add(struct entry *entry, int64_t deadline) {
    entry->deadline = deadline;
    entry->in = true;
    wefti_wheel_add(&wheel, &entry->timer, deadline);
}

static void drop(struct entry *entry) {
    wefti_wheel_remove(&wheel, &entry->timer);
    entry->in = false;
}

/* All that is due at `now` comes out, and nothing else. */
static unsigned expire(int64_t now) {
    unsigned count = 0;
    for (struct wefti_timer *timer; (timer = wefti_wheel_expire(&wheel, now)); count++) {
        struct entry *entry = (struct entry *)(void *)timer;
        REQUIRE(entry->in);
        REQUIRE_LE(entry->deadline, now); /* never early */
        entry->in = false;
    }
    REQUIRE_GT(earliest(), now / TICK); /* nobody was left behind */
    return count;
}

static int64_t below(uint64_t *random, int64_t bound) { return (int64_t)(harness_random(random) % (uint64_t)bound); }

/* A deadline of any distance: each level of the wheel, beyond it, in the past, on a tick and beside it. */
static int64_t any_deadline(uint64_t *random, int64_t now) {
    int64_t distance = below(random, INT64_C(1) << (6 * below(random, 8) % 43)); /* ticks */
    int64_t deadline = now + distance * TICK + (below(random, 2) ? 0 : below(random, TICK));
    switch (below(random, 16)) {
    case 0: return now - below(random, now + 1); /* gone by */
    case 1: return now;
    case 2: return -below(random, INT64_MAX);
    case 3: return INT64_MAX - below(random, 3) * TICK;
    default: return deadline < now ? INT64_MAX : deadline;
    }
}

/* How far time goes on: mostly little, sometimes to just before, at or after a timer, or a very long way. */
static int64_t any_step(uint64_t *random, int64_t now) {
    int64_t next = wefti_wheel_next(&wheel);
    switch (below(random, 8)) {
    case 0: return next != INT64_MAX && next > now ? next - now : 0;
    case 1: return next != INT64_MAX && next > now ? next - now - 1 : 0;
    case 2: return below(random, 64 * TICK);
    case 3: return below(random, INT64_C(1) << (20 + below(random, 34)));
    default: return below(random, 3 * TICK);
    }
}

static void random_walk(uint64_t *random, unsigned steps, bool removes) {
    int64_t now = below(random, INT64_C(1) << (1 + below(random, 55)));
    uint64_t removed = 0, idle = 0;
    wheel = (struct wefti_wheel){.tick = (uint64_t)(now / TICK)};
    for (unsigned i = 0; i < TIMERS; i++)
        entries[i] = (struct entry){.in = false};
    for (unsigned step = 0; step < steps; step++) {
        struct entry *entry = &entries[below(random, TIMERS)];
        if (entry->in && removes && below(random, 2)) {
            drop(entry);
            removed++;
        } else if (!entry->in) {
            add(entry, any_deadline(random, now));
        }
        int64_t first = earliest(), next = wefti_wheel_next(&wheel);
        if (first == INT64_MAX) {
            REQUIRE_EQ(next, INT64_MAX);
        } else if (first < INT64_MAX / TICK) {
            REQUIRE_LE(next, first * TICK); /* a sleeper is never late ... */
            if (!removes && next > now)
                REQUIRE_EQ(next, first * TICK); /* ... nor wakes in vain */
        }
        if (below(random, 4) == 0) {
            int64_t ahead = any_step(random, now);
            if (ahead > INT64_MAX / 2 - now)
                break;
            now += ahead;
            bool looked = next <= now;
            idle += expire(now) == 0 && looked;
        }
        REQUIRE_EQ(load_relaxed(&wheel.count), held());
    }
    REQUIRE_LE(idle, removed); /* a timer that was taken out costs one look at most */
    /* From one wake of a sleeper to the next: the rest comes out, in order. */
    uint64_t wakes = 0, most = held() + removed;
    for (int64_t next; (next = wefti_wheel_next(&wheel)) != INT64_MAX; wakes++) {
        now = next > now ? next : now;
        expire(now);
        REQUIRE_LE(wakes, most);
    }
    expire(INT64_MAX);
    for (unsigned i = 0; i < TIMERS; i++)
        REQUIRE(!entries[i].in || entries[i].deadline > INT64_MAX - TICK); /* later than any clock says */
    for (unsigned i = 0; i < TIMERS; i++)
        if (entries[i].in)
            drop(&entries[i]);
    REQUIRE_EQ(load_relaxed(&wheel.count), 0);
}

TEST(wheel_random, "R15", .timeout = 60) {
    uint64_t random = harness_seed();
    for (unsigned round = 0; round < (harness_is_slow() ? 40 : 400); round++)
        random_walk(&random, 1000, round % 2);
}

/* -- One thing at a time ------------------------------------------------------------------------------------- */

static void begin(int64_t now) { wheel = (struct wefti_wheel){.tick = (uint64_t)(now / TICK)}; }

TEST(wheel_empty, "") {
    begin(0);
    CHECK_EQ(wefti_wheel_next(&wheel), INT64_MAX);
    CHECK_EQ(wefti_wheel_expire(&wheel, INT64_MAX), NULL);
    CHECK_EQ(wefti_wheel_next(&wheel), INT64_MAX);
}

/* Rounded up to a tick, at every level: one nanosecond before it comes nothing. */
TEST(wheel_never_early, "R15") {
    static const int64_t ticks[] = {1,      2,      63,       64,       65,   4095,     4096,       4097,
                                    262143, 262144, 16777216, SPAN - 1, SPAN, SPAN + 1, 8000 * SPAN};
    static const int64_t starts[] = {0, 1, 63, 64, 4095, SPAN - 1, SPAN, 123456789};
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        for (size_t t = 0; t < sizeof ticks / sizeof *ticks; t++)
            for (int64_t off = -1; off <= 1; off++) {
                begin(starts[s] * TICK);
                int64_t deadline = (starts[s] + ticks[t]) * TICK + off, out = tick_of(deadline) * TICK;
                struct wefti_timer timer;
                wefti_wheel_add(&wheel, &timer, deadline);
                CHECK_EQ(wefti_wheel_next(&wheel), out);
                CHECK_EQ(wefti_wheel_expire(&wheel, deadline - 1), NULL);
                CHECK_EQ(wefti_wheel_expire(&wheel, out - 1), NULL);
                CHECK_EQ(wefti_wheel_next(&wheel), out);
                CHECK_EQ(wefti_wheel_expire(&wheel, out), &timer);
                CHECK_EQ(wefti_wheel_expire(&wheel, INT64_MAX), NULL);
            }
}

/* Whose only timer is taken out, a slot is empty, and says so: each of them, also the first and the last. */
TEST(wheel_taken_out, "R15") {
    for (uint32_t at = 0; at < WEFTI_WHEEL_LEVELS * WEFTI_WHEEL_SLOTS; at++) {
        uint32_t level = at / WEFTI_WHEEL_SLOTS, index = at % WEFTI_WHEEL_SLOTS;
        int64_t deadline = ((int64_t)index << 6 * level) * TICK;
        struct wefti_timer timer = {.at = NULL};
        if (level && !index)
            continue; /* what lies there is in a slot below */
        begin(0);
        wefti_wheel_add(&wheel, &timer, deadline);
        REQUIRE_EQ(wheel.filled[level], UINT64_C(1) << index);
        CHECK_EQ(wefti_wheel_next(&wheel), deadline);
        wefti_wheel_remove(&wheel, &timer);
        CHECK_EQ(wheel.filled[level], 0);
        CHECK_EQ(wefti_wheel_next(&wheel), INT64_MAX);
        CHECK(!wefti_wheel_expire(&wheel, deadline));
    }
}

/* A deadline that has passed comes out at the next look, also when the wheel has gone by it. */
TEST(wheel_past, "") {
    struct wefti_timer timer[4];
    begin(1000 * TICK);
    CHECK_EQ(wefti_wheel_expire(&wheel, 2000 * TICK), NULL);
    static const int64_t deadlines[] = {INT64_MIN, 0, 999 * TICK, 2000 * TICK};
    for (int i = 0; i < 4; i++)
        wefti_wheel_add(&wheel, &timer[i], deadlines[i]);
    CHECK_EQ(wefti_wheel_next(&wheel), 0);
    wefti_wheel_remove(&wheel, &timer[1]);
    wefti_wheel_remove(&wheel, &timer[1]); /* in no wheel: nothing happens */
    unsigned out = 0;
    while (wefti_wheel_expire(&wheel, 2000 * TICK))
        out++;
    CHECK_EQ(out, 3);
    CHECK_EQ(wefti_wheel_next(&wheel), INT64_MAX);
}

/* Timers for later turns of the wheel do not hide an earlier one in a later slot of the last level. */
TEST(wheel_later_turns, "") {
    struct wefti_timer far, near;
    begin(0);
    wefti_wheel_add(&wheel, &far, 5 * SPAN * TICK);
    expire(SPAN / 2 * TICK);
    wefti_wheel_add(&wheel, &near, (SPAN / 2 + SPAN - 1) * TICK);
    CHECK_EQ(wefti_wheel_next(&wheel), (SPAN / 2 + SPAN - 1) * TICK);
    CHECK_EQ(wefti_wheel_expire(&wheel, 2 * SPAN * TICK), &near);
    CHECK_EQ(wefti_wheel_expire(&wheel, (5 * SPAN - 1) * TICK), NULL);
    CHECK_EQ(wefti_wheel_expire(&wheel, 5 * SPAN * TICK), &far);
}

/* A million of one deadline: as cheap as any, and taken out from anywhere in the slot. */
TEST(wheel_million_equal, "B9", .timeout = 60) {
    unsigned count = harness_is_slow() ? 50000 : 1000000, out = 0;
    struct wefti_timer *timer = calloc(count, sizeof *timer);
    REQUIRE(timer);
    int64_t deadline = 777 * TICK;
    begin(0);
    for (unsigned i = 0; i < count; i++)
        wefti_wheel_add(&wheel, &timer[i], deadline);
    for (unsigned i = 0; i < count; i += 2)
        wefti_wheel_remove(&wheel, &timer[i]);
    CHECK_EQ(wefti_wheel_next(&wheel), deadline);
    CHECK_EQ(wefti_wheel_expire(&wheel, deadline - 1), NULL);
    for (struct wefti_timer *one; (one = wefti_wheel_expire(&wheel, deadline)); out++)
        REQUIRE_EQ((one - timer) % 2, 1);
    CHECK_EQ(out, count / 2);
    /* Half-way through, the rest can still be taken out. */
    for (unsigned i = 0; i < count; i++)
        wefti_wheel_add(&wheel, &timer[i], 2 * deadline);
    struct wefti_timer *first = wefti_wheel_expire(&wheel, 2 * deadline);
    REQUIRE(first);
    for (unsigned i = 0; i < count; i++)
        wefti_wheel_remove(&wheel, &timer[i]);
    CHECK_EQ(wefti_wheel_expire(&wheel, 3 * deadline), NULL);
    CHECK_EQ(load_relaxed(&wheel.count), 0);
    free(timer);
}
