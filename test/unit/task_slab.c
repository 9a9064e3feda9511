/* task_slab.c - where task objects live: sizes, reuse, walks, running out of memory. */
#include "harness.h"
#include "plat/plat.h"
#include "task/slab.h"

#include <stdlib.h>
#include <string.h>

static struct wefti_slab slab;
static struct wefti_slab_cache cache;
static char runtime_stand_in;

static void begin(void) { wefti_slab_init(&slab, (struct weft_runtime *)(void *)&runtime_stand_in); }

static struct weft_task *take(struct wefti_slab_cache *from, size_t state_size) {
    struct weft_task *task = wefti_slab_take(&slab, from, state_size);
    REQUIRE(task);
    REQUIRE_EQ(wefti_word_life(load_relaxed(&task->word)), WEFTI_FREE);
    task->name = "unit";
    return task;
}

static unsigned class_of(const struct weft_task *task) { return task->layout & WEFTI_LAYOUT_CLASS; }

TEST(slab_task_size, "B2") {
    CHECK_EQ(sizeof(struct weft_task), 64); /* the smallest: one cache line */
    CHECK_LE(wefti_task_size(WEFT_STATE_MAX), 512);
    CHECK_EQ(wefti_slab_size[WEFTI_SLAB_CLASSES - 1], 512);
}

/* Every state size gets a slot that holds it, and no slot is larger than it must be. */
TEST(slab_classes, "B2") {
    begin();
    for (size_t size = 0; size <= WEFT_STATE_MAX; size++) {
        struct weft_task *task = take(size % 2 ? &cache : NULL, size);
        size_t slot = wefti_slab_size[class_of(task)];
        REQUIRE_GE(slot, wefti_task_size(size));
        REQUIRE_LE(slot, 512);
        if (class_of(task))
            REQUIRE_LT(wefti_slab_size[class_of(task) - 1], wefti_task_size(size));
        REQUIRE_EQ((uintptr_t)task % 64, 0);
        task->layout |= size <= 8 ? WEFTI_STATE_SMALL : WEFTI_STATE_LARGE;
        REQUIRE_EQ((uintptr_t)wefti_task_state(task) % (size <= 8 ? 8 : 16), 0);
        REQUIRE_EQ(wefti_task_rt(task), slab.rt); /* found through its chunk */
        memset(wefti_task_state(task), 255, size);
        wefti_slab_give(&slab, size % 2 ? &cache : NULL, task);
    }
    wefti_slab_fini(&slab);
}

TEST(slab_reuses_newest, "") {
    begin();
    struct weft_task *a = take(&cache, 0), *b = take(&cache, 0);
    CHECK_NE(a, b);
    wefti_slab_give(&slab, &cache, a);
    wefti_slab_give(&slab, &cache, b);
    CHECK_EQ(take(&cache, 0), b); /* still in the processor's cache */
    CHECK_EQ(take(&cache, 0), a);
    struct weft_task *c = take(NULL, 0);
    wefti_slab_give(&slab, NULL, c);
    CHECK_EQ(take(NULL, 0), c);
    wefti_slab_fini(&slab);
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Many slots through cache, depot and outside, several times: distinct while alive, and no more memory the second time. */
TEST(slab_no_slot_twice, "B2") {
    enum { COUNT = 40000 };
    static struct weft_task *task[COUNT], *sorted[COUNT];
    unsigned chunks = 0;
    uint64_t random = harness_seed();
    begin();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            task[i] = take(harness_random(&random) % 3 ? &cache : NULL, i % 2 ? 0 : 200);
        memcpy(sorted, task, sizeof task);
        qsort(sorted, COUNT, sizeof *sorted, by_address);
        for (int i = 1; i < COUNT; i++)
            REQUIRE_GE((char *)sorted[i] - (char *)sorted[i - 1], wefti_slab_size[class_of(sorted[i - 1])]);
        for (int i = 0; i < COUNT; i++)
            wefti_slab_give(&slab, harness_random(&random) % 3 ? &cache : NULL, task[i]);
        unsigned now = 0;
        for (struct wefti_chunk *chunk = load_relaxed(&slab.chunks); chunk; chunk = chunk->next)
            now++;
        if (round == 0)
            chunks = now;
        CHECK_EQ(now, chunks);
    }
    wefti_slab_fini(&slab);
}

