/* node_pages.c - a file of any bytes as LMDB's (libFuzzer): read without a fault, whatever its page numbers say. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "pages.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
bool wefti_fault_here(void) { return false; }

static uint64_t sum;

static int visit(void *arg, const void *key, size_t key_size, const void *value, size_t size) {
    (void)arg;
    for (size_t i = 0; i < key_size; i++)
        sum += ((const unsigned char *)key)[i];
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)value)[i];
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static int fd = -1;
    uint64_t txn;
    char what[100];
    if (fd < 0)
        fd = memfd_create("pages", 0);
    if (ftruncate(fd, 0) || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        return 0;
    pages_walk_file(fd, 0, visit, NULL, &txn, what, sizeof what);
    pages_walk_file(fd, 1, NULL, NULL, &txn, what, sizeof what);
    return 0;
}
