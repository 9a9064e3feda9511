/* tx_cmd.c - the command "weft tx": transactions and questions to a node that runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "commands.h"
#include "json_read.h"
#include "options.h"
#include "rpc.h"

#define SECOND INT64_C(1000000000)

static const char me[] = "weft tx";
static const char usage[] =
    "usage: weft tx submit SHARD METHOD [ARG...]    submit one, wait for its receipt, print it\n"
    "       weft tx submit SHARD --file FILE        submit an array of transactions (JSON; - is stdin)\n"
    "       weft tx status|receipt|trace SHARD TX   about a transaction\n"
    "       weft tx block SHARD [NUMBER]            a block; the last one\n"
    "       weft tx state SHARD KEY                 a value\n"
    "       weft tx nonce SHARD SENDER              the last nonce a sender has used, and its next\n"
    "       weft tx shards | shard NAME | info | metrics\n"
    "       weft tx call METHOD [PARAMS]            any method of the node's JSON-RPC\n"
    "       weft tx load [OPTION...]                many transactions, measured\n"
    "\n"
    "An ARG that begins with @ is read from that file; @@ stands for @.  Prints JSON.  Ends with 0; 1 if it failed, or "
    "the node\n"
    "cannot be reached; 2 for a wrong command line.\n";

struct request {
    struct client client;
    const char *url, *token_file, *sender, *executor, *file;
    uint64_t nonce, gas;
    int64_t wait;
    bool no_wait;
};

/* -- Arguments ---------------------------------------------------------------------------------------- */

static bool read_file(const char *path, struct text *out) {
    FILE *file = !strcmp(path, "-") ? stdin : fopen(path, "re");
    size_t n = 1;
    while (file && n) {
        char *at = text_room(out, 65536);
        n = at && out->size < (8u << 20) ? fread(at, 1, 65536, file) : 0;
        out->size += n;
    }
    bool good = file && !ferror(file) && !out->failed;
    if (!good)
        complain(me, "%s: %s", path, file ? "cannot be read" : strerror(errno));
    if (file && file != stdin)
        fclose(file);
    return good;
}

/* A file of transactions, before it becomes part of a request: in the node's messages, positions would be those of the request. */
static bool check_txs(const char *path, const char *bytes, size_t size) {
    static const struct json_limits limits = {RPC_DEPTH - 2, RPC_VALUES, false}; /* it is inside two objects */
    const char *why, *name = !strcmp(path, "-") ? "standard input" : path;
    size_t where, line = 1, begin = 0;
    json_t *json = json_read(bytes, size, &limits, &why, &where);
    bool good = json_is_array(json);
    for (size_t i = 0; !json && i < where; i++)
        if (bytes[i] == '\n') {
            line++;
            begin = i + 1;
        }
    if (!json)
        complain(me, "%s: line %zu, column %zu: %s", name, line, where - begin + 1, why);
    else if (!good)
        complain(me, "%s: not an array of transactions", name);
    json_decref(json);
    return good;
}

static bool put_arg(struct text *out, const char *word) {
    struct text bytes = {0};
    bool file = word[0] == '@' && word[1] != '@';
    if (file && !read_file(word + 1, &bytes))
        return false;
    if (file)
        text_bytes(out, bytes.at ? bytes.at : "", bytes.size);
    else
        text_bytes(out, word + (word[0] == '@'), strlen(word + (word[0] == '@')));
    text_free(&bytes);
    return true;
}

/* JSON on stdout.  jansson leaves DEL and C1 controls (U+0080 ... U+009F) as they are; a terminal might take them for escapes. */
static void print(const json_t *json, size_t flags) {
    char *text = json_dumps(json, JSON_ENCODE_ANY | flags);
    for (const char *at = text; at && *at; at++) {
        unsigned char c = (unsigned char)*at, next = (unsigned char)at[1];
        if (c == 0x7f)
            printf("\\u007f");
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
            printf("\\u%04x", (unsigned char)*++at);
        else
            putchar(c);
    }
    putchar('\n');
    free(text);
}

/* -- Submitting --------------------------------------------------------------------------------------- */

static int next_nonce(struct request *r, const char *shard) {
    struct text params = {0};
    text_put(&params, "{");
    text_name_string(&params, "shard", shard);
    text_name_string(&params, "sender", r->sender);
    text_put(&params, "}");
    text_add(&params, "", 1);
    json_t *answer = params.failed ? NULL : client_call(&r->client, "nonce_get", params.at, r->wait);
    text_free(&params);
    if (!answer && r->client.code != -32602) {
        complain(me, "%s", r->client.why);
        return -EIO;
    }
    r->nonce =
        answer ? (uint64_t)json_integer_value(json_object_get(answer, "next")) : 1; /* a shard that is not there */
    json_decref(answer);
    return 0;
}

