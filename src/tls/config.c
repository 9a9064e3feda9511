/* config.c - what connections of one kind share: an SSL_CTX and how it was asked for. */
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <unistd.h>

#include "base/known.h"
#include "tls/tls.h"

/* RFC 9325, 4.2: ephemeral keys and authenticated encryption only. */
#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define HANDSHAKE_TIMEOUT INT64_C(10000000000)

static int known(const weft_tls_options *given, weft_tls_options *options) {
    *options = (weft_tls_options)WEFT_TLS_OPTIONS_INIT;
    int error = given ? wefti_known_struct(given, offsetof(weft_tls_options, cert_file) + sizeof given->cert_file,
                                           options, sizeof *options)
                      : 0;
    return error ? error : options->handshake_timeout < 0 ? -EINVAL : 0;
}

/* "h2,http/1.1" as on the wire. */
static int parse_alpn(const char *text, struct weft_tls *tls) {
    while (text) {
        size_t size = strcspn(text, ",");
        if (size == 0 || size > 255 || tls->alpn_size + 1 + size > sizeof tls->alpn)
            return -EINVAL;
        tls->alpn[tls->alpn_size] = (unsigned char)size;
        memcpy(tls->alpn + tls->alpn_size + 1, text, size);
        tls->alpn_size += 1 + (unsigned)size;
        text = text[size] ? text + size + 1 : NULL;
    }
    return 0;
}

/* The first of ours that the client has; none: the handshake ends. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size, const unsigned char *theirs,
                           unsigned theirs_size, void *arg) {
    struct weft_tls *tls = arg;
    (void)ssl;
    unsigned char *found;
    if (SSL_select_next_proto(&found, size, tls->alpn, tls->alpn_size, theirs, theirs_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

/* A client has been given a session; 1: it is ours now. */
static int remember(SSL *ssl, SSL_SESSION *session) {
    struct weft_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const char *host = wefti_tls_host(ssl);
    if (!host)
        return 0;
    wefti_tls_session_put(tls, host, session);
    return 1;
}

/* OpenSSL's words about a file, as an error. */
static int file_error(const char *path) {
    int reason = ERR_GET_REASON(ERR_peek_last_error());
    ERR_clear_error();
    if (reason == ERR_R_MALLOC_FAILURE)
        return -ENOMEM;
    return access(path, R_OK) ? -errno : -EBADMSG;
}

static int load(struct weft_tls *tls, SSL_CTX *ctx, const char *cert, const char *key_file) {
    const weft_tls_options *options = &tls->options;
    const char *key = key_file ? key_file : cert;
    if (cert && SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return file_error(cert);
    if (key && SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) {
        bool mismatch = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
        int error = file_error(key);
        return mismatch ? -EINVAL : error;
    }
    if (key && SSL_CTX_check_private_key(ctx) != 1)
        return -EINVAL;
    if (options->ca_file && SSL_CTX_load_verify_locations(ctx, options->ca_file, NULL) != 1)
        return file_error(options->ca_file);
    if (!options->ca_file && !tls->is_server && tls->verifies)
        SSL_CTX_set_default_verify_paths(ctx); /* without any, no certificate is good */
    if (tls->is_server && options->client_certs) {
        STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->ca_file);
        if (!names)
            return file_error(options->ca_file);
        SSL_CTX_set_client_CA_list(ctx, names);
    }
    return 0;
}

static int settle(struct weft_tls *tls, SSL_CTX *ctx) {
    SSL_CTX_set_app_data(ctx, tls);
    SSL_CTX_set_min_proto_version(ctx, tls->options.tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION);
    const char *tls12 = tls->options.tls12_ciphers, *tls13 = tls->options.tls13_ciphers;
    if (SSL_CTX_set_cipher_list(ctx, tls12 ? tls12 : TLS12_CIPHERS) != 1 ||
        (tls13 && (!*tls13 || SSL_CTX_set_ciphersuites(ctx, tls13) != 1)))
        return -EINVAL;
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    /* Writes never block (stream.c has a queue); an idle connection has no buffers; one recv a record. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(ctx, 1);
    if (tls->verifies)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (tls->is_server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    if (tls->alpn_size && tls->is_server)
        SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, tls);
    else if (tls->alpn_size && SSL_CTX_set_alpn_protos(ctx, tls->alpn, tls->alpn_size))
        return -ENOMEM;
    if (!tls->resumes) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
    } else if (tls->is_server) { /* tickets: nothing is kept for a client */
        static const unsigned char context[] = "weft";
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_session_id_context(ctx, context, sizeof context - 1);
    } else {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ctx, remember);
    }
    if (tls->is_server) {
        SSL_CTX_set_tlsext_servername_callback(ctx, wefti_tls_choose_cert);
        SSL_CTX_set_tlsext_servername_arg(ctx, tls);
    }
    return 0;
}

