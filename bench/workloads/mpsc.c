/* mpsc.c - four fibers send to one over a channel of capacity 1,024: ns a message; one by one, and 32 at a time. */
#include "../harness/bench.h"

enum { PRODUCERS = 4, CAPACITY = 1024, BATCH = 32 };

struct line {
    weft_chan *ch;
    uint64_t each; /* messages of each producer */
    bool batches;
    uint64_t sum, count;
    int64_t start, end;
};

static int produce(void *arg) {
    struct line *line = arg;
    uint64_t values[BATCH];
    for (uint64_t i = 0; i < line->each;) {
        int code = 0;
        if (!line->batches) {
            code = weft_chan_send(line->ch, &i, WEFT_NEVER);
            i++;
        } else {
            unsigned n = 0;
            while (n < BATCH && i < line->each)
                values[n++] = i++;
            code = weft_chan_send_many(line->ch, values, n, WEFT_NEVER) == (int)n ? 0 : -1;
        }
        if (code < 0)
            return code;
    }
    return 0;
}

static int consume(void *arg) {
    struct line *line = arg;
    uint64_t all = PRODUCERS * line->each, values[BATCH];
    line->start = bench_now();
    for (int i = 0; i < PRODUCERS; i++) {
        int code = weft_fiber_go(NULL, produce, line, NULL);
        if (code < 0)
            return code;
    }
    while (line->count < all) {
        int got = 1, code = 0;
        if (line->batches)
            code = got = weft_chan_recv_many(line->ch, values, BATCH, WEFT_NEVER);
        else
            code = weft_chan_recv(line->ch, values, WEFT_NEVER);
        if (code < 0)
            return code;
        for (int i = 0; i < got; i++)
            line->sum += values[i];
        line->count += (uint64_t)got;
    }
    line->end = bench_now();
    return 0;
}

static void mpsc(struct bench_run *run) {
    for (int batches = 0; batches < 2; batches++) {
        struct line line = {.each = (run->quick ? 400000 : 4000000) / PRODUCERS, .batches = batches};
        if (!bench_check(run, weft_chan_create(8, CAPACITY, &line.ch) == 0, "no memory"))
            return;
        bench_in_fiber(run, consume, &line, 1 + PRODUCERS);
        bench_check(run, line.sum == PRODUCERS * (line.each * (line.each - 1) / 2), "the sum is %llu",
                    (unsigned long long)line.sum);
        bench_check(run, weft_chan_destroy(line.ch) == 0, "the channel is in use");
        run->value[batches] = (double)(line.end - line.start) / (double)(PRODUCERS * line.each);
    }
}

const struct bench_workload bench_mpsc = {
    .name = "mpsc",
    .about = "4 fibers send 4 M messages to one, capacity 1,024, one by one and in batches: ns/message",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"mpsc", "ns/message", "floor_locked_add"}, {"mpsc_batch", "ns/message", "floor_locked_add"}},
    .run = mpsc,
};
