/* stream.c - a TLS connection behind the calls of <weft/io.h>.
 *
 * What.    OpenSSL works on `below` through a BIO that never waits (bio.c).  Reads try; when there is nothing OpenSSL says so, and we wait for
 *          the descriptor, outside of it.  Writes always succeed, for what the socket does not take goes into `queue`: OpenSSL so
 *          never has half a record to be repeated, and a write that was too late leaves the stream as it should be.
 * Lock.    OpenSSL's object is for one thread at a time.  `lock` is held during its calls only, never while somebody waits and never across a
 *          switch of fibers, so a lock of threads will do: what may keep others is the work of one record.
 * Order.   All that is sent is sent under the lock: the queue first.
 * Lost.    A write that fails is our business only: OpenSSL is told that all is sent.  Writers get the error, readers what has come before the
 *          peer went: a server that answers, and resets the connection under what it does not want to read, is heard.
 * Bound.   The queue has at most QUEUE_MAX and what one call of OpenSSL adds: writers wait until it is sent, and so do readers whose
 *          records ask for answers.
 * Shared.  A reader and a writer both drive the handshake.  What the one waits for may be read by the other, and be the last of it: so each
 *          waits only if nothing has come since its own look (`mark`), and who ends the handshake wakes those who wait.
 * Errno.   OpenSSL's errors are the thread's: they are read before the lock is given back, and cleared before each call.
 */
#include "tls/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <weft/http.h>

#define RECORD 16384u
#define QUEUE_MAX 32768u

enum op_kind { READ, PEEK, WRITE, SHAKE };
#define END 1
struct op {
    enum op_kind kind;
    void *bytes;
    size_t size, done;
};

static void take(struct wefti_tls_stream *s) { (void)CRYPTO_THREAD_write_lock(s->lock); }
static void give(struct wefti_tls_stream *s) { CRYPTO_THREAD_unlock(s->lock); }

/* -- One call of OpenSSL, under the lock ---------------------------------------------------------------------------- */

/* For good. */
static int broken(struct wefti_tls_stream *s, int error, const char *why) {
    s->error = error;
    snprintf(s->why, sizeof s->why, "%s", why);
    return error;
}

