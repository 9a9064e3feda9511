/* late.h - the addresses of a name, as they come (late.c has the protocol).  Internal. */
#ifndef WEFTI_DNS_LATE_H
#define WEFTI_DNS_LATE_H

#include <weft/sync.h>

#include "base/atomic.h"
#include "dns/dns.h"

#define WEFTI_NAME_MAX 1026 /* NI_MAXHOST, and a byte */

enum { WEFTI_ALL, WEFTI_SIX, WEFTI_FOUR, WEFTI_KINDS };

struct wefti_answer {
    _Atomic int result; /* 0: not yet; how many; a negative error */
    weft_addr addrs[WEFTI_ADDRS_MAX];
};

struct wefti_late_names;
struct wefti_question {
    struct wefti_late_names *names;
    int kind;
};

struct wefti_late_names {
    _Atomic uint32_t refs;
    _Atomic bool unwanted; /* a question that has not been asked need not be */
    int64_t until;
    weft_event changed; /* an answer has come since it was cleared */
    /* Who asks only. */
    bool asked[WEFTI_KINDS];
    bool used[WEFTI_KINDS]; /* its addresses are in the race */
    struct wefti_question question[WEFTI_KINDS];
    struct wefti_answer answer[WEFTI_KINDS];
    char name[WEFTI_NAME_MAX], service[16];
};

/* NULL: no memory, or the name is too long. */
struct wefti_late_names *wefti_late_new(const char *name, const char *service, int64_t until);
/* Wait until there are addresses to begin with: positive; or a negative error. */
int wefti_late_find(struct wefti_late_names *names);
/* Of a kind: 0: not yet; how many; a negative error. */
int wefti_late_result(const struct wefti_late_names *names, int kind);
/* May there come more? */
bool wefti_late_is_open(const struct wefti_late_names *names);
/* Nobody wants to know any more. */
void wefti_late_end(struct wefti_late_names *names);

#endif
