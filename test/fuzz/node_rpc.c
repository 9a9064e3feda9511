/* node_rpc.c - JSON-RPC on any bytes (libFuzzer): every body gets an answer that is JSON and says 2.0, or none at all.
 *
 * The methods stand in for the node's: they take what those take, and make transactions of it. */
#include "rpc.h"

#include <stdlib.h>

#include "arena.h"
#include "json_read.h"
#include "submit.h"
#include "tx.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* bytes.h asks it; nothing fails here. */
bool wefti_fault_here(void) { return false; }

static void expect(bool claim) {
    if (!claim)
        abort();
}

/* What submit_tx accepts is a transaction, with one encoding. */
static void check_tx(json_t *json, struct rpc_call *call) {
    struct bytes first = {0}, second = {0};
    struct tx tx;
    const char *fault;
    char why[120] = "";
    int error = submit_tx(json, &first, why, sizeof why);
    if (error) {
        expect(*why && strlen(why) < sizeof why && first.size == 0);
        rpc_fail(call, RPC_INVALID, "%s", why);
    } else {
        expect(tx_decode(first.data, first.size, &tx, &fault) == 0);
        expect(tx_encode(&tx, &second, &fault) == 0);
        expect(second.size == first.size && !memcmp(second.data, first.data, first.size));
    }
    bytes_free(&first);
    bytes_free(&second);
}

static void submit(struct rpc_call *call) {
    json_t *one = call->params[1], *item;
    size_t i;
    expect(json_is_string(call->params[0]) && (!one || json_is_object(one)));
    text_put(call->out, "[");
    if (one)
        check_tx(one, call);
    json_array_foreach(call->params[2], i, item) check_tx(item, call);
    text_bytes(call->out, json_string_value(call->params[0]), json_string_length(call->params[0]));
    text_put(call->out, "]");
}

static void state(struct rpc_call *call) {
    struct bytes key = {0};
    char why[120] = "";
    if (submit_bytes(call->params[1], &key, why, sizeof why))
        rpc_fail(call, RPC_INVALID, "%s", why);
    text_bytes(call->out, key.data ? (void *)key.data : "", key.size);
    bytes_free(&key);
}

static bool may_write(void *node, void *peer) { return node == peer; }

static const struct rpc_method methods[] = {
    {"s",
     true,
     submit,
     {{"shard", RPC_STRING | RPC_REQUIRED}, {"tx", RPC_OBJECT}, {"txs", RPC_ARRAY}, {"n", RPC_UINT}}},
    {"g", false, state, {{"shard", RPC_STRING | RPC_REQUIRED}, {"key", RPC_ANY | RPC_REQUIRED}}},
};
static const struct rpc_service service = {methods, 2, may_write, NULL};

static void check_answer(const json_t *answer) {
    const json_t *error = json_object_get(answer, "error"), *id = json_object_get(answer, "id");
    expect(json_is_object(answer) && (!error != !json_object_get(answer, "result")));
    expect(!strcmp(json_string_value(json_object_get(answer, "jsonrpc")), "2.0"));
    expect(json_is_null(id) || json_is_string(id) || json_is_number(id));
    if (error)
        expect(json_integer_value(json_object_get(error, "code")) < -31999 &&
               json_is_string(json_object_get(error, "message")));
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    arena_install();
    return 0;
}

/* An id is repeated as it was written, also a number that jansson cannot hold. */
static json_t *read_answer(const struct text *out) {
    static const struct json_limits limits = {RPC_DEPTH, RPC_VALUES, true};
    json_error_t fault;
    json_t *answer = json_loadb(out->at, out->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    const char *why;
    size_t where;
    if (!answer && json_error_code(&fault) == json_error_numeric_overflow)
        answer = json_read(out->at, out->size, &limits, &why, &where);
    return answer;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct text out = {0};
    if (size == 0)
        return 0;
    char *body = malloc(size); /* ends where the bytes do */
    expect(body != NULL);
    memcpy(body, bytes + 1, size - 1);
    int result = rpc_answer(&service, body, bytes[0] & 1 ? body : NULL, body, size - 1, &out);
    expect(!out.failed && (result != 0) == (out.size != 0));
    if (result) {
        json_t *answer = read_answer(&out), *item;
        size_t i;
        expect(answer != NULL);
        if (json_is_array(answer)) {
            expect(json_array_size(answer) > 0 && json_array_size(answer) <= RPC_BATCH);
            json_array_foreach(answer, i, item) check_answer(item);
        } else {
            check_answer(answer);
        }
        json_decref(answer);
    }
    text_free(&out);
    free(body);
    return 0;
}
