/* floor.h - the part of the floor workload that is CPU-specific. */
#ifndef BENCH_WORKLOADS_FLOOR_H
#define BENCH_WORKLOADS_FLOOR_H

#include "../harness/bench.h"

/* ns a switch between two stacks that saves the six callee-saved registers; NAN where we have none. */
double bench_floor_switch(struct bench_run *run);

#endif
