/* sim.c - the simulator: the same seed gives the same order, and a deadlock is found at once. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { TASKS = 6, STEPS = 4 };
static char trace[TASKS * STEPS + 1], *end;

static weft_poll step(weft_task *self, void *state) {
    char *s = state; /* s[0]: my letter, s[1]: steps left */
    *end++ = s[0];
    return --s[1] ? WEFT_YIELD : weft_done(self, 0, NULL);
}

static weft_poll start(weft_task *self, void *state) {
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        char letter[2] = {(char)('a' + i), STEPS};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = step;
        spec.state = letter;
        spec.state_size = sizeof letter;
        if (weft_spawn(NULL, &spec, NULL) < 0)
            return weft_done(self, -ENOMEM, NULL);
    }
    return WEFT_READY;
}

static int run(uint64_t seed, weft_poll_fn first, void *state) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_SIM;
    config.seed = seed;
    end = trace;
    return weft_run(&config, first, state, NULL);
}

/* Two tasks, each of which waits for the other to end. */
struct side {
    weft_task *other;
};

static weft_poll polite(weft_task *self, void *state) {
    struct side *me = state;
    int error = weft_join_poll(me->other, self, NULL);
    return error == -EAGAIN ? WEFT_PENDING : weft_done(self, error, NULL);
}

static void polite_drop(void *state) { weft_task_drop(((struct side *)state)->other); }

static weft_poll meet(weft_task *self, void *state) {
    struct side *sides = state;
    weft_spec spec = WEFT_SPEC_INIT;
    int error = 0;
    spec.poll = polite;
    spec.drop = polite_drop;
    for (int i = 0; i < 2 && error == 0; i++) {
        spec.state = &sides[i];
        spec.name = i == 0 ? "left" : "right";
        error = weft_spawn(NULL, &spec, &sides[1 - i].other);
    }
    return weft_done(self, error, NULL);
}

int main(void) {
    char first[sizeof trace];
    struct side sides[2] = {{NULL}, {NULL}};
    if (run(1, start, NULL) < 0 || !memcpy(first, trace, sizeof trace) || run(1, start, NULL) < 0)
        return 1;
    printf("seed 1 again: %s order\n", strcmp(first, trace) == 0 ? "the same" : "another");
    int error = run(2, start, NULL);
    printf("seed 2: %s order\n", strcmp(first, trace) == 0 ? "the same" : "another");
    printf("two that wait for each other: %s\n", run(1, meet, sides) == -EDEADLK ? "deadlock found" : "not found");
    return error < 0;
}
