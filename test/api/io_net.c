/* io_net.c - sockets: addresses, listening, accepting, connecting, datagrams, options, many connections. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "io_fixture.h"

/* -- Addresses ---------------------------------------------------------------------------------------------- */

TEST(io_addresses, "") {
    static const struct {
        const char *text;
        int port;
        const char *shown;
    } good[] = {
        {"127.0.0.1", 80, "127.0.0.1:80"},   {"::1", 0, "[::1]:0"},
        {"0.0.0.0", 65535, "0.0.0.0:65535"}, {"/tmp/x", -1, "/tmp/x"},
        {"@hidden", -1, "@hidden"},          {"fe80::1", 1, "[fe80::1]:1"},
        {"fe80::1%lo", 1, "[fe80::1%lo]:1"}, {"fe80::1%4000000", 1, "[fe80::1%4000000]:1"},
    };
    weft_addr addr, untouched;
    char text[200];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_EQ(weft_addr_parse(good[i].text, good[i].port, &addr), 0);
        CHECK_EQ(weft_addr_format(&addr, text, sizeof text), strlen(good[i].shown));
        CHECK_STR(text, good[i].shown);
        CHECK_EQ(weft_addr_format(&addr, text, 3), strlen(good[i].shown)); /* as snprintf */
        CHECK_EQ(strlen(text), 2);
    }
    memset(&addr, 0x55, sizeof addr);
    untouched = addr;
    CHECK_EQ(weft_addr_parse("localhost", 80, &addr), -EINVAL);
    CHECK_EQ(weft_addr_parse("1.2.3.4", 65536, &addr), -EINVAL);
    CHECK_EQ(weft_addr_parse("1.2.3.4", -2, &addr), -EINVAL);
    CHECK_EQ(weft_addr_parse("1.2.3", 80, &addr), -EINVAL);
    CHECK_EQ(weft_addr_parse("", -1, &addr), -EINVAL);
    static const char *const no_zones[] = {"fe80::1%",           "fe80::1%nosuch", "fe80::1%0", "fe80::1%1x",
                                           "fe80::1%4294967296", "127.0.0.1%lo",   "%lo"};
    for (size_t i = 0; i < sizeof no_zones / sizeof *no_zones; i++)
        CHECK_EQ(weft_addr_parse(no_zones[i], 80, &addr), -EINVAL);
    CHECK_EQ(weft_addr_parse(NULL, 80, &addr), -EINVAL);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    CHECK_EQ(weft_addr_parse(text, -1, &addr), -ENAMETOOLONG);
    CHECK(!memcmp(&addr, &untouched, sizeof addr));
}

