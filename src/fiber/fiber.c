/* fiber.c - making fibers, and what they ask of themselves. */
#include "fiber/fiber.h"

#include <stdio.h>
#include <string.h>

#include "fiber/slice.h"
#include "fiber/switch.h"
#include "sched/label.h"
#include "task/account.h"

/* -- Spawning -------------------------------------------------------------------------------------------- */

/* The drop function of every fiber that needs one. */
static void drop_fiber(void *state) {
    struct wefti_fiber *fiber = (struct wefti_fiber *)(void *)((char *)state - WEFTI_STATE_LARGE);
    if (WEFTI_UNLIKELY(fiber->task.owns & WEFTI_LABELLED) && wefti_label_of(&fiber->task)->release)
        wefti_label_of(&fiber->task)->release(fiber->task.pointer);
    if (fiber->account)
        wefti_account_close(fiber);
    if (fiber->owner)
        fiber->owner->kind->ended(fiber);
}

/* -- Faults -------------------------------------------------------------------------------------------------- */

#define JUMP_MAX ((uintptr_t)1 << WEFTI_STACK_MAX_LOG) /* bytes that frames may have jumped beyond a stack */
#define BELOW_MAX ((uintptr_t)65536) /* bytes below the stack pointer at which a function may touch its frame first */

/* The stack of a fiber that has begun, or NULL. */
static const struct wefti_stack *stack_of(struct weft_task *task) {
    return task && wefti_task_is_fiber(task) ? wefti_fiber_of(task)->stack : NULL;
}
static uintptr_t lowest(const struct wefti_stack *stack) { /* with its guard */
    return (uintptr_t)stack->base + stack->size - ((uintptr_t)1 << stack->log2);
}

/* Is the address in the guard of the stack that this fiber runs on? */
static bool is_below(struct weft_task *task, uintptr_t address) {
    const struct wefti_stack *stack = stack_of(task);
    return stack && address < (uintptr_t)stack->base && address >= lowest(stack);
}

/* Does the stack pointer lie on the stack of this fiber, or in its guard? */
static bool is_on(struct weft_task *task, uintptr_t sp) {
    const struct wefti_stack *stack = stack_of(task);
    return stack && sp >= lowest(stack) && sp <= (uintptr_t)stack->base + stack->size;
}

/* Has this fiber, which runs, jumped over its guard?  Frames that are larger than the guard do so where they are compiled without
 * -fstack-clash-protection.  The stack pointer is below the stack then, and the fault in one of the frames between. */
static bool has_jumped(struct weft_task *task, uintptr_t address, uintptr_t sp) {
    const struct wefti_stack *stack = stack_of(task);
    uintptr_t base = stack ? (uintptr_t)stack->base : 0;
    return sp && sp < base && base - sp <= JUMP_MAX && address < base && address + BELOW_MAX >= sp;
}

/* Whose stack has run over?  A fiber that is about to be left is not the current one any more, but we are still on its stack. */
static struct weft_task *overflowed(struct wefti_worker *w, uintptr_t address, uintptr_t sp) {
    struct weft_task *current = wefti_current(w);
    if (is_below(current, address))
        return current;
    if (is_below(w->left, address))
        return w->left;
    if (has_jumped(current, address, sp)) /* first: the fault may lie in the guard of another stack */
        return current;
    struct weft_task *others[] = {load_own(&w->resting), w->pinned.count ? wefti_task_of(w->pinned.last) : NULL};
    for (int i = 0; i < 2; i++)
        if (is_below(others[i], address) && is_on(others[i], sp))
            return others[i];
    return NULL;
}

struct astray {
    struct weft_task *current, *found;
    uintptr_t sp;
};

/* The reference of the walk stays, as the process ends. */
static void find_astray(struct weft_task *task, void *arg) {
    struct astray *astray = arg;
    const struct wefti_stack *stack = stack_of(task);
    if (!stack || astray->found)
        return;
    if (!is_on(task, (uintptr_t)stack->ctx.sp)) /* it was left elsewhere */
        astray->found = task;
    else if (stack_of(astray->current) && !is_on(astray->current, astray->sp) && is_on(task, astray->sp))
        astray->found = astray->current;
}

/* Runs in a signal handler.  A fault that ends the process is worth a longer look than one that the program may have a handler for. */
static bool describe_fault(uintptr_t address, uintptr_t sp, bool ends, char *text, size_t room) {
    struct wefti_worker *w = wefti_worker_self();
    if (!w)
        return false;
    char name[WEFTI_NAME_ROOM], entry[512];
    struct weft_task *task = overflowed(w, address, sp);
    if (task) {
        wefti_symbol((uintptr_t)wefti_fiber_of(task)->fn, entry, sizeof entry);
        snprintf(text, room, "weft: stack overflow in fiber \"%s\" (entry %s, stack of %zu bytes); backtrace:\n",
                 wefti_printable(task->name, name, sizeof name), entry, (size_t)1 << wefti_fiber_of(task)->stack->log2);
        return true;
    }
    if (!ends)
        return false;
    struct astray astray = {.current = wefti_current(w), .sp = sp};
    wefti_slab_walk(&w->rt->slab, find_astray, &astray);
    if (!astray.found)
        return false;
    snprintf(text, room, "weft: longjmp: fiber \"%s\" has jumped to the stack of another fiber; backtrace:\n",
             wefti_printable(astray.found->name, name, sizeof name));
    return true;
}

