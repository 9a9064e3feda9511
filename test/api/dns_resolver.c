/* dns_resolver.c - a runtime's own resolver: who asks it, when it is dropped, and what becomes of calls under way. */
#include <weft/dns.h>

#include "io_fixture.h"

struct book {
    atomic_uint asked, dropped;
    atomic_bool hold; /* answer when the event is set */
    weft_event open;
    int answer; /* 1: 127.0.0.1, with the port; else as it is */
};

static int look_up(void *state, const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                   weft_deadline until) {
    struct book *book = state;
    CHECK(name[0] && room > 0 && (family == 0 || family == AF_INET || family == AF_INET6));
    atomic_fetch_add(&book->asked, 1);
    int error = atomic_load(&book->hold) ? weft_event_wait(&book->open, until) : 0;
    if (error || book->answer != 1)
        return error ? error : book->answer;
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", service ? atoi(service) : 0, addrs), 0);
    return 1;
}

static void drop(void *state) { atomic_fetch_add(&((struct book *)state)->dropped, 1); }

static const weft_resolver resolver = {sizeof resolver, look_up, drop};

static int asks(void *arg) {
    struct book *book = arg;
    weft_addr addrs[4];
    weft_io *listener, *io, *peer;
    char text[80];
    CHECK_EQ(weft_resolve("some.name", "80", 0, addrs, 4, WEFT_NEVER), 1);
    weft_addr_format(&addrs[0], text, sizeof text);
    CHECK_STR(text, "127.0.0.1:80");
    CHECK_EQ(atomic_load(&book->asked), 1);
    CHECK_EQ(weft_resolve("127.0.0.2", "80", 0, addrs, 4, WEFT_NOW), 1); /* nobody is asked */
    CHECK_EQ(weft_resolve("", "80", 0, addrs, 4, WEFT_NOW), -EINVAL);
    CHECK_EQ(atomic_load(&book->asked), 1);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addrs[0]), 0);
    weft_addr_format(&addrs[0], text, sizeof text);
    REQUIRE_EQ(weft_tcp_connect("some.name", atoi(strrchr(text, ':') + 1), &io, fixture_soon()), 0);
    REQUIRE_EQ(weft_accept(listener, &peer, NULL, fixture_soon()), 0);
    weft_close(io), weft_close(peer), weft_close(listener);
    CHECK_EQ(atomic_load(&book->asked), 2);
    book->answer = 0; /* none is not an answer */
    CHECK_EQ(weft_resolve("some.name", "80", 0, addrs, 4, WEFT_NEVER), -ENOENT);
    book->answer = -EAGAIN;
    CHECK_EQ(weft_resolve("some.name", "80", 0, addrs, 4, WEFT_NEVER), -EAGAIN);
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_resolve("some.name", "80", 0, addrs, 4, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(atomic_load(&book->asked), 4);
    return 0;
}

API_TEST(resolver_asked, "", .workers = {1, 2}) {
    struct book book = {.answer = 1};
    weft_addr addrs[4];
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_resolver_set(rt, &resolver, &book), 0);
    fixture_finish(io_go(rt, asks, &book)); /* it has cancelled itself */
    unsigned asked = atomic_load(&book.asked);
    CHECK_GT(weft_resolve("localhost", "80", 0, addrs, 4, fixture_soon()), 0); /* a plain thread asks the system */
    CHECK_EQ(atomic_load(&book.asked), asked);
    CHECK_EQ(atomic_load(&book.dropped), 0);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&book.dropped), 1);
}

TEST(resolver_refused, "") {
    struct book book = {.answer = 1};
    weft_resolver none = {sizeof none, NULL, drop}, small = resolver;
    small.size = 8;
    struct {
        weft_resolver known;
        void *more;
    } newer = {resolver, NULL};
    newer.known.size = sizeof newer;
    CHECK_EQ(weft_resolver_set(NULL, &resolver, &book), -EINVAL); /* no runtime */
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(weft_resolver_set(rt, &none, &book), -EINVAL);
    CHECK_EQ(weft_resolver_set(rt, &small, &book), -EINVAL);
    CHECK_EQ(weft_resolver_set(rt, NULL, NULL), 0); /* there was none */
    CHECK_EQ(weft_resolver_set(rt, &newer.known, &book), 0);
    newer.more = &book;
    CHECK_EQ(weft_resolver_set(rt, &newer.known, &book), -E2BIG);
    CHECK_EQ(atomic_load(&book.dropped), 0);
    CHECK_EQ(weft_resolver_set(rt, NULL, NULL), 0);
    CHECK_EQ(atomic_load(&book.dropped), 1);
    CHECK_EQ(weft_resolver_set(rt, &resolver, &book), 0);
    CHECK_EQ(weft_resolver_set(rt, &resolver, &book), 0); /* in its own place */
    CHECK_EQ(atomic_load(&book.dropped), 2);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&book.dropped), 3);
}

/* Another takes its place while it is asked: the call ends with it, and then it is dropped. */
static int ask_once(void *unused) {
    (void)unused;
    weft_addr addr;
    return weft_resolve("some.name", "80", 0, &addr, 1, WEFT_NEVER) == 1 ? 0 : -1;
}

static int replace(void *arg) {
    struct book *books = arg;
    weft_task *asking = io_go(NULL, ask_once, NULL);
    while (!atomic_load(&books[0].asked))
        (void)weft_yield();
    CHECK_EQ(weft_resolver_set(NULL, &resolver, &books[1]), 0);
    CHECK_EQ(ask_once(NULL), 0);
    CHECK_EQ(atomic_load(&books[1].asked), 1);
    CHECK_EQ(atomic_load(&books[0].dropped), 0);
    CHECK_EQ(weft_event_set(&books[0].open), 0);
    CHECK_EQ(io_join(asking), 0);
    CHECK_EQ(atomic_load(&books[0].dropped), 1);
    CHECK_EQ(atomic_load(&books[1].dropped), 0);
    return 0;
}

API_TEST(resolver_replaced, "", .workers = {1, 2}) {
    struct book books[2] = {{.answer = 1, .hold = true, .open = WEFT_EVENT_INIT}, {.answer = 1}};
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_resolver_set(rt, &resolver, &books[0]), 0);
    CHECK_EQ(io_join(io_go(rt, replace, books)), 0);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&books[1].dropped), 1);
}
