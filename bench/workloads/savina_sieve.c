/* savina_sieve.c - Savina sieve of Eratosthenes: a chain of filters with a thousand primes each; who is full starts the next. */
#include "actor.h"

enum { PRIMES = 1000 };

/* data: its primes; sent: how many; peer: the next filter. */
static bool filter(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    uint32_t *primes = actor->data;
    (void)from;
    if (!value) { /* the end of the numbers */
        atomic_fetch_add((atomic_ullong *)stage->more, actor->sent);
        if (actor->peer)
            actor_send(actor, actor->peer, 0);
        free(primes);
        return true;
    }
    for (uint64_t i = 0; i < actor->sent; i++) {
        if (value % primes[i] == 0)
            return false;
        if ((uint64_t)primes[i] * primes[i] > value)
            break;
    }
    if (actor->sent < PRIMES) {
        primes[actor->sent++] = (uint32_t)value;
        return false;
    }
    if (!actor->peer)
        actor->peer = actor_start_with(stage, filter, 0, WEFT_PID_NONE, 0, calloc(PRIMES, sizeof *primes));
    actor_send(actor, actor->peer, value);
    return false;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    uint64_t value = 2;
    int error = 0;
    weft_pid first = actor_start_with(stage, filter, 0, WEFT_PID_NONE, 0, calloc(PRIMES, sizeof(uint32_t)));
    for (; value <= stage->rounds && !error; value++)
        error = weft_send(NULL, first, 0, &value, sizeof value);
    value = 0;
    return error ? error : weft_send(NULL, first, 0, &value, sizeof value);
}
static void savina_sieve(struct bench_run *run) {
    atomic_ullong primes = 0;
    struct stage stage = {.rounds = run->quick ? 10000 : 100000, .more = &primes};
    actor_perform(run, &stage, 0, 0, begin, stage.rounds);
    bench_check(run, atomic_load(&primes) == (run->quick ? 1229 : 9592), "%llu primes",
                (unsigned long long)atomic_load(&primes));
}
const struct bench_workload bench_savina_sieve = {
    .name = "savina_sieve",
    .about = "Savina sieve: primes up to 100 k through filters of 1,000: ns/number",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_sieve", "ns/number", NULL}},
    .run = savina_sieve,
};
