/* budget.c - arithmetic of budgets: whole or not at all, and never round. */
#include "budget/budget.h"

bool weft_budget_covers(const weft_budget *have, const weft_budget *cost) {
    return have && cost && have->ops >= cost->ops && have->memory >= cost->memory && have->spawns >= cost->spawns &&
           have->channel_ops >= cost->channel_ops && have->syscalls >= cost->syscalls;
}

bool weft_budget_take(weft_budget *from, const weft_budget *cost) {
    if (!weft_budget_covers(from, cost))
        return false;
    from->ops -= cost->ops;
    from->memory -= cost->memory;
    from->spawns -= cost->spawns;
    from->channel_ops -= cost->channel_ops;
    from->syscalls -= cost->syscalls;
    return true;
}

void weft_budget_add(weft_budget *to, const weft_budget *more) {
    if (!to || !more)
        return;
    weft_budget fits = wefti_budget_fitting(to, more);
    to->ops += fits.ops;
    to->memory += fits.memory;
    to->spawns += fits.spawns;
    to->channel_ops += fits.channel_ops;
    to->syscalls += fits.syscalls;
}

#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))

weft_budget wefti_budget_least(const weft_budget *a, const weft_budget *b) {
    return (weft_budget){LEAST(a->ops, b->ops), LEAST(a->memory, b->memory), LEAST(a->spawns, b->spawns),
                         LEAST(a->channel_ops, b->channel_ops), LEAST(a->syscalls, b->syscalls)};
}

weft_budget wefti_budget_most(const weft_budget *a, const weft_budget *b) {
    return (weft_budget){MOST(a->ops, b->ops), MOST(a->memory, b->memory), MOST(a->spawns, b->spawns),
                         MOST(a->channel_ops, b->channel_ops), MOST(a->syscalls, b->syscalls)};
}

weft_budget wefti_budget_fitting(const weft_budget *to, const weft_budget *more) {
    weft_budget room = {UINT64_MAX - to->ops, UINT64_MAX - to->memory, UINT64_MAX - to->spawns,
                        UINT64_MAX - to->channel_ops, UINT64_MAX - to->syscalls};
    return wefti_budget_least(&room, more);
}
