/* actor_stage.c - actors that are called with a number (actor.h). */
#include "actor.h"

void actor_send(struct actor *actor, weft_pid to, uint64_t value) {
    if (weft_send(NULL, to, 0, &value, sizeof value))
        actor_wrong(actor->stage);
}

static void ends(struct stage *stage) {
    if (atomic_fetch_sub(&stage->left, 1) == 1)
        atomic_store(&stage->end, bench_now());
}

static int fiber_actor(void *arg) {
    struct actor *given = arg, actor = *given;
    weft_message m;
    free(given);
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE) {
        uint64_t value;
        memcpy(&value, m.data, sizeof value);
        if (actor.fn(&actor, value, m.from)) {
            ends(actor.stage);
            return 0;
        }
    }
    return -EIO;
}

static int class_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(state, input, size);
    return 0;
}
static int class_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct actor *actor = state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        if (events[i].type != WEFT_MESSAGE)
            return -EIO;
        memcpy(&value, events[i].data, sizeof value);
        if (actor->fn(actor, value, events[i].from)) {
            ends(actor->stage);
            out->status = WEFT_STEP_DONE;
            break;
        }
    }
    return 0;
}
/* Without what is the bench's own, and with it. */
static const weft_process_class small_class = {.size = sizeof small_class,
                                               .name = "actor",
                                               .state_size = offsetof(struct actor, peer),
                                               .init = class_init,
                                               .step = class_step};
static const weft_process_class whole_class = {.size = sizeof whole_class,
                                               .name = "actor",
                                               .state_size = sizeof(struct actor),
                                               .init = class_init,
                                               .step = class_step};

static weft_pid start(struct stage *stage, const weft_process_class *class_, const struct actor *actor) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid = WEFT_PID_NONE;
    if (stage->growing) {
        atomic_fetch_add(&stage->left, 1);
        atomic_fetch_add(&stage->started, 1);
    }
    if (stage->run->kind == BENCH_FIBER) {
        struct actor *given = malloc(sizeof *given);
        if (!given)
            return WEFT_PID_NONE;
        *given = *actor;
        spec.fn = fiber_actor;
        spec.arg = given;
    } else {
        spec.class_ = class_;
        spec.input = actor;
        spec.input_size = class_->state_size;
    }
    if (weft_process_spawn(NULL, &spec, &pid, NULL))
        actor_wrong(stage);
    return pid;
}

static struct actor actor_of(struct stage *stage, actor_fn fn, uint32_t index) {
    return (struct actor){.fn = fn, .stage = stage, .index = index, .random = index * UINT64_C(0x9e3779b97f4a7c15) + 1};
}

weft_pid actor_start_with(struct stage *stage, actor_fn fn, uint32_t index, weft_pid peer, uint64_t number,
                          void *data) {
    struct actor actor = actor_of(stage, fn, index);
    actor.peer = peer;
    actor.number = number;
    actor.data = data;
    return start(stage, &whole_class, &actor);
}

weft_pid actor_start(struct stage *stage, actor_fn fn, uint32_t index) {
    struct actor actor = actor_of(stage, fn, index);
    return start(stage, &small_class, &actor);
}

struct beginning {
    struct stage *stage;
    weft_fiber_fn fn;
};
static int run_begin(void *arg) {
    struct beginning *beginning = arg;
    int error = beginning->fn(beginning->stage);
    if (beginning->stage->growing)
        ends(beginning->stage);
    return error;
}

void actor_perform(struct bench_run *run, struct stage *stage, unsigned actors, unsigned pids, weft_fiber_fn begin,
                   uint64_t ops) {
    struct beginning beginning = {stage, begin};
    stage->run = run;
    stage->growing = actors == 0;
    atomic_store(&stage->left, actors ? actors : 1);
    atomic_store(&stage->started, actors);
    stage->pid = calloc(pids + 1, sizeof *stage->pid);
    stage->rt = stage->pid ? bench_open(run) : NULL;
    if (!bench_check(run, stage->rt != NULL, "no memory"))
        return;
    weft_task *first;
    weft_result result;
    int64_t began = bench_now();
    if (bench_check(run, weft_fiber_go(stage->rt, run_begin, &beginning, &first) == 0, "no memory")) {
        weft_join(first, &result, WEFT_NEVER);
        weft_task_drop(first);
    }
    while (!atomic_load(&stage->end) && !atomic_load(&stage->wrong)) /* set after the last has ended */
        bench_sleep_us(200);
    bench_check(run, atomic_load(&stage->wrong) == 0, "%llu answers are wrong, or messages lost",
                (unsigned long long)atomic_load(&stage->wrong));
    run->value[0] = (double)(atomic_load(&stage->end) - began) / (double)ops;
    bench_close(run, stage->rt, atomic_load(&stage->started) + 1);
    free(stage->pid);
}
