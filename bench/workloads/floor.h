/* floor.h - what the floor workloads share. */
#ifndef BENCH_WORKLOADS_FLOOR_H
#define BENCH_WORKLOADS_FLOOR_H

#include "../harness/bench.h"

/* ns a switch between two stacks that saves the six callee-saved registers; NAN where we have none. */
double bench_floor_switch(struct bench_run *run);

/* The calling thread runs on that one of the usable CPUs, counted from 0, and nowhere else. */
void bench_pin(int nth);

#endif
