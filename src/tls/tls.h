/* tls.h - what the files of libweft-tls share.  Internal.
 *
 * It stands on the public headers and OpenSSL only: a program may have it or not.  Memory is OpenSSL's (OPENSSL_malloc). */
#ifndef WEFTI_TLS_TLS_H
#define WEFTI_TLS_TLS_H

#include <openssl/ssl.h>
#include <weft/stream.h>
#include <weft/tls.h>

#include "base/atomic.h"

#define WEFTI_TLS_SESSIONS 64u /* that a client remembers */

/* A host that has given us a session to go on from.  Under `lock`. */
struct wefti_tls_session {
    struct wefti_tls_session *next; /* the newest first */
    SSL_SESSION *session;
    char host[256];
};

struct weft_tls {
    SSL_CTX *ctx;
    _Atomic uint32_t refs;
    bool is_server, verifies, resumes;
    int64_t handshake_timeout;
    CRYPTO_RWLOCK *lock;
    struct wefti_tls_session *sessions;
    unsigned char alpn[256]; /* as on the wire: a length before each */
    unsigned alpn_size;
};

struct weft_tls *wefti_tls_ref(struct weft_tls *tls);

/* The session to go on from, or NULL.  One of TLS 1.3 is used once. */
SSL_SESSION *wefti_tls_session_take(struct weft_tls *tls, const char *host);
void wefti_tls_session_put(struct weft_tls *tls, const char *host, SSL_SESSION *session);
void wefti_tls_sessions_free(struct weft_tls *tls);

/* The host that a client's connection was opened for; NULL. */
const char *wefti_tls_host(SSL *ssl);

#endif
