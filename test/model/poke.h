/* poke.h - a poke as the system has it: who reads it away comes after who wrote it, with all memory.  (The checker's own orders nothing.) */
#ifndef WEFT_TEST_MODEL_POKE_H
#define WEFT_TEST_MODEL_POKE_H

#include "base/atomic.h"
#include "plat/plat.h"

static _Atomic int poke_kernel;

static void poke_write(int poke) {
    add_release(&poke_kernel, 1);
    wefti_poke(poke);
}

static void poke_read(int poke) {
    wefti_fd_sleep(-1, WEFTI_READABLE, poke, INT64_MAX);
    add_acquire(&poke_kernel, 0);
}

#endif
