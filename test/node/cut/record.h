/* record.h - what a process does to the files below a directory, written down while it does it.
 *
 * The functions that a store and LMDB, a shared library, call are those of record.c.  Each holds one lock over the call and its record, so the record is the order in
 * which things happened, and a process that is killed from within it (record_life) has nothing under way.  The records are in memory that children share.
 */
#ifndef WEFT_TEST_RECORD_H
#define WEFT_TEST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_kind {
    RECORD_MAKE = 1, /* file `ino` came into folder `at` as the name in the data; size: it is a folder */
    RECORD_RENAME,   /* in folder `ino`; the data: both names, each with its zero */
    RECORD_UNLINK,   /* of folder `ino` */
    RECORD_WRITE,    /* to `ino`, `at`: the data.  From here on it may be on the disk, any part of it */
    RECORD_WRITTEN,  /* the last write to `ino` is on the disk (O_DSYNC) */
    RECORD_LENGTH,   /* of `ino` is now at least `at` (fallocate); exactly with size 1 (truncated) */
    RECORD_SYNC,     /* all of `ino`, a file or a folder, is on the disk */
    RECORD_ACK,      /* the client was told: the data is the client's */
};
struct record {
    uint32_t kind;
    uint32_t size;
    uint64_t ino, at;
    uint64_t data_size;
    unsigned char data[];
};

/* Memory for the records; once. */
void record_open(void);
/* None any more, and `root` is what is watched. */
void record_begin(const char *root);
/* In a child: write down what it does, and end it by SIGKILL after so many records. */
void record_life(uint64_t records);
void record_ack(const void *data, size_t size);
/* The next record; NULL begins.  NULL: there is none. */
const struct record *record_next(const struct record *record);

#endif
