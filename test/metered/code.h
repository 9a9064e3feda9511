/* code.h - code for the tests of metering: everything in this folder is compiled as weft-cc does. */
#ifndef WEFT_TEST_METERED_CODE_H
#define WEFT_TEST_METERED_CODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A sum in `turns` turns of a loop. */
uint64_t metered_sum(uint64_t turns);
/* Turns until *stop: waits for nothing, calls nothing. */
void metered_spin(atomic_bool *stop);
/* For ever. */
_Noreturn void metered_endless(void);
/* fn(arg) from metered code, and `turns` turns after it. */
int metered_call(int (*fn)(void *), void *arg, uint64_t turns);
/* Recursion: that many calls. */
uint64_t metered_calls(uint64_t depth);

#endif
