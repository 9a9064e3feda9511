/* keep_lmdb.c - a shard's keep on disk: one LMDB environment, one durable transaction a commit.
 *
 * What.   LMDB writes the new pages, fdatasyncs, writes one of two meta pages with O_DSYNC: a crash leaves the last whole transaction.
 * Room.   The map begins small and is doubled, up to map_size.  Doubling needs that nobody reads: `gate` keeps new readers out, and the last one
 *         that leaves wakes who doubles.  Disk blocks are asked for before a transaction that may need them (reserve): a full disk is
 *         found there, where nothing has been written, and not in the middle of a commit.
 * Errors. A commit that failed leaves what is on the disk unknown, whatever the error: only what is found before mdb_txn_commit may be tried again.
 * Why     not MDB_WRITEMAP or MDB_NOSYNC: the first turns a wild pointer and a full disk into SIGBUS, the second orders nothing.
 */
#define _GNU_SOURCE
#include "keep.h"

#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include "pages.h"
#include "queue/lock.h"

#define MAP_FIRST ((size_t)1 << 20)
#define READERS 512
#define RESERVE_MAX ((size_t)64 << 20)
#define DOUBLING 0x80000000u /* somebody sleeps until there are no readers */

struct keep_lmdb {
    struct keep keep;
    MDB_env *env;
    MDB_dbi dbi;
    size_t map, map_max;
    size_t reserved; /* bytes of the file that have disk blocks */
    size_t page;
    struct wefti_lock gate;    /* taken to begin a view; held while the map is doubled */
    _Atomic uint32_t readers;  /* views under way, and DOUBLING */
};

static int of_lmdb(int error) {
    switch (error) {
    case MDB_SUCCESS: return 0;
    case MDB_MAP_FULL: return -EFBIG;
    case MDB_TXN_FULL: return -E2BIG;
    case MDB_VERSION_MISMATCH: return -EPROTO;
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_TXN: return -EBADMSG;
    case MDB_READERS_FULL: return -EAGAIN;
    default: return error > 0 ? -error : -EIO; /* MDB_PANIC: a commit failed before */
    }
}

/* -- Reading ------------------------------------------------------------------------------------------------------ */

static int begin(struct keep *keep, bool own, struct keep_view *view) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    MDB_txn *txn;
    wefti_lock_take(&self->gate);
    add_relaxed(&self->readers, 1); /* under the gate: who doubles sees it, or has not begun */
    wefti_lock_give(&self->gate);
    int error = mdb_txn_begin(self->env, NULL, MDB_RDONLY, &txn);
    *view = (struct keep_view){keep, txn, own};
    if (error) {
        view->snapshot = NULL;
        keep->ops->end(view);
    }
    return of_lmdb(error);
}

static int get(struct keep_view *view, const void *key, size_t key_size, const void **value, size_t *size) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)view->keep;
    MDB_val k = {key_size, (void *)(uintptr_t)key}, v;
    if (key_size > KEEP_KEY_MAX)
        return 0;
    int error = mdb_get(view->snapshot, self->dbi, &k, &v);
    if (error)
        return error == MDB_NOTFOUND ? 0 : of_lmdb(error);
    *value = v.mv_data;
    *size = v.mv_size;
    return 1;
}

static void end(struct keep_view *view) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)view->keep;
    if (view->snapshot)
        mdb_txn_abort(view->snapshot);
    if (sub_acq_rel(&self->readers, 1) ==
        (DOUBLING | 1)) /* pairs with the load in double_map: what was read is no longer */
        wefti_futex_wake(&self->readers, 1);
}

/* -- Writing ------------------------------------------------------------------------------------------------------ */

/* One word says both that readers are there and that somebody waits, and the sleep compares it: no wake is missed. */
static int double_map(struct keep_lmdb *self) {
    size_t larger = self->map >= self->map_max / 2 ? self->map_max : self->map * 2;
    if (larger <= self->map)
        return -EFBIG;
    wefti_lock_take(&self->gate);
    or_relaxed(&self->readers, DOUBLING); /* nothing is passed by it */
    for (uint32_t left; (left = load_acquire(&self->readers)) != DOUBLING;) /* pairs with end */
        wefti_futex_wait(&self->readers, left, INT64_MAX);
    int error = of_lmdb(mdb_env_set_mapsize(self->env, larger));
    and_relaxed(&self->readers, ~DOUBLING); /* under the gate */
    wefti_lock_give(&self->gate);
    if (!error)
        self->map = larger;
    return error;
}

