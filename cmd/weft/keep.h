/* keep.h - where a shard's keys and values are kept: on disk (keep_lmdb.c) or in memory (keep_memory.c).
 *
 * What.   A shard's keep changes only in whole transactions, made by the one thread that runs the shard; anyone reads, at any time, one moment's
 *         contents.
 * Keys.   'h'                the head: last block, runs of the index (index.h)
 *         'b' number         a block; the number has its high byte first
 *         'i' seq            a run of the index
 *         's' key            state: a CRC of key and value, then the value
 *         'n' sender         the sender's last nonce, in the same way
 */
#ifndef WEFT_CMD_KEEP_H
#define WEFT_CMD_KEEP_H

#include <errno.h>

#include "base/atomic.h"
#include "bytes.h"

enum { KEEP_KEY_MAX = 500 };

struct keep;

struct keep_write {
    const void *key, *value; /* value NULL: away with it */
    size_t key_size, value_size;
};

/* One moment's contents.  What it gave is valid until its end, and is touched only in keep_use. */
struct keep_view {
    struct keep *keep;
    void *snapshot;
    bool own; /* of the thread that runs the shard: nothing changes meanwhile but by itself */
};

struct keep_ops {
    /* 0; -EMFILE, -ENOMEM and the like. */
    int (*begin)(struct keep *keep, bool own, struct keep_view *view);
    /* In keep_use.  1 and the value; 0: there is none; -EBADMSG and the like. */
    int (*get)(struct keep_view *view, const void *key, size_t key_size, const void **value, size_t *size);
    void (*end)(struct keep_view *view);
    /* All of it, durable when it returns 0; else nothing.  -ENOSPC (no room on the disk), -EFBIG (map_size reached), -ENOMEM: it may be tried
     * again.  Everything else, above all an error of fsync: what is on the disk is not known, and nothing more may be written. */
    int (*commit)(struct keep *keep, const struct keep_write *writes, size_t count);
    void (*close)(struct keep *keep);
    /* Begin anew after a failure: what is on the disk now counts. Only when no commit is under way. 0, or why it still cannot be used; -ENOTRECOVERABLE:
     * not while this process runs. */
    int (*reopen)(struct keep *keep);
};

struct keep {
    const struct keep_ops *ops;
    _Atomic bool unreadable; /* the disk could not read something: nothing more may be written */
};

/* Call `look`, which may get, and touch what it gets, and copies what it wants of it.  Its result; or -EIO: the disk could not read a page.  Then `look` was left where
 * it was: so what it allocates must be known to `arg` before it touches anything, and it takes no lock (bus.h). */
int keep_use(struct keep_view *view, int (*look)(struct keep_view *view, void *arg), void *arg);
/* The same with a view of its own. */
int keep_look(struct keep *keep, int (*look)(struct keep_view *view, void *arg), void *arg);

static inline bool keep_may_go_on(int error) {
    return error == 0 || error == -ENOSPC || error == -EFBIG || error == -ENOMEM || error == -ECANCELED;
}

/* -- keep_memory.c ------------------------------------------------------------------------------------------------ */
int keep_memory_open(struct keep **out);
size_t keep_memory_count(struct keep *keep); /* of keys */

/* -- keep_lmdb.c -------------------------------------------------------------------------------------------------- */
/* A new one in an empty directory, with one key. */
int keep_lmdb_make(const char *path, const struct keep_write *first);
/* One that was made. Returns 0; -EBADMSG (damaged) or -EIO (unreadable), and *out all the same: whoever begins or commits gets that error, until reopen;
 * -EPROTO (another version of LMDB) and the like. */
int keep_lmdb_open(const char *path, size_t map_size, struct keep **out);
/* From now on whoever begins or commits gets that error, until reopen. */
void keep_lmdb_break(struct keep *keep, int error);
/* Environments that may be open at once, of all keeps; and how many are. More are open only while all of them are in use. */
void keep_lmdb_limit(size_t open);
size_t keep_lmdb_open_count(void);

/* -- place.c: the directory of a node ------------------------------------------------------------------------------ */
struct place {
    char *dir;
    int lock; /* a descriptor: held as long as the node runs */
};
/* Make or open the directory, and lock it.  As ledger_open. */
int place_open(struct place *place, const char *dir, char *why, size_t room);
/* Look at it without changing anything; with the lock as well, so that nobody writes meanwhile. */
int place_look(struct place *place, const char *dir, char *why, size_t room);
void place_close(struct place *place);
/* DIR/shards/NAME, the name escaped; the caller frees it.  `first`: makes it, if it is not there, with this key; it is there as a whole, durably,
 * or not at all.  0 or -errno. */
int place_shard(const struct place *place, const char *name, const struct keep_write *first, char **path);
/* For every shard that is there: its name, and the name of its folder; without a name, one that is no shard's.  Ends with the first that does not
 * return 0, and returns that. */
int place_each(const struct place *place, int (*visit)(void *arg, const char *name_or_null, const char *folder),
               void *arg);

#endif
