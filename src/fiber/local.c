/* local.c - fiber-locals: a table a fiber, made when it first sets one. */
#include "fiber/local.h"

#include "fiber/switch.h"

#define KEYS 64u
#define ROUNDS 4u /* a destructor may set others again; so often */

static struct {
    _Atomic(void (*)(void *)) destroy;
} keys[KEYS];
static _Atomic uint32_t used;

static void no_destroy(void *value) { (void)value; }

int weft_local_create(unsigned *key, void (*destroy)(void *value)) {
    uint32_t mine = load_relaxed(&used); /* only compared */
    if (!key)
        return -EINVAL;
    do
        if (mine == KEYS)
            return -ENOSPC;
    while (!cas_relaxed(&used, &mine, mine + 1)); /* a number; who gets the key from us is told by other means */
    /* A function, with nothing behind it; who sets a value was told of the key after this. */
    store_relaxed(&keys[mine].destroy, destroy ? destroy : no_destroy);
    *key = mine;
    return 0;
}

int weft_local_set(unsigned key, void *value) {
    struct wefti_fiber *self = wefti_fiber_self();
    if (!self || key >= load_relaxed(&used)) /* who has the key has seen it made */
        return -EINVAL;
    if (!self->locals) {
        if (!value)
            return 0;
        self->locals = wefti_alloc(KEYS * sizeof *self->locals);
        if (!self->locals)
            return -ENOMEM;
        self->leaves = true;
    }
    self->locals[key] = value;
    return 0;
}

void *weft_local_get(unsigned key) {
    struct wefti_fiber *self = wefti_fiber_self();
    return self && self->locals && key < KEYS ? self->locals[key] : NULL;
}

void wefti_locals_end(struct wefti_fiber *fiber) {
    bool any = true;
    for (uint32_t round = 0; any && round < ROUNDS; round++) {
        any = false;
        for (uint32_t key = KEYS; key-- > 0;) {
            void *value = fiber->locals[key];
            fiber->locals[key] = NULL;
            if (value) {
                void (*destroy)(void *) = load_relaxed(&keys[key].destroy); /* as in create */
                destroy(value);
                any = true;
            }
        }
    }
    wefti_locals_forget(fiber);
}

void wefti_locals_forget(struct wefti_fiber *fiber) {
    wefti_free(fiber->locals, KEYS * sizeof *fiber->locals);
    fiber->locals = NULL;
}
