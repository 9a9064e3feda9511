/* grants.c - capabilities drawn at random, delegated, used and revoked, each answer held against a model of what cap.h says. */
#include "../api/fixture.h"

#define GRANTS 60
#define FIRST 4 /* that the runtime gives */

/* What the model knows of a key. */
struct grant {
    weft_cap cap;
    weft_grant limits;
    int from; /* -1: the runtime's own */
    bool revoked;
    unsigned open; /* channels made with it, or with any made from it */
    weft_chan *chan[4];
};

static struct {
    struct grant grant[GRANTS];
    int count;
    weft_runtime *rt;
    uint64_t random;
    unsigned made, refused, used, full, dead; /* how often what happened */
} all;

static unsigned draw(unsigned below) { return (unsigned)(harness_random(&all.random) >> 24) % below; }

static bool works(int i) {
    for (; i >= 0; i = all.grant[i].from)
        if (all.grant[i].revoked)
            return false;
    return true;
}

static bool same_or_narrower(const weft_grant *part, const weft_grant *whole) {
    if (part->kind != whole->kind || (part->delegable && !whole->delegable))
        return false;
    switch (part->kind) {
    case WEFT_CAP_SPAWN:
        return part->max_tasks <= whole->max_tasks && weft_budget_covers(&whole->task_budget, &part->task_budget);
    case WEFT_CAP_BUDGET:
        return weft_budget_covers(&whole->limits, &part->limits) && part->recharge <= whole->recharge &&
               part->transfer <= whole->transfer;
    case WEFT_CAP_CHANNEL: return part->max_channels <= whole->max_channels && part->max_buffer <= whole->max_buffer;
    default: return (part->allowed & ~whole->allowed) == 0;
    }
}

/* Most often within `whole`, now and then a little beyond it in one thing. */
static weft_grant draw_part(const weft_grant *whole) {
    weft_grant part = *whole;
    bool wider = draw(4) == 0;
    part.delegable = wider ? draw(2) : whole->delegable && draw(4);
    if (draw(20) == 0)
        part.kind = (weft_cap_kind)(1 + draw(4));
    uint32_t *number[] = {&part.max_tasks, &part.max_channels, &part.max_buffer};
    for (unsigned i = 0; i < 3; i++)
        if (draw(3) == 0)
            *number[i] = *number[i] > 4 && draw(2) ? *number[i] / 2 + draw(3) : draw(5);
    uint64_t *ops[] = {&part.task_budget.ops, &part.limits.ops};
    for (unsigned i = 0; i < 2; i++)
        if (draw(3) == 0)
            *ops[i] = *ops[i] > 4 && draw(2) ? *ops[i] / 2 + draw(3) : draw(5);
    if (draw(3) == 0)
        part.task_budget.memory = part.task_budget.memory / 2 + draw(2);
    if (draw(3) == 0)
        part.limits.syscalls = part.limits.syscalls / 2 + draw(2);
    part.recharge = part.recharge && draw(3);
    part.transfer = wider ? draw(2) : part.transfer && draw(3);
    part.allowed = wider ? draw(8) : part.allowed & draw(8);
    return part;
}

static void delegate(int i) {
    struct grant *from = &all.grant[i], *to = &all.grant[all.count];
    weft_grant part = draw_part(&from->limits), read = WEFT_GRANT_INIT;
    weft_cap cap = {1, 2};
    bool may = works(i) && from->limits.delegable && same_or_narrower(&part, &from->limits);
    int error = weft_cap_delegate(all.rt, &from->cap, &part, &cap);
    CHECK_EQ(error, may ? 0 : -EPERM);
    ++*(may ? &all.made : &all.refused);
    if (error) {
        CHECK(cap.id == 1 && cap.secret == 2);
        return;
    }
    *to = (struct grant){.cap = cap, .limits = part, .from = i};
    all.count++;
    REQUIRE_EQ(weft_cap_read(all.rt, &cap, &read), 0);
    CHECK(same_or_narrower(&read, &part) && same_or_narrower(&part, &read));
}

