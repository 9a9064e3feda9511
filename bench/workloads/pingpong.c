/* pingpong.c - two fibers send a number to and fro over two channels, of capacity 1 or without a buffer: ns per round trip. */
#include "../harness/bench.h"

struct table {
    weft_chan *there, *back;
    uint64_t rounds, wrong;
    int64_t start, end;
};

static int pong(void *arg) {
    struct table *t = arg;
    uint64_t ball;
    while (weft_chan_recv(t->there, &ball, WEFT_NEVER) == 0) {
        ball++;
        t->wrong += weft_chan_send(t->back, &ball, WEFT_NEVER) != 0;
    }
    return 0;
}

static int ping(void *arg) {
    struct table *t = arg;
    int code = weft_fiber_go(NULL, pong, t, NULL);
    if (code < 0)
        return code;
    t->start = bench_now();
    for (uint64_t i = 0; i < t->rounds; i++) {
        uint64_t ball = i;
        t->wrong += weft_chan_send(t->there, &ball, WEFT_NEVER) != 0;
        t->wrong += weft_chan_recv(t->back, &ball, WEFT_NEVER) != 0 || ball != i + 1;
    }
    t->end = bench_now();
    weft_chan_close(t->there);
    return 0;
}

static void play(struct bench_run *run, size_t capacity) {
    struct table t = {.rounds = run->quick ? 100000 : 1000000};
    if (!bench_check(run, weft_chan_create(8, capacity, &t.there) == 0 && weft_chan_create(8, capacity, &t.back) == 0,
                     "no memory"))
        return;
    bench_in_fiber(run, ping, &t, 2);
    bench_check(run, t.wrong == 0, "%llu balls were lost", (unsigned long long)t.wrong);
    bench_check(run, weft_chan_destroy(t.there) == 0 && weft_chan_destroy(t.back) == 0, "a channel is in use");
    run->value[0] = (double)(t.end - t.start) / (double)t.rounds;
}

static void pingpong(struct bench_run *run) { play(run, 1); }
static void rendezvous(struct bench_run *run) { play(run, 0); }

const struct bench_workload bench_pingpong = {
    .name = "pingpong",
    .about = "1 M round trips of two fibers over two channels of capacity 1: ns/round trip",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"pingpong", "ns/rtt", "floor_switch"}},
    .run = pingpong,
};

const struct bench_workload bench_rendezvous = {
    .name = "rendezvous",
    .about = "1 M round trips of two fibers over two channels without a buffer: ns/round trip",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"rendezvous", "ns/rtt", "floor_switch"}},
    .run = rendezvous,
};
