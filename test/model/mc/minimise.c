/* minimise.c - a bug found by chance, with as few unusual choices as it needs.
 *
 * Choice 0 is the usual one: go on with the same thread, read the newest value.  Blocks of the list of choices, of
 * ever smaller size, are set to 0 and the execution is run again; if it ends in the same kind of bug, they stay 0.
 * Choices that no longer fit become 0 too.
 */
#include <stdlib.h>
#include <string.h>

#include "search.h"

enum { TRIES = 20000 };

/* Messages hold addresses and thread numbers; the kind of bug is what comes before the first of them. */
static bool same_kind(const char *a, const char *b) {
    size_t n = strcspn(a, "0123456789:");
    return strncmp(a, b, n) == 0;
}

static int unusual(const struct mc_choice *c, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += c[i].c != 0;
    return count;
}

void mc_minimise(void) {
    struct mc_fault best_fault = mc.fault;
    int best_length = mc.list->position, tries = 0;
    struct mc_choice *best = malloc(MC_CHOICES * sizeof *best);
    if (!best)
        return;
    memcpy(best, mc.list->c, (size_t)best_length * sizeof *best);
    mc.replaying = mc.lenient = true;
    for (int block = best_length; block > 0; block /= 2) {
        for (int from = 0; from < best_length && tries < TRIES; from += block) {
            int n = best_length - from < block ? best_length - from : block;
            int before = unusual(best, best_length);
            if (!unusual(best + from, n))
                continue;
            memcpy(mc.list->c, best, (size_t)best_length * sizeof *best);
            for (int i = from; i < from + n; i++)
                mc.list->c[i].c = 0;
            mc.list->length = best_length;
            mc.fault.found = false;
            tries++;
            mc_execute();
            if (!mc.fault.found || !same_kind(best_fault.message, mc.fault.message) ||
                unusual(mc.list->c, mc.list->position) >= before)
                continue;
            best_fault = mc.fault;
            best_length = mc.list->position;
            memcpy(best, mc.list->c, (size_t)best_length * sizeof *best);
        }
    }
    mc.lenient = false;
    mc.fault = best_fault;
    mc.list->length = mc.list->position = best_length;
    memcpy(mc.list->c, best, (size_t)best_length * sizeof *best);
    free(best);
}
