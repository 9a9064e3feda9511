/* node.c - the command "weft node": from the command line to a node that runs, and to its end.
 *
 * The end.  SIGTERM, Ctrl-C or the end of its terminal (SIGHUP, unless nohup): no more transactions are taken, those in the pools get DRAIN to run, while reads go on; then requests under way
 * get a little more, and the store is closed.  A second signal ends the process at once, which loses nothing that was acknowledged.
 */
#include "node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <weft/blocking.h>
#include <weft/fiber.h>
#include <weft/nursery.h>
#include <weft/signal.h>

#include "commands.h"
#include "options.h"

#define SECOND INT64_C(1000000000)
#define DRAIN_MS 20000
#define OTHER_DESCRIPTORS 64 /* beside connections and shards */
#define LINGER (5 * SECOND) /* for requests under way, after that: 25 s in all, and 5 to close */

static const char me[] = "weft node";

struct start {
    struct node *node;
    weft_io *listener;
    weft_signals *signals; /* SIGINT, SIGTERM and SIGHUP */
    unsigned connections, per_address;
    bool drained;
};

/* -- Parts that run along ----------------------------------------------------------------------------- */

/* On a lane's thread. */
static void told(void *arg, weft_shard *shard, const struct ledger_block *block, const struct ledger_receipt *receipts,
                 size_t count) {
    struct node *node = arg;
    weft_shard_info info;
    ledger_shard_info(shard, &info);
    meter_told(&node->meter, receipts, count);
    waiters_told(&node->waiters, receipts, count);
    feed_block(&node->feed, info.name, block, receipts, count);
}

static int run_context(void *arg) {
    struct node *node = arg;
    weft_block_env env = {0};
    int error = 0;
    while (error != -ECANCELED) {
        bool failed_before = load_relaxed(&node->context.failures) > 0; /* written by this fiber */
        error = context_poll(&node->context, &env);
        if (!error)
            weft_lane_set_env(ledger_lane(node->ledger), &env);
        else if (error != -ECANCELED && !failed_before)
            complain(me, "block context: %s; going on with the last one", node->context.why);
        if (error != -ECANCELED)
            error = weft_sleep(node->context.every);
    }
    return 0;
}

static int run_ticker(void *arg) {
    struct node *node = arg;
    struct text json = {0};
    while (weft_sleep(SECOND) == 0) {
        struct node_totals totals;
        struct meter_second second;
        node_totals(node, &totals);
        meter_tick(&node->meter, totals.pooled, (uint64_t)time(NULL), &second);
        json.size = 0;
        meter_second_json(&second, &json);
        if (json.failed)
            continue;
        json.size--; /* the bracket */
        text_name_u64(&json, "shards", totals.shards);
        text_name_u64(&json, "running", totals.running);
        text_name_u64(&json, "pending", totals.pending);
        text_name_u64(&json, "stopped", totals.stopped);
        text_put(&json, "}");
        feed_stats(&node->feed, json.at, json.size);
    }
    text_free(&json);
    return 0;
}

static int run_server(void *arg) {
    struct start *start = arg;
    weft_http_options options = WEFT_HTTP_OPTIONS_INIT;
    options.max_body = NODE_BODY;
    options.drain = LINGER;
    options.stack_size = NODE_STACK;
    options.max_connections = start->connections;
    options.max_per_address = start->per_address;
    options.close_waiting = true;
    options.server = "weft";
    int error = weft_http_serve(start->listener, &options, node_handle, start->node);
    if (error == -ECANCELED)
        return 0;
    complain(me, "cannot serve any more: %s", weft_strerror(error));
    kill(getpid(), SIGTERM); /* what is in the pools is finished all the same */
    return error;
}

/* -- The end ------------------------------------------------------------------------------------------ */

static int drain(void *arg) {
    struct start *start = arg;
    start->drained = ledger_drain(start->node->ledger, DRAIN_MS);
    return 0;
}

