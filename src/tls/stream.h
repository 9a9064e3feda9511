/* stream.h - a TLS connection: its state, and the BIO between OpenSSL and the descriptor.  Internal. */
#ifndef WEFTI_TLS_STREAM_H
#define WEFTI_TLS_STREAM_H

#include "tls/tls.h"

struct wefti_tls_stream {
    weft_io *below;
    struct weft_tls *tls;
    weft_deadline handshake_until;
    char host[256];      /* of a client; "": none */
    CRYPTO_RWLOCK *lock; /* of all that follows */
    SSL *ssl;
    int error; /* for good; 0: none */
    int below_error; /* of the descriptor, when read */
    bool below_ended;
    int write_error; /* nothing can be sent any more.  OpenSSL is not told: what has come may still be read */
    bool shut; /* we have said that we write no more */
    bool hold; /* more follows: into the queue */
    char *queue; /* bytes queue[from ... to - 1] are to be sent; NULL: none */
    size_t from, to, room;
    size_t accepted; /* bytes of a poll task's write that it has not been told of ... */
    const weft_task *accepted_by; /* ... by the task that makes the same call again */
    char why[120];
};

/* The stream behind a weft_io, until weft_stream_leave; NULL: none of ours. */
struct wefti_tls_stream *wefti_tls_stream_enter(weft_io *io);

BIO *wefti_tls_bio_new(struct wefti_tls_stream *s);
/* Under the lock: nothing will be sent any more. */
void wefti_tls_write_failed(struct wefti_tls_stream *s, int error);
/* Under the lock: as much of the queue as the socket takes.  0: it is empty; -EAGAIN; a negative error. */
int wefti_tls_send_queue(struct wefti_tls_stream *s);

#endif