static int who_is_there(void *unused) {
    (void)unused;
    weft_io *listener, *a, *b;
    weft_addr addr, peer, mine;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    REQUIRE_EQ(weft_connect(&addr, &a, fixture_soon()), 0);
    REQUIRE_EQ(weft_accept(listener, &b, &peer, fixture_soon()), 0);
    CHECK_EQ(weft_local_addr(a, &mine), 0);
    CHECK_EQ(peer.size, mine.size);
    CHECK(!memcmp(&peer.storage, &mine.storage, 8)); /* family, port, address */
    CHECK_EQ(weft_peer_addr(a, &peer), 0);
    CHECK(!memcmp(&peer.storage, &addr.storage, 8));
    int value = 0;
    socklen_t size = sizeof value;
    CHECK_EQ(getsockopt(weft_io_fd(b), IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
    CHECK_EQ(value, 1);
    CHECK_EQ(weft_tcp_nodelay(b, false), 0);
    CHECK_EQ(getsockopt(weft_io_fd(b), IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
    CHECK_EQ(value, 0);
    CHECK_EQ(weft_tcp_keepalive(b, 10, 5, 3), 0);
    CHECK_EQ(getsockopt(weft_io_fd(b), SOL_SOCKET, SO_KEEPALIVE, &value, &size), 0);
    CHECK_EQ(value, 1);
    CHECK_EQ(weft_tcp_keepalive(b, -1, 5, 3), -EINVAL);
    CHECK_EQ(weft_tcp_keepalive(b, 0, 0, 0), 0);
    CHECK_EQ(weft_tcp_user_timeout(b, 1000), 0);
    CHECK_EQ(weft_socket_buffers(b, 8192, 8192), 0);
    CHECK_EQ(fcntl(weft_io_fd(b), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    weft_close(a), weft_close(b), weft_close(listener);

    REQUIRE(io_pair(IO_ABSTRACT, &a, &b));
    pid_t pid;
    uid_t uid;
    gid_t gid;
    CHECK_EQ(weft_peer_credentials(a, &pid, &uid, &gid), 0);
    CHECK_EQ(pid, getpid());
    CHECK_EQ(uid, getuid());
    CHECK_EQ(gid, getgid());
    CHECK_EQ(weft_peer_credentials(a, NULL, NULL, NULL), 0);
    CHECK_EQ(weft_tcp_nodelay(a, true), -EOPNOTSUPP);
    weft_close(a), weft_close(b);
    return 0;
}

API_TEST(io_peers, "", .workers = {1}) { io_run(who_is_there, NULL); }

/* -- Listening and connecting -------------------------------------------------------------------------------- */

static int listen_twice(void *unused) {
    (void)unused;
    weft_io *one, *two, *other;
    weft_addr addr;
    weft_listen_options options = WEFT_LISTEN_INIT;
    options.reuse_port = true;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &one), 0);
    REQUIRE_EQ(weft_local_addr(one, &addr), 0);
    CHECK_EQ(weft_listen(&addr, NULL, &two), -EADDRINUSE);
    weft_close(one);
    REQUIRE_EQ(weft_listen(&addr, &options, &one), 0);
    REQUIRE_EQ(weft_listen(&addr, &options, &two), 0);
    weft_close(one), weft_close(two);
    options.size = 3;
    CHECK_EQ(weft_listen(&addr, &options, &two), -EINVAL);
    CHECK_EQ(weft_tcp_listen("nobody", 1, NULL, &two), -EINVAL);
    CHECK_EQ(weft_tcp_listen("127.0.0.1", -1, NULL, &two), -EINVAL);
    CHECK_EQ(weft_listen(NULL, NULL, &two), -EINVAL);

    /* Every address, of both families where there are both. */
    REQUIRE_EQ(weft_tcp_listen(NULL, 0, NULL, &one), 0);
    REQUIRE_EQ(weft_local_addr(one, &addr), 0);
    struct sockaddr_in6 raw;
    memcpy(&raw, addr.storage, sizeof raw);
    int port = ntohs(raw.sin6_port); /* where sockaddr_in has it */
    REQUIRE_EQ(weft_tcp_connect("127.0.0.1", port, &two, fixture_soon()), 0);
    REQUIRE_EQ(weft_accept(one, &other, NULL, fixture_soon()), 0);
    weft_close(one), weft_close(two), weft_close(other);
    CHECK_EQ(weft_tcp_connect("127.0.0.1", port, &two, fixture_soon()), -ECONNREFUSED); /* nobody listens any more */
    CHECK_EQ(weft_unix_connect("/nowhere/at/all", &two, fixture_soon()), -ENOENT);
    CHECK_EQ(weft_unix_connect("@weft-nobody", &two, fixture_soon()), -ECONNREFUSED);
    CHECK_EQ(weft_tcp_connect("host", 65536, &two, fixture_soon()), -EINVAL);
    return 0;
}

API_TEST(io_listen_and_refuse, "", .workers = {1, 2}) { io_run(listen_twice, NULL); }

/* The queue of a Unix listener is full: connecting waits until it is not. */
static int connect_to_full(void *path) {
    weft_io *io;
    int error = weft_unix_connect(path, &io, fixture_soon());
    if (!error)
        weft_close(io);
    return error;
}

static int full_queue(void *unused) {
    (void)unused;
    char path[64];
    weft_io *listener, *first[16], *accepted;
    weft_addr addr;
    weft_listen_options options = WEFT_LISTEN_INIT;
    options.backlog = 1;
    io_path(path, sizeof path, true);
    REQUIRE_EQ(weft_addr_parse(path, -1, &addr), 0);
    REQUIRE_EQ(weft_listen(&addr, &options, &listener), 0);
    int count = 0, error = 0;
    while (count < 16 && (error = weft_unix_connect(path, &first[count], WEFT_NOW)) == 0)
        count++;
    CHECK_EQ(error, -ETIMEDOUT);
    CHECK_EQ(weft_unix_connect(path, &accepted, weft_after(3000000)), -ETIMEDOUT);
    weft_task *late = io_go(NULL, connect_to_full, path), *never = io_go(NULL, connect_to_full, path);
    io_rest();
    weft_task_cancel(never);
    CHECK_EQ(io_join(never), -ECANCELED);
    for (int i = 0; i <= count; i++) {
        REQUIRE_EQ(weft_accept(listener, &accepted, NULL, fixture_soon()), 0);
        weft_close(accepted);
    }
    CHECK_EQ(io_join(late), 0);
    for (int i = 0; i < count; i++)
        weft_close(first[i]);
    weft_close(listener);
    return 0;
}

API_TEST(io_unix_queue_full, "", .workers = {1, 2}) { io_run(full_queue, NULL); }

/* A TCP listener whose queue is full does not answer. */
static int connect_to_silent(void *arg) {
    weft_io *io;
    int error = weft_connect(arg, &io, fixture_soon());
    if (!error)
        weft_close(io);
    return error;
}

static int silent_peer(void *unused) {
    (void)unused;
    weft_io *listener, *first[16], *more;
    weft_addr addr;
    weft_listen_options options = WEFT_LISTEN_INIT;
    options.backlog = 1;
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &addr), 0);
    REQUIRE_EQ(weft_listen(&addr, &options, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    int count = 0, error = 0;
    while (count < 16 && (error = weft_connect(&addr, &first[count], weft_after(50000000))) == 0)
        count++;
    CHECK_EQ(error, -ETIMEDOUT);
    CHECK_EQ(weft_connect(&addr, &more, WEFT_NOW), -ETIMEDOUT);
    weft_task *task = io_go(NULL, connect_to_silent, &addr);
    io_rest();
    weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    for (int i = 0; i < count; i++)
        weft_close(first[i]);
    weft_close(listener);
    return 0;
}

API_TEST(io_tcp_silent_peer, "", .workers = {1, 2}) { io_run(silent_peer, NULL); }

/* -- Datagrams ----------------------------------------------------------------------------------------------- */

static int answer_datagrams(void *arg) {
    char buffer[2000];
    weft_addr from;
    for (;;) {
        ssize_t n = weft_recv_from(arg, buffer, sizeof buffer, &from, fixture_soon());
        REQUIRE_GE(n, 0);
        if (n == 0)
            return 0;
        CHECK_EQ(weft_send_to(arg, buffer, (size_t)n, &from, fixture_soon()), n);
    }
}

static int datagrams(void *unused) {
    (void)unused;
    weft_addr any, server_addr, from;
    weft_io *server, *client;
    char text[2000], back[2000];
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &any), 0);
    REQUIRE_EQ(weft_udp_open(&any, 0, &server), 0);
    REQUIRE_EQ(weft_udp_open(NULL, AF_INET, &client), 0);
    REQUIRE_EQ(weft_local_addr(server, &server_addr), 0);
    weft_task *task = io_go(NULL, answer_datagrams, server);
    CHECK_EQ(weft_recv_from(client, back, sizeof back, NULL, WEFT_NOW), -ETIMEDOUT);
    for (size_t size = 1; size < 1400; size += 37) {
        io_fill(text, size, 0);
        CHECK_EQ(weft_send_to(client, text, size, &server_addr, fixture_soon()), size);
        CHECK_EQ(weft_recv_from(client, back, sizeof back, &from, fixture_soon()), size); /* less than was asked */
        CHECK(!memcmp(text, back, size));
        CHECK(!memcmp(&from.storage, &server_addr.storage, 8));
    }
    /* Two that wait are two, also for weft_read. */
    CHECK_EQ(weft_send_to(client, "abc", 3, &server_addr, fixture_soon()), 3);
    CHECK_EQ(weft_send_to(client, "defg", 4, &server_addr, fixture_soon()), 4);
    CHECK_EQ(weft_read(client, back, sizeof back, fixture_soon()), 3);
    CHECK_EQ(weft_read(client, back, sizeof back, fixture_soon()), 4);
    CHECK_EQ(weft_send_to(client, "", 0, &server_addr, fixture_soon()), 0);
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(weft_udp_open(&server_addr, 0, &client), -EADDRINUSE);
    weft_close(client), weft_close(server);
    return 0;
}

API_TEST(io_udp, "", .workers = {1, 2}) { io_run(datagrams, NULL); }

/* What does not fit is lost; empty ones are datagrams; a Unix socket has them too; a connected one learns that nobody is there. */
static int odd_datagrams(void *unused) {
    (void)unused;
    weft_addr any, to, from;
    weft_io *a, *b;
    char text[100];
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &any), 0);
    REQUIRE_EQ(weft_udp_open(&any, 0, &a), 0);
    REQUIRE_EQ(weft_udp_open(&any, 0, &b), 0);
    REQUIRE_EQ(weft_local_addr(b, &to), 0);
    CHECK_EQ(weft_send_to(a, "too long", 8, &to, fixture_soon()), 8);
    CHECK_EQ(weft_send_to(a, "", 0, &to, fixture_soon()), 0);
    CHECK_EQ(weft_send_to(a, "next", 4, &to, fixture_soon()), 4);
    CHECK_EQ(weft_recv_from(b, text, 3, &from, fixture_soon()), 3);
    CHECK_EQ(weft_recv_from(b, text, 3, &from, fixture_soon()), 0);
    CHECK_EQ(weft_recv_from(b, text, sizeof text, NULL, fixture_soon()), 4);
    CHECK_EQ(weft_send_to(a, "x", 1, NULL, fixture_soon()), -EDESTADDRREQ);
    weft_close(b);
    REQUIRE_EQ(connect(weft_io_fd(a), (struct sockaddr *)to.storage, to.size), 0);
    CHECK_EQ(weft_send_to(a, "x", 1, NULL, fixture_soon()), 1);
    CHECK_EQ(weft_recv_from(a, text, sizeof text, NULL, fixture_soon()), -ECONNREFUSED);
    weft_close(a);

    snprintf(text, sizeof text, "@weft-datagram-%d", getpid());
    REQUIRE_EQ(weft_addr_parse(text, -1, &to), 0);
    REQUIRE_EQ(weft_udp_open(&to, 0, &b), 0);
    REQUIRE_EQ(weft_udp_open(NULL, AF_UNIX, &a), 0);
    CHECK_EQ(weft_send_to(a, "hello", 5, &to, fixture_soon()), 5);
    CHECK_EQ(weft_recv_from(b, text, sizeof text, &from, fixture_soon()), 5);
    weft_close(a), weft_close(b);
    CHECK_EQ(weft_udp_open(NULL, 0, &a), -EAFNOSUPPORT);
    return 0;
}

