/* index.c - sorted runs of places, merged as they grow. */
#include "index.h"

#include <errno.h>

#include "hash.h"

#define MAGIC 0x44414857u /* "WHAD" */
#define FORMAT 1u
#define RUN_HEAD 8

/* -- The head ----------------------------------------------------------------------------------------------------- */

void head_encode(const struct head *head, struct bytes *out) {
    size_t begin = out->size;
    bytes_put32(out, MAGIC);
    bytes_put32(out, FORMAT);
    bytes_put64(out, head->number);
    bytes_put64(out, head->txs);
    bytes_put64(out, head->next_run);
    bytes_put(out, &head->hash, sizeof head->hash);
    bytes_put(out, head->shard, sizeof head->shard);
    bytes_put32(out, (uint32_t)head_run_count(head));
    for (size_t i = 0; i < head_run_count(head); i++) {
        bytes_put64(out, head_runs(head)[i].seq);
        bytes_put32(out, head_runs(head)[i].level);
        bytes_put32(out, head_runs(head)[i].count);
    }
    if (!out->failed)
        bytes_put32(out, crc32c(0, out->data + begin, out->size - begin));
}

int head_decode(const void *data, size_t size, struct head *out) {
    *out = (struct head){0};
    if (size < 4 || get32((const unsigned char *)data + size - 4) != crc32c(0, data, size - 4))
        return -EBADMSG;
    struct reader at = reader_of(data, size - 4);
    if (reader_32(&at) != MAGIC || reader_32(&at) != FORMAT)
        return -EBADMSG;
    out->number = reader_64(&at);
    out->txs = reader_64(&at);
    out->next_run = reader_64(&at);
    const void *hash = reader_take(&at, 32), *shard = reader_take(&at, sizeof out->shard);
    uint32_t runs = reader_32(&at);
    if (at.bad || runs > RUNS_MAX || (size_t)(at.end - at.at) != (size_t)runs * 16)
        return -EBADMSG;
    memcpy(&out->hash, hash, 32);
    memcpy(out->shard, shard, sizeof out->shard);
    for (uint32_t i = 0; i < runs; i++) {
        struct run run = {.seq = reader_64(&at)};
        run.level = reader_32(&at);
        run.count = reader_32(&at);
        bytes_put(&out->runs, &run, sizeof run);
    }
    return out->shard[63] ? -EBADMSG : out->runs.failed ? -ENOMEM : 0;
}

/* -- Runs --------------------------------------------------------------------------------------------------------- */

uint64_t prefix_of(const hash32 *id) {
    uint64_t prefix = 0;
    for (int i = 0; i < 8; i++)
        prefix = prefix << 8 | id->bytes[i];
    return prefix;
}

static int by_prefix(const void *left, const void *right) {
    const struct place_of *a = left, *b = right;
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    return a->where < b->where ? -1 : a->where > b->where;
}

int run_open(const void *data, size_t size, const unsigned char **entries, size_t *count) {
    const unsigned char *at = data;
    if (size < RUN_HEAD || get32(at) != crc32c(0, at + 4, size - 4) || (size - RUN_HEAD) % 16 ||
        get32(at + 4) != (size - RUN_HEAD) / 16)
        return -EBADMSG;
    *entries = at + RUN_HEAD;
    *count = (size - RUN_HEAD) / 16;
    return 0;
}

/* From where it is, with its length looked at only: a CRC of megabytes is not for a lookup, and the record found says whose it is. */
static int run_get(struct keep_view *view, const struct run *run, const unsigned char **data, size_t *size) {
    unsigned char key[NUMBER_KEY];
    const void *value;
    number_key('i', run->seq, key);
    int found = view->keep->ops->get(view, key, sizeof key, &value, size);
    if (found < 0)
        return found;
    *data = value;
    return found && *size == RUN_HEAD + 16 * (size_t)run->count ? 0 : -EBADMSG;
}

/* `run` and the entries of `data`, both in order, as one. */
static int merge(struct bytes *run, const unsigned char *data, size_t count) {
    struct bytes out = {0};
    size_t mine = run->size / 16;
    unsigned char *to = bytes_add(&out, 16 * (mine + count));
    if (!to)
        return -ENOMEM;
    for (size_t i = 0, k = 0; i < mine || k < count; to += 16) {
        struct place_of a = i < mine ? run_entry(run->data, i) : (struct place_of){0, 0};
        struct place_of b = k < count ? run_entry(data, k) : (struct place_of){0, 0};
        bool first = k == count || (i < mine && by_prefix(&a, &b) <= 0);
        put64(to, first ? a.prefix : b.prefix);
        put64(to + 8, first ? a.where : b.where);
        *(first ? &i : &k) += 1;
    }
    bytes_free(run);
    *run = out;
    return 0;
}

