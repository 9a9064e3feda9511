/* bits.h - a set of small numbers, a bit each, of which the lowest is taken first.  Whoever has the lock. */
#ifndef WEFTI_BASE_BITS_H
#define WEFTI_BASE_BITS_H

#include <stdint.h>

#define WEFTI_BITS_WORDS(numbers) (((numbers) + 63u) / 64u) /* for numbers below that */

struct wefti_bits {
    uint32_t count; /* of its numbers */
    uint32_t low;   /* while it has some: the words before this are 0 */
};

/* It is not in yet. */
static inline void wefti_bits_add(struct wefti_bits *bits, uint64_t *words, uint32_t number) {
    uint32_t word = number / 64;
    if (!bits->count++ || word < bits->low)
        bits->low = word;
    words[word] |= UINT64_C(1) << number % 64;
}

/* There is one. */
static inline uint32_t wefti_bits_take(struct wefti_bits *bits, uint64_t *words) {
    while (!words[bits->low])
        bits->low++;
    uint64_t word = words[bits->low];
    words[bits->low] = word & (word - 1);
    bits->count--;
    return bits->low * 64 + (uint32_t)__builtin_ctzll(word);
}

#endif
