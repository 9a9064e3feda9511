/* pools.c - named pools: slow work has threads of its own and a bound on what may wait, and what must be done is done before the end. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

/* -- A pool with one thread, and room for two more jobs: who comes then is told at once. */

struct printer {
    weft_pool *pool;
    weft_event started, paper; /* it prints; there is paper */
    int printed;
};

/* Runs on the thread of the pool, and may block. */
static int print(void *arg) {
    struct printer *printer = arg;
    weft_event_set(&printer->started);
    weft_event_wait(&printer->paper, WEFT_NEVER);
    return ++printer->printed;
}

static weft_blocking_spec job(struct printer *printer) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = print;
    spec.arg = printer;
    spec.pool = printer->pool;
    spec.name = "page";
    return spec;
}

static int use_printer(void *arg) {
    struct printer *printer = arg;
    weft_blocking_spec spec = job(printer);
    int accepted = 0, refused = 0, page;
    if (weft_blocking_start(NULL, &spec) == 0) /* nobody waits for it */
        accepted++;
    weft_event_wait(&printer->started, WEFT_NEVER); /* the thread is busy from here on */
    for (int i = 0; i < 4; i++) {
        int error = weft_blocking_start(NULL, &spec);
        accepted += error == 0;
        refused += error == -EAGAIN; /* as many wait as may */
    }
    weft_event_set(&printer->paper);
    printf("%d pages accepted, %d refused\n", accepted, refused);
    while (weft_blocking_call(&spec, &page, WEFT_NEVER) ==
           -EAGAIN) /* waits behind the others, while its worker goes on */
        weft_sleep(1000000);
    printf("the last page is number %d\n", page);
    return 0;
}

/* -- What must be done is done, though the pool is ended at once. */

static int save(void *arg) {
    *(int *)arg += 1;
    return 0;
}

static int save_all(void) {
    weft_pool *pool;
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int saved = 0;
    config.name = "saver";
    config.threads_max = 1;
    if (weft_pool_create(&config, &pool) < 0)
        return -1;
    spec.fn = save;
    spec.arg = &saved;
    spec.pool = pool;
    spec.mandatory = true;
    for (int i = 0; i < 100; i++)
        if (weft_blocking_start(NULL, &spec) < 0)
            return -1;
    int error = weft_pool_destroy(pool, WEFT_NOW); /* has ended every thread when it returns 0 */
    printf("%d of 100 saved\n", saved);
    return error;
}

int main(void) {
    struct printer printer = {.started = WEFT_EVENT_INIT, .paper = WEFT_EVENT_INIT};
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.name = "printer";
    config.threads_max = 1;
    config.queue_max = 2;
    if (weft_pool_create(&config, &printer.pool) < 0)
        return 1;
    int error = weft_fiber_run(NULL, use_printer, &printer, NULL);
    if (weft_pool_destroy(printer.pool, WEFT_NEVER) < 0)
        return 1;
    return error < 0 || save_all() < 0;
}
