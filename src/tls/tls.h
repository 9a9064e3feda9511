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

/* One more certificate of a server, with all its settings. */
struct wefti_tls_named {
    struct wefti_tls_named *next;
    SSL_CTX *ctx; /* under `lock` */
    char *cert_file, *key_file;
};

struct weft_tls {
    _Atomic uint32_t refs;
    bool is_server, verifies, resumes;
    int64_t handshake_timeout;
    weft_tls_options options; /* the names of files are its own */
    CRYPTO_RWLOCK *lock; /* of what follows */
    SSL_CTX *ctx; /* replaced by a reload */
    struct wefti_tls_named *named, **last; /* in the order in which they were added; never removed */
    struct wefti_tls_session *sessions;
    unsigned char alpn[256]; /* as on the wire: a length before each */
    unsigned alpn_size;
};

struct weft_tls *wefti_tls_ref(struct weft_tls *tls);

/* config.c: one with the settings and that certificate (NULL: none).  0 or a negative error. */
int wefti_tls_ctx_new(struct weft_tls *tls, const char *cert_file, const char *key_file, SSL_CTX **out);
/* certs.c: a connection's, with the certificates of now; NULL: no memory. */
SSL *wefti_tls_ssl_new(struct weft_tls *tls);
/* A callback of OpenSSL: the client has said, or not, which name it wants. */
int wefti_tls_choose_cert(SSL *ssl, int *alert, void *tls);
void wefti_tls_named_free(struct weft_tls *tls);

/* The session to go on from, or NULL.  One of TLS 1.3 is used once. */
SSL_SESSION *wefti_tls_session_take(struct weft_tls *tls, const char *host);
void wefti_tls_session_put(struct weft_tls *tls, const char *host, SSL_SESSION *session);
void wefti_tls_sessions_free(struct weft_tls *tls);

/* The host that a client's connection was opened for; NULL. */
const char *wefti_tls_host(SSL *ssl);

#endif
