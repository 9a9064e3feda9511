/* search.h - what the command line tells the search, and what it tells back. */
#ifndef MC_SEARCH_H
#define MC_SEARCH_H

#include "internal.h"

enum { MC_CHOICES = 1 << 20 };

struct mc_limits {
    uint64_t max_exec, execs, then_pct, seed;
    double seconds;
    bool stale_counts; /* a bounded search stops when it has seen all that count so */
};
extern struct mc_limits mc_limits;

struct mc_result {
    bool complete;  /* all executions that the mode promises */
    bool unbounded; /* ...and the bound left none out */
    bool random;
    uint64_t executions, pruned, steps;
    double seconds;
    char mode[96];
};
struct mc_result mc_search(void);

#endif
