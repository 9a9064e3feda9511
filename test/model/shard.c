/* shard.c - the lane: adding against the end of a turn, racing schedules, queue against sleep, shutdown against both. */
#include <errno.h>

#include <weft/shard.h>

#include "model.h"
#include "shard/lane.h"

static weft_lane *lane;
static weft_shard *shard;
static int data; /* plain: the batches' own; one at a time, each seeing what the last wrote */
static int notes; /* the same, written after the batch has left the pool */
static _Atomic int ran, told; /* transactions */

static int execute(void *self, void *state, weft_batch *batch) {
    (void)self, (void)state;
    mc_assert(batch->count > 0 && batch->txs[0].id == (uint64_t)data + 1); /* K14, K17: each once, in order */
    mc_assert(batch->block == load_relaxed(&shard->block) + 1);
    data += (int)batch->count;
    add_relaxed(&ran, (int)batch->count);
    return 0;
}

static void on_done(void *arg, weft_shard *which, const weft_tx *tx, uint64_t block, int error) {
    (void)arg, (void)which, (void)tx;
    mc_assert((block == 0) == (error != 0));
    notes++;
    add_relaxed(&told, 1);
}

/* A lane with one shard.  Without workers of its own, the test's threads take turns. */
static void begin(unsigned workers, int64_t quantum) {
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    config.workers = workers;
    config.quantum = quantum;
    config.executor.execute = execute;
    config.done = on_done;
    mc_atomic_begin();
    mc_assert(weft_lane_create(&config, &lane) == 0);
    mc_assert(weft_shard_get(lane, "a", &shard) == 0);
    mc_atomic_end();
}

static void add(void *unused) {
    (void)unused;
    mc_assert(weft_shard_submit(shard, NULL, 0, NULL) == 0);
}

static void wait_for(int count) {
    while (load_relaxed(&ran) != count)
        wefti_relax();
}

static void at_rest(int count) {
    weft_lane_destroy(lane);
    mc_assert(data == count && notes == count && load_relaxed(&told) == count);
}

/* proves K23: two adds; the second meets the end of the first one's turn.  Nobody schedules again. */
MC_TEST(shard_add_against_end_of_turn, .proves = "K23", .bound = 2, .stale_counts = true, .seconds = 10) {
    begin(1, 0);
    int a = mc_spawn(add, NULL);
    add(NULL);
    mc_join(a);
    wait_for(2);
    at_rest(2);
}

/* The same within a long turn, whose last cycle finds nothing. */
MC_TEST(shard_add_against_empty_pool, .proves = "K20 K23", .bound = 2, .stale_counts = true, .seconds = 10) {
    begin(1, INT64_MAX);
    int a = mc_spawn(add, NULL);
    add(NULL);
    mc_join(a);
    wait_for(2);
    at_rest(2);
}

/* Two workers: a turn begins on one when it has ended on the other, and sees what that wrote. */
MC_TEST(shard_two_workers, .proves = "K34 K35", .mode = MC_PCT, .depth = 4, .max_exec = 15000, .seconds = 10) {
    begin(2, 0);
    int a = mc_spawn(add, NULL);
    add(NULL);
    add(NULL);
    mc_join(a);
    wait_for(3);
    at_rest(3);
}

static int look_at_notes(void *arg, void *state, uint64_t *next_block) {
    (void)arg, (void)state, (void)next_block;
    mc_assert(notes <= 2); /* plain: a turn that has not ended is a race */
    notes += 0;
    return 0;
}

/* A restart has a turn of its own: it excludes the worker, and what was added meanwhile is run. */
MC_TEST(shard_restart_against_turn, .proves = "K23 K35", .bound = 2, .stale_counts = true, .seconds = 10) {
    begin(1, 0);
    int a = mc_spawn(add, NULL);
    int error = weft_shard_restart(shard, look_at_notes, NULL);
    mc_assert(error == 0 || error == -EBUSY);
    add(NULL);
    mc_join(a);
    wait_for(2);
    at_rest(2);
}

/* -- Scheduling */

static _Atomic int won;

static void schedule(void *unused) {
    (void)unused;
    if (weft_shard_schedule(shard))
        add_relaxed(&won, 1);
}

/* proves K6 K7: the only worker is asleep or has not begun; entries are counted as they come out of the queue. */
MC_TEST(shard_racing_schedules, .proves = "K6 K7", .bound = 4, .seconds = 10) {
    mc_atomic_begin();
    lane = wefti_alloc(sizeof *lane); /* a queue that nobody takes from */
    shard = wefti_alloc(sizeof *shard);
    shard->lane = lane;
    store_relaxed(&shard->word, WEFTI_IDLE | WEFTI_REF_ONE);
    mc_atomic_end();
    int a = mc_spawn(schedule, NULL), b = mc_spawn(schedule, NULL);
    schedule(NULL);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&won) == 1);
    mc_assert(weft_lane_queued(lane) == 1);
    mc_assert(wefti_word_life(load_relaxed(&shard->word)) == WEFTI_SCHEDULED);
    wefti_free(shard, sizeof *shard);
    wefti_free(lane, sizeof *lane);
}

