/* shard_bytes.c - pools are bounded by bytes, per shard and for the lane. */
#include "shard.h"

#define HOUR INT64_C(3600000000000)

static char large[65536];

static unsigned fill(struct rig *rig, weft_shard *shard, size_t size) {
    unsigned count = 0;
    int error;
    while (!(error = weft_shard_submit(shard, large, size, NULL)))
        count++;
    CHECK_EQ(error, -EAGAIN);
    atomic_fetch_add(&rig->accepted, count);
    return count;
}

TEST(shard_pool_bytes, "K14") {
    struct rig *rig = rig_new(1, HOUR);
    rig->during = rig_hold;
    rig->config.max_pool_bytes = 1 << 20;
    rig_begin(rig);
    rig_hold_one(rig);
    weft_shard *shard = rig_shard(rig, "a");
    unsigned count = fill(rig, shard, sizeof large);
    CHECK_EQ(count, 15); /* each has a header */
    CHECK_GE(weft_shard_pooled_bytes(shard), count * sizeof large);
    CHECK_LE(weft_shard_pooled_bytes(shard), 1 << 20);
    CHECK_GE(fill(rig, shard, 1), 1); /* what is left is for small ones */
    CHECK_LE(weft_shard_pooled_bytes(shard), 1 << 20);
    weft_tx many[17];
    for (int i = 0; i < 17; i++)
        many[i] = (weft_tx){0, large, sizeof large};
    CHECK_EQ(weft_shard_submit_many(shard, many, 17, NULL), -EINVAL); /* never */
    CHECK_EQ(weft_shard_submit(shard, large, SIZE_MAX, NULL), -EINVAL);
    atomic_store(&rig->release, true);
    rig_drain(rig);
    CHECK_EQ(weft_shard_pooled_bytes(shard), 0);
    CHECK_LE(weft_lane_pooled_bytes(rig->lane), 2 * 4096); /* what the two shards keep */
    rig_submit(rig, shard);
    rig_drain(rig);
    rig_end(rig);
}

TEST(shard_total_bytes, "K14") {
    struct rig *rig = rig_new(1, HOUR);
    rig->during = rig_hold;
    rig->config.max_total_bytes = 1 << 20;
    rig_begin(rig);
    rig_hold_one(rig);
    weft_shard *a = rig_shard(rig, "a"), *b = rig_shard(rig, "b");
    unsigned count = fill(rig, a, sizeof large);
    CHECK_GE(count, 12);
    CHECK_LE(count, 15);
    fill(rig, b, 100); /* what is left */
    CHECK_EQ(weft_shard_submit(b, large, sizeof large, NULL), -EAGAIN);
    CHECK_LE(weft_shard_pooled_bytes(a) + weft_shard_pooled_bytes(b), 1 << 20);
    CHECK_LE(weft_lane_pooled_bytes(rig->lane), 1 << 20);
    atomic_store(&rig->release, true);
    rig_drain(rig);
    CHECK_LE(weft_lane_pooled_bytes(rig->lane), 3 * 4096);
    CHECK_GE(fill(rig, b, sizeof large), 10); /* another shard may use them now */
    rig_drain(rig);
    rig_end(rig);
}

TEST(shard_bytes_of_nothing, "") {
    CHECK_EQ(weft_shard_pooled_bytes(NULL), 0);
    CHECK_EQ(weft_lane_pooled_bytes(NULL), 0);
}
