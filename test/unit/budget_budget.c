/* budget_budget.c - arithmetic of budgets, and the sum over a tree of funds. */
#include <pthread.h>
#include <string.h>

#include "budget/fund.h"
#include "harness.h"

/* -- Arithmetic, against wider numbers ---------------------------------------------------------------------- */

typedef unsigned __int128 wide;

/* Near 0, near the largest, or anywhere. */
static uint64_t edgy(uint64_t *random, uint64_t most) {
    uint64_t r = harness_random(random), small = harness_random(random) % 3;
    switch (r % 4) {
    case 0: return small < most ? small : most;
    case 1: return most - small;
    case 2: return harness_random(random) % 1000 % (most == UINT64_MAX ? most : most + 1);
    default: return most == UINT64_MAX ? harness_random(random) : harness_random(random) % (most + 1);
    }
}

static weft_budget any_budget(uint64_t *random) {
    return (weft_budget){edgy(random, UINT64_MAX), edgy(random, UINT64_MAX), edgy(random, UINT64_MAX),
                         edgy(random, UINT64_MAX), edgy(random, UINT64_MAX)};
}

static void widen(const weft_budget *budget, wide out[5]) {
    out[0] = budget->ops, out[1] = budget->memory, out[2] = budget->spawns, out[3] = budget->channel_ops,
    out[4] = budget->syscalls;
}

TEST(budget_arithmetic, "J10 J11") {
    uint64_t random = harness_seed();
    unsigned taken = 0, refused = 0, full = 0;
    for (int i = 0; i < 1000000; i++) {
        weft_budget a = any_budget(&random), b = any_budget(&random), before = a;
        wide wa[5], wb[5], wr[5];
        widen(&a, wa), widen(&b, wb);
        bool enough = true;
        for (int k = 0; k < 5; k++)
            enough = enough && wa[k] >= wb[k];
        REQUIRE_EQ(weft_budget_covers(&a, &b), enough);
        REQUIRE_EQ(weft_budget_take(&a, &b), enough);
        widen(&a, wr);
        for (int k = 0; k < 5; k++)
            REQUIRE(wr[k] == (enough ? wa[k] - wb[k] : wa[k])); /* all or nothing */
        enough ? taken++ : refused++;
        a = before;
        weft_budget_add(&a, &b);
        widen(&a, wr);
        for (int k = 0; k < 5; k++) {
            wide sum = wa[k] + wb[k];
            full += sum > UINT64_MAX;
            REQUIRE(wr[k] == (sum > UINT64_MAX ? UINT64_MAX : sum)); /* saturates */
        }
    }
    CHECK_GT(taken, 100);
    CHECK_GT(refused, 100);
    CHECK_GT(full, 100);
}

TEST(budget_widths, "J10") {
    weft_budget budget;
    CHECK_EQ(sizeof budget.ops, 8);
    CHECK_EQ(sizeof budget.memory, 8);
    CHECK_EQ(sizeof budget.spawns, 8);
    CHECK_EQ(sizeof budget.channel_ops, 8);
    CHECK_EQ(sizeof budget.syscalls, 8);
    CHECK_EQ(sizeof budget, 40); /* docs/guide/15-languages.md says so */
}

static bool same(const weft_budget *a, const weft_budget *b) {
    return weft_budget_covers(a, b) && weft_budget_covers(b, a);
}

TEST(budget_defaults, "J12") {
    weft_budget child = WEFT_BUDGET_CHILD, service = WEFT_BUDGET_SERVICE, cluster = WEFT_BUDGET_CLUSTER;
    CHECK(same(&child, &(weft_budget){10000, 1048576, 0, 100, 10}));
    CHECK(same(&service, &(weft_budget){100000, 10485760, 100, 1000, 100}));
    CHECK(same(&cluster, &(weft_budget){1000000, 104857600, 1000, 10000, 1000}));
}

/* -- A tree of funds ------------------------------------------------------------------------------------------ */

#define FUNDS 64

struct tree {
    struct weft_fund *fund[FUNDS]; /* [0]: the root; NULL: free */
    weft_budget held[FUNDS];       /* taken out of fund[i] by hand, as a fiber does */
    unsigned holders[FUNDS];
};

static weft_budget sum_of(const struct tree *tree) {
    weft_budget sum = {0};
    for (int i = 0; i < FUNDS; i++)
        if (tree->fund[i]) {
            weft_budget_add(&sum, &tree->fund[i]->left);
            weft_budget_add(&sum, &tree->held[i]);
        }
    return sum;
}

static weft_budget some(uint64_t *random, unsigned most_of) {
    return (weft_budget){harness_random(random) % most_of, harness_random(random) % most_of,
                         harness_random(random) % most_of, harness_random(random) % most_of,
                         harness_random(random) % most_of};
}

