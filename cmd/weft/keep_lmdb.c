/* keep_lmdb.c - a shard's keep on disk: one LMDB environment, one durable transaction a commit.
 *
 * What.   LMDB writes the new pages, fdatasyncs, writes one of two meta pages with O_DSYNC: a crash leaves the last whole transaction.
 * Room.   The map begins small and is doubled, up to map_size.  Doubling needs that nobody reads: `gate` keeps new readers out, and the last one
 *         that leaves wakes who doubles.  Disk blocks are asked for, and written, before a transaction that may need them (reserve): a full disk is
 *         found there, where nothing has been written, and not in the middle of a commit.
 * Errors. A commit that failed leaves what is on the disk unknown, whatever the error: only what is found before mdb_txn_commit may be tried again.
 *         LMDB then refuses to read as well, so the environment is opened anew, for reading only.
 * Bus.    A page that the disk cannot read is a SIGBUS: whatever touches the map does so in bus_guard.  A look that is left in the middle costs nothing: its
 *         transaction is ended as always.  A write that is left in the middle cannot be ended (LMDB knows frames that are gone), and holds LMDB's mutex for writers, which
 *         is in a list of its thread's: the environment stays as it is until the process ends (`lost`).  Looks go on in it.
 * Open.   An environment takes three descriptors and some memory, so at most `opened.max` are open at a time. One is opened when a view or commit needs it,
 *         and the one that was used longest ago, roughly, is closed: a clock, `recent` is its bit. Nothing is lost by that: a closed environment is a file.
 *         Locks: a gate may be held while opened.lock is taken, never the other way round; no two gates are held at once.
 * Damage. LMDB changes copies of pages by offsets that it reads in them, and with damaged ones would write anywhere. So the structure of all pages is checked
 *         (pages_check) before the first write of a process to an environment. What is damaged later, or only read, is met by the guard: SIGSEGV, or one of LMDB's
 *         assertions, which are taken as SIGBUS is.
 * Readers Transactions of looks are kept and renewed: that takes no mutex of LMDB's, which a SIGBUS would leave locked.
 * Why     not MDB_WRITEMAP or MDB_NOSYNC: the first turns a wild pointer and a full disk into SIGBUS, the second orders nothing.
 */
#define _GNU_SOURCE
#include "keep.h"

#include <fcntl.h>
#include <lmdb.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus.h"
#include "pages.h"
#include "queue/lock.h"

#define MAP_FIRST ((size_t)1 << 20)
#define READERS 512
#define SPARES 8
#define LOCK_SIZE 65536 /* more than LMDB wants for so many readers */
#define RESERVE_MAX ((size_t)8 << 20)
#define DOUBLING 0x80000000u /* somebody sleeps until there are no readers */
#define OPEN_MAX 4096 /* environments, unless keep_lmdb_limit says less */
#define LARGE_BLOCK (1 << 20)

struct keep_lmdb {
    struct keep keep;
    char *path;
    MDB_env *env; /* NULL: not open */
    unsigned flags; /* MDB_RDONLY: after a commit that failed */
    int why; /* not 0: it cannot be opened, until reopen */
    MDB_dbi dbi;
    size_t map, map_max;
    size_t reserved; /* bytes of the file that have disk blocks */
    size_t page;
    struct wefti_lock gate; /* taken to begin a view; held while the map is doubled */
    _Atomic uint32_t readers; /* views under way, and DOUBLING */
    bool writing; /* under the gate: a commit is under way */
    struct wefti_lock spare_lock;
    MDB_txn *spare[SPARES]; /* transactions of looks that have ended */
    unsigned spares;
    _Atomic bool shut; /* no look can begin */
    bool walked; /* its pages were looked at, or it is ours from the beginning: LMDB may write */
    bool lost;
    struct keep_lmdb *next; /* of the lost */
    /* In `opened`, under its lock. */
    struct keep_lmdb *newer, *older;
    bool listed, evicting;
    _Atomic bool recent; /* used since the clock passed it */
};

