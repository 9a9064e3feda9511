/* skynet.c - a tree of tasks, ten children each, with 1 M leaves; each sends its sum to its parent by channel: ms.
 *
 * As fibers, or as poll tasks.  The channel of an inner task lies in its frame or state, and has room for all its children. */
#include <errno.h>

#include "../harness/bench.h"

enum { CHILDREN = 10 };

struct node {
    weft_chan *parent;
    uint64_t first, leaves; /* numbers first ... first + leaves - 1 */
};

static struct node child_of(const struct node *node, weft_chan *ch, unsigned i) {
    uint64_t share = node->leaves / CHILDREN;
    return (struct node){ch, node->first + i * share, share};
}

/* -- Fibers ---------------------------------------------------------------------------------------------- */

static int fiber(void *arg) {
    const struct node *node = arg; /* in the parent's frame, which stays until it has our sum */
    weft_chan *parent = node->parent;
    uint64_t sum = node->first, part;
    if (node->leaves > 1) {
        weft_chan ch;
        uint64_t buffer[CHILDREN];
        struct node children[CHILDREN];
        int code = weft_chan_init(&ch, sizeof part, CHILDREN, buffer);
        for (unsigned i = 0; i < CHILDREN; i++) {
            children[i] = child_of(node, &ch, i);
            code = code < 0 ? code : weft_fiber_go(NULL, fiber, &children[i], NULL);
        }
        sum = 0;
        for (unsigned i = 0; i < CHILDREN; i++) {
            code = code < 0 ? code : weft_chan_recv(&ch, &part, WEFT_NEVER);
            sum += part;
        }
        code = code < 0 ? code : weft_chan_fini(&ch);
        if (code < 0)
            return code;
    }
    return weft_chan_send(parent, &sum, WEFT_NEVER);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

struct inner {
    struct node node;
    unsigned heard; /* children that have answered */
    bool begun;
    uint64_t sum;
    weft_wait wait;
    weft_chan ch;
    uint64_t buffer[CHILDREN];
};

static weft_poll leaf(weft_task *self, void *state) {
    const struct node *node = state;
    return weft_done(self, weft_chan_send(node->parent, &node->first, WEFT_NOW), NULL);
}

static weft_poll branch(weft_task *self, void *state) {
    struct inner *me = state;
    int code = 0;
    if (!me->begun) {
        me->begun = true;
        code = weft_chan_init(&me->ch, sizeof me->sum, CHILDREN, me->buffer);
        for (unsigned i = 0; i < CHILDREN && code == 0; i++) {
            struct inner child = {.node = child_of(&me->node, &me->ch, i)};
            weft_spec spec = WEFT_SPEC_INIT;
            spec.poll = child.node.leaves > 1 ? branch : leaf;
            spec.state = &child;
            spec.state_size = child.node.leaves > 1 ? sizeof child : sizeof child.node;
            code = weft_spawn(NULL, &spec, NULL);
        }
    }
    while (code == 0 && me->heard < CHILDREN) {
        uint64_t part;
        code = weft_chan_recv_poll(&me->ch, self, &me->wait, &part);
        if (code == -EAGAIN)
            return WEFT_PENDING;
        me->sum += part;
        me->heard++;
    }
    code = code < 0 ? code : weft_chan_fini(&me->ch);
    code = code < 0 ? code : weft_chan_send(me->node.parent, &me->sum, WEFT_NOW);
    return weft_done(self, code, NULL);
}

/* -- The run --------------------------------------------------------------------------------------------- */

static void skynet(struct bench_run *run) {
    uint64_t leaves = run->quick ? 100000 : 1000000, sum = 0, tasks = 0;
    for (uint64_t level = leaves; level; level /= CHILDREN)
        tasks += level;
    weft_chan *root;
    weft_runtime *rt = bench_open(run);
    if (!rt || !bench_check(run, weft_chan_create(sizeof sum, 1, &root) == 0, "no memory"))
        return;
    struct inner first = {.node = {root, 0, leaves}};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = branch;
    spec.state = &first;
    spec.state_size = sizeof first;
    int64_t start = bench_now();
    int code = run->kind == BENCH_FIBER ? weft_fiber_go(rt, fiber, &first.node, NULL) : weft_spawn(rt, &spec, NULL);
    if (bench_check(run, code == 0, "starting the first task: %s", weft_strerror(code))) {
        code = weft_chan_recv(root, &sum, weft_after(60 * INT64_C(1000000000)));
        bench_check(run, code == 0, "the sum: %s", weft_strerror(code));
    }
    run->value[0] = (double)(bench_now() - start) / 1e6;
    bench_check(run, sum == leaves * (leaves - 1) / 2, "the sum is %llu", (unsigned long long)sum);
    bench_close(run, rt, tasks);
    bench_check(run, weft_chan_destroy(root) == 0, "the channel is in use");
}

const struct bench_workload bench_skynet = {
    .name = "skynet",
    .about = "a 10-ary tree of tasks with 1 M leaves, sums sent to the parent by channel: ms",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"skynet", "ms", NULL}},
    .run = skynet,
};
