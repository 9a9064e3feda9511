/* ws.h - frames of WebSocket, and what a connection knows about its own.  Internal. */
#ifndef WEFTI_HTTP_WS_H
#define WEFTI_HTTP_WS_H

#include <weft/http.h>
#include <weft/sync.h>

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
    weft_mutex lock; /* of writing */
    bool closed_in, closed_out;
    int error; /* for good */
    /* The message that is being put together, in the reader's buffer. */
    unsigned kind; /* 0: none */
    size_t got;
    struct wefti_ws_frame frame;
    bool in_frame;
    uint64_t left; /* of the frame */
};

/* The head of a client's frame.  Its size; 0: more bytes; -EPROTO. */
int wefti_ws_parse(const void *bytes, size_t size, struct wefti_ws_frame *frame);
bool wefti_ws_is_utf8(const void *bytes, size_t size);
/* The handler has returned. */
void wefti_ws_end(weft_http *x, int error);

#endif