/* proves K3 K38: an enqueue against a worker that goes to sleep. */
MC_TEST(shard_enqueue_against_sleep, .proves = "K3 K11", .bound = 3, .stale_counts = true, .seconds = 10) {
    begin(1, 0);
    add(NULL);
    wait_for(1);
    at_rest(1);
}

/* -- Shutdown */

/* proves K38 K39 K41: whatever the workers are at. */
MC_TEST(shard_shutdown_against_sleep, .proves = "K38 K39 K41", .bound = 3, .stale_counts = true, .seconds = 10) {
    begin(2, 0);
    weft_lane_shutdown(lane);
    at_rest(0);
}

static void shut_down(void *unused) {
    (void)unused;
    weft_lane_shutdown(lane);
    mc_assert(data == load_relaxed(&ran)); /* K41: nobody runs any more, and all of it is seen */
}

static _Atomic int accepted;

static void add_or_not(void *unused) {
    (void)unused;
    int error = weft_shard_submit(shard, NULL, 0, NULL);
    mc_assert(error == 0 || error == -ESHUTDOWN);
    add_relaxed(&accepted, error == 0);
}

/* An add against shutdown: run, or told at the end; it comes with a worker taken out of the sleepers but not yet woken. */
MC_TEST(shard_add_against_shutdown, .proves = "K38 K40", .bound = 2, .stale_counts = true, .seconds = 10) {
    begin(1, 0);
    int a = mc_spawn(add_or_not, NULL);
    shut_down(NULL);
    mc_join(a);
    weft_lane_destroy(lane);
    mc_assert(load_relaxed(&told) == load_relaxed(&accepted));
}

MC_TEST(shard_two_shut_down, .proves = "K41", .bound = 2, .stale_counts = true, .seconds = 10) {
    begin(1, INT64_MAX);
    add(NULL);
    int a = mc_spawn(shut_down, NULL);
    shut_down(NULL);
    mc_join(a);
    weft_lane_destroy(lane);
    mc_assert(load_relaxed(&told) == 1);
}

/* -- A fatal error */

static int cannot(void *self, void *state, const weft_batch *batch) {
    (void)self, (void)state, (void)batch;
    return -EROFS;
}

static int open_one(void *self, const char *name, void **state, uint64_t *next) {
    (void)self, (void)name, (void)state, (void)next;
    return 0;
}

static void ignore(void *arg, weft_shard *which, const weft_batch *batch, int error) {
    (void)arg, (void)which, (void)batch, (void)error;
}

static void add_or_stopped(void *unused) {
    (void)unused;
    int error = weft_shard_submit(shard, NULL, 0, NULL);
    mc_assert(error == 0 || error == -EIO);
    add_relaxed(&accepted, error == 0);
}

/* An add against the stop of its shard: refused, or told. */
MC_TEST(shard_add_against_stop, .proves = "K29 K30", .bound = 2, .stale_counts = true, .seconds = 10) {
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    config.workers = 1;
    config.store.open = open_one;
    config.store.commit = cannot;
    config.failed = ignore;
    config.done = on_done;
    mc_atomic_begin();
    mc_assert(weft_lane_create(&config, &lane) == 0);
    mc_assert(weft_shard_get(lane, "a", &shard) == 0);
    mc_atomic_end();
    int a = mc_spawn(add_or_stopped, NULL);
    add_or_stopped(NULL);
    mc_join(a);
    while (load_relaxed(&told) != load_relaxed(&accepted)) /* without the end of the lane */
        wefti_relax();
    weft_lane_destroy(lane);
}

/* -- The registry */

static weft_shard *given[2];

static void get(void *i) { mc_assert(weft_shard_get(lane, "b", &given[(intptr_t)i]) == 0); }

static void find(void *unused) {
    (void)unused;
    weft_shard *found = weft_shard_find(lane, "b");
    mc_assert(!found || (found->lane == lane && found->name[0] == 'b')); /* whole, or not there */
}

MC_TEST(shard_get_twice, .proves = "K2", .bound = 3, .stale_counts = true, .seconds = 10) {
    begin(1, 0);
    weft_lane_shutdown(lane); /* its worker is not needed */
    store_relaxed(&lane->shutdown, false);
    int a = mc_spawn(get, (void *)1), b = mc_spawn(find, NULL);
    get((void *)0);
    mc_join(a), mc_join(b);
    mc_assert(given[0] == given[1]);
    store_relaxed(&lane->shutdown, true);
    weft_lane_destroy(lane);
}

/* One who walks all of them meanwhile. */
static void visit(weft_shard *which, void *arg) {
    mc_assert(which->lane == lane && which->name[0]);
    ++*(int *)arg;
}

static void walk(void *unused) {
    (void)unused;
    int count = 0;
    weft_shard_each(lane, visit, &count);
    mc_assert(count == 1 || count == 2);
}

MC_TEST(shard_each_against_get, .proves = "K2", .bound = 3, .stale_counts = true, .seconds = 10) {
    begin(1, 0);
    int a = mc_spawn(walk, NULL);
    get((void *)0);
    mc_join(a);
    weft_lane_destroy(lane);
}
