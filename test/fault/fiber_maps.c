/* fiber_maps.c - a system that has no guards in its page tables, and few maps left: what cannot begin says so, the others go on. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../api/fixture.h"

#define FIBERS 2000u
#define PAGE ((size_t)4096)
#define GIVEN_BACK 300u /* pages; each was two maps */

/* As before Linux 6.13: MADV_GUARD_INSTALL (102) is unknown. */
static bool forget_guards(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])), /* its lower half */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 102, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* Every second page with other rights, until the system has no more maps, and then some back.  The size of it. */
static size_t use_up_maps(char **region) {
    size_t most = 65530, used = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file && fscanf(file, "%zu", &most) != 1)
        most = 65530;
    if (file)
        fclose(file);
    if (most > 200000)
        SKIP("%zu maps are too many to use up", most);
    size_t bytes = (most + 2) * PAGE;
    *region = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(*region != MAP_FAILED);
    while (used < most / 2 && mprotect(*region + 2 * used * PAGE, PAGE, PROT_READ) == 0)
        used++;
    REQUIRE_GT(used, GIVEN_BACK);
    for (size_t i = 1; i <= GIVEN_BACK; i++)
        REQUIRE_EQ(mprotect(*region + 2 * (used - i) * PAGE, PAGE, PROT_NONE), 0);
    return bytes;
}

static atomic_uint waiting;

static int wait_for_stop(void *arg) {
    (void)arg;
    atomic_fetch_add(&waiting, 1);
    return weft_sleep_until(WEFT_NEVER);
}

API_TEST(fiber_few_maps, "", .sched = "ring fifo sim", .workers = {2}, .timeout = 60) {
    static weft_task *task[FIBERS];
    static char said[4096];
    unsigned refused = 0, no_stack = 0, later = 0;
    char *region = NULL;
    if (harness_is_slow())
        SKIP("sanitizers need the maps");
    weft_runtime *rt = fixture_begin(NULL);
    int report = memfd_create("report", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    REQUIRE(report >= 0 && before >= 0);
    if (!forget_guards())
        SKIP("no filters for system calls here");
    size_t bytes = use_up_maps(&region);
    dup2(report, STDERR_FILENO);
    for (unsigned i = 0; i < FIBERS; i++) {
        int error = weft_fiber_go(rt, wait_for_stop, NULL, &task[i]);
        refused += error != 0;
        CHECK(error == 0 || error == -ENOMEM);
    }
    REQUIRE_EVENTUALLY(waiting + fixture_stats(rt).completed == FIBERS - refused);
    dup2(before, STDERR_FILENO);
    unsigned live = waiting;
    for (unsigned i = 0; i < FIBERS; i++)
        if (task[i] && weft_task_is_done(task[i]))
            no_stack += fixture_finish(task[i]).status == -ENOMEM, task[i] = NULL;
    CHECK_GT(live, 0);
    CHECK_GT(refused + no_stack, 0);
    CHECK_EQ(live + refused + no_stack, FIBERS);
    REQUIRE_GT(pread(report, said, sizeof said - 1, 0), 0);
    CHECK_CONTAINS(said, "raise vm.max_map_count");
    CHECK(!strstr(strstr(said, "max_map_count") + 1, "max_map_count")); /* said once */

    REQUIRE_EQ(munmap(region, bytes), 0); /* there are some again */
    for (unsigned i = 0; i < FIBERS; i++)
        if (!task[i]) {
            REQUIRE_EQ(weft_fiber_go(rt, wait_for_stop, NULL, &task[i]), 0);
            later++;
        }
    REQUIRE_EVENTUALLY(waiting == FIBERS);
    CHECK_EQ(later, refused + no_stack);
    for (unsigned i = 0; i < FIBERS; i++) {
        weft_task_cancel(task[i]);
        CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    }
    close(before);
    close(report);
    fixture_end(rt);
}