/* What one worker frees reaches another through the depot. */
TEST(slab_magazines_travel, "") {
    static struct wefti_slab_cache other;
    enum { COUNT = 4 * WEFTI_SLAB_MAGAZINE };
    static struct weft_task *task[COUNT];
    begin();
    for (int i = 0; i < COUNT; i++)
        task[i] = take(&cache, 0);
    uint32_t carved = load_relaxed(&load_relaxed(&slab.chunks)->carved);
    for (int i = 0; i < COUNT; i++)
        wefti_slab_give(&slab, &other, task[i]);
    for (int i = 0; i < COUNT / 2; i++)
        take(&cache, 0);
    CHECK_EQ(load_relaxed(&load_relaxed(&slab.chunks)->carved), carved);
    wefti_slab_fini(&slab);
}

/* Tasks from outside, which a worker ends, need no more memory than a few: a new page in the way of a submit is what makes it late. */
TEST(slab_outside_few, "B2") {
    begin();
    for (int i = 0; i < 10000; i++)
        wefti_slab_give(&slab, &cache, take(NULL, 0));
    CHECK_LE(load_relaxed(&load_relaxed(&slab.chunks)->carved), 4 * WEFTI_SLAB_FEW);
    wefti_slab_fini(&slab);
}

/* However they ended, the depot gives slots in the order of their addresses. */
TEST(slab_puts_in_order, "") {
    enum { COUNT = 80000 };
    static struct weft_task *task[COUNT];
    uint64_t random = harness_seed();
    begin();
    for (int i = 0; i < COUNT; i++)
        task[i] = take(&cache, 100); /* of 192 bytes, which divides no chunk */
    for (int i = COUNT - 1; i > 0; i--) {
        int other = (int)(harness_random(&random) % (unsigned)(i + 1));
        struct weft_task *was = task[i];
        task[i] = task[other];
        task[other] = was;
    }
    for (int i = 0; i < COUNT; i++)
        wefti_slab_give(&slab, &cache, task[i]);
    enum { KEPT = (2 + WEFTI_SLAB_RECENT) * WEFTI_SLAB_MAGAZINE }; /* as they came: in the cache, and in the depot */
    for (int i = 0; i < KEPT; i++)
        take(&cache, 100);
    unsigned far = 0;
    const char *before = NULL;
    for (int i = KEPT; i < COUNT; i++) {
        const char *now = (const char *)take(&cache, 100);
        far += before && now - before != wefti_slab_size[2];
        before = now;
    }
    CHECK_LE(far, COUNT / 8); /* where those are that were kept; at random it would be nearly each */
    wefti_slab_fini(&slab);
}

/* -- Walks ------------------------------------------------------------------------------------------------ */

static unsigned visited;

static void visit(struct weft_task *task, void *arg) {
    CHECK_EQ(arg, &visited);
    CHECK_STR(task->name, "unit");
    CHECK_EQ(wefti_word_refs(load_relaxed(&task->word)), 2); /* ours is held meanwhile */
    CHECK(!wefti_word_unref(&task->word, 0));
    visited++;
}

