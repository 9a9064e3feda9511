/* place.c - the directory of a node: its format, its lock, its shards' folders.
 *
 *     DIR/FORMAT          one line: what wrote it
 *     DIR/LOCK            an open file description lock as long as a node or a verifier has it
 *     DIR/shards/NAME/    a shard's LMDB environment; bytes of the name but a-z A-Z 0-9 _ - are %XX
 *     DIR/shards/.new/    one that is being made: never used, removed
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keep.h"
#include "tx.h"

#define FORMAT "weft ledger 1\n"

static int refuse(char *why, size_t room, int error, const char *what) {
    if (room)
        snprintf(why, room, "%s%s%s", what, error == -EBUSY || error == -EPROTO ? "" : ": ",
                 error == -EBUSY || error == -EPROTO ? "" : strerror(-error));
    return error;
}

static char *joined(const char *dir, const char *name) {
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = mem_new(size);
    if (path)
        snprintf(path, size, "%s/%s", dir, name);
    return path;
}

static int sync_dir(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = fd < 0 ? -errno : 0;
    if (!error && fsync(fd))
        error = -errno;
    if (fd >= 0)
        close(fd);
    return error;
}

/* A folder, with what makes it durable: its entry in the one above. */
static int make_dir(const char *path, const char *above) {
    if (mkdir(path, 0700))
        return errno == EEXIST ? 0 : -errno;
    return above ? sync_dir(above) : 0;
}

/* -- Names -------------------------------------------------------------------------------------------------------- */

