/* savina_bank.c - Savina bank transaction: a teller moves money between a thousand accounts; none of it is lost. */
#include "actor.h"

enum { ACCOUNTS = 1000, TELLER = ACCOUNTS };
enum { TAKE, PUT, TAKEN, CLOSE }; /* value: what, from << 4, to << 20, amount << 36 */

static uint64_t value_of(uint64_t what, uint64_t from, uint64_t to, uint64_t amount) {
    return what | from << 4 | to << 20 | amount << 36;
}

/* number: its balance, which may be below 0. */
static bool account(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    uint64_t to = value >> 20 & 0xffff, amount = value >> 36;
    (void)from;
    switch (value & 15) {
    case TAKE:
        actor->number -= amount;
        actor_send(actor, stage->pid[to], (value & ~UINT64_C(15)) | PUT);
        return false;
    case PUT:
        actor->number += amount;
        actor_send(actor, stage->pid[TELLER], TAKEN);
        return false;
    default: atomic_fetch_add((atomic_ullong *)stage->more, actor->number); return true;
    }
}
/* As many at a time as there are accounts; sent and seen: transactions. */
static bool teller(struct actor *actor, uint64_t value, weft_pid from) {
    struct stage *stage = actor->stage;
    (void)from;
    actor->seen += value == TAKEN;
    while (actor->sent < stage->rounds && actor->sent - actor->seen < ACCOUNTS) {
        uint64_t source = actor_random(&actor->random) % ACCOUNTS, more = actor_random(&actor->random);
        uint64_t to = (source + 1 + more % (ACCOUNTS - 1)) % ACCOUNTS;
        actor_send(actor, stage->pid[source], value_of(TAKE, source, to, more >> 32 & 1023));
        actor->sent++;
    }
    if (actor->seen < stage->rounds)
        return false;
    for (int i = 0; i < ACCOUNTS; i++)
        actor_send(actor, stage->pid[i], CLOSE);
    return true;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    uint64_t go = CLOSE;
    for (uint32_t i = 0; i < ACCOUNTS; i++)
        stage->pid[i] = actor_start_with(stage, account, i, WEFT_PID_NONE, 1000, NULL);
    stage->pid[TELLER] = actor_start(stage, teller, TELLER);
    return weft_send(NULL, stage->pid[TELLER], 0, &go, sizeof go);
}
static void savina_bank(struct bench_run *run) {
    atomic_ullong money = 0;
    struct stage stage = {.rounds = run->quick ? 20000 : 200000, .more = &money};
    actor_perform(run, &stage, ACCOUNTS + 1, ACCOUNTS + 1, begin, stage.rounds);
    bench_check(run, atomic_load(&money) == 1000 * ACCOUNTS, "there are %llu in the bank",
                (unsigned long long)atomic_load(&money));
}
const struct bench_workload bench_savina_bank = {
    .name = "savina_bank",
    .about = "Savina bank transaction: 1,000 accounts, 200 k transactions: ns/transaction",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_bank", "ns/transaction", NULL}},
    .run = savina_bank,
};
