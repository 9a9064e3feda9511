/* shield.c - clean-up that waits: a cancelled fiber says goodbye, under a shield that has a limit. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

#define MS INT64_C(1000000)

static atomic_bool connected;

static int say_goodbye(void *arg) {
    weft_sleep(1 * MS); /* the network takes its time */
    printf("%s: goodbye\n", (const char *)arg);
    return 0;
}

/* Connected until it is cancelled. */
static int connection(void *arg) {
    weft_task *self = weft_task_self();
    printf("%s: connected\n", (const char *)arg);
    atomic_store(&connected, true);
    int why = weft_sleep_until(WEFT_NEVER);
    printf("%s: ends, %s\n", (const char *)arg, weft_cancel_reason() == WEFT_REASON_FAILURE ? "another failed" : "?");

    /* Every wait would return -ECANCELED from now on, were it not for the shield; in 10 s it will again. */
    if (weft_shield_until(self, weft_after(10000 * MS)) == 0) {
        weft_timeout(5000 * MS, say_goodbye, arg);
        weft_unshield(self);
    }
    return why;
}

static int fail(void *arg) {
    (void)arg;
    while (!atomic_load(&connected))
        weft_sleep(1 * MS);
    return -EIO;
}

static int run(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        if (weft_nursery_go(&n, connection, "line 1", NULL) == 0)
            status = weft_nursery_go(&n, fail, NULL, NULL);
    }
    printf("all have ended: %s\n", weft_strerror(status));
    return 0;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
