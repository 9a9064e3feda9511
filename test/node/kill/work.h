/* work.h - what is done to a ledger while it is killed, or its disk loses power, and how it must be found afterwards. */
#ifndef WEFT_TEST_WORK_H
#define WEFT_TEST_WORK_H

#include "tx.h"

enum { WORK_SHARDS = 3 };

/* A transaction that somebody was told of. */
struct ack {
    uint32_t shard, status;
    hash32 id;
};

/* Write until the process is killed; `told` is the ledger's. */
_Noreturn void work_write(const char *dir, size_t max_batch, ledger_told_fn told, void *arg);
/* What a block's receipts acknowledge; `out` has room for as many. */
void work_acks(weft_shard *shard, const struct ledger_receipt *receipts, size_t count, struct ack *out);

/* Verify the directory, open it, look for everything that was acknowledged, and look at the sums, which half a block would leave wrong.  `go_on`: a
 * transaction more in every shard, and verify again.  False: `why` says what is wrong. */
bool work_check(const char *dir, const struct ack *acks, size_t count, bool go_on, char *why, size_t room);

void work_remove(const char *dir);

#endif
