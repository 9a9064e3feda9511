/* weft/sim.h - a network in memory, for programs that run under the scheduler `sim`.
 *
 * From weft_sim_net_open on, the calls of <weft/io.h> and <weft/net.h> that make sockets and pipes make them in memory, in this runtime: the
 * same calls, virtual time, and every choice drawn from the seed, so that a run can be repeated from it.  Reads and writes are cut short
 * at random; delays, resets, lost, doubled and overtaking datagrams, partitions, a lack of descriptors on demand.
 *
 *     weft_sim_net net = WEFT_SIM_NET_INIT;
 *     net.delay_max = 2000000;                        // up to 2 ms
 *     net.loss = 10000;                               // one datagram in 100
 *     int error = weft_sim_net_open(&net);            // in a fiber of a runtime with config.sched = WEFT_SCHED_SIM
 *
 * Such a socket has no number (weft_io_fd returns -1) and may be used by tasks of its runtime only.  Descriptors that come from outside
 * (weft_io_open) stay real; a select may have both.
 *
 * Nodes are addresses: a fiber that has called weft_sim_node("10.0.0.2") connects from there; one that has not, from 127.0.0.1.  weft_connect_any tries
 * one address after the other, each for a second at most.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

/* Chances are a million's: 10000 is one in 100.  0 is the default of each: none. */
typedef struct weft_sim_net {
    size_t size;         /* sizeof(weft_sim_net): set by WEFT_SIM_NET_INIT */
    unsigned whole;      /* that a read or write is not cut short; 0 = 500000 */
    int64_t delay_min;   /* ns from write to read */
    int64_t delay_max;   /* drawn between the two; streams keep their order */
    unsigned reset;      /* that a read or write finds its TCP connection reset */
    unsigned loss;       /* of a datagram */
    unsigned duplicate;
    unsigned reorder;    /* that a datagram takes up to 10 times delay_max, or 1 ms, longer */
    unsigned max_open;   /* sockets and pipe ends, then -EMFILE; 0 = no limit */
    size_t buffer;       /* bytes under way in each direction of a stream; 0 = 65,536 */
} weft_sim_net;
#define WEFT_SIM_NET_INIT {sizeof(weft_sim_net), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Begin.  `options` may be NULL.  Called again, it changes the chances for what happens from now on.
 * Call from:  a task under `sim`.
 * Returns 0; -EINVAL (elsewhere; a chance above a million; delay_min above delay_max); -E2BIG; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_sim_net_open(const weft_sim_net *options);

/* The calling fiber is on that node: a numeric address.  Returns 0; -EINVAL (no address, no fiber, no network); -ENOMEM. */
WEFT_API int weft_sim_node(const char *host);

/* Cut two nodes off from each other, or join them again.  Meanwhile what was written to streams stays under way, connections are not made, datagrams
 * are lost.  Returns 0; -EINVAL (no address, no network); -ENOSPC (64 pairs are cut). */
WEFT_API int weft_sim_partition(const char *a, const char *b, bool cut);

WEFT_EXTERN_C_END
#endif