/* Tell the one who started us (systemd's notify protocol): a datagram, if there is an address for it. */
static void notify(const char *text) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof addr.sun_path)
        return;
    memcpy(addr.sun_path, path, strlen(path));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        addr.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr, size) < 0)
        complain(me, "cannot notify %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static int run(void *arg) {
    struct start *start = arg;
    struct node *node = start->node;
    int status, ignored;
    WEFT_NURSERY(all, &status) {
        int error = weft_nursery_go(&all, run_server, start, NULL);
        if (!error)
            error = weft_nursery_go(&all, run_context, node, NULL);
        if (!error)
            error = weft_nursery_go(&all, run_ticker, node, NULL);
        if (!error) {
            notify("READY=1");
            int number = weft_signal_wait(start->signals, WEFT_NEVER);
            if (number > 0) {
                struct node_totals totals;
                weft_signal_close(start->signals); /* the next does what it does to any process */
                start->signals = NULL;
                notify("STOPPING=1");
                store_relaxed(&node->stopping, true); /* only shown */
                node_totals(node, &totals);
                complain(me, "%s: finishing %llu transactions; once more to stop at once",
                         number == SIGINT   ? "interrupted"
                         : number == SIGHUP ? "the terminal is gone"
                                            : "asked to stop",
                         (unsigned long long)totals.pooled);
                if (weft_blocking(drain, start, &ignored, WEFT_NEVER))
                    start->drained = false;
            }
        }
        feed_end(&node->feed);
        weft_nursery_cancel(&all);
    }
    return status == -ECANCELED ? 0 : status;
}

/* -- The beginning ------------------------------------------------------------------------------------ */

/* "PORT", ":PORT" (all addresses), "HOST:PORT", "[HOST]:PORT". */
static int parse_address(const char *text, weft_addr *out) {
    char host[64] = "127.0.0.1";
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!parse_count(colon ? colon + 1 : text, &port) || port > 65535)
        return -EINVAL;
    if (colon) {
        bool bracket = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
        size_t size = (size_t)(colon - text) - (bracket ? 2 : 0);
        if (size >= sizeof host)
            return -EINVAL;
        memcpy(host, text + bracket, size);
        host[size] = 0;
        if (!size)
            memcpy(host, "0.0.0.0", 8);
        else if (!strcmp(host, "localhost"))
            memcpy(host, "127.0.0.1", 10);
    }
    return weft_addr_parse(host, (int)port, out);
}

static int open_listener(struct node *node, const char *listen, const char *token_file, weft_io **out) {
    weft_addr addr;
    char why[320];
    if (parse_address(listen, &addr)) {
        complain(me, "--listen: '%s' is no address; expected HOST:PORT or PORT, with a numeric host", listen);
        return EXIT_USAGE;
    }
    node->auth.needed = token_file || !auth_is_loopback(&addr);
    if (!token_file && node->auth.needed) {
        complain(me, "--listen %s: others can reach it, so it needs a token for what writes: --token-file FILE",
                 listen);
        return EXIT_USAGE;
    }
    if (token_file && auth_read_token(&node->auth, token_file, why, sizeof why)) {
        complain(me, "--token-file: %s", why);
        return EXIT_BAD;
    }
    int error = weft_listen(&addr, NULL, out);
    if (error) {
        complain(me, "cannot listen on %s: %s", listen,
                 error == -EADDRINUSE ? "the port is taken; --listen names another" : weft_strerror(error));
        return EXIT_BAD;
    }
    weft_local_addr(*out, &addr);
    weft_addr_format(&addr, node->address, sizeof node->address);
    return EXIT_GOOD;
}

/* The commands work also when the store is not new: the nonce is the next. */
static void announce(const struct node *node, const struct ledger_config *config, const char *token_file) {
    const char *before = token_file ? " -H \"Authorization: Bearer $(cat '" : "", *after = token_file ? "')\"" : "";
    bool known = weft_shard_find(ledger_lane(node->ledger), "demo") != NULL;
    uint64_t nonce = known ? ledger_nonce(node->ledger, "demo", "me") + 1 : 1;
    printf("weft node %s: http://%s/ (%s, %u shard workers)\n", weft_version(), node->address,
           config->dir ? config->dir : "in memory", weft_lane_workers(ledger_lane(node->ledger)));
    /* Without --json, which curl has only since 7.82. */
    printf(
        "try:\n"
        "  curl%s%s%s -H 'Content-Type: application/json' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\","
        "\"params\":{\"shard\":\"demo\",\"wait_ms\":1000,\"tx\":{\"method\":\"set\",\"sender\":\"me\",\"nonce\":%llu,"
        "\"args\":[\"greeting\",\"hello\"]}}}' http://%s/\n"
        "  curl -H 'Content-Type: application/json' -d '{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"state_get\","
        "\"params\":{\"shard\":\"demo\",\"key\":\"greeting\"}}' http://%s/\n",
        before, token_file ? token_file : "", after, (unsigned long long)nonce, node->address, node->address);
    fflush(stdout);
    clearerr(stdout); /* a node that nobody listens to works all the same */
}

