/* load.c - the command "weft tx load": as many transactions as a node takes, and how fast they become durable.
 *
 * Connections are fibers.  Each has a sender of its own in every shard it writes to, so that their nonces follow one another; it sends one batch,
 * waits for the answer, and goes on with its next shard.  At the end all that was accepted must be in blocks, without a failure: then the rate is
 * what was made durable between the first batch and the last block.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <weft/fiber.h>
#include <weft/nursery.h>

#include "base/atomic.h"
#include "client.h"
#include "commands.h"
#include "options.h"
#include "rpc.h"

#define SECOND INT64_C(1000000000)

static const char me[] = "weft tx load";

struct load {
    const char *url, *token_file, *method;
    uint64_t shards, batch, connections, count;
    int64_t time;
    uint32_t run; /* in senders' names: a run's nonces begin at 1 */
    _Atomic uint64_t sent, retried;
    weft_deadline until;
    char why[512];
};

struct stream {
    struct load *load;
    unsigned index;
};

/* -- One connection ----------------------------------------------------------------------------------- */

static void put_batch(const struct load *load, unsigned index, uint64_t shard, uint64_t nonce, uint64_t count,
                      struct text *out) {
    char sender[64];
    int size = snprintf(sender, sizeof sender, "load-%x-%u", load->run, index);
    out->size = 0;
    text_put(out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":\"load-");
    text_u64(out, shard);
    text_put(out, "\",\"txs\":[");
    for (uint64_t i = 0; i < count; i++) {
        text_put(out, i ? ",{\"method\":\"" : "{\"method\":\"");
        text_put(out, load->method);
        text_put(out, "\",\"sender\":\"");
        text_add(out, sender, (size_t)size);
        text_put(out, "\",\"nonce\":");
        text_u64(out, nonce + i);
        text_put(out, ",\"args\":[\"k");
        text_u64(out, (nonce + i) % 1000);
        text_put(out, "\",\"1\"]}");
    }
    text_put(out, "]}}");
}

