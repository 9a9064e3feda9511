/* node_tx.c - a transaction of any bytes (libFuzzer): refused, or the one encoding of what it says. */
#include "tx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
bool wefti_fault_here(void) { return false; }

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    unsigned char *copy = malloc(size ? size : 1); /* ends where the bytes do */
    struct bytes again = {0};
    struct tx tx;
    const char *why = NULL;
    memcpy(copy, bytes, size);
    if (tx_decode(copy, size, &tx, &why) == 0 &&
        (tx_encode(&tx, &again, &why) || again.size != size || memcmp(again.data, copy, size)))
        abort();
    bytes_free(&again);
    free(copy);
    return 0;
}
