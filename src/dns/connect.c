/* connect.c - connecting to the first of several addresses that answers (RFC 8305).
 *
 * One fiber, or thread, with a select over all attempts that are under way: no fiber an attempt, and nothing to clean up but sockets. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/select.h>
#include <weft/time.h>

#include "dns/dns.h"
#include "dns/late.h"
#include "fiber/slice.h"
#include "io/desc.h"
#include "plat/plat.h"

#define QUEUE_MAX 48 /* of three answers */
#define STAGGER INT64_C(250000000) /* ns, between two attempts */

static int family_of(const weft_addr *addr) {
    const struct sockaddr *any = (const struct sockaddr *)(uintptr_t)addr->storage;
    return any->sa_family;
}

void wefti_addrs_interleave(const weft_addr *addrs, size_t count, weft_addr *out) {
    size_t next[2] = {0, 0}, done = 0; /* of the first one's family, and of the others */
    int first = count ? family_of(&addrs[0]) : 0;
    for (int turn = 0; done < count; turn = !turn) {
        size_t *at = &next[turn];
        while (*at < count && (family_of(&addrs[*at]) == first) == turn)
            ++*at;
        if (*at < count)
            out[done++] = addrs[(*at)++];
    }
}

/* Attempts that are under way. */
struct race {
    const weft_addr *addrs[QUEUE_MAX];
    weft_case cases[QUEUE_MAX + 1];
    unsigned count;
    int error; /* the first */
};

static weft_io *io_of(const struct race *race, unsigned index) { return race->cases[index].thing; }

static void failed(struct race *race, int error) {
    if (!race->error)
        race->error = error;
}

/* One more.  0: *out is connected already; -EINPROGRESS; a negative error. */
static int start(struct race *race, const weft_addr *addr, weft_io **out, weft_deadline until) {
    weft_io *io;
    int error = wefti_connect_begin(addr, &io, until);
    if (error == -EINPROGRESS) {
        race->addrs[race->count] = addr;
        race->cases[race->count++] = weft_case_io(io, WEFT_FD_WRITE);
    } else if (error) {
        failed(race, error);
    } else {
        *out = io;
    }
    return error;
}

/* One of them is ready: how did it go?  True: *out is connected. */
static bool look(struct race *race, unsigned index, weft_io **out) {
    weft_io *io = io_of(race, index);
    int error = wefti_connect_end(io, race->addrs[index]);
    if (error == -EINPROGRESS) /* ready for no reason */
        return false;
    race->count--;
    race->cases[index] = race->cases[race->count];
    race->addrs[index] = race->addrs[race->count];
    if (!error) {
        *out = io;
        return true;
    }
    weft_close(io);
    failed(race, error);
    return false;
}

/* -- The order -------------------------------------------------------------------------------------------------- */

/* Addresses that are to be tried, of which some are not known yet. */
struct queue {
    weft_addr addrs[QUEUE_MAX];
    size_t next, count;
    struct wefti_late_names *names; /* NULL: no more will come */
};

static bool has(const struct queue *queue, const weft_addr *addr) {
    for (size_t i = 0; i < queue->count; i++)
        if (queue->addrs[i].size == addr->size && !memcmp(queue->addrs[i].storage, addr->storage, addr->size))
            return true;
    return false;
}

/* Those that were not known, in turn with those that are left. */
static void add_late(struct queue *queue, const weft_addr *addrs, size_t count) {
    weft_addr left[QUEUE_MAX];
    size_t some = queue->count - queue->next, at = queue->next;
    memcpy(left, queue->addrs + queue->next, some * sizeof *left);
    bool fresh[WEFTI_ADDRS_MAX];
    for (size_t i = 0; i < count; i++)
        fresh[i] = !has(queue, &addrs[i]);
    for (size_t i = 0, j = 0; (i < count || j < some) && at < QUEUE_MAX;) {
        while (i < count && !fresh[i])
            i++;
        if (i < count)
            queue->addrs[at++] = addrs[i++];
        if (j < some && at < QUEUE_MAX)
            queue->addrs[at++] = left[j++];
    }
    queue->count = at;
}

/* Answers that have come. */
static void take_late(struct queue *queue) {
    for (int kind = 0; queue->names && kind < WEFTI_KINDS; kind++) {
        int found = queue->names->used[kind] ? 0 : wefti_late_result(queue->names, kind);
        if (found <= 0)
            continue;
        queue->names->used[kind] = true;
        weft_addr ordered[WEFTI_ADDRS_MAX];
        wefti_addrs_interleave(queue->names->answer[kind].addrs, (size_t)found, ordered);
        add_late(queue, ordered, (size_t)found);
    }
}

/* -- The race ------------------------------------------------------------------------------------------------------ */

