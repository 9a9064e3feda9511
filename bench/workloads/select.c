/* select.c - one fiber selects over two and over eight channels, each with a fiber that sends: ns a message.  The channels have no
 * capacity, so most selects wait in all of them. */
#include "../harness/bench.h"

enum { LANES_MAX = 8 };

struct lanes {
    weft_chan *ch[LANES_MAX];
    int lanes;
    uint64_t each;
    uint64_t sum, count;
    int64_t start, end;
};

struct lane {
    weft_chan *ch;
    uint64_t each;
};

static int produce(void *arg) {
    struct lane lane = *(struct lane *)arg;
    for (uint64_t i = 0; i < lane.each; i++) {
        int code = weft_chan_send(lane.ch, &i, WEFT_NEVER);
        if (code < 0)
            return code;
    }
    weft_chan_close(lane.ch);
    return 0;
}

static int consume(void *arg) {
    struct lanes *l = arg;
    struct lane lane[LANES_MAX];
    uint64_t value = 0;
    weft_case cases[LANES_MAX];
    l->start = bench_now();
    for (int i = 0; i < l->lanes; i++) {
        lane[i] = (struct lane){l->ch[i], l->each};
        cases[i] = weft_case_recv(l->ch[i], &value);
        int code = weft_fiber_go(NULL, produce, &lane[i], NULL);
        if (code < 0)
            return code;
    }
    for (int open = l->lanes; open;) {
        int index = weft_select(cases, (size_t)l->lanes, WEFT_NEVER);
        if (index < 0)
            return index;
        if (cases[index].result < 0) {
            cases[index] = (weft_case){0};
            open--;
        } else {
            l->sum += value;
            l->count++;
        }
    }
    l->end = bench_now();
    return 0;
}

static double over(struct bench_run *run, int lanes) {
    struct lanes l = {.lanes = lanes, .each = (run->quick ? 100000u : 1000000u) / (unsigned)lanes};
    uint64_t n = (uint64_t)lanes * l.each;
    for (int i = 0; i < lanes; i++)
        if (!bench_check(run, weft_chan_create(8, 0, &l.ch[i]) == 0, "no memory"))
            return 0;
    bench_in_fiber(run, consume, &l, 1 + (unsigned)lanes);
    bench_check(run, l.count == n && l.sum == n * (l.each - 1) / 2, "%llu messages came", (unsigned long long)l.count);
    for (int i = 0; i < lanes; i++)
        bench_check(run, weft_chan_destroy(l.ch[i]) == 0, "a channel is in use");
    return (double)(l.end - l.start) / (double)n;
}

static void run_select(struct bench_run *run) {
    run->value[0] = over(run, 2);
    run->value[1] = over(run, LANES_MAX);
}

const struct bench_workload bench_select = {
    .name = "select",
    .about = "a fiber selects over 2 and over 8 channels of capacity 0, each with its sender, 1 M messages: ns/message",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"select_2", "ns/message", "floor_switch"}, {"select_8", "ns/message", "floor_switch"}},
    .run = run_select,
};
