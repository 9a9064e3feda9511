/* random.h - xorshift64+ (B4): fast, seeded, never for secrets. */
#ifndef WEFTI_BASE_RANDOM_H
#define WEFTI_BASE_RANDOM_H

#include <stdint.h>

struct wefti_random {
    uint64_t a, b;
};

/* splitmix64: turns any seed, also a small one, into well mixed bits. */
static inline uint64_t wefti_mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline void wefti_random_init(struct wefti_random *random, uint64_t seed) {
    random->a = wefti_mix(seed);
    random->b = wefti_mix(seed + 1) | 1; /* the state must not be all zero */
}

static inline uint64_t wefti_random_next(struct wefti_random *random) {
    uint64_t x = random->a, y = random->b;
    random->a = y;
    x ^= x << 23;
    random->b = x ^ y ^ (x >> 17) ^ (y >> 26);
    return random->b + y;
}

/* A number in [0, below), below > 0: high bits of a product, no division. */
static inline uint32_t wefti_random_below(struct wefti_random *random, uint32_t below) {
    return (uint32_t)(((wefti_random_next(random) >> 32) * below) >> 32);
}

#endif
