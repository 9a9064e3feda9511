/* next.c - fetch many pages, two at a time: as one ends, the next is started. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static int running, most;

static int fetch(void *arg) {
    const int *page = arg;
    most = ++running > most ? running : most; /* one worker: nobody comes between */
    weft_sleep(1000 * *page);
    running--;
    return *page == 4 ? -EIO : 10 * *page; /* its size */
}

static int fetch_all(void *arg) {
    static int pages[] = {1, 2, 3, 4, 5, 6};
    int next = 0, status, bytes = 0, failed = 0;
    (void)arg;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.keep_results = true; /* for weft_nursery_next */
    config.keep_going = true;   /* a page that cannot be had is no reason to stop */
    WEFT_NURSERY_WITH(n, &status, &config) {
        weft_result result;
        for (;;) {
            while (next < 6 && weft_nursery_count(&n) < 2)
                if (weft_nursery_go(&n, fetch, &pages[next++], NULL) < 0)
                    failed++;
            if (weft_nursery_next(&n, &result, NULL, WEFT_NEVER) < 0)
                break; /* -ECHILD: that was the last; or we were cancelled */
            failed += result.status < 0;
            bytes += result.status < 0 ? 0 : (int)(intptr_t)result.value;
        }
    }
    printf("%d bytes, %d failed, at most %d at a time\n", bytes, failed, most);
    return status == -EIO ? 0 : status; /* the first error, as always */
}

int main(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    return weft_fiber_run(&config, fetch_all, NULL, NULL) < 0;
}
