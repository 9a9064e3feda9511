/* budget_memory.c - memory of killed fibers, and the sum of all budgets over random operations. */
#include "budget.h"

/* -- Killed fibers ---------------------------------------------------------------------------------------------- */

static int hog(void *arg) {
    void **first = arg, *more;
    int error = weft_alloc(1000, first);
    while (!error)
        error = weft_alloc(1000, &more);
    return error;
}

/* A refused fiber still holds memory that it cannot give back: what it was charged is in the fund again.  The memory itself stays
 * valid, and freeing it does not credit the fund twice. */
API_TEST(budget_memory_of_refused, "J11 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){1000, 10000, 1, 0, 0});
    char *memory = NULL;
    weft_task *task = charged(rt, fund, (weft_budget){500, 1000, 0, 0, 0}, hog, &memory);
    REQUIRE_EQ(weft_fund_wait_exhausted(fund, fixture_soon()), 0);
    CHECK_HOLDS(fund, 500, 9000, 0, 0, 0);
    CHECK_EQ(weft_fund_refuse(fund, task), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_HOLDS(fund, 999, 10000, 0, 0, 0);
    memory[999] = 1;
    weft_free(memory);
    CHECK_HOLDS(fund, 999, 10000, 0, 0, 0);
    end_fund(fund);
    fixture_end(rt);
}

static void *held;

static int hold_and_spin(void *arg) {
    int error = weft_alloc(300, &held);
    if (error)
        return error;
    atomic_store((atomic_bool *)arg, true);
    metered_endless();
}

/* The same of one that was discarded; the fund may even be gone when the memory is freed. */
API_TEST(budget_memory_of_discarded, "J11 J25", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){UINT32_MAX, 1000, 1, 0, 0});
    weft_budget its = {UINT32_MAX, 400, 0, 0, 0}, left;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    atomic_bool began = false;
    weft_task *task = NULL;
    spec.fn = hold_and_spin;
    spec.arg = &began;
    spec.fund = fund;
    spec.budget = &its;
    spec.discard = true;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&began));
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    weft_fund_left(fund, &left);
    CHECK_EQ(left.memory, 1000);
    end_fund(fund);
    weft_free(held);
    fixture_end(rt);
}

static int alloc_of_runtime(void *arg) { return weft_alloc(300, arg); }

/* Memory on the account of the runtime's own fund may be freed when the runtime is gone. */
API_TEST(budget_memory_outlives_runtime, "J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SERVICE);
    weft_task *task = NULL;
    void *memory = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, alloc_of_runtime, &memory, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    weft_free(memory);
}

/* -- Random operations -------------------------------------------------------------------------------------------- */

#define FUNDS 4
#define ACTORS 16
#define PIECES 64
#define OPERATIONS 100000

struct actor {
    weft_task *task; /* a handle; NULL: free */
    weft_fund *fund;
    weft_budget left; /* what it must have; of one that has ended, nothing */
    bool discard, returned, refused;
    unsigned generation; /* of the place */
};

struct piece {
    void *memory; /* NULL: free */
    size_t size;
    unsigned actor, generation; /* who it is charged to */
    bool charged;
};

static struct {
    uint64_t random;
    weft_fund *fund[FUNDS]; /* [0] is the root */
    struct actor actor[ACTORS];
    struct piece piece[PIECES];
    weft_chan *chan;
    weft_budget all, used;
    unsigned operations, spawned, recharged, refused, discarded, freed_of_killed;
} world;

static uint64_t draw(uint64_t below) { return harness_random(&world.random) % below; }

/* The calling actor has done something: what it cost is what is missing. */
static void settle(struct actor *me) {
    weft_budget now = left_now();
    world.used.channel_ops += me->left.channel_ops - now.channel_ops;
    me->left = now;
    world.operations++;
}

static int alloc_one(struct actor *me) {
    struct piece *piece = &world.piece[draw(PIECES)];
    void *memory;
    size_t size = 1 + draw(200);
    if (piece->memory)
        return 0;
    piece->memory = &world; /* nobody else takes the place meanwhile */
    piece->size = 0;
    int error = weft_alloc(size, &memory);
    uint64_t before = me->left.memory, now = left_now().memory;
    piece->memory = error ? NULL : memory;
    if (error)
        return error;
    piece->size = size;
    piece->actor = (unsigned)(me - world.actor);
    piece->generation = me->generation;
    piece->charged = before != now;
    settle(me);
    return 0;
}

static void free_one(void) {
    struct piece *piece = &world.piece[draw(PIECES)];
    if (!piece->memory || !piece->size)
        return;
    world.freed_of_killed += !piece->charged;
    weft_free(piece->memory);
    piece->memory = NULL;
}

static int act(void *arg) {
    struct actor *me = arg;
    int error = 0;
    while (!error && draw(40) && world.operations < OPERATIONS) {
        switch (draw(6)) {
        case 0:
        case 1: error = alloc_one(me); break;
        case 2:
            free_one();
            settle(me);
            break;
        case 3:
            error = weft_chan_send(world.chan, &(int){1}, WEFT_NEVER);
            if (!error)
                settle(me);
            break;
        case 4: metered_sum(draw(400)); break;
        default: error = weft_yield(); break;
        }
    }
    me->returned = true;
    return error;
}

