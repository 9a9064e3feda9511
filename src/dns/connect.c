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
#include "io/desc.h"

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
    const weft_addr *addrs[WEFTI_ADDRS_MAX];
    weft_case cases[WEFTI_ADDRS_MAX];
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

/* 0 and *out; a negative error. */
static int run(struct race *race, const weft_addr *addrs, size_t count, weft_io **out, weft_deadline until) {
    int64_t next_at = 0;
    for (size_t next = 0;;) {
        if (next < count && (race->count == 0 || weft_now() >= next_at)) {
            int error = start(race, &addrs[next++], out, until);
            if (!error || error == -ECANCELED || (error == -ETIMEDOUT && weft_now() >= until))
                return error;
            next_at = weft_after(STAGGER);
            continue;
        }
        if (race->count == 0)
            return race->error;
        bool more = next < count && next_at < until;
        int index = weft_select(race->cases, race->count, more ? next_at : until);
        if (index == -ETIMEDOUT && more)
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

int weft_connect_any(const weft_addr *addrs, size_t count, weft_io **out, weft_deadline until) {
    weft_addr ordered[WEFTI_ADDRS_MAX];
    if (!addrs || !count || !out)
        return -EINVAL;
    if (count == 1)
        return weft_connect(addrs, out, until);
    struct wefti_worker *w = wefti_worker_here();
    if (w && wefti_current(w) && !wefti_task_is_fiber(wefti_current(w)))
        return -EINVAL;
    if (w && wefti_current(w) && wefti_fiber_must_end(wefti_fiber_of(wefti_current(w))))
        return -ECANCELED;
    struct race race = {.count = 0, .error = 0};
    count = count < WEFTI_ADDRS_MAX ? count : WEFTI_ADDRS_MAX;
    wefti_addrs_interleave(addrs, count, ordered);
    int error = run(&race, ordered, count, out, until);
    for (unsigned i = 0; i < race.count; i++)
        weft_close(io_of(&race, i));
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
    int count = weft_resolve(host, service, AF_UNSPEC, addrs, WEFTI_ADDRS_MAX, until);
    return count < 0 ? count : weft_connect_any(addrs, (size_t)count, out, until);
}