static bool build(struct request *r, const char **words, int count, struct text *params) {
    text_put(params, "{");
    text_name_string(params, "shard", words[0]);
    if (!r->no_wait)
        text_name_u64(params, "wait_ms", (uint64_t)r->wait / 1000000 > 30000 ? 30000 : (uint64_t)r->wait / 1000000);
    if (r->file) {
        text_name(params, "txs");
        size_t begin = params->size;
        if (!read_file(r->file, params) || !check_txs(r->file, params->at + begin, params->size - begin))
            return false;
    } else {
        text_name(params, "tx");
        text_put(params, "{");
        text_name_string(params, "executor", r->executor);
        text_name_string(params, "method", words[1]);
        text_name_string(params, "sender", r->sender);
        text_name_u64(params, "nonce", r->nonce);
        if (r->gas)
            text_name_u64(params, "gas", r->gas);
        text_name(params, "args");
        text_put(params, "[");
        for (int i = 2; i < count; i++) {
            text_put(params, i > 2 ? "," : "");
            if (!put_arg(params, words[i]))
                return false;
        }
        text_put(params, "]}");
    }
    text_put(params, "}");
    text_add(params, "", 1);
    return !params->failed;
}

/* Each on a line.  EXIT_GOOD if all went well. */
static int print_receipts(const json_t *answer) {
    int status = EXIT_GOOD;
    size_t i;
    json_t *item, *list = json_object_get(answer, "receipts");
    json_array_foreach(list ? list : json_object_get(answer, "txs"), i, item) {
        print(item, 0);
        const char *state = json_string_value(json_object_get(item, "status"));
        if (list && (!state || strcmp(state, "ok") != 0)) {
            const char *reason = json_string_value(json_object_get(item, "reason"));
            complain(me, "transaction %zu: %s%s%s", i, state ? state : "no status", reason ? ": " : "",
                     reason ? reason : "");
            status = EXIT_BAD;
        }
    }
    return status;
}

static int submit(struct request *r, const char **words, int count) {
    struct text params = {0};
    if (count < (r->file ? 1 : 2)) {
        complain(me, "submit: which shard and method? try %s --help", me);
        return EXIT_USAGE;
    }
    if (r->file && count > 1) {
        complain(me, "submit: --file holds all transactions: '%s' is one word too many", words[1]);
        return EXIT_USAGE;
    }
    if (!r->file && !r->nonce && next_nonce(r, words[0]))
        return EXIT_BAD;
    int status = EXIT_BAD;
    if (build(r, words, count, &params)) {
        json_t *answer = client_call(&r->client, "tx_submit", params.at, r->wait + 5 * SECOND);
        if (answer)
            status = print_receipts(answer);
        else
            complain(me, "%s", r->client.why);
        json_decref(answer);
    }
    text_free(&params);
    return status;
}

/* -- Questions ---------------------------------------------------------------------------------------- */

static const struct question {
    const char *name, *method;
    const char *params[2];
    int least, most;
    bool number; /* the last one is */
} questions[] = {
    {"status", "tx_status", {"shard", "tx"}, 2, 2, false},
    {"receipt", "receipt_get", {"shard", "tx"}, 2, 2, false},
    {"trace", "trace_get", {"shard", "tx"}, 2, 2, false},
    {"block", "block_get", {"shard", "number"}, 1, 2, true},
    {"state", "state_get", {"shard", "key"}, 2, 2, false},
    {"nonce", "nonce_get", {"shard", "sender"}, 2, 2, false},
    {"shards", "shard_list", {"prefix"}, 0, 1, false},
    {"shard", "shard_status", {"shard"}, 1, 1, false},
    {"info", "node_info", {0}, 0, 0, false},
    {"metrics", "node_metrics", {0}, 0, 0, false},
};

static int call(struct request *r, const char *method, const char *params) {
    json_t *answer = client_call(&r->client, method, params, r->wait);
    if (!answer) {
        complain(me, "%s", r->client.why);
        return EXIT_BAD;
    }
    print(answer, JSON_INDENT(2));
    json_decref(answer);
    return EXIT_GOOD;
}

