/* panic.c - the last words of a process whose invariant broke, or whose code has misused ours. */
#include "base/assert.h"
#include "plat/plat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wefti_misuse(const char *call, const char *what) {
    char text[256];
    int size = snprintf(text, sizeof text, "weft: %s: %s\n", call, what);
    if (size > 0)
        wefti_write(2, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
    abort();
}

void wefti_panic(const char *file, int line, const char *what, uint64_t found) {
    char text[512];
    int size = snprintf(text, sizeof text, "weft: broken invariant at %s:%d: expected %s, found 0x%llx\n", file, line,
                        what, (unsigned long long)found);
    if (size > 0)
        wefti_write(2, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
    wefti_fault_explain((uintptr_t)__builtin_frame_address(0));
    abort();
}
