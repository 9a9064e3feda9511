/* digest.h - SHA-1 and base64, for the handshake of WebSocket and nothing else: SHA-1 keeps no secrets.  Internal. */
#ifndef WEFTI_HTTP_DIGEST_H
#define WEFTI_HTTP_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define WEFTI_SHA1_SIZE 20
void wefti_sha1(const void *bytes, size_t size, uint8_t digest[WEFTI_SHA1_SIZE]);

/* With padding and a zero at the end; text has room for 4 * ((size + 2) / 3) + 1.  Returns the length. */
size_t wefti_base64(const void *bytes, size_t size, char *text);
/* How many bytes a text stands for; -1: it is malformed, or not the only one for these bytes. */
int wefti_base64_size(const char *text, size_t size);

#endif