/* The runs of a level, if with one more they are to become one: how many entries they have; 0: not yet. */
static size_t due(const struct head *head, uint32_t level) {
    size_t runs = 0, entries = 0;
    for (size_t i = 0; i < head_run_count(head); i++)
        if (head_runs(head)[i].level == level)
            runs++, entries += head_runs(head)[i].count;
    return runs + 1 >= RUN_FANOUT && entries < RUN_MAX ? entries : 0;
}

struct copy {
    const struct run *run;
    struct bytes bytes;
};

static int copy_run(struct keep_view *view, void *arg) {
    struct copy *copy = arg;
    const unsigned char *data;
    size_t size;
    int error = run_get(view, copy->run, &data, &size);
    bytes_clear(&copy->bytes);
    if (!error)
        bytes_put(&copy->bytes, data, size);
    return error ? error : copy->bytes.failed ? -ENOMEM : 0;
}

/* Merge all runs of a level into `run`; they are taken out of the head. */
static int take_level(struct head *head, struct keep_view *view, uint32_t level, struct bytes *run,
                      struct bytes *gone) {
    struct copy copy = {0};
    int error = 0;
    size_t left = 0;
    struct run *runs = head_runs(head);
    for (size_t i = 0; !error && i < head_run_count(head); i++) {
        if (runs[i].level != level) {
            runs[left++] = runs[i];
            continue;
        }
        const unsigned char *entries;
        size_t count;
        copy.run = &runs[i];
        if (!(error = keep_use(view, copy_run, &copy)) &&
            !(error = run_open(copy.bytes.data, copy.bytes.size, &entries, &count)))
            error = merge(run, entries, count);
        bytes_put64(gone, runs[i].seq);
    }
    bytes_free(&copy.bytes);
    if (!error)
        head->runs.size = left * sizeof *runs;
    return error ? error : gone->failed ? -ENOMEM : 0;
}

int index_add(struct head *head, struct keep_view *view, struct place_of *entries, size_t count, struct bytes *run,
              struct bytes *gone) {
    struct run made = {.seq = head->next_run++};
    struct bytes merged = {0};
    int error = 0;
    qsort(entries, count, sizeof *entries, by_prefix);
    for (size_t i = 0; i < count; i++) {
        bytes_put64(&merged, entries[i].prefix);
        bytes_put64(&merged, entries[i].where);
    }
    while (!error && !merged.failed && due(head, made.level))
        error = take_level(head, view, made.level++, &merged, gone);
    made.count = (uint32_t)(merged.size / 16);
    bytes_put(&head->runs, &made, sizeof made);
    bytes_put32(run, 0);
    bytes_put32(run, made.count);
    bytes_put(run, merged.data, merged.size);
    error = error ? error : merged.failed || run->failed || head->runs.failed ? -ENOMEM : 0;
    bytes_free(&merged);
    if (!error)
        put32(run->data + run->size - made.count * (size_t)16 - RUN_HEAD,
              crc32c(0, run->data + run->size - made.count * (size_t)16 - 4, made.count * (size_t)16 + 4));
    return error;
}

int index_find(const struct head *head, struct keep_view *view, const hash32 *id,
               int (*visit)(void *arg, uint64_t block, uint32_t index), void *arg) {
    uint64_t prefix = prefix_of(id);
    for (size_t i = head_run_count(head); i--;) { /* the newest first */
        const unsigned char *data;
        size_t size, low = 0, high = head_runs(head)[i].count;
        int result = run_get(view, &head_runs(head)[i], &data, &size);
        if (result)
            return result;
        data += RUN_HEAD;
        while (low < high) { /* the first that is not below it */
            size_t middle = (low + high) / 2;
            if (get64(data + 16 * middle) < prefix)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < head_runs(head)[i].count && get64(data + 16 * low) == prefix; low++) {
            uint64_t where = get64(data + 16 * low + 8);
            if ((result = visit(arg, where >> 20, (uint32_t)(where & 0xfffff))))
                return result;
        }
    }
    return 0;
}