static int run_node(struct node *node, struct ledger_config *config, weft_config *runtime, weft_io *listener,
                    unsigned connections, unsigned per_address, const char *token_file) {
    char why[256] = "";
    struct start start = {
        .node = node, .listener = listener, .drained = true, .connections = connections, .per_address = per_address};
    config->told = told;
    config->arg = node;
    node->dir = config->dir;
    node->started = weft_now();
    node->started_at = (uint64_t)time(NULL);
    signal(SIGPIPE, SIG_IGN); /* what it prints to may go */
    struct sigaction hangup;
    bool nohup = sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
    int error = weft_signal_open((const int[]){SIGINT, SIGTERM, SIGHUP}, nohup ? 2 : 3, &start.signals);
    if (!error)
        error = feed_open(&node->feed);
    if (!error && (error = ledger_open(config, &node->ledger, why, sizeof why)))
        complain(me, "%s: %s", config->dir ? config->dir : "memory",
                 *why              ? why
                 : error == -EBUSY ? "another node uses this directory"
                                   : weft_strerror(error));
    else if (error)
        complain(me, "cannot start: %s", weft_strerror(error));
    if (!error) {
        announce(node, config, token_file);
        error = weft_fiber_run(runtime, run, &start, NULL);
        if (error)
            complain(me, "%s", weft_strerror(error));
        ledger_close(node->ledger);
        if (!start.drained)
            complain(me, "stopped; some transactions had no turn and are lost: none of them was acknowledged");
        else if (!error)
            complain(me, "stopped");
    }
    feed_close(&node->feed);
    weft_signal_close(start.signals);
    return error ? EXIT_BAD : EXIT_GOOD;
}

static const char usage[] =
    "usage: weft node [OPTION...]           run a node\n"
    "       weft node verify DIR            check every chain of a store\n"
    "       weft node export DIR [SHARD]    print a store as JSON lines\n"
    "\n"
    "A node takes transactions over JSON-RPC, runs those of each shard in order, and keeps blocks durably.\n"
    "It listens on this machine only, unless told otherwise; then whatever writes needs a token.\n";