/* The environments that are open, and may be closed. */
static struct {
    struct wefti_lock lock;
    struct keep_lmdb *newest, *oldest;
    size_t count; /* open, or being opened; those that are not listed too */
    size_t max;
} opened = {.max = OPEN_MAX};

static struct wefti_lock lost_lock;
static struct keep_lmdb *lost; /* what cannot be given back, but is known */

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

/* -- Open ones ------------------------------------------------------------------------------------------------------ */

void keep_lmdb_limit(size_t open) {
    wefti_lock_take(&opened.lock);
    opened.max = open < 1 ? 1 : open < OPEN_MAX ? open : OPEN_MAX;
    wefti_lock_give(&opened.lock);
}

size_t keep_lmdb_open_count(void) {
    wefti_lock_take(&opened.lock);
    size_t count = opened.count;
    wefti_lock_give(&opened.lock);
    return count;
}

/* Under the lock of `opened`. */
static void list(struct keep_lmdb *self) {
    self->newer = NULL;
    self->older = opened.newest;
    *(opened.newest ? &opened.newest->newer : &opened.oldest) = self;
    opened.newest = self;
    self->listed = true;
}

static void unlist(struct keep_lmdb *self) {
    if (!self->listed)
        return;
    *(self->newer ? &self->newer->older : &opened.newest) = self->older;
    *(self->older ? &self->older->newer : &opened.oldest) = self->newer;
    self->listed = false;
}

/* Under the gate, without views or a commit. */
static void close_env(struct keep_lmdb *self) {
    for (; self->spares; self->spares--)
        mdb_txn_abort(self->spare[self->spares - 1]);
    if (self->env)
        mdb_env_close(self->env);
    self->env = NULL;
}

/* Close one that nobody uses. False: all are in use. */
static bool evict(void) {
    wefti_lock_take(&opened.lock);
    size_t tries = 2 * opened.count;
    wefti_lock_give(&opened.lock);
    while (tries--) {
        wefti_lock_take(&opened.lock);
        struct keep_lmdb *self = opened.oldest;
        bool skipped = self && xchg_relaxed(&self->recent, false); /* a hint */
        if (self) {
            unlist(self);
            if (skipped)
                list(self);
            else
                self->evicting = true; /* it is not freed meanwhile: close_keep waits */
        }
        wefti_lock_give(&opened.lock);
        if (!self)
            return false;
        if (skipped)
            continue;
        wefti_lock_take(&self->gate);
        bool open = self->env != NULL;
        bool unused = open && load_acquire(&self->readers) == 0 &&
                      !self->writing; /* pairs with end: what was read is no longer */
        if (unused)
            close_env(self);
        wefti_lock_give(&self->gate);
        wefti_lock_take(&opened.lock);
        self->evicting = false;
        opened.count -= unused;
        if (open && !unused)
            list(self);
        wefti_lock_give(&opened.lock);
        if (unused)
            return true;
    }
    return false;
}

/* One more may be opened: counted. If all are in use, the limit is exceeded rather than a shard stopped. */
static void make_room(void) {
    for (bool full = true; full;) {
        wefti_lock_take(&opened.lock);
        full = opened.count >= opened.max;
        opened.count += !full;
        wefti_lock_give(&opened.lock);
        if (full && !evict()) {
            wefti_lock_take(&opened.lock);
            opened.count++;
            wefti_lock_give(&opened.lock);
            return;
        }
    }
}

/* It was opened, or could not be. */
static void opened_now(struct keep_lmdb *self, bool open) {
    wefti_lock_take(&opened.lock);
    if (open)
        list(self);
    else
        opened.count--;
    wefti_lock_give(&opened.lock);
}

static int open_env(struct keep_lmdb *self, unsigned flags);