/* One of those under way, or one more answer: its case comes last.  As weft_select; *late: it was an answer. */
static int wait_any(struct race *race, struct queue *queue, bool open, int64_t until, bool *late) {
    unsigned count = race->count;
    *late = false;
    if (open)
        race->cases[count++] = weft_case_event(&queue->names->changed);
    int index = weft_select(race->cases, count, until);
    if (!open || index != (int)race->count)
        return index;
    weft_event_clear(&queue->names->changed);
    *late = true;
    return 0;
}

/* 0 and *out; a negative error. */
static int run(struct race *race, struct queue *queue, weft_io **out, weft_deadline until) {
    int64_t next_at = 0;
    for (;;) {
        /* First whether more may come, then what has: an answer between the two is an event that we wait for. */
        bool open = queue->names && wefti_late_is_open(queue->names);
        take_late(queue);
        bool more = queue->next < queue->count, late;
        if (more && (race->count == 0 || weft_now() >= next_at)) {
            int error = start(race, &queue->addrs[queue->next++], out, until);
            if (!error || error == -ECANCELED || (error == -ETIMEDOUT && weft_now() >= until))
                return error;
            next_at = weft_after(STAGGER);
            continue;
        }
        if (race->count == 0 && !open)
            return race->error;
        more = more && next_at < until;
        int index = wait_any(race, queue, open, more ? next_at : until, &late);
        if (late || (index == -ETIMEDOUT && more))
            continue;
        if (index < 0)
            return index;
        unsigned before = race->count;
        if (look(race, (unsigned)index, out))
            return 0;
        if (race->count < before)
            next_at = 0; /* the next need not wait for one that has failed */
    }
}

static int run_all(struct queue *queue, weft_io **out, weft_deadline until) {
    struct race race = {.count = 0, .error = 0};
    int error = run(&race, queue, out, until);
    for (unsigned i = 0; i < race.count; i++)
        weft_close(io_of(&race, i));
    return error;
}

/* Its queue is too large for a fiber's stack. */
static struct queue *new_queue(void) { return wefti_alloc(sizeof(struct queue)); }
static void end_queue(struct queue *queue) { wefti_free(queue, sizeof *queue); }

int weft_connect_any(const weft_addr *addrs, size_t count, weft_io **out, weft_deadline until) {
    wefti_slice_use_heavy(until);
    if (!addrs || !count || !out)
        return -EINVAL;
    if (count == 1)
        return weft_connect(addrs, out, until);
    struct wefti_worker *w = wefti_worker_here();
    if (w && wefti_current(w) && !wefti_task_is_fiber(wefti_current(w)))
        return -EINVAL;
    if (w && wefti_current(w) && wefti_fiber_must_end(wefti_fiber_of(wefti_current(w))))
        return -ECANCELED;
    struct queue *queue = new_queue();
    if (!queue)
        return -ENOMEM;
    queue->count = count < WEFTI_ADDRS_MAX ? count : WEFTI_ADDRS_MAX;
    wefti_addrs_interleave(addrs, queue->count, queue->addrs);
    int error = run_all(queue, out, until);
    end_queue(queue);
    return error;
}

/* -- By name ------------------------------------------------------------------------------------------------------- */

/* With answers that may come one after the other. */
static int connect_late(const char *host, const char *service, weft_io **out, weft_deadline until) {
    struct queue *queue = new_queue();
    struct wefti_late_names *names = queue ? wefti_late_new(host, service, until) : NULL;
    int error = strlen(host) < WEFTI_NAME_MAX ? -ENOMEM : -ENAMETOOLONG;
    if (names) {
        queue->names = names;
        error = wefti_late_find(names);
        if (error > 0)
            error = run_all(queue, out, until);
        wefti_late_end(names);
    }
    if (queue)
        end_queue(queue);
    return error;
}

int weft_tcp_connect(const char *host, int port, weft_io **out, weft_deadline until) {
    weft_addr addrs[WEFTI_ADDRS_MAX];
    char service[16];
    if (!host || port < 0 || port > 65535 || !out)
        return -EINVAL;
    if (weft_addr_parse(host, port, addrs) == 0)
        return weft_connect(addrs, out, until);
    snprintf(service, sizeof service, "%d", port);
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? wefti_current(w) : NULL;
    bool fiber = task && wefti_task_is_fiber(task);
    if (fiber && wefti_fiber_must_end(wefti_fiber_of(task)))
        return -ECANCELED;
    /* In a simulation no time passes while the system is asked; whoever has a resolver of his own asks that. */
    if ((fiber || !task) && until > 0 && *host && !(w && w->rt->sim) && !wefti_resolver_is_own())
        return connect_late(host, service, out, until);
    int count = weft_resolve(host, service, AF_UNSPEC, addrs, WEFTI_ADDRS_MAX, until);
    return count < 0 ? count : weft_connect_any(addrs, (size_t)count, out, until);
}
