/* listen.c - a listener whose connections are TLS. */
#include <errno.h>

#include "tls/tls.h"

struct listener {
    weft_io *below;
    struct weft_tls *tls;
};

static int listener_accept(void *state, const weft_stream_call *call, weft_io **out, weft_addr *peer) {
    struct listener *l = state;
    weft_io *plain;
    int error = weft_stream_accept(l->below, call, &plain, peer);
    if (error)
        return error;
    error = weft_tls_open(plain, l->tls, NULL, out);
    if (error)
        weft_close(plain);
    return error;
}

static int listener_close(void *state) {
    struct listener *l = state;
    return weft_close(l->below);
}

static void listener_discard(void *state) {
    struct listener *l = state;
    weft_tls_free(l->tls);
    OPENSSL_free(l);
}

static const weft_stream functions = {
    .size = sizeof functions, .accept = listener_accept, .close = listener_close, .discard = listener_discard};

int weft_tls_listen(weft_io *below, weft_tls *tls, weft_io **out) {
    if (!below || !tls || !tls->is_server || !out)
        return -EINVAL;
    struct listener *l = OPENSSL_zalloc(sizeof *l);
    if (!l)
        return -ENOMEM;
    l->below = below;
    l->tls = wefti_tls_ref(tls);
    weft_io *io;
    int error = weft_stream_open(&functions, l, weft_io_fd(below), &io);
    if (error)
        listener_discard(l);
    else
        *out = io;
    return error;
}
