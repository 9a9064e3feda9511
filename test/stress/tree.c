/* tree.c - random trees of nurseries, drawn from a seed, held against what the headers promise.
 *
 * What.   Every fiber draws its own steps from its own seed: waits, channels, nested nurseries with deadlines, graces and funds, time limits, shields, cancels of
 *         anybody, failures, siblings, nurseries that nobody awaits.  Under sim the whole run follows from one seed, and twice the same seed is twice the same run.
 * Claims. A nursery's await returns when all below it has ended, with the first error, or why it was cancelled, or 0 when it was not.  A cancel reaches all below it
 *         at once, but for what was opened under a shield that is still up.  Who has been cancelled does not wait, nor does one wait in vain under a shield.  Locals are
 *         destroyed once, the newest key first.  What came out of the fund is what was used.
 * More.   TREE_RUNS=10000 TREE_SEED=1 build/dev/weft-stress --filter 'tree.*@sim*'.  One that fails names its seed; with that, TREE_RUNS=1 and ever fewer
 *         fibers, TREE_MOST=20, there is less to look at.
 */
#include "tree.h"

static int steps(struct node *node, unsigned most);

/* -- Nurseries ------------------------------------------------------------------------------------------------------- */

static struct frame *new_frame(struct node *node) {
    lock();
    struct frame *frame = world.frames < world.most ? &world.frame[world.frames++] : NULL;
    unlock();
    if (frame)
        *frame = (struct frame){.owner = node, .until = WEFT_NEVER};
    return frame;
}

/* All below has ended; its handles say the same.  They are dropped. */
static void all_ended(struct frame *frame) {
    lock();
    for (unsigned i = 0; i < world.nodes; i++) {
        struct node *child = &world.node[i];
        if (hangs_on(child, frame, true))
            MUST(child->stage != ENTERED && child->locals == 0);
        if (!child->task || !hangs_on(child, frame, true))
            continue;
        weft_result result = {1, NULL};
        MUST(weft_task_is_done(child->task) && weft_join(child->task, &result, WEFT_NOW) == 0);
        MUST(result.status == (child->stage == LEFT ? child->status < 0 ? child->status : 0 : -ECANCELED));
        MUST(child->stage == LEFT || weft_task_cancel_reason(child->task) != WEFT_REASON_NONE);
        if (child->stage == SPAWNED && child->has_budget)
            account(&child->budget, -1);
        weft_task_drop(child->task);
        child->task = NULL;
    }
    unlock();
}

static int nest(struct node *node) {
    struct frame *frame = new_frame(node);
    weft_task *self = weft_task_self();
    if (!frame)
        return 0;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    bool heap = chance(node, 30), only_opened = chance(node, 10);
    config.keep_going = frame->keep_going = chance(node, 25);
    config.until = chance(node, 25) ? weft_after(draw(node, 500) * US) : 0;
    config.grace = chance(node, 20) ? (1 + draw(node, 200)) * US : 0;
    config.fund = chance(node, 25) ? world.fund : NULL;
    frame->own_grace = config.grace;
    frame->funded = config.fund;
    frame->until = config.until ? config.until : WEFT_NEVER;
    if (only_opened)
        MUST(weft_shield(self) == 0);
    frame->shielded = node->shields || only_opened;
    bool before = weft_task_is_cancelled(self) && !frame->shielded;
    frame->n = &frame->room;
    MUST((heap ? weft_nursery_create(NULL, &config, &frame->n) : weft_nursery_init(frame->n, NULL, &config)) == 0);
    if (before)
        MUST(weft_nursery_state_of(frame->n) == WEFT_NURSERY_CANCELLED);
    for (unsigned i = draw(node, 4); i-- > 0;)
        spawn(node, frame);
    if (only_opened) {
        MUST(weft_unshield(self) == 0);
        lock();
        frame->shielded = node->shields;
        if (!frame->shielded && weft_task_is_cancelled(self))
            all_know(frame);
        unlock();
    }
    int error = 0;
    for (unsigned i = draw(node, 3); i-- > 0 && !error;)
        switch (draw(node, 6)) {
        case 0:
            ask(frame, true);
            weft_nursery_cancel(frame->n);
            lock();
            all_know(frame);
            unlock();
            break;
        case 1: weft_nursery_close(frame->n); break;
        case 2:
            ask(frame, weft_now() >= frame->until);
            frame->until = weft_after(draw(node, 300) * US);
            MUST(weft_nursery_set_deadline(frame->n, frame->until) == 0);
            break;
        case 3: spawn(node, frame); break;
        default: error = one_wait(node);
        }
    if (heap && node->depth && !frame->shielded && chance(node, 10)) { /* the fiber's end awaits it */
        atomic_fetch_add(&world.unawaited, 1);
        ask(frame, true);
        return -ENOTTY; /* at once, so that it stays the newest */
    }
    bool destroy = heap && chance(node, 30);
    ask(frame, destroy);
    int result = destroy ? weft_nursery_destroy(frame->n) : weft_nursery_await(frame->n);
    all_ended(frame);
    bool late = weft_now() >= frame->until, mine = weft_cancel_reason() != WEFT_REASON_NONE;
    if (world.sim && !frame->unsure)
        MUST(frame->first == 0 || result == frame->first);
    MUST(frame->errors ? result < 0 && result != -ECANCELED
                       : result == 0 || result == -ECANCELED || result == -ETIMEDOUT || result == -EDQUOT);
    if (!frame->errors && result)
        MUST(result == -EDQUOT      ? atomic_load(&world.refused) > 0
             : result == -ETIMEDOUT ? late || frame->asked
                                    : frame->asked || mine);
    if (!destroy) {
        weft_nursery_state state = weft_nursery_state_of(frame->n);
        MUST(weft_nursery_count(frame->n) == 0 && (state == WEFT_NURSERY_CLOSED || state == WEFT_NURSERY_CANCELLED));
        MUST((weft_nursery_reason(frame->n) != WEFT_REASON_NONE) == (state == WEFT_NURSERY_CANCELLED));
        MUST(weft_nursery_await(frame->n) == result);
    }
    if (heap && !destroy)
        MUST(weft_nursery_destroy(frame->n) == result);
    atomic_fetch_add(&world.late, result == -ETIMEDOUT);
    return chance(node, 50) ? result : error;
}