static int ask(struct request *r, const struct question *q, const char **words, int count) {
    struct text params = {0};
    uint64_t number;
    if (count < q->least || count > q->most) {
        complain(me, "%s: %s; try %s --help", q->name, count < q->least ? "something is missing" : "too many words",
                 me);
        return EXIT_USAGE;
    }
    text_put(&params, "{");
    for (int i = 0; i < count; i++) {
        text_name(&params, q->params[i]);
        if (i == 1 && q->number) {
            if (!parse_count(words[i], &number)) {
                complain(me, "%s: '%s' is no number", q->name, words[i]);
                text_free(&params);
                return EXIT_USAGE;
            }
            text_u64(&params, number);
        } else {
            text_bytes(&params, words[i], strlen(words[i]));
        }
    }
    text_put(&params, "}");
    text_add(&params, "", 1);
    int status = params.failed ? EXIT_BAD : call(r, q->method, params.at);
    text_free(&params);
    return status;
}

/* "call METHOD PARAMS". The parameters become part of a larger text: what is wrong with them is found before, with their own positions. */
static int call_given(struct request *r, const char *method, const char *params) {
    char why[160];
    json_t *json = rpc_decode(params, strlen(params), why, sizeof why);
    if (!json) {
        complain(me, "call: the parameters are not JSON: %s", why);
        return EXIT_USAGE;
    }
    json_decref(json);
    return call(r, method, params);
}

static int run(struct request *r, const char **words, int count) {
    if (!strcmp(words[0], "submit"))
        return submit(r, words + 1, count - 1);
    if (!strcmp(words[0], "call") && count >= 2 && count <= 3)
        return call_given(r, words[1], count == 3 ? words[2] : "{}");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (!strcmp(words[0], questions[i].name))
            return ask(r, &questions[i], words + 1, count - 1);
    complain(me, "unknown command '%s'; try %s --help", words[0], me);
    return EXIT_USAGE;
}

/* "load" behind the options that it shares with the others: taken out. */
static bool take_load(int argc, char **argv) {
    static const char *const shared[] = {"-n", "--node", "-t", "--token-file"};
    for (int i = 0, step; i < argc; i += step) {
        step = 0;
        for (size_t k = 0; k < sizeof shared / sizeof *shared && !step; k++) {
            size_t size = strlen(shared[k]);
            if (!strncmp(argv[i], shared[k], size) && (!argv[i][size] || argv[i][size] == '='))
                step = argv[i][size] ? 1 : 2;
        }
        if (!step && !strcmp(argv[i], "load")) {
            memmove(argv + 1, argv, (size_t)i * sizeof *argv);
            return true;
        }
        if (!step)
            break;
    }
    return false;
}

int command_tx(int argc, char **argv) {
    struct request r = {.url = "http://127.0.0.1:7711", .sender = "cli", .executor = "kv", .wait = 10 * SECOND};
    const struct option options[] = {
        {"node", 'n', OPTION_TEXT, &r.url, "URL", "the node (http://127.0.0.1:7711)", 0},
        {"token-file", 't', OPTION_TEXT, &r.token_file, "FILE", "the node's token", 0},
        {"sender", 's', OPTION_TEXT, &r.sender, "NAME", "who sends it (cli)", 0},
        {"executor", 'e', OPTION_TEXT, &r.executor, "NAME", "kv or lua (kv)", 0},
        {"nonce", 0, OPTION_COUNT, &r.nonce, "N", "its nonce (the sender's next)", 0},
        {"gas", 0, OPTION_COUNT, &r.gas, "N", "the most it may use (the node's limit)", 0},
        {"file", 'f', OPTION_TEXT, &r.file, "FILE", "an array of transactions", 0},
        {"wait", 0, OPTION_TIME, &r.wait, "TIME", "how long to wait for an answer (10s)", SECOND},
        {"no-wait", 0, OPTION_FLAG, &r.no_wait, NULL, "print the transaction's id, not its receipt", 0},
        {0},
    };
    const char *words[40];
    if (take_load(argc, argv))
        return command_load(argc - 1, argv + 1);
    int count = options_read(me, usage, options, argc, argv, words, 40);
    if (count == 0)
        complain(me, "submit, or ask what? try %s --help", me);
    if (count <= 0)
        return count == -2 ? EXIT_GOOD : EXIT_USAGE;
    int error = client_open(&r.client, r.url, r.token_file);
    int status = error == -EINVAL ? EXIT_USAGE : EXIT_BAD;
    if (error)
        complain(me, "%s", r.client.why);
    else
        status = run(&r, words, count);
    client_close(&r.client);
    return status;
}
