/* websocket.c - WebSocket (RFC 6455): frames, messages, and the server's handshake (the client's is in client.c).
 *
 * Frames of a client are masked, a server's are not; those of control are short, whole, and may stand between the parts of a message.  What is not so ends the
 * connection: a close frame with the reason, and the error again from every later call.
 *
 * Halves.  A message is put together in the caller's buffer.  How far it is stands in the exchange (`got`, `left`), so that a read that was too
 *          late can be repeated.  Frames of control are answered only when all of them is in our own buffer.
 * Writers. The reader answers pings while others write: a frame is written under `lock`, else one could end up inside another.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "fiber/slice.h"
#include "http/digest.h"
#include "http/exchange.h"
#include "http/ws.h"

#define KEY_SIZE 24u /* 16 bytes as base64 */

enum { NORMAL = 1000, BROKEN = 1002, NO_REASON = 1005, NOT_TEXT = 1007, TOO_LARGE = 1009, FAILED = 1011 }; /* reasons */

/* -- Frames ---------------------------------------------------------------------------------------------------- */

int wefti_ws_parse(const void *bytes, size_t size, bool masked, struct wefti_ws_frame *frame) {
    const uint8_t *at = bytes;
    if (size >= 1) {
        frame->final = at[0] & 0x80;
        frame->opcode = at[0] & 15;
        bool known =
            frame->opcode <= WEFTI_WS_BINARY || (frame->opcode >= WEFTI_WS_CLOSE && frame->opcode <= WEFTI_WS_PONG);
        if ((at[0] & 0x70) || !known || (frame->opcode >= WEFTI_WS_CLOSE && !frame->final))
            return -EPROTO;
    }
    if (size < 2)
        return 0;
    unsigned wide = (at[1] & 127) == 126 ? 2 : (at[1] & 127) == 127 ? 8 : 0;
    unsigned mask = masked ? 4 : 0;
    if (masked != (at[1] >> 7) || (wide && frame->opcode >= WEFTI_WS_CLOSE))
        return -EPROTO;
    if (size < 2 + wide + mask)
        return 0;
    frame->size = wide ? 0 : at[1] & 127;
    for (unsigned i = 0; i < wide; i++)
        frame->size = frame->size << 8 | at[2 + i];
    if ((wide == 2 && frame->size < 126) ||
        (wide == 8 && (frame->size < 65536 || frame->size >> 63))) /* one way only */
        return -EPROTO;
    memset(frame->mask, 0, 4);
    memcpy(frame->mask, at + 2 + wide, mask);
    return (int)(2 + wide + mask);
}

static void unmask(uint8_t *bytes, size_t size, const uint8_t mask[4], uint64_t from) {
    uint8_t turned[8];
    uint64_t wide, word;
    size_t i = 0;
    for (; i < 8; i++)
        turned[i] = mask[(from + i) & 3];
    memcpy(&wide, turned, 8);
    for (i = 0; size - i >= 8; i += 8) {
        memcpy(&word, bytes + i, 8);
        word ^= wide;
        memcpy(bytes + i, &word, 8);
    }
    for (; i < size; i++)
        bytes[i] ^= turned[i & 7];
}

static const uint8_t *skip_ascii(const uint8_t *at, const uint8_t *end) {
    uint64_t word;
    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < end && *at < 0x80)
        at++;
    return at;
}

ssize_t wefti_ws_utf8(const void *bytes, size_t size) {
    const uint8_t *at = bytes, *end = at + size, *from;
    while ((from = at = skip_ascii(at, end)) < end) {
        unsigned c = *at++, more = c >= 0xc2 && c < 0xe0   ? 1
                                   : c >= 0xe0 && c < 0xf0 ? 2
                                   : c >= 0xf0 && c < 0xf5 ? 3
                                                           : 4;
        if (more > 3)
            return -1;
        /* Not longer than needed, no surrogates, nothing above U+10FFFF. */
        if (at < end && ((c == 0xe0 && *at < 0xa0) || (c == 0xed && *at > 0x9f) || (c == 0xf0 && *at < 0x90) ||
                         (c == 0xf4 && *at > 0x8f)))
            return -1;
        for (; more && at < end; more--)
            if ((*at++ & 0xc0) != 0x80)
                return -1;
        if (more)
            break;
    }
    return from - (const uint8_t *)bytes;
}

static bool is_utf8(const void *bytes, size_t size) { return wefti_ws_utf8(bytes, size) == (ssize_t)size; }