static void take_back(int i) {
    CHECK_EQ(weft_cap_revoke(all.rt, &all.grant[i].cap), works(i) ? 0 : -EPERM);
    all.grant[i].revoked = true;
}

/* A key that is not one: a bit is wrong, or the halves of two. */
static void forge(int i) {
    weft_cap cap = all.grant[i].cap;
    weft_grant read = WEFT_GRANT_INIT;
    int other = (int)draw((unsigned)all.count);
    switch (draw(3)) {
    case 0: cap.id ^= UINT64_C(1) << draw(64); break;
    case 1: cap.secret ^= UINT64_C(1) << draw(64); break;
    default:
        if (other == i)
            return;
        cap.secret = all.grant[other].cap.secret;
    }
    CHECK_EQ(weft_cap_read(all.rt, &cap, &read), -EPERM);
    CHECK_EQ(weft_cap_revoke(all.rt, &cap), -EPERM);
}

static void count_open(int i, int more) {
    for (; i >= 0; i = all.grant[i].from)
        all.grant[i].open += (unsigned)more;
}

static void use(int i) {
    struct grant *grant = &all.grant[i];
    unsigned room = draw(4), buffer = draw(6);
    if (grant->chan[room]) {
        weft_chan_drop(grant->chan[room]);
        grant->chan[room] = NULL;
        count_open(i, -1);
        return;
    }
    bool fits = true;
    for (int at = i; at >= 0; at = all.grant[at].from)
        fits = fits && all.grant[at].open < all.grant[at].limits.max_channels;
    int expected = !works(i) || grant->limits.kind != WEFT_CAP_CHANNEL || buffer > grant->limits.max_buffer ? -EPERM
                   : fits                                                                                   ? 0
                                                                                                            : -EDQUOT;
    CHECK_EQ(weft_chan_create_with(all.rt, &grant->cap, 1, buffer, &grant->chan[room]), expected);
    ++*(expected == 0 ? &all.used : expected == -EDQUOT ? &all.full : &all.dead);
    if (expected)
        CHECK_EQ(grant->chan[room], NULL);
    else
        count_open(i, 1);
}

TEST(random_grants, "J7", .timeout = 60) {
    all.random = harness_seed();
    for (unsigned round = harness_is_slow() ? 20 : 200; round-- > 0;) {
        weft_config config = WEFT_CONFIG_INIT;
        weft_caps caps;
        config.workers = 1;
        config.profile = WEFT_PROFILE_SOVEREIGN;
        config.caps = &caps;
        all.rt = fixture_begin(&config);
        const weft_cap first[FIRST] = {caps.spawn, caps.budget, caps.channel, caps.executor};
        all.count = FIRST;
        for (int i = 0; i < all.count; i++) {
            all.grant[i] = (struct grant){.cap = first[i], .limits = WEFT_GRANT_INIT, .from = -1};
            REQUIRE_EQ(weft_cap_read(all.rt, &first[i], &all.grant[i].limits), 0);
        }
        for (unsigned step = 0; step < 600; step++) {
            int i = (int)draw((unsigned)all.count);
            unsigned what = draw(100);
            if (what < 30 && all.count < GRANTS)
                delegate(i);
            else if (what < 34 && i >= FIRST)
                take_back(i);
            else if (what < 50)
                forge(i);
            else
                use(i);
        }
        for (int i = 0; i < all.count; i++)
            for (int k = 0; k < 4; k++)
                weft_chan_drop(all.grant[i].chan[k]);
        fixture_end(all.rt);
    }
    printf("%u made, %u refused; used %u times, %u full, %u denied\n", all.made, all.refused, all.used, all.full,
           all.dead);
    CHECK(all.made && all.refused && all.used && all.full && all.dead);
}