API_TEST(io_udp_odd, "", .workers = {1, 2}) { io_run(odd_datagrams, NULL); }

/* -- Out of descriptors --------------------------------------------------------------------------------------- */

static int accept_one(void *arg) {
    weft_io *io;
    int error = weft_accept(arg, &io, NULL, fixture_soon());
    if (!error) {
        CHECK_EQ(weft_write(io, "in", 2, fixture_soon()), 2);
        weft_close(io);
    }
    return error;
}

static int out_of_descriptors(void *unused) {
    (void)unused;
    struct rlimit before, limit;
    weft_io *listener, *client[4], *a, *b;
    weft_addr addr;
    char text[8];
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    io_connected(listener, &addr, &a, &b); /* the poller and the reserve are there now */
    weft_task *task = io_go(NULL, accept_one, listener);
    io_rest();
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    /* Sockets for the clients first: only the accepting side is to find none left. */
    int fd[4], filler[100], fillers = 0;
    for (int i = 0; i < 4; i++)
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    limit = (struct rlimit){(rlim_t)fd[3] + 40, before.rlim_max};
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (fillers < 100 && (filler[fillers] = dup(0)) >= 0)
        fillers++;
    REQUIRE(fillers > 0 && fillers < 100);
    for (int i = 0; i < 4; i++) {
        REQUIRE_EQ(connect(fd[i], (struct sockaddr *)addr.storage, addr.size), 0);
        REQUIRE_EQ(weft_io_open(fd[i], 0, &client[i]), 0);
        ssize_t n = weft_read(client[i], text, 8, fixture_soon()); /* turned away */
        CHECK(n == 0 || n == -ECONNRESET);
    }
    CHECK(!weft_task_is_done(task));
    for (int i = 0; i < fillers; i++)
        close(filler[i]);
    for (int i = 0; i < 4; i++)
        weft_close(client[i]);
    REQUIRE_EQ(weft_connect(&addr, &client[0], fixture_soon()), 0);
    CHECK_EQ(weft_read(client[0], text, 8, fixture_soon()), 2); /* descriptors are there again */
    CHECK_EQ(io_join(task), 0);
    weft_close(client[0]), weft_close(a), weft_close(b), weft_close(listener);
    return 0;
}

