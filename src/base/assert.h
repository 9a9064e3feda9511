/* assert.h - broken invariants end the process, in every build, with what was expected and what was found. */
#ifndef WEFTI_BASE_ASSERT_H
#define WEFTI_BASE_ASSERT_H

#include <stdint.h>

#define WEFTI_LIKELY(c) __builtin_expect(!!(c), 1)
#define WEFTI_UNLIKELY(c) __builtin_expect(!!(c), 0)

/* Not ours but the caller's mistake, which nothing can be made of: `call` says what is wrong. */
_Noreturn void wefti_misuse(const char *call, const char *what);
_Noreturn void wefti_panic(const char *file, int line, const char *what, uint64_t found);

/* `found` is printed in hexadecimal: the word or the count that should have been otherwise. */
#define wefti_assert(cond, found)                                                                                      \
    do {                                                                                                               \
        if (WEFTI_UNLIKELY(!(cond)))                                                                                   \
            wefti_panic(__FILE__, __LINE__, #cond, (uint64_t)(found));                                                 \
    } while (0)

#endif
