/* client.h - asking a node: JSON-RPC over one connection, made again when it has ended. */
#ifndef WEFT_CMD_CLIENT_H
#define WEFT_CMD_CLIENT_H

#include <jansson.h>
#include <weft/http.h>

#include "text.h"
#include "url.h"

struct client {
    struct url url;
    char fields[400]; /* of each request */
    weft_io *io;
    weft_http_client *http;
    struct text body; /* of the last answer */
    char why[512];    /* what the last call failed for */
    int code;         /* of the node's error, or 0 */
};

/* `token_file` may be NULL.  0; -EINVAL, -EACCES: why. */
int client_open(struct client *client, const char *url, const char *token_file);
void client_close(struct client *client);
/* Ask, and wait for the answer.  `params` is JSON.  The result, a new reference; NULL: `why` and `code` say what for. */
json_t *client_call(struct client *client, const char *method, const char *params, int64_t timeout);
/* The same for a request that is JSON already; the answer is left in `body`.  0; a negative error, and why. */
int client_post(struct client *client, const char *request, size_t size, int64_t timeout);

#endif