/* Returns 0 with the gate held and the environment open; or an error, without. */
static int take_open(struct keep_lmdb *self) {
    if (!load_relaxed(&self->recent)) /* a hint */
        store_relaxed(&self->recent, true);
    wefti_lock_take(&self->gate);
    if (!self->env && !self->why) {
        wefti_lock_give(&self->gate);
        make_room();
        wefti_lock_take(&self->gate);
        bool mine = !self->env && !self->why;
        int error = !mine ? 0 : pages_look(self->path); /* LMDB believes what it reads */
        if (mine && !error)
            error = open_env(self, self->flags);
        if (error == -EIO || error == -EBADMSG) {
            self->why = error;
            store_relaxed(&self->keep.unreadable, true); /* a look */
        }
        opened_now(self, mine && !error);
        if (error) {
            wefti_lock_give(&self->gate);
            return error;
        }
    }
    int why = self->why;
    if (why)
        wefti_lock_give(&self->gate);
    return why;
}

/* -- Reading ------------------------------------------------------------------------------------------------------ */

struct beginning {
    struct keep_lmdb *self;
    MDB_txn *txn; /* one to renew, or NULL */
};

static int begin_txn(void *arg) {
    struct beginning *beginning = arg;
    if (beginning->txn)
        return mdb_txn_renew(beginning->txn);
    return mdb_txn_begin(beginning->self->env, NULL, MDB_RDONLY, &beginning->txn);
}

static int begin(struct keep *keep, bool own, struct keep_view *view) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    struct beginning beginning = {self, NULL};
    int error = 0;
    if (load_relaxed(&self->shut)) /* a look */
        return -EIO;
    if ((error = take_open(self)))
        return error;
    add_relaxed(&self->readers, 1); /* under the gate: whoever closes it sees this, or has not begun */
    wefti_lock_give(&self->gate);
    wefti_lock_take(&self->spare_lock);
    if (self->spares)
        beginning.txn = self->spare[--self->spares];
    wefti_lock_give(&self->spare_lock);
    int left = bus_guard(begin_txn, &beginning, &error);
    if (left) {
        store_relaxed(&self->shut, true); /* the meta pages: nothing can be read */
        store_relaxed(&keep->unreadable, true);
        error = -left;
    }
    if (error && beginning.txn) { /* LMDB frees those that it could not begin, but not those that it could not renew */
        mdb_txn_abort(beginning.txn);
        beginning.txn = NULL;
    }
    *view = (struct keep_view){keep, beginning.txn, own};
    if (error)
        keep->ops->end(view);
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
    MDB_txn *txn = view->snapshot;
    if (txn) {
        mdb_txn_reset(txn);
        wefti_lock_take(&self->spare_lock);
        if (self->spares < SPARES)
            self->spare[self->spares++] = txn, txn = NULL;
        wefti_lock_give(&self->spare_lock);
        if (txn)
            mdb_txn_abort(txn);
    }
    if (sub_acq_rel(&self->readers, 1) ==
        (DOUBLING | 1)) /* pairs with the load in double_map: what was read is no longer */
        wefti_futex_wake(&self->readers, 1);
}

/* -- Writing ------------------------------------------------------------------------------------------------------ */

/* Nobody is in a look until it is opened again.  One word says both that readers are there and that somebody waits, and the sleep compares it: no wake
 * is missed. */
static void close_gate(struct keep_lmdb *self) {
    wefti_lock_take(&self->gate);
    or_relaxed(&self->readers, DOUBLING); /* nothing is passed by it */
    for (uint32_t left; (left = load_acquire(&self->readers)) != DOUBLING;) /* pairs with end */
        wefti_futex_wait(&self->readers, left, INT64_MAX);
}

static void open_gate(struct keep_lmdb *self) {
    and_relaxed(&self->readers, ~DOUBLING); /* under the gate */
    wefti_lock_give(&self->gate);
}

struct resizing {
    MDB_env *env;
    size_t size;
};

static int resize(void *arg) {
    struct resizing *resizing = arg;
    return mdb_env_set_mapsize(resizing->env, resizing->size);
}

