/* weft/http.h - HTTP/1.1: a server and a client, small enough to read.
 *
 *     static int hello(weft_http *x, void *arg) {
 *         return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
 *     }
 *     weft_io *listener;
 *     weft_tcp_listen("127.0.0.1", 8080, NULL, &listener);
 *     weft_http_serve(listener, NULL, hello, NULL);   // in a fiber; returns when it is cancelled or the listener is closed
 *
 * Each connection has a fiber; requests of one connection are answered in order.  The handler runs in that fiber and may wait.
 *
 * Strict.  A message whose end could be understood in two ways is refused with 400 and the connection closed.  Nothing is allocated for parsing;
 * what is longer than the limits is refused (414, 431, 413).  Slow clients are cut off by deadlines (408).
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <weft/io.h>

WEFT_EXTERN_C_BEGIN

/* A piece of text in somebody else's memory; not ended by a zero. */
typedef struct weft_text {
    const char *at;
    size_t size;
} weft_text;

/* Equal to a C string; and without regard to the case of letters. */
WEFT_API bool weft_text_is(weft_text text, const char *other);
WEFT_API bool weft_text_is_nocase(weft_text text, const char *other);

#define WEFT_HTTP_FIELDS_MAX 100

typedef struct weft_http_options {
    size_t size;             /* set by WEFT_HTTP_OPTIONS_INIT */
    size_t max_line;         /* request line; 0 = 8,000 */
    size_t max_head;         /* all of the head; 0 = 16 KiB, at most 1 MiB */
    unsigned max_fields;     /* 0 = 100, which is also the most */
    uint64_t max_body;       /* 0 = 1 MiB */
    int64_t head_timeout;    /* ns from the first byte of a head to its last; 0 = 10 s */
    int64_t idle_timeout;    /* ns between two requests; 0 = 60 s */
    int64_t body_timeout;    /* ns that each read of a body, and each 256 KiB of an answer, may take; 0 = 30 s */
    unsigned max_connections; /* more wait in the listener's backlog; 0 = 100,000 */
    int64_t drain;           /* ns for requests under way when the server is cancelled; 0 = 5 s */
    size_t stack_size;       /* of a connection's fiber; 0 = the runtime's */
    const char *server;      /* the Server field; NULL: none */
    bool no_date;            /* answers without a Date field */
    /* Connections of one address; 0 = no limit. For one more, the server closes the connection of that address that has waited longest for a request, and
     * at least 10 ms; without such a connection it closes the new one. */
    unsigned max_per_address;
    /* At max_connections, for one more: close the connection that has waited longest for a request, and at least 10 ms. */
    bool close_waiting;
    /* Bytes of the fields that a handler sets, with weft_http_set or as a type; 0 = 16 KiB, at most 1 MiB. */
    size_t max_answer_fields;
    /* ns that the reads of one body may wait altogether, beside body_timeout for each; then the read returns -ETIMEDOUT. The handler's own time does not
     * count. 0 = 5 minutes, or as long as max_body takes at 16 KiB per second if that is longer. */
    int64_t body_total_timeout;
} weft_http_options;

#define WEFT_HTTP_OPTIONS_INIT {sizeof(weft_http_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0, false, 0, 0}

/* A request, and its answer. */
typedef struct weft_http weft_http;

/* Answers a request.  0 or more is success; a negative error: the connection is closed, after a 500 if nothing was answered.  Success without an
 * answer is a 404.  Whatever it answers to a CONNECT, the connection ends: there are no tunnels. */
typedef int (*weft_http_handler)(weft_http *x, void *arg);

/* Serve connections until the calling fiber is cancelled, or the listener closed.  Then no more are taken, those without a request are closed,
 * and requests under way have `drain` to end.  options may be NULL.
 * Call from: a fiber.  Returns -ECANCELED or -EBADF after that; -EINVAL; -ENOMEM. */