static int limited(struct node *node) {
    struct frame *frame = new_frame(node);
    struct node *child = frame ? bear(node, frame) : NULL;
    if (!child)
        return 0;
    int64_t ns = draw(node, 400) * US;
    frame->until = weft_after(ns);
    frame->shielded = node->shields;
    if (node->has_budget) /* it would have to pay, and might be cancelled for want of it: counted below */
        return 0;
    bool before = weft_task_is_cancelled(weft_task_self()) && !node->shields;
    child->stage = SPAWNED;
    int result = weft_timeout(ns, run, child);
    all_ended(frame);
    if (before) {
        MUST(result == -ECANCELED && child->stage == SPAWNED);
        child->stage = UNBORN;
        return result;
    }
    atomic_fetch_add(&world.spawned, 1);
    bool late = weft_now() >= frame->until, mine = weft_cancel_reason() != WEFT_REASON_NONE;
    if (child->stage == SPAWNED)
        MUST((result == -ETIMEDOUT && late) || (result == -ECANCELED && mine));
    else if (child->status < 0 && child->status != -ECANCELED)
        MUST(result == child->status);
    else
        MUST(result == child->status || (result == -ETIMEDOUT && late) || (result == -ECANCELED && mine));
    child->stage = LEFT;
    return chance(node, 50) ? result : 0;
}

/* -- A nursery of a poll task, which may end before its children do ---------------------------------------------------- */

struct poller {
    struct node draws; /* not the fiber's, which may go on at the same time */
    struct frame *frame;
    weft_wait wait;
    int result; /* 1: not awaited */
};

static weft_poll poll_owner(weft_task *self, void *state) {
    struct poller *p = state;
    struct frame *frame = p->frame;
    if (!frame->n) {
        weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
        config.keep_going = chance(&p->draws, 25);
        MUST(weft_nursery_create(NULL, &config, &frame->n) == 0);
        for (unsigned i = draw(&p->draws, 4); i-- > 0;)
            spawn(&p->draws, frame);
    }
    int error = weft_nursery_await_poll(frame->n, self, &p->wait, &p->result);
    MUST(error == 0 || error == -EAGAIN);
    if (error && chance(&p->draws, 30)) {
        ask(frame, true);
        weft_nursery_cancel(frame->n);
        lock();
        all_know(frame);
        unlock();
    }
    return error ? WEFT_PENDING : weft_done(self, 0, NULL);
}

static void poll_owner_ends(void *state) {
    struct poller *p = state;
    weft_wait_end(&p->wait);
    MUST(weft_nursery_destroy(p->frame->n) == 0);
}

