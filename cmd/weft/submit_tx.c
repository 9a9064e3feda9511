/* submit_tx.c - transactions from JSON (submit.h). */
#include <errno.h>
#include <stdio.h>

#include "submit.h"
#include "tx.h"

static int say(char *why, size_t room, const char *text) {
    snprintf(why, room, "%s", text);
    return -EINVAL;
}

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int hex_bytes(const char *text, size_t size, struct bytes *out, char *why, size_t room) {
    unsigned char *at = size % 2 || !size ? NULL : bytes_add(out, size / 2);
    for (size_t i = 0; at && i < size; i += 2) {
        int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0)
            return say(why, room, "has a hex that is none");
        at[i / 2] = (unsigned char)(high << 4 | low);
    }
    return at || !size ? 0 : say(why, room, size % 2 ? "has a hex with half a byte" : "is too long");
}

int submit_bytes(const json_t *json, struct bytes *out, char *why, size_t room) {
    const json_t *hex = json_object_get(json, "hex");
    char number[24];
    if (json_is_string(json) && !json_string_length(json))
        return 0;
    if (json_is_string(json))
        bytes_put(out, json_string_value(json), json_string_length(json));
    else if (json_is_integer(json))
        bytes_put(out, number,
                  (size_t)snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(json)));
    else if (json_is_string(hex) && json_object_size(json) == 1)
        return hex_bytes(json_string_value(hex), json_string_length(hex), out, why, room);
    else
        return say(why, room, "must be a string, an integer or {\"hex\": \"...\"}");
    return out->failed ? -ENOMEM : 0;
}

/* A string without a zero byte in it, or NULL. */
static const char *string_of(const json_t *value) {
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static int take_args(const json_t *args, struct bytes *room_for, struct tx *tx, char *why, size_t room) {
    size_t count = json_array_size(args), ends[TX_ARGS_MAX];
    if (!json_is_array(args))
        return say(why, room, "'args' must be an array");
    if (count > TX_ARGS_MAX)
        return say(why, room, "more than 16 arguments");
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(args, i);
        char what[80];
        if (json_is_string(value)) { /* where it is */
            tx->args[i] = (struct tx_arg){json_string_value(value), json_string_length(value)};
            ends[i] = room_for->size;
            continue;
        }
        int error = submit_bytes(value, room_for, what, sizeof what);
        if (error) {
            snprintf(why, room, "argument %zu %s", i, error == -ENOMEM ? "has no memory" : what);
            return error;
        }
        ends[i] = room_for->size;
        tx->args[i].data = NULL;
    }
    for (size_t i = 0; i < count; i++) /* now that they do not move any more */
        if (!tx->args[i].data) {
            size_t from = i ? ends[i - 1] : 0;
            tx->args[i] = (struct tx_arg){room_for->data ? room_for->data + from : (void *)"", ends[i] - from};
        }
    tx->count = (unsigned)count;
    return 0;
}

int submit_tx(json_t *json, struct bytes *out, char *why, size_t room) {
    struct tx tx = {.executor = "kv"};
    struct bytes args = {0};
    const char *name, *fault = NULL;
    json_t *value;
    int error = json_is_object(json) ? 0 : say(why, room, "a transaction is an object");
    json_object_foreach(json, name, value) {
        bool is_uint = json_is_integer(value) && json_integer_value(value) >= 0;
        if (!strcmp(name, "method"))
            tx.method = string_of(value);
        else if (!strcmp(name, "sender"))
            tx.sender = string_of(value);
        else if (!strcmp(name, "args"))
            error = error ? error : take_args(value, &args, &tx, why, room);
        else if (!strcmp(name, "nonce") && is_uint)
            tx.nonce = (uint64_t)json_integer_value(value);
        else if (!strcmp(name, "gas") && is_uint)
            tx.gas = (uint64_t)json_integer_value(value);
        else if (!strcmp(name, "executor"))
            tx.executor = string_of(value);
        else
            error = error ? error
                          : (snprintf(why, room, "'%.32s' is malformed, or not part of a transaction", name), -EINVAL);
    }
    if (!error && (!tx.executor || !tx.method || !tx.sender))
        error = say(why, room, "executor, method and sender are strings");
    if (!error && (error = tx_encode(&tx, out, &fault)))
        snprintf(why, room, "%s", fault);
    bytes_free(&args);
    return error;
}