WEFT_API int weft_http_serve(weft_io *listener, const weft_http_options *options, weft_http_handler handler, void *arg);

/* Serve one connection, which stays the caller's, until either side closes it.  Returns 0 or a negative error. */
WEFT_API int weft_http_serve_one(weft_io *connection, const weft_http_options *options, weft_http_handler handler,
                                 void *arg);

/* -- The request -------------------------------------------------------------------------------------- */
/* Texts are valid until the handler returns. */
WEFT_API weft_text weft_http_method(const weft_http *x);
WEFT_API weft_text weft_http_target(const weft_http *x); /* as sent: "/a/b?q=1" */
WEFT_API weft_text weft_http_path(const weft_http *x); /* up to the "?", without scheme and host */
WEFT_API weft_text weft_http_query(const weft_http *x); /* behind it, or empty */
/* A field's value, by name without regard to case; {NULL, 0} when there is none.  The first of several.
 * Host is what an absolute target names, whatever the client said besides. */
WEFT_API weft_text weft_http_field(const weft_http *x, const char *name);
/* How many there are; the name and value of one of them, if there are so many (NULL: not wanted). */
WEFT_API unsigned weft_http_fields(const weft_http *x, unsigned index, weft_text *name, weft_text *value);
/* The length that was declared; -1: chunked. 0: none. */
WEFT_API int64_t weft_http_length(const weft_http *x);
/* The connection, to look at: weft_peer_addr, weft_tls_version, options.  Reading and writing are the server's. */
WEFT_API weft_io *weft_http_io(const weft_http *x);

/* Read some of the body, in one fiber at a time.  Returns how many bytes; 0 at its end; -EMSGSIZE (above max_body); -EBADMSG (malformed chunks); -ETIMEDOUT; -ECONNRESET
 * (it ended before its declared length); -ECANCELED. */
WEFT_API ssize_t weft_http_read(weft_http *x, void *buffer, size_t size);
/* All of it; *out is freed with the exchange. */
WEFT_API ssize_t weft_http_read_all(weft_http *x, void **out);

/* -- The answer --------------------------------------------------------------------------------------- */

/* A whole answer.  `type` may be NULL.  When more than 256 KiB of a declared body have not been read, it is the connection's last, and says so.  Returns 0; errors as weft_http_set, weft_http_begin and weft_http_write. */
WEFT_API int weft_http_reply(weft_http *x, int status, const char *type, const void *body, size_t size);

/* Piece by piece: fields, then begin, then the body, then end (which the return of the handler does too).  length -1: not known, chunked.
 * A field that is set twice is sent twice.  Returns 0; -EINVAL (a name or value with line ends or control characters; one of those that are the
 * server's: Content-Length, Transfer-Encoding, Connection, Date; the answer has begun); -ENOBUFS (more bytes of fields than max_answer_fields);
 * -ENOMEM. */
WEFT_API int weft_http_set(weft_http *x, const char *name, const char *value);
/* The head; it is sent with the first of the body.  Returns 0; -EINVAL (begun already; a status that is not 200 to 999; a length below -1). */
WEFT_API int weft_http_begin(weft_http *x, int status, int64_t length);
/* Some of the body, which is sent at once.  The answer to a HEAD has none: nothing is sent.
 * Several fibers may write the body of one answer: the bytes of each call of weft_http_write, weft_http_write_file and weft_http_event stay together.
 * Returns `size`; -EMSGSIZE (more than was declared: nothing was sent); -EINVAL (not begun, or ended); errors as weft_write. */
WEFT_API ssize_t weft_http_write(weft_http *x, const void *bytes, size_t size);
/* Part of a file, as weft_sendfile.  (With weft_sendfile on weft_http_io it would come before the head.)
 * Returns 0; -EIO (the file has less: then the answer has ended, too short, and the connection closes); errors as weft_http_write and weft_sendfile. */
