/* rpc.c - JSON-RPC 2.0 (rpc.h). */
#include "rpc.h"

#include <stdarg.h>
#include <stdio.h>

#include "arena.h"
#include "json_read.h"

/* -- JSON --------------------------------------------------------------------------------------------- */

json_t *rpc_decode(const char *body, size_t size, char *why, size_t room) {
    static const struct json_limits limits = {RPC_DEPTH, RPC_VALUES, true};
    const char *fault;
    size_t where;
    json_t *json = json_read(body, size, &limits, &fault, &where);
    if (!json)
        snprintf(why, room, "%s at byte %zu", fault, where);
    return json;
}

/* -- Answers ------------------------------------------------------------------------------------------ */

void rpc_fail(struct rpc_call *call, int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(call->message, sizeof call->message, format, list);
    va_end(list);
    call->code = code;
}

static void put_id(struct text *out, const json_t *id) {
    text_put(out, "\"id\":");
    if (json_is_string(id) && json_string_value(id)[0] == JSON_AS_WRITTEN) {
        text_add(out, json_string_value(id) + 1, json_string_length(id) - 1);
        return;
    }
    if (json_is_string(id)) {
        text_json(out, json_string_value(id), json_string_length(id));
        return;
    }
    char number[64];
    size_t size = json_is_number(id) ? json_dumpb(id, number, sizeof number, JSON_ENCODE_ANY) : 0;
    if (size && size <= sizeof number)
        text_add(out, number, size);
    else
        text_put(out, "null");
}

static void put_error(struct text *out, const json_t *id, int code, const char *message, const char *data) {
    text_put(out, "{\"jsonrpc\":\"2.0\",");
    put_id(out, id);
    text_format(out, ",\"error\":{\"code\":%d,\"message\":", code);
    text_json(out, message, strlen(message));
    if (data && *data) {
        text_put(out, ",\"data\":");
        text_put(out, data);
    }
    text_put(out, "}}");
}

/* -- One request -------------------------------------------------------------------------------------- */

static const char *kind_name(int kind) {
    static const char *const names[] = {"nothing",  "a string", "an integer of 0 or more", "a boolean", "an object",
                                        "an array", "a value"};
    return names[kind & 15];
}

static bool is_kind(const json_t *value, int kind) {
    switch (kind & 15) {
    case RPC_STRING: return json_is_string(value);
    case RPC_UINT: return json_is_integer(value) && json_integer_value(value) >= 0;
    case RPC_BOOL: return json_is_boolean(value);
    case RPC_OBJECT: return json_is_object(value);
    case RPC_ARRAY: return json_is_array(value);
    default: return true;
    }
}

static int param_index(const struct rpc_method *method, const char *name) {
    for (int i = 0; i < RPC_PARAMS && method->params[i].name; i++)
        if (!strcmp(method->params[i].name, name))
            return i;
    return -1;
}

/* By name or by position, into call->params. */
static bool bind_params(struct rpc_call *call, json_t *params) {
    const struct rpc_method *method = call->method;
    if (json_is_object(params)) {
        const char *name;
        json_t *value;
        json_object_foreach(params, name, value) {
            int i = param_index(method, name);
            if (i < 0) {
                rpc_fail(call, RPC_INVALID, "Invalid params: %s has no parameter '%.40s'", method->name, name);
                return false;
            }
            call->params[i] = value;
        }
    } else if (params) {
        size_t count = json_array_size(params);
        for (size_t i = 0; i < count; i++) {
            if (i >= RPC_PARAMS || !method->params[i].name) {
                rpc_fail(call, RPC_INVALID, "Invalid params: %s takes no more than %zu", method->name, i);
                return false;
            }
            call->params[i] = json_array_get(params, i);
        }
    }
    for (int i = 0; i < RPC_PARAMS && method->params[i].name; i++) {
        int kind = method->params[i].kind;
        if (json_is_null(call->params[i]) && (kind & 15) != RPC_ANY)
            call->params[i] = NULL; /* as if it were not there */
        if (!call->params[i] && (kind & RPC_REQUIRED)) {
            rpc_fail(call, RPC_INVALID, "Invalid params: '%s' is missing", method->params[i].name);
            return false;
        }
        if (call->params[i] && !is_kind(call->params[i], kind)) {
            rpc_fail(call, RPC_INVALID, "Invalid params: '%s' must be %s", method->params[i].name, kind_name(kind));
            return false;
        }
    }
    return true;
}

