/* block.c - the block form, and a function with a time limit. */
#include "fiber/slice.h"
#include "nursery/nursery.h"

weft_nursery *weft_nursery_enter(weft_nursery *nursery, const weft_nursery_config *config, int *status) {
    int error = weft_nursery_init(nursery, NULL, config);
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (error) {
        if (n)
            n->bound = false; /* for leave */
        if (status)
            *status = error;
        return NULL;
    }
    n->status = status;
    return nursery;
}

void weft_nursery_leave(weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n || !n->bound)
        return;
    int *status = n->status, error = weft_nursery_await(nursery);
    wefti_assert(!n->bound, (unsigned)-error); /* else its children would live on in a frame that is gone */
    if (status)
        *status = error;
}

struct limited {
    weft_fiber_fn fn;
    void *arg;
    int returned;
};

static int run_limited(void *arg) {
    struct limited *call = arg;
    wefti_fiber_self()->fn = call->fn; /* for reports */
    call->returned = call->fn(call->arg);
    return call->returned;
}

int weft_timeout_with(const weft_cap *cap, int64_t ns, weft_fiber_fn fn, void *arg) {
    wefti_slice_use(WEFT_NEVER);
    struct limited call = {fn, arg, 0};
    weft_nursery nursery;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    if (!fn || !wefti_fiber_self())
        return -EINVAL;
    config.cap = cap;
    int64_t until = weft_after(ns);
    int error = weft_nursery_init(&nursery, NULL, &config);
    if (error)
        return error;
    error = weft_nursery_go(&nursery, run_limited, &call, NULL);
    int result = wefti_nursery_await(wefti_nursery_of(&nursery), until);
    return error ? error : result ? result : call.returned;
}

int weft_timeout(int64_t ns, weft_fiber_fn fn, void *arg) { return weft_timeout_with(NULL, ns, fn, arg); }
