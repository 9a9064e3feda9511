/* context.c - the block context listener (context.h). */
#include "context.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/blocking.h>
#include <weft/http.h>

#include "rpc.h"

#define SECOND INT64_C(1000000000)
#define ANSWER_MAX (256u << 10)

int context_parse(struct context *context, const char *text) {
    if (!strcmp(text, "wall")) {
        context->kind = CONTEXT_WALL;
    } else if (!strncmp(text, "file:", 5) && text[5]) {
        context->kind = CONTEXT_FILE;
        context->path = text + 5;
    } else if (!url_parse(text, &context->url)) {
        context->kind = CONTEXT_HTTP;
    } else {
        return -EINVAL;
    }
    return 0;
}

/* -- JSON --------------------------------------------------------------------------------------------- */

/* A number, or text with a hexadecimal one as Ethereum has it.  1: found; 0: not there; -1: nonsense. */
static int number_of(const json_t *object, const char *name, uint64_t *out) {
    const json_t *value = json_object_get(object, name);
    if (!value || json_is_null(value))
        return 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *out = (uint64_t)json_integer_value(value);
        return 1;
    }
    const char *text = json_string_value(value);
    char *end;
    if (!text || strncmp(text, "0x", 2) != 0 || !text[2] || strlen(text) > 18 ||
        text[2 + strspn(text + 2, "0123456789abcdefABCDEF")])
        return -1;
    *out = strtoull(text + 2, &end, 16);
    return 1;
}

/* Up to 32 bytes in hexadecimal, right-aligned. */
static int bytes_of(const json_t *object, const char *name, unsigned char out[32]) {
    const char *text = json_string_value(json_object_get(object, name));
    unsigned char bytes[32] = {0};
    if (!text)
        return json_object_get(object, name) ? -1 : 0;
    text += strncmp(text, "0x", 2) ? 0 : 2;
    size_t size = strlen(text);
    if (size > 64 || size % 2 || text[strspn(text, "0123456789abcdefABCDEF")])
        return -1;
    for (size_t i = 0; i < size / 2; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        bytes[32 - size / 2 + i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    memcpy(out, bytes, 32);
    return 1;
}

/* `env` is changed only when all of it is good. */
int context_decode(const char *json, size_t size, weft_block_env *env, char *why, size_t room) {
    static const struct {
        const char *name, *other;
        size_t at;
        bool needed;
    } fields[] = {
        {"number", "number", offsetof(weft_block_env, number), true},
        {"timestamp", "timestamp", offsetof(weft_block_env, timestamp), true},
        {"gas_price", "baseFeePerGas", offsetof(weft_block_env, gas_price), false},
        {"blob_gas_price", "blobGasPrice", offsetof(weft_block_env, blob_gas_price), false},
    };
    json_t *all = rpc_decode(json, size, why, room);
    if (!all)
        return -EBADMSG;
    weft_block_env new = *env;
    json_t *object = json_is_object(json_object_get(all, "result")) ? json_object_get(all, "result") : all;
    const char *bad = json_is_object(object) ? NULL : "the object";
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !bad; i++) {
        uint64_t value = 0;
        int found = number_of(object, fields[i].name, &value);
        if (found == 0)
            found = number_of(object, fields[i].other, &value);
        if (found < 0 || (found == 0 && fields[i].needed))
            bad = fields[i].name;
        else if (found)
            memcpy((char *)&new + fields[i].at, &value, sizeof value);
    }
    int found = bad ? 0 : bytes_of(object, "sequencer", new.sequencer);
    if (found == 0 && !bad)
        found = bytes_of(object, "miner", new.sequencer);
    if (found < 0)
        bad = "sequencer";
    if (bad)
        snprintf(why, room, "%s is missing or malformed", bad);
    else
        *env = new;
    json_decref(all);
    return bad ? -EBADMSG : 0;
}

/* -- Sources ------------------------------------------------------------------------------------------ */

/* What a thread that may block works on. */
struct job {
    struct context *context;
    weft_block_env *env;
    char *why;
    size_t room;
};

static int read_wall(struct context *context, weft_block_env *env) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t every = context->every > 0 ? context->every : SECOND;
    env->timestamp = (uint64_t)now.tv_sec;
    env->number = (uint64_t)((now.tv_sec * SECOND + now.tv_nsec) / every);
    env->gas_price = env->blob_gas_price = 1;
    return 0;
}

static int read_file(void *arg) {
    struct job *job = arg;
    char *buffer = malloc(ANSWER_MAX);
    int fd = open(job->context->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;
    size_t size = 0;
    if (fd < 0 || !buffer)
        error = fd < 0 ? -errno : -ENOMEM;
    while (!error && size < ANSWER_MAX) {
        ssize_t n = read(fd, buffer + size, ANSWER_MAX - size);
        if (n < 0)
            error = -errno;
        if (n <= 0)
            break;
        size += (size_t)n;
    }
    if (error)
        snprintf(job->why, job->room, "%s: %s", job->context->path, strerror(-error));
    else
        error = context_decode(buffer, size, job->env, job->why, job->room);
    if (fd >= 0)
        close(fd);
    free(buffer);
    return error;
}

/* The body of an answer with status 200. */
static int ask(struct job *job, weft_io *io, weft_deadline until) {
    static const char question[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockByNumber\",\"params\":[\"latest\",false]}";
    weft_http_client *client;
    struct text body = {0};
    int error = weft_http_client_open(io, job->context->url.authority, &client);
    if (error)
        return error;
    int status = weft_http_ask(client, "POST", job->context->url.target, "Content-Type: application/json\r\n", question,
                               sizeof question - 1, until);
    ssize_t n = status < 0 ? status : 1;
    while (n > 0 && body.size < ANSWER_MAX) {
        char *at = text_room(&body, 4096);
        n = at ? weft_http_answer_read(client, at, 4096, until) : -ENOMEM;
        body.size += n > 0 ? (size_t)n : 0;
    }
    if (n < 0)
        error = (int)n;
    else if (status != 200)
        error = -EPROTO;
    if (error)
        snprintf(job->why, job->room, "%s: %s (status %d)", job->context->url.authority, weft_strerror(error),
                 status > 0 ? status : 0);
    else
        error = context_decode(body.at, body.size, job->env, job->why, job->room);
    weft_http_client_close(client);
    text_free(&body);
    return error;
}

static int read_http(struct job *job) {
    weft_deadline until = weft_after(5 * SECOND);
    weft_io *io;
    int error = url_connect(&job->context->url, &io, until, job->why, job->room);
    if (error)
        return error;
    error = ask(job, io, until);
    weft_close(io);
    return error;
}

int context_poll(struct context *context, weft_block_env *env) {
    char why[sizeof context->why] = "";
    struct job job = {.context = context, .env = env, .why = why, .room = sizeof why};
    int error = 0, result = 0;
    switch (context->kind) {
    case CONTEXT_WALL: error = read_wall(context, env); break;
    case CONTEXT_FILE: error = weft_blocking(read_file, &job, &result, WEFT_NEVER); break;
    case CONTEXT_HTTP: error = read_http(&job); break;
    }
    error = error ? error : result;
    add_relaxed(error ? &context->failures : &context->updates, 1); /* counters */
    if (error && error != -ECANCELED) {
        wefti_lock_take(&context->lock);
        snprintf(context->why, sizeof context->why, "%s", *why ? why : weft_strerror(error));
        wefti_lock_give(&context->lock);
    }
    return error;
}
