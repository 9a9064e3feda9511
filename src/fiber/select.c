/* select.c - waiting for whichever of several things comes first (select.h has the protocol). */
#include "fiber/select.h"

#include "base/random.h"
#include "fiber/slice.h"
#include "task/account.h"

#define FEW 8u            /* cases whose records are small on any stack */
#define PATIENCE 16u      /* collisions before another thread is let go first */
#define SEED_STEP 0x9E37u /* an odd number */

struct select {
    weft_case *cases;
    struct wefti_waiter *waiters;
    unsigned count;
    bool held;                            /* some case has a `hold` */
    const struct wefti_case_sleep *sleep; /* of a plain thread that has descriptors among them, or NULL */
    void *aid;                            /* ... for that */
    uint8_t order[WEFT_SELECT_MAX];       /* in which they are tried */
    struct wefti_choice choice;
};

/* -- Order --------------------------------------------------------------------------------------------------- */

/* Fair whatever set of them is ready: any order with the same chance. */
static void shuffle(struct select *s) {
    static _Atomic uint64_t draws; /* of threads that are no workers */
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_random mine, *random = &mine;
    if (w)
        random = &w->random;
    else
        wefti_random_init(&mine, add_relaxed(&draws, SEED_STEP)); /* a number */
    for (unsigned i = 0; i < s->count; i++) {
        unsigned j = i ? wefti_random_below(random, i + 1) : 0;
        s->order[i] = s->order[j];
        s->order[j] = (uint8_t)i;
    }
}

/* -- Records ------------------------------------------------------------------------------------------------- */

bool wefti_waiters_has_other(struct wefti_waiters *list, const struct wefti_choice *ours, uint32_t *strays) {
    for (struct wefti_waiter *waiter = list->first, *next; waiter; waiter = next) {
        next = waiter->next;
        if (!waiter->choice)
            return true;
        if (waiter->choice == ours)
            continue;
        if (load_relaxed(&waiter->choice->taken) == 0) /* if it is taken meanwhile, who tries will see */
            return true;
        wefti_waiters_remove(list, waiter);
        ++*strays;
    }
    return false;
}

/* Does the case get a record?  Not a time, nor, in a select that does not wait, a descriptor: that is not watched for a look. */
static bool gets_record(const weft_case *c, bool now) { return c->kind && c->kind->begin && (!now || !c->kind->hold); }

/* Put in a record for each case that gets one.  How many cases were dealt with; fewer than all: then one of them could happen now, or has, or *failure
 * says why not. */
static unsigned begin_all(struct select *s, bool now, int *failure) {
    store_relaxed(&s->choice.taken, 0); /* published by the things' locks */
    /* Also when there is no case: it has the park to sleep on. */
    *failure = now ? wefti_waiter_init_now(&s->waiters[0]) : wefti_waiter_init(&s->waiters[0]);
    if (*failure)
        return 0;
    for (unsigned i = 0; i < s->count; i++) {
        struct wefti_waiter *waiter = &s->waiters[i];
        if (i)
            (void)wefti_waiter_init_now(waiter); /* it cannot fail if the first has not */
        waiter->waker = s->waiters[0].waker; /* a thread sleeps in one place only */
        waiter->choice = &s->choice;
        waiter->index = i;
    }
    for (unsigned i = 0; i < s->count; i++) {
        weft_case *c = &s->cases[s->order[i]];
        int in = gets_record(c, now) ? c->kind->begin(c, &s->waiters[s->order[i]]) : 1;
        if (in <= 0) {
            *failure = in;
            return i;
        }
    }
    return s->count;
}

/* Take out the records of the first `count` cases; the choice has been made, or given up.  Then nobody knows of us any more: the index of the case
 * that was served; -EAGAIN: one could have been served after that; -1: none. */
static int end_all(struct select *s, bool now, unsigned count) {
    uint32_t taken = load_relaxed(&s->choice.taken); /* nobody changes it any more */
    bool missed = false;
    for (unsigned i = 0; i < count; i++) {
        unsigned at = s->order[i];
        weft_case *c = &s->cases[at];
        if (gets_record(c, now) && at + 1 != taken && /* that one is out, and its thing may be gone */
            c->kind->end(c, &s->waiters[at]))
            missed = true;
    }
    return taken != WEFTI_GIVEN_UP ? (int)taken - 1 : missed ? -EAGAIN : -1;
}

/* -- The call ------------------------------------------------------------------------------------------------ */

static int try_all(struct select *s) {
    shuffle(s);
    for (unsigned i = 0; i < s->count; i++) {
        weft_case *c = &s->cases[s->order[i]];
        if (c->kind && c->kind->try_now(c))
            return s->order[i];
    }
    return -EAGAIN;
}

static bool fired(struct select *s, int index) {
    return s->cases[index].kind->served(&s->cases[index], &s->waiters[index]);
}

static int wait_any(struct select *s, int64_t until) {
    return s->sleep ? s->sleep->sleep(s->aid, &s->waiters[0].park, s->cases, s->count, until)
                    : wefti_waiter_wait_any(s->waiters, &s->choice, until, "a select");
}

#define LOOK (-2)

/* The first time that one of the cases waits for, and which, drawn if there are several; LOOK: then one of them may be able to happen; -1: none up to
 * `until`. */
