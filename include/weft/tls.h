/* weft/tls.h - TLS 1.2 and 1.3 over OpenSSL, as a stream that every call of <weft/io.h> takes.  A library of its own: -lweft-tls.
 *
 *     weft_tls *tls;                                             // a server's, made once
 *     weft_tls_options options = WEFT_TLS_OPTIONS_INIT;
 *     options.cert_file = "cert.pem", options.key_file = "key.pem";
 *     weft_tls_server(&options, &tls);
 *     weft_tls_listen(listener, tls, &listener);                 // and then as ever:
 *     weft_http_serve(listener, NULL, hello, NULL);
 *
 *     weft_tls_client(NULL, &tls);                               // a client's: the system's trust, the name checked
 *     weft_tcp_connect("192.0.2.1", 443, &io, until);
 *     weft_tls_connect(io, tls, "example.org", until, &io);
 *     weft_write(io, ...);
 *
 * Reading.   0 is an end that the peer has signed (close_notify); an end without is -ECONNRESET, for somebody may have cut the stream.
 * Writing.   One fiber may write while another reads, and several may write, as on a socket.  After a write that failed because of time or a cancel, the stream
 *            still is one; how much of it has arrived nobody knows.
 * Closing.   weft_close says close_notify if that is possible at once; weft_shutdown(io, SHUT_WR) does so too, and reading goes on.
 * Handshake. It happens within the first call that needs it, or in weft_tls_handshake, and takes handshake_timeout at most.
 * Errors.    Beside those of <weft/io.h>: -EKEYREJECTED (the peer's certificate is not good, or not that host's), -EPROTO (what it says is not
 *            TLS, or no version, cipher or protocol is common to both), -ENOMEM.  They stay: every later call returns the same, but
 *            for weft_close.  weft_tls_why has words for them.
 * Strict.    TLS 1.2 at least, no renegotiation, no compression, no static RSA key exchange, no CBC.  A host's name must be one of the
 *            certificate's alternative names: its subject (CN) does not count (RFC 9525).
 * Stack.     A handshake needs some 20 KiB of stack: fibers of 64 KiB, the default, have them; those of 16 KiB do not.
 */
#ifndef WEFT_TLS_H
#define WEFT_TLS_H

#include <weft/io.h>

WEFT_EXTERN_C_BEGIN

/* Certificates, keys, trust, sessions: what connections of one kind share.  Used by any number of threads. */
typedef struct weft_tls weft_tls;

typedef struct weft_tls_options {
    size_t size; /* set by WEFT_TLS_OPTIONS_INIT */
    const char *cert_file; /* PEM: our certificate, then those between it and the root.  A server must have one */
    const char *key_file; /* PEM; NULL: in cert_file too */
    const char *ca_file; /* PEM: who may sign the peer's; NULL: the system's (SSL_CERT_FILE is respected) */
    const char *alpn; /* protocols, the best first: "h2,http/1.1"; NULL: not spoken of */
    int64_t handshake_timeout; /* ns; 0 = 10 s */
    bool tls13_only;
    bool client_certs; /* a server: refuse clients without one that ca_file has signed */
    bool
        no_verify; /* a client: take any certificate.  Whoever is in between reads and writes everything: for tests only */
    bool no_resume; /* every connection with a full handshake */
    /* OpenSSL cipher lists; NULL: the defaults.  Of TLS 1.2 the default is ECDHE with AES-GCM or ChaCha20-Poly1305: forward secrecy, no CBC */
    const char *tls12_ciphers;
    const char *tls13_ciphers; /* "TLS_AES_256_GCM_SHA384:..." */
} weft_tls_options;

#define WEFT_TLS_OPTIONS_INIT {sizeof(weft_tls_options), 0, 0, 0, 0, 0, false, false, false, false, 0, 0}

