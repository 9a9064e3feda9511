/* policy.c - who is started again, when, and when to give up (policy.h). */
#include "supervise/policy.h"

#include "sched/spawn.h"

#define SECOND INT64_C(1000000000)

static void report(struct wefti_sup *sup, size_t at, weft_supervised what, int status) {
    if (sup->config.report)
        sup->config.report(sup->config.report_arg, sup->told_as ? sup->told_as[at] : at, what, status);
}

static void tell_begin(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    if (!child->told && sup->kind->has_begun(sup, at)) {
        child->told = true;
        report(sup, at, WEFT_SUPERVISED_STARTED, 0);
    }
}

static bool reap(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    if (child->state != WEFTI_SUP_UP || !sup->kind->reap(sup, at, &child->status))
        return false;
    child->state = WEFTI_SUP_DOWN;
    child->lacks = NULL;
    tell_begin(sup, at); /* after all, if the supervisor did not wait for that: it was to end */
    const char *lacks = sup->kind->exhausted ? sup->kind->exhausted(sup, at) : NULL;
    if (lacks) { /* others have recharged it, and it has ended since */
        report(sup, at, WEFT_SUPERVISED_EXHAUSTED, 0);
        if (!sup->config.report && sup->config.on_exhausted == WEFT_EXHAUSTED_REPORT)
            sup->kind->complain(sup, at, lacks, "waits to be recharged");
    }
    if (child->told)
        report(sup, at, WEFT_SUPERVISED_ENDED, child->status);
    return true;
}

/* A child that ends before its function was entered has not been started: its status is the error. */
static int start(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    child->began = weft_now();
    child->told = false;
    int error = sup->kind->goes_on(sup) ? sup->kind->start(sup, at) : -ECANCELED;
    child->state = error ? WEFTI_SUP_DOWN : WEFTI_SUP_UP;
    if (error)
        return error;
    sup->kind->see_begin(sup, at);
    tell_begin(sup, at);
    return !child->told && reap(sup, at) && !child->told ? child->status : 0;
}

/* -- Ending them --------------------------------------------------------------------------------------------- */

static void ask(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    child->end_by = child->shutdown ? weft_after(child->shutdown) : WEFT_NOW;
    if (child->shutdown && sup->kind->ask(sup, at, child->end_by))
        child->end_by = WEFT_NOW;
}

/* The child has been asked.  Returns false if it did not end in its time, or has used all of it: it and the supervisor wake at the same moment. */
static bool await(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    bool in_time = child->end_by != WEFT_NOW && !sup->kind->await(sup, at, child->end_by);
    if (!in_time)
        sup->kind->force(sup, at);
    bool ended = reap(sup, at);
    wefti_assert(ended, at);
    return (in_time && weft_now() < child->end_by) || !child->shutdown;
}

/* Those from `first` on, newest first (policy.h, Order). */
static void end_from(struct wefti_sup *sup, size_t first) {
    bool in_order = true;
    for (size_t i = sup->count; i-- > first;) {
        if (sup->children[i].state == WEFTI_SUP_UP) {
            if (in_order)
                ask(sup, i);
            bool in_time = await(sup, i);
            for (size_t j = i; in_order && !in_time && j-- > first;)
                if (sup->children[j].state == WEFTI_SUP_UP)
                    ask(sup, j);
            in_order = in_order && in_time;
        }
        sup->children[i].state = WEFTI_SUP_DOWN;
    }
}

/* -- Starting them again --------------------------------------------------------------------------------------- */

/* One more restart now: is that too many? */
static bool too_often(struct wefti_sup *sup, int64_t now) {
    const weft_supervisor_config *config = &sup->config;
    if (config->intensity == 0 || config->intensity == WEFT_INTENSITY_NONE)
        return config->intensity != 0;
    int64_t *oldest = &sup->restarts[sup->restarted % config->intensity];
    if (sup->restarted >= config->intensity && now - *oldest < config->period)
        return true;
    *oldest = now;
    sup->restarted++;
    return false;
}