static int failed(struct wefti_tls_stream *s) {
    unsigned long code = ERR_peek_error();
    long verdict = SSL_get_verify_result(s->ssl);
    const char *reason = ERR_reason_error_string(code);
    int number = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    if (s->below_ended) /* first: OpenSSL answers it with an alert, which may fail */
        return broken(s, -ECONNRESET, "the connection ended without a close_notify");
    if (s->below_error)
        return broken(s, s->below_error, weft_strerror(s->below_error));
    if (number == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
        return broken(s, -EKEYREJECTED, X509_verify_cert_error_string(verdict));
    if (number == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return broken(s, -EKEYREJECTED, reason);
    return broken(s, ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE ? -ENOMEM : -EPROTO, reason ? reason : "not TLS");
}

/* 0: done; -EAGAIN: wait for more to read; END: the peer has said that there is no more; a negative error. */
static int perform(struct wefti_tls_stream *s, struct op *op) {
    int result = 0;
    if (s->error)
        return s->error;
    if (s->write_error && op->kind == WRITE)
        return s->write_error;
    ERR_clear_error();
    switch (op->kind) {
    case READ: result = SSL_read_ex(s->ssl, op->bytes, op->size, &op->done); break;
    case PEEK: result = SSL_peek_ex(s->ssl, op->bytes, op->size, &op->done); break;
    case WRITE: result = SSL_write_ex(s->ssl, op->bytes, op->size, &op->done); break;
    case SHAKE: result = SSL_do_handshake(s->ssl); break;
    }
    int kind = SSL_get_error(s->ssl, result);
    int error = kind == SSL_ERROR_NONE          ? 0
                : kind == SSL_ERROR_WANT_READ   ? -EAGAIN
                : kind == SSL_ERROR_ZERO_RETURN ? END
                                                : failed(s);
    ERR_clear_error();
    /* What was to be sent is lost, and the handshake with it.  Whoever reads may go on: what the peer said before it went is still to come. */
    bool sends = op->kind >= WRITE || !SSL_is_init_finished(s->ssl);
    return s->write_error && sends && (error == 0 || error == -EAGAIN) ? s->write_error : error;
}

/* -- Waiting -------------------------------------------------------------------------------------------------------- */

/* Is there nothing to read but what is still to come?  Then it is not worth trying. */
static bool is_idle(struct wefti_tls_stream *s) {
    return !s->error && SSL_is_init_finished(s->ssl) && !SSL_has_pending(s->ssl) &&
           !(SSL_get_shutdown(s->ssl) & SSL_RECEIVED_SHUTDOWN);
}

/* Wait for the descriptor; during the handshake no longer than that may take. */
static int pause_for(struct wefti_tls_stream *s, const weft_stream_call *given, int events, bool shaking,
                     const uint32_t *mark) {
    weft_stream_call call = *given;
    call.mark = mark;
    if (shaking && s->handshake_until < call.until)
        call.until = s->handshake_until;
    /* A poll task has its own timers; it learns that it is too late when it is polled. */
    bool late = shaking && call.self && weft_now() >= s->handshake_until;
    int error = late ? -ETIMEDOUT : weft_stream_wait(s->below, &call, events);
    if (error == -ETIMEDOUT && shaking && weft_now() >= s->handshake_until) {
        take(s);
        if (!s->error)
            broken(s, -ETIMEDOUT, "the handshake took too long");
        give(s);
    }
    return error;
}

/* Send what is in the queue.  0: all; a negative error. */
static int flush(struct wefti_tls_stream *s, const weft_stream_call *call) {
    for (;;) {
        take(s);
        int error = wefti_tls_send_queue(s);
        bool shaking = !SSL_is_init_finished(s->ssl);
        give(s);
        if (error != -EAGAIN)
            return error;
        error = pause_for(s, call, WEFT_FD_WRITE, shaking, NULL);
        if (error)
            return error;
    }
}

static bool is_of_writing(struct wefti_tls_stream *s, int error) {
    take(s);
    bool so = error == s->write_error;
    give(s);
    return so;
}

/* Until it is done.  As perform, without -EAGAIN but in a poll task. */
static int drive(struct wefti_tls_stream *s, const weft_stream_call *call, struct op *op) {
    bool first = true;
    for (;;) {
        take(s);
        bool wait = first && op->kind <= PEEK && !call->self && call->until > 0 && is_idle(s);
        bool shook = !s->error && !SSL_is_init_finished(s->ssl);
        uint32_t mark = weft_stream_mark(s->below, WEFT_FD_READ);
        int error = wait ? -EAGAIN : perform(s, op);
        bool queued = s->to > s->from, shaking = !SSL_is_init_finished(s->ssl);
        shook &= s->error || !shaking;
        give(s);
        if (shook) /* the handshake is over: others may be waiting for what we have read */
            weft_stream_again(s->below, WEFT_FD_READ);
        first = false;
        if (error != -EAGAIN)
            return error;
        if (queued) /* the peer may be waiting for it */
            error = flush(s, call);
        else
            error = pause_for(s, call, WEFT_FD_READ, shaking, &mark);
        if (error && !(queued && op->kind <= PEEK && is_of_writing(s, error)))
            return error;
    }
}

/* A wait that a poll task began and no longer needs. */
static void end_wait(const weft_stream_call *call) {
    if (call->self)
        weft_wait_end(call->wait);
}

/* -- The calls ------------------------------------------------------------------------------------------------------ */

static ssize_t stream_read(void *state, const weft_stream_call *call, const struct iovec *parts, int count) {
    struct wefti_tls_stream *s = state;
    while (count && !parts->iov_len)
        parts++, count--;
    if (!count)
        return 0;
    struct op op = {READ, parts->iov_base, parts->iov_len, 0};
    int error = drive(s, call, &op);
    if (error == -EAGAIN)
        return error;
    end_wait(call);
    if (error)
        return error == END ? 0 : error;
    size_t done = op.done;
    for (int i = 1; i < count && op.done == op.size; i++) { /* more parts: what is there */
        take(s);
        op = (struct op){READ, parts[i].iov_base, parts[i].iov_len, 0};
        error = parts[i].iov_len && SSL_pending(s->ssl) ? perform(s, &op) : 0;
        give(s);
        done += error ? 0 : op.done;
    }
    return (ssize_t)done;
}

/* One record's worth into the queue or the socket, `more` if others follow.  As drive. */
static int write_piece(struct wefti_tls_stream *s, const weft_stream_call *call, struct op *op, bool more) {
    take(s);
    bool full = s->to - s->from >= QUEUE_MAX;
    int error = s->shut ? -EPIPE : 0;
    s->hold = more;
    give(s);
    if (!error && full)
        error = flush(s, call);
    error = error ? error : drive(s, call, op);
    return error == END ? -EPIPE : error;
}

static ssize_t write_all(struct wefti_tls_stream *s, const weft_stream_call *call, const struct iovec *parts,
                         int count) {
    size_t done = 0, left = 0;
    for (int i = 0; i < count; i++)
        left += parts[i].iov_len;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < parts[i].iov_len;) {
            size_t size = parts[i].iov_len - at < RECORD ? parts[i].iov_len - at : RECORD;
            struct op op = {WRITE, (char *)parts[i].iov_base + at, size, 0};
            int error = write_piece(s, call, &op, left > size);
            if (error)
                return error;
            at += op.done;
            left -= op.done;
            done += op.done;
        }
    int error = flush(s, call);
    return error ? error : (ssize_t)done;
}

static void set_accepted(struct wefti_tls_stream *s, const weft_task *by, size_t accepted) {
    take(s);
    s->accepted = accepted;
    s->accepted_by = by;
    give(s);
}

/* The bytes of the same call before, 0: none.  -EBUSY: another task has yet to hear of its own. */
static ssize_t take_accepted(struct wefti_tls_stream *s, const weft_task *by) {
    take(s);
    ssize_t was = !s->accepted ? 0 : s->accepted_by == by ? (ssize_t)s->accepted : -EBUSY;
    if (was > 0)
        s->accepted = 0;
    give(s);
    return was;
}

static ssize_t stream_write(void *state, const weft_stream_call *call, const struct iovec *parts, int count) {
    struct wefti_tls_stream *s = state;
    if (call->all)
        return write_all(s, call, parts, count);
    while (count && !parts->iov_len)
        parts++, count--;
    if (!count)
        return 0;
    /* Some.  A poll task's write counts when it is sent; it makes the same call until then. */
    struct op op = {WRITE, parts->iov_base, parts->iov_len < RECORD ? parts->iov_len : RECORD, 0};
    ssize_t accepted = call->self ? take_accepted(s, call->self) : 0;
    if (accepted < 0)
        return accepted;
    int error = accepted ? 0 : flush(s, call); /* of a write before this */
    if (!error && !accepted)
        error = write_piece(s, call, &op, false);
    if (error)
        return error;
    ssize_t done = accepted ? accepted : (ssize_t)op.done;
    error = flush(s, call);
    if (error == -EAGAIN) {
        set_accepted(s, call->self, (size_t)done);
        return error;
    }
    end_wait(call);
    /* Too late to wait for the socket: the bytes have been taken all the same, and go out with the next call. */
    return error == -ETIMEDOUT || error == -ECANCELED ? done : error ? error : done;
}

static int stream_wait(void *state, const weft_stream_call *call, int events) {
    struct wefti_tls_stream *s = state;
    char byte;
    struct op op = {PEEK, &byte, 1, 0};
    int error = events == WEFT_FD_WRITE ? flush(s, call) : drive(s, call, &op);
    if (error != -EAGAIN)
        end_wait(call);
    take(s);
    bool for_good = s->error || s->below_error || (s->write_error && events == WEFT_FD_WRITE);
    give(s);
    return for_good || error == END ? 0 : error; /* the read will say what it is */
}

static int stream_shutdown(void *state, int how) {
    struct wefti_tls_stream *s = state;
    if (how == SHUT_RD)
        return weft_shutdown(s->below, SHUT_RD);
    take(s);
    bool can = !s->error && !s->shut && SSL_is_init_finished(s->ssl);
    s->shut = true;
    s->hold = false;
    if (can) {
        ERR_clear_error();
        (void)wefti_tls_send_queue(s);
        (void)SSL_shutdown(s->ssl); /* behind what is queued */
        ERR_clear_error();
    }
    give(s);
    return how == SHUT_RDWR ? weft_shutdown(s->below, SHUT_RD) : 0;
}

static int stream_close(void *state) {
    struct wefti_tls_stream *s = state;
    (void)stream_shutdown(s, SHUT_WR);
    return weft_close(s->below);
}

static void stream_discard(void *state) {
    struct wefti_tls_stream *s = state;
    SSL_free(s->ssl); /* and the BIO */
    OPENSSL_free(s->queue);
    CRYPTO_THREAD_lock_free(s->lock);
    weft_tls_free(s->tls);
    OPENSSL_free(s);
}

static const weft_stream functions = {sizeof functions, stream_read,  stream_write,  stream_wait, NULL,
                                      stream_shutdown,  stream_close, stream_discard};

struct wefti_tls_stream *wefti_tls_stream_enter(weft_io *io) { return weft_stream_enter(io, &functions); }

/* -- Opening -------------------------------------------------------------------------------------------------------- */

const char *wefti_tls_host(SSL *ssl) {
    struct wefti_tls_stream *s = SSL_get_app_data(ssl);
    return s && s->host[0] ? s->host : NULL;
}

/* Who the server must be. */
static int expect(struct wefti_tls_stream *s, const char *host) {
    unsigned char address[16];
    bool numeric = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    memcpy(s->host, host, strlen(host) + 1);
    int good = numeric ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), host)
                       : SSL_set1_host(s->ssl, host) && SSL_set_tlsext_host_name(s->ssl, host);
    SSL_set_hostflags(s->ssl,
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT); /* RFC 9525 */
    SSL_SESSION *session = s->tls->resumes ? wefti_tls_session_take(s->tls, host) : NULL;
    if (session) {
        SSL_set_session(s->ssl, session);
        SSL_SESSION_free(session);
    }
    return good ? 0 : -ENOMEM;
}