static void run(const struct rpc_service *service, struct rpc_call *call, const char *name, size_t size,
                json_t *params) {
    for (size_t i = 0; i < service->count && !call->method; i++)
        if (strlen(service->methods[i].name) == size && !memcmp(service->methods[i].name, name, size))
            call->method = &service->methods[i];
    if (!call->method)
        rpc_fail(call, RPC_METHOD, "Method not found");
    else if (call->method->writes && service->may_write && !service->may_write(call->node, call->peer))
        rpc_fail(call, RPC_UNAUTHORIZED, "Unauthorized: %s needs the node's token", call->method->name);
    else if (bind_params(call, params))
        call->method->run(call);
}

/* What is wrong with a request, or NULL. */
static const char *fault_of(const json_t *request, const json_t *id) {
    const json_t *version = json_object_get(request, "jsonrpc"), *params = json_object_get(request, "params");
    if (!json_is_object(request))
        return "Invalid Request: not an object";
    if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
        return "Invalid Request: id must be a string, a number or null";
    if (!json_is_string(version) || json_string_length(version) != 3 || strcmp(json_string_value(version), "2.0") != 0)
        return "Invalid Request: jsonrpc must be \"2.0\"";
    if (!json_is_string(json_object_get(request, "method")))
        return "Invalid Request: method must be a string";
    if (params && !json_is_object(params) && !json_is_array(params))
        return "Invalid Request: params must be an object or an array";
    return NULL;
}

/* Its answer, behind what is in `out`.  1; 0: a notification; RPC_UNAUTHORIZED. */
static int answer_one(const struct rpc_service *service, void *node, void *peer, const json_t *request,
                      struct text *out) {
    json_t *id = json_object_get(request, "id"), *method = json_object_get(request, "method");
    const char *fault = fault_of(request, id);
    size_t before = out->size;
    struct rpc_call call = {.node = node, .peer = peer, .out = out};
    if (fault) {
        put_error(out, id, RPC_REQUEST, fault, NULL);
        if (service->counted)
            service->counted(node, -1, RPC_REQUEST);
        return 1;
    }
    text_put(out, "{\"jsonrpc\":\"2.0\",");
    put_id(out, id);
    text_put(out, ",\"result\":");
    run(service, &call, json_string_value(method), json_string_length(method), json_object_get(request, "params"));
    if (service->counted)
        service->counted(node, call.method ? (int)(call.method - service->methods) : -1, call.code);
    if (call.code) {
        out->size = before;
        put_error(out, id, call.code, call.message, call.data);
    } else {
        text_add(out, "}", 1);
    }
    if (!id) {
        out->size = before;
        return 0;
    }
    return call.code == RPC_UNAUTHORIZED ? RPC_UNAUTHORIZED : 1;
}

/* -- A body ------------------------------------------------------------------------------------------- */

static int answer_batch(const struct rpc_service *service, void *node, void *peer, const json_t *batch,
                        struct text *out) {
    size_t count = json_array_size(batch), answered = 0;
    text_add(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        size_t before = out->size;
        if (answered)
            text_add(out, ",", 1);
        if (answer_one(service, node, peer, json_array_get(batch, i), out))
            answered++;
        else
            out->size = before;
    }
    text_add(out, "]", 1);
    if (!answered)
        out->size = 0;
    return answered > 0;
}

int rpc_answer(const struct rpc_service *service, void *node, void *peer, const char *body, size_t size,
               struct text *out) {
    char why[200];
    int result = 1, code = 0;
    struct arena arena = {0};
    arena_enter(&arena);
    json_t *json = rpc_decode(body, size, why, sizeof why);
    arena_leave();
    if (!json) {
        char message[sizeof why + 16];
        bool no_memory = !strncmp(why, "no memory", 9);
        snprintf(message, sizeof message, "%s: %s", no_memory ? "Internal error" : "Parse error", why);
        put_error(out, NULL, code = no_memory ? RPC_INTERNAL : RPC_PARSE, message, NULL);
    } else if (!json_is_array(json)) {
        result = answer_one(service, node, peer, json, out);
    } else if (json_array_size(json) == 0 || json_array_size(json) > RPC_BATCH) {
        put_error(out, NULL, code = RPC_REQUEST,
                  json_array_size(json) ? "Invalid Request: a batch of more than 100"
                                        : "Invalid Request: an empty batch",
                  NULL);
    } else {
        result = answer_batch(service, node, peer, json, out);
    }
    if (code && service->counted)
        service->counted(node, -1, code);
    arena_free(&arena); /* and with it the tree */
    return result;
}