API_TEST(io_accept_without_descriptors, "", .workers = {1, 2}) { io_run(out_of_descriptors, NULL); }

/* -- Many ------------------------------------------------------------------------------------------------------ */

#define ROUNDS 5

struct crowd {
    weft_io *listener;
    weft_addr addr;
    unsigned count;
    atomic_uint served, satisfied;
};

static struct crowd crowd;

static int echo(void *arg) {
    char buffer[256];
    ssize_t n;
    while ((n = weft_read(arg, buffer, sizeof buffer, fixture_soon())) > 0)
        REQUIRE_EQ(weft_write(arg, buffer, (size_t)n, fixture_soon()), n);
    CHECK_EQ(n, 0);
    CHECK_EQ(weft_close(arg), 0);
    atomic_fetch_add(&crowd.served, 1);
    return 0;
}

static int accept_all(void *unused) {
    (void)unused;
    weft_io *io;
    for (unsigned i = 0; i < crowd.count; i++) {
        REQUIRE_EQ(weft_accept(crowd.listener, &io, NULL, fixture_soon()), 0);
        REQUIRE_EQ(weft_fiber_go(NULL, echo, io, NULL), 0);
    }
    return 0;
}

static int ask(void *number) {
    weft_io *io;
    char text[100], back[100];
    size_t at = (size_t)(intptr_t)number;
    REQUIRE_EQ(weft_connect(&crowd.addr, &io, fixture_soon()), 0);
    for (int round = 0; round < ROUNDS; round++, at += 1000) {
        size_t size = at % 99 + 1;
        io_fill(text, size, at);
        REQUIRE_EQ(weft_write(io, text, size, fixture_soon()), size);
        REQUIRE_EQ(weft_read_exact(io, back, size, fixture_soon()), size);
        REQUIRE(io_is(back, size, at));
    }
    CHECK_EQ(weft_close(io), 0);
    atomic_fetch_add(&crowd.satisfied, 1);
    return 0;
}

API_TEST(io_thousand_connections, "", .workers = {1, 2, 4}, .timeout = 60) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    crowd.count = limit.rlim_cur < 2200 ? 100 : 1000;
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &crowd.listener), 0);
    REQUIRE_EQ(weft_local_addr(crowd.listener, &crowd.addr), 0);
    weft_task *server = io_go(rt, accept_all, NULL);
    for (unsigned i = 0; i < crowd.count; i++)
        REQUIRE_EQ(weft_fiber_go(rt, ask, (void *)(intptr_t)i, NULL), 0);
    CHECK_EQ(io_join(server), 0);
    REQUIRE_EVENTUALLY(crowd.served == crowd.count && crowd.satisfied == crowd.count);
    weft_close(crowd.listener);
    fixture_end(rt);
}