static int by_poll(struct node *node) {
    struct frame *frame = node->has_budget || node->has_limit ? NULL : new_frame(node);
    weft_task *task, *self = weft_task_self();
    if (!frame)
        return 0;
    struct poller p = {.draws = *node, .frame = frame, .result = 1};
    p.draws.seed = harness_random(&node->seed);
    frame->shielded = true; /* cancelling this fiber does not reach it */
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = poll_owner;
    spec.drop = poll_owner_ends;
    spec.state = &p;
    MUST(weft_spawn(NULL, &spec, &task) == 0);
    int error = weft_join(task, NULL, chance(node, 50) ? weft_after(draw(node, 300) * US) : WEFT_NEVER);
    MUST(error == 0 || error == -ETIMEDOUT || error == -ECANCELED);
    MUST(weft_shield(self) == 0);
    weft_task_cancel(task);
    MUST(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    for (unsigned i = 0, nodes = 1; i < nodes; i++) { /* their siblings come later in the list */
        lock();
        weft_task *child = world.node[i].in == frame ? world.node[i].task : NULL;
        unlock();
        if (child)
            MUST(weft_join(child, NULL, WEFT_NEVER) == 0);
        lock();
        nodes = world.nodes;
        unlock();
    }
    MUST(weft_unshield(self) == 0);
    all_ended(frame);
    if (p.result != 1)
        MUST(frame->errors ? p.result < 0 && p.result != -ECANCELED
                           : p.result == 0 || (frame->asked && p.result == -ECANCELED));
    if (p.result != 1 && world.sim && frame->first && !frame->unsure)
        MUST(p.result == frame->first);
    return error == -ETIMEDOUT ? 0 : error;
}

static int shielded(struct node *node) {
    weft_task *self = weft_task_self();
    bool had = node->has_limit, limit = chance(node, 30);
    MUST((limit ? weft_shield_until(self, weft_after(draw(node, 200) * US)) : weft_shield(self)) == 0);
    node->has_limit = had || limit;
    node->shields++;
    MUST(!weft_task_is_cancelled(self) || node->has_limit);
    int error = steps(node, 3);
    lock();
    node->shields--;
    unlock();
    node->has_limit = had; /* a limit goes with its shield */
    MUST(weft_unshield(self) == 0);
    return error;
}

/* -- A fiber ----------------------------------------------------------------------------------------------------------- */

static int steps(struct node *node, unsigned most) {
    int error = 0;
    for (unsigned i = 1 + draw(node, most); i-- > 0 && (!error || (error == -ECANCELED && chance(node, 20)));) {
        unsigned what = draw(node, 100);
        if (what < 35)
            error = one_wait(node);
        else if (what < 60)
            error = node->depth < DEPTH ? nest(node) : one_wait(node);
        else if (what < 68)
            error = node->depth < DEPTH ? limited(node) : one_wait(node);
        else if (what < 72)
            error = node->depth < DEPTH ? by_poll(node) : one_wait(node);
        else if (what < 80)
            error = node->shields < 3 ? shielded(node) : one_wait(node);
        else if (what < 88)
            cancel_any(node);
        else if (what < 95 && node->in && node->in->n) {
            MUST(weft_nursery_parent() == node->in->n);
            spawn(node, node->in);
        } else if (node->depth)
            error = -(1000 + (int)draw(node, 1000));
    }
    return error;
}

static int run(void *arg) {
    struct node *node = arg;
    lock();
    MUST(node->stage == SPAWNED);
    node->stage = ENTERED;
    unlock();
    for (unsigned i = KEYS; i-- > 0;)
        if (chance(node, 50)) {
            MUST(weft_local_set(key[i], node) == 0);
            node->locals |= 1u << i;
        }
    MUST(!weft_task_is_cancelled(weft_task_self()) || !world.sim);
    int error = steps(node, 5);
    while (!node->depth && error != -ENOTTY && world.nodes < world.most / 2 && chance(node, 80)) /* the first goes on */
        error = steps(node, 5);
    struct frame *in = node->in;
    weft_budget left;
    lock();
    node->status = error;
    node->stage = LEFT;
    if (node->has_budget) {
        MUST(weft_budget_left(&left) == 0);
        account(&left, -1);
    }
    if (in && error < 0 && error != -ECANCELED) {
        world.failed++;
        in->errors++;
        in->unsure = in->unsure || error == -ENOTTY;
        if (!in->first)
            in->first = error;
    }
    unlock();
    return error;
}

static void destroyed(struct node *node, unsigned i) {
    MUST(node->locals >> i == 1); /* the newest key first, each once */
    node->locals &= ~(1u << i);
}
static void destroyed_0(void *value) { destroyed(value, 0); }
static void destroyed_1(void *value) { destroyed(value, 1); }
static void destroyed_2(void *value) { destroyed(value, 2); }

/* -- A run -------------------------------------------------------------------------------------------------------------- */

/* Gives to those that are exhausted, or cancels them, until it is cancelled itself. */
static int treasurer(void *arg) {
    struct node draws = {.seed = world.seed};
    static const weft_budget more = {100, 5000, 2, 10, 0};
    weft_task *task;
    int error;
    while ((error = weft_fund_wait_exhausted(world.fund, WEFT_NEVER)) == 0)
        while (weft_fund_exhausted(world.fund, &task, 1)) {
            world.exhausted++;
            lock();
            error = chance(&draws, 30) ? -EAGAIN : weft_fund_recharge(world.fund, task, &more, NULL);
            if (!error)
                account(&more, 1);
            unlock();
            if (error) {
                atomic_fetch_add(&world.refused, 1);
                weft_fund_refuse(world.fund, task);
            }
        }
    (void)arg;
    return error;
}

static int first(void *arg) {
    weft_task *keeper, *tree;
    weft_result result;
    MUST(weft_fiber_go(NULL, treasurer, NULL, &keeper) == 0 && weft_fiber_go(NULL, run, arg, &tree) == 0);
    MUST(weft_join(tree, &result, WEFT_NEVER) == 0);
    weft_task_drop(tree);
    MUST(result.status == 0 || result.status == -ECANCELED || result.status == -ETIMEDOUT || result.status == -ENOTTY ||
         result.status == -EDQUOT || result.status <= -1000);
    weft_task_cancel(keeper);
    MUST(weft_join(keeper, &result, WEFT_NEVER) == 0 && result.status == -ECANCELED);
    weft_task_drop(keeper);
    return 0;
}

static uint64_t one_run(uint64_t seed, unsigned most) {
    const weft_budget whole = {500000, UINT64_C(1) << 24, 5000, 5000, 0};
    weft_config config = WEFT_CONFIG_INIT;
    weft_budget left;
    world.seed = config.seed = seed;
    world.sim = fixture_on("sim");
    world.most = most;
    world.nodes = 1;
    world.frames = 0;
    memset(world.out, 0, sizeof world.out);
    world.node[0] = (struct node){.seed = seed, .stage = SPAWNED};
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(weft_chan_create(sizeof(int), seed % 3, &world.chan), 0);
    REQUIRE_EQ(weft_fund_create(rt, NULL, &whole, &world.fund), 0);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, first, &world.node[0], &task), 0);
    fixture_finish(task);
    weft_fund_left(world.fund, &left);
    account(&left, 1);
    account(&whole, -1);
    for (int i = 0; i < 5; i++)
        MUST(world.out[i] == 0);
    MUST(weft_fund_destroy(world.fund) == 0);
    weft_chan_drop(world.chan);
    REQUIRE_EQ(weft_runtime_stop(rt, fixture_soon()), 0); /* nurseries' timers, too */
    uint64_t hash = weft_sim_hash(rt);
    fixture_end(rt);
    for (unsigned i = 0; i < world.nodes; i++)
        MUST(world.node[i].stage != ENTERED && world.node[i].locals == 0);
    return hash;
}

