/* peer.h - what the C and C++ peer programs share: clock, memory, the output line, percentiles.
 *
 * Every peer program is called as `PROGRAM WORKLOAD WORKERS [quick]`, prints one line a figure (name, value
 * and unit, separated by tabs) and exits 0 when it has checked its answer, 1 when the answer was wrong and
 * 77 when it has nothing to do that is worth the name.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PEER_OK = 0, PEER_WRONG = 1, PEER_SKIP = 77 };
enum { PEER_GROUP = 1000, PEER_FIB = 35, PEER_WAKES = 2000 };

#define PEER_FIB_FORKS 14930351L /* inner nodes of the call tree of fib(35) */
#define PEER_FIB_VALUE 9227465L

static inline int64_t peer_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void peer_print(const char *name, double value, const char *unit) {
    printf("%s\t%.3f\t%s\n", name, value, unit);
    fflush(stdout);
}

/* Resident bytes of this process; 0 when they are not known. */
static inline double peer_rss(void) {
    char line[256];
    double kb = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "Rss: %lf kB", &kb) != 1)
        ;
    if (file)
        fclose(file);
    return kb * 1024;
}

static inline int peer_compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sort the latencies (ns) and print the two figures of the wake workload. */
static inline int peer_print_wake(int64_t *ns, size_t count) {
    if (count == 0)
        return PEER_WRONG;
    qsort(ns, count, sizeof *ns, peer_compare);
    peer_print("wake_p50", (double)ns[count / 2] / 1e3, "us");
    peer_print("wake_p99", (double)ns[count * 99 / 100] / 1e3, "us");
    return ns[0] >= 0 ? PEER_OK : PEER_WRONG;
}

#endif
