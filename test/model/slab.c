/* slab.c - slots between a worker's cache, outside threads, and a walk over all of them. */
#include "task/slab.h"

#include "model.h"

static struct wefti_slab slab;
static struct wefti_slab_cache cache[2];

static struct weft_task *spawn(struct wefti_slab_cache *from) {
    struct weft_task *task = wefti_slab_take(&slab, from, 8);
    mc_assert(task != NULL);
    task->name = "task";
    task->pointer = &slab; /* a plain field: two that have it at once are found */
    wefti_word_spawn(&task->word, false);
    return task;
}

static void end(struct weft_task *task, struct wefti_slab_cache *to) {
    mc_assert(wefti_word_enter(&task->word));
    task->pointer = NULL;
    if (wefti_word_refs(wefti_word_to_complete(&task->word)) == 0)
        wefti_slab_give(&slab, to, task);
}

static void live_once(void *into) {
    struct wefti_slab_cache *mine = into;
    end(spawn(mine), mine);
}

/* Every slot has one owner at a time: two caches, and threads that have none. */
MC_TEST(slab_three_owners, .proves = "B54", .bound = 1) {
    wefti_slab_init(&slab, NULL);
    int a = mc_spawn(live_once, &cache[0]), b = mc_spawn(live_once, NULL);
    live_once(NULL);
    mc_join(a), mc_join(b);
    wefti_slab_fini(&slab);
}

static _Atomic int visited;

static void visit(struct weft_task *task, void *unused) {
    (void)unused;
    mc_assert(task->name && task->name[0] == 't');
    add_relaxed(&visited, 1);
    if (wefti_word_unref(&task->word, 0))
        wefti_slab_give(&slab, NULL, task);
}

static void walk(void *unused) {
    (void)unused;
    wefti_slab_walk(&slab, visit, NULL);
}

/* A walk beside tasks that are made and end. */
MC_TEST(slab_walk_beside_life, .proves = "B54", .bound = 2, .seconds = 6) {
    wefti_slab_init(&slab, NULL);
    int a = mc_spawn(walk, NULL);
    live_once(&cache[0]);
    live_once(&cache[0]);
    mc_join(a);
    wefti_slab_fini(&slab);
}

/* A task made here ends there: magazines move between caches. */
static struct weft_task *_Atomic handed[6];

static void end_all(void *unused) {
    (void)unused;
    for (int i = 0; i < 6; i++) {
        struct weft_task *task;
        while (!(task = load_acquire(&handed[i])))
            wefti_relax();
        end(task, &cache[1]);
    }
    for (int i = 0; i < 3; i++)
        end(spawn(&cache[1]), &cache[1]);
}

MC_TEST(slab_magazines_move, .proves = "B54", .bound = 1) {
    wefti_slab_init(&slab, NULL);
    int a = mc_spawn(end_all, NULL);
    for (int i = 0; i < 6; i++)
        store_release(&handed[i], spawn(&cache[0]));
    mc_join(a);
    wefti_slab_fini(&slab);
}

/* No memory: a clear answer, nothing lost. */
MC_TEST(slab_out_of_memory, .proves = "B54", .failures = 1) {
    wefti_slab_init(&slab, NULL);
    struct weft_task *task = wefti_slab_take(&slab, mc_choose(2) ? &cache[0] : NULL, 8);
    if (task) {
        wefti_word_spawn(&task->word, false);
        end(task, &cache[0]);
    }
    wefti_slab_fini(&slab);
}
