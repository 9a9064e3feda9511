/* late.c - a name whose addresses of one kind are known before those of the other (RFC 8305, 3).
 *
 * What.   The system is asked for both kinds at once, and orders them.  Mostly it answers soon, and that is all.  When it does not within 50 ms, one of the
 *         two may be what it waits for: then each kind is asked for by itself as well.  Addresses of IPv6 are used at once, those of IPv4
 *         when IPv6 has had another 50 ms; whatever comes later joins the race.
 * Who.    A job of the names' pool a question; those for one kind have a pool of their own, so that a name which nobody answers for takes one thread of
 *         the many that all share, and not three.  It cannot be stopped, and may outlive who asks: what it fills in lies in memory that the last who
 *         knows it frees.  A runtime with a resolver of its own asks that, for both kinds at once.
 * Words.  answer.result: 0 until it is there, then how many addresses, or a negative error; the addresses before it.  changed: set after it.
 * Checked by.  test/model/dns_late.c, test/api/dns_late.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/blocking.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "budget/cap.h"
#include "dns/late.h"
#include "plat/plat.h"
#include "task/account.h"

#define PATIENCE INT64_C(50000000) /* ns: for all, and then for IPv6 ("Resolution Delay") */

static const int family_of_kind[WEFTI_KINDS] = {AF_UNSPEC, AF_INET6, AF_INET};

static void unref(struct wefti_late_names *names) {
    if (sub_acq_rel(&names->refs, 1) > 1) /* the last one sees all that the others did */
        return;
    weft_event_destroy(&names->changed);
    wefti_free(names, sizeof *names);
}

static void settle(struct wefti_question *question, int result) {
    struct wefti_late_names *names = question->names;
    store_release(&names->answer[question->kind].result, result); /* pairs with wefti_late_result */
    weft_event_set(&names->changed);
}

static int ask(void *arg) {
    struct wefti_question *question = arg;
    struct wefti_late_names *names = question->names;
    /* It may have waited long for a thread, behind names that nobody answers for: then it must not make others wait in vain. */
    if (load_relaxed(&names->unwanted)) /* a hint */
        return 0;
    settle(question, wefti_lookup(names->name, names->service, family_of_kind[question->kind],
                                  names->answer[question->kind].addrs));
    return 0;
}

/* It has ended, or never begun. */
static void drop(void *arg) {
    struct wefti_question *question = arg;
    if (!wefti_late_result(question->names, question->kind))
        settle(question, -ECANCELED);
    unref(question->names);
}

static int begin(struct wefti_late_names *names, int kind) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    names->question[kind] = (struct wefti_question){names, kind};
    spec.cap = &wefti_cap_library;
    spec.fn = ask;
    spec.arg = &names->question[kind];
    spec.drop = drop;
    spec.name = "look up a name";
    spec.pool = wefti_names_pool(kind != WEFTI_ALL);
    int error = spec.pool ? wefti_charge_syscall_call() : -ENOMEM;
    if (!error) {
        add_relaxed(&names->refs, 1); /* from ours */
        names->asked[kind] = true;
        error = weft_blocking_start(NULL, &spec);
        if (error)
            unref(names);
    }
    if (error)
        store_relaxed(&names->answer[kind].result, error); /* nobody else knows of it */
    return error;
}

int wefti_late_result(const struct wefti_late_names *names, int kind) {
    return load_acquire(&((struct wefti_late_names *)(uintptr_t)names)->answer[kind].result); /* pairs with ask */
}

/* Until something has changed.  0; -ETIMEDOUT: not until then; -ECANCELED. */
static int wait_change(struct wefti_late_names *names, int64_t until) {
    int error = weft_event_wait(&names->changed, until);
    if (!error)
        weft_event_clear(&names->changed); /* before the answers are looked at */
    return error;
}

/* Is there anything to begin with?  *enough: nothing better can come.  0: not yet; or how it is: 1, or a negative error. */
static int look(const struct wefti_late_names *names, bool *enough) {
    int all = wefti_late_result(names, WEFTI_ALL), six = wefti_late_result(names, WEFTI_SIX),
        four = wefti_late_result(names, WEFTI_FOUR);
    *enough = all > 0 || six > 0 || (four > 0 && six < 0);
    if (all > 0 || six > 0 || four > 0)
        return 1;
    if (all < 0 && all != -EAGAIN && all != -EIO) /* it knows, and is sure */
        return all;
    return all < 0 && six < 0 && four < 0 ? all : 0;
}

int wefti_late_find(struct wefti_late_names *names) {
    int64_t until = names->until, patient = weft_after(PATIENCE);
    int error = begin(names, WEFTI_ALL);
    bool enough = false;
    if (!error)
        error = wait_change(names, patient < until ? patient : until);
    if (error == 0)
        return wefti_late_result(names, WEFTI_ALL); /* the usual case */
    if (error != -ETIMEDOUT || patient >= until)
        return error;
    (void)!begin(names, WEFTI_SIX); /* a question that nobody can ask has failed */
    (void)!begin(names, WEFTI_FOUR);
    patient = INT64_MAX;
    for (;;) {
        int found = look(names, &enough);
        if (found < 0 || enough)
            return found;
        if (found && patient == INT64_MAX)
            patient = weft_after(PATIENCE);
        error = wait_change(names, patient < until ? patient : until);
        if (error == -ETIMEDOUT && found)
            return found;
        if (error)
            return error;
    }
}

bool wefti_late_is_open(const struct wefti_late_names *names) {
    for (int kind = 0; kind < WEFTI_KINDS; kind++)
        if (names->asked[kind] && !wefti_late_result(names, kind))
            return true;
    return false;
}

struct wefti_late_names *wefti_late_new(const char *name, const char *service, int64_t until) {
    if (strlen(name) >= WEFTI_NAME_MAX)
        return NULL;
    struct wefti_late_names *names = wefti_alloc(sizeof *names);
    if (!names)
        return NULL;
    store_relaxed(&names->refs, 1); /* nobody else knows it */
    snprintf(names->name, sizeof names->name, "%s", name);
    snprintf(names->service, sizeof names->service, "%s", service);
    names->until = until;
    weft_event_init(&names->changed);
    return names;
}

void wefti_late_end(struct wefti_late_names *names) {
    store_relaxed(&names->unwanted, true); /* a hint */
    unref(names);
}
