/* abi.c - nurseries and async calls for compilers. */
#include <weft/abi.h>

#include "nursery/nursery.h"

weft_nursery *weft_abi_nursery_create_with(weft_runtime *rt, const weft_cap *cap, weft_fund *fund) {
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_nursery *n = NULL;
    struct wefti_worker *w = wefti_worker_here();
    if (w ? !wefti_fiber_on(w) : !rt && !(rt = wefti_default_runtime())) /* a poll task cannot await */
        return NULL;
    config.cap = cap;
    config.fund = fund;
    return weft_nursery_create(rt, &config, &n) == 0 ? n : NULL;
}

weft_nursery *weft_abi_nursery_create(void) { return weft_abi_nursery_create_with(NULL, NULL, NULL); }

weft_task *weft_abi_nursery_spawn(weft_nursery *n, int (*fn)(void *arg), void *arg) {
    weft_task *task = NULL;
    int error = wefti_nursery_go_lent(wefti_nursery_of(n), fn, arg, &task);
    if (!error)
        return task;
    wefti_nursery_refuse(wefti_nursery_of(n), error == -EPERM ? -EACCES : error); /* -EPERM is WEFT_ABI_CANCELLED */
    return NULL;
}

/* Awaiting was refused: the message is for the author of the compiler. */
_Noreturn static void refused(const char *call, const struct wefti_nursery *n, int error) {
    switch (error) {
    case -EDEADLK: wefti_misuse(call, "the caller is one of the nursery's children");
    case -EACCES: wefti_misuse(call, "the caller does not own the nursery");
    case -EBUSY:
        wefti_misuse(call, n->kind == WEFTI_BY_THREAD ? "another thread awaits the nursery"
                                                      : "a newer nursery of the caller is still open");
    default: wefti_misuse(call, "called in a poll task, which cannot wait");
    }
}

static int await(const char *call, weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n || !n->rt) /* none, or never opened */
        return -EINVAL;
    int status = weft_nursery_await(nursery);
    if (n->bound && status != -ENOTRECOVERABLE) /* a forked child has none of the children that run */
        refused(call, n, status);
    if (n->bound)
        return status;
    if (n->error == -EDQUOT || (!n->error && n->refused))
        return WEFT_ABI_BUDGET;
    return n->error ? n->error : status ? WEFT_ABI_CANCELLED : WEFT_ABI_OK;
}

int weft_abi_nursery_await(weft_nursery *n) { return await("weft_abi_nursery_await", n); }

void weft_abi_nursery_cancel(weft_nursery *n) { weft_nursery_cancel(n); }

void weft_abi_nursery_destroy(weft_nursery *n) {
    if (!n)
        return;
    weft_abi_nursery_cancel(n);
    await("weft_abi_nursery_destroy", n);
    weft_nursery_destroy(n);
}

/* -- Async calls: the place for the value is the task's own result. ------------------------------------------ */

int weft_async_call(weft_nursery *n, weft_fiber_fn fn, void *arg, weft_async *call) {
    if (!call)
        return -EINVAL;
    call->task = NULL;
    return weft_nursery_go(n, fn, arg, &call->task);
}

int weft_async_await(weft_async *call, void **value) {
    weft_result result;
    if (!call || !call->task)
        return -EINVAL;
    int error = weft_join(call->task, &result, WEFT_NEVER);
    if (error)
        return error == -ECANCELED ? -EAGAIN : error;
    weft_async_drop(call);
    if (result.status == 0 && value)
        *value = result.value;
    return result.status;
}

void weft_async_drop(weft_async *call) {
    if (!call)
        return;
    weft_task_drop(call->task);
    call->task = NULL;
}
