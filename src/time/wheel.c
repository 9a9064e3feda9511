/* wheel.c - timers (wheel.h has the design). */
#include "time/wheel.h"

#define DIGIT 6u /* bits: log2 of the slots */

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
        push(&wheel->due, timer);
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
    push(&wheel->slot[level][index], timer);
    wheel->filled[level] |= UINT64_C(1) << index;
}

void wefti_wheel_add(struct wefti_wheel *wheel, struct wefti_timer *timer, int64_t deadline) {
    /* Rounded up: never early. */
    timer->tick = deadline <= 0 ? 0 : ((uint64_t)deadline + WEFTI_WHEEL_TICK - 1) / WEFTI_WHEEL_TICK;
    put(wheel, timer);
    wheel->count++;
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
    wheel->count--;
    /* The head of a slot, now empty: say so. */
    struct wefti_timer **first = &wheel->slot[0][0], **end = first + WEFTI_WHEEL_LEVELS * WEFTI_WHEEL_SLOTS;
    if (!*head && head >= first && head < end) {
        size_t at = (size_t)(head - first);
        wheel->filled[at / WEFTI_WHEEL_SLOTS] &= ~(UINT64_C(1) << (at % WEFTI_WHEEL_SLOTS));
    }
}

/* The next tick at which a slot is to be emptied, and its level; UINT64_MAX: none.  Slots lie ahead of the wheel, in turn. */
static uint64_t next_slot(const struct wefti_wheel *wheel, uint32_t *level) {
    uint64_t best = UINT64_MAX;
    for (uint32_t l = 0; l < WEFTI_WHEEL_LEVELS; l++) {
        if (!wheel->filled[l])
            continue;
        uint32_t from = digit(wheel->tick, l);
        /* Rotated so that bit 0 is the wheel's own slot. */
        uint64_t ahead = wheel->filled[l] >> from | (from ? wheel->filled[l] << (64 - from) : 0);
        uint64_t steps = (uint64_t)__builtin_ctzll(ahead);
        /* Above level 0 the wheel's own slot was emptied when the wheel came to it: what is there now is a turn away. */
        uint64_t unit = UINT64_C(1) << (DIGIT * l), start = wheel->tick & ~(unit - 1);
        if (steps == 0 && start < wheel->tick)
            steps = (ahead & (ahead - 1)) ? (uint64_t)__builtin_ctzll(ahead & (ahead - 1)) : WEFTI_WHEEL_SLOTS;
        uint64_t tick = start + steps * unit;
        if (tick < best ||
            (tick == best && l > *level)) { /* of two at one tick, the higher first: it fills the lower */
            best = tick;
            *level = l;
        }
    }
    return best;
}

struct wefti_timer *wefti_wheel_expire(struct wefti_wheel *wheel, int64_t now) {
    uint64_t now_tick = now <= 0 ? 0 : (uint64_t)now / WEFTI_WHEEL_TICK;
    while (!wheel->due) {
        uint32_t level = 0;
        uint64_t tick = wheel->count ? next_slot(wheel, &level) : UINT64_MAX;
        if (tick > now_tick) {
            if (wheel->tick <= now_tick)
                wheel->tick = now_tick + 1 <= tick ? now_tick + 1 : tick;
            return NULL;
        }
        uint32_t index = digit(tick, level);
        struct wefti_timer *list = wheel->slot[level][index], *next;
        wheel->slot[level][index] = NULL;
        wheel->filled[level] &= ~(UINT64_C(1) << index);
        wheel->tick = tick;
        if (level == 0)
            wheel->tick++; /* all of this slot are due */
        for (; list; list = next) {
            next = list->next;
            put(wheel, list);
        }
    }
    struct wefti_timer *timer = wheel->due;
    unlink_timer(timer);
    wheel->count--;
    return timer;
}

int64_t wefti_wheel_next(const struct wefti_wheel *wheel) {
    if (wheel->due)
        return 0;
    uint32_t level = 0;
    uint64_t tick = wheel->count ? next_slot(wheel, &level) : UINT64_MAX;
    return tick >= (uint64_t)INT64_MAX / WEFTI_WHEEL_TICK ? INT64_MAX : (int64_t)tick * WEFTI_WHEEL_TICK;
}
