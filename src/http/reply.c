/* reply.c - answers: heads, bodies, chunks, events. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "fiber/slice.h"
#include "http/chars.h"
#include "http/exchange.h"

static const char *reason(int status) {
    switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
    }
}

/* -- The head ------------------------------------------------------------------------------------------------ */

static inline char *add(char *at, const char *text, size_t size) {
    memcpy(at, text, size);
    return at + size;
}
static inline char *add_text(char *at, const char *text) { return add(at, text, strlen(text)); }

static inline char *add_number(char *at, uint64_t number) {
    unsigned digits = 1;
    for (uint64_t limit = 10; digits < 20 && number >= limit; limit *= 10)
        digits++;
    for (char *digit = at + digits; digit > at; number /= 10)
        *--digit = (char)('0' + number % 10);
    return at + digits;
}

/* One field more, of that size.  0; -ENOBUFS; -ENOMEM. */
static inline int room_for(struct weft_http *x, size_t size) {
    return WEFTI_LIKELY(size <= x->fields_room - x->fields_size) ? 0
           : size > SIZE_MAX - x->fields_size                    ? -ENOBUFS
                                                                 : wefti_http_more_fields(x, x->fields_size + size);
}

/* Checked, or ours. */
static int add_field(struct weft_http *x, const char *name, size_t name_size, const char *value, size_t value_size) {
    int error = room_for(x, name_size + value_size + 4);
    if (error)
        return error;
    char *at = x->fields + x->fields_size;
    memcpy(at, name, name_size);
    memcpy(at + name_size, ": ", 2);
    memcpy(at + name_size + 2, value, value_size);
    memcpy(at + name_size + 2 + value_size, "\r\n", 2);
    x->fields_size += name_size + value_size + 4;
    return 0;
}

int weft_http_set(weft_http *x, const char *name, const char *value) {
    if (!x || x->phase != WEFTI_HTTP_HEAD || !name || !value)
        return -EINVAL;
    size_t name_size = strlen(name), value_size = strlen(value);
    weft_text text = {name, name_size};
    if (!wefti_http_is_token(name, name_size) || !wefti_http_is_value(value, value_size) ||
        weft_text_is_nocase(text, "content-length") || weft_text_is_nocase(text, "transfer-encoding") ||
        weft_text_is_nocase(text, "connection") || weft_text_is_nocase(text, "date")) /* ours */
        return -EINVAL;
    return add_field(x, name, name_size, value, value_size);
}

static bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

static __attribute__((noinline)) char *add_status(char *at, int status) {
    at = add_number(add(at, "HTTP/1.1 ", 9), (uint64_t)status);
    at = add_text(add(at, " ", 1), reason(status));
    return add(at, "\r\n", 2);
}

/* What few answers have. */
static __attribute__((noinline)) char *add_rest(const struct weft_http *x, char *at, int status) {
    if (!x->keep)
        at = add_text(at, "Connection: close\r\n");
    else if (x->head.minor == 0)
        at = add_text(at, "Connection: keep-alive\r\n");
    if (status == 426)
        at = add_text(at, "Connection: Upgrade\r\n"); /* RFC 9110, 7.8: with the Upgrade that is the handler's */
    if (x->options->server)
        at = add(add_text(add_text(at, "Server: "), x->options->server), "\r\n", 2);
    return add(at, x->fields, x->fields_size);
}

/* May it be a field's value, and is there room, as for any other field? */
static int check_type(struct weft_http *x, const char *type, size_t size) {
    return WEFTI_UNLIKELY(wefti_http_skip_value(type, type + size) != type + size) ? -EINVAL : room_for(x, size + 16);
}

/* Into `out`; nothing is sent yet.  type: NULL, or one field more.  w: the calling worker, or NULL.  whole: the body follows at once, and the
 * handler will hardly read on. */
