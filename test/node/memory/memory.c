/* memory.c - every allocation of a node fails once, and all from there on: a clear error or a closed connection, no crash, no leak.
 *
 *     weft-node-memory [EVERY]
 *
 * The whole node runs in this process (command_node), with malloc as below.  For each request the nth allocation of the node's threads fails, for every n (or every
 * EVERY-th) until there are no so many; the answer must be JSON, or none; afterwards the node must answer as before, and what it said was durable must be there.  When it has
 * ended, no more memory may be left than after the same requests without failures.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arena.h"
#include "commands.h"

/* -- Memory -------------------------------------------------------------------------------------------------------------- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *memory);

static atomic_bool armed, persistent;
static atomic_long counted, fail_at, live;
static _Thread_local bool is_client;

static bool fails(void) {
    if (!atomic_load(&armed) || is_client)
        return false;
    long mine = atomic_fetch_add(&counted, 1), at = atomic_load(&fail_at);
    bool failing = mine == at || (mine > at && atomic_load(&persistent));
    if (failing)
        errno = ENOMEM;
    return failing;
}

static void *count_in(void *memory) {
    if (memory)
        atomic_fetch_add(&live, 1);
    return memory;
}

__attribute__((visibility("default"))) void *malloc(size_t size) {
    return fails() ? NULL : count_in(__libc_malloc(size));
}
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
    return fails() ? NULL : count_in(__libc_calloc(count, size));
}
__attribute__((visibility("default"))) void *realloc(void *memory, size_t size) {
    if (!memory)
        return malloc(size);
    return fails() ? NULL : __libc_realloc(memory, size);
}
__attribute__((visibility("default"))) void *aligned_alloc(size_t align, size_t size) {
    return fails() ? NULL : count_in(__libc_memalign(align, size));
}
__attribute__((visibility("default"))) int posix_memalign(void **out, size_t align, size_t size) {
    void *memory = aligned_alloc(align, size);
    *out = memory ? memory : *out;
    return memory ? 0 : ENOMEM;
}
__attribute__((visibility("default"))) void free(void *memory) {
    if (memory)
        atomic_fetch_sub(&live, 1);
    __libc_free(memory);
}

/* -- The node ------------------------------------------------------------------------------------------------------------- */

static int port, failures, passed;
static char answer[1 << 20];
static size_t answer_size;

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "FAIL ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    failures++;
}

static void *node(void *unused) {
    (void)unused;
    static char *words[] = {"--memory", "--listen", "127.0.0.1:0", "--workers", "1", "--shard-workers", "1"};
    return (void *)(intptr_t)command_node(7, words);
}

/* Its address is the first line it prints. */
static pthread_t start(void) {
    int ends[2], before = dup(1);
    char line[200] = "";
    pthread_t thread;
    if (pipe(ends) || dup2(ends[1], 1) < 0 || pthread_create(&thread, NULL, node, NULL))
        abort();
    for (size_t size = 0; size < sizeof line - 1 && !strchr(line, '\n');)
        if (read(ends[0], line + size++, 1) != 1)
            abort();
    char *colon = strstr(line, "127.0.0.1:");
    port = colon ? atoi(colon + 10) : 0;
    while (!strstr(line, "state_get")) { /* the last line it prints: only then may stdout be ours again */
        for (size_t size = 0; (size == 0 || line[size - 1] != '\n'); size++) {
            char byte;
            if (read(ends[0], &byte, 1) != 1)
                abort();
            line[size = size < sizeof line - 2 ? size : sizeof line - 3] = byte;
            line[size + 1] = 0;
        }
    }
    dup2(before, 1);
    close(before), close(ends[0]), close(ends[1]);
    return thread;
}

static void stop(pthread_t thread) {
    void *status;
    kill(getpid(), SIGTERM);
    pthread_join(thread, &status);
    if (status)
        fail("the node ended with %d", (int)(intptr_t)status);
}

/* -- Requests ------------------------------------------------------------------------------------------------------------- */