int command_node(int argc, char **argv) {
    const char *data = NULL, *listen = "127.0.0.1:7711", *token_file = NULL, *source = "wall";
    uint64_t connections = 1000, shard_workers = 0, workers = 0, pool = 0, batch = 0, shards = 0, map = 0, gas = 0,
             lua = 0, pool_bytes = 0, total_bytes = 0, per_address = 0;
    int64_t quantum = WEFT_LANE_QUANTUM, every = 12 * SECOND;
    bool memory = false;
    struct option_many hosts = {.count = 0};
    const struct option options[] = {
        {"data", 'd', OPTION_TEXT, &data, "DIR", "the store (data)", 0},
        {"memory", 0, OPTION_FLAG, &memory, NULL, "no store: everything is lost at the end", 0},
        {"listen", 'l', OPTION_TEXT, &listen, "ADDR", "HOST:PORT or PORT (127.0.0.1:7711); port 0: a free one", 0},
        {"token-file", 't', OPTION_TEXT, &token_file, "FILE", "the token for what writes; mode 0600", 0},
        {"host", 0, OPTION_MANY, &hosts, "NAME", "a name by which the node may be asked, beside numeric addresses", 0},
        {"shard-workers", 'w', OPTION_COUNT, &shard_workers, "N",
         "threads that run shards (usable CPUs, 4 times as many with a store)", 0},
        {"shards-workers", 0, OPTION_COUNT, &shard_workers, "N", "the same", 0},
        {"workers", 0, OPTION_COUNT, &workers, "N", "threads that answer requests (usable CPUs)", 0},
        {"max-connections", 0, OPTION_COUNT, &connections, "N", "at once; for more, those that wait are closed (1000)",
         0},
        {"max-per-address", 0, OPTION_COUNT, &per_address, "N", "the same of one address (half of --max-connections)",
         0},
        {"quantum", 'q', OPTION_TIME, &quantum, "MS", "a shard's turn (100ms); 0: one batch", 1000000},
        {"max-pool", 0, OPTION_COUNT, &pool, "N", "transactions that wait in a shard (100000)", 0},
        {"max-pool-bytes", 0, OPTION_SIZE, &pool_bytes, "SIZE", "memory of the transactions that wait in a shard (64M)",
         0},
        {"max-total-bytes", 0, OPTION_SIZE, &total_bytes, "SIZE", "the same for all shards together (512M)", 0},
        {"max-batch", 0, OPTION_COUNT, &batch, "N", "transactions in a block (4096)", 0},
        {"max-shards", 0, OPTION_COUNT, &shards, "N", "shards (16384)", 0},
        {"map-size", 0, OPTION_SIZE, &map, "SIZE", "the most a shard's store may grow to (1G)", 0},
        {"gas", 0, OPTION_COUNT, &gas, "N", "of a transaction, at most and by default (10000000)", 0},
        {"lua-memory", 0, OPTION_SIZE, &lua, "SIZE", "of a contract (8M)", 0},
        {"context", 'c', OPTION_TEXT, &source, "SOURCE", "block context: wall, file:PATH or http://URL (wall)", 0},
        {"context-every", 0, OPTION_TIME, &every, "TIME", "how often it is asked for (12s)", SECOND},
        {0},
    };
    const char *words[1];
    if (argc && !strcmp(argv[0], "verify"))
        return command_verify(argc - 1, argv + 1);
    if (argc && !strcmp(argv[0], "export"))
        return command_export(argc - 1, argv + 1);
    int count = options_read(me, usage, options, argc, argv, words, 0);
    if (count < 0)
        return count == -2 ? EXIT_GOOD : EXIT_USAGE;
    struct node *node = calloc(1, sizeof *node);
    struct ledger_config config = {.dir = memory ? NULL
                                          : data ? data
                                                 : "data",
                                   .workers = (unsigned)shard_workers,
                                   .quantum = quantum,
                                   .max_pool = pool,
                                   .max_pool_bytes = pool_bytes,
                                   .max_total_bytes = total_bytes,
                                   .max_batch = batch,
                                   .max_shards = shards,
                                   .map_size = map,
                                   .gas_limit = gas,
                                   .lua_memory = lua};
    config.other_descriptors = connections + OTHER_DESCRIPTORS;
    weft_config runtime = WEFT_CONFIG_INIT;
    runtime.workers = (unsigned)workers;
    runtime.name = "rpc";
    weft_io *listener = NULL;
    int status = node ? EXIT_GOOD : EXIT_BAD;
    if (!node)
        complain(me, "no memory");
    else if (memory && data)
        status = (complain(me, "--memory keeps nothing: it cannot be given with --data"), EXIT_USAGE);
    else if (data && !*data)
        status = (complain(me, "--data: the name of a directory is missing"), EXIT_USAGE);
    else if (shard_workers > 1024 || workers > 1024)
        status = (complain(me, "at most 1024 workers"), EXIT_USAGE);
    else if (connections == 0 || connections > 1000000)
        status = (complain(me, "--max-connections: 1 to 1000000"), EXIT_USAGE);
    else if (per_address > connections)
        status = (complain(me, "--max-per-address: at most --max-connections"), EXIT_USAGE);
    else if (context_parse(&node->context, source))
        status =
            (complain(me, "--context: '%s' is not wall, file:PATH or http://HOST[:PORT][/PATH]", source), EXIT_USAGE);
    else if (every < SECOND / 1000)
        status = (complain(me, "--context-every: at least 1ms"), EXIT_USAGE);
    else {
        node->context.every = every;
        for (unsigned i = 0; i < hosts.count; i++)
            node->auth.hosts[node->auth.host_count++] = hosts.values[i];
        status = open_listener(node, listen, token_file, &listener);
        if (status == EXIT_GOOD)
            status = run_node(node, &config, &runtime, listener, (unsigned)connections,
                              (unsigned)(per_address ? per_address : (connections + 1) / 2), token_file);
    }
    weft_close(listener);
    free(node);
    return status;
}