static int64_t earliest(const struct select *s, int64_t until, int *index) {
    *index = -1;
    for (unsigned i = 0; i < s->count; i++) {
        const weft_case *c = &s->cases[s->order[i]];
        if (WEFTI_LIKELY(!c->kind || (c->kind->begin && !c->kind->when)))
            continue;
        int64_t at = c->kind->when ? c->kind->when(c) : c->at;
        if (at < until || (at == until && !c->kind->when)) {
            until = at;
            *index = c->kind->when ? LOOK : s->order[i];
        }
    }
    return until;
}

/* None could happen when it was tried.  Are there several that can change independently, so that it takes records to know that of one moment?  Time
 * only goes on. */
static bool changes_meanwhile(const struct select *s) {
    unsigned records = 0, descriptors = 0;
    for (unsigned i = 0; i < s->count; i++) {
        const struct weft_case_kind *kind = s->cases[i].kind;
        if (kind && kind->begin)
            ++*(kind->hold ? &descriptors : &records);
    }
    return records && records + descriptors > 1 && !wefti_is_forked(); /* a forked child is alone */
}

/* All records are in.  Descriptors have none: -EAGAIN if one of them is ready now. */
static int look_at_descriptors(struct select *s) {
    for (unsigned i = 0; i < s->count; i++) {
        weft_case *c = &s->cases[i];
        if (c->kind && c->kind->begin && c->kind->hold && c->kind->try_now(c))
            return -EAGAIN;
    }
    return -ETIMEDOUT;
}

static int select_in(struct select *s, weft_deadline until) {
    bool now = until <= 0;
    for (unsigned turn = 1;; turn++) {
        int index = try_all(s), timer = -1, why = 0;
        if (index >= 0)
            return index;
        if (now && !changes_meanwhile(s))
            return -ETIMEDOUT;
        int64_t first = now ? 0 : earliest(s, until, &timer);
        unsigned begun = begin_all(s, now, &why);
        if (!why)
            why = begun < s->count ? -EAGAIN : now ? look_at_descriptors(s) : wait_any(s, first);
        if (why)
            wefti_choice_give_up(&s->choice, s->waiters); /* or it is served after all */
        index = end_all(s, now, begun);
        if (index == -EAGAIN && (why == -ETIMEDOUT || why == -ECANCELED))
            why = -EAGAIN;
        if (index >= 0) {
            if (fired(s, index))
                return index;
            continue;
        }
        if (why == -ETIMEDOUT && timer >= 0) {
            s->cases[timer].result = 0;
            return timer;
        }
        if (why == -ETIMEDOUT && timer == LOOK)
            continue;
        if (why != -EAGAIN)
            return why;
        if (s->sleep && !now)
            continue; /* it has slept */
        if (turn % PATIENCE == 0) /* another select is at it, and gets in our way as we in its */
            wefti_thread_yield();
        else
            wefti_relax();
    }
}

/* Apart, for their stack frames. */
static __attribute__((noinline)) int select_few(struct select *s, weft_deadline until) {
    struct wefti_waiter waiters[FEW];
    s->waiters = waiters;
    return select_in(s, until);
}
static __attribute__((noinline)) int select_many(struct select *s, weft_deadline until) {
    struct wefti_waiter waiters[WEFT_SELECT_MAX];
    s->waiters = waiters;
    return select_in(s, until);
}

/* Things that must not go meanwhile, and a thread that must be told of descriptors. */
static void hold_all(struct select *s) {
    for (unsigned i = 0; i < s->count; i++) {
        weft_case *c = &s->cases[i];
        if (WEFTI_LIKELY(!c->kind || !c->kind->hold))
            continue;
        c->kind->hold(c);
        s->held = true;
        if (c->kind->sleep && !s->sleep && !wefti_fiber_self()) {
            s->sleep = c->kind->sleep;
            s->aid = s->sleep->begin();
        }
    }
}

static void drop_all(struct select *s) {
    for (unsigned i = 0; i < s->count; i++)
        if (s->cases[i].kind && s->cases[i].kind->drop)
            s->cases[i].kind->drop(&s->cases[i]);
    if (s->sleep)
        s->sleep->end(s->aid);
}

int weft_select(weft_case *cases, size_t count, weft_deadline until) {
    if (count > WEFT_SELECT_MAX || (count && !cases))
        return -EINVAL;
    wefti_slice_use(until);
    int error = wefti_charge_channel_call(until);
    if (WEFTI_UNLIKELY(error != 0))
        return error;
    struct select s;
    s.cases = cases;
    s.count = (unsigned)count;
    s.held = false;
    s.sleep = NULL;
    hold_all(&s);
    int index = count <= FEW ? select_few(&s, until) : select_many(&s, until);
    if (s.held)
        drop_all(&s);
    return index;
}

/* -- Time ---------------------------------------------------------------------------------------------------- */

static bool try_at(weft_case *c) {
    c->result = 0;
    return c->at <= 0 || (c->at != WEFT_NEVER && c->at <= weft_now());
}

/* No `begin`: the select itself wakes up for it. */
static const struct weft_case_kind at_kind = {.what = "a timer", .try_now = try_at};

weft_case weft_case_at(weft_deadline at) { return (weft_case){.kind = &at_kind, .at = at}; }

/* -- Nothing ------------------------------------------------------------------------------------------------- */

static bool try_nothing(weft_case *c) {
    c->result = -EINVAL;
    return true;
}

const struct weft_case_kind wefti_no_case = {.what = "nothing", .try_now = try_nothing};
