/* cache.h - hints to the processor's caches, and to the compiler about registers. */
#ifndef WEFTI_PLAT_CACHE_H
#define WEFTI_PLAT_CACHE_H

/* A line that is about to be written, and may be another core's: ask for it as our own at once.  A load before the first
 * store would fetch it to be shared, and the store would then go there again.  Any address will do. */
static inline void wefti_fetch_own(const void *line) {
#if defined(__x86_64__)
    __asm__ volatile(
        "prefetchw %0" ::"m"(*(const char *)line)); /* compilers leave it out without a flag; old CPUs do nothing */
#else
    __builtin_prefetch(line, 1);
#endif
}

/* A pointer, taken as it is: what it points to is reached from it, and not by a way of its own for each field, which would need more registers. */
static inline void *wefti_as_it_is(void *pointer) {
    __asm__("" : "+r"(pointer));
    return pointer;
}

#endif