/* Two parts, one behind the other, for as long as the peer takes some of them: body_timeout begins anew with each piece that it has taken.
 * 0 or a negative error. */
static int write_steadily(struct weft_http *x, const void *head, size_t head_size, const void *bytes, size_t size) {
    struct iovec parts[2] = {{(void *)(uintptr_t)head, head_size}, {(void *)(uintptr_t)bytes, size}};
    size_t done = 0;
    while (done < head_size + size) {
        unsigned first = done < head_size ? 0 : 1;
        size_t cut = first ? done - head_size : done;
        parts[first].iov_base = (char *)(uintptr_t)(first ? bytes : head) + cut;
        parts[first].iov_len = (first ? size : head_size) - cut;
        ssize_t n =
            wefti_writev_some(x->io, parts + first, first || !size ? 1 : 2, weft_after(x->options->body_timeout));
        if (n < 0)
            return (int)n;
        done += (size_t)n;
    }
    return 0;
}

/* Under the lock: a head, and behind it the bytes masked, by way of `out`, which a WebSocket has no other use for. */
static int send_masked(struct weft_http *x, const uint8_t *head, size_t head_size, const uint8_t *bytes, size_t size) {
    uint8_t *out = (uint8_t *)x->out, mask[4];
    uint64_t random = wefti_random_seed();
    size_t there = head_size + 4;
    int error = 0;
    memcpy(mask, &random, 4);
    memcpy(out, head, head_size);
    out[1] |= 0x80;
    memcpy(out + head_size, mask, 4);
    for (size_t at = 0; !error && (at < size || there); there = 0) {
        size_t some = size - at < x->out_room - there ? size - at : x->out_room - there;
        if (some)
            memcpy(out + there, bytes + at, some);
        unmask(out + there, some, mask, at);
        error = write_steadily(x, out, there + some, NULL, 0);
        at += some;
    }
    return error;
}

/* Under the lock: the same, not masked.  What fits goes by way of `out`: a stream above a descriptor makes a record of each part. */
static int send_plain(struct weft_http *x, const uint8_t *head, size_t head_size, const uint8_t *bytes, size_t size) {
    size_t room = x->out_room - head_size, with = size <= room ? size : x->io->layer ? room : 0;
    memcpy(x->out, head, head_size);
    if (with)
        memcpy(x->out + head_size, bytes, with);
    return write_steadily(x, x->out, head_size + with, with < size ? bytes + with : NULL, size - with);
}

/* A whole frame; nothing after a close. */
static int send_frame(struct weft_http *x, unsigned opcode, const void *bytes, size_t size) {
    uint8_t head[10] = {(uint8_t)(0x80 | opcode)};
    unsigned wide = size < 126 ? 0 : size < 65536 ? 2 : 8;
    head[1] = (uint8_t)(wide == 0 ? size : wide == 2 ? 126 : 127);
    for (unsigned i = 0; i < wide; i++)
        head[2 + i] = (uint8_t)((uint64_t)size >> 8 * (wide - 1 - i));
    int error = weft_mutex_lock(&x->lock, WEFT_NEVER); /* who has it is bound by body_timeout */
    if (error)
        return error;
    error = x->ws.closed_out ? -EPIPE
            : x->ws.client   ? send_masked(x, head, 2 + wide, bytes, size)
                             : send_plain(x, head, 2 + wide, bytes, size);
    if (error || opcode == WEFTI_WS_CLOSE)
        x->ws.closed_out = true; /* half a frame is the end too */
    weft_mutex_unlock(&x->lock);
    return error;
}

/* Say why, and end. */
static int fail(struct weft_http *x, int reason, int error) {
    uint8_t code[2] = {(uint8_t)(reason >> 8), (uint8_t)reason};
    x->ws.error = error;
    send_frame(x, WEFTI_WS_CLOSE, code, 2);
    return error;
}

/* -- Handshake ------------------------------------------------------------------------------------------------- */

/* The only field of that name; {NULL, 0}: none, or several. */
static weft_text only_field(const struct weft_http *x, const char *name) {
    weft_text found = {NULL, 0};
    for (unsigned i = 0; i < x->head.count; i++)
        if (weft_text_is_nocase(x->head.field[i].name, name)) {
            if (found.at)
                return (weft_text){NULL, 0};
            found = x->head.field[i].value;
        }
    return found;
}