static void first_fiber(struct weft_runtime *rt) {
    wefti_fault_report(describe_fault);
    store_relaxed(&rt->has_fibers, true); /* a hint */
}

/* Always inlined, so that weft_fiber_go, where most of this is constant, costs what it needs and no more. */
#define INLINE static inline __attribute__((always_inline))

/* All fields but the word; before it is a task, so nobody else looks. */
INLINE void fill(struct weft_task *task, uint32_t yield_ops, const weft_fiber_spec *spec, uint32_t log2,
                 struct wefti_owner *owner, struct wefti_account *account) {
    struct wefti_fiber *fiber = wefti_fiber_of(task);
    task->name = spec->name ? spec->name : "fiber";
    task->poll = wefti_fiber_poll;
    task->drop = owner || account || spec->release ? drop_fiber : NULL;
    task->layout |= WEFTI_STATE_LARGE | WEFTI_IS_FIBER;
    task->home = 0;
    task->pointer = spec->arg;
    memset(&fiber->stack, 0, offsetof(struct wefti_fiber, waits_since) - offsetof(struct wefti_fiber, stack));
    fiber->stack_log2 = (uint8_t)log2;
    fiber->look_after = WEFTI_SLICE_START;
    if (spec->migrate)
        fiber->migrate = true;
    if (spec->discard)
        fiber->discard = true;
    uint32_t slice = yield_ops;
    if (account) {
        slice = account->left.ops < slice ? (uint32_t)account->left.ops : slice;
        account->left.ops -= slice;
        fiber->look_after = -1; /* fiber/slice.h */
    }
    fiber->ops_left = (int32_t)slice;
    fiber->fn = spec->fn;
    fiber->owner = owner;
    fiber->account = account;
    fiber->ops_end = slice;
    store_relaxed(&fiber->shield_until, WEFT_NEVER);
    store_relaxed(&fiber->grace, WEFT_NEVER);
}

static int make(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_owner *owner,
                struct wefti_room *room, struct wefti_account *account) {
    int error = wefti_spawn_room(rt, sizeof(struct wefti_fiber) - WEFTI_STATE_LARGE, room);
    if (error)
        return error;
    rt = room->rt;
    uint32_t log2 = spec->stack_size ? wefti_stack_log2(spec->stack_size) : rt->stack_log2;
    bool refused = log2 && wefti_stack_pool_refuses(&rt->stacks, log2);
    if (WEFTI_UNLIKELY(!log2 || refused)) {
        wefti_slab_give(&rt->slab, room->w ? &room->w->cache : NULL, room->task);
        return refused ? -ENOMEM : -EINVAL;
    }
    if (WEFTI_UNLIKELY(!load_relaxed(&rt->has_fibers))) /* a hint: twice is harmless */
        first_fiber(rt);
    uint64_t ops = account ? account->left.ops : 0;
    fill(room->task, rt->yield_ops, spec, log2, owner, account);
    if (WEFTI_LIKELY(!spec->release) || wefti_label_put(rt, room->task, spec->release))
        return 0;
    if (account)
        account->left.ops = ops; /* without the slice that it got */
    wefti_spawn_unroom(room);
    return -ENOMEM;
}

int wefti_fiber_make(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_owner *owner,
                     struct wefti_room *room) {
    struct weft_runtime *to = rt ? rt : weft_runtime_current();
    if (!spec->fn || !to)
        return -EINVAL;
    if (WEFTI_LIKELY(!spec->fund && !spec->budget && !spec->cap &&
                     !load_relaxed(&to->limited))) /* set before there is anybody to ask about */
        return make(rt, spec, owner, room, NULL);
    struct wefti_account *account;
    int error = wefti_account_open(to, spec, &account);
    if (error)
        return error;
    error = make(to, spec, owner, room, account);
    if (error)
        wefti_account_return(to, spec, account);
    return error;
}

void wefti_fiber_unmake(const struct wefti_room *room, const weft_fiber_spec *spec) {
    struct wefti_fiber *fiber = wefti_fiber_of(room->task);
    struct wefti_account *account = fiber->account;
    if (account)
        account->left.ops += (uint32_t)fiber->ops_left; /* the slice that it got when it was made */
    if (load_relaxed(&room->rt->limited)) /* as when it was made */
        wefti_account_return(room->rt, spec, account);
    wefti_spawn_unroom(room);
}

