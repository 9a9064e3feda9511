/* session.c - sessions that a client goes on from, by host. */
#include <string.h>

#include "tls/tls.h"

static void free_one(struct wefti_tls_session *one) {
    SSL_SESSION_free(one->session);
    OPENSSL_free(one);
}

/* Under the lock: out of the list.  NULL: there is none. */
static struct wefti_tls_session *unlink_host(struct weft_tls *tls, const char *host) {
    for (struct wefti_tls_session **at = &tls->sessions; *at; at = &(*at)->next)
        if (!strcmp((*at)->host, host)) {
            struct wefti_tls_session *found = *at;
            *at = found->next;
            return found;
        }
    return NULL;
}

/* Under the lock: the oldest beyond the limit, out of the list.  NULL: there is none. */
static struct wefti_tls_session *unlink_oldest(struct weft_tls *tls) {
    struct wefti_tls_session **at = &tls->sessions;
    for (unsigned i = 0; i < WEFTI_TLS_SESSIONS && *at; i++)
        at = &(*at)->next;
    struct wefti_tls_session *found = *at;
    if (found)
        *at = found->next;
    return found;
}

SSL_SESSION *wefti_tls_session_take(struct weft_tls *tls, const char *host) {
    SSL_SESSION *session = NULL;
    if (!CRYPTO_THREAD_write_lock(tls->lock))
        return NULL;
    struct wefti_tls_session *found = unlink_host(tls, host);
    if (found && SSL_SESSION_is_resumable(found->session) && SSL_SESSION_up_ref(found->session)) {
        session = found->session;
        if (SSL_SESSION_get_protocol_version(session) < TLS1_3_VERSION) { /* good for more than once */
            found->next = tls->sessions;
            tls->sessions = found;
            found = NULL;
        }
    }
    CRYPTO_THREAD_unlock(tls->lock);
    if (found)
        free_one(found);
    return session;
}

void wefti_tls_session_put(struct weft_tls *tls, const char *host, SSL_SESSION *session) {
    struct wefti_tls_session *one = strlen(host) < sizeof one->host ? OPENSSL_zalloc(sizeof *one) : NULL;
    if (!one) { /* the next connection has a full handshake */
        SSL_SESSION_free(session);
        return;
    }
    one->session = session;
    memcpy(one->host, host, strlen(host));
    if (!CRYPTO_THREAD_write_lock(tls->lock)) {
        free_one(one);
        return;
    }
    struct wefti_tls_session *old = unlink_host(tls, host);
    one->next = tls->sessions;
    tls->sessions = one;
    struct wefti_tls_session *beyond = old ? NULL : unlink_oldest(tls);
    CRYPTO_THREAD_unlock(tls->lock);
    if (old)
        free_one(old);
    if (beyond)
        free_one(beyond);
}

void wefti_tls_sessions_free(struct weft_tls *tls) {
    while (tls->sessions) {
        struct wefti_tls_session *one = tls->sessions;
        tls->sessions = one->next;
        free_one(one);
    }
}