static int double_map(struct keep_lmdb *self) {
    struct resizing resizing = {self->env, self->map >= self->map_max / 2 ? self->map_max : self->map * 2};
    int error = 0;
    if (resizing.size <= self->map)
        return -EFBIG;
    close_gate(self);
    int left = bus_guard(resize, &resizing, &error);
    if (left) {
        store_relaxed(&self->keep.unreadable, true); /* a look */
        error = -left;
    }
    open_gate(self);
    if (!error)
        self->map = resizing.size;
    return of_lmdb(error);
}

/* Zeroes, to the disk's liking: what is written into blocks that were only promised has to be told to the file system's journal, by every sync. */
static int write_zeroes(int fd, size_t from, size_t to) {
    static const unsigned char zeroes[1 << 16];
    while (from < to) {
        ssize_t part = pwrite(fd, zeroes, to - from < sizeof zeroes ? to - from : sizeof zeroes, (off_t)from);
        if (part < 0 && errno != EINTR)
            return -errno;
        from += part > 0 ? (size_t)part : 0;
    }
    return 0;
}

/* Disk blocks for what the transaction may add at the file's end, where nothing is yet.  0; -ENOSPC; -EIO and the like. */
static int reserve(struct keep_lmdb *self, const struct keep_write *writes, size_t count) {
    MDB_envinfo info;
    mdb_env_info(self->env, &info);
    size_t pages = 8, used = (info.me_last_pgno + 1) * self->page;
    for (size_t i = 0; i < count; i++) /* its leaf and the way to it, or pages of its own */
        pages += 2 + writes[i].value_size / self->page;
    size_t want = used + pages * self->page, from = self->reserved > used ? self->reserved : used;
    if (want <= self->reserved || want > self->map_max) /* beyond the map: it will not get there */
        return 0;
    size_t ahead = want / 2 < RESERVE_MAX ? want / 2 : RESERVE_MAX; /* not every time */
    want = (want + ahead + 65535) & ~(size_t)65535;
    int fd = -1, error;
    mdb_env_get_fd(self->env, &fd);
    do
        error = fallocate(fd, 0, (off_t)self->reserved, (off_t)(want - self->reserved)) ? errno : 0;
    while (error == EINTR);
    if (error == ENOSPC || error == EDQUOT)
        return -ENOSPC;
    if (error) /* the file system cannot: then a full disk stops the shard */
        return 0;
    if ((error = write_zeroes(fd, from, want)))
        return error;
    self->reserved = want;
    return 0;
}

struct attempt {
    struct keep_lmdb *self;
    const struct keep_write *writes;
    size_t count;
    bool writing, committing; /* how far it came */
};

