/* disk.h - a disk that loses what was not synced: what a power cut may leave of a directory.
 *
 * What.   Of each file what is durable, and the writes since, in order.  A cut keeps any subset of the pieces of those writes, a piece being a page, a
 *         sector or a whole write; of each folder's changes since it was synced, any first part.  Folders and files keep theirs independently.
 * Not.    Writes of sectors that were not written; what a sync that succeeded did not do after all.  Damage is another test's (damage.c).
 */
#ifndef WEFT_TEST_DISK_H
#define WEFT_TEST_DISK_H

#include "record.h"

struct disk;

/* A disk that holds a directory as it is now, all of it durable. */
struct disk *disk_of(const char *root);
void disk_free(struct disk *disk);
void disk_do(struct disk *disk, const struct record *record);
/* How many pages were written and not synced. */
size_t disk_unsynced(const struct disk *disk);

enum disk_keep {
    DISK_NONE, /* nothing that was not synced */
    DISK_ALL,
    DISK_PAGES, /* page i if `bits` has bit i */
    DISK_RANDOM,
};
/* What a cut leaves, into a directory that is not there yet. */
void disk_cut(struct disk *disk, enum disk_keep keep, uint64_t bits, uint64_t *seed, const char *to);

uint64_t disk_random(uint64_t *seed);

#endif