/* Disk blocks for what the transaction may add at the file's end.  0 or -ENOSPC. */
static int reserve(struct keep_lmdb *self, const struct keep_write *writes, size_t count) {
    MDB_envinfo info;
    mdb_env_info(self->env, &info);
    size_t pages = 8;
    for (size_t i = 0; i < count; i++) /* its leaf and the way to it, or pages of its own */
        pages += 2 + writes[i].value_size / self->page;
    size_t want = (info.me_last_pgno + 1 + pages) * self->page;
    if (want <= self->reserved || want > self->map_max) /* beyond the map: it will not get there */
        return 0;
    size_t ahead = self->reserved / 8 < RESERVE_MAX ? self->reserved / 8 : RESERVE_MAX; /* not every time */
    want = (want + ahead + 65535) & ~(size_t)65535;
    int fd = -1, error;
    mdb_env_get_fd(self->env, &fd);
    do
        error = fallocate(fd, 0, (off_t)self->reserved, (off_t)(want - self->reserved)) ? errno : 0;
    while (error == EINTR);
    if (error == ENOSPC || error == EDQUOT)
        return -ENOSPC;
    if (!error) /* otherwise the file system cannot: then a full disk stops the shard */
        self->reserved = want;
    return 0;
}

static int attempt(struct keep_lmdb *self, const struct keep_write *writes, size_t count, bool *committing) {
    MDB_txn *txn;
    int error = mdb_txn_begin(self->env, NULL, 0, &txn);
    if (error)
        return of_lmdb(error);
    for (size_t i = 0; i < count && !error; i++) {
        const struct keep_write *write = &writes[i];
        MDB_val k = {write->key_size, (void *)(uintptr_t)write->key};
        MDB_val v = {write->value_size, (void *)(uintptr_t)write->value};
        if (write->value)
            error = mdb_put(txn, self->dbi, &k, &v, 0);
        else if ((error = mdb_del(txn, self->dbi, &k, NULL)) == MDB_NOTFOUND)
            error = 0;
    }
    if (error) {
        mdb_txn_abort(txn);
        return of_lmdb(error);
    }
    *committing = true;
    return of_lmdb(mdb_txn_commit(txn));
}

static int commit(struct keep *keep, const struct keep_write *writes, size_t count) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    bool committing = false;
    int error = reserve(self, writes, count);
    if (error)
        return error;
    for (;;) {
        error = attempt(self, writes, count, &committing);
        if (error != -EFBIG)
            break;
        committing = false; /* MDB_MAP_FULL comes before anything is written */
        if ((error = double_map(self)))
            break;
    }
    return committing && keep_may_go_on(error) && error ? -EIO : error;
}

/* -- Opening ------------------------------------------------------------------------------------------------------ */

static void close_keep(struct keep *keep) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    mdb_env_close(self->env);
    free(self);
}

static const struct keep_ops ops = {begin, get, end, commit, close_keep};

static int open_env(struct keep_lmdb *self, const char *path) {
    int error = mdb_env_create(&self->env);
    if (error)
        return of_lmdb(error);
    MDB_txn *txn = NULL;
    MDB_stat stat;
    if (!(error = mdb_env_set_mapsize(self->env, self->map)) && !(error = mdb_env_set_maxreaders(self->env, READERS)) &&
        !(error = mdb_env_open(self->env, path, MDB_NOTLS, 0600)) &&
        !(error = mdb_txn_begin(self->env, NULL, MDB_RDONLY, &txn)) &&
        !(error = mdb_dbi_open(txn, NULL, 0, &self->dbi)) && !(error = mdb_env_stat(self->env, &stat)))
        self->page = stat.ms_psize;
    if (txn)
        mdb_txn_abort(txn);
    if (error)
        mdb_env_close(self->env);
    return of_lmdb(error);
}

static int open_keep(const char *path, size_t map_size, struct keep_lmdb **out) {
    struct keep_lmdb *self = mem_new(sizeof *self);
    if (!self)
        return -ENOMEM;
    self->keep.ops = &ops;
    self->map_max = (map_size + 65535) & ~(size_t)65535;
    self->map = self->map_max < MAP_FIRST ? self->map_max : MAP_FIRST;
    int error = open_env(self, path);
    if (error) {
        free(self);
        return error;
    }
    MDB_envinfo info;
    mdb_env_info(self->env, &info);
    self->map = info.me_mapsize; /* at least what the file holds */
    *out = self;
    return 0;
}

int keep_lmdb_make(const char *path, const struct keep_write *first) {
    struct keep_lmdb *self;
    int error = open_keep(path, MAP_FIRST, &self);
    if (error)
        return error;
    error = commit(&self->keep, first, 1);
    close_keep(&self->keep);
    return error;
}

int keep_lmdb_open(const char *path, size_t map_size, struct keep **out) {
    struct keep_lmdb *self;
    int error = pages_look(path); /* LMDB believes what it reads */
    if (error || (error = open_keep(path, map_size, &self)))
        return error;
    *out = &self->keep;
    return 0;
}
