/* shard_fail.c - batches that fail: said once, removed, and everything else goes on; unless the store says that it cannot. */
#include "shard.h"

/* Odd blocks' first attempt fails: ids tell which batch it is, since a failed block's number is used again. */
static int fail_odd(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)state;
    return batch->txs[0].id % 2 ? -ENOTRECOVERABLE : 0;
}

static void fails(bool in_commit) {
    struct rig *rig = rig_new(1, 0);
    *(in_commit ? &rig->committing : &rig->during) = fail_odd;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a"), *other = rig_shard(rig, "b");
    for (unsigned i = 0; i < 10; i++) {
        rig_submit(rig, shard);
        rig_drain(rig);
    }
    CHECK_EQ(atomic_load(&rig->failures), 5);
    CHECK_EQ(atomic_load(&rig->last_error), ENOTRECOVERABLE);
    CHECK_EQ(atomic_load(&rig->done_well), 5);
    weft_shard_info info = rig_info(shard);
    CHECK_EQ(info.committed, 5);
    CHECK_EQ(info.failed, 5);
    CHECK_EQ(info.block, 5); /* no gaps */
    CHECK_EQ(info.pooled, 0); /* K30 */
    CHECK_EQ(info.cycles, 10);
    for (unsigned i = 0; i < 10; i++)
        CHECK_EQ(rig->log[i].block, i / 2 + 1);
    rig_submit(rig, other);
    rig_submit(rig, other);
    rig_drain(rig);
    CHECK_NE(rig_info(other).state, WEFT_SHARD_STOPPED);
    rig_end(rig);
}

TEST(shard_execute_fails, "K28 K30 K31") { fails(false); }
TEST(shard_commit_fails, "K29 K30 K31") { fails(true); }

/* One turn goes on after a failed batch, while the quantum lasts. */
static int fail_and_add(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    if (state->last_id < 5)
        rig_submit(rig, batch->shard);
    return state->last_id < 5 ? -ERANGE : 0;
}

TEST(shard_turn_goes_on_after_failure, "K14 K30 K31") {
    struct rig *rig = rig_new(1, INT64_MAX);
    rig->during = fail_and_add;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    rig_submit(rig, shard);
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 5);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(shard).turns, 1);
    CHECK_EQ(rig_info(shard).cycles, 5);
    CHECK_EQ(rig_info(shard).block, 1);
    CHECK_EQ(rig_info(shard).failed, 4);
    rig_end(rig);
}

/* A positive result is no error. */
static int more_than_well(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)state, (void)batch;
    return 5;
}

TEST(shard_positive_is_success, "K16") {
    struct rig *rig = rig_new(1, 0);
    rig->during = more_than_well;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    rig_submit(rig, shard);
    rig_drain(rig);
    CHECK_EQ(atomic_load(&rig->done_well), 1);
    CHECK_EQ(rig_info(shard).block, 1);
    rig_end(rig);
}

/* Without a callback the failure is a line on stderr. */
TEST(shard_failure_is_printed, "K28") {
    int ends[2], saved = dup(2);
    REQUIRE_EQ(pipe(ends), 0);
    struct rig *rig = rig_new(1, 0);
    rig->config.failed = NULL;
    rig->during = fail_odd;
    rig_begin(rig);
    dup2(ends[1], 2);
    rig_submit(rig, rig_shard(rig, "a"));
    rig_drain(rig);
    dup2(saved, 2);
    char text[256] = "";
    REQUIRE_GT(read(ends[0], text, sizeof text - 1), 0);
    CHECK_CONTAINS(text, "weft: shard \"a\": a batch of 1 for block 1 failed");
    rig_end(rig);
}

/* -- Fatal errors */

static int fail_for_good(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)batch;
    if (strcmp(state->name, "bad") || state->last_id < 3)
        return 0;
    rig_submit(rig, batch->shard); /* waits when it happens */
    return *(int *)rig->arg;
}

static bool is_fatal(void *self, int error) {
    (void)self;
    return error == -ENOSPC;
}

