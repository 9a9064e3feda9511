/* abi.c - compiled code when memory runs out at any point: no nursery, or one that reports what was
 * refused; no handle is left. */
#include <sys/wait.h>
#include <weft/abi.h>

#include "sweep.h"

static atomic_uint ran;

static int child(void *arg) {
    (void)arg;
    atomic_fetch_add(&ran, 1);
    return 0;
}

/* As compiled code does it: nothing is checked but the result. */
static int block(weft_nursery *n) {
    unsigned accepted = 0;
    ran = 0;
    for (int i = 0; i < 20; i++)
        accepted += weft_abi_nursery_spawn(n, child, NULL) != NULL;
    int result = weft_abi_nursery_await(n);
    if (result == WEFT_ABI_OK) {
        CHECK_EQ(accepted, 20); /* else a task was lost, and nobody knows */
        CHECK_EQ(ran, 20);
    }
    CHECK_LE(ran, accepted);
    weft_abi_nursery_destroy(n);
    return result;
}

static bool is_clean(int result) { return result == WEFT_ABI_OK || result == -ENOMEM || result == -EAGAIN; }

/* Those of the default runtime: two at most.  (The program's own name begins with "weft-", too.) */
static unsigned workers(void) { return fixture_threads("weft-0") + fixture_threads("weft-1"); }

/* On a plain thread.  The default runtime starts once per process: each point is tried in a process
 * of its own.  True: the point was reached. */
static bool on_a_thread(int64_t nth, bool persistent) {
    int status;
    pid_t pid = fork();
    REQUIRE_GE(pid, 0);
    if (pid == 0) {
        wefti_fault_set(nth, persistent);
        weft_nursery *n = weft_abi_nursery_create();
        int result = block(n);
        bool reached = wefti_fault_count() > nth;
        wefti_fault_set(-1, false);
        REQUIRE(n ? is_clean(result) : result == -EINVAL);
        REQUIRE_EVENTUALLY(workers() <= harness_workers()); /* of one runtime, or of none */
        weft_nursery *again = weft_abi_nursery_create(); /* the next attempt finds it running, or starts it */
        REQUIRE(again);
        REQUIRE_EQ(block(again), WEFT_ABI_OK);
        exit(reached ? 10 : 0);
    }
    REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 10);
    return WEXITSTATUS(status) == 10;
}

API_TEST(abi_thread_fails_anywhere, "J27 J36 J37", .workers = {1, 2}) {
    for (int persistent = 0; persistent < 2; persistent++) {
        int64_t nth = 0;
        while (on_a_thread(nth, persistent))
            REQUIRE_LT(++nth, 500);
        printf("%lld points, %s\n", (long long)nth, persistent ? "persistent" : "one-shot");
        CHECK_GT(nth, 5);
    }
}

static int fiber(void *arg) {
    weft_nursery *n = weft_abi_nursery_create();
    int result = block(n);
    CHECK(n ? is_clean(result) : result == -EINVAL);
    return (void)arg, 0;
}

static void in_a_fiber(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    REQUIRE(sweep_is_clean(weft_fiber_go(rt, fiber, NULL, NULL)));
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0); /* no handle is held */
}

API_TEST(abi_fiber_fails_anywhere, "J36 J37", .workers = {1, 2}) { sweep(in_a_fiber); }
