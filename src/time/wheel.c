/* wheel.c - timers (wheel.h has the design). */
#include "time/wheel.h"

#include "base/assert.h"

#define DIGIT 6u /* bits: log2 of the slots */
#define RUNS 32u /* of the sort: enough for 2^31 timers in one slot, and correct for more */

static uint32_t digit(uint64_t tick, uint32_t level) {
    return (uint32_t)(tick >> (DIGIT * level)) & (WEFTI_WHEEL_SLOTS - 1);
}

static void push(struct wefti_timer **head, struct wefti_timer *timer) {
    timer->next = *head;
    timer->at = head;
    if (*head)
        (*head)->at = &timer->next;
    *head = timer;
}

/* Into the slot of its tick, as seen from the wheel's. */
static void put(struct wefti_wheel *wheel, struct wefti_timer *timer) {
    if (timer->tick < wheel->tick) {
        timer->ahead = NULL;
        push(wheel->sorted ? &wheel->late : &wheel->due, timer);
        return;
    }
    uint64_t differs = timer->tick ^ wheel->tick;
    uint32_t level = differs ? (63u - (uint32_t)__builtin_clzll(differs)) / DIGIT : 0;
    uint32_t index = digit(timer->tick, level);
    if (level >= WEFTI_WHEEL_LEVELS) { /* around the corner of the last level, or as far away as it reaches */
        level = WEFTI_WHEEL_LEVELS - 1;
        uint64_t ahead = (timer->tick >> (DIGIT * level)) - (wheel->tick >> (DIGIT * level));
        uint64_t most = WEFTI_WHEEL_SLOTS - 1;
        index = (digit(wheel->tick, level) + (uint32_t)(ahead < most ? ahead : most)) % WEFTI_WHEEL_SLOTS;
    }
    uint64_t bit = UINT64_C(1) << index;
    if (!(wheel->filled[level] & bit) || timer->tick < wheel->earliest[level][index])
        wheel->earliest[level][index] = timer->tick;
    wheel->filled[level] |= bit;
    const void **recent = &wheel->recent[level][index][wheel->turn[level][index]++ % WEFTI_WHEEL_AHEAD];
    timer->ahead = *recent;
    *recent = timer;
    push(&wheel->slot[level][index], timer);
}

static void count(struct wefti_wheel *wheel, int change) {
    store_relaxed(&wheel->count, load_relaxed(&wheel->count) + (uint64_t)change); /* under the lock; a hint to others */
}

void wefti_wheel_add(struct wefti_wheel *wheel, struct wefti_timer *timer, int64_t deadline) {
    /* Rounded up: never early. */
    timer->tick = deadline <= 0 ? 0 : ((uint64_t)deadline + WEFTI_WHEEL_TICK - 1) / WEFTI_WHEEL_TICK;
    timer->early = deadline <= 0 ? 0 : (uint32_t)(timer->tick * WEFTI_WHEEL_TICK - (uint64_t)deadline);
    put(wheel, timer);
    count(wheel, 1);
}

static void unlink_timer(struct wefti_timer *timer) {
    *timer->at = timer->next;
    if (timer->next)
        timer->next->at = timer->at;
    timer->at = NULL;
}

void wefti_wheel_remove(struct wefti_wheel *wheel, struct wefti_timer *timer) {
    if (!timer->at)
        return;
    struct wefti_timer **head = timer->at;
    unlink_timer(timer);
    count(wheel, -1);
    /* The head of a slot, now empty: say so. */
    struct wefti_timer **first = &wheel->slot[0][0], **end = first + WEFTI_WHEEL_LEVELS * WEFTI_WHEEL_SLOTS;
    if (!*head && head >= first && head < end) {
        size_t at = (size_t)(head - first);
        wheel->filled[at / WEFTI_WHEEL_SLOTS] &= ~(UINT64_C(1) << (at % WEFTI_WHEEL_SLOTS));
    }
}

/* How many slots ahead of the wheel's own the first one of a level is that is not empty. */
static uint32_t first_ahead(const struct wefti_wheel *wheel, uint32_t level) {
    uint32_t from = digit(wheel->tick, level);
    uint64_t filled = wheel->filled[level];
    return (uint32_t)__builtin_ctzll(filled >> from | (from ? filled << (64 - from) : 0)); /* bit 0: the wheel's own */
}

/* The next tick at which a slot is to be emptied, and its level; UINT64_MAX: none.  Slots lie ahead of the wheel, in turn: above
 * level 0 the wheel's own slot is empty, unless the wheel has just come to its first tick and it is to be emptied now. */