static int attempt(void *arg) {
    struct attempt *attempt = arg;
    struct keep_lmdb *self = attempt->self;
    MDB_txn *txn;
    int error = reserve(self, attempt->writes, attempt->count);
    if (error)
        return error;
    attempt->writing = true;
    error = mdb_txn_begin(self->env, NULL, 0, &txn);
    if (error)
        return of_lmdb(error);
    for (size_t i = 0; i < attempt->count && !error; i++) {
        const struct keep_write *write = &attempt->writes[i];
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
    attempt->committing = true;
    return of_lmdb(mdb_txn_commit(txn));
}

static void lose(struct keep_lmdb *self) {
    self->lost = true;
    wefti_lock_take(&opened.lock);
    unlist(self); /* never closed */
    wefti_lock_give(&opened.lock);
    wefti_lock_take(&lost_lock);
    self->next = lost;
    lost = self;
    wefti_lock_give(&lost_lock);
}

/* LMDB does not even read where a commit has failed. */
static void open_anew(struct keep_lmdb *self) {
    close_gate(self);
    close_env(self);
    self->flags = MDB_RDONLY;
    if (open_env(self, self->flags)) {
        self->env = NULL;
        self->why = -EIO;
        store_relaxed(&self->keep.unreadable, true); /* a look */
        wefti_lock_take(&opened.lock);
        unlist(self);
        opened.count--;
        wefti_lock_give(&opened.lock);
    }
    open_gate(self);
}

static int commit_open(struct keep_lmdb *self, const struct keep_write *writes, size_t count) {
    struct attempt all = {self, writes, count, false, false};
    int error = 0;
    for (;;) {
        int left = bus_guard(attempt, &all, &error);
        if (left) {
            store_relaxed(&self->keep.unreadable, true); /* a look */
            if (all.writing)
                lose(self);
            return left;
        }
        if (error != -EFBIG)
            break;
        all.committing = false; /* MDB_MAP_FULL comes before anything is written */
        if ((error = double_map(self)))
            break;
    }
    if (!error || !all.committing)
        return error;
    open_anew(self);
    return keep_may_go_on(error) ? -EIO : error;
}

static int commit(struct keep *keep, const struct keep_write *writes, size_t count) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    int error = take_open(self);
    if (error)
        return error == -EMFILE || error == -ENFILE ? -ENOMEM : error; /* nothing was written: it may be tried again */
    self->writing = true;
    wefti_lock_give(&self->gate);
    error = self->walked ? 0 : pages_check(self->path);
    if (!error) {
        self->walked = true;
        error = commit_open(self, writes, count);
    }
    if (!self->lost) {
        wefti_lock_take(&self->gate);
        self->writing = false;
        wefti_lock_give(&self->gate);
    }
    return error;
}

/* -- Opening ------------------------------------------------------------------------------------------------------ */

static void close_keep(struct keep *keep) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    bool evicting = true;
    if (self->lost)
        return;
    while (evicting) {
        wefti_lock_take(&opened.lock);
        evicting = self->evicting;
        if (!evicting) {
            unlist(self);
            opened.count -= self->env != NULL;
        }
        wefti_lock_give(&opened.lock);
        if (evicting)
            sched_yield();
    }
    close_env(self);
    free(self->path);
    free(self);
}

/* After the disk was repaired, by the shard's runner. */
static int reopen(struct keep *keep) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    if (self->lost)
        return -ENOTRECOVERABLE;
    for (bool evicting = true; evicting;) {
        close_gate(self);
        wefti_lock_take(&opened.lock);
        evicting = self->evicting;
        if (!evicting) { /* and it is not while it is not listed */
            unlist(self);
            opened.count -= self->env != NULL;
        }
        wefti_lock_give(&opened.lock);
        if (evicting) {
            open_gate(self);
            sched_yield();
        }
    }
    close_env(self);
    self->flags = 0;
    self->why = 0;
    self->walked = false;
    store_relaxed(&self->shut, false); /* looks */
    store_relaxed(&keep->unreadable, false);
    open_gate(self);
    int error = take_open(self);
    if (!error)
        wefti_lock_give(&self->gate);
    return error;
}

void keep_lmdb_break(struct keep *keep, int error) {
    struct keep_lmdb *self = (struct keep_lmdb *)(void *)keep;
    wefti_lock_take(&self->gate);
    self->why = error;
    store_relaxed(&keep->unreadable, true); /* a look */
    wefti_lock_give(&self->gate);
}

static const struct keep_ops ops = {begin, get, end, commit, close_keep, reopen};

struct opening {
    struct keep_lmdb *self;
    unsigned flags;
};