/* Creates the configuration of a server or a client.  `options` may be NULL for a client.  Reads
 * files, so do not call it on a worker of a busy server.
 *
 * Returns 0, or
 *   -EINVAL   a server without a certificate, a key that does not belong to it, a malformed alpn,
 *             or a cipher list without a known cipher
 *   -ENOENT   a file does not exist
 *   -EACCES   a file must not be read; other errors of open(2) and read(2) likewise
 *   -EBADMSG  a file is not PEM
 *   -E2BIG    options of a newer header, with a field set that this library does not know
 *   -ENOMEM   no memory
 */
WEFT_API WEFT_MUST_USE int weft_tls_server(const weft_tls_options *options, weft_tls **out);
WEFT_API WEFT_MUST_USE int weft_tls_client(const weft_tls_options *options, weft_tls **out);
/* Connections that use it keep it.  NULL is allowed. */
WEFT_API void weft_tls_free(weft_tls *tls);

/* One more certificate of a server (key_file NULL: the key is in cert_file too): a client that asks for a name in it (SNI; "*.example.org" matches as
 * OpenSSL does, a whole label) gets this one.  Who asks for a name in the certificate of the options, for none, or for one that is nowhere, gets that of the
 * options; of several the one added first.  All other settings are the server's.
 * Call from: anywhere, while connections are made too; reads files.  Returns as weft_tls_server; -EINVAL (a client's): then nothing has changed. */
WEFT_API WEFT_MUST_USE int weft_tls_add(weft_tls *server, const char *cert_file, const char *key_file);
/* Read all files again, those of weft_tls_add too: for certificates that were renewed.  Connections that are opened from now on have the new ones; those that
 * are open stay as they are, and sessions can be gone on from.
 * Call from: anywhere, as above.  Returns as weft_tls_server: on failure nothing has changed. */
WEFT_API WEFT_MUST_USE int weft_tls_reload(weft_tls *tls);

/* The stream of a connection, which becomes its own.  Nothing is sent yet.  Of a client `host` is who it must be: a name, or a numeric
 * address; it may be NULL only with no_verify.  Of a server it is not used.
 * Returns 0; -EINVAL; -ENOMEM: then the connection is still the caller's. */
WEFT_API WEFT_MUST_USE int weft_tls_open(weft_io *connection, weft_tls *tls, const char *host, weft_io **out);
/* Do the handshake now.  Returns 0; errors as above; -EINVAL (it is none of ours). */
WEFT_API int weft_tls_handshake(weft_io *io, weft_deadline until);
/* Both.  On failure the connection is closed. */
WEFT_API WEFT_MUST_USE int weft_tls_connect(weft_io *connection, weft_tls *tls, const char *host, weft_deadline until,
                                            weft_io **out);
/* A listener of which weft_accept gives TLS streams, each before its handshake, so that a slow client keeps nobody else waiting.  The one below
 * becomes its own.  Returns 0; -EINVAL (a client's); -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_tls_listen(weft_io *listener, weft_tls *tls, weft_io **out);

/* https and wss of <weft/http.h>, in the whole process, are by this client from now on; it is kept until another takes its place (NULL: none).
 * Call it before clients connect.  Returns 0; -EINVAL (a server's). */
WEFT_API int weft_tls_use(weft_tls *tls);

/* -- After the handshake -------------------------------------------------------------------------------- */

/* "TLSv1.3"; the protocol agreed on ("" if none); did it go on from an earlier session?  NULL, false: it is none of ours. */
WEFT_API const char *weft_tls_version(weft_io *io);
WEFT_API int weft_tls_protocol(weft_io *io, char *text, size_t room);
WEFT_API bool weft_tls_is_resumed(weft_io *io);
/* Of the peer's certificate, as "CN = example.org".  Returns the length it has; 0: it has none. */
WEFT_API int weft_tls_peer_name(weft_io *io, char *text, size_t room);
/* Why it failed, in English.  Returns the length it has (as snprintf). */
WEFT_API int weft_tls_why(weft_io *io, char *text, size_t room);

WEFT_EXTERN_C_END
#endif
