/* rpc.h - JSON-RPC 2.0: from the bytes of a request to the bytes of its answer.  Knows nothing of HTTP, nor of the node.
 *
 * Strict.  What is no JSON by RFC 8259 is refused, and besides: names that occur twice in an object, a zero byte in a name, numbers that no
 * 64-bit integer or double can hold, more than RPC_DEPTH brackets inside each other, more than RPC_VALUES values.
 */
#ifndef WEFT_CMD_RPC_H
#define WEFT_CMD_RPC_H

#include <jansson.h>

#include "text.h"

enum {
    RPC_DEPTH = 64,
    RPC_BATCH = 100, /* requests in a batch */
    RPC_VALUES = 250000, /* in a body */
    RPC_PARAMS = 6,
};

/* The codes of the specification, and ours. */
enum {
    RPC_PARSE = -32700,
    RPC_REQUEST = -32600,
    RPC_METHOD = -32601,
    RPC_INVALID = -32602,
    RPC_INTERNAL = -32603,
    RPC_FULL = -32000, /* the pool is full: try later */
    RPC_UNAUTHORIZED = -32001, /* a token is needed */
    RPC_REPLAY = -32002, /* taken before, or its nonce is used */
    RPC_STOPPED = -32003, /* the shard is: its storage failed */
    RPC_SHARDS = -32004, /* there are too many */
    RPC_ENDING = -32005, /* the node shuts down */
};

enum rpc_kind {
    RPC_NONE = 0,
    RPC_STRING,
    RPC_UINT, /* an integer, not negative */
    RPC_BOOL,
    RPC_OBJECT,
    RPC_ARRAY,
    RPC_ANY,
    RPC_REQUIRED = 16,
};

struct rpc_call {
    const struct rpc_method *method;
    json_t *params[RPC_PARAMS]; /* as the method names them; NULL: not given.  Of the kind it asks for */
    void *node, *peer; /* as given to rpc_answer */
    struct text *out; /* the result: JSON */
    int code; /* 0, or set by rpc_fail */
    char message[200];
    char data[160]; /* JSON that goes with the error; may be empty */
};

struct rpc_method {
    const char *name;
    bool writes; /* `may_write` is asked first */
    void (*run)(struct rpc_call *call);
    struct {
        const char *name;
        int kind;
    } params[RPC_PARAMS];
};

struct rpc_service {
    const struct rpc_method *methods;
    size_t count;
    bool (*may_write)(void *node, void *peer);
    /* Told of every request that was answered, or would have been: the index of its method, or -1; 0 or its code.  May be NULL. */
    void (*counted)(void *node, int method, int code);
};

/* The call fails with this code; what was put into `out` is forgotten. */
void rpc_fail(struct rpc_call *call, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Answer the body of a request.  Returns 1: the answer is in `out`; 0: there is none, it was all notifications; RPC_UNAUTHORIZED: the
 * answer is that a token is needed (for a single request). */
int rpc_answer(const struct rpc_service *service, void *node, void *peer, const char *body, size_t size,
               struct text *out);

/* JSON from outside, or NULL; `why` gets a sentence.  Does not recurse deeper than RPC_DEPTH, whatever comes. */
json_t *rpc_decode(const char *body, size_t size, char *why, size_t room);

#endif