static void spawn_one(void) {
    struct actor *actor = &world.actor[draw(ACTORS)];
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget budget = {draw(3000), draw(1000), 0, draw(10), 0};
    if (actor->task)
        return;
    *actor = (struct actor){
        .fund = world.fund[draw(FUNDS)], .left = budget, .discard = draw(2), .generation = actor->generation + 1};
    spec.fn = act;
    spec.arg = actor;
    spec.fund = actor->fund;
    spec.budget = &budget;
    spec.discard = actor->discard;
    int error = weft_fiber_spawn(NULL, &spec, &actor->task);
    REQUIRE(error == 0 || error == -EDQUOT);
    world.used.spawns += !error;
    world.spawned += !error;
    if (error)
        actor->left = (weft_budget){0};
}

static void supervise_one(void) {
    struct actor *actor = &world.actor[draw(ACTORS)];
    weft_budget more = {draw(2000), draw(500), 0, draw(10), 0};
    if (!actor->task || !is_exhausted(actor->fund, actor->task))
        return;
    if (draw(3)) {
        int error = weft_fund_recharge(actor->fund, actor->task, &more, NULL);
        REQUIRE(error == 0 || error == -EDQUOT);
        if (!error)
            weft_budget_add(&actor->left, &more);
        world.recharged += !error;
    } else {
        REQUIRE_EQ(weft_fund_refuse(actor->fund, actor->task), 0);
        actor->refused = true;
        world.refused++;
    }
}

static void cancel_one(void) {
    struct actor *actor = &world.actor[draw(ACTORS)];
    if (actor->task && draw(4) == 0)
        weft_task_cancel(actor->task);
}

/* What has ended has nothing left; what a killed one held is charged to nobody. */
static void reap(void) {
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &world.actor[i];
        weft_result result;
        if (!actor->task || !weft_task_is_done(actor->task))
            continue;
        REQUIRE_EQ(weft_join(actor->task, &result, WEFT_NOW), 0);
        bool discarded = result.status == -ECANCELED && !actor->returned && actor->left.memory < UINT64_MAX;
        world.discarded += discarded && actor->discard;
        bool killed = actor->refused || discarded || result.status == -EDQUOT;
        for (unsigned k = 0; k < PIECES; k++)
            if (killed && world.piece[k].actor == i && world.piece[k].generation == actor->generation)
                world.piece[k].charged = false;
        weft_task_drop(actor->task);
        actor->task = NULL;
        actor->left = (weft_budget){0};
    }
}

/* Of everything but ops, which fibers use up between any two looks. */
static void check_sum(void) {
    weft_budget sum = world.used, left;
    for (unsigned i = 0; i < FUNDS; i++) {
        weft_fund_left(world.fund[i], &left);
        weft_budget_add(&sum, &left);
    }
    for (unsigned i = 0; i < ACTORS; i++)
        weft_budget_add(&sum, &world.actor[i].left);
    for (unsigned i = 0; i < PIECES; i++)
        if (world.piece[i].memory && world.piece[i].charged)
            sum.memory += world.piece[i].size;
    REQUIRE_EQ(sum.memory, world.all.memory);
    REQUIRE_EQ(sum.spawns, world.all.spawns);
    REQUIRE_EQ(sum.channel_ops, world.all.channel_ops);
}

static void transfer_one(void) {
    weft_budget amount = {draw(10000), draw(1000), draw(3), draw(20), 0};
    int error = weft_fund_transfer(world.fund[draw(FUNDS)], world.fund[draw(FUNDS)], &amount, NULL);
    REQUIRE(error == 0 || error == -EDQUOT);
}

static int drive(void *arg) {
    (void)arg;
    int value;
    while (world.operations < OPERATIONS) {
        world.operations++;
        switch (draw(6)) {
        case 0: spawn_one(); break;
        case 1: supervise_one(); break;
        case 2: cancel_one(); break;
        case 3: transfer_one(); break;
        default: weft_yield(); break;
        }
        while (weft_chan_recv(world.chan, &value, WEFT_NOW) == 0)
            ;
        reap();
        check_sum();
    }
    for (bool live = true; live;) { /* all end: nobody has a shield */
        live = false;
        for (unsigned i = 0; i < ACTORS; i++)
            if (world.actor[i].task) {
                weft_task_cancel(world.actor[i].task);
                live = true;
            }
        weft_yield();
        reap();
        check_sum();
    }
    return 0;
}

/* What is in the funds, in the accounts and in memory, and what was used, is constant, whatever happens to fibers: recharges, refusals, cancels,
 * discards, and memory that others free, before or after the end of its fiber. */
API_TEST(budget_sum_constant, "J11 J39 J40", .workers = {1}, .sched = "sim", .timeout = 120) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    world.random = harness_seed();
    world.all = (weft_budget){UINT32_MAX, 50000, 100000, 1000000, 0};
    weft_budget part = {UINT32_MAX / 4, 12000, 20000, 200000, 0};
    world.fund[0] = new_fund(rt, world.all);
    for (unsigned i = 1; i < FUNDS; i++)
        REQUIRE_EQ(weft_fund_create(rt, world.fund[0], &part, &world.fund[i]), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), WEFT_UNBOUNDED, &world.chan), 0);
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, drive, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_GT(world.recharged, 100);
    CHECK_GT(world.refused, 100);
    CHECK_GT(world.discarded, 100);
    CHECK_GT(world.freed_of_killed, 100);
    for (unsigned i = 0; i < PIECES; i++)
        weft_free(world.piece[i].memory);
    for (unsigned i = FUNDS; i-- > 0;)
        end_fund(world.fund[i]);
    weft_chan_drop(world.chan);
    fixture_end(rt);
}
