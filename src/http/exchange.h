/* exchange.h - one connection's state while it has a request.  Internal.
 *
 * Memory.  A connection that waits for its next request has none of this: it is taken from a pool with the request's first byte, and
 *          given back when all is answered and nothing more has come.  So an idle connection costs its fiber only.
 */
#ifndef WEFTI_HTTP_EXCHANGE_H
#define WEFTI_HTTP_EXCHANGE_H

#include <weft/sync.h>

#include "http/parse.h"
#include "http/ws.h"
#include "io/desc.h"

#define WEFTI_HTTP_DATE 37u /* the size of the Date field */
#define WEFTI_HTTP_DISCARD (256u << 10) /* of a body that nobody read, before the connection is closed instead */
#define WEFTI_HTTP_OUT 4096u /* a head, and a body that fits behind it, are sent together */
/* Bytes of an answer's fields without memory of their own; beside them `out` has room for the rest of a head. */
#define WEFTI_HTTP_FIELDS 3072u

enum wefti_http_phase {
    WEFTI_HTTP_HEAD,  /* nothing has been answered */
    WEFTI_HTTP_BODY,  /* the head is out, or in `out` */
    WEFTI_HTTP_ENDED, /* all is */
};

/* How much of a body is still to come: of a request in a server, of an answer in a client. */
struct wefti_http_body {
    int64_t left;    /* of the body, or of the chunk; or WEFTI_HTTP_UNTIL_CLOSE */
    uint64_t so_far; /* for the limit */
    uint64_t wasted; /* on extensions of chunks */
    int64_t waited; /* ns, of a request: by reads so far */
    bool chunked, ended, between; /* between: a chunk's line end is still to come */
    int error;
};

struct weft_http {
    weft_io *io;
    const weft_http_options *options; /* settled */
    struct wefti_http_limits limits;
    struct weft_http *next; /* in the pool */
    /* In. */
    char *in;
    size_t in_room, in_from, in_to; /* bytes in[from ... to - 1] have come and are not used */
    struct wefti_http_body body;
    bool sent_continue;
    /* Out. */
    enum wefti_http_phase phase;
    int64_t began; /* when the answer began, or a tick later: weft_now() is not worth its price here ... */
    bool prompt;   /* ... which was all of it ... */
    const void *worker; /* ... in this turn of this worker: while it lasts, it is as good as now */
    uint64_t turn;
    bool chunked, keep, is_head, upgraded;
    int64_t out_left; /* of a declared length */
    size_t out_size, fields_size;
    char *out, *fields; /* `fields`: set by the handler; `out` has room for them and the rest of a head */
    size_t out_room, fields_room;
    char out_here[WEFTI_HTTP_OUT], fields_here[WEFTI_HTTP_FIELDS]; /* where they mostly are ... */
    void *more; /* ... or in this, when the fields are more; or NULL */
    size_t more_size;
    weft_mutex lock; /* of writing the body, and frames of a WebSocket */
    void *all; /* weft_http_read_all */
    size_t all_size;
    struct wefti_ws ws; /* when upgraded */
    struct wefti_http_head head;
};

/* As weft_read.  A reset that comes after the peer's end is EPIPE of a read, on Linux: to us it is one as any other. */
ssize_t wefti_http_read_some(weft_io *io, void *bytes, size_t size, int64_t until);
/* More bytes behind those that are there; makes room first.  How many; 0: the end; a negative error, -ENOBUFS: no room. */
ssize_t wefti_http_fill(struct weft_http *x, int64_t until);
/* Begin a body that the head has declared. */
void wefti_http_body_begin(struct weft_http *x, int64_t length);
/* Some of it; `most`: the limit, 0: none. */
ssize_t wefti_http_body_read(struct weft_http *x, void *buffer, size_t size, uint64_t most, int64_t until);

/* The Date field for a time of the monotonic clock, or of the simulator, that is now; and for seconds since 1970. */
void wefti_http_date(int64_t now, bool sim, char text[WEFTI_HTTP_DATE]);
void wefti_http_date_at(int64_t seconds, char text[WEFTI_HTTP_DATE]);

/* exchange.c.  What was given, with the defaults put in.  0; -EINVAL. */
int wefti_http_settle(const weft_http_options *given, weft_http_options *options);
/* Room for so many bytes of fields, in all.  0; -ENOBUFS; -ENOMEM.  And back to what there is without memory of its own. */
int wefti_http_more_fields(struct weft_http *x, size_t size);
void wefti_http_fewer_fields(struct weft_http *x);
struct weft_http *wefti_http_take(weft_io *io, const weft_http_options *options);
void wefti_http_give(struct weft_http *x);

/* connection.c.  Serve it until either side ends it.  options: settled.  0 or a negative error. */
int wefti_http_serve_io(weft_io *io, const weft_http_options *options, weft_http_handler handler, void *arg);

#endif
