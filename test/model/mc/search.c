/* search.c - which executions: a stack of choices that is replayed and advanced, or drawn at random.
 *
 * What.   Everything that is not determined by the test (who runs next, which message a load returns, who is
 *         woken, mc_choose) is a choice c of n.  An execution is its list of choices.  Depth-first search
 *         replays the list, with the last choice that has alternatives advanced; choice 0 is the usual one (go on
 *         with the same thread, read the newest value).
 * Modes.  Bounded search runs with 0, 1, ... `bound` preemptions, so that a bug shows with as few as it needs.
 *         Sleep sets leave out executions that differ only in the order of independent operations; they are
 *         not sound together with a bound, and have none.  PCT and the random walk draw from a seed.
 * Replay. Lists of choices are printed as mode:choices, runs of zeros as zN.  Any mode's list replays.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search.h"

struct mc_limits mc_limits;

/* CPU time: on a busy machine a search goes as far as on an idle one. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t mc_draw(void) {
    uint64_t x = mc.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    mc.random = x;
    return x * 0x2545F4914F6CDD1Du >> 11;
}

bool mc_is_random(void) { return mc.mode >= MC_PCT && !mc.replaying; }

static void changed(int n) {
    mc_fail_at(
        mc_me()->op.pc, 0,
        "not deterministic: choice %d had %d options, now %d (does the test keep state that the checker does not "
        "see, or was it changed since?)",
        mc.list->position, mc.list->c[mc.list->position].n, n);
}

int mc_pick(int n, int hint) {
    if (n <= 1)
        return 0;
    struct mc_choice *c = &mc.list->c[mc.list->position];
    if (mc.list->position < mc.list->length) {
        if (c->n == 0 || (c->n == 1 && mc.replaying))
            c->n = (uint8_t)n;
        if (mc.lenient)
            *c = (struct mc_choice){(uint8_t)n, c->c < n ? c->c : 0};
        if (c->n != n || c->c >= n)
            changed(n);
        mc.list->position++;
        return c->c;
    }
    if (n > UINT8_MAX)
        mc_fail_at(mc_me()->op.pc, 0, "a choice of %d; 255 is the most", n);
    if (mc.list->position == MC_CHOICES)
        mc_fail_at(mc_me()->op.pc, 0, "more than %d choices in one execution", MC_CHOICES);
    int pick = !mc_is_random() ? 0 : hint >= 0 ? hint : (int)(mc_draw() % (uint64_t)n);
    *c = (struct mc_choice){(uint8_t)n, (uint8_t)pick};
    mc.list->length++;
    mc.list->position++;
    return pick;
}

/* Kept in the list, so that it replays without knowledge of what is shared. */
void mc_pick_none(void) {
    if (mc.list->position == MC_CHOICES)
        mc_fail_at(mc_me()->op.pc, 0, "more than %d choices in one execution", MC_CHOICES);
    if (mc.list->position == mc.list->length)
        mc.list->c[mc.list->length++] = (struct mc_choice){1, 0};
    else if (mc.list->c[mc.list->position].n != 1)
        changed(1);
    mc.list->position++;
}

/* -- The choice string ------------------------------------------------------------------------------- */
int mc_choices_print(char *text, size_t size) {
    size_t n = 0;
    const char *sep = "";
    int length = mc.list->length, zeros = 0;
    switch (mc.mode) {
    case MC_BOUNDED: n += (size_t)snprintf(text, size, "%c%d:", mc.stale_counts ? 'c' : 'b', mc.bound); break;
    case MC_SLEEP_SETS: n += (size_t)snprintf(text, size, "s:"); break;
    default: n += (size_t)snprintf(text, size, "f:"); break;
    }
    for (int i = 0; i < length && n + 32 < size; i++) {
        if (mc.list->c[i].c == 0) {
            zeros++;
            continue;
        }
        if (zeros)
            n += (size_t)snprintf(text + n, size - n, "%sz%d", sep, zeros), sep = ".";
        n += (size_t)snprintf(text + n, size - n, "%s%d", sep, mc.list->c[i].c);
        sep = ".";
        zeros = 0;
    }
    return (int)n;
}

bool mc_choices_parse(const char *text) {
    char *end;
    if (*text == 'b' || *text == 'c') {
        mc.mode = MC_BOUNDED;
        mc.stale_counts = *text == 'c';
        mc.bound = (int)strtol(text + 1, &end, 10);
    } else if (*text == 's' || *text == 'f') {
        mc.mode = *text == 's' ? MC_SLEEP_SETS : MC_PCT;
        end = (char *)(uintptr_t)(text + 1);
    } else {
        return false;
    }
    if (*end++ != ':')
        return false;
    int n = 0;
    while (*end) {
        bool zeros = *end == 'z';
        long v = strtol(end + zeros, &end, 10);
        long many = zeros ? v : 1;
        if (many < 0 || n + many >= MC_CHOICES || (!zeros && (v < 0 || v > UINT8_MAX)))
            return false;
        while (many-- > 0)
            mc.list->c[n++] = (struct mc_choice){0, zeros ? 0 : (uint8_t)v};
        if (*end == '.')
            end++;
        else if (*end)
            return false;
    }
    mc.list->length = n;
    return true;
}