int wefti_fiber_known(const weft_fiber_spec **spec, weft_fiber_spec *known) {
    if (!*spec)
        return -EINVAL;
    if (WEFTI_LIKELY((*spec)->size == sizeof *known))
        return 0;
    int error = wefti_known_struct(*spec, offsetof(weft_fiber_spec, arg), known, sizeof *known);
    *spec = known;
    return error;
}

int weft_fiber_spawn(weft_runtime *rt, const weft_fiber_spec *spec, weft_task **handle) {
    weft_fiber_spec known;
    struct wefti_room room;
    int error = wefti_fiber_known(&spec, &known);
    if (!error)
        error = wefti_fiber_make(rt, spec, NULL, &room);
    return error ? error : wefti_spawn_submit(&room, handle);
}

static __attribute__((noinline)) int go_slowly(weft_runtime *rt, weft_fiber_fn fn, void *arg, weft_task **handle) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return weft_fiber_spawn(rt, &spec, handle);
}

/* All that calls others comes last, so that the usual way needs no frame. */
int weft_fiber_go(weft_runtime *rt, weft_fiber_fn fn, void *arg, weft_task **handle) {
    struct wefti_worker *w = wefti_spawn_worker(rt);
    if (WEFTI_UNLIKELY(!w || !fn || load_relaxed(&w->rt->stacks.refused) ||
                       !load_relaxed(&w->rt->has_fibers))) /* each as in the slow way */
        return go_slowly(rt, fn, arg, handle);
    struct weft_task *task = wefti_slab_take_loaded(&w->cache, sizeof(struct wefti_fiber) - WEFTI_STATE_LARGE);
    if (WEFTI_UNLIKELY(!task))
        return go_slowly(rt, fn, arg, handle);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    fill(task, w->rt->yield_ops, &spec, w->rt->stack_log2, NULL, NULL);
    wefti_spawn_here(w, task, handle);
    return 0;
}

struct main_fiber {
    weft_fiber_fn fn;
    void *arg;
};

static int spawn_main(weft_runtime *rt, void *arg, weft_task **task) {
    struct main_fiber *main = arg;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = main->fn;
    spec.arg = main->arg;
    spec.name = "main";
    return weft_fiber_spawn(rt, &spec, task);
}

int weft_fiber_run(const weft_config *config, weft_fiber_fn fn, void *arg, weft_result *result) {
    struct main_fiber main = {fn, arg};
    return wefti_run_first(config, spawn_main, &main, result);
}

/* -- The running fiber ------------------------------------------------------------------------------------- */

bool weft_in_fiber(void) { return wefti_fiber_self() != NULL; }

int *weft_errno(void) { return wefti_errno_at(); }

void weft_fiber_result(void *value) {
    struct wefti_fiber *self = wefti_fiber_self();
    if (WEFTI_UNLIKELY(!self))
        wefti_misuse("weft_fiber_result", "called outside a fiber: nobody could get it");
    self->value = value;
    self->has_value = true;
}

int weft_shield_until(weft_task *self, weft_deadline until) {
    if (!self || !wefti_task_is_fiber(self) || !wefti_fiber_of(self)->stack)
        return -EINVAL;
    CHECK_ALIVE(self);
    if (!wefti_word_shield(&self->word))
        return -EOVERFLOW;
    struct wefti_fiber *fiber = wefti_fiber_of(self);
    struct wefti_limits *limits = &fiber->stack->limits;
    int64_t before = load_own(&fiber->shield_until);
    if (until >= before)
        return 0;
    if (before == WEFT_NEVER)
        limits->count = 0; /* what the last fiber on this stack has left */
    if (limits->count == WEFTI_LIMITS) {
        wefti_word_unshield(&self->word);
        return -EOVERFLOW;
    }
    limits->at[limits->count].before = before;
    limits->at[limits->count++].shields =
        load_relaxed(&self->word) & WEFTI_SHIELD_MASK; /* only the runner changes it */
    store_relaxed(&fiber->shield_until, until); /* its own; atomic for who looks at all fields */
    return 0;
}

static bool never(void *arg) {
    (void)arg;
    return false;
}

int weft_sleep_until(weft_deadline until) {
    wefti_slice_use(WEFT_NEVER); /* also if the time has passed: a loop of such sleeps lets others run */
    struct wefti_worker *w = wefti_worker_here();
    if (w && wefti_current(w)) {
        if (!wefti_task_is_fiber(wefti_current(w)))
            return -EINVAL;
        int why = wefti_fiber_wait(wefti_fiber_of(wefti_current(w)), never, NULL, until, wefti_words(WEFTI_A_TIMER));
        return why == -ETIMEDOUT ? 0 : why;
    }
    wefti_sleep_until(until);
    return 0;
}

int weft_sleep(int64_t ns) { return weft_sleep_until(weft_after(ns)); }
