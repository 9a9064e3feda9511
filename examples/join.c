/* join.c - fan out, fan in: a task starts ten others and adds up their results.
 * The state of a poll task is its memory between two calls: here, which child comes next. */
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CHILDREN = 10 };

static weft_poll square(weft_task *self, void *state) {
    intptr_t n = *(int *)state;
    return weft_done(self, 0, (void *)(n * n));
}

struct parent {
    weft_task *child[CHILDREN];
    int started, joined;
    intptr_t sum;
};

static weft_poll parent(weft_task *self, void *state) {
    struct parent *p = state;
    weft_result result;

    for (; p->started < CHILDREN; p->started++) {
        int n = p->started + 1;
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = square;
        spec.state = &n; /* copied into the task */
        spec.state_size = sizeof n;
        int error = weft_spawn(NULL, &spec, &p->child[p->started]);
        if (error < 0)
            return weft_done(self, error, NULL);
    }
    for (; p->joined < CHILDREN; p->joined++) {
        if (weft_join_poll(p->child[p->joined], self, &result) < 0)
            return WEFT_PENDING; /* called again when this child has ended */
        p->sum += (intptr_t)result.value;
        weft_task_drop(p->child[p->joined]);
    }
    printf("1 + 4 + ... + %d = %ld\n", CHILDREN * CHILDREN, (long)p->sum);
    return WEFT_READY;
}

int main(void) {
    struct parent state = {0};
    return weft_run(NULL, parent, &state, NULL) < 0;
}
