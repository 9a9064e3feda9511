/* node.h - help for tests of the ledger. */
#ifndef WEFT_TEST_NODE_H
#define WEFT_TEST_NODE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "tx.h"

/* A fresh directory, removed with everything in it when the test ends well. */
const char *node_dir(void);

/* All of a file, to be freed. */
unsigned char *node_bytes(const char *path, size_t *size);

/* A ledger on a directory (NULL: in memory) with two workers; the test fails if it does not open. */
struct ledger *node_open(const char *dir);
struct ledger *node_open_with(struct ledger_config config);

/* One transaction: "kv add k 5" as words.  The nonce is given. */
int node_try(struct ledger *book, const char *shard, const char *sender, uint64_t nonce, const char *words, hash32 *id);
/* The same with the sender's next nonce, waiting for its end.  Returns its status. */
enum tx_status node_run(struct ledger *book, const char *shard, const char *sender, const char *words);
/* Wait until it is no longer pending. */
enum tx_status node_wait(struct ledger *book, const char *shard, const hash32 *id);
/* Of the last node_run: the receipt's reason or output, and its id. */
extern char node_reason[256], node_output[4096];
extern hash32 node_id;
extern uint64_t node_gas;
/* Read them from node_id's receipt. */
void node_receipt(struct ledger *book, const char *shard);

/* A state's value as text; "(none)". */
const char *node_state(struct ledger *book, const char *shard, const char *key);
/* 0 and the value in `text`, of 4096 bytes; or an error. */
int node_state_try(struct ledger *book, const char *shard, const char *key, char *text);
/* The id that a transaction has. */
void node_id_of(const char *shard, const char *sender, uint64_t nonce, const char *words, hash32 *id);
/* The last block's number. */
uint64_t node_height(struct ledger *book, const char *shard);

#endif