/* What came within so many ms, or until it was closed.  -1: it is still open, and not all is there. */
static int receive(int fd, int ms) {
    for (;;) {
        char *body = strstr(answer, "\r\n\r\n"), *length = strcasestr(answer, "content-length: ");
        if (body && length && answer_size >= (size_t)(body + 4 - answer) + (size_t)atol(length + 16))
            return 1;
        if (body && strstr(answer, "204 No Content"))
            return 1;
        if (body && strstr(answer, "text/event-stream"))
            return 1;
        struct pollfd poller = {fd, POLLIN, 0};
        if (poll(&poller, 1, ms) <= 0)
            return -1;
        ssize_t got = recv(fd, answer + answer_size, sizeof answer - answer_size - 1, 0);
        if (got <= 0)
            return 0;
        answer_size += (size_t)got;
        answer[answer_size] = 0;
    }
}

/* Ask, with memory failing from the nth allocation on (-1: never). */
static int ask(const char *head, const char *body, size_t size, long nth, bool all) {
    static char text[1 << 20];
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int length = snprintf(text, sizeof text,
                          "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
                          "application/json\r\nContent-Length: %zu\r\n\r\n",
                          head, size);
    memcpy(text + length, body, size);
    answer_size = 0, answer[0] = 0;
    atomic_store(&counted, 0), atomic_store(&fail_at, nth), atomic_store(&persistent, all);
    atomic_store(&armed, nth >= 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr))
        abort();
    ssize_t sent = send(fd, text, (size_t)length + size, MSG_NOSIGNAL);
    int got = sent < 0 ? 0 : receive(fd, nth >= 0 ? 300 : 20000);
    atomic_store(&armed, false);
    if (got < 0) /* it waits for memory, or is slow: now there is some */
        got = receive(fd, 20000);
    close(fd);
    return got;
}

