/* keep.c - looking into a keep whose disk may fail to read. */
#include "keep.h"

#include "bus.h"

struct use {
    struct keep_view *view;
    int (*look)(struct keep_view *view, void *arg);
    void *arg;
};

static int use(void *arg) {
    struct use *use = arg;
    return use->look(use->view, use->arg);
}

int keep_use(struct keep_view *view, int (*look)(struct keep_view *view, void *arg), void *arg) {
    struct use all = {view, look, arg};
    int result = 0;
    int left = bus_guard(use, &all, &result);
    if (!left)
        return result;
    store_relaxed(&view->keep->unreadable, true); /* a look */
    return left;
}

int keep_look(struct keep *keep, int (*look)(struct keep_view *view, void *arg), void *arg) {
    struct keep_view view;
    int error = keep->ops->begin(keep, false, &view);
    if (error)
        return error;
    error = keep_use(&view, look, arg);
    keep->ops->end(&view);
    return error;
}
