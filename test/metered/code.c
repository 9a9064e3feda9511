/* code.c - metered loops and calls. */
#include "code.h"

static const volatile uint64_t zero;

uint64_t metered_sum(uint64_t turns) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < turns; i++)
        sum += i + zero;
    return sum;
}

void metered_spin(atomic_bool *stop) {
    while (!atomic_load(stop))
        ;
}

void metered_endless(void) {
    for (volatile uint64_t turns = 0;; turns++)
        ;
}

int metered_call(int (*fn)(void *), void *arg, uint64_t turns) {
    int result = fn(arg);
    metered_sum(turns);
    return result;
}

uint64_t metered_calls(uint64_t depth) { return depth ? 1 + metered_calls(depth - 1) + zero : 0; }