struct request {
    const char *head, *body; /* %d: a number that no other request has */
};
static const struct request requests[] = {
    {"POST /", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"node_info\"}"},
    {"POST /", "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"node_metrics\",\"params\":{}}"},
    {"POST /", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shard_list\",\"params\":[\"\",\"\",5]}"},
    {"POST /",
     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":\"known\",\"wait_ms\":60,\"tx\":"
     "{\"method\":\"set\",\"sender\":\"s%d\",\"nonce\":1,\"args\":[\"key%d\",\"value\"]}}}"},
    {"POST /",
     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":\"new%d\",\"wait_ms\":60,\"txs\":["
     "{\"method\":\"set\",\"sender\":\"a\",\"nonce\":1,\"args\":[\"key\",{\"hex\":\"00ff\"}]},"
     "{\"method\":\"add\",\"sender\":\"b\",\"nonce\":1,\"args\":[\"n\",7]}]}}"},
    {"POST /",
     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":\"known\",\"wait_ms\":60,\"tx\":"
     "{\"executor\":\"lua\",\"method\":\"deploy\",\"sender\":\"l%d\",\"nonce\":1,\"args\":[\"c%d\",\"function f() "
     "put('k', 1) return {1, "
     "{a = 2}} end\"]}}}"},
    {"POST /",
     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":\"known\",\"wait_ms\":60,\"tx\":"
     "{\"executor\":\"lua\",\"method\":\"invoke\",\"sender\":\"i%d\",\"nonce\":1,\"args\":[\"contract\",\"f\"]}}}"},
    {"POST /", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"state_get\",\"params\":[\"known\",\"key\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"block_get\",\"params\":[\"known\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"nonce_get\",\"params\":[\"known\",\"me\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"shard_status\",\"params\":[\"known\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"receipt_get\",\"params\":[\"known\",\"@\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"trace_get\",\"params\":[\"known\",\"@\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tx_status\",\"params\":[\"known\",\"@\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"events_subscribe\",\"params\":[\"known\"]},"
               "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"none\"},7]"},
    {"POST /", "{\"jsonrpc\":\"2.0\",\"method\":\"node_info\"}"},
    {"POST /", "[[[[\"not json"},
    {"GET /", ""},
    {"GET /metrics", ""},
    {"GET /events?shard=known", ""},
    {"GET /nothing", ""},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

static char first_id[65];
static int serial;

/* Numbers for %d, the first transaction's id for @. */
static size_t fill(const char *body, char *out, size_t room) {
    size_t size = 0;
    for (; *body && size + 70 < room; body++)
        if (body[0] == '%' && body[1] == 'd')
            size += (size_t)sprintf(out + size, "%d", serial), body++;
        else if (*body == '@')
            size += (size_t)sprintf(out + size, "%s", first_id);
        else
            out[size++] = *body;
    out[size] = 0;
    return size;
}

static void prepare(void) {
    char body[2000];
    serial++;
    static const char *const first[] = {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":"
                                        "\"known\",\"wait_ms\":9000,\"tx\":{\"method\":\"set\","
                                        "\"sender\":\"me\",\"nonce\":1,\"args\":[\"key\",\"v\"]}}}",
                                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tx_submit\",\"params\":{\"shard\":"
                                        "\"known\",\"wait_ms\":9000,\"tx\":{\"executor\":\"lua\","
                                        "\"method\":\"deploy\",\"sender\":\"me\",\"nonce\":2,\"args\":[\"contract\","
                                        "\"function f() put('k', 1) emit('e', 'v') return {1, {a = 2}} "
                                        "end\"]}}}"};
    for (int i = 0; i < 2; i++) {
        if (ask("POST /", body, fill(first[i], body, sizeof body), -1, false) != 1 ||
            !strstr(answer, "\"status\":\"ok\""))
            fail("the first transactions: %s", answer);
        if (i == 0)
            snprintf(first_id, sizeof first_id, "%.64s", strstr(answer, "\"tx\":\"") + 6);
    }
}

/* An answer is whole JSON as far as its brackets say, or not a 200. */
static bool is_answer(void) {
    const char *body = strstr(answer, "\r\n\r\n");
    int depth = 0;
    if (!body || strncmp(answer, "HTTP/1.1 ", 9))
        return false;
    if (strncmp(answer + 9, "200", 3) || !strstr(answer, "application/json"))
        return true;
    for (bool text = false; *body; body++)
        if (*body == '"' && body[-1] != '\\')
            text = !text;
        else if (!text)
            depth += (*body == '{' || *body == '[') - (*body == '}' || *body == ']');
    return depth == 0;
}

static void check_after(const struct request *request, long nth, bool durable) {
    char body[2000];
    if (ask("POST /", requests[0].body, strlen(requests[0].body), -1, false) != 1 || !strstr(answer, "\"uptime_ms\""))
        fail("%s: after allocation %ld the node does not answer: %s", request->body, nth, answer);
    if (durable && request == &requests[3]) {
        const char *read = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"state_get\",\"params\":[\"known\",\"key%d\"]}";
        ask("POST /", body, fill(read, body, sizeof body), -1, false);
        if (!strstr(answer, "\"result\":\"value\""))
            fail("%s: allocation %ld: it was acknowledged, and is not there", request->body, nth);
    }
    passed++;
}

/* How many times it was asked. */
static long sweep(const struct request *request, bool all, long every, bool failing) {
    char body[2000];
    long nth = 0, times = 0;
    for (bool reached = true; reached && failures < 20 && nth < 4000; nth += every, times++) {
        serial++;
        size_t size = fill(request->body, body, sizeof body);
        int got = ask(request->head, body, size, failing ? nth : 1000000, all);
        reached = atomic_load(&counted) > nth;
        if (got < 0)
            fail("%s: allocation %ld: neither an answer nor an end", request->body, nth);
        if (got == 1 && !is_answer())
            fail("%s: allocation %ld: %s", request->body, nth, answer);
        check_after(request, nth, got == 1 && strstr(answer, "\"status\":\"ok\""));
    }
    return times;
}

/* The memory that is left behind after all requests, with or without failures. */
static long left_after(bool failing, long every, long *points) {
    long before = atomic_load(&live);
    pthread_t thread = start();
    prepare();
    for (int all = 0; all < 2; all++)
        for (int i = 0; i < REQUESTS; i++)
            *points += sweep(&requests[i], all, failing ? every : 1 << 20, failing);
    stop(thread);
    return atomic_load(&live) - before;
}

int main(int argc, char **argv) {
    long every = argc > 1 ? atol(argv[1]) : 1, points = 0, none = 0;
    is_client = true;
    arena_install();
    left_after(false, 1, &none); /* what is made once */
    long without = left_after(false, 1, &none), with = left_after(true, every, &points);
    printf("%ld allocations of %d requests failed; %ld blocks were left without failures, %ld with\n", points, REQUESTS,
           without, with);
    if (with > without + 8)
        fail("memory is lost");
    if (points < 400 / every)
        fail("hardly any allocation was found");
    printf("%d passed, %d failed\n", passed, failures);
    return failures > 0;
}
