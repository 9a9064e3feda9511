/* slice_jobs.c - no call that is a job of the blocking pool, or that waits for another task's answer, holds its worker longer than a slice. */
#include "slice.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <weft/abi.h>
#include <weft/blocking.h>
#include <weft/child.h>
#include <weft/supervisor.h>

#include "io_fixture.h"

static int is(ssize_t found, ssize_t expected) { return found == expected ? 0 : found < 0 ? (int)found : -EPROTO; }

static char path[64], other_path[64];
static weft_file *stored;
static weft_pid answerer;

/* -- Files ------------------------------------------------------------------------------------------------- */

static int job(void *unused) {
    (void)unused;
    return 7;
}
static int blocking_call(void) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int result = 0;
    spec.fn = job;
    int error = weft_blocking_call(&spec, &result, WEFT_NEVER);
    return error ? error : is(result, 7);
}
static int dir_list(void) {
    weft_dir *dir;
    int error = weft_dir_list("/", &dir, WEFT_NEVER);
    if (!error)
        weft_dir_free(dir);
    return error;
}
static int file_load(void) {
    void *bytes;
    ssize_t size = weft_file_load(path, 4096, &bytes, WEFT_NEVER);
    if (size >= 0)
        weft_file_free(bytes);
    return size < 0 ? (int)size : 0;
}
static int file_open(void) {
    weft_file *file;
    int error = weft_file_open(path, O_RDONLY, 0, &file, WEFT_NEVER);
    return error ? error : weft_file_close(file);
}
static int file_save(void) { return weft_file_save(other_path, "abc", 3, 0600, WEFT_NEVER); }
static int file_stat(void) {
    struct stat found;
    return weft_file_stat(stored, &found, WEFT_NEVER);
}
static int file_sync(void) { return weft_file_sync(stored, WEFT_NEVER); }
static int file_sync_data(void) { return weft_file_sync_data(stored, WEFT_NEVER); }
static int file_truncate(void) { return weft_file_truncate(stored, 16, WEFT_NEVER); }
static int file_write(void) { return is(weft_file_write(stored, "abc", 3, 0, WEFT_NEVER), 3); }
static int file_writev(void) {
    struct iovec part = {(char[]){'a', 'b'}, 2};
    return is(weft_file_writev(stored, &part, 1, 0, WEFT_NEVER), 2);
}
static int path_stat(void) {
    struct stat found;
    return weft_path_stat(path, &found, WEFT_NEVER);
}
static int path_sync(void) { return weft_path_sync(path, WEFT_NEVER); }
static int path_rename(void) {
    int error = weft_path_rename(path, other_path, WEFT_NEVER);
    return error ? error : weft_path_rename(other_path, path, WEFT_NEVER);
}
static int path_mkdir_and_remove(void) {
    int error = weft_path_mkdir(other_path, 0700, WEFT_NEVER);
    return error ? error : weft_path_remove(other_path, WEFT_NEVER);
}
static int child_start(void) {
    static const char *const program[] = {"true", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    weft_child *child;
    spec.argv = program;
    int error = weft_child_start(&spec, &child, WEFT_NEVER);
    if (error)
        return error;
    error = weft_child_wait(child, NULL, WEFT_NEVER);
    weft_child_close(child);
    return error;
}

/* -- Others ------------------------------------------------------------------------------------------------- */

static int return_nothing(void *unused) {
    (void)unused;
    return 0;
}
static int ask(void) {
    weft_message reply;
    return weft_ask(answerer, "?", 1, &reply, WEFT_NEVER);
}
static int supervise(void) {
    weft_supervised_fiber child = {"child", return_nothing, NULL, WEFT_RESTART_TEMPORARY, 0};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    return weft_supervise(&config, &child, 1);
}
static int process_supervise(void) {
    weft_process_child child = WEFT_PROCESS_CHILD("child", return_nothing, NULL);
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    child.restart = WEFT_RESTART_TEMPORARY;
    return weft_process_supervise(&config, &child, 1);
}
static int abi_nursery_destroy(void) {
    weft_nursery *nursery = weft_abi_nursery_create();
    if (!nursery)
        return -ENOMEM;
    weft_abi_nursery_destroy(nursery);
    return 0;
}
static int async_await(void) {
    weft_nursery nursery;
    weft_async call;
    int error = weft_nursery_init(&nursery, NULL, NULL);
    if (error)
        return error;
    error = weft_async_call(&nursery, return_nothing, NULL, &call);
    if (!error)
        error = weft_async_await(&call, NULL);
    int end = weft_nursery_destroy(&nursery);
    return error ? error : end;
}

static const struct slice_call calls[] = {
    {"weft_blocking_call", blocking_call, SLICE_HEAVY},
    {"weft_dir_list", dir_list, SLICE_HEAVY},
    {"weft_file_load", file_load, SLICE_HEAVY},
    {"weft_file_open", file_open, SLICE_HEAVY},
    {"weft_file_save", file_save, SLICE_HEAVY},
    {"weft_file_stat", file_stat, SLICE_HEAVY},
    {"weft_file_sync", file_sync, SLICE_HEAVY},
    {"weft_file_sync_data", file_sync_data, SLICE_HEAVY},
    {"weft_file_truncate", file_truncate, SLICE_HEAVY},
    {"weft_file_write", file_write, SLICE_HEAVY},
    {"weft_file_writev", file_writev, SLICE_HEAVY},
    {"weft_path_stat", path_stat, SLICE_HEAVY},
    {"weft_path_sync", path_sync, SLICE_HEAVY},
    {"weft_path_rename", path_rename, SLICE_HEAVY},
    {"weft_path_mkdir", path_mkdir_and_remove, SLICE_HEAVY},
    {"weft_path_remove", path_mkdir_and_remove, SLICE_HEAVY},
    {"weft_child_start", child_start, SLICE_HEAVY},
    {"weft_ask", ask, SLICE_HEAVY},
    {"weft_supervise", supervise, SLICE_HEAVY},
    {"weft_process_supervise", process_supervise, SLICE_HEAVY},
    {"weft_abi_nursery_destroy", abi_nursery_destroy, SLICE_LIGHT},
    {"weft_async_await", async_await, SLICE_LIGHT},
};

static int answer(void *unused) {
    (void)unused;
    weft_message message;
    while (weft_receive(&message, NULL, NULL, WEFT_NEVER) == 0 && message.type != WEFT_MESSAGE_CANCEL)
        REQUIRE_EQ(weft_reply(&message, "!", 1), 0);
    return 0;
}

static int check_all(void *unused) {
    (void)unused;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    io_path(path, sizeof path, false);
    io_path(other_path, sizeof other_path, false);
    REQUIRE_EQ(weft_file_save(path, "abcdefgh", 8, 0600, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_file_open(path, O_RDWR, 0, &stored, WEFT_NEVER), 0);
    spec.fn = answer;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &answerer, NULL), 0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        slice_check(&calls[i]);
        (void)unlink(other_path);
    }
    REQUIRE_EQ(weft_process_cancel(NULL, answerer), 0);
    CHECK_EQ(weft_file_close(stored), 0);
    (void)unlink(path);
    return 0;
}

API_TEST(slice_of_every_job, "R10", .workers = {1}, .timeout = 240) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = check_all;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
