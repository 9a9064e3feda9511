/* plat_poller.c - the two pollers: how much they tell at a time, and that they tell everything once. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "plat/plat.h"

#define MANY 600
#define BATCH 256

static int pair[MANY][2];
static unsigned told[MANY];
static struct wefti_poll_event events[BATCH];

static void open_pairs(void) {
    struct rlimit limit;
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < MANY; i++)
        REQUIRE_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair[i]), 0);
}

/* Takes every event there is, one batch at a time.  Returns how many said readable. */
static int hear_all(struct wefti_poller *poller) {
    int readable = 0, quiet = 0;
    while (quiet < 3) { /* a kernel may do its work in pieces */
        int count = wefti_poller_wait(poller, events, 0);
        REQUIRE_LE(count, BATCH);
        quiet = count ? 0 : quiet + 1;
        for (int i = 0; i < count; i++)
            if (events[i].ready & WEFTI_READABLE) {
                told[(unsigned *)events[i].tag - told]++;
                readable++;
            }
    }
    return readable;
}

static void check_bound(bool uring) {
    struct wefti_poller poller = {.kind = NULL};
    if (uring && wefti_uring_probe())
        SKIP("no io_uring here: %s", strerror(-wefti_uring_probe()));
    open_pairs();
    REQUIRE_EQ(wefti_poller_open(&poller, uring, BATCH), 0);
    CHECK_STR(wefti_poller_name(&poller), uring ? "uring" : "epoll");
    for (int i = 0; i < MANY; i++)
        REQUIRE_EQ(wefti_poller_add(&poller, pair[i][0], &told[i]), 0);
    CHECK_EQ(hear_all(&poller), 0); /* writable only */
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < MANY; i++)
            REQUIRE_EQ(write(pair[i][1], "x", 1), 1);
        CHECK_EQ(hear_all(&poller), MANY); /* each change once */
        for (int i = 0; i < MANY; i++)
            CHECK_EQ(told[i], round);
    }
    for (int i = 0; i < MANY; i += 2)
        wefti_poller_remove(&poller, pair[i][0]);
    for (int i = 0; i < MANY; i++)
        REQUIRE_EQ(write(pair[i][1], "x", 1), 1);
    CHECK_EQ(hear_all(&poller), MANY / 2);
    wefti_poke(poller.poke); /* ends a wait, and says nothing */
    CHECK_EQ(wefti_poller_wait(&poller, events, INT64_MAX), 0);
    CHECK_EQ(wefti_poller_wait(&poller, events, wefti_clock() + 1000000), 0);
    wefti_poller_close(&poller);
}

TEST(poller_bound_epoll, "B57") { check_bound(false); }
TEST(poller_bound_uring, "B57") { check_bound(true); }

/* Files are always ready: both say so. */
static void check_file(bool uring) {
    struct wefti_poller poller = {.kind = NULL};
    REQUIRE_EQ(wefti_poller_open(&poller, uring, BATCH), 0);
    FILE *file = tmpfile();
    REQUIRE(file);
    CHECK_EQ(wefti_poller_add(&poller, fileno(file), told), -EPERM);
    CHECK_EQ(wefti_poller_arm(&poller, fileno(file), told, WEFTI_READABLE, false), -EPERM);
    CHECK_EQ(wefti_poller_add(&poller, 999, told), -EBADF);
    fclose(file);
    wefti_poller_close(&poller);
}

TEST(poller_file, "") {
    check_file(false);
    check_file(true); /* or epoll again */
}