static void fatal(int error, bool stops) {
    struct rig *rig = rig_new(2, 0);
    rig->committing = fail_for_good;
    rig->arg = &error;
    rig->config.store.fatal = is_fatal;
    rig_begin(rig);
    weft_shard *bad = rig_shard(rig, "bad"), *good = rig_shard(rig, "good");
    for (int i = 0; i < 2; i++) {
        rig_submit(rig, bad);
        rig_drain(rig);
    }
    if (!stops) {
        rig_end(rig);
        return;
    }
    rig_submit(rig, bad);
    REQUIRE_EVENTUALLY(rig_info(bad).state == WEFT_SHARD_STOPPED);
    rig_drain(rig); /* also what waited: nobody is left without an answer */
    CHECK_EQ(atomic_load(&rig->failures), 1);
    CHECK_EQ(atomic_load(&rig->done_stopped), 1);
    CHECK_EQ(rig_info(bad).pooled, 0);
    CHECK_EQ(rig_info(bad).block, 2);
    uint64_t id = 99;
    CHECK_EQ(weft_shard_submit(bad, "x", 1, &id), -EIO);
    CHECK_EQ(id, 99);
    CHECK(!weft_shard_schedule(bad));
    /* Others are not concerned. */
    for (int i = 0; i < 20; i++) {
        rig_submit(rig, good);
        rig_drain(rig);
    }
    CHECK_EQ(rig_info(good).block, 20);
    CHECK_EQ(rig_info(bad).cycles, 3);
    rig_end(rig);
}

TEST(shard_fatal_commit, "K29 K30 K31") {
    fatal(-EROFS, true);
    fatal(-ENOSPC, true);
    fatal(-ENOSPC, false); /* not reached: two are not enough */
}

/* An executor's error is never fatal, whatever the store says about its number. */
static int refuse(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)state, (void)batch;
    return -EROFS;
}

static bool all_fatal(void *self, int error) {
    (void)self, (void)error;
    return true;
}

TEST(shard_execute_is_never_fatal, "K28 K31") {
    struct rig *rig = rig_new(1, 0);
    rig->during = refuse;
    rig->config.store.fatal = all_fatal;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    for (int i = 0; i < 5; i++) {
        rig_submit(rig, shard);
        rig_drain(rig);
    }
    CHECK_EQ(atomic_load(&rig->failures), 5);
    CHECK_NE(rig_info(shard).state, WEFT_SHARD_STOPPED);
    rig_end(rig);
}

/* Submitting against the stop: refused, or told. */
static int fatal_soon(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)batch;
    return state->last_id > 200 ? -EROFS : 0;
}

static void submit_until_refused(unsigned index, void *arg) {
    (void)index;
    struct rig *rig = arg;
    weft_shard *shard = rig_shard(rig, "a");
    int error;
    while ((error = weft_shard_submit(shard, "x", 1, NULL)) == 0 || error == -EAGAIN) /* full, on a busy machine */
        atomic_fetch_add(&rig->accepted, error == 0);
    CHECK_EQ(error, -EIO);
}

TEST(shard_submit_against_stop, "K23 K30") {
    for (int round = 0; round < 20; round++) {
        struct rig *rig = rig_new(2, 0);
        rig->committing = fatal_soon;
        rig_begin(rig);
        harness_threads(3, submit_until_refused, rig);
        rig_drain(rig);
        CHECK_EQ(rig_info(rig_shard(rig, "a")).pooled, 0);
        rig_end(rig);
    }
}

/* -- Restarting */

static int fail_second(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)batch;
    return state->blocks == 1 ? -EROFS : 0;
}

static int not_yet(void *arg, void *state, uint64_t *next_block) {
    (void)arg, (void)state, (void)next_block;
    return -ENODEV;
}

static int repair(void *arg, void *shard_state, uint64_t *next_block) {
    struct rig_state *state = shard_state;
    CHECK_EQ(*next_block, 2);
    *next_block = ++state->blocks + 1; /* the failed block was there after all */
    *(int *)arg += 1;
    return 0;
}

TEST(shard_restarts, "K31") {
    struct rig *rig = rig_new(1, 0);
    int repaired = 0;
    rig->committing = fail_second;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    for (int i = 0; i < 2; i++) {
        rig_submit(rig, shard);
        rig_drain(rig);
    }
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_STOPPED);
    CHECK_EQ(weft_shard_submit(shard, "x", 1, NULL), -EIO);
    int error;
    while ((error = weft_shard_restart(shard, not_yet, NULL)) == -EBUSY) /* its turn has not quite ended */
        harness_nap();
    CHECK_EQ(error, -ENODEV);
    CHECK_EQ(rig_info(shard).state, WEFT_SHARD_STOPPED);
    CHECK_EQ(weft_shard_restart(shard, repair, &repaired), 0);
    CHECK_EQ(repaired, 1);
    CHECK_EQ(rig_info(shard).state, WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(shard).block, 2);
    rig_submit(rig, shard);
    rig_drain(rig);
    CHECK_EQ(rig_info(shard).block, 3);
    CHECK_EQ(weft_shard_restart(NULL, NULL, NULL), -EINVAL);
    weft_lane_shutdown(rig->lane);
    CHECK_EQ(weft_shard_restart(shard, NULL, NULL), -ESHUTDOWN);
    rig_end(rig);
}
