/* pages.h - LMDB's file read by ourselves, for when it may be damaged.
 *
 * What.   LMDB maps its file and follows page numbers without a checksum: on a damaged file it may crash or read something else.  This reads the
 *         same format (0.9, data version 1) with pread, believes nothing, and says what is not as it must be.
 * Checks. Both meta pages: magic, version, page size, sizes, and transaction numbers n and n - 1 in their places.  Every page from a root: its own
 *         number, kind, bounds, keys in order and between their parent's keys, figures of the tree.  Every page of the file is used once: by the tree, by
 *         the tree of free pages, or listed there as free.
 * Not     checked: bytes that belong to nothing (free pages, the gaps in pages).  LMDB does not read them either.
 */
#ifndef WEFT_CMD_PAGES_H
#define WEFT_CMD_PAGES_H

#include "bytes.h"

/* The meta pages and the file's length only.  `path`: the directory.  0; -EBADMSG; -EPROTO; -errno. */
int pages_look(const char *path);

/* One entry of the tree, in order; the memory is valid during the call.  Not 0: stop. */
typedef int (*pages_visit)(void *arg, const void *key, size_t key_size, const void *value, size_t size);
/* The whole file, walked from one of its two meta pages: the newer (0), the older (1).  *txn: the number of the transaction it is from.
 * 0; 1: damaged, or cannot be read, and `what` says how; -ENOMEM; what visit returned. */
int pages_walk(const char *path, unsigned older, pages_visit visit, void *arg, uint64_t *txn, char *what, size_t room);
/* Every page that LMDB would follow, before it writes: as pages_walk of the newer one, but values on pages of their own are not read, and pages that the disk cannot
 * read are left out. 0; -EBADMSG; -ENOMEM; -errno. */
int pages_check(const char *path);
/* The same of an open file. */
int pages_walk_file(int fd, unsigned older, pages_visit visit, void *arg, uint64_t *txn, char *what, size_t room);

#endif
