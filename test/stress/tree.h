/* tree.h - the random trees of tree.c: what is known of each fiber and nursery, waits, spawns, cancels. */
#ifndef WEFT_TEST_TREE_H
#define WEFT_TEST_TREE_H

#include "../api/fixture.h"

#define NODES 160
#define DEPTH 4
#define KEYS 3
#define US INT64_C(1000)

enum stage { UNBORN, SPAWNED, ENTERED, LEFT };

/* A nursery, or the child of a weft_timeout. */
struct frame {
    weft_nursery room, *n;   /* n NULL: a time limit */
    struct node *owner;      /* NULL: the first of all */
    bool shielded;           /* opened under a shield that is up */
    bool own_grace, funded, keep_going;
    weft_deadline until;
    bool asked;              /* a deadline passed before, or somebody cancelled it */
    int first;               /* error of a child */
    bool
        unsure; /* whether that was the first: a child has a nursery that it did not await, and ends after its function returned */
    unsigned errors;
};

struct node {
    uint64_t seed;
    struct frame *in;
    weft_task *task; /* a handle, while somebody has it */
    enum stage stage;
    int status;
    unsigned depth, shields;
    bool has_limit; /* its shields may end */
    bool has_budget;
    weft_budget budget; /* what it was given */
    unsigned locals; /* keys that are set and not yet destroyed */
};

static struct {
    uint64_t seed;
    bool sim;
    unsigned most; /* nodes */
    pthread_mutex_t lock; /* all below */
    struct node node[NODES];
    struct frame frame[NODES];
    unsigned nodes, frames;
    weft_chan *chan;
    weft_fund *fund;
    int64_t out[5]; /* of the fund, that has not come back: what was used */
    atomic_uint spawned, cancelled, failed, late, unawaited, exhausted, refused; /* how much of it all there was */
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};
static unsigned key[KEYS];

