/* submit.h - transactions from JSON.
 *
 *     {"executor": "kv", "method": "set", "sender": "alice", "nonce": 1, "gas": 1000, "args": ["key", "value"]}
 *
 * executor: "kv" if there is none; gas and args may be left out.  An argument is a string, an integer (as its decimal digits), or {"hex": "00ff"}.
 */
#ifndef WEFT_CMD_SUBMIT_H
#define WEFT_CMD_SUBMIT_H

#include <jansson.h>

#include "bytes.h"

/* Append the bytes of a transaction.  0; -EINVAL, -ENOMEM: `why` says what is wrong. */
int submit_tx(json_t *json, struct bytes *out, char *why, size_t room);
/* Append the bytes that a string, an integer or {"hex"} stands for. */
int submit_bytes(const json_t *json, struct bytes *out, char *why, size_t room);

#endif
