/* janus.c - what a compiler emits for a nursery block, run on the main thread and in a fiber.
 *
 *     nursery {
 *         spawn compute(x)
 *         spawn compute(y)
 *     }
 *
 * The pointers from janus_nursery_spawn are not kept: the nursery owns the tasks. */
#include <stdio.h>
#include <weft/janus.h>

static int compute(void *arg) {
    int *number = (int *)arg;
    if (*number < 0)
        return -5; /* an error of its own */
    *number = *number * *number;
    return 0;
}

static int block(int *x, int *y) {
    weft_nursery *n = janus_nursery_create(); /* %1 = Nursery_Begin */
    janus_nursery_spawn(n, compute, x);       /* %2 = Spawn @compute, %x */
    janus_nursery_spawn(n, compute, y);       /* %3 = Spawn @compute, %y */
    int result = janus_nursery_await(n);      /* %4 = Nursery_End %1 */
    janus_nursery_destroy(n);
    return result;
}

static int run(void *name) {
    int x = 3, y = 4, z = -1;
    int result = block(&x, &y);
    printf("%s: %d, %d and %d\n", (const char *)name, result, x, y);
    printf("%s: a task fails: %d\n", (const char *)name, block(&x, &z));
    return 0;
}

int main(void) {
    char here[] = "on the main thread", there[] = "in a fiber";
    run(here); /* the default runtime starts with the first nursery, and stops at exit */
    return weft_fiber_run(NULL, run, there, NULL) < 0;
}