static int open_mapped(void *arg) {
    struct opening *opening = arg;
    struct keep_lmdb *self = opening->self;
    MDB_txn *txn = NULL;
    MDB_stat stat;
    MDB_envinfo info;
    int error;
    if (!(error = mdb_env_set_mapsize(self->env, self->map)) && !(error = mdb_env_set_maxreaders(self->env, READERS)) &&
        !(error = mdb_env_open(self->env, self->path, MDB_NOTLS | opening->flags, 0600)) &&
        !(error = mdb_txn_begin(self->env, NULL, MDB_RDONLY, &txn)) &&
        !(error = mdb_dbi_open(txn, NULL, 0, &self->dbi)) && !(error = mdb_env_stat(self->env, &stat)) &&
        !(error = mdb_env_info(self->env, &info))) {
        self->page = stat.ms_psize;
        self->map = info.me_mapsize; /* at least what the file holds */
    }
    if (txn)
        mdb_txn_abort(txn);
    int fd;
    struct stat file;
    if (!error && !mdb_env_get_fd(self->env, &fd) && !fstat(fd, &file) && file.st_blocks >= file.st_size / 512)
        self->reserved = (size_t)file.st_size; /* by who had it before */
    return error;
}

/* LMDB asserts what a damaged page may contradict, and would end the process. */
static void on_assert(MDB_env *env, const char *text) {
    (void)env, (void)text;
    bus_leave();
}

static int open_env(struct keep_lmdb *self, unsigned flags) {
    struct opening opening = {self, flags};
    int error = mdb_env_create(&self->env), result = 0;
    if (error)
        return of_lmdb(error);
    mdb_env_set_assert(self->env, on_assert);
    int left = bus_guard(open_mapped, &opening, &result);
    if (left) {
        store_relaxed(&self->keep.unreadable, true); /* a look */
        result = -left;
    }
    if (result) {
        mdb_env_close(self->env);
        self->env = NULL;
    }
    return of_lmdb(result);
}

/* LMDB's file for readers is a map that is written: where the disk is full, a hole in it would be a SIGBUS.  So it has its blocks before. */
static int make_lock(const char *path) {
    char name[4096];
    if ((size_t)snprintf(name, sizeof name, "%s/lock.mdb", path) >= sizeof name)
        return -ENAMETOOLONG;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600), error = fd < 0 ? -errno : 0;
    if (!error && fallocate(fd, 0, 0, LOCK_SIZE) && (errno == ENOSPC || errno == EDQUOT))
        error = -ENOSPC;
    if (fd >= 0)
        close(fd);
    return error;
}

/* LMDB takes blocks of 2 and 1 MiB for each environment, and touches little of them. Once such a block has been freed, malloc would give it from its heap
 * and clear it: 2 MiB of resident memory per shard that was made. With a fixed threshold large blocks are always maps of their own. */
static void fix_threshold(void) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
#endif
}

static int new_keep(const char *path, size_t map_size, struct keep_lmdb **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fix_threshold);
    bus_begin();
    struct keep_lmdb *self = mem_new(sizeof *self);
    if (!self || !(self->path = mem_new(strlen(path) + 1))) {
        free(self);
        return -ENOMEM;
    }
    strcpy(self->path, path);
    self->keep.ops = &ops;
    self->map_max = (map_size + 65535) & ~(size_t)65535;
    self->map = self->map_max < MAP_FIRST ? self->map_max : MAP_FIRST;
    *out = self;
    return 0;
}

int keep_lmdb_make(const char *path, const struct keep_write *first) {
    struct keep_lmdb *self;
    int error = new_keep(path, MAP_FIRST, &self);
    if (error)
        return error;
    self->walked = true;
    make_room();
    error = make_lock(path);
    if (!error)
        error = open_env(self, 0); /* there are no pages to look at */
    opened_now(self, !error);
    if (!error)
        error = commit(&self->keep, first, 1);
    close_keep(&self->keep);
    return error;
}

int keep_lmdb_open(const char *path, size_t map_size, struct keep **out) {
    struct keep_lmdb *self;
    int error = new_keep(path, map_size, &self);
    if (error)
        return error;
    if (!(error = make_lock(path)) && !(error = take_open(self)))
        wefti_lock_give(&self->gate);
    else if (error != -EIO && error != -EBADMSG) {
        close_keep(&self->keep);
        return error;
    }
    *out = &self->keep;
    return error;
}
