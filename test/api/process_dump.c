/* process_dump.c - what a dump says of processes: idle ones wait for messages, and one that has been given a message but not its turn does not run. */
#include "process.h"

static int sleep_on(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class sleeper = {.size = sizeof sleeper, .name = "class", .step = sleep_on};

static int receive_one(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}

/* The task's line says so. */
static bool says(const char *name, const char *what) {
    static char text[16384];
    FILE *file = tmpfile();
    REQUIRE(file);
    CHECK_EQ(weft_dump(weft_runtime_current(), fileno(file)), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *line = strstr(text, name), *end = line ? strchr(line, '\n') : NULL;
    const char *found = line ? strstr(line, what) : NULL;
    if (!found || found > end)
        printf("%s", text);
    return found && found < end;
}

static int look_at(const weft_process_spec *spec, const char *name) {
    weft_pid pid;
    weft_task *task = NULL;
    weft_result result;
    REQUIRE_EQ(weft_process_spawn(NULL, spec, &pid, &task), 0);
    UNTIL(!strcmp(weft_task_state(task), "idle"));
    CHECK(says(name, "idle, waits for a message"));
    REQUIRE_EQ(weft_send(NULL, pid, 1, NULL, 0), 0);
    CHECK(says(name, "scheduled")); /* there is one worker, and that is here */
    CHECK_EQ(strcmp(weft_task_state(task), "scheduled"), 0);
    CHECK(says("\"test\"", "running"));
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    return result.status;
}

static int look(void *arg) {
    (void)arg;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &sleeper;
    CHECK_EQ(look_at(&spec, "\"class\""), 0);
    spec.class_ = NULL;
    spec.fn = receive_one;
    spec.name = "fiber";
    CHECK_EQ(look_at(&spec, "\"fiber\""), 0);
    return 0;
}

API_TEST(process_dump, "W22", .workers = {1}) { in_process(look, NULL); }