static uint64_t next_slot(const struct wefti_wheel *wheel, uint32_t *level) {
    uint64_t best = UINT64_MAX;
    for (uint32_t l = 0; l < WEFTI_WHEEL_LEVELS; l++) {
        if (!wheel->filled[l])
            continue;
        uint64_t unit = UINT64_C(1) << (DIGIT * l);
        uint64_t tick = (wheel->tick & ~(unit - 1)) + first_ahead(wheel, l) * unit;
        if (tick <= best) { /* of two at one tick the higher level first: it fills the lower */
            best = tick;
            *level = l;
        }
    }
    return best;
}

/* -- Sorting a list by deadline --------------------------------------------------------------------------------- */

static bool is_before(const struct wefti_timer *a, const struct wefti_timer *b) {
    return a->tick != b->tick ? a->tick < b->tick : a->early > b->early;
}

/* Of two sorted lists, linked by `next` alone. */
static struct wefti_timer *merge(struct wefti_timer *a, struct wefti_timer *b) {
    struct wefti_timer *first = NULL, **end = &first;
    while (a && b) {
        struct wefti_timer **from = is_before(b, a) ? &b : &a;
        *end = *from;
        end = &(*end)->next;
        *from = *end;
    }
    *end = a ? a : b;
    return first;
}

/* A merge sort from the bottom up: run[i] is empty, or a sorted list of 2^i timers. */
static struct wefti_timer *sort(struct wefti_timer *list) {
    struct wefti_timer *run[RUNS] = {NULL}, *sorted = NULL;
    while (list) {
        struct wefti_timer *one = list;
        uint32_t i = 0;
        list = list->next;
        one->next = NULL;
        for (; i < RUNS - 1 && run[i]; i++) {
            one = merge(run[i], one);
            run[i] = NULL;
        }
        run[i] = merge(run[i], one);
    }
    for (uint32_t i = 0; i < RUNS; i++)
        sorted = merge(run[i], sorted);
    return sorted;
}

/* All of `list`, which is not empty, is due. */
static void fill_due(struct wefti_wheel *wheel, struct wefti_timer *list) {
    if (wheel->sorted && list->next) {
        list = sort(list);
        for (struct wefti_timer *timer = list; timer->next; timer = timer->next)
            timer->next->at = &timer->next;
    }
    wheel->due = list;
    list->at = &wheel->due;
}

struct wefti_timer *wefti_wheel_expire(struct wefti_wheel *wheel, int64_t now) {
    uint64_t now_tick = now <= 0 ? 0 : (uint64_t)now / WEFTI_WHEEL_TICK;
    if (WEFTI_UNLIKELY(wheel->late != NULL) && !wheel->due) {
        struct wefti_timer *late = wheel->late;
        wheel->late = NULL;
        fill_due(wheel, late);
    }
    while (!wheel->due) {
        uint32_t level = 0;
        uint64_t tick = next_slot(wheel, &level);
        if (tick > now_tick) {
            if (wheel->tick <= now_tick)
                wheel->tick = now_tick + 1; /* `tick` is no earlier */
            return NULL;
        }
        uint32_t index = digit(tick, level);
        struct wefti_timer *list = wheel->slot[level][index], *next;
        wheel->slot[level][index] = NULL;
        wheel->filled[level] &= ~(UINT64_C(1) << index);
        wheel->tick = tick;
        if (level == 0) { /* all of this slot are due */
            wheel->tick++;
            fill_due(wheel, list);
            break;
        }
        for (; list; list = next) {
            __builtin_prefetch(list->ahead);
            next = list->next;
            put(wheel, list);
        }
    }
    struct wefti_timer *timer = wheel->due;
    __builtin_prefetch(timer->ahead);
    unlink_timer(timer);
    count(wheel, -1);
    return timer;
}

int64_t wefti_wheel_next(const struct wefti_wheel *wheel) {
    if (wheel->due || wheel->late)
        return 0;
    uint64_t best = UINT64_MAX;
    for (uint32_t l = 0; l < WEFTI_WHEEL_LEVELS - 1; l++) {
        if (wheel->filled[l]) { /* of a level, the slot that is emptied first */
            uint64_t tick = wheel->earliest[l][(digit(wheel->tick, l) + first_ahead(wheel, l)) % WEFTI_WHEEL_SLOTS];
            best = tick < best ? tick : best;
        }
    }
    const uint64_t *last = wheel->earliest[WEFTI_WHEEL_LEVELS - 1]; /* any slot may have timers of later turns */
    for (uint64_t left = wheel->filled[WEFTI_WHEEL_LEVELS - 1]; left; left &= left - 1) {
        uint64_t tick = last[__builtin_ctzll(left)];
        best = tick < best ? tick : best;
    }
    return best >= (uint64_t)INT64_MAX / WEFTI_WHEEL_TICK ? INT64_MAX : (int64_t)best * WEFTI_WHEEL_TICK;
}