/* One random step on funds lo .. hi - 1, whose parents may be any of these or the root. */
static void step(struct tree *tree, weft_runtime *rt, uint64_t *random, int lo, int hi) {
    int i = lo + (int)(harness_random(random) % (uint64_t)(hi - lo));
    int j = harness_random(random) % 4 ? lo + (int)(harness_random(random) % (uint64_t)(hi - lo)) : 0;
    struct weft_fund **fund = &tree->fund[i];
    weft_budget amount = some(random, harness_random(random) % 8 ? 50 : 5000);
    switch (harness_random(random) % 5) {
    case 0:
        if (!*fund && tree->fund[j]) {
            int error = weft_fund_create(rt, tree->fund[j], &amount, fund);
            REQUIRE(error == 0 || error == -EDQUOT);
        }
        break;
    case 1:
        if (*fund && !tree->holders[i]) {
            int error = weft_fund_destroy(*fund);
            REQUIRE(error == 0 || error == -EBUSY);
            if (!error)
                *fund = NULL;
        }
        break;
    case 2:
        if (*fund && tree->fund[j]) {
            int error = weft_fund_transfer(*fund, tree->fund[j], &amount, NULL);
            REQUIRE(error == 0 || error == -EDQUOT);
        }
        break;
    case 3: /* a fiber's birth ... */
        if (*fund && wefti_fund_take(*fund, &amount, 1)) {
            weft_budget_add(&tree->held[i], &amount);
            tree->holders[i]++;
        }
        break;
    case 4: /* ... and its end: with all that it had */
        if (*fund && tree->holders[i]) {
            weft_budget back = --tree->holders[i] ? some(random, 20) : tree->held[i];
            if (weft_budget_take(&tree->held[i], &back))
                wefti_fund_give(*fund, &back, 1);
            else
                tree->holders[i]++;
        }
        break;
    }
}

static void end_tree(struct tree *tree) {
    for (int i = 1; i < FUNDS; i++)
        if (tree->fund[i])
            wefti_fund_give(tree->fund[i], &tree->held[i], tree->holders[i]);
    for (bool more = true; more;) {
        more = false;
        for (int i = 1; i < FUNDS; i++)
            if (tree->fund[i] && weft_fund_destroy(tree->fund[i]) == 0) {
                tree->fund[i] = NULL;
                more = true;
            }
    }
    for (int i = 1; i < FUNDS; i++)
        CHECK(!tree->fund[i]);
}

static const weft_budget start = {1000000, 1000000, 60000, 60000, 60000};

static bool equals_start(const weft_budget *sum) { return same(sum, &start); }

TEST(fund_sum_constant, "J11 J39 J40", .timeout = 120) {
    weft_runtime *rt;
    REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
    struct tree tree = {0};
    uint64_t random = harness_seed();
    REQUIRE_EQ(weft_fund_create(rt, NULL, &start, &tree.fund[0]), 0);
    for (int i = 0; i < 1000000; i++) {
        step(&tree, rt, &random, 1, FUNDS);
        if (i % 64 == 0) {
            weft_budget sum = sum_of(&tree);
            REQUIRE(equals_start(&sum));
        }
    }
    end_tree(&tree);
    CHECK(equals_start(&tree.fund[0]->left));
    CHECK_EQ(tree.fund[0]->users, 0);
    REQUIRE_EQ(weft_fund_destroy(tree.fund[0]), 0);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}

/* Four threads, each with funds of its own below one root. */
#define THREADS 4
static struct {
    weft_runtime *rt;
    struct tree tree;
    uint64_t seed;
} shared;

static void steps(unsigned index, void *arg) {
    (void)arg;
    uint64_t random = shared.seed + index;
    int each = (FUNDS - 1) / THREADS, lo = 1 + (int)index * each;
    for (int i = 0; i < 250000 / (harness_is_slow() ? 10 : 1); i++)
        step(&shared.tree, shared.rt, &random, lo, lo + each);
}

TEST(fund_sum_constant_threads, "J11 J39", .timeout = 120) {
    REQUIRE_EQ(weft_runtime_create(NULL, &shared.rt), 0);
    shared.seed = harness_seed();
    REQUIRE_EQ(weft_fund_create(shared.rt, NULL, &start, &shared.tree.fund[0]), 0);
    harness_threads(THREADS, steps, NULL);
    weft_budget sum = sum_of(&shared.tree);
    CHECK(equals_start(&sum));
    end_tree(&shared.tree);
    CHECK(equals_start(&shared.tree.fund[0]->left));
    REQUIRE_EQ(weft_fund_destroy(shared.tree.fund[0]), 0);
    REQUIRE_EQ(weft_runtime_destroy(shared.rt), 0);
}

/* A fund never holds more than the largest number of anything; what was moved goes back exactly. */
TEST(fund_as_large_as_can_be, "J11") {
    weft_runtime *rt;
    weft_fund *root, *child;
    weft_budget all = WEFT_BUDGET_MAX,
                half = {UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2}, left,
                none = {0};
    REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
    REQUIRE_EQ(weft_fund_create(rt, NULL, &all, &root), 0);
    REQUIRE_EQ(weft_fund_add(root, &all), 0); /* nothing of it fits */
    REQUIRE_EQ(weft_fund_create(rt, root, &none, &child), 0);
    REQUIRE_EQ(weft_fund_transfer(root, child, &half, NULL), 0);
    REQUIRE_EQ(weft_fund_transfer(root, child, &half, NULL), 0);
    CHECK_EQ(weft_fund_transfer(root, child, &half, NULL), -EDQUOT);
    weft_fund_left(child, &left);
    CHECK(left.ops == UINT64_MAX - 1 && left.spawns == UINT64_MAX - 1);
    CHECK_EQ(root->left.channel_ops, 1);
    CHECK_EQ(weft_fund_add(child, &all), -EINVAL);
    CHECK_EQ(weft_fund_destroy(root), -EBUSY);
    REQUIRE_EQ(weft_fund_destroy(child), 0);
    CHECK(same(&root->left, &all));
    REQUIRE_EQ(weft_fund_destroy(root), 0);
    CHECK_EQ(weft_fund_destroy(NULL), 0);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}
