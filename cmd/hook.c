/* hook.c - what weft-cc's code calls in a program that is not linked with libweft: libweft-hook.a, added to such a link by weft-cc.
 *
 * Build systems link small programs to see what there is, before they know of any library.  Those count nothing.  Nor does a program that has no
 * libweft at all; but one of its shared libraries may have brought it, and then this name stands before its own: so it is passed on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#pragma weak dlsym /* a static program has no such thing, and needs none */

__attribute__((visibility("default"))) void __sanitizer_cov_trace_pc(void); /* shared libraries look for it here */

static void count_nothing(void) {}

void __sanitizer_cov_trace_pc(void) {
    static void (*counting)(void);
    void (*count)(void) = __atomic_load_n(&counting, __ATOMIC_RELAXED); /* code, which is there whoever found it */
    if (!count) {
        __atomic_store_n(&counting, count_nothing,
                         __ATOMIC_RELAXED); /* dlsym may come back here, by way of a metered malloc */
        if (dlsym)
            *(void **)&count = dlsym(RTLD_NEXT, "__sanitizer_cov_trace_pc");
        count = count ? count : count_nothing;
        __atomic_store_n(&counting, count, __ATOMIC_RELAXED);
    }
    count();
}