/* How long to wait before it is started again. */
static int64_t pause(struct wefti_sup *sup, struct wefti_sup_child *child, int64_t now) {
    const weft_supervisor_config *config = &sup->config;
    if (config->backoff_min < 0)
        return 0;
    if (now - child->began >= config->stable)
        child->pause = 0;
    double next = child->pause ? (double)child->pause * config->backoff_factor : (double)config->backoff_min;
    child->pause = next < (double)config->backoff_max ? (int64_t)next : config->backoff_max;
    if (config->backoff_jitter < 0)
        return child->pause;
    double random = (double)wefti_random_below(&wefti_worker_here()->random, 1u << 20) / (double)(1u << 19) - 1.0;
    return child->pause + (int64_t)((double)child->pause * config->backoff_jitter * random);
}

/* The child has ended.  0; or it gives up, with this. */
static int handle(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    if (!sup->kind->goes_on(sup))
        return -ECANCELED; /* and it was for that */
    bool failed = child->status < 0 && child->status != -ECANCELED;
    if (child->restart == WEFT_RESTART_TEMPORARY || (child->restart == WEFT_RESTART_TRANSIENT && !failed))
        return 0;
    int64_t now = weft_now();
    if (too_often(sup, now)) {
        report(sup, at, WEFT_SUPERVISED_GAVE_UP, child->status);
        return failed ? child->status : -ELOOP;
    }
    int64_t due = now + pause(sup, child, now);
    size_t first = at, last = at;
    if (sup->config.strategy != WEFT_STRATEGY_ONE_FOR_ONE) {
        first = sup->config.strategy == WEFT_STRATEGY_ONE_FOR_ALL ? 0 : at;
        last = sup->count - 1;
        end_from(sup, first);
    }
    for (size_t i = first; i <= last; i++)
        if (sup->children[i].restart != WEFT_RESTART_TEMPORARY) {
            sup->children[i].state = WEFTI_SUP_WAITING;
            sup->children[i].due = due;
        }
    return 0;
}

/* -- Exhausted children -------------------------------------------------------------------------------------- */

static void refuse(struct wefti_sup *sup, size_t at, const char *lacks, int why) {
    report(sup, at, WEFT_SUPERVISED_REFUSED, why);
    if (!sup->config.report)
        sup->kind->complain(sup, at, lacks, why == -EDQUOT ? "is refused: its fund has too little" : "is refused");
    sup->kind->refuse(sup, at);
}

/* Now, or as soon as its period is over. */
static void recharge(struct wefti_sup *sup, size_t at, const char *lacks) {
    struct wefti_sup_child *child = &sup->children[at];
    int64_t now = weft_now();
    child->lacks = now < child->recharge_at ? lacks : NULL;
    if (child->lacks)
        return;
    int error = sup->kind->recharge(sup, at);
    if (error == 0) {
        child->recharge_at = now + sup->config.recharge_period;
        report(sup, at, WEFT_SUPERVISED_RECHARGED, 0);
    } else if (error != -ENOENT) {
        refuse(sup, at, lacks, error);
    }
}

static void see_to_budget(struct wefti_sup *sup, size_t at) {
    struct wefti_sup_child *child = &sup->children[at];
    const char *lacks = child->state == WEFTI_SUP_UP && sup->kind->exhausted ? sup->kind->exhausted(sup, at) : NULL;
    if (lacks) {
        report(sup, at, WEFT_SUPERVISED_EXHAUSTED, 0);
        switch (sup->config.on_exhausted) {
        case WEFT_EXHAUSTED_RECHARGE: recharge(sup, at, lacks); break;
        case WEFT_EXHAUSTED_REFUSE: refuse(sup, at, lacks, 0); break;
        case WEFT_EXHAUSTED_REPORT:
            if (!sup->config.report)
                sup->kind->complain(sup, at, lacks, "waits to be recharged");
        }
    } else if (child->lacks) {
        recharge(sup, at, child->lacks);
    }
}

/* -- The loop ----------------------------------------------------------------------------------------------------- */