#define MUST(claim)                                                                                                    \
    ((claim) ? (void)0 : harness_fail(__FILE__, __LINE__, "seed %ju: expected %s", (uintmax_t)world.seed, #claim))

static inline void lock(void) { pthread_mutex_lock(&world.lock); }
static inline void unlock(void) { pthread_mutex_unlock(&world.lock); }
/* So much has come out of the fund, or gone back.  With the lock. */
static inline void account(const weft_budget *budget, int times) {
    const int64_t each[5] = {budget->ops, (int64_t)budget->memory, budget->spawns, budget->channel_ops,
                             budget->syscalls};
    for (int i = 0; i < 5; i++)
        world.out[i] += times * each[i];
}
static inline unsigned draw(struct node *node, unsigned below) {
    return (unsigned)(harness_random(&node->seed) >> 20) % below;
}
static inline bool chance(struct node *node, unsigned percent) { return draw(node, 100) < percent; }

/* Does it hang on the frame, and on no shield in between? */
static inline bool hangs_on(const struct node *node, const struct frame *frame, bool through_shields) {
    for (const struct frame *in = node->in; in; in = in->owner ? in->owner->in : NULL) {
        if (in == frame)
            return true;
        if (!through_shields && in->shielded)
            return false;
    }
    return false;
}

/* May the shields of its children come to an end by a grace, of whatever is around it? */
static inline bool has_grace(const struct frame *frame) {
    while (frame && !frame->own_grace)
        frame = frame->owner ? frame->owner->in : NULL;
    return frame != NULL;
}

static inline void ask(struct frame *frame, bool really) {
    lock();
    frame->asked = frame->asked || really;
    unlock();
}

/* A cancel has just been carried out here: all that can still run knows.  With the lock. */
static inline void all_know(const struct frame *frame) {
    for (unsigned i = 0; world.sim && i < world.nodes; i++) {
        struct node *node = &world.node[i];
        if (node->task && (node->stage == SPAWNED || node->stage == ENTERED) && hangs_on(node, frame, false) &&
            !weft_task_is_done(node->task))
            MUST(weft_task_cancel_reason(node->task) != WEFT_REASON_NONE);
    }
}

/* -- Waits ------------------------------------------------------------------------------------------------------- */

/* It returned that.  waits: it could not but wait; else it has to be paid for, by those who have a budget. */
static inline int waited(struct node *node, bool before, bool waits, int result) {
    bool unpaid = !waits && node->has_budget;
    if (before && waits)
        MUST(result == -ECANCELED);
    if (result == -ECANCELED)
        MUST(weft_cancel_reason() != WEFT_REASON_NONE && (!node->shields || node->has_limit || unpaid));
    return result;
}

static inline int one_wait(struct node *node) {
    bool before = weft_task_is_cancelled(weft_task_self());
    int64_t ns = (1 + draw(node, 300)) * US, began = weft_now();
    int result, value = 0;
    weft_case cases[2];
    void *memory;
    switch (draw(node, 8)) {
    case 0: return waited(node, before, true, weft_yield());
    case 1: result = weft_checkpoint(); return waited(node, before, !node->has_budget, result);
    case 2:
        result = weft_chan_send(world.chan, &value, weft_after(ns));
        return waited(node, before, false, result == -ETIMEDOUT ? 0 : result);
    case 3:
        result = weft_chan_recv(world.chan, &value, weft_after(ns));
        return waited(node, before, false, result == -ETIMEDOUT ? 0 : result);
    case 4:
        cases[0] = weft_case_recv(world.chan, &value);
        cases[1] = weft_case_at(weft_after(ns));
        result = weft_select(cases, 2, WEFT_NEVER);
        return waited(node, before, false, result > 0 ? 0 : result);
    case 5:
        result = weft_alloc(draw(node, 5000), &memory);
        if (!result)
            weft_free(memory);
        return waited(node, before && !node->has_budget, false, result);
    default:
        result = waited(node, before, true, weft_sleep(ns));
        if (!result)
            MUST(weft_now() >= began + ns);
        return result;
    }
}

/* -- Children ------------------------------------------------------------------------------------------------------ */

static int run(void *arg); /* tree.c: what a fiber does */

static inline struct node *bear(struct node *by, struct frame *in) {
    lock();
    struct node *node = world.nodes < world.most ? &world.node[world.nodes++] : NULL;
    if (node) {
        *node = (struct node){.seed = harness_random(&by->seed), .in = in, .depth = by->depth + 1};
        node->has_limit = has_grace(in);
        node->has_budget = in->funded || by->has_budget;
    }
    unlock();
    return node;
}

static inline void spawn(struct node *by, struct frame *frame) {
    struct node *child = bear(by, frame);
    if (!child)
        return;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    static const weft_budget one_spawn = {0, 0, 1, 0, 0};
    child->budget = (weft_budget){20 + draw(by, 200), 4000 + draw(by, 10000), draw(by, 4), 1 + draw(by, 5), 0};
    spec.fn = run;
    spec.arg = child;
    spec.migrate = chance(by, 30);
    spec.budget = child->has_budget ? &child->budget : NULL;
    weft_nursery_state state = weft_nursery_state_of(frame->n);
    weft_task *task = NULL;
    lock();
    child->stage = SPAWNED;
    unlock();
    int error = weft_nursery_spawn(frame->n, &spec, &task);
    lock();
    child->task = task;
    if (error) {
        child->stage = UNBORN;
    } else {
        world.spawned++;
        if (child->has_budget)
            account(&child->budget, 1);
        if (frame->funded)
            account(&one_spawn, 1); /* else it is out of the spawner's */
    }
    unlock();
    if (world.sim && !by->has_budget)
        MUST(error == (state == WEFT_NURSERY_OPEN         ? 0
                       : state >= WEFT_NURSERY_CANCELLING ? -ECANCELED
                                                          : -EPIPE) ||
             error == -EDQUOT);
    MUST(error == 0 || error == -ECANCELED || error == -EPIPE || (child->has_budget && error == -EDQUOT));
    MUST(!error || !task);
}

/* Somebody, whoever it is, or a nursery that is there. */
static inline void cancel_any(struct node *node) {
    lock();
    struct node *who = &world.node[draw(node, world.nodes)];
    if (who->task && chance(node, 50)) {
        bool ends = !weft_task_is_done(who->task);
        weft_task_cancel(who->task);
        if (world.sim && ends)
            MUST(weft_task_cancel_reason(who->task) != WEFT_REASON_NONE);
        for (unsigned i = 0; world.sim && ends && i < world.frames; i++)
            if (world.frame[i].owner == who && !world.frame[i].shielded)
                all_know(&world.frame[i]);
        world.cancelled++;
    } else if (who->task && who->in->n && who->stage != LEFT && who == node) {
        who->in->asked = true;
        weft_nursery_cancel(who->in->n);
        all_know(who->in);
        world.cancelled++;
    }
    unlock();
}

#endif
