/* timeout.c - limits of time: for one function, and for a whole nursery. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

#define MS INT64_C(1000000)

/* arg: how long it takes, in milliseconds. */
static int ask(void *arg) {
    int error = weft_sleep((intptr_t)arg * MS); /* -ECANCELED when time is up: say so, and go */
    return error ? error : 42;
}

static int run(void *arg) {
    (void)arg;
    printf("quick: %d\n", weft_timeout(10000 * MS, ask, (void *)1));
    printf("slow: %s\n", weft_strerror(weft_timeout(5 * MS, ask, (void *)60000)));

    /* Three servers are asked at once, and all have 5 ms. */
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.until = weft_after(5 * MS);
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        for (intptr_t server = 1; server <= 3; server++)
            if (weft_nursery_go(&n, ask, (void *)(server * 60000), NULL))
                break;
    }
    printf("all three: %s\n", weft_strerror(status));
    return status == -ETIMEDOUT ? 0 : -EIO;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