/* Starts the children that are due, in order.  Under a strategy by which children rely on those before them, none is started while one before it is
 * still to be.  *next: when to come back; *left: something runs, or will.  0; or it gives up. */
static int start_due(struct wefti_sup *sup, int64_t *next, bool *left) {
    bool one_for_one = sup->config.strategy == WEFT_STRATEGY_ONE_FOR_ONE, held = false;
    *next = WEFT_NEVER;
    *left = false;
    for (size_t i = 0; i < sup->count; i++) {
        struct wefti_sup_child *child = &sup->children[i];
        if (child->state == WEFTI_SUP_WAITING && !held && child->due <= weft_now()) {
            int error = start(sup, i);
            if (error) { /* as if it had begun and failed */
                child->status = error;
                if ((error = handle(sup, i)))
                    return error;
                weft_yield(); /* without a pause it fails at once, and might again */
            }
        }
        *left |= child->state != WEFTI_SUP_DOWN;
        if (child->state == WEFTI_SUP_WAITING && !held && child->due < *next)
            *next = child->due;
        held = held || (!one_for_one && child->state == WEFTI_SUP_WAITING);
        if (child->lacks && child->recharge_at < *next)
            *next = child->recharge_at;
    }
    return 0;
}

int wefti_sup_run(struct wefti_sup *sup) {
    int error = 0;
    for (size_t i = 0; i < sup->count && !error; i++)
        error = start(sup, i);
    for (int64_t next; !error;) {
        bool left;
        for (size_t i = 0; i < sup->count && !error; i++)
            if (reap(sup, i))
                error = handle(sup, i);
            else
                see_to_budget(sup, i);
        if (error || (error = start_due(sup, &next, &left)) || !left)
            break;
        /* It may have heard that it is to end while it waited for one child. */
        if (!sup->kind->goes_on(sup) || sup->kind->wait(sup, next) == -ECANCELED)
            error = -ECANCELED;
    }
    end_from(sup, 0);
    return error;
}

int wefti_sup_config(const weft_supervisor_config *given, weft_supervisor_config *config) {
    *config = (weft_supervisor_config)WEFT_SUPERVISOR_CONFIG_INIT;
    int error =
        given ? wefti_known_struct(given, offsetof(weft_supervisor_config, strategy), config, sizeof *config) : 0;
    if (error)
        return error;
    if ((unsigned)config->strategy > WEFT_STRATEGY_REST_FOR_ONE || config->period < 0 || config->backoff_max < 0 ||
        !(config->backoff_factor == 0 || config->backoff_factor >= 1) ||
        !(config->backoff_jitter <= 1) || /* also: not a number */
        config->stable < 0 || (config->backoff_max && config->backoff_min > config->backoff_max) ||
        (unsigned)config->on_exhausted > WEFT_EXHAUSTED_REFUSE || config->recharge_period < 0)
        return -EINVAL;
    if (weft_budget_covers(&(weft_budget){0}, &config->recharge)) /* all 0 */
        config->recharge = (weft_budget)WEFT_BUDGET_CHILD;
    if (config->recharge_period > INT64_MAX / 4)
        config->recharge_period = INT64_MAX / 4; /* with the time of day, it is still a time */
    config->period = config->period ? config->period : 5 * SECOND;
    config->backoff_min = config->backoff_min ? config->backoff_min : SECOND;
    int64_t max = config->backoff_max                 ? config->backoff_max
                  : config->backoff_min > 90 * SECOND ? config->backoff_min
                                                      : 90 * SECOND;
    config->backoff_max =
        max < INT64_MAX / 4 ? max : INT64_MAX / 4; /* with a jitter, and the time of day, it is still a time */
    config->backoff_factor = config->backoff_factor > 0 ? config->backoff_factor : 2;
    config->backoff_jitter = config->backoff_jitter > 0 || config->backoff_jitter < 0 ? config->backoff_jitter : 0.1;
    config->stable = config->stable ? config->stable : 5 * SECOND;
    config->grace = config->grace < 0 ? 0 : config->grace ? config->grace : 10 * SECOND;
    return 0;
}
