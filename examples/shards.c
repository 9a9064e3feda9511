/* shards.c - accounts in shards: transfers of one shard run one after the other, those of different shards at the same time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

/* A shard's state: only its own batches touch it, so it needs no lock. */
struct account {
    long balance;
};

static int open_account(void *self, const char *name, void **shard_state, uint64_t *next_block) {
    (void)self, (void)name;
    *next_block = 1;
    return (*shard_state = calloc(1, sizeof(struct account))) ? 0 : -1;
}

static void close_account(void *self, void *shard_state) {
    (void)self;
    free(shard_state);
}

/* On a thread of the lane: a whole batch, which becomes one block. */
static int execute(void *self, void *shard_state, weft_batch *batch) {
    (void)self;
    long *sum = malloc(sizeof *sum);
    if (!sum)
        return -1; /* the batch has failed; the shard goes on */
    *sum = ((struct account *)shard_state)->balance;
    for (size_t i = 0; i < batch->count; i++)
        *sum += *(const int *)batch->txs[i].data;
    batch->out = sum;
    return 0;
}

static int commit(void *self, void *shard_state, const weft_batch *batch) {
    (void)self;
    ((struct account *)shard_state)->balance = *(long *)batch->out;
    return 0;
}

static void release(void *self, weft_batch *batch, int committed) {
    (void)self, (void)committed;
    free(batch->out);
}

static void done(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error) {
    (void)shard, (void)tx, (void)block, (void)error;
    weft_group_done(arg);
}

int main(void) {
    static const char *const names[] = {"ada", "ben", "cleo"};
    weft_group left;
    weft_group_init(&left);
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    config.workers = 2;
    config.executor = (weft_executor){execute, release, NULL};
    config.done = done;
    config.arg = &left;
    config.store = (weft_store){open_account, commit, NULL, close_account, NULL};
    weft_lane *lane;
    if (weft_lane_create(&config, &lane) < 0)
        return 1;
    for (int i = 0; i < 300; i++) {
        weft_shard *shard;
        int amount = i % 3 + 1;
        weft_group_add(&left, 1);
        if (weft_shard_get(lane, names[i % 3], &shard) < 0 ||
            weft_shard_submit(shard, &amount, sizeof amount, NULL) < 0)
            return 1;
    }
    if (weft_group_wait(&left, WEFT_NEVER) < 0)
        return 1;
    weft_lane_shutdown(lane); /* from here on nobody else touches the accounts */
    for (int i = 0; i < 3; i++) {
        struct account *account = weft_shard_store_state(weft_shard_find(lane, names[i]));
        printf("%s: %ld\n", names[i], account->balance);
    }
    weft_lane_destroy(lane);
    return 0;
}