int weft_tls_open(weft_io *connection, weft_tls *tls, const char *host, weft_io **out) {
    if (!connection || !tls || !out || (!tls->is_server && tls->verifies && !host))
        return -EINVAL;
    if (host && (!host[0] || strlen(host) >= sizeof((struct wefti_tls_stream *)NULL)->host))
        return -EINVAL;
    struct wefti_tls_stream *s = OPENSSL_zalloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    ERR_clear_error();
    s->tls = wefti_tls_ref(tls);
    s->handshake_until = weft_after(tls->handshake_timeout);
    s->lock = CRYPTO_THREAD_lock_new();
    s->ssl = s->lock ? wefti_tls_ssl_new(tls) : NULL;
    BIO *bio = s->ssl ? wefti_tls_bio_new(s) : NULL;
    weft_io *io = NULL;
    int error = bio ? 0 : -ENOMEM;
    if (!error) {
        SSL_set_bio(s->ssl, bio, bio);
        SSL_set_app_data(s->ssl, s);
        if (tls->is_server)
            SSL_set_accept_state(s->ssl);
        else
            SSL_set_connect_state(s->ssl);
        error = host && !tls->is_server ? expect(s, host) : 0;
    }
    if (!error)
        error = weft_stream_open(&functions, s, weft_io_fd(connection), &io);
    ERR_clear_error();
    if (error) {
        stream_discard(s);
        return error;
    }
    s->below = connection;
    *out = io;
    return 0;
}

