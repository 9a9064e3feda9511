/* litmus.h - what the tests of the checker itself share: some threads, run to their ends. */
#ifndef WEFT_MODEL_LITMUS_H
#define WEFT_MODEL_LITMUS_H

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "mc/mc.h"
#include "plat/plat.h"

typedef void body(void *);

/* The last thread is the body of the test itself: one thread less to interleave. */
static inline void run(body *a, body *b, body *c, body *d) {
    body *fn[] = {a, b, c, d};
    int id[4], n = 0;
    while (n < 4 && fn[n]) {
        id[n] = mc_spawn(fn[n], NULL);
        n++;
    }
    for (int i = 0; i < n; i++)
        mc_join(id[i]);
}

#endif