int wefti_tls_ctx_new(struct weft_tls *tls, const char *cert_file, const char *key_file, SSL_CTX **out) {
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
    int error = ctx ? settle(tls, ctx) : -ENOMEM;
    error = error ? error : load(tls, ctx, cert_file, key_file);
    ERR_clear_error();
    if (error)
        SSL_CTX_free(ctx);
    else
        *out = ctx;
    return error;
}

static int copy_name(const char *name, const char **out) {
    *out = name ? OPENSSL_strdup(name) : NULL;
    return name && !*out ? -ENOMEM : 0;
}

/* What a reload needs. */
static int keep(struct weft_tls *tls, const weft_tls_options *options) {
    tls->options = *options;
    int error = copy_name(options->cert_file, &tls->options.cert_file);
    error |= copy_name(options->key_file, &tls->options.key_file);
    error |= copy_name(options->ca_file, &tls->options.ca_file);
    error |= copy_name(options->tls12_ciphers, &tls->options.tls12_ciphers);
    error |= copy_name(options->tls13_ciphers, &tls->options.tls13_ciphers);
    tls->options.alpn = NULL; /* parsed */
    return error ? -ENOMEM : parse_alpn(options->alpn, tls);
}

static int make(const weft_tls_options *given, bool is_server, weft_tls **out) {
    weft_tls_options options;
    int error = known(given, &options);
    if (error || !out || (is_server && (!options.cert_file || (options.client_certs && !options.ca_file))))
        return error ? error : -EINVAL;
    struct weft_tls *tls = OPENSSL_zalloc(sizeof *tls);
    if (!tls)
        return -ENOMEM;
    store_relaxed(&tls->refs, 1); /* nobody else has it */
    tls->is_server = is_server;
    tls->verifies = is_server ? options.client_certs : !options.no_verify;
    tls->resumes = !options.no_resume;
    tls->handshake_timeout = options.handshake_timeout ? options.handshake_timeout : HANDSHAKE_TIMEOUT;
    tls->last = &tls->named;
    tls->lock = CRYPTO_THREAD_lock_new();
    error = keep(tls, &options);
    error = tls->lock ? error : -ENOMEM;
    if (!error)
        error = wefti_tls_ctx_new(tls, tls->options.cert_file, tls->options.key_file, &tls->ctx);
    if (error)
        weft_tls_free(tls);
    else
        *out = tls;
    return error;
}

int weft_tls_server(const weft_tls_options *options, weft_tls **out) { return make(options, true, out); }
int weft_tls_client(const weft_tls_options *options, weft_tls **out) { return make(options, false, out); }

struct weft_tls *wefti_tls_ref(struct weft_tls *tls) {
    add_relaxed(&tls->refs, 1); /* from one that we have */
    return tls;
}

void weft_tls_free(weft_tls *tls) {
    if (!tls || sub_acq_rel(&tls->refs, 1) > 1) /* all uses come before the last one's free */
        return;
    wefti_tls_sessions_free(tls);
    wefti_tls_named_free(tls);
    SSL_CTX_free(tls->ctx);
    const char *names[] = {tls->options.cert_file, tls->options.key_file, tls->options.ca_file,
                           tls->options.tls12_ciphers, tls->options.tls13_ciphers};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        OPENSSL_free((char *)(uintptr_t)names[i]); /* copies */
    CRYPTO_THREAD_lock_free(tls->lock);
    OPENSSL_free(tls);
}
