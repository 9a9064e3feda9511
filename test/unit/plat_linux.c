/* plat_linux.c - what the rest of the library believes about the operating system. */
#define _GNU_SOURCE
#include "harness.h"
#include "plat/plat.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(plat_alloc, "") {
    for (size_t size = 1; size < 5000; size = size * 3 + 1) {
        unsigned char *memory = wefti_alloc(size);
        REQUIRE(memory);
        CHECK_EQ((uintptr_t)memory % 64, 0);
        for (size_t i = 0; i < size; i++)
            REQUIRE_EQ(memory[i], 0);
        memset(memory, 255, size);
        wefti_free(memory, size);
    }
}

TEST(plat_map, "") {
    for (size_t size = 1 << 16; size <= 1 << 22; size *= 4) {
        unsigned char *memory = wefti_map(size);
        REQUIRE(memory);
        CHECK_EQ((uintptr_t)memory & (size - 1), 0);
        CHECK_EQ(memory[0] | memory[size - 1], 0);
        memory[0] = memory[size - 1] = 1;
        wefti_unmap(memory, size);
    }
}

/* The first piece costs what is touched of it, also where all memory would be in large pages.  Another may come as a whole, and holds nothing then. */
TEST(plat_map_large, "") {
    enum { SIZE = 1 << 21, PAGE = 4096 };
    for (size_t before = 0; before <= SIZE; before += SIZE) {
        unsigned char *memory = wefti_map(SIZE), resident[SIZE / PAGE];
        REQUIRE(memory);
        madvise(memory, SIZE, MADV_HUGEPAGE); /* as with transparent_hugepage/enabled = always */
        wefti_map_large(memory, SIZE, before);
        memory[PAGE] = 1;
        unsigned pages = 0;
        REQUIRE_EQ(mincore(memory, SIZE, resident), 0);
        for (size_t i = 0; i < SIZE / PAGE; i++)
            pages += resident[i] & 1;
        if (!before)
            CHECK_EQ(pages, 1);
        for (size_t i = 0; i < SIZE; i++)
            REQUIRE_EQ(memory[i], i == PAGE);
        wefti_unmap(memory, SIZE);
    }
}

TEST(plat_fault_points, "") {
    void *memory[6];
    wefti_fault_set(2, false); /* the third call */
    for (int i = 0; i < 6; i++) {
        memory[i] = i % 2 ? wefti_map(1 << 16) : wefti_alloc(64);
        CHECK_EQ(memory[i] == NULL, i == 2);
    }
    CHECK_EQ(wefti_fault_count(), 6);
    for (int i = 0; i < 6; i++)
        i % 2 ? wefti_unmap(memory[i], 1 << 16) : wefti_free(memory[i], 64);
    wefti_fault_set(1, true); /* the second and all later ones */
    void *first = wefti_alloc(64);
    CHECK(first);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(wefti_alloc(64), NULL);
    struct wefti_thread thread;
    CHECK_EQ(wefti_thread_start(&thread, NULL, NULL, NULL), -EAGAIN);
    wefti_fault_set(-1, false); /* off */
    wefti_free(first, 64);
    first = wefti_alloc(64);
    CHECK(first);
    wefti_free(first, 64);
}

static void say_name(void *arg) {
    char path[64], *name = arg;
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)gettid());
    FILE *file = fopen(path, "r");
    REQUIRE(file && fgets(name, 32, file));
    fclose(file);
}

TEST(plat_thread, "") {
    struct wefti_thread thread;
    char name[32] = "";
    REQUIRE_EQ(wefti_thread_start(&thread, say_name, name, "a-name-that-is-too-long"), 0);
    wefti_thread_join(&thread);
    CHECK_STR(name, "a-name-that-is-\n"); /* cut to what the kernel takes */
}

TEST(plat_cpu_count, "K10") {
    cpu_set_t all, one;
    REQUIRE_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CHECK_GE(wefti_cpu_count(), 1);
    CHECK_LE(wefti_cpu_count(), CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    REQUIRE_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_EQ(wefti_cpu_count(), 1); /* what this process may use, not what the machine has */
}

static bool put(const char *folder, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    bool good = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && good;
}

/* A group of our own with half a CPU, in whichever tree there is, and a child in it. */
TEST(plat_cpu_quota, "K10") {
    static const char *const trees[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"};
    static const char *const names[] = {"cpu.cfs_quota_us", "cpu.max"}, *const quotas[] = {"50000", "50000 100000"};
    enum { NOT_THERE = 99 };
    int status = NOT_THERE;
    for (int i = 0; i < 2 && status == NOT_THERE; i++) {
        char folder[100], path[200], pid[20];
        snprintf(folder, sizeof folder, "%s/weft-test-%d", trees[i], (int)getpid());
        if (mkdir(folder, 0755))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]); /* else it is a folder like any other */
        pid_t child = access(path, F_OK) == 0 && put(folder, names[i], quotas[i]) ? fork() : -1;
        if (child == 0) {
            snprintf(pid, sizeof pid, "%d", (int)getpid());
            _exit(put(folder, "cgroup.procs", pid) ? (int)wefti_cpu_count() : NOT_THERE);
        }
        if (child > 0) {
            REQUIRE_EQ(waitpid(child, &status, 0), child);
            status = WEXITSTATUS(status);
        }
        REQUIRE_EVENTUALLY(rmdir(folder) == 0); /* the child leaves it a moment after it has ended */
    }
    if (status == NOT_THERE)
        SKIP("no control group can be made here");
    CHECK_EQ(status, 1);
}

TEST(plat_futex, "B35") {
    _Atomic uint32_t word = 5;
    CHECK_EQ(wefti_futex_wait(&word, 4, INT64_MAX), -EAGAIN);
    int64_t until = wefti_clock() + 5000000;
    CHECK_EQ(wefti_futex_wait(&word, 5, until), -ETIMEDOUT);
    CHECK_GE(wefti_clock(), until);
    CHECK_EQ(wefti_futex_wake(&word, 1), 0);
}

TEST(plat_clock, "") {
    int64_t before = wefti_clock();
    for (int i = 0; i < 1000; i++) {
        int64_t now = wefti_clock();
        REQUIRE_GE(now, before);
        before = now;
    }
}

TEST(plat_write, "") {
    int pipes[2];
    char text[16] = "";
    REQUIRE_EQ(pipe(pipes), 0);
    CHECK_EQ(wefti_write(pipes[1], "hello", 5), 0);
    CHECK_EQ(read(pipes[0], text, sizeof text), 5);
    CHECK_STR(text, "hello");
    CHECK_EQ(wefti_write(pipes[0], "x", 1), -EBADF);
    CHECK_EQ(wefti_write(-1, "x", 1), -EBADF);
    CHECK_EQ(wefti_write(-1, "x", 0), 0);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(plat_seed, "") {
    uint64_t a = wefti_random_seed(), b = wefti_random_seed();
    CHECK_NE(a, 0);
    CHECK_NE(a, b);
}