WEFT_API int weft_http_write_file(weft_http *x, int file, off_t offset, uint64_t size);
WEFT_API int weft_http_end(weft_http *x);

/* Server-sent events: begin the stream, then send events (event may be NULL) until the client goes (-EPIPE, -ECONNRESET).  An id or a time for
 * reconnecting goes before the event: weft_http_write(x, "id: 7\n", 6); a client that comes again says it in the field Last-Event-ID. */
WEFT_API int weft_http_events(weft_http *x);
WEFT_API int weft_http_event(weft_http *x, const char *event, const char *data);

/* -- WebSocket ----------------------------------------------------------------------------------------- */

enum { WEFT_WS_TEXT = 1, WEFT_WS_BINARY = 2, WEFT_WS_CLOSE = 8, WEFT_WS_PING = 9 };

/* Accept an upgrade; fields that were set (Sec-WebSocket-Protocol) go with it.  The connection is a WebSocket until the handler returns, which closes it.
 * Returns 0; -EPROTO (it is none: a 400 was sent, or a 426); -EINVAL (answered already); errors as weft_write. */
WEFT_API int weft_ws_accept(weft_http *x);
/* The next message, put together in the buffer; pings are answered, text is UTF-8, which is checked as it comes.  One fiber reads, others
 * may write meanwhile.
 * Returns its size, *kind what it is; 0 and WEFT_WS_CLOSE when the client has closed (which is answered); -EMSGSIZE (more than `size`: closed);
 * -EPROTO (malformed: closed); -ETIMEDOUT (nothing is lost: call again, with the same buffer); -EINVAL; errors as weft_read, -ECONNRESET at an
 * end without a close. */
WEFT_API ssize_t weft_ws_read(weft_http *x, void *buffer, size_t size, int *kind, weft_deadline until);
/* A message.  Several fibers may write; each message is whole.  WEFT_WS_CLOSE: nothing, or two bytes of code, the higher first, and up to 123 of text; then read on until the peer's close comes.
 * WEFT_WS_PING: up to 125 bytes, which the peer answers; the answer is not told, but counts for weft_ws_heard.
 * Returns 0; -EPIPE (closed); -ETIMEDOUT (the peer has taken nothing for body_timeout: closed; a message may take longer than that); -EINVAL; errors as
 * weft_write. */
WEFT_API int weft_ws_write(weft_http *x, int kind, const void *bytes, size_t size);
/* When weft_ws_read last got anything of the peer, a ping or its answer too, as weft_now(): who pings now and then, and hears nothing, may give it
 * up.  From anywhere.  -EINVAL: no WebSocket. */
WEFT_API int64_t weft_ws_heard(const weft_http *x);
/* Why the peer has closed: its code, and text (UTF-8; NULL: not wanted), valid until the handler returns; 1005: it gave none; 0: it has not closed
 * (yet, or not in order).  For who reads.  -EINVAL: no WebSocket. */
WEFT_API int weft_ws_reason(const weft_http *x, weft_text *text);

/* -- Client -------------------------------------------------------------------------------------------- */

/* Used by one fiber at a time. */
typedef struct weft_http_client weft_http_client;

/* A URL, taken apart; the texts are parts of it. */
typedef struct weft_url {
    weft_text scheme; /* "http", "https", "ws" or "wss", in any case */
    weft_text authority; /* "example.org:8080", for the Host field */
    weft_text host; /* without port and brackets */
    weft_text target; /* "/a?b=c"; "/" if there is none */
    uint16_t port; /* as given, or the scheme's */
    bool secure; /* https, wss */
} weft_url;

/* Returns 0; -EINVAL (another scheme, a user, no host, a query without a path, characters that must be encoded, ...). */
WEFT_API WEFT_MUST_USE int weft_url_parse(const char *text, weft_url *out);

/* What a reference means in a document of that URL (RFC 3986, 5): "../b?c", "/b", "//host/b", another URL.  Without what follows a "#".
 * Returns the length of `out`, which ends with a zero; -EINVAL (base is none, or what comes out); -EMSGSIZE. */
