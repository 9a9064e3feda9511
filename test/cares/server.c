/* server.c - the name server of the tests (server.h says what it answers). */
#define _GNU_SOURCE
#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

enum { A = 1, CNAME = 5, AAAA = 28, HELD_MAX = 600, ANSWER_MAX = 1500 };

/* A question: its bytes, and who asked. */
struct question {
    unsigned char bytes[512];
    size_t size;
    struct sockaddr_in from;
    char label[64]; /* the first of the name */
    int type;
};

struct answer {
    unsigned char bytes[ANSWER_MAX];
    size_t size;
};

/* -- Reading ---------------------------------------------------------------------------------------------------- */

/* False: not a question. */
static bool parse(struct question *q) {
    size_t at = 12;
    if (q->size < 17 || q->bytes[at] == 0 || q->bytes[at] > 63 || at + q->bytes[at] + 5 > q->size)
        return false;
    memcpy(q->label, q->bytes + at + 1, q->bytes[at]);
    q->label[q->bytes[at]] = 0;
    while (at < q->size && q->bytes[at])
        at += 1u + q->bytes[at];
    if (at + 5 > q->size)
        return false;
    q->type = q->bytes[at + 1] << 8 | q->bytes[at + 2];
    q->size = at + 5; /* without what follows, such as EDNS */
    return true;
}

/* -- Answering --------------------------------------------------------------------------------------------------- */

static void begin_answer(struct answer *a, const struct question *q, int code, bool truncated) {
    memcpy(a->bytes, q->bytes, q->size);
    a->size = q->size;
    a->bytes[2] = (unsigned char)(0x81 | (truncated ? 2 : 0)); /* an answer, recursion desired */
    a->bytes[3] = (unsigned char)(0x80 | code);
    memset(a->bytes + 4, 0, 8);
    a->bytes[5] = 1; /* the question */
}

static void record(struct answer *a, int type, const void *data, size_t size) {
    unsigned char head[] = {0xc0, 12, 0, (unsigned char)type, 0, 1, 0, 0, 0, 60, 0, (unsigned char)size};
    memcpy(a->bytes + a->size, head, sizeof head);
    memcpy(a->bytes + a->size + sizeof head, data, size);
    a->size += sizeof head + size;
    a->bytes[7]++;
}

static void record_v4(struct answer *a, int last) {
    unsigned char address[4] = {127, 0, 0, (unsigned char)last};
    record(a, A, address, 4);
}
static void record_v6(struct answer *a, int last) {
    unsigned char address[16] = {0};
    address[15] = (unsigned char)last;
    record(a, AAAA, address, 16);
}

static bool is(const struct question *q, const char *label) { return strcmp(q->label, label) == 0; }

/* False: say nothing. */
static bool answer(const struct question *q, bool tcp, struct answer *a) {
    int number = q->label[0] == 'n' ? atoi(q->label + 1) : 0;
    begin_answer(a, q, 0, false);
    if (is(q, "silent") || (is(q, "cut") && tcp))
        return false;
    if (is(q, "none") || is(q, "fail") || is(q, "refuse")) {
        begin_answer(a, q, is(q, "none") ? 3 : is(q, "fail") ? 2 : 5, false);
    } else if ((is(q, "long") || is(q, "cut")) && !tcp) {
        begin_answer(a, q, 0, true);
    } else if (is(q, "long") || is(q, "many")) {
        for (int i = 1; i <= 12 && q->type == A; i++)
            record_v4(a, i);
    } else if (is(q, "noise")) {
        a->bytes[0] ^= 0x55;
    } else if (is(q, "garbage")) {
        record_v4(a, 1);
        a->size -= 7;
    } else if (is(q, "alias")) {
        static const unsigned char name[] = {4, 'f', 'o', 'u', 'r', 4, 't', 'e', 's', 't', 0};
        record(a, CNAME, name, sizeof name);
        if (q->type == A) { /* of that name, whose place is in the record before */
            size_t at = a->size;
            record_v4(a, 1);
            a->bytes[at] = (unsigned char)(0xc0 | (at - sizeof name) >> 8);
            a->bytes[at + 1] = (unsigned char)(at - sizeof name);
        }
    } else if (number > 0) {
        q->type == A ? record_v4(a, number) : record_v6(a, number);
    } else if (q->type == A && (is(q, "four") || is(q, "both") || is(q, "late"))) {
        record_v4(a, 1);
    } else if (q->type == AAAA && (is(q, "six") || is(q, "both"))) {
        record_v6(a, 1);
    } else if (!is(q, "four") && !is(q, "six") && !is(q, "both") && !is(q, "late")) {
        begin_answer(a, q, 3, false);
    }
    return true;
}

