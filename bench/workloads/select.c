/* select.c - one fiber selects over four channels, each with a fiber that sends: ns a message.  The channels have no capacity, so most
 * selects wait in all four. */
#include "../harness/bench.h"

enum { LANES = 4 };

struct lanes {
    weft_chan *ch[LANES];
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
    struct lane lane[LANES];
    uint64_t value = 0;
    weft_case cases[LANES];
    l->start = bench_now();
    for (int i = 0; i < LANES; i++) {
        lane[i] = (struct lane){l->ch[i], l->each};
        cases[i] = weft_case_recv(l->ch[i], &value);
        int code = weft_fiber_go(NULL, produce, &lane[i], NULL);
        if (code < 0)
            return code;
    }
    for (int open = LANES; open;) {
        int index = weft_select(cases, LANES, WEFT_NEVER);
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

static void run_select(struct bench_run *run) {
    struct lanes l = {.each = (run->quick ? 100000 : 1000000) / LANES};
    for (int i = 0; i < LANES; i++)
        if (!bench_check(run, weft_chan_create(8, 0, &l.ch[i]) == 0, "no memory"))
            return;
    bench_in_fiber(run, consume, &l, 1 + LANES);
    bench_check(run, l.count == LANES * l.each && l.sum == LANES * (l.each * (l.each - 1) / 2), "%llu messages came",
                (unsigned long long)l.count);
    for (int i = 0; i < LANES; i++)
        bench_check(run, weft_chan_destroy(l.ch[i]) == 0, "a channel is in use");
    run->value[0] = (double)(l.end - l.start) / (double)(LANES * l.each);
}

const struct bench_workload bench_select = {
    .name = "select",
    .about = "a fiber selects over 4 channels of capacity 0, each with its sender, 1 M messages: ns/message",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"select", "ns/message", "floor_switch"}},
    .run = run_select,
};