WEFT_API int weft_url_join(const char *base, weft_text reference, char *out, size_t room);

/* Connect to the server of a URL, whose target is not used; the connection is the client's.  https and wss: as weft_http_secure says.
 * Returns 0; -EINVAL; -EPROTONOSUPPORT (https, and nobody to do it); -ENOMEM; errors as weft_tcp_connect, and of whoever does https. */
WEFT_API WEFT_MUST_USE int weft_http_connect(const char *url, weft_deadline until, weft_http_client **out);

/* Who makes a connection secure, for https and wss: gives a stream of its own for one that is connected, which it closes when it fails.  For the
 * whole process; NULL: nobody.  Set it before clients connect; weft_tls_use (<weft/tls.h>) does so. */
typedef int (*weft_http_secure_fn)(weft_io *connection, const char *host, weft_deadline until, void *arg,
                                   weft_io **out);
WEFT_API void weft_http_secure(weft_http_secure_fn secure, void *arg);

/* A connection to a server, over any stream, which stays the caller's.  0; -EINVAL (no host); -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_http_client_open(weft_io *connection, const char *host, weft_http_client **out);
WEFT_API void weft_http_client_close(weft_http_client *client);

/* Ask, and wait for the head of the answer.  `fields` is "Name: value\r\n..." or NULL.  Then read its body to the end before asking again.
 * Answers of 100 to 199 are waited past, but 101: to a request whose fields have Upgrade and "Connection: Upgrade" it is the answer, after which the
 * connection is open no longer and its stream the other protocol's; to any other request it is malformed.
 * Returns its status; -EBADMSG (malformed, an answer to nothing, more than 100 fields or 64 KiB of head); -EINVAL (what is asked is malformed, has a length or a coding of its own, or is
 * a CONNECT), -EMSGSIZE (head above 8 KiB), -EBUSY (the last body has not been read): nothing was sent; -ECONNRESET; -ETIMEDOUT; -ECANCELED. */
WEFT_API int weft_http_ask(weft_http_client *client, const char *method, const char *target, const char *fields,
                           const void *body, size_t size, weft_deadline until);
/* The same with a body that is sent piece by piece, of a length that is declared, or -1: in chunks.  Begin, write all of it, end: which waits for the head
 * of the answer.  Begin returns 0; write returns `size`; errors as weft_http_ask, and of write -EMSGSIZE (more than was declared: nothing was sent), -EINVAL
 * (not begun); of end its status, -EINVAL (not begun, or less was written than declared: nothing has changed).
 * A server that wants no more of it closes: then write returns -EPIPE or -ECONNRESET, and end the answer, if there was one.  After any other error the
 * connection cannot be used. */
WEFT_API int weft_http_ask_begin(weft_http_client *client, const char *method, const char *target, const char *fields,
                                 int64_t length, weft_deadline until);
WEFT_API ssize_t weft_http_ask_write(weft_http_client *client, const void *bytes, size_t size, weft_deadline until);
WEFT_API int weft_http_ask_end(weft_http_client *client, weft_deadline until);
/* Of the last answer, as weft_http_field and weft_http_fields; valid until the next request. */
WEFT_API weft_text weft_http_answer_field(const weft_http_client *client, const char *name);
WEFT_API unsigned weft_http_answer_fields(const weft_http_client *client, unsigned index, weft_text *name,
                                          weft_text *value);
/* Some of its body.  0 at its end; errors as weft_http_ask, after which the connection cannot be used; when that was sent and failed, its error again;
 * -EINVAL while a request is being sent. */
WEFT_API ssize_t weft_http_answer_read(weft_http_client *client, void *buffer, size_t size, weft_deadline until);
/* May the connection be used for another request?  It looks whether the server has closed it meanwhile, or said what nobody has asked; one that does so at this moment
 * is -ECONNRESET of weft_http_ask, and whether the request was served nobody knows. */
