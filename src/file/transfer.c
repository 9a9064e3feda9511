/* transfer.c - reading and writing at a place: at once, by the worker's ring, or as a job of the pool.
 *
 * What.   A read of a little first takes what lies in the system's memory, on the worker itself: that is a copy, and waits for nothing.  What
 *         has to come from the disk is an operation of the worker's ring (io/op.c), if it has one; so is everything that goes past
 *         the system's memory (O_DIRECT).  The rest are jobs: buffered writes, which may wait for memory or the disk and which a
 *         ring hands to a thread of its own; much at once, since the copying would keep the worker; file systems that do not know
 *         whether a read would wait.
 * Begun.  Once a piece is through, the call cannot be stopped any more, as a job that has begun cannot: the rest is waited for, late or not.
 * Where.  A call goes from one way to the next with what is left (`struct transfer`), never back.
 * Checked by.  test/api/file.c, test/api/file_ways.c, test/fault/file.c, on both pollers
 */
#define _GNU_SOURCE
#include <sys/uio.h>

#include "file/file.h"
#include "io/desc.h"

#define PARTS_MAX 1024          /* IOV_MAX */
#define LITTLE ((size_t)1 << 16) /* bytes: a few microseconds of copying */

/* What is left of a call. */
struct transfer {
    struct weft_file *file;
    bool writes, held; /* held: shielded from cancellation */
    const struct iovec *part, *end;
    size_t cut; /* of the first part, what is through already */
    size_t done;
    off_t offset;
};

/* -- Pieces ---------------------------------------------------------------------------------------------------- */

static bool is_through(struct transfer *t) {
    for (; t->part < t->end && t->cut == t->part->iov_len; t->part++)
        t->cut = 0;
    return t->part == t->end;
}

/* What the next piece is made of; `rest` is room for a part that is through in part. */
static const struct iovec *next_piece(const struct transfer *t, struct iovec *rest, int *count) {
    *count = 1;
    *rest = (struct iovec){(char *)t->part->iov_base + t->cut, t->part->iov_len - t->cut};
    if (t->cut)
        return rest;
    *count = t->end - t->part < PARTS_MAX ? (int)(t->end - t->part) : PARTS_MAX;
    return t->part;
}

/* A piece has ended.  True: the call as well, with *result. */
static bool note_piece(struct transfer *t, ssize_t n, ssize_t *result) {
    if (n <= 0) {
        *result = n < 0 ? n : t->writes ? -EIO : (ssize_t)t->done; /* a write of nothing would go on for ever */
        return true;
    }
    t->done += (size_t)n;
    for (t->cut += (size_t)n; t->part < t->end && t->cut > t->part->iov_len; t->part++)
        t->cut -= t->part->iov_len;
    *result = (ssize_t)t->done;
    return is_through(t);
}

/* -- Ways ------------------------------------------------------------------------------------------------------- */

static ssize_t job(void *arg) {
    struct transfer *t = arg;
    ssize_t n, result = (ssize_t)t->done;
    do {
        struct iovec rest;
        int count;
        const struct iovec *parts = next_piece(t, &rest, &count);
        off_t at = t->offset + (off_t)t->done;
        do
            n = t->writes ? pwritev(t->file->fd, parts, count, at) : preadv(t->file->fd, parts, count, at);
        while (n < 0 && errno == EINTR);
    } while (!note_piece(t, n < 0 ? -errno : n, &result));
    return result;
}

/* What lies in memory.  True: that was all. */
static bool at_once(struct transfer *t, ssize_t *result) {
    ssize_t n;
    do {
        struct iovec rest;
        int count;
        const struct iovec *parts = next_piece(t, &rest, &count);
        n = wefti_readv_now(t->file->fd, parts, count, t->offset + (off_t)t->done);
        if (n == -EOPNOTSUPP)
            store_relaxed(&t->file->slow, true); /* a hint */
        if (n == -EAGAIN || n == -EOPNOTSUPP || n == -EINTR)
            return false;
    } while (!note_piece(t, n, result));
    return true;
}

/* Is a piece through?  Then it cannot be stopped. */
static weft_deadline hold(struct transfer *t, weft_deadline until) {
    if (!t->done)
        return until;
    t->held = t->held || weft_shield(weft_task_self()) == 0;
    return WEFT_NEVER;
}

/* True: it has ended; false: the rest is for others. */
static bool by_ring(struct transfer *t, weft_deadline until, ssize_t *result) {
    ssize_t n;
    do {
        struct iovec rest;
        struct wefti_poll_op op = {.what = t->writes ? WEFTI_OP_WRITEV : WEFTI_OP_READV, .fd = t->file->fd};
        int count;
        op.bytes = (void *)(uintptr_t)next_piece(t, &rest, &count);
        op.size = (size_t)count;
        op.at = t->offset + (off_t)t->done;
        do
            if (!wefti_op_run(&op, hold(t, until), t->writes ? "a file to write" : "a file to read", &n))
                return false;
        while (n == -EINTR);
        if (n == -EAGAIN) /* O_NONBLOCK means to a ring what it does not mean to preadv */
            return false;
    } while (!note_piece(t, n, result));
    return true;
}

/* -- The call --------------------------------------------------------------------------------------------------- */

static bool is_little(const struct transfer *t) {
    size_t sum = 0;
    for (const struct iovec *part = t->part; part < t->end && sum <= LITTLE; part++)
        sum = part->iov_len <= LITTLE ? sum + part->iov_len : LITTLE + 1;
    return sum <= LITTLE;
}

static ssize_t move(struct transfer *t, weft_deadline until) {
    ssize_t result;
    bool quick = !t->writes && !t->file->direct && is_little(t) && !load_relaxed(&t->file->slow) && /* a hint */
                 !wefti_worker_here()->rt->sim; /* where nothing may hang on what lies in memory */
    if (quick && at_once(t, &result))
        return result;
    bool ring = t->file->direct || (quick && !load_relaxed(&t->file->slow)); /* as above */
    if (ring && by_ring(t, until, &result))
        return result;
    return wefti_file_run_paid(job, t, t->writes ? "write a file" : "read a file", hold(t, until));
}

ssize_t wefti_file_transfer(struct weft_file *file, bool writes, const struct iovec *parts, int count, off_t offset,
                            weft_deadline until) {
    struct transfer t = {.file = file, .writes = writes, .part = parts, .offset = offset};
    t.end = count ? parts + count : parts;
    bool fiber = wefti_fiber_self();
    ssize_t result = fiber && until <= 0 ? -ETIMEDOUT : wefti_desc_begin(until);
    if (!result)
        result = wefti_charge_syscall_call();
    if (result || is_through(&t))
        return result;
    if (!fiber)
        return job(&t);
    result = move(&t, until);
    if (t.held)
        weft_unshield(weft_task_self());
    return result;
}