/* -- Search ------------------------------------------------------------------------------------------ */
static double started;
static uint64_t allowed; /* executions in this phase */

static bool over_limit(void) {
    uint64_t done = mc.executions + mc.pruned;
    return done >= allowed || (mc_limits.seconds > 0 && done % 16 == 0 && now() - started >= mc_limits.seconds);
}

/* Run once; true if the search shall go on. */
static bool run_once(void) {
    mc_execute();
    if (mc.out_of_sleep)
        mc.pruned++;
    else
        mc.executions++;
    return !mc.fault.found;
}

/* Go to the next list of choices; false when all were seen. */
static bool advance(void) {
    int n = mc.list->position < mc.list->length ? mc.list->position : mc.list->length;
    while (n > 0 && mc.list->c[n - 1].c + 1 >= mc.list->c[n - 1].n)
        n--;
    mc.list->length = n;
    if (n == 0)
        return false;
    mc.list->c[n - 1].c++;
    return true;
}

/* Depth first; true if it came to its end. */
static bool search_all(void) {
    mc.list->length = 0;
    mc.bound_hit = false;
    for (;;) {
        if (over_limit() || !run_once())
            return false;
        if (mc_shared_grow())
            mc.list->length = 0; /* a switch is possible in more places: begin again */
        else if (!advance())
            return true;
    }
}

static void search_random(enum mc_mode mode, uint64_t count) {
    mc.mode = mode;
    mc.stale_counts = false;
    for (uint64_t i = 0; i < count && !over_limit(); i++) {
        mc.list->length = 0;
        mc.random = (mc_limits.seed + 1) * 0x9E3779B97F4A7C15u + i * 0xD1B54A32D192ED03u;
        mc.random += mc.random == 0;
        for (int k = 0; k < 4; k++)
            mc_draw();
        for (int k = 0; k < mc.depth - 1 && k < 15; k++)
            mc.change_points[k] = 1 + (int)(mc_draw() % (uint64_t)(mc.longest + 1));
        if (!run_once())
            return;
    }
}

/* With 0, 1, ... `bound` preemptions, first counting each load of an old value as one, then with all of them. */
static void search_bounded(struct mc_result *r) {
    int bound = mc.bound, counted = -1;
    bool all_stale = !mc_limits.stale_counts;
    mc.stale_counts = bound >= 0;
    for (mc.bound = 0; mc.stale_counts && mc.bound <= bound; mc.bound++) {
        if (!(r->complete = search_all()))
            break;
        counted = mc.bound;
        if (!mc.bound_hit) {
            r->unbounded = true;
            snprintf(r->mode, sizeof r->mode, "all");
            return;
        }
    }
    if (counted == bound)
        mc.bound = bound;
    snprintf(r->mode, sizeof r->mode, "bound %d counting stale reads", mc.bound);
    if (mc.fault.found || !all_stale || counted < bound)
        return;
    mc.stale_counts = false;
    r->complete = search_all();
    if (bound < 0)
        snprintf(r->mode, sizeof r->mode, "all");
    else
        snprintf(r->mode, sizeof r->mode, "bound %d%s", bound,
                 r->complete || mc.fault.found ? "" : " (done: counting stale reads)");
}

struct mc_result mc_search(void) {
    struct mc_result r = {.complete = false};
    double began = started = now();
    mc.executions = mc.pruned = mc.total_steps = 0;
    mc.fault.found = false;
    mc.longest = 32;
    allowed = mc_limits.max_exec ? mc_limits.max_exec : UINT64_MAX;
    if (mc.replaying) {
        run_once();
        snprintf(r.mode, sizeof r.mode, "replay");
    } else if (mc.mode == MC_BOUNDED) {
        search_bounded(&r);
    } else if (mc.mode == MC_SLEEP_SETS) {
        r.complete = r.unbounded = search_all();
        snprintf(r.mode, sizeof r.mode, "sleep sets");
    } else {
        search_random(mc.mode, mc_limits.execs);
        if (mc.mode == MC_PCT)
            snprintf(r.mode, sizeof r.mode, "pct %d seed %llu", mc.depth, (unsigned long long)mc_limits.seed);
        else
            snprintf(r.mode, sizeof r.mode, "random seed %llu", (unsigned long long)mc_limits.seed);
        r.random = true;
    }
    if (!mc.fault.found && !r.complete && !r.random && !mc.replaying && mc_limits.then_pct) {
        size_t n = strlen(r.mode);
        snprintf(r.mode + n, sizeof r.mode - n, ", then pct %d", mc.depth);
        allowed = UINT64_MAX;
        started = now();
        search_random(MC_PCT, mc_limits.then_pct);
    }
    r.executions = mc.executions;
    r.pruned = mc.pruned;
    r.steps = mc.total_steps;
    r.seconds = now() - began;
    return r;
}