static uint64_t asked_for(const char *name, uint64_t usual) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : usual;
}

API_TEST(random_trees, "J6 J8 J13 J17 J19 J22 J23 J24 J25 J31 J33 J34 J38 J40", .workers = {1, 2}, .timeout = 120) {
    static void (*const destroy[KEYS])(void *) = {destroyed_0, destroyed_1, destroyed_2};
    for (unsigned i = 0; i < KEYS; i++)
        REQUIRE_EQ(weft_local_create(&key[i], destroy[i]), 0);
    unsigned usual = fixture_on("sim") ? 1600 : 24;
    uint64_t seed = asked_for("TREE_SEED", harness_seed() | 1);
    unsigned count = (unsigned)asked_for("TREE_RUNS", harness_is_slow() ? usual / 8 : usual);
    unsigned nodes = (unsigned)asked_for("TREE_MOST", NODES);
    REQUIRE_LE(nodes, NODES);
    for (unsigned i = 0; i < count; i++) {
        uint64_t hash = one_run(seed + i, nodes);
        if (i % 16 == 0)
            MUST(one_run(seed + i, nodes) == hash);
    }
    printf("%u children, %u cancels, %u failures, %u late, %u not awaited, %u exhausted\n", world.spawned,
           world.cancelled, world.failed, world.late, world.unawaited, world.exhausted);
}
