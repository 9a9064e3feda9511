/* keep.c - looking into a keep whose disk may fail to read; and one that cannot even be opened. */
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
    if (!bus_guard(use, &all, &result))
        return result;
    store_relaxed(&view->keep->unreadable, true); /* a look */
    return -EIO;
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

/* -- One that cannot be opened -------------------------------------------------------------------------------------- */

struct keep_broken {
    struct keep keep;
    int error;
};

static int begin_broken(struct keep *keep, bool own, struct keep_view *view) {
    (void)own, (void)view;
    return ((struct keep_broken *)(void *)keep)->error;
}

static int commit_broken(struct keep *keep, const struct keep_write *writes, size_t count) {
    (void)writes, (void)count;
    return ((struct keep_broken *)(void *)keep)->error;
}

static void close_broken(struct keep *keep) { free(keep); }

int keep_broken_open(int error, struct keep **out) {
    static const struct keep_ops ops = {begin_broken, NULL, NULL, commit_broken, close_broken}; /* no view, no looks */
    struct keep_broken *self = mem_new(sizeof *self);
    if (!self)
        return -ENOMEM;
    self->keep.ops = &ops;
    store_relaxed(&self->keep.unreadable, true); /* nobody has it yet */
    self->error = error;
    *out = &self->keep;
    return 0;
}
