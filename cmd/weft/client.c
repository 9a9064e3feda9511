/* client.c - asking a node (client.h). */
#include "client.h"

#include <errno.h>
#include <stdio.h>

#include "auth.h"
#include "rpc.h"

int client_open(struct client *client, const char *url, const char *token_file) {
    struct auth auth = {0};
    *client = (struct client){0};
    if (url_parse(url, &client->url)) {
        snprintf(client->why, sizeof client->why, "'%s' is no address of a node; expected http://HOST:PORT", url);
        return -EINVAL;
    }
    if (token_file && auth_read_token(&auth, token_file, client->why, sizeof client->why))
        return -EACCES;
    snprintf(client->fields, sizeof client->fields, "Content-Type: application/json\r\n%s%.*s%s",
             token_file ? "Authorization: Bearer " : "", (int)auth.token_size, auth.token, token_file ? "\r\n" : "");
    return 0;
}

static void disconnect(struct client *client) {
    weft_http_client_close(client->http);
    weft_close(client->io);
    client->http = NULL;
    client->io = NULL;
}

void client_close(struct client *client) {
    if (client->http)
        disconnect(client);
    text_free(&client->body);
}

static int connect(struct client *client, weft_deadline until) {
    if (client->http && weft_http_client_is_open(client->http))
        return 0;
    if (client->http)
        disconnect(client);
    int error = url_connect(&client->url, &client->io, until, client->why, sizeof client->why);
    if (error)
        return error;
    error = weft_http_client_open(client->io, client->url.authority, &client->http);
    if (error)
        weft_close(client->io);
    return error;
}

static int exchange(struct client *client, const char *request, size_t size, weft_deadline until) {
    int status = weft_http_ask(client->http, "POST", client->url.target, client->fields, request, size, until);
    ssize_t n = status < 0 ? status : 1;
    client->body.size = 0;
    while (n > 0) {
        char *at = text_room(&client->body, 65536);
        n = at ? weft_http_answer_read(client->http, at, 65536, until) : -ENOMEM;
        client->body.size += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? (int)n : status;
}

int client_post(struct client *client, const char *request, size_t size, int64_t timeout) {
    weft_deadline until = weft_after(timeout);
    bool reused = client->http != NULL;
    int status = connect(client, until);
    if (status < 0)
        return status;
    status = exchange(client, request, size, until);
    if ((status == -ECONNRESET || status == -EPIPE) && reused && !client->body.size) {
        /* It may have been idle for too long.  Sending it twice does no harm: a nonce is used once. */
        disconnect(client);
        status = connect(client, until);
        if (status == 0)
            status = exchange(client, request, size, until);
    }
    if (status < 0) {
        snprintf(client->why, sizeof client->why, "%s: %s", client->url.authority, weft_strerror(status));
        if (client->http)
            disconnect(client);
        return status;
    }
    /* 401 with JSON is a node's answer too. */
    bool json = weft_text_is(weft_http_answer_field(client->http, "Content-Type"), "application/json");
    if (json || status == 204)
        return 0;
    size_t line = client->body.size ? strcspn(client->body.at, "\r\n") : 0;
    line = line < client->body.size ? line : client->body.size;
    snprintf(client->why, sizeof client->why, "%s: status %d: %.*s", client->url.authority, status,
             (int)(line < 120 ? line : 120), line ? client->body.at : "");
    return -EPROTO;
}

json_t *client_call(struct client *client, const char *method, const char *params, int64_t timeout) {
    struct text request = {0};
    json_t *result = NULL;
    text_put(&request, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":");
    text_json(&request, method, strlen(method));
    text_put(&request, ",\"params\":");
    text_put(&request, params);
    text_put(&request, "}");
    client->code = 0;
    if (request.failed) {
        snprintf(client->why, sizeof client->why, "no memory");
    } else if (client_post(client, request.at, request.size, timeout) == 0) {
        char why[160];
        json_t *answer = rpc_decode(client->body.at, client->body.size, why, sizeof why);
        json_t *error = json_object_get(answer, "error");
        result = json_incref(json_object_get(answer, "result"));
        if (error) {
            const char *message = json_string_value(json_object_get(error, "message"));
            client->code = (int)json_integer_value(json_object_get(error, "code"));
            snprintf(client->why, sizeof client->why, "%s (%d)", message ? message : "an error", client->code);
        } else if (!result) {
            snprintf(client->why, sizeof client->why, "%s: not an answer of a node", client->url.authority);
        }
        json_decref(answer);
    }
    text_free(&request);
    return result;
}
