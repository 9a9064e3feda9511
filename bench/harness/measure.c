/* measure.c - clock, memory, CPU time, order statistics, and calibrated CPU work. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "bench.h"

int64_t bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void bench_sleep_us(unsigned us) {
    struct timespec left = {us / 1000000, (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* The kernel walks the page tables for this file, so the figure is exact; the counters behind statm are
 * kept per CPU and lag by some hundred pages. */
double bench_rss(void) {
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %lf kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

double bench_cpu_ms(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

static int compare_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_int64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, compare_double);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_percentile(int64_t *values, size_t count, unsigned percent) {
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, compare_int64);
    return (double)values[count * percent / 100];
}

void bench_spin(uint64_t turns) {
    uint64_t x = 88172645463325252u;
    for (; turns > 0; turns--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x)); /* keep the chain, add nothing to it */
    }
}

uint64_t bench_spin_calibrate(void) {
    enum { TURNS = 200000 };
    int64_t best = INT64_MAX;
    for (int i = 0; i < 20; i++) {
        int64_t start = bench_now();
        bench_spin(TURNS);
        int64_t took = bench_now() - start;
        best = took < best ? took : best;
    }
    return (uint64_t)(TURNS * 100000.0 / (double)best);
}
