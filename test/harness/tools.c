/* tools.c - what tests call and the harness knows nothing of: clock, random numbers, threads, figures of the process, aborts. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SLOW_BUILD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_BUILD 1
#endif
#ifndef SLOW_BUILD
#define SLOW_BUILD 0
#endif

bool harness_is_slow(void) { return SLOW_BUILD; }
void harness_nap(void) { nanosleep(&(struct timespec){0, 50000}, NULL); }

bool harness_str_eq(const char *found, const char *expected) { return found && strcmp(found, expected) == 0; }
bool harness_str_has(const char *found, const char *part) { return found && strstr(found, part); }

int64_t harness_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* splitmix64 */
uint64_t harness_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

struct thread {
    pthread_t id;
    pthread_barrier_t *start;
    void (*fn)(unsigned, void *);
    void *arg;
    unsigned index;
};

static void *thread_main(void *arg) {
    struct thread *thread = arg;
    pthread_barrier_wait(thread->start);
    thread->fn(thread->index, thread->arg);
    return NULL;
}

void harness_threads(unsigned count, void (*fn)(unsigned, void *), void *arg) {
    struct thread *threads = calloc(count, sizeof *threads);
    pthread_barrier_t start;
    REQUIRE(threads);
    REQUIRE_EQ(pthread_barrier_init(&start, NULL, count), 0);
    for (unsigned i = 0; i < count; i++) {
        threads[i] = (struct thread){.start = &start, .fn = fn, .arg = arg, .index = i};
        REQUIRE_EQ(pthread_create(&threads[i].id, NULL, thread_main, &threads[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    pthread_barrier_destroy(&start);
    free(threads);
}

/* A number that follows `key` in a file of /proc. */
static size_t proc_number(const char *path, const char *key) {
    char line[256];
    size_t value = 0;
    FILE *file = fopen(path, "r");
    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoull(line + strlen(key), NULL, 10);
    fclose(file);
    return value;
}

size_t harness_rss(void) { return proc_number("/proc/self/status", "VmRSS:") * 1024; }
unsigned harness_thread_count(void) { return (unsigned)proc_number("/proc/self/status", "Threads:"); }

char *harness_read_back(int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    if (text && pread(fd, text, (size_t)size, 0) < 0)
        text[0] = '\0';
    return text;
}

void harness_aborts(const char *file, int line, const char *what, void (*fn)(void *), void *arg, const char *text) {
    int output = memfd_create("aborts", MFD_CLOEXEC), status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0 || output < 0)
        harness_fail(file, line, "cannot fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(output, STDERR_FILENO);
        fn(arg);
        _exit(EXIT_SUCCESS);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    char *found = harness_read_back(output);
    close(output);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        harness_fail(file, line, "%s: expected an abort, found wait status %#x after \"%s\"", what, status, found);
    if (!harness_str_has(found, text))
        harness_fail(file, line, "%s: expected an abort with \"%s\", found \"%s\"", what, text, found);
    free(found);
}