static inline __attribute__((always_inline)) int begin_answer(struct weft_http *x, const struct wefti_worker *w,
                                                              int status, int64_t length, const char *type,
                                                              bool whole) {
    if (WEFTI_UNLIKELY(!x || x->phase != WEFTI_HTTP_HEAD || status < 200 || status > 999 || length < -1))
        return -EINVAL;
    bool bare = has_no_body(status);
    size_t type_size = type ? strlen(type) : 0;
    int error = type ? check_type(x, type, type_size) : 0;
    if (WEFTI_UNLIKELY(error))
        return error;
    if (WEFTI_UNLIKELY(x->body.error || (x->head.expects_continue && !x->sent_continue && !x->body.ended)))
        x->keep = false; /* nobody knows where the next request begins: say so */
    if (whole && WEFTI_UNLIKELY(x->body.left > (int64_t)WEFTI_HTTP_DISCARD))
        x->keep = false; /* more of its body is to come than anybody will read now: say so */
    x->chunked = length < 0 && !bare && x->head.minor == 1;
    if (length < 0 && !x->chunked && !bare)
        x->keep = false; /* HTTP/1.0: the end is the end of the connection */
    x->out_left = bare ? 0 : length;
    char *at = x->out + x->out_size;
    at = WEFTI_LIKELY(status == 200) ? add(at, "HTTP/1.1 200 OK\r\n", 17) : add_status(at, status);
    bool sim = w && w->rt->sim;
    x->began = sim ? weft_now() : wefti_clock_coarse() + WEFTI_COARSE;
    x->prompt = false;
    if (!x->options->no_date) {
        wefti_http_date(x->began, sim, at);
        at += WEFTI_HTTP_DATE;
    }
    if (x->chunked)
        at = add_text(at, "Transfer-Encoding: chunked\r\n");
    else if (length >= 0 && !bare)
        at = add(add_number(add(at, "Content-Length: ", 16), (uint64_t)length), "\r\n", 2);
    if (WEFTI_UNLIKELY(!x->keep || x->head.minor == 0 || status == 426 || x->options->server || x->fields_size))
        at = add_rest(x, at, status);
    if (type)
        at = add(add(add(at, "Content-Type: ", 14), type, type_size), "\r\n", 2);
    at = add(at, "\r\n", 2);
    x->out_size = (size_t)(at - x->out);
    x->phase = WEFTI_HTTP_BODY;
    return 0;
}

int weft_http_begin(weft_http *x, int status, int64_t length) {
    return begin_answer(x, wefti_worker_here(), status, length, NULL, false);
}

/* -- The body ------------------------------------------------------------------------------------------------ */

/* One look at the clock is enough for an answer that is sent at once. */
static int64_t deadline(const struct weft_http *x) {
    int64_t room = INT64_MAX - x->began;
    return !x->prompt                         ? weft_after(x->options->body_timeout)
           : x->options->body_timeout <= room ? x->began + x->options->body_timeout
                                              : WEFT_NEVER;
}

static inline int flush_now(struct weft_http *x) {
    size_t size = x->out_size;
    x->out_size = 0;
    ssize_t n = size ? weft_write(x->io, x->out, size, deadline(x)) : 0;
    if (WEFTI_LIKELY(n >= 0))
        return 0;
    x->keep = false;
    return (int)n;
}

static __attribute__((noinline)) int flush(struct weft_http *x) { return flush_now(x); }

#define PIECE ((size_t)256 << 10) /* of a body: so much within body_timeout, however long all of it takes */

/* Behind what is in `out`, if it fits. */
static inline bool append(struct weft_http *x, const void *bytes, size_t size) {
    if (WEFTI_UNLIKELY(x->out_size + size > x->out_room))
        return false;
    memcpy(x->out + x->out_size, bytes, size);
    x->out_size += size;
    return true;
}

/* So, or else all of it at once, or piece by piece. */
static __attribute__((noinline)) int send(struct weft_http *x, const void *bytes, size_t size) {
    if (append(x, bytes, size))
        return 0;
    size_t some = size < PIECE ? size : PIECE;
    struct iovec parts[2] = {{x->out, x->out_size}, {(void *)(uintptr_t)bytes, some}};
    x->out_size = 0;
    ssize_t n = weft_writev(x->io, parts, 2, deadline(x));
    for (size_t at = some; n >= 0 && at < size; at += some) {
        x->prompt = false;
        some = size - at < PIECE ? size - at : PIECE;
        n = weft_write(x->io, (const char *)bytes + at, some, deadline(x));
    }
    if (n < 0)
        x->keep = false;
    return n < 0 ? (int)n : 0;
}

/* A call begins that writes the body: others wait for its end, so that its bytes stay together.  0; -EINVAL (there is no body); -ECANCELED. */
static int lock_body(struct weft_http *x) {
    int error = x ? weft_mutex_lock(&x->lock, WEFT_NEVER) : -EINVAL; /* who has it is bound by body_timeout */
    if (!error && x->phase != WEFTI_HTTP_BODY) {
        weft_mutex_unlock(&x->lock);
        error = -EINVAL;
    }
    return error;
}

/* ... and has ended so. */
static int unlock_body(struct weft_http *x, int result) {
    weft_mutex_unlock(&x->lock);
    return result;
}

static int write_body(struct weft_http *x, const void *bytes, size_t size) {
    if (size == 0 || x->is_head)
        return 0;
    if (x->chunked) {
        char line[20];
        int length = snprintf(line, sizeof line, "%zx\r\n", size);
        int error = send(x, line, (size_t)length);
        if (!error)
            error = send(x, bytes, size);
        return error ? error : send(x, "\r\n", 2);
    }
    if (x->out_left >= 0) {
        if ((uint64_t)x->out_left < size)
            return -EMSGSIZE; /* more than was declared */
        x->out_left -= (int64_t)size;
    }
    return send(x, bytes, size);
}

ssize_t weft_http_write(weft_http *x, const void *bytes, size_t size) {
    wefti_slice_use(WEFT_NEVER);
    int error = lock_body(x);
    if (error)
        return error;
    error = write_body(x, bytes, size);
    if (!error)
        error = flush(x);
    return unlock_body(x, error) ? error : (ssize_t)size;
}

