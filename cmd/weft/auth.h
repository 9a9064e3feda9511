/* auth.h - who may ask what: the token, and the Host and Origin of a request.
 *
 * Token.   A secret in a file that only its owner can read.  It is compared in a time that does not depend on where it differs.  An address that
 *          has sent ten wrong ones within a second is not listened to until the second is over.
 * Host.    A page of another site can make a browser resolve the site's name to this machine (DNS rebinding), and then read what it answers.  Such a
 *          request carries the site's name.  So a Host is a numeric address, localhost, or a name that was allowed with --host.
 * Origin.  A page of another site can send requests without reading the answer (CSRF).  A browser adds where they come from; so an Origin, if there
 *          is one, must be the Host that was asked.
 */
#ifndef WEFT_CMD_AUTH_H
#define WEFT_CMD_AUTH_H

#include <weft/http.h>
#include <weft/net.h>

#include "queue/lock.h"

enum {
    AUTH_TOKEN_LEAST = 16,
    AUTH_TOKEN_MOST = 256,
    AUTH_HOSTS = 16,
    AUTH_TRIES = 10, /* wrong tokens of an address within a second */
    AUTH_ADDRESSES = 1024,
};

struct auth {
    bool needed; /* a token is, for whatever writes */
    char token[AUTH_TOKEN_MOST];
    size_t token_size;
    const char *hosts[AUTH_HOSTS];
    unsigned host_count;
    /* Wrong tokens, by a hash of the address: two that share a place share their tries. */
    struct wefti_lock lock;
    struct {
        int64_t since;
        unsigned wrong;
    } tries[AUTH_ADDRESSES];
};

/* 0; a negative error, `why` says what is wrong with the file. */
int auth_read_token(struct auth *auth, const char *path, char *why, size_t room);

bool auth_host_is_good(const struct auth *auth, weft_text host);
bool auth_origin_is_good(weft_text origin, weft_text host);
enum auth_token { AUTH_NONE, AUTH_RIGHT, AUTH_WRONG, AUTH_THROTTLED };
/* What a request's Authorization is worth.  peer: a hash of its address. */
enum auth_token auth_check(struct auth *auth, weft_text authorization, uint64_t peer, int64_t now);
uint64_t auth_peer(const weft_addr *addr);
/* Does only this machine reach it? */
bool auth_is_loopback(const weft_addr *addr);

#endif
