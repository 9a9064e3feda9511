/* records.c - what lies in a process's list: links, monitors, helpers, streams.  All under its lock.
 *
 * What.   A list; and once it is long, an index beside it: a table of pointers by whom and what a record is about, with open addressing, at most
 *         half full.  Without memory for the index the list is walked, as a short one is.
 * Left.   A monitor lies in the list of the process that it watches.  If the process that watches ends first, its record stays behind and tells
 *         nobody.  So before a record of any kind makes a long list longer than it ever was, or makes the index grow, those records are taken
 *         out.  The list is therefore at most twice as long as the number of records that still tell somebody.
 */
#include "process/relay.h"

#define INDEX_FROM 32u /* records, when the index is made */

struct wefti_index {
    uint32_t size; /* a power of two */
    struct wefti_message *record[];
};

static struct wefti_message *next_of(struct wefti_message *record) { return wefti_message_of(record->link.next); }

/* A helper is found by its tag alone. */
static uint32_t home(const struct wefti_index *index, weft_pid to, uint64_t tag) {
    uint64_t hash = (to ^ tag * UINT64_C(0xC2B2AE3D27D4EB4F)) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32) & (index->size - 1);
}
static uint32_t home_of(const struct wefti_index *index, const struct wefti_message *record) {
    return home(index, record->type == WEFTI_RECORD_HELPER ? 0 : record->record.to, record->tag);
}

static void index_put(struct wefti_index *index, struct wefti_message *record) {
    uint32_t at = home_of(index, record);
    while (index->record[at])
        at = (at + 1) & (index->size - 1);
    index->record[at] = record;
}

/* Those behind it that would not be found any more move up. */
static void index_take(struct wefti_index *index, struct wefti_message *record) {
    uint32_t mask = index->size - 1, hole = home_of(index, record);
    while (index->record[hole] != record)
        hole = (hole + 1) & mask;
    for (uint32_t at = (hole + 1) & mask; index->record[at]; at = (at + 1) & mask)
        if (((at - home_of(index, index->record[at])) & mask) >= ((at - hole) & mask)) {
            index->record[hole] = index->record[at];
            hole = at;
        }
    index->record[hole] = NULL;
}

static size_t index_bytes(uint32_t size) { return sizeof(struct wefti_index) + size * sizeof(struct wefti_message *); }

static void index_drop(struct wefti_process *process) {
    struct wefti_process_rest *rest = wefti_rest(process);
    if (rest->lookup)
        wefti_free(rest->lookup, index_bytes(rest->lookup->size));
    rest->lookup = NULL;
}

/* Large enough for what is in the list, or none. */
static void index_make(struct wefti_process *process) {
    struct wefti_process_rest *rest = wefti_rest(process);
    uint32_t size = 4 * INDEX_FROM;
    while (size < 4 * rest->records)
        size *= 2;
    index_drop(process);
    if (!(rest->lookup = wefti_alloc(index_bytes(size))))
        return;
    rest->lookup->size = size;
    for (struct wefti_message *record = process->links; record; record = next_of(record))
        index_put(rest->lookup, record);
}

/* The process that is to be told has ended; its pid is not used again.  (It was alive when it put the record here, under this lock.) */
static bool tells_nobody(struct wefti_process *process, const struct wefti_message *record) {
    return record->type == WEFT_MESSAGE_DOWN && !wefti_process_find(process->table, record->record.to) &&
           !wefti_relay_leads_to(process->table, record->record.to);
}

/* One more record needs a larger index; or without an index, there are a power of two of them. */
static bool is_full(const struct wefti_process_rest *rest) {
    if (rest->lookup)
        return rest->records >= rest->lookup->size / 2;
    return rest->records >= INDEX_FROM && !(rest->records & (rest->records - 1));
}

/* Takes out the records that tell nobody. */
static __attribute__((noinline)) struct wefti_message *sweep(struct wefti_process *process) {
    struct wefti_message *left = NULL;
    for (struct wefti_message *record = process->links, *next; record; record = next) {
        next = next_of(record);
        if (tells_nobody(process, record)) {
            wefti_record_take(process, record);
            record->link.next = left ? &left->link : NULL;
            left = record;
        }
    }
    if (wefti_rest(process)->records >= INDEX_FROM &&
        (!wefti_rest(process)->lookup || wefti_rest(process)->records > wefti_rest(process)->lookup->size / 4))
        index_make(process); /* larger, or the next sweep would come soon */
    return left;
}

struct wefti_message *wefti_record_put(struct wefti_process *process, struct wefti_message *record) {
    struct wefti_process_rest *rest = wefti_rest(process);
    struct wefti_message *left = WEFTI_UNLIKELY(is_full(rest)) ? sweep(process) : NULL;
    record->record.prev = NULL;
    record->link.next = process->links ? &process->links->link : NULL;
    if (process->links)
        process->links->record.prev = record;
    process->links = record;
    rest->records++;
    if (rest->lookup && rest->records <= rest->lookup->size / 2)
        index_put(rest->lookup, record);
    else if (WEFTI_UNLIKELY(rest->lookup || rest->records == INDEX_FROM))
        index_make(process);
    return left;
}

void wefti_records_free(struct wefti_processes *table, struct wefti_message *records) {
    for (struct wefti_message *next; records; records = next) {
        next = next_of(records);
        wefti_message_free(table, records);
    }
}

void wefti_record_take(struct wefti_process *process, struct wefti_message *record) {
    struct wefti_process_rest *rest = wefti_rest(process);
    struct wefti_message *next = next_of(record), *prev = record->record.prev;
    if (rest->lookup)
        index_take(rest->lookup, record); /* first: it is found by what it says */
    if (next)
        next->record.prev = prev;
    if (prev)
        prev->link.next = record->link.next;
    else
        process->links = next;
    if (--rest->records == 0)
        index_drop(process);
}

static bool is(const struct wefti_message *record, weft_pid to, uint64_t tag) {
    bool helper = record->type == WEFTI_RECORD_HELPER;
    return record->tag == tag && (to ? record->record.to == to : helper); /* no task is where a pid points */
}

struct wefti_message *wefti_record_find(struct wefti_process *process, weft_pid to, uint64_t tag) {
    const struct wefti_index *index = wefti_rest(process)->lookup;
    struct wefti_message *record = process->links;
    if (!index) {
        while (record && !is(record, to, tag))
            record = next_of(record);
        return record;
    }
    uint32_t at = home(index, to, tag);
    while ((record = index->record[at]) && !is(record, to, tag))
        at = (at + 1) & (index->size - 1);
    return record;
}

struct wefti_message *wefti_records_take_all(struct wefti_process *process) {
    struct wefti_message *links = process->links;
    if (WEFTI_UNLIKELY(links != NULL)) {
        wefti_rest(process)->records = 0;
        index_drop(process);
    }
    return links;
}