WEFT_API bool weft_http_client_is_open(const weft_http_client *client);
/* The stream it uses. */
WEFT_API weft_io *weft_http_client_io(const weft_http_client *client);

/* -- Connections that are used again ------------------------------------------------------------------- */

typedef struct weft_http_pool weft_http_pool;

typedef struct weft_http_pool_options {
    size_t size; /* set by WEFT_HTTP_POOL_INIT */
    unsigned max_idle; /* connections that wait; 0 = 64 */
    unsigned max_idle_host; /* ... to one server; 0 = 8 */
    unsigned max_redirects; /* that weft_http_fetch follows; 0 = 10; WEFT_HTTP_NO_REDIRECTS: none */
    int64_t idle_timeout; /* ns that one may wait before it is closed instead of used; 0 = 30 s */
} weft_http_pool_options;
#define WEFT_HTTP_NO_REDIRECTS UINT32_MAX /* a redirect is the answer, as any other */
#define WEFT_HTTP_POOL_INIT {sizeof(weft_http_pool_options), 0, 0, 0, 0}

/* From anywhere; used by any number of fibers and threads.  options may be NULL.  Returns 0; -EINVAL; -E2BIG; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_http_pool_open(const weft_http_pool_options *options, weft_http_pool **out);
/* Those that wait are closed; clients that are out may be used on, and then close.  NULL is allowed. */
WEFT_API void weft_http_pool_close(weft_http_pool *pool);
/* How many wait.  Those that have waited too long are closed first. */
WEFT_API unsigned weft_http_pool_idle(weft_http_pool *pool);

/* As weft_http_connect, on a connection to that server that waits, if there is one.  weft_http_client_close puts it back, if its last answer was read to the
 * end and the server keeps it open. */
WEFT_API WEFT_MUST_USE int weft_http_pool_connect(weft_http_pool *pool, const char *url, weft_deadline until,
                                                  weft_http_client **out);

/* Ask for a URL (also one of a query without a path), and go where its server says (301, 302, 303, 307, 308); then read the answer with
 * weft_http_answer_read, and close the client.  pool may be NULL: then connections are used once.
 * 303 turns what is not a HEAD into a GET, 301 and 302 a POST.  Authorization, Cookie and Proxy-Authorization are not sent to another server.  A redirect from
 * https to http, to what is no URL of HTTP (spaces and bytes above ASCII are encoded first), or to nowhere, is not followed: it is the
 * answer.
 * On a connection that was used before, a server that closes it at this moment, without a byte of an answer, is asked once more on another, if the method is
 * idempotent.
 * Returns the status, and *out; -ELOOP (more than max_redirects); -EMSGSIZE (a URL of 4 KiB, or a head above 8 KiB); errors as weft_http_connect and
 * weft_http_ask: then there is no client. */
WEFT_API WEFT_MUST_USE int weft_http_fetch(weft_http_pool *pool, const char *method, const char *url,
                                           const char *fields, const void *body, size_t size, weft_deadline until,
                                           weft_http_client **out);

/* Ask for a WebSocket, of which *out is our end until the client is closed: weft_ws_read and weft_ws_write take it.  Close it with
 * weft_ws_write(WEFT_WS_CLOSE), and read until the server's close has come; closing the client alone is impolite.
 * Returns 0; -EPROTO (the server answered something else: its status is that of weft_http_answer_status; or chose a protocol that `fields` does not
 * ask for); -ENOMEM; errors as weft_http_ask. */
WEFT_API WEFT_MUST_USE int weft_ws_open(weft_http_client *client, const char *target, const char *fields,
                                        weft_deadline until, weft_http **out);
/* Of the last answer; 0: there was none. */
WEFT_API int weft_http_answer_status(const weft_http_client *client);

WEFT_EXTERN_C_END
#endif