/* A piece of the file, all of it: its size has been promised. */
static int send_piece(struct weft_http *x, int file, off_t *offset, size_t size) {
    char line[20];
    int error = x->chunked ? send(x, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", size)) : 0;
    if (!error)
        error = flush(x);
    ssize_t n = error ? error : weft_sendfile(x->io, file, offset, size, deadline(x));
    if (n == (ssize_t)size)
        return x->chunked ? send(x, "\r\n", 2) : 0;
    x->keep = false; /* its end is the connection's */
    x->phase = WEFTI_HTTP_ENDED; /* nothing that is written on may fill the gap */
    return n < 0 ? (int)n : -EIO;
}

static int write_file(struct weft_http *x, int file, off_t offset, uint64_t size) {
    int error = 0;
    if (x->is_head)
        return 0;
    if (x->out_left >= 0 && !x->chunked && (uint64_t)x->out_left < size)
        return -EMSGSIZE; /* more than was declared */
    while (size && !error) {
        size_t some = size < PIECE ? (size_t)size : PIECE;
        error = send_piece(x, file, &offset, some);
        if (!error && x->out_left >= 0)
            x->out_left -= (int64_t)some;
        size -= some;
    }
    return error ? error : flush(x);
}

int weft_http_write_file(weft_http *x, int file, off_t offset, uint64_t size) {
    int error = offset < 0 || size > INT64_MAX ? -EINVAL : lock_body(x);
    return error ? error : unlock_body(x, write_file(x, file, offset, size));
}

int weft_http_end(weft_http *x) {
    int error = lock_body(x);
    if (error)
        return error;
    x->phase = WEFTI_HTTP_ENDED;
    error = x->chunked && !x->is_head ? send(x, "0\r\n\r\n", 5) : 0;
    if (x->out_left > 0 && !x->is_head)
        x->keep = false; /* less than was declared: the client learns it from the end of the connection */
    int flushed = flush(x);
    return unlock_body(x, error ? error : flushed);
}

int weft_http_reply(weft_http *x, int status, const char *type, const void *body, size_t size) {
    const struct wefti_worker *w = wefti_worker_here();
    int error = begin_answer(x, w, status, (int64_t)size, type, true);
    if (WEFTI_UNLIKELY(error))
        return error;
    x->prompt = w != NULL;
    if (WEFTI_LIKELY(w != NULL)) {
        x->worker = w;
        x->turn = load_own(&w->counters.polls);
    }
    if (size && !has_no_body(status) && !x->is_head) {
        x->out_left = 0;
        if (WEFTI_UNLIKELY(!append(x, body, size)) && (error = send(x, body, size)))
            return error;
    }
    x->phase = WEFTI_HTTP_ENDED;
    return flush_now(x); /* here: a return behind a system call is a wrong guess of the processor's */
}

/* -- Events -------------------------------------------------------------------------------------------------- */

int weft_http_events(weft_http *x) {
    int error = weft_http_set(x, "Content-Type", "text/event-stream");
    if (!error)
        error = weft_http_set(x, "Cache-Control", "no-store");
    if (!error)
        error = weft_http_begin(x, 200, -1);
    return error ? error : flush(x);
}

/* The next line of data: its length, and where the one behind it begins (NULL: it was the last).  CR, LF and both end a line, to the client. */
static size_t next_line(const char *data, const char **next) {
    size_t line = strcspn(data, "\r\n");
    *next = !data[line] ? NULL : data + line + (data[line] == '\r' && data[line + 1] == '\n' ? 2 : 1);
    return line;
}

/* One after another, without a chunk for each. */
static int send_line(struct weft_http *x, const char *name, const char *text, size_t size) {
    int error = send(x, name, strlen(name));
    if (!error)
        error = send(x, text, size);
    return error ? error : send(x, "\n", 1);
}

/* "event: ..." and a "data: " before each line, as one chunk. */
static int write_event(struct weft_http *x, const char *event, const char *data) {
    const char *next = data;
    size_t size = 1 + (event ? strlen(event) + 8 : 0);
    char line[20];
    int error = 0;
    if (x->is_head)
        return 0;
    while (next)
        size += next_line(next, &next) + 7;
    if (x->chunked)
        error = send(x, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", size));
    if (!error && event)
        error = send_line(x, "event: ", event, strlen(event));
    for (const char *at = data; !error && at; at = next) {
        size = next_line(at, &next);
        error = send_line(x, "data: ", at, size);
    }
    if (!error)
        error = x->chunked ? send(x, "\n\r\n", 3) : send(x, "\n", 1);
    return error ? error : flush(x);
}

int weft_http_event(weft_http *x, const char *event, const char *data) {
    wefti_slice_use(WEFT_NEVER);
    int error = !data || (event && strpbrk(event, "\r\n")) ? -EINVAL : lock_body(x);
    return error ? error : unlock_body(x, write_event(x, event, data));
}
