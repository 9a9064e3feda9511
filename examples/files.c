/* files.c - files that are written, read and listed by fibers, while their worker runs others. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

static char folder[] = "/tmp/weft-files-XXXXXX";

static const char *path_of(char *room, const char *name) {
    snprintf(room, 64, "%s/%s", folder, name);
    return room;
}

/* A log: records of eight bytes, each at its own place, so that several fibers may write at once. */
static int write_record(void *arg) {
    weft_file *log = arg;
    static int next;
    int number = next++; /* one worker: fibers take turns */
    char record[9];
    snprintf(record, sizeof record, "entry %d\n", number);
    return (int)weft_file_write(log, record, 8, number * 8, WEFT_NEVER);
}

static int run(void *arg) {
    (void)arg;
    char room[64];
    weft_file *log;
    void *text;
    int error = weft_file_open(path_of(room, "log"), O_RDWR | O_CREAT, 0600, &log, WEFT_NEVER);
    if (error)
        return error;
    WEFT_NURSERY(n, &error) {
        for (int i = 0; i < 3; i++)
            if (weft_nursery_go(&n, write_record, log, NULL))
                break;
    }
    if (!error)
        error = weft_file_sync(log, WEFT_NEVER);
    weft_file_close(log);
    if (error)
        return error;

    if (weft_file_load(path_of(room, "log"), 1000, &text, WEFT_NEVER) > 0) {
        printf("%s", (char *)text);
        weft_file_free(text);
    }
    if ((error = weft_file_save(path_of(room, "config"), "answer = 42\n", 12, 0600, WEFT_NEVER)))
        return error;

    weft_dir *dir;
    if ((error = weft_dir_list(folder, &dir, WEFT_NEVER)))
        return error;
    for (size_t i = 0; i < weft_dir_count(dir); i++) {
        printf("%s\n", weft_dir_name(dir, i));
        weft_path_remove(path_of(room, weft_dir_name(dir, i)), WEFT_NEVER);
    }
    weft_dir_free(dir);
    printf("%s\n", weft_strerror(weft_file_open(path_of(room, "log"), O_RDONLY, 0, &log, WEFT_NEVER)));
    return weft_path_remove(folder, WEFT_NEVER);
}

int main(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    return !mkdtemp(folder) || weft_fiber_run(&config, run, NULL, NULL) < 0;
}
