/* ws.h - frames of WebSocket, and what a connection knows about its own.  Internal. */
#ifndef WEFTI_HTTP_WS_H
#define WEFTI_HTTP_WS_H

#include <weft/http.h>

enum {
    WEFTI_WS_MORE = 0, /* of the message before */
    WEFTI_WS_BINARY = 2,
    WEFTI_WS_CLOSE = 8, /* this and above: control */
    WEFTI_WS_PING = 9,
    WEFTI_WS_PONG = 10,
};

struct wefti_ws_frame {
    bool final;
    unsigned opcode;
    uint64_t size;
    uint8_t mask[4];
};

struct wefti_ws {
    bool client;     /* our frames are masked, the peer's are not */
    bool closed_in, closed_out;
    int error; /* for good */
    _Atomic int64_t heard; /* weft_now() when the peer last said anything */
    int reason; /* of its close; 0: it has not closed */
    unsigned reason_size;
    char reason_text[123];
    /* The message that is being put together, in the reader's buffer. */
    unsigned kind; /* 0: none */
    size_t got, whole; /* bytes of it; those that are whole characters, of text */
    struct wefti_ws_frame frame;
    bool in_frame;
    uint64_t left; /* of the frame */
};

/* The head of a frame, masked (a client's) or not.  Its size; 0: more bytes; -EPROTO. */
int wefti_ws_parse(const void *bytes, size_t size, bool masked, struct wefti_ws_frame *frame);
/* What a server answers to a key of 24 characters: 28, and a zero. */
void wefti_ws_digest(const char *key, char accept[32]);
/* The connection is a WebSocket now. */
void wefti_ws_begin(weft_http *x, bool client);
/* How much of it is whole characters of UTF-8; what is behind may become one.  -1: it is none, whatever comes. */
ssize_t wefti_ws_utf8(const void *bytes, size_t size);
/* The handler has returned. */
void wefti_ws_end(weft_http *x, int error);

#endif
