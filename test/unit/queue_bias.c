/* queue_bias.c - the lock that costs its usual user nothing: its owner was inside when the process forked. */
#include "queue/bias.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* As a lock that somebody held: it ends, instead of waiting for ever. */
TEST(bias_forked_inside, "") {
    static struct wefti_bias bias;
    int owner, status = 0;
    wefti_fork_watch();
    store_relaxed(&bias.owner, &owner);
    store_relaxed(&bias.busy, 1);
    pid_t child = fork();
    if (child == 0) {
        close(2); /* it is said there */
        signal(SIGABRT, SIG_DFL);
        alarm(60);
        wefti_bias_take(&bias, NULL, 0);
        _exit(0);
    }
    REQUIRE(child > 0);
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