void wefti_ws_digest(const char *key, char accept[32]) {
    static const char name[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char both[KEY_SIZE + sizeof name];
    uint8_t digest[WEFTI_SHA1_SIZE];
    memcpy(both, key, KEY_SIZE);
    memcpy(both + KEY_SIZE, name, sizeof name);
    wefti_sha1(both, KEY_SIZE + sizeof name - 1, digest);
    wefti_base64(digest, sizeof digest, accept);
}

void wefti_ws_begin(weft_http *x, bool client) {
    x->phase = WEFTI_HTTP_ENDED;
    x->upgraded = true;
    x->keep = false;
    x->ws = (struct wefti_ws){.client = client};
    store_relaxed(&x->ws.heard, weft_now()); /* nothing depends on it */
}

int weft_ws_accept(weft_http *x) {
    if (!x || x->phase != WEFTI_HTTP_HEAD)
        return -EINVAL;
    weft_text key = only_field(x, "Sec-WebSocket-Key"), version = only_field(x, "Sec-WebSocket-Version");
    bool asked = weft_text_is(x->head.method, "GET") && x->head.length == 0 &&
                 wefti_http_has_element(x->head.upgrade, "websocket");
    if (asked && version.at && !weft_text_is(version, "13")) {
        int error = weft_http_set(x, "Upgrade", "websocket"); /* which a 426 must have */
        if (!error)
            error = weft_http_set(x, "Sec-WebSocket-Version", "13");
        return error || (error = weft_http_reply(x, 426, NULL, NULL, 0)) ? error : -EPROTO;
    }
    if (!asked || !version.at || key.size != KEY_SIZE || wefti_base64_size(key.at, key.size) != 16) {
        int error = weft_http_reply(x, 400, NULL, NULL, 0);
        return error ? error : -EPROTO;
    }
    char accept[32];
    wefti_ws_digest(key.at, accept);
    int size = snprintf(x->out, x->out_room,
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Accept: %s\r\n%.*s\r\n",
                        accept, (int)x->fields_size, x->fields);
    wefti_ws_begin(x, false);
    ssize_t n = weft_write(x->io, x->out, (size_t)size, weft_after(x->options->body_timeout));
    if (n < 0)
        x->ws.error = (int)n, x->ws.closed_out = true;
    return n < 0 ? (int)n : 0;
}

void wefti_ws_end(struct weft_http *x, int error) {
    fail(x, error ? FAILED : NORMAL, -EPIPE); /* unless it is closed */
}

/* -- Messages --------------------------------------------------------------------------------------------------- */

/* May somebody say that? */
static bool is_reason(unsigned code) {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

/* The peer closes: say the same, unless we began it. */
static int closed(struct weft_http *x, const uint8_t *bytes, size_t size) {
    unsigned code = size >= 2 ? (unsigned)bytes[0] << 8 | bytes[1] : 0;
    if (size == 1 || (size >= 2 && !is_reason(code)))
        return fail(x, BROKEN, -EPROTO);
    if (size > 2 && !is_utf8(bytes + 2, size - 2))
        return fail(x, NOT_TEXT, -EPROTO);
    x->ws.closed_in = true;
    x->ws.reason = size ? (int)code : NO_REASON;
    x->ws.reason_size = size > 2 ? (unsigned)size - 2 : 0;
    memcpy(x->ws.reason_text, bytes + 2, x->ws.reason_size);
    return send_frame(x, WEFTI_WS_CLOSE, bytes, size < 2 ? 0 : 2);
}

/* A frame of control that begins with a head of `used` bytes.  0; -EAGAIN: more bytes; a negative error. */
static int control(struct weft_http *x, const struct wefti_ws_frame *frame, size_t used) {
    uint8_t bytes[125];
    size_t size = (size_t)frame->size;
    if (x->in_to - x->in_from < used + size)
        return -EAGAIN;
    memcpy(bytes, x->in + x->in_from + used, size);
    x->in_from += used + size;
    unmask(bytes, size, frame->mask, 0);
    if (frame->opcode == WEFTI_WS_CLOSE)
        return closed(x, bytes, size);
    int error = frame->opcode == WEFTI_WS_PING ? send_frame(x, WEFTI_WS_PONG, bytes, size) : 0;
    return error == -EPIPE ? 0 : error; /* we have closed, and wait for its close */
}

/* The head of the next frame, if it has come; all of it, if it is one of control.  0; -EAGAIN; a negative error. */
static int next_frame(struct weft_http *x, size_t room) {
    struct wefti_ws_frame frame;
    int used = wefti_ws_parse(x->in + x->in_from, x->in_to - x->in_from, !x->ws.client, &frame);
    if (used == 0)
        return -EAGAIN;
    if (used < 0)
        return fail(x, BROKEN, -EPROTO);
    if (frame.opcode >= WEFTI_WS_CLOSE)
        return control(x, &frame, (size_t)used);
    if ((frame.opcode == WEFTI_WS_MORE) != (x->ws.kind != 0))
        return fail(x, BROKEN, -EPROTO);
    if (frame.size > room || x->ws.got > room - frame.size)
        return fail(x, TOO_LARGE, -EMSGSIZE);
    x->in_from += (size_t)used;
    x->ws.frame = frame;
    x->ws.left = frame.size;
    x->ws.in_frame = true;
    if (frame.opcode)
        x->ws.kind = frame.opcode;
    return 0;
}

/* Some of the frame's bytes.  0 or a negative error. */
static int some(struct weft_http *x, uint8_t *buffer, int64_t until) {
    struct wefti_ws *ws = &x->ws;
    size_t there = x->in_to - x->in_from;
    ssize_t n = (ssize_t)(there < ws->left ? there : (size_t)ws->left);
    if (n) {
        memcpy(buffer + ws->got, x->in + x->in_from, (size_t)n);
        x->in_from += (size_t)n;
    } else {
        n = wefti_http_read_some(x->io, buffer + ws->got, (size_t)ws->left, until);
        if (n <= 0)
            return n ? (int)n : -ECONNRESET;
        store_relaxed(&ws->heard, weft_now()); /* nothing depends on it */
    }
    unmask(buffer + ws->got, (size_t)n, ws->frame.mask, ws->frame.size - ws->left);
    ws->got += (size_t)n;
    ws->left -= (uint64_t)n;
    if (ws->kind == WEFT_WS_TEXT) { /* who sends what is none learns it at once, not after the last of a long message */
        ssize_t whole = wefti_ws_utf8(buffer + ws->whole, ws->got - ws->whole);
        if (whole < 0)
            return fail(x, NOT_TEXT, -EPROTO);
        ws->whole += (size_t)whole;
    }
    return 0;
}

ssize_t weft_ws_read(weft_http *x, void *buffer, size_t size, int *kind, weft_deadline until) {
    wefti_slice_use(until);
    if (!x || !kind)
        return -EINVAL;
    struct wefti_ws *ws = &x->ws;
    if (!x->upgraded || ws->got + ws->left > size)
        return -EINVAL;
    while (!ws->error && !ws->closed_in) {
        int error = 0;
        if (!ws->in_frame) {
            error = next_frame(x, size);
            if (error == -EAGAIN) {
                ssize_t n = wefti_http_fill(x, until);
                if (n > 0)
                    store_relaxed(&ws->heard, weft_now()); /* nothing depends on it */
                error = n > 0 ? 0 : n == 0 ? -ECONNRESET : (int)n;
            }
        } else if (ws->left) {
            error = some(x, buffer, until);
        } else {
            ws->in_frame = false;
            if (!ws->frame.final)
                continue;
            if (ws->kind == WEFT_WS_TEXT && ws->whole < ws->got)
                return fail(x, NOT_TEXT, -EPROTO);
            *kind = (int)ws->kind;
            size = ws->got;
            ws->kind = 0;
            ws->got = ws->whole = 0;
            return (ssize_t)size;
        }
        if (error == -ETIMEDOUT || error == -ECANCELED)
            return error;
        if (error)
            ws->error = error;
    }
    *kind = WEFT_WS_CLOSE;
    return ws->closed_in ? 0 : ws->error;
}

int weft_ws_write(weft_http *x, int kind, const void *bytes, size_t size) {
    wefti_slice_use(WEFT_NEVER);
    if (!x || !x->upgraded ||
        (kind != WEFT_WS_TEXT && kind != WEFT_WS_BINARY && kind != WEFT_WS_CLOSE && kind != WEFT_WS_PING))
        return -EINVAL;
    if ((kind == WEFT_WS_CLOSE && size == 1) || (kind >= WEFT_WS_CLOSE && size > 125))
        return -EINVAL;
    return send_frame(x, (unsigned)kind, bytes, size);
}

int64_t weft_ws_heard(const weft_http *x) {
    return x && x->upgraded ? load_relaxed(&x->ws.heard) : -EINVAL; /* nothing depends on it */
}

int weft_ws_reason(const weft_http *x, weft_text *text) {
    if (!x || !x->upgraded)
        return -EINVAL;
    if (text)
        *text = (weft_text){x->ws.reason_text, x->ws.reason_size};
    return x->ws.reason;
}