/* -- The thread ---------------------------------------------------------------------------------------------------- */

static void reply(struct server *server, const struct question *q) {
    struct answer a;
    if (answer(q, false, &a))
        sendto(server->udp, a.bytes, a.size, 0, (const struct sockaddr *)&q->from, sizeof q->from);
}

static void serve_udp(struct server *server, struct question *held) {
    struct question q;
    socklen_t room = sizeof q.from;
    ssize_t n = recvfrom(server->udp, q.bytes, sizeof q.bytes, MSG_DONTWAIT, (struct sockaddr *)&q.from, &room);
    if (n <= 0)
        return;
    q.size = (size_t)n;
    if (!parse(&q))
        return;
    atomic_fetch_add(&server->asked, 1);
    unsigned count = atomic_load(&server->held);
    if (is(&q, "late") && count < HELD_MAX) {
        held[count] = q;
        atomic_store(&server->held, count + 1);
    } else {
        reply(server, &q);
    }
}

/* One connection, to its end. */
static void serve_tcp(struct server *server) {
    int fd = accept4(server->tcp, NULL, NULL, SOCK_CLOEXEC);
    struct timeval patience = {5, 0};
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    unsigned char head[2];
    while (recv(fd, head, 2, MSG_WAITALL) == 2) {
        struct question q;
        struct answer a;
        q.size = (size_t)(head[0] << 8 | head[1]);
        if (q.size > sizeof q.bytes || recv(fd, q.bytes, q.size, MSG_WAITALL) != (ssize_t)q.size || !parse(&q))
            break;
        atomic_fetch_add(&server->by_tcp, 1);
        if (!answer(&q, true, &a))
            break;
        unsigned char size[2] = {(unsigned char)(a.size >> 8), (unsigned char)a.size};
        if (send(fd, size, 2, MSG_NOSIGNAL | MSG_MORE) != 2 ||
            send(fd, a.bytes, a.size, MSG_NOSIGNAL) != (ssize_t)a.size)
            break;
    }
    close(fd);
}

static void *server_main(void *arg) {
    struct server *server = arg;
    static _Thread_local struct question held[HELD_MAX];
    struct pollfd fds[3] = {{server->udp, POLLIN, 0}, {server->tcp, POLLIN, 0}, {server->stop, POLLIN, 0}};
    while (!(fds[2].revents & POLLIN)) {
        poll(fds, 3, 2);
        if (fds[0].revents & POLLIN)
            serve_udp(server, held);
        if (fds[1].revents & POLLIN)
            serve_tcp(server);
        if (!atomic_load(&server->released))
            continue;
        for (unsigned i = 0; i < atomic_load(&server->held); i++)
            reply(server, &held[i]);
        atomic_store(&server->held, 0);
    }
    return NULL;
}

void server_begin(struct server *server) {
    memset(server, 0, sizeof *server);
    for (int tries = 0;; tries++) { /* until a port is free for both */
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        REQUIRE_LT(tries, 100);
        REQUIRE_GE(server->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), 0);
        REQUIRE_GE(server->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
        REQUIRE_EQ(bind(server->udp, (struct sockaddr *)&at, sizeof at), 0);
        REQUIRE_EQ(getsockname(server->udp, (struct sockaddr *)&at, &size), 0);
        snprintf(server->address, sizeof server->address, "127.0.0.1:%d", ntohs(at.sin_port));
        if (bind(server->tcp, (struct sockaddr *)&at, sizeof at) == 0)
            break;
        close(server->udp), close(server->tcp);
    }
    REQUIRE_EQ(listen(server->tcp, 16), 0);
    REQUIRE_GE(server->stop = eventfd(0, EFD_CLOEXEC), 0);
    REQUIRE_EQ(pthread_create(&server->thread, NULL, server_main, server), 0);
}

void server_end(struct server *server) {
    uint64_t one = 1;
    REQUIRE_EQ(write(server->stop, &one, 8), 8);
    REQUIRE_EQ(pthread_join(server->thread, NULL), 0);
    close(server->udp), close(server->tcp), close(server->stop);
}