static bool is_plain(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static void escape(const char *name, char *out) {
    for (; *name; name++)
        if (is_plain((unsigned char)*name))
            *out++ = *name;
        else
            out += sprintf(out, "%%%02X", (unsigned char)*name);
    *out = 0;
}

/* False: no shard's folder.  Only what escape makes is one, so two folders never mean one shard. */
static bool unescape(const char *folder, char name[64]) {
    char again[3 * 64];
    size_t size = 0;
    for (const char *at = folder; *at; size++) {
        unsigned value = (unsigned char)*at;
        if (size == 63 || (*at == '%' && sscanf(at + 1, "%2X", &value) != 1))
            return false;
        at += *at != '%' ? 1 : at[1] && at[2] ? 3 : 1;
        name[size] = (char)value;
    }
    name[size] = 0;
    if (!shard_name_is_valid(name))
        return false;
    escape(name, again);
    return !strcmp(again, folder);
}

/* -- Opening ------------------------------------------------------------------------------------------------------ */

/* Has it anything in it that is not ours?  Then a node was started on the wrong directory. */
static int is_strange(const char *dir) {
    static const char *const known[] = {".", "..", "LOCK", "FORMAT.new", "lost+found"};
    DIR *folder = opendir(dir);
    bool strange = false;
    if (!folder)
        return -errno;
    for (struct dirent *entry; !strange && (entry = readdir(folder));) {
        strange = true;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            strange &= strcmp(entry->d_name, known[i]) != 0;
    }
    closedir(folder);
    return strange;
}

/* 1: it is ours; 0: there is none; -EPROTO; -errno. */
static int read_format(const char *dir) {
    char text[sizeof FORMAT + 1] = "", *path = joined(dir, "FORMAT");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, error = !path ? -ENOMEM : fd < 0 ? -errno : 0;
    free(path);
    if (error)
        return error == -ENOENT ? 0 : error;
    ssize_t size = read(fd, text, sizeof text);
    error = size < 0 ? -errno : (size_t)size == strlen(FORMAT) && !memcmp(text, FORMAT, (size_t)size) ? 1 : -EPROTO;
    close(fd);
    return error;
}

static int write_format(const char *dir) {
    char *path = joined(dir, "FORMAT"), *fresh = joined(dir, "FORMAT.new");
    int fd = path && fresh ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    int error = !path || !fresh ? -ENOMEM : fd < 0 ? -errno : 0;
    if (!error && (write(fd, FORMAT, strlen(FORMAT)) != (ssize_t)strlen(FORMAT) || fsync(fd)))
        error = errno ? -errno : -ENOSPC;
    if (fd >= 0)
        close(fd);
    if (!error && rename(fresh, path))
        error = -errno;
    free(path);
    free(fresh);
    return error ? error : sync_dir(dir);
}

/* Who only looks, at what may only be read, shares the lock with others who look. */
static int take_lock(const char *dir, bool make) {
    char *path = joined(dir, "LOCK");
    int fd = path ? open(path, make ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600) : -1;
    bool shared = path && fd < 0 && !make && (errno == EROFS || errno == EACCES);
    if (shared)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = !path ? -ENOMEM : fd < 0 ? -errno : 0;
    free(path);
    if (error)
        return error;
    struct flock lock = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return fd;
    error = errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
    close(fd);
    return error;
}

static void remove_env(const char *path) {
    for (int i = 0; i < 2; i++) {
        char *file = joined(path, i ? "lock.mdb" : "data.mdb");
        if (file)
            unlink(file);
        free(file);
    }
    rmdir(path);
}

/* What a killed node made and had no time to sync is there, but not durable: so all names are synced at every start.  A parent that may not be read, as
 * elsewhere than on our own disks, is its owner's matter. */
static int sync_names(const char *dir, const char *shards) {
    char *above = joined(dir, "..");
    int error = above ? sync_dir(above) : -ENOMEM;
    free(above);
    if (error == -EACCES || error == -EPERM || error == -EROFS)
        error = 0;
    if (!error)
        error = sync_dir(dir);
    return error ? error : sync_dir(shards);
}

static int set_up(struct place *place, const char *dir, bool make, char *why, size_t room) {
    place->lock = -1;
    if (!(place->dir = mem_new(strlen(dir) + 1)))
        return -ENOMEM;
    strcpy(place->dir, dir);
    int error = make ? make_dir(dir, NULL) : 0;
    if (error)
        return refuse(why, room, error, "cannot be made");
    error = read_format(dir);
    if (error == 0 && make && is_strange(dir) == 1)
        return refuse(why, room, -EPROTO, "has files in it that are no store's");
    error = take_lock(dir, make);
    if (error < 0)
        return refuse(why, room, error, error == -EBUSY ? "another node uses it" : "cannot be locked");
    place->lock = error;
    error = read_format(dir);
    if (error == 0)
        error = make ? write_format(dir) : -EPROTO;
    if (error < 0)
        return refuse(why, room, error, error == -EPROTO ? "not a store of this version" : "FORMAT");
    char *shards = joined(dir, "shards"), *fresh = shards ? joined(shards, ".new") : NULL;
    error = !fresh ? -ENOMEM : make ? make_dir(shards, dir) : 0;
    if (!error && make) {
        remove_env(fresh);
        error = sync_names(dir, shards);
    }
    free(shards);
    free(fresh);
    return error ? refuse(why, room, error, "shards") : 0;
}

int place_open(struct place *place, const char *dir, char *why, size_t room) {
    int error = set_up(place, dir, true, why, room);
    if (error)
        place_close(place);
    return error;
}

int place_look(struct place *place, const char *dir, char *why, size_t room) {
    int error = set_up(place, dir, false, why, room);
    if (error)
        place_close(place);
    return error;
}

void place_close(struct place *place) {
    if (place->lock >= 0)
        close(place->lock);
    free(place->dir);
    *place = (struct place){NULL, -1};
}

/* -- Shards ------------------------------------------------------------------------------------------------------- */

/* Made beside its place, then moved there: a crash leaves all of it or nothing. */
static int make_shard(const char *shards, const char *path, const struct keep_write *first) {
    char *fresh = joined(shards, ".new");
    if (!fresh)
        return -ENOMEM;
    remove_env(fresh);
    int error = make_dir(fresh, NULL);
    if (!error && !(error = keep_lmdb_make(fresh, first)) && !(error = sync_dir(fresh)) && rename(fresh, path))
        error = -errno;
    if (error)
        remove_env(fresh);
    else if ((error = sync_dir(shards)))
        remove_env(path); /* it would be found, and used, though a power cut might take it */
    free(fresh);
    return error;
}

int place_shard(const struct place *place, const char *name, const struct keep_write *first, char **out) {
    char folder[3 * 64];
    escape(name, folder);
    char *shards = joined(place->dir, "shards"), *path = shards ? joined(shards, folder) : NULL;
    int error = path ? 0 : -ENOMEM;
    if (path && first && access(path, F_OK))
        error = errno == ENOENT ? make_shard(shards, path, first) : -errno;
    free(shards);
    if (error)
        free(path);
    else
        *out = path;
    return error;
}

int place_each(const struct place *place, int (*visit)(void *arg, const char *name_or_null, const char *folder),
               void *arg) {
    char *shards = joined(place->dir, "shards"), name[64];
    DIR *folder = shards ? opendir(shards) : NULL;
    int error = !shards ? -ENOMEM : folder ? 0 : -errno;
    free(shards);
    for (struct dirent *entry; !error && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            error = visit(arg, unescape(entry->d_name, name) ? name : NULL, entry->d_name);
    if (folder)
        closedir(folder);
    return error;
}
