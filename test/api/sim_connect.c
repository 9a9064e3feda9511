/* sim_connect.c - connecting in the network in memory: deadlines, and addresses of which the first is silent. */
#include <weft/dns.h>

#include "io_fixture.h"

#define MS INT64_C(1000000)

static weft_addr at(const char *host) {
    weft_addr addr;
    REQUIRE_EQ(weft_addr_parse(host, 80, &addr), 0);
    return addr;
}

static int connect_cancelled(void *addrs) {
    weft_io *io;
    CHECK_EQ(weft_sim_node("10.0.0.2"), 0);
    return weft_connect_any(addrs, 2, &io, WEFT_NEVER);
}

static int silent_first(void *unused) {
    (void)unused;
    weft_io *listener, *io;
    weft_sim_net net = WEFT_SIM_NET_INIT;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    REQUIRE_EQ(weft_tcp_listen("10.0.0.1", 80, NULL, &listener), 0);
    CHECK_EQ(weft_sim_node("10.0.0.2"), 0);
    CHECK_EQ(weft_sim_partition("10.0.0.2", "10.0.0.7", true), 0);
    weft_addr addrs[] = {at("10.0.0.7"), at("10.0.0.1")};
    /* Time for the first only. */
    weft_deadline until = weft_after(100 * MS);
    CHECK_EQ(weft_connect_any(addrs, 2, &io, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    CHECK_LT(weft_now(), until + 10 * MS);
    REQUIRE_EQ(weft_connect_any(addrs, 2, &io, weft_after(5000 * MS)), 0);
    CHECK_EQ(weft_close(io), 0);
    weft_task *task = io_go(NULL, connect_cancelled, addrs);
    CHECK_EQ(weft_sleep(10 * MS), 0);
    weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    /* The way takes longer than there is time. */
    net.delay_min = net.delay_max = 20 * MS;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    until = weft_after(5 * MS);
    CHECK_EQ(weft_connect(&addrs[1], &io, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    CHECK_EQ(weft_connect(&addrs[1], &io, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_connect(&addrs[1], &io, weft_after(100 * MS)), 0);
    CHECK_EQ(weft_close(io), 0);
    return weft_close(listener);
}

API_TEST(sim_connect_silent_first, "", .sched = "sim") { io_run(silent_first, NULL); }
