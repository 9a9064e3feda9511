/* client.h - a connection to a server, and those that are kept for the next request.  Internal. */
#ifndef WEFTI_HTTP_CLIENT_H
#define WEFTI_HTTP_CLIENT_H

#include "http/exchange.h"

#define WEFTI_REQUEST_MAX 8192u  /* its head */
#define WEFTI_AUTHORITY_MAX 280u /* a name of 255, a colon, a port */

struct weft_http_client {
    struct weft_http *x; /* its reading side */
    weft_io *own;        /* the connection, if it is ours to close */
    int status;          /* of the last answer */
    weft_http_options options;
    size_t before; /* bytes of the buffer that the head of the answer takes; x->in begins behind it */
    bool open;
    /* A request that is being sent (weft_http_ask_begin). */
    bool asks, chunked, is_head;
    bool closes, upgrades; /* it said so */
    int64_t left; /* of a declared body; -1: in chunks */
    bool said;    /* some of an answer has come */
    int sent;     /* 0, or why no more could be sent: the server may have said why */
    /* Whence it came, and where it goes to. */
    weft_http_pool *pool; /* NULL: nowhere */
    uint64_t secure; /* 0: it is not; else whose work it is: which weft_http_secure */
    char host[WEFTI_AUTHORITY_MAX];
};

/* ask.c.  Before the next answer comes, the last one's head goes. */
void wefti_client_drop_head(struct weft_http_client *client);

/* client.c.  A client of that server: *used: on a connection that was used before; never so if `fresh`.  pool may be NULL. */
int wefti_http_pool_connect(weft_http_pool *pool, const char *url, bool fresh, int64_t until, weft_http_client **out,
                            bool *used);

/* pool.c.  A connection to that server that nobody uses and that is still open; NULL: there is none. */
weft_io *wefti_http_pool_take(weft_http_pool *pool, const char *authority, uint64_t secure);
unsigned wefti_http_pool_redirects(const weft_http_pool *pool); /* NULL: the default */
/* A client refers to it from now on; and no longer, and leaves its connection, or NULL. */
void wefti_http_pool_ref(weft_http_pool *pool);
void wefti_http_pool_give(weft_http_pool *pool, const char *authority, uint64_t secure, weft_io *io);

#endif
