/* savina_uct.c - Savina unbalanced cobwebbed tree: each node is an actor that starts its children, by a random number of its own, and adds up
 * how many nodes are below it.  The same tree is counted without actors. */
#include "actor.h"

enum { DEPTH = 12, GO = 0 };

/* How many children a node has: by its number and depth only. */
static unsigned children_of(uint64_t number, unsigned depth, unsigned most) {
    uint64_t random = number * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (int i = 0; i < 4; i++)
        actor_random(&random);
    return depth >= most ? 0 : depth < 3 ? 4 : (unsigned)(random >> 20) % 5;
}
static uint64_t child_of(uint64_t number, unsigned child) { return number * 5 + child + 1; }

static uint64_t count(uint64_t number, unsigned depth, unsigned most) {
    uint64_t nodes = 1;
    for (unsigned i = 0; i < children_of(number, depth, most); i++)
        nodes += count(child_of(number, i), depth + 1, most);
    return nodes;
}

/* index: depth; number: which; peer: its parent; sent: children that have not answered; seen: nodes below it. */
static bool node(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    (void)from;
    if (value == GO) {
        actor->sent = children_of(actor->number, actor->index, (unsigned)stage->rounds);
        for (unsigned i = 0; i < actor->sent; i++)
            actor_send(actor,
                       actor_start_with(stage, node, actor->index + 1, weft_self(), child_of(actor->number, i), NULL),
                       GO);
        actor->seen = 1;
    } else {
        actor->seen += value;
        actor->sent--;
    }
    if (actor->sent)
        return false;
    if (actor->peer)
        actor_send(actor, actor->peer, actor->seen);
    else
        atomic_store((atomic_ullong *)stage->more, actor->seen);
    return true;
}
static int begin(void *arg) {
    uint64_t go = GO;
    return weft_send(NULL, actor_start_with(arg, node, 0, WEFT_PID_NONE, 1, NULL), 0, &go, sizeof go);
}
static void savina_uct(struct bench_run *run) {
    atomic_ullong found = 0;
    struct stage stage = {.rounds = run->quick ? DEPTH - 3 : DEPTH, .more = &found};
    uint64_t nodes = count(1, 0, (unsigned)stage.rounds);
    actor_perform(run, &stage, 0, 0, begin, nodes);
    bench_check(run, atomic_load(&found) == nodes, "%llu of %llu nodes", (unsigned long long)atomic_load(&found),
                (unsigned long long)nodes);
}
const struct bench_workload bench_savina_uct = {
    .name = "savina_uct",
    .about = "Savina unbalanced cobwebbed tree, a process a node: ns/node",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_uct", "ns/node", NULL}},
    .run = savina_uct,
};
