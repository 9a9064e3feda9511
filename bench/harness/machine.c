/* machine.c - where and with what the figures were measured. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "bench.h"
#include "commit.h" /* made by the build: BENCH_COMMIT */

#ifndef BENCH_FLAGS
#define BENCH_FLAGS "unknown flags"
#endif
#ifdef __clang__
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

unsigned bench_cpus(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static void cpu_model(char *out, size_t size) {
    char line[256];
    snprintf(out, size, "unknown cpu");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, size, "%s", value + 2);
        break;
    }
    if (file)
        fclose(file);
}

void bench_machine_print(void) {
    char cpu[128], date[32];
    struct utsname os;
    time_t now = time(NULL);
    cpu_model(cpu, sizeof cpu);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime(&now));
    if (uname(&os) < 0)
        memset(&os, 0, sizeof os);
    printf("machine   %s, %u usable cores, %s %s %s\n", cpu, bench_cpus(), os.sysname, os.release, os.machine);
    printf("weft      %s, commit %s\n", weft_version(), BENCH_COMMIT);
    printf("built     " COMPILER " " __VERSION__ ", " BENCH_FLAGS "\n");
    printf("date      %s\n", date);
}
