/* how_much.h - the environment makes a stress test longer. */
#ifndef WEFT_TEST_HOW_MUCH_H
#define WEFT_TEST_HOW_MUCH_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t how_much(const char *name, uint64_t usual) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : usual;
}

#endif
