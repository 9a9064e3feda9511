/* about.c - what a TLS connection agreed on, with whom, and why it failed. */
#include <stdio.h>

#include "tls/stream.h"

static struct wefti_tls_stream *enter(weft_io *io) {
    struct wefti_tls_stream *s = wefti_tls_stream_enter(io);
    if (s)
        (void)CRYPTO_THREAD_write_lock(s->lock);
    return s;
}
static void leave(weft_io *io, struct wefti_tls_stream *s) {
    CRYPTO_THREAD_unlock(s->lock);
    weft_stream_leave(io);
}

const char *weft_tls_version(weft_io *io) {
    struct wefti_tls_stream *s = enter(io);
    const char *version = s ? SSL_get_version(s->ssl) : NULL; /* a constant */
    if (s)
        leave(io, s);
    return version;
}

int weft_tls_protocol(weft_io *io, char *text, size_t room) {
    struct wefti_tls_stream *s = enter(io);
    const unsigned char *name = NULL;
    unsigned size = 0;
    if (s)
        SSL_get0_alpn_selected(s->ssl, &name, &size);
    int length = snprintf(text, room, "%.*s", (int)size, name ? (const char *)name : "");
    if (s)
        leave(io, s);
    return length;
}

bool weft_tls_is_resumed(weft_io *io) {
    struct wefti_tls_stream *s = enter(io);
    bool resumed = s && SSL_session_reused(s->ssl);
    if (s)
        leave(io, s);
    return resumed;
}

int weft_tls_peer_name(weft_io *io, char *text, size_t room) {
    struct wefti_tls_stream *s = enter(io);
    X509 *peer = s ? SSL_get0_peer_certificate(s->ssl) : NULL;
    BIO *words = peer ? BIO_new(BIO_s_mem()) : NULL;
    char *name = NULL;
    long size = 0;
    if (words && X509_NAME_print_ex(words, X509_get_subject_name(peer), 0, XN_FLAG_ONELINE) >= 0)
        size = BIO_get_mem_data(words, &name);
    int length = snprintf(text, room, "%.*s", (int)size, name ? name : "");
    BIO_free(words);
    if (s)
        leave(io, s);
    return length;
}

int weft_tls_why(weft_io *io, char *text, size_t room) {
    struct wefti_tls_stream *s = enter(io);
    int length = snprintf(text, room, "%s", s ? s->why : "");
    if (s)
        leave(io, s);
    return length;
}