/* 0: accepted; 1: the pool is full; a negative error. */
static int judge(struct client *client) {
    static const char good[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":";
    char why[64];
    if (client->body.size > sizeof good && !memcmp(client->body.at, good, sizeof good - 1))
        return 0;
    json_t *answer = rpc_decode(client->body.at, client->body.size, why, sizeof why);
    json_t *error = json_object_get(answer, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    int code = (int)json_integer_value(json_object_get(error, "code"));
    snprintf(client->why, sizeof client->why, "%s (%d)", message ? message : "not an answer of a node", code);
    json_decref(answer);
    return code == RPC_FULL ? 1 : -EPROTO;
}

static int stream_main(void *arg) {
    struct stream *stream = arg;
    struct load *load = stream->load;
    struct client client;
    struct text request = {0};
    uint64_t *nonces = calloc(load->shards, sizeof *nonces);
    int error = nonces ? client_open(&client, load->url, load->token_file) : -ENOMEM;
    for (uint64_t i = stream->index; !error && weft_now() < load->until; i += load->connections) {
        uint64_t shard = i % load->shards;
        uint64_t count = load->batch;
        if (load->count) { /* places are given out; order does not matter */
            uint64_t place = add_relaxed(&load->sent, load->batch);
            uint64_t left = place < load->count ? load->count - place : 0;
            count = left < count ? left : count;
            sub_relaxed(&load->sent, load->batch - count); /* a counter */
        }
        if (!count)
            break;
        put_batch(load, stream->index, shard, nonces[shard] + 1, count, &request);
        do {
            error = request.failed ? -ENOMEM : client_post(&client, request.at, request.size, 30 * SECOND);
            if (!error && (error = judge(&client)) == 1) {
                add_relaxed(&load->retried, 1); /* a counter */
                error = weft_sleep(SECOND / 100) ? -ECANCELED : 1;
            }
        } while (error == 1);
        nonces[shard] += count;
        if (!load->count)
            add_relaxed(&load->sent, count); /* a counter */
    }
    if (error && error != -ECANCELED)
        snprintf(load->why, sizeof load->why, "%s", *client.why ? client.why : weft_strerror(error));
    client_close(&client);
    text_free(&request);
    free(nonces);
    return error;
}

/* -- All of it ---------------------------------------------------------------------------------------- */

struct figures {
    uint64_t ok, failed, blocks, pooled, p50, p99;
};

static int ask_figures(struct client *client, struct figures *out) {
    json_t *answer = client_call(client, "node_metrics", "{}", 10 * SECOND), *latency;
    if (!answer)
        return -EIO;
    latency = json_object_get(answer, "latency_us");
    *out = (struct figures){(uint64_t)json_integer_value(json_object_get(answer, "ok")),
                            (uint64_t)json_integer_value(json_object_get(answer, "failed")),
                            (uint64_t)json_integer_value(json_object_get(answer, "blocks")),
                            (uint64_t)json_integer_value(json_object_get(answer, "pooled")),
                            (uint64_t)json_integer_value(json_object_get(latency, "p50")),
                            (uint64_t)json_integer_value(json_object_get(latency, "p99"))};
    json_decref(answer);
    return 0;
}

static int run(void *arg) {
    struct load *load = arg;
    struct client client;
    struct figures before, after;
    struct stream *streams = calloc(load->connections, sizeof *streams);
    int status = 0, error = streams ? client_open(&client, load->url, load->token_file) : -ENOMEM;
    if (!error)
        error = ask_figures(&client, &before);
    if (error) {
        snprintf(load->why, sizeof load->why, "%s", client.why);
        return error;
    }
    int64_t began = weft_now();
    load->until = weft_after(load->time);
    WEFT_NURSERY(n, &status) {
        for (unsigned i = 0; i < load->connections && !error; i++) {
            streams[i] = (struct stream){load, i};
            error = weft_nursery_go(&n, stream_main, &streams[i], NULL);
        }
    }
    error = error ? error : status;
    uint64_t sent = load_relaxed(&load->sent); /* all have ended */
    weft_deadline until = weft_after(60 * SECOND);
    while (!error && !(error = ask_figures(&client, &after)) &&
           after.ok + after.failed - before.ok - before.failed < sent)
        error = weft_now() > until ? -ETIMEDOUT : weft_sleep(SECOND / 200);
    double seconds = (double)(weft_now() - began) / 1e9;
    if (error && !*load->why)
        snprintf(load->why, sizeof load->why, "%s", weft_strerror(error));
    if (!error)
        printf(
            "{\"txs\":%llu,\"failed\":%llu,\"blocks\":%llu,\"seconds\":%.3f,\"txs_per_s\":%.0f,\"txs_per_block\":%.1f,"
            "\"retries\":%llu,\"p50_us\":%llu,\"p99_us\":%llu}\n",
            (unsigned long long)sent, (unsigned long long)(after.failed - before.failed),
            (unsigned long long)(after.blocks - before.blocks), seconds, (double)sent / seconds,
            (double)sent / (double)(after.blocks > before.blocks ? after.blocks - before.blocks : 1),
            (unsigned long long)load_relaxed(&load->retried), (unsigned long long)after.p50,
            (unsigned long long)after.p99);
    if (!error && after.failed > before.failed)
        error = -EPROTO, snprintf(load->why, sizeof load->why, "some transactions failed");
    client_close(&client);
    free(streams);
    return error;
}

int command_load(int argc, char **argv) {
    static const char usage[] = "usage: weft tx load [OPTION...]\n\n"
                                "Submits transactions over several connections until the time is over or the count "
                                "reached, waits until all are in\n"
                                "blocks, and prints one line of JSON: how many, how fast, and how long each took (of "
                                "all that the node has measured).\n";
    struct load load = {.url = "http://127.0.0.1:7711",
                        .method = "add",
                        .shards = 16,
                        .batch = 100,
                        .connections = 8,
                        .time = 5 * SECOND};
    const struct option options[] = {
        {"node", 'n', OPTION_TEXT, &load.url, "URL", "the node (http://127.0.0.1:7711)", 0},
        {"token-file", 't', OPTION_TEXT, &load.token_file, "FILE", "the node's token", 0},
        {"method", 'm', OPTION_TEXT, &load.method, "NAME", "add or set, of kv (add)", 0},
        {"shards", 0, OPTION_COUNT, &load.shards, "N", "over so many shards (16)", 0},
        {"batch", 'b', OPTION_COUNT, &load.batch, "N", "transactions in a request (100)", 0},
        {"connections", 'c', OPTION_COUNT, &load.connections, "N", "at once (8)", 0},
        {"time", 0, OPTION_TIME, &load.time, "TIME", "for so long (5s)", SECOND},
        {"count", 0, OPTION_COUNT, &load.count, "N", "at most so many transactions (no limit)", 0},
        {0},
    };
    const char *words[1];
    int count = options_read(me, usage, options, argc, argv, words, 0);
    if (count < 0)
        return count == -2 ? EXIT_GOOD : EXIT_USAGE;
    if (!load.shards || load.shards > 100000 || !load.batch || load.batch > 4096 || !load.connections ||
        load.connections > 10000) {
        complain(me, "shards (100000), batch (4096) and connections (10000) are at least 1, and not too many");
        return EXIT_USAGE;
    }
    if (getrandom(&load.run, sizeof load.run, 0) < 0)
        load.run = 1;
    int error = weft_fiber_run(NULL, run, &load, NULL);
    if (error)
        complain(me, "%s", *load.why ? load.why : weft_strerror(error));
    return error ? EXIT_BAD : EXIT_GOOD;
}
