/* dns_late.c - connecting by name while one kind of address is slow to be known (RFC 8305, 3).  The system's resolver is replaced: names that end in ".test" say
 * themselves who answers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>

#include "io_fixture.h"

#define MS INT64_C(1000000)

static atomic_bool let_go; /* the slow ones answer */
static atomic_uint asked[3]; /* for all, IPv6, IPv4 */

static int kind_of(int family) { return family == AF_INET6 ? 1 : family == AF_INET ? 2 : 0; }

static struct addrinfo *one(const char *text, const char *service, struct addrinfo *next) {
    struct both {
        struct addrinfo info;
        struct sockaddr_storage addr;
    } *both = calloc(1, sizeof *both);
    weft_addr addr;
    if (!both || weft_addr_parse(text, atoi(service), &addr))
        abort();
    memcpy(&both->addr, addr.storage, addr.size);
    both->info.ai_family = addr.size == sizeof(struct sockaddr_in) ? AF_INET : AF_INET6;
    both->info.ai_addrlen = addr.size;
    both->info.ai_addr = (struct sockaddr *)&both->addr;
    both->info.ai_next = next;
    return &both->info;
}

/* "<who answers: a, 6, 4>-<who says that there is none>.test": the others do not answer before they are let go, and then do not know. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out) {
    size_t size = strlen(name);
    if (size < 5 || strcmp(name + size - 5, ".test")) {
        int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
        return real(name, service, hints, out);
    }
    int kind = kind_of(hints->ai_family);
    if (!strcmp(name, "joins.test")) { /* first one where nobody is, and when that has been told another */
        for (atomic_fetch_add(&asked[kind], 1); kind == 0 && !atomic_load(&let_go);)
            harness_nap();
        if (kind == 1)
            return EAI_NONAME;
        *out = one(kind == 0 ? "127.0.0.2" : "127.0.0.1", service, NULL);
        return 0;
    }
    const char *dash = strchr(name, '-'), *at = strchr(name, "a64"[kind]);
    atomic_fetch_add(&asked[kind], 1);
    if (!at) {
        while (!atomic_load(&let_go))
            harness_nap();
        return EAI_AGAIN; /* not sure: who knows more is waited for */
    }
    if (at > dash)
        return EAI_NONAME;
    *out = kind == 1 ? one("::1", service, NULL) : one("127.0.0.1", service, NULL);
    return 0;
}

static int connect_to(const char *name, const char *host) {
    weft_io *listener, *io, *peer;
    weft_addr addr;
    char text[80];
    int error = weft_tcp_listen(host, 0, NULL, &listener);
    if (error) /* no IPv6 here */
        return 0;
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_addr_format(&addr, text, sizeof text);
    REQUIRE_EQ(weft_tcp_connect(name, atoi(strrchr(text, ':') + 1), &io, fixture_soon()), 0);
    REQUIRE_EQ(weft_accept(listener, &peer, NULL, fixture_soon()), 0);
    weft_close(io), weft_close(peer), weft_close(listener);
    return 0;
}

static unsigned count(int kind) { return atomic_exchange(&asked[kind], 0); }

static int late(void *unused) {
    (void)unused;
    weft_io *io;
    int64_t began = weft_now();
    connect_to("a-.test", "127.0.0.1");
    CHECK_EQ(count(0), 1);
    if (weft_now() - began < 50 * MS) /* at once: nobody else is asked */
        CHECK_EQ(atomic_load(&asked[1]) + atomic_load(&asked[2]), 0);
    count(2);
    connect_to("4-.test", "127.0.0.1"); /* IPv6 never answers */
    CHECK_EQ(count(2), 1);
    connect_to("6-.test", "::1"); /* IPv4 never does */
    connect_to("4-6.test", "127.0.0.1"); /* there is none of IPv6 */
    /* IPv4 refuses, and IPv6 does not come: so long as it may, nobody gives up; then the first error is told. */
    int64_t soon = weft_after(300 * MS);
    CHECK_EQ(weft_tcp_connect("4-.test", 1, &io, soon), -ETIMEDOUT);
    CHECK_EQ(weft_tcp_connect("4-6.test", 1, &io, weft_after(200 * MS)),
             -ETIMEDOUT); /* the one for all may know more */
    CHECK_EQ(weft_tcp_connect("-.test", 1, &io, weft_after(100 * MS)), -ETIMEDOUT);
    CHECK_EQ(weft_tcp_connect("-a.test", 1, &io, fixture_soon()), -ENOENT);
    if (weft_task_self()) {
        weft_task_cancel(weft_task_self());
        CHECK_EQ(weft_tcp_connect("-.test", 1, &io, WEFT_NEVER), -ECANCELED);
    }
    return 0;
}

/* Names that nobody answers for keep those that are answered waiting only when there are very many. */
static int asks_in_vain(void *unused) {
    (void)unused;
    weft_io *io;
    CHECK_LT(weft_tcp_connect("-.test", 1, &io, fixture_soon()), 0);
    return 0;
}

static int beside_many(void *unused) {
    (void)unused;
    weft_task *task[40];
    weft_addr addr;
    for (int i = 0; i < 40; i++)
        task[i] = io_go(NULL, asks_in_vain, NULL);
    while (atomic_load(&asked[0]) < 40 || atomic_load(&asked[1]) + atomic_load(&asked[2]) < 10)
        CHECK_EQ(weft_sleep(MS), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_resolve("a-.test", "1", 0, &addr, 1, fixture_soon()), 1);
    CHECK(!atomic_exchange(&let_go, true));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(io_join(task[i]), 0);
    return 0;
}
API_TEST(dns_late_beside_many, "", .workers = {2}) {
    if (fixture_on("sim"))
        return;
    io_run(beside_many, NULL);
}

API_TEST(dns_late, "", .workers = {1, 2}) {
    if (fixture_on("sim")) /* where no time passes while the system is asked */
        return;
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(io_go(rt, late, NULL)); /* it has cancelled itself */
    atomic_store(&let_go, true);
    fixture_end(rt);
}
TEST(dns_late_thread, "") {
    CHECK_EQ(late(NULL), 0);
    atomic_store(&let_go, true);
}

/* Late answers join the race: the only address at first refuses, the next one comes then. */
static int joins(void *unused) {
    (void)unused;
    weft_io *io = NULL;
    CHECK_EQ(weft_tcp_connect("4-.test", 1, &io, fixture_soon()), -ECONNREFUSED); /* when all have answered */
    atomic_store(&let_go, false);
    count(2);
    return connect_to("joins.test", "127.0.0.2");
}

static void *lets_go(void *unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        while (!atomic_load(&asked[2]) || atomic_load(&let_go))
            harness_nap();
        atomic_store(&let_go, true);
    }
    return NULL;
}

API_TEST(dns_late_end, "", .workers = {1}) {
    if (fixture_on("sim"))
        return;
    pthread_t thread;
    REQUIRE_EQ(pthread_create(&thread, NULL, lets_go, NULL), 0);
    io_run(joins, NULL);
    pthread_join(thread, NULL);
}
