/* savina_quicksort.c - Savina quicksort: an actor a part, down to two thousand numbers; each tells its parent when it is done. */
#include "actor.h"

enum { SMALL = 2048, GO = 1, DONE = 2 };

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Less or equal, then greater; neither part is all of it. */
static size_t part(uint32_t *numbers, size_t count) {
    uint32_t pivot = numbers[count / 2];
    size_t low = 0, high = count - 1;
    for (;;) {
        while (numbers[low] < pivot)
            low++;
        while (numbers[high] > pivot)
            high--;
        if (low >= high)
            return low == 0 ? 1 : low;
        uint32_t kept = numbers[low];
        numbers[low++] = numbers[high];
        numbers[high--] = kept;
    }
}

/* data: its numbers; number: how many; peer: its parent; seen: parts that are done. */
static bool sort(struct actor *actor, uint64_t value, weft_pid from) {
    uint32_t *numbers = actor->data;
    size_t count = actor->number;
    uint64_t go = GO;
    (void)from;
    if (value == GO && count > SMALL) {
        size_t at = part(numbers, count);
        weft_pid left = actor_start_with(actor->stage, sort, 0, weft_self(), at, numbers);
        weft_pid right = actor_start_with(actor->stage, sort, 0, weft_self(), count - at, numbers + at);
        actor_send(actor, left, go);
        actor_send(actor, right, go);
        return false;
    }
    if (value == GO)
        qsort(numbers, count, sizeof *numbers, compare);
    else if (++actor->seen < 2)
        return false;
    if (actor->peer)
        actor_send(actor, actor->peer, DONE);
    return true;
}
static int begin(void *arg) {
    struct stage *stage = arg;
    uint64_t go = GO;
    weft_pid all = actor_start_with(stage, sort, 0, WEFT_PID_NONE, stage->rounds, stage->more);
    return weft_send(NULL, all, 0, &go, sizeof go);
}
static void savina_quicksort(struct bench_run *run) {
    struct stage stage = {.rounds = run->quick ? 100000 : 1000000};
    uint32_t *numbers = malloc(stage.rounds * sizeof *numbers);
    uint64_t random = 1, before = 0, after = 0, unsorted = 0;
    if (!bench_check(run, numbers != NULL, "no memory"))
        return;
    for (uint64_t i = 0; i < stage.rounds; i++)
        before += numbers[i] = (uint32_t)actor_random(&random);
    stage.more = numbers;
    actor_perform(run, &stage, 0, 0, begin, stage.rounds);
    for (uint64_t i = 0; i < stage.rounds; i++) {
        after += numbers[i];
        unsorted += i && numbers[i - 1] > numbers[i];
    }
    bench_check(run, before == after && !unsorted, "%llu are out of order", (unsigned long long)unsorted);
    free(numbers);
}
const struct bench_workload bench_savina_quicksort = {
    .name = "savina_quicksort",
    .about = "Savina quicksort of 1 M numbers, an actor a part: ns/number",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"savina_quicksort", "ns/number", NULL}},
    .run = savina_quicksort,
};
