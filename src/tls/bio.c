/* bio.c - OpenSSL's way to the descriptor below: reads that never wait, writes that never fail for want of room.  Under the stream's lock. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tls/stream.h"

/* -- The queue ------------------------------------------------------------------------------------------------------ */

static int append(struct wefti_tls_stream *s, const char *bytes, size_t size) {
    if (s->from && s->to + size > s->room) {
        memmove(s->queue, s->queue + s->from, s->to - s->from);
        s->to -= s->from;
        s->from = 0;
    }
    if (s->to + size > s->room) {
        size_t room = s->to + size < 4096 ? 4096 : (s->to + size) * 3 / 2;
        char *larger = OPENSSL_realloc(s->queue, room);
        if (!larger)
            return -ENOMEM;
        s->queue = larger;
        s->room = room;
    }
    memcpy(s->queue + s->to, bytes, size);
    s->to += size;
    return 0;
}

static void drop_queue(struct wefti_tls_stream *s) {
    OPENSSL_free(s->queue); /* who is idle has none */
    s->queue = NULL;
    s->from = s->to = s->room = 0;
}

void wefti_tls_write_failed(struct wefti_tls_stream *s, int error) {
    s->write_error = error;
    snprintf(s->why, sizeof s->why, "%s", weft_strerror(error));
    drop_queue(s);
}

int wefti_tls_send_queue(struct wefti_tls_stream *s) {
    while (s->from < s->to) {
        ssize_t n = weft_try_write(s->below, s->queue + s->from, s->to - s->from);
        if (n == -EAGAIN)
            return -EAGAIN;
        if (n < 0)
            wefti_tls_write_failed(s, (int)n);
        else
            s->from += (size_t)n;
    }
    drop_queue(s);
    return s->write_error;
}

/* -- The BIO -------------------------------------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *buffer, int size) {
    struct wefti_tls_stream *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0)
        return 0;
    ssize_t n = s->below_error ? s->below_error : weft_try_read(s->below, buffer, (size_t)size);
    if (n == -EAGAIN)
        BIO_set_retry_read(bio);
    else if (n < 0)
        s->below_error = (int)n;
    s->below_ended |= n == 0;
    return n < 0 ? -1 : (int)n;
}

static int bio_write(BIO *bio, const char *bytes, int given) {
    struct wefti_tls_stream *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (given <= 0)
        return given < 0 ? -1 : 0;
    size_t size = (size_t)given, sent = 0;
    if (!s->write_error && s->from == s->to && !s->hold) {
        ssize_t n = weft_try_write(s->below, bytes, size);
        if (n < 0 && n != -EAGAIN)
            wefti_tls_write_failed(s, (int)n);
        sent = n > 0 ? (size_t)n : 0;
    }
    int error = s->write_error || sent == size ? 0 : append(s, bytes + sent, size - sent);
    if (error)
        wefti_tls_write_failed(s, error);
    return given; /* in any case: perform looks */
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
    struct wefti_tls_stream *s = BIO_get_data(bio);
    (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : command == BIO_CTRL_EOF ? s->below_ended : 0;
}

static BIO_METHOD *method;
static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;

static void free_method(void) { BIO_meth_free(method); }

static void make_method(void) {
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
    if (made && BIO_meth_set_read(made, bio_read) && BIO_meth_set_write(made, bio_write) &&
        BIO_meth_set_ctrl(made, bio_ctrl) && OPENSSL_atexit(free_method))
        method = made;
    else
        BIO_meth_free(made);
}

BIO *wefti_tls_bio_new(struct wefti_tls_stream *s) {
    BIO *bio = CRYPTO_THREAD_run_once(&once, make_method) && method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, s);
        BIO_set_init(bio, 1);
    }
    return bio;
}
