/* lane.c - no-op transactions through the shard library, blocks kept in memory only: transactions a second over 1, 16 and 1,024 shards. */
#include <stdatomic.h>
#include <stdio.h>

#include "../harness/bench.h"

enum { SHARDS_MAX = 1024, BATCH = 64 };

static atomic_ullong executed;

static int execute(void *self, void *shard_state, weft_batch *batch) {
    (void)self, (void)shard_state;
    atomic_fetch_add_explicit(&executed, batch->count, memory_order_relaxed);
    return 0;
}

static double over(struct bench_run *run, unsigned shards, uint64_t count) {
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    weft_lane *lane;
    weft_shard *shard[SHARDS_MAX];
    weft_tx txs[BATCH];
    config.workers = run->workers;
    config.executor.execute = execute;
    if (!bench_check(run, weft_lane_create(&config, &lane) == 0, "weft_lane_create"))
        return 0;
    for (unsigned i = 0; i < shards; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        if (!bench_check(run, weft_shard_get(lane, name, &shard[i]) == 0, "weft_shard_get"))
            return 0;
    }
    for (unsigned i = 0; i < BATCH; i++)
        txs[i] = (weft_tx){0, "transfer 1 to 2", 15};
    atomic_store(&executed, 0);
    uint64_t sent = 0, refused = 0;
    int64_t start = bench_now();
    for (unsigned i = 0; sent < count; i++) {
        int error = weft_shard_submit_many(shard[i % shards], txs, BATCH, NULL);
        if (error) {
            refused++; /* the pool is full */
            bench_sleep_us(50);
        } else {
            sent += BATCH;
        }
    }
    while (atomic_load(&executed) != sent)
        bench_sleep_us(20);
    int64_t end = bench_now();
    weft_lane_shutdown(lane);
    uint64_t committed = 0;
    for (unsigned i = 0; i < shards; i++) {
        weft_shard_info info;
        weft_shard_info_read(shard[i], &info);
        committed += info.committed;
        bench_check(run, info.pooled == 0 && info.block == info.cycles, "shard %u", i);
    }
    bench_check(run, committed == sent, "%llu of %llu committed", (unsigned long long)committed,
                (unsigned long long)sent);
    weft_lane_destroy(lane);
    return (double)sent * 1e9 / (double)(end - start);
}

static void lane_run(struct bench_run *run) {
    static const unsigned counts[] = {1, 16, SHARDS_MAX};
    for (int i = 0; i < 3; i++)
        run->value[i] = over(run, counts[i], run->quick ? 131072 : 2097152);
}

/* The lane has threads of its own: the scheduler makes no difference. */
const struct bench_workload bench_lane = {
    .name = "lane",
    .about = "the lane alone, no-op transactions that are kept nowhere, over 1, 16 and 1,024 shards, submitted 64 at a "
             "time: transactions/s",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"lane_1", "tx/s", NULL}, {"lane_16", "tx/s", NULL}, {"lane_1024", "tx/s", NULL}},
    .skip = bench_skip_sim,
    .run = lane_run,
};