int weft_tls_handshake(weft_io *io, weft_deadline until) {
    weft_stream_call call = {.until = until};
    struct op op = {SHAKE, NULL, 0, 0};
    struct wefti_tls_stream *s = wefti_tls_stream_enter(io);
    if (!s)
        return -EINVAL;
    int error = drive(s, &call, &op);
    if (!error)
        error = flush(s, &call);
    weft_stream_leave(io);
    return error == END ? -ECONNRESET : error;
}

static int secure(weft_io *connection, const char *host, weft_deadline until, void *tls, weft_io **out) {
    return weft_tls_connect(connection, tls, host, until, out);
}

int weft_tls_use(weft_tls *tls) {
    static _Atomic(struct weft_tls *) used;
    if (tls && tls->is_server)
        return -EINVAL;
    weft_http_secure(tls ? secure : NULL, tls ? wefti_tls_ref(tls) : NULL);
    weft_tls_free(xchg_acq_rel(&used, tls));
    return 0;
}

int weft_tls_connect(weft_io *connection, weft_tls *tls, const char *host, weft_deadline until, weft_io **out) {
    weft_io *io;
    int error = out ? weft_tls_open(connection, tls, host, &io) : -EINVAL;
    if (error) {
        weft_close(connection);
        return error;
    }
    error = weft_tls_handshake(io, until);
    if (error)
        weft_close(io);
    else
        *out = io;
    return error;
}
