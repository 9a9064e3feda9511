/* janus.c - the names of Janus's runtime functions, for the calls of <weft/abi.h>. */
#include <weft/janus.h>

weft_nursery *janus_nursery_create(void) { return weft_abi_nursery_create(); }

weft_task *janus_nursery_spawn(weft_nursery *n, janus_task_fn fn, void *arg) {
    return weft_abi_nursery_spawn(n, fn, arg);
}

janus_nursery_result janus_nursery_await(weft_nursery *n) { return weft_abi_nursery_await(n); }

void janus_nursery_destroy(weft_nursery *n) { weft_abi_nursery_destroy(n); }
