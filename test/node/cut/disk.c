/* disk.c - see disk.h. */
#define _GNU_SOURCE
#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, SECTOR = 512, NAME = 256 };

struct change { /* of a file, or of a folder */
    const struct record *record;
    bool gone; /* a write that is durable by itself */
};
struct entry {
    char name[NAME];
    uint64_t ino;
};
struct file {
    uint64_t ino;
    bool folder;
    unsigned char *bytes; /* durable */
    size_t size, room;
    struct entry *entries; /* durable */
    size_t entry_count;
    struct change *changes; /* since */
    size_t change_count;
};
struct disk {
    struct file *files;
    size_t count;
    uint64_t root;
};

/* A test without memory is at its end. */
static void *grow(void *memory, size_t size) {
    memory = realloc(memory, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

uint64_t disk_random(uint64_t *seed) {
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}

static struct file *find(const struct disk *disk, uint64_t ino) {
    for (size_t i = disk->count; i--;) /* the newest with this number: numbers are used again */
        if (disk->files[i].ino == ino)
            return &disk->files[i];
    fprintf(stderr, "no file %llu\n", (unsigned long long)ino);
    abort();
}

static struct file *add(struct disk *disk, uint64_t ino, bool folder) {
    disk->files = grow(disk->files, (disk->count + 1) * sizeof *disk->files);
    disk->files[disk->count] = (struct file){.ino = ino, .folder = folder};
    return &disk->files[disk->count++];
}

/* -- Contents -------------------------------------------------------------------------------------------------------- */

static void set_length(struct file *file, size_t size) {
    if (size > file->room)
        file->bytes = grow(file->bytes, file->room = size * 2);
    if (size > file->size)
        memset(file->bytes + file->size, 0, size - file->size);
    file->size = size;
}

static void put(struct file *file, uint64_t at, const void *bytes, size_t size) {
    if (at + size > file->size)
        set_length(file, at + size);
    memcpy(file->bytes + at, bytes, size);
}

static void lengthen(struct file *file, const struct record *record) {
    if (record->size || record->at > file->size)
        set_length(file, record->at);
}

static void add_entry(struct file *folder, const char *name, uint64_t ino) {
    for (size_t i = 0; i < folder->entry_count; i++)
        if (!strcmp(folder->entries[i].name, name)) {
            folder->entries[i].ino = ino;
            return;
        }
    folder->entries = grow(folder->entries, (folder->entry_count + 1) * sizeof *folder->entries);
    struct entry *entry = &folder->entries[folder->entry_count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->ino = ino;
}

static uint64_t take_entry(struct file *folder, const char *name) {
    for (size_t i = 0; i < folder->entry_count; i++)
        if (!strcmp(folder->entries[i].name, name)) {
            uint64_t ino = folder->entries[i].ino;
            folder->entries[i] = folder->entries[--folder->entry_count];
            return ino;
        }
    fprintf(stderr, "no entry %s\n", name);
    abort();
}

/* One change, whole. */
static void apply(struct file *file, const struct record *record) {
    const char *name = (const char *)record->data;
    switch (record->kind) {
    case RECORD_MAKE: add_entry(file, name, record->ino); break;
    case RECORD_UNLINK: take_entry(file, name); break;
    case RECORD_RENAME: add_entry(file, name + strlen(name) + 1, take_entry(file, name)); break;
    case RECORD_WRITE: put(file, record->at, record->data, record->data_size); break;
    case RECORD_LENGTH: lengthen(file, record); break;
    default: abort();
    }
}

static void add_change(struct file *file, const struct record *record) {
    file->changes = grow(file->changes, (file->change_count + 1) * sizeof *file->changes);
    file->changes[file->change_count++] = (struct change){record, false};
}

void disk_do(struct disk *disk, const struct record *record) {
    struct file *file;
    switch ((enum record_kind)record->kind) {
    case RECORD_MAKE:
        add(disk, record->ino, record->size);
        add_change(find(disk, record->at), record);
        break;
    case RECORD_RENAME:
    case RECORD_UNLINK:
    case RECORD_WRITE:
    case RECORD_LENGTH: add_change(find(disk, record->ino), record); break;
    case RECORD_WRITTEN:
        file = find(disk, record->ino);
        file->changes[file->change_count - 1].gone = true;
        apply(file, file->changes[file->change_count - 1].record);
        break;
    case RECORD_SYNC:
        file = find(disk, record->ino);
        for (size_t i = 0; i < file->change_count; i++)
            if (!file->changes[i].gone)
                apply(file, file->changes[i].record);
        file->change_count = 0;
        break;
    case RECORD_ACK: break;
    }
}

/* -- What is there at first -------------------------------------------------------------------------------------------- */

static void load(struct disk *disk, const char *path) {
    struct stat info;
    if (lstat(path, &info))
        abort();
    size_t index = disk->count;
    struct file *file = add(disk, info.st_ino, S_ISDIR(info.st_mode));
    if (!file->folder) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        set_length(file, (size_t)info.st_size);
        if (fd < 0 || read(fd, file->bytes, file->size) != (ssize_t)file->size)
            abort();
        close(fd);
        return;
    }
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char inner[512];
        struct stat about;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (lstat(inner, &about))
            abort();
        add_entry(&disk->files[index], entry->d_name, about.st_ino);
        load(disk, inner);
    }
    if (!folder || closedir(folder))
        abort();
}

struct disk *disk_of(const char *root) {
    struct disk *disk = grow(NULL, sizeof *disk);
    *disk = (struct disk){0};
    load(disk, root);
    disk->root = disk->files[0].ino;
    return disk;
}

void disk_free(struct disk *disk) {
    for (size_t i = 0; i < disk->count; i++) {
        free(disk->files[i].bytes);
        free(disk->files[i].entries);
        free(disk->files[i].changes);
    }
    free(disk->files);
    free(disk);
}

/* -- What a cut leaves ------------------------------------------------------------------------------------------------- */

struct cut {
    struct disk *disk;
    enum disk_keep keep;
    uint64_t bits, *seed;
    size_t page; /* how many were asked for */
};

static size_t pages_of(const struct record *record) {
    return record->kind == RECORD_WRITE ? (record->data_size + PAGE - 1) / PAGE : 0;
}

size_t disk_unsynced(const struct disk *disk) {
    size_t count = 0;
    for (size_t i = 0; i < disk->count; i++)
        for (size_t k = 0; k < disk->files[i].change_count; k++)
            count += disk->files[i].changes[k].gone ? 0 : pages_of(disk->files[i].changes[k].record);
    return count;
}

/* Pieces of this size, each with a chance of `of` in 256. */
static void put_pieces(struct cut *cut, struct file *file, const struct record *record, size_t piece, unsigned of) {
    for (size_t at = 0; at < record->data_size;) {
        size_t size = piece - (record->at + at) % piece; /* to the next bound of the file */
        size = size < record->data_size - at ? size : record->data_size - at;
        if (disk_random(cut->seed) % 256 < of)
            put(file, record->at + at, record->data + at, size);
        at += size;
    }
}

static void put_some(struct cut *cut, struct file *file, const struct record *record, unsigned way, unsigned chance) {
    if (cut->keep == DISK_NONE)
        return;
    if (cut->keep == DISK_PAGES && record->kind == RECORD_WRITE) {
        for (size_t at = 0; at < record->data_size; at += PAGE, cut->page++)
            if (cut->bits >> (cut->page & 63) & 1)
                put(file, record->at + at, record->data + at,
                    record->data_size - at < PAGE ? record->data_size - at : PAGE);
    } else if (cut->keep != DISK_RANDOM) {
        apply(file, record);
    } else if (record->kind == RECORD_LENGTH || way == 0) {
        if (disk_random(cut->seed) % 256 < chance)
            apply(file, record);
    } else {
        put_pieces(cut, file, record, way == 1 ? PAGE : SECTOR, chance);
    }
}

/* A copy, with some of what was not synced. */
static struct file what_is_left(struct cut *cut, const struct file *file) {
    static const unsigned chances[] = {128, 16, 240, 64, 192};
    struct file left = {.folder = file->folder};
    unsigned way = (unsigned)(disk_random(cut->seed) % 3), chance = chances[disk_random(cut->seed) % 5];
    size_t first = cut->keep == DISK_NONE  ? 0
                   : cut->keep == DISK_ALL ? file->change_count
                                           : disk_random(cut->seed) % (file->change_count + 1);
    set_length(&left, file->size);
    memcpy(left.bytes ? left.bytes : (void *)"", file->bytes ? file->bytes : (void *)"", file->size);
    for (size_t i = 0; i < file->entry_count; i++)
        add_entry(&left, file->entries[i].name, file->entries[i].ino);
    for (size_t i = 0; i < file->change_count; i++)
        if (file->folder && i < first)
            apply(&left, file->changes[i].record);
        else if (!file->folder && !file->changes[i].gone)
            put_some(cut, &left, file->changes[i].record, way, chance);
    return left;
}

static void write_out(struct cut *cut, uint64_t ino, const char *path) {
    struct file left = what_is_left(cut, find(cut->disk, ino));
    const char *name = strrchr(path, '/') + 1;
    if (left.folder) {
        if (mkdir(path, 0700))
            abort();
        for (size_t i = 0; i < left.entry_count; i++) {
            char inner[600];
            snprintf(inner, sizeof inner, "%s/%s", path, left.entries[i].name);
            write_out(cut, left.entries[i].ino, inner);
        }
    } else {
        if (!strcmp(name, "lock.mdb")) { /* written through memory, so anything may be there */
            set_length(&left, disk_random(cut->seed) % 3 * PAGE);
            for (size_t i = 0; i < left.size; i++)
                left.bytes[i] = (unsigned char)(disk_random(cut->seed) >> 20);
        }
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || (left.size && write(fd, left.bytes, left.size) != (ssize_t)left.size))
            abort();
        close(fd);
    }
    free(left.bytes);
    free(left.entries);
}

void disk_cut(struct disk *disk, enum disk_keep keep, uint64_t bits, uint64_t *seed, const char *to) {
    struct cut cut = {disk, keep, bits, seed, 0};
    write_out(&cut, disk->root, to);
}
