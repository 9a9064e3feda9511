/* certs.c - which certificate a server shows: by the name that the client asks for, and as the files are now.
 *
 * Each is an SSL_CTX of its own, with the same settings; a connection that was asked for another name changes over in its handshake.  A reload makes all
 * of them anew, and only if it has them all, puts them in the place of the old ones, which live on in their connections. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "tls/tls.h"

#define TICKET_KEYS 80 /* name, HMAC and AES keys: what sessions are gone on from */

SSL *wefti_tls_ssl_new(struct weft_tls *tls) {
    (void)CRYPTO_THREAD_read_lock(tls->lock);
    SSL *ssl = SSL_new(tls->ctx);
    CRYPTO_THREAD_unlock(tls->lock);
    return ssl;
}

/* -- By name -------------------------------------------------------------------------------------------------------- */

static bool is_for(SSL_CTX *ctx, const char *name) {
    X509 *cert = SSL_CTX_get0_certificate(ctx);
    return cert && X509_check_host(cert, name, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

int wefti_tls_choose_cert(SSL *ssl, int *alert, void *arg) {
    struct weft_tls *tls = arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (!name)
        return SSL_TLSEXT_ERR_NOACK;
    if (is_for(SSL_get_SSL_CTX(ssl), name))
        return SSL_TLSEXT_ERR_OK;
    int result = SSL_TLSEXT_ERR_NOACK; /* of none: ours, as if it had not asked */
    (void)CRYPTO_THREAD_read_lock(tls->lock);
    struct wefti_tls_named *named = tls->named;
    while (named && !is_for(named->ctx, name))
        named = named->next;
    if (named)
        result = SSL_set_SSL_CTX(ssl, named->ctx) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
    CRYPTO_THREAD_unlock(tls->lock);
    if (result == SSL_TLSEXT_ERR_ALERT_FATAL)
        *alert = SSL_AD_INTERNAL_ERROR;
    return result;
}

static void free_named(struct wefti_tls_named *named) {
    SSL_CTX_free(named->ctx);
    OPENSSL_free(named->cert_file);
    OPENSSL_free(named->key_file);
    OPENSSL_free(named);
}

void wefti_tls_named_free(struct weft_tls *tls) {
    for (struct wefti_tls_named *next; tls->named; tls->named = next) {
        next = tls->named->next;
        free_named(tls->named);
    }
}

int weft_tls_add(weft_tls *tls, const char *cert_file, const char *key_file) {
    if (!tls || !tls->is_server || !cert_file)
        return -EINVAL;
    struct wefti_tls_named *named = OPENSSL_zalloc(sizeof *named);
    if (!named)
        return -ENOMEM;
    named->cert_file = OPENSSL_strdup(cert_file);
    named->key_file = key_file ? OPENSSL_strdup(key_file) : NULL;
    int error = !named->cert_file || (key_file && !named->key_file)
                    ? -ENOMEM
                    : wefti_tls_ctx_new(tls, cert_file, key_file, &named->ctx);
    if (error) {
        free_named(named);
        return error;
    }
    (void)CRYPTO_THREAD_write_lock(tls->lock);
    *tls->last = named;
    tls->last = &named->next;
    CRYPTO_THREAD_unlock(tls->lock);
    return 0;
}

/* -- Again ---------------------------------------------------------------------------------------------------------- */

/* What is to take the place of a `named`; of the tls's own, if that is NULL. */
struct fresh {
    struct fresh *next;
    struct wefti_tls_named *named;
    SSL_CTX *ctx;
};

static int make_fresh(struct weft_tls *tls, struct wefti_tls_named *named, struct fresh **all) {
    struct fresh *fresh = OPENSSL_zalloc(sizeof *fresh);
    if (!fresh)
        return -ENOMEM;
    fresh->named = named;
    fresh->next = *all;
    *all = fresh;
    return wefti_tls_ctx_new(tls, named ? named->cert_file : tls->options.cert_file,
                             named ? named->key_file : tls->options.key_file, &fresh->ctx);
}

/* The one after that (NULL: the first), of those that have been added by now. */
static struct wefti_tls_named *next_named(struct weft_tls *tls, struct wefti_tls_named *after) {
    (void)CRYPTO_THREAD_read_lock(tls->lock);
    struct wefti_tls_named *named = after ? after->next : tls->named;
    CRYPTO_THREAD_unlock(tls->lock);
    return named;
}

/* Under the lock; the old one stays in `fresh`. */
static void exchange(struct weft_tls *tls, struct fresh *fresh) {
    SSL_CTX **place = fresh->named ? &fresh->named->ctx : &tls->ctx, *old = *place;
    unsigned char keys[TICKET_KEYS];
    if (tls->is_server && !fresh->named && SSL_CTX_get_tlsext_ticket_keys(old, keys, sizeof keys) == 1)
        (void)SSL_CTX_set_tlsext_ticket_keys(fresh->ctx, keys, sizeof keys);
    OPENSSL_cleanse(keys, sizeof keys);
    *place = fresh->ctx;
    fresh->ctx = old;
}

int weft_tls_reload(weft_tls *tls) {
    struct fresh *all = NULL;
    if (!tls)
        return -EINVAL;
    int error = make_fresh(tls, NULL, &all);
    for (struct wefti_tls_named *named = NULL; !error && (named = next_named(tls, named));)
        error = make_fresh(tls, named, &all);
    (void)CRYPTO_THREAD_write_lock(tls->lock);
    for (struct fresh *fresh = all; !error && fresh; fresh = fresh->next)
        exchange(tls, fresh);
    CRYPTO_THREAD_unlock(tls->lock);
    ERR_clear_error();
    for (struct fresh *next; all; all = next) {
        next = all->next;
        SSL_CTX_free(all->ctx);
        OPENSSL_free(all);
    }
    return error;
}
