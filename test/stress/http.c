/* http.c - ten thousand clients that never finish their request: those who do are served all the while, memory has a limit, and all are cut off. */
#define _GNU_SOURCE
#include "../api/http_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SLOW 10000
#define PATIENCE (4000 * MS)

/* A process of its own: descriptors are counted by process.  It connects, sends half a head, then a byte to everyone now and then, until the server
 * has told everyone that it took too long.  Exits with 0 if so. */
static void be_slow(int port, int ready) {
    static int fd[SLOW];
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    static const char half[] = "GET /hello HTTP/1.1\r\nHost: h\r\nX: ";
    inet_pton(AF_INET, "127.0.0.1", &addr.sin_addr);
    for (int i = 0; i < SLOW; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd[i] < 0 || connect(fd[i], (struct sockaddr *)&addr, sizeof addr) ||
            send(fd[i], half, sizeof half - 1, MSG_NOSIGNAL) < 0)
            _exit(2);
    }
    if (write(ready, "x", 1) != 1)
        _exit(3);
    for (int left = SLOW; left;)
        for (int i = 0; i < SLOW; i++) {
            char text[512];
            if (fd[i] < 0)
                continue;
            ssize_t n = recv(fd[i], text, sizeof text, MSG_DONTWAIT);
            if (n > 0 && memcmp(text, "HTTP/1.1 408", 12))
                _exit(4);
            if (n >= 0) {
                close(fd[i]);
                fd[i] = -1;
                left--;
            } else {
                (void)!send(fd[i], "y", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            }
            if (i % 100 == 0)
                poll(NULL, 0, 5);
        }
    _exit(0);
}

struct crowd {
    struct site site;
    atomic_bool there; /* all of them, or as many as come while one is patient with the first */
    atomic_uint served;
};

/* Meanwhile somebody who knows what he wants. */
static int honest(void *arg) {
    struct crowd *crowd = arg;
    weft_io *io = dial(&crowd->site);
    while (!crowd->site.release) {
        say(io, GET("/hello"));
        hear(io, HELLO);
        if (crowd->there)
            crowd->served++;
        CHECK_EQ(weft_sleep(MS), 0);
    }
    return weft_close(io);
}

API_TEST(http_slow_crowd, "", .workers = {2}, .sched = "ring reactor", .timeout = 120) {
    static struct crowd crowd = {.site = SITE(serve_site)};
    struct rlimit limit = {SLOW + 500, SLOW + 500};
    struct rlimit old;
    int ready[2], status;
    char text[64], byte;
    getrlimit(RLIMIT_NOFILE, &old);
    if (old.rlim_cur < limit.rlim_cur &&
        (limit.rlim_max = old.rlim_max > limit.rlim_cur ? old.rlim_max : limit.rlim_cur,
         setrlimit(RLIMIT_NOFILE, &limit)))
        SKIP("no more than %llu descriptors", (unsigned long long)old.rlim_cur);
    REQUIRE_EQ(pipe(ready), 0);
    crowd.site.options.head_timeout = PATIENCE;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &crowd.site.listener), 0);
    REQUIRE_EQ(weft_local_addr(crowd.site.listener, &crowd.site.addr), 0);
    weft_addr_format(&crowd.site.addr, text, sizeof text);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_slow(atoi(strchr(text, ':') + 1), ready[1]);
    }
    REQUIRE_GT(child, 0);
    weft_runtime *rt = fixture_begin_patient();
    crowd.site.task = io_go(rt, site_main, &crowd.site);
    weft_task *client = io_go(rt, honest, &crowd);
    size_t before = harness_rss();
    int64_t began = harness_clock();
    REQUIRE(poll(&(struct pollfd){.fd = ready[0], .events = POLLIN}, 1, (int)(PATIENCE / MS)) >= 0);
    crowd.there = true;
    REQUIRE_EQ(read(ready[0], &byte, 1), 1);
    int64_t took =
        harness_clock() - began; /* to connect: on a busy machine the first are cut off before the last have come */
    size_t most = 0;
    unsigned open = 0;
    while (waitpid(child, &status, WNOHANG) == 0) { /* until the last of them was told to go */
        size_t now = harness_rss();
        unsigned sockets = site_sockets();
        most = now > most ? now : most;
        open = sockets > open ? sockets : open;
        for (int i = 0; i < 1000; i++)
            harness_nap();
    }
    CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    crowd.site.release = true;
    CHECK_EQ(io_join(client), 0);
    size_t each = (most > before ? most - before : 0) / SLOW;
    printf("%u connections, %zu bytes each; %u requests meanwhile\n", open, each, crowd.served);
    CHECK_GT(open, (took > PATIENCE ? SLOW * PATIENCE / took : SLOW) / 2); /* they were all there */
    CHECK_GT(crowd.served, 50);
    if (!harness_is_slow())
        CHECK_LT(each, 24 << 10);
    (void)weft_task_cancel(crowd.site.task);
    CHECK_EQ(io_join(crowd.site.task), 0);
    CHECK_EQ(weft_close(crowd.site.listener), 0);
    CHECK_EQ(site_sockets(), 0);
    fixture_end(rt);
    close(ready[0]), close(ready[1]);
}
