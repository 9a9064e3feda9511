/* registry.c - every workload.  A new one is a file in workloads/ and two lines here. */
#include <string.h>

#include "bench.h"

extern const struct bench_workload bench_floor_workload, bench_floor_stacks, bench_floor_messages, bench_spawn_join,
    bench_spawn_join_poll, bench_fib, bench_wake, bench_idle_memory, bench_yield, bench_wake_pingpong, bench_steal,
    bench_idle_cpu, bench_parallel_for, bench_inject, bench_pingpong, bench_rendezvous, bench_mpsc, bench_skynet,
    bench_select, bench_sleepers, bench_timer, bench_echo, bench_http, bench_idle_connections, bench_mutex, bench_sem,
    bench_rwlock, bench_actor_pingpong, bench_actor_ring, bench_actor_big, bench_actor_create, bench_actor_idle,
    bench_savina_bank, bench_savina_barber, bench_savina_chameneos, bench_savina_counting, bench_savina_fork_join,
    bench_savina_philosophers, bench_savina_quicksort, bench_savina_sieve, bench_savina_uct, bench_blocking,
    bench_file_read, bench_lane, bench_shards, bench_recovery, bench_node_rpc;

const struct bench_workload *const bench_workloads[] = {
    &bench_floor_workload,
    &bench_floor_stacks,
    &bench_floor_messages,
    &bench_spawn_join,
    &bench_spawn_join_poll,
    &bench_fib,
    &bench_wake,
    &bench_idle_memory,
    &bench_yield,
    &bench_wake_pingpong,
    &bench_steal,
    &bench_idle_cpu,
    &bench_parallel_for,
    &bench_inject,
    &bench_pingpong,
    &bench_rendezvous,
    &bench_mpsc,
    &bench_skynet,
    &bench_select,
    &bench_sleepers,
    &bench_timer,
    &bench_echo,
    &bench_http,
    &bench_idle_connections,
    &bench_mutex,
    &bench_sem,
    &bench_rwlock,
    &bench_blocking,
    &bench_file_read,
    &bench_lane,
    &bench_actor_pingpong,
    &bench_actor_ring,
    &bench_actor_big,
    &bench_actor_create,
#ifdef BENCH_LEDGER
    &bench_shards,
    &bench_recovery,
    &bench_node_rpc,
#endif
    &bench_actor_idle,
    &bench_savina_bank,
    &bench_savina_barber,
    &bench_savina_chameneos,
    &bench_savina_counting,
    &bench_savina_fork_join,
    &bench_savina_philosophers,
    &bench_savina_quicksort,
    &bench_savina_sieve,
    &bench_savina_uct,
    NULL,
};

const struct bench_workload *bench_find(const char *name, int *figure) {
    *figure = -1;
    for (size_t i = 0; bench_workloads[i]; i++)
        if (strcmp(bench_workloads[i]->name, name) == 0)
            return bench_workloads[i];
    for (size_t i = 0; bench_workloads[i]; i++)
        for (int f = 0; f < BENCH_FIGURES && bench_workloads[i]->figures[f].name; f++)
            if (strcmp(bench_workloads[i]->figures[f].name, name) == 0) {
                *figure = f;
                return bench_workloads[i];
            }
    return NULL;
}