TEST(slab_walk, "B54") {
    static struct weft_task *task[1000];
    begin();
    wefti_slab_walk(&slab, visit, &visited);
    CHECK_EQ(visited, 0);
    for (int i = 0; i < 1000; i++) {
        task[i] = take(i % 3 ? &cache : NULL, (size_t)i % WEFT_STATE_MAX);
        wefti_word_spawn(&task[i]->word, false);
    }
    wefti_slab_walk(&slab, visit, &visited);
    CHECK_EQ(visited, 1000);
    for (int i = 0; i < 1000; i += 2) /* some end; dead and complete ones are not visited */
        if (i % 4)
            wefti_slab_give(&slab, &cache, task[i]);
        else
            store_relaxed(&task[i]->word, WEFTI_COMPLETE | WEFTI_REF_ONE);
    visited = 0;
    wefti_slab_walk(&slab, visit, &visited);
    CHECK_EQ(visited, 500);
    wefti_slab_fini(&slab);
}

/* -- No memory -------------------------------------------------------------------------------------------- */

TEST(slab_exhausted, "") {
    begin();
    wefti_fault_set(0, true);
    CHECK_EQ(wefti_slab_take(&slab, &cache, 0), NULL);
    CHECK_EQ(wefti_slab_take(&slab, NULL, 0), NULL);
    wefti_fault_set(1, true); /* one chunk, and no more */
    unsigned count = 0;
    struct weft_task *task, *last = NULL;
    while ((task = wefti_slab_take(&slab, count % 2 ? &cache : NULL, 300)))
        last = task, count++;
    CHECK_GE(count, WEFTI_SLAB_CHUNK / 384 - 70); /* all of it was used, but for what a cache may hold */
    CHECK_LE(count, WEFTI_SLAB_CHUNK / 384);
    CHECK_EQ(wefti_slab_take(&slab, NULL, 300), NULL);
    wefti_slab_give(&slab, NULL, last);
    CHECK_EQ(wefti_slab_take(&slab, NULL, 300), last);
    wefti_fault_set(-1, false);
    CHECK(wefti_slab_take(&slab, &cache, 300));
    wefti_slab_fini(&slab);
}

/* -- All at once ------------------------------------------------------------------------------------------ */

static _Atomic bool over;
static _Atomic unsigned leaving;

static void look(struct weft_task *task, void *arg) {
    (void)arg;
    CHECK_EQ(load_relaxed(&task->status), 'a');
    if (wefti_word_unref(&task->word, 0))
        wefti_slab_give(&slab, NULL, task);
}

/* Workers and outsiders make and end tasks while somebody walks over all of them. */
static void churn(unsigned index, void *arg) {
    struct wefti_slab_cache own = {0}, *mine = index == 1 ? NULL : &own;
    (void)arg;
    if (index == 0) {
        while (!load_relaxed(&over))
            wefti_slab_walk(&slab, look, NULL);
        return;
    }
    struct weft_task *held[64] = {NULL};
    uint64_t random = harness_seed() + index;
    for (int i = 0; i < (harness_is_slow() ? 20000 : 300000); i++) {
        struct weft_task **at = &held[harness_random(&random) % 64];
        if (*at) {
            /* As finish does: complete, dropping the scheduler's reference; the last holder gives it back. */
            wefti_word_enter(&(*at)->word);
            if (wefti_word_refs(wefti_word_to_complete(&(*at)->word)) == 0)
                wefti_slab_give(&slab, mine, *at);
            *at = NULL;
        } else {
            *at = take(mine, 1 + harness_random(&random) % WEFT_STATE_MAX);
            store_relaxed(&(*at)->status, 'a');
            wefti_word_spawn(&(*at)->word, false);
        }
    }
    for (int i = 0; i < 64; i++)
        if (held[i]) {
            wefti_word_enter(&held[i]->word);
            if (wefti_word_refs(wefti_word_to_complete(&held[i]->word)) == 0)
                wefti_slab_give(&slab, mine, held[i]);
        }
    if (add_relaxed(&leaving, 1) == 2)
        store_relaxed(&over, true);
}

TEST(slab_walk_beside_churn, "B54") {
    begin();
    harness_threads(4, churn, NULL);
    wefti_slab_walk(&slab, visit, &visited);
    CHECK_EQ(visited, 0);
    wefti_slab_fini(&slab);
}
