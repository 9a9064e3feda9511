/* dir.c - the names in a directory: read twice, once for their sizes, into one piece of memory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file/file.h"

struct name {
    const char *text;
    int kind;
};

struct weft_dir {
    size_t bytes; /* of all of it */
    size_t count;
    struct name name[]; /* and after them the texts */
};

struct listing {
    const char *path;
    struct weft_dir *dir;
};

static bool is_dots(const char *name) { return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])); }

static int kind_of(unsigned char type) {
    return type == DT_REG   ? WEFT_DIR_FILE
           : type == DT_DIR ? WEFT_DIR_FOLDER
           : type == DT_LNK ? WEFT_DIR_LINK
                            : WEFT_DIR_OTHER;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* Count, or with `dir` copy as much as there is room for.  0; -EAGAIN (there is more by now); a negative error. */
static int walk(DIR *stream, size_t *count, size_t *text, struct weft_dir *dir) {
    size_t names = 0, used = 0;
    char *room = dir ? (char *)&dir->name[*count] : NULL;
    rewinddir(stream);
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(stream);
        if (!entry && errno)
            return -errno;
        if (!entry)
            break;
        if (is_dots(entry->d_name))
            continue;
        size_t size = strlen(entry->d_name) + 1;
        if (dir) {
            if (names == *count || used + size > *text)
                return -EAGAIN;
            memcpy(room + used, entry->d_name, size);
            dir->name[names] = (struct name){room + used, kind_of(entry->d_type)};
        }
        names++;
        used += size;
    }
    *count = names;
    *text = used;
    return 0;
}

static ssize_t list_job(void *arg) {
    struct listing *listing = arg;
    DIR *stream = opendir(listing->path);
    if (!stream)
        return -errno;
    int error;
    do { /* again when it grew in between */
        size_t count, text;
        error = walk(stream, &count, &text, NULL);
        if (error)
            break;
        size_t bytes = sizeof(struct weft_dir) + count * sizeof(struct name) + text;
        struct weft_dir *dir = wefti_alloc(bytes);
        if (!dir) {
            error = -ENOMEM;
            break;
        }
        error = walk(stream, &count, &text, dir);
        if (error) {
            wefti_free(dir, bytes);
            continue;
        }
        dir->bytes = bytes;
        dir->count = count;
        qsort(dir->name, count, sizeof *dir->name, by_name);
        listing->dir = dir;
    } while (error == -EAGAIN);
    closedir(stream);
    return error;
}

int weft_dir_list(const char *path, weft_dir **out, weft_deadline until) {
    if (!path || !out)
        return -EINVAL;
    struct listing listing = {path, NULL};
    int error = (int)wefti_file_run(list_job, &listing, "list a directory", until);
    if (!error)
        *out = listing.dir;
    return error;
}

size_t weft_dir_count(const weft_dir *dir) { return dir ? dir->count : 0; }
const char *weft_dir_name(const weft_dir *dir, size_t index) { return dir ? dir->name[index].text : NULL; }
int weft_dir_kind(const weft_dir *dir, size_t index) { return dir ? dir->name[index].kind : WEFT_DIR_OTHER; }

void weft_dir_free(weft_dir *dir) {
    if (dir)
        wefti_free(dir, dir->bytes);
}
