/* mem.h - sockets and pipes in memory, under the simulator.  Internal.
 *
 * What.   The readiness protocol of desc.h with other system calls: each is here, and says -EAGAIN when it would block.  Who changes
 *         something tells the other end (wefti_desc_event).
 * Who.    Tasks of the runtime whose network it is: one thread, so there are no locks.  Others get -EINVAL.
 * Time.   What was written arrives at a time.  Nobody has a timer for it: who waits to read knows when the next piece will arrive
 *         (wefti_mem_next), and looks again then.  For poll tasks, which have no deadlines, it arrives at once.
 * Chance. Every draw comes from the simulator, and is part of its hash.
 */
#ifndef WEFTI_IO_MEM_H
#define WEFTI_IO_MEM_H

#include <string.h>
#include <sys/socket.h>
#include <weft/net.h>
#include <weft/sim.h>

#include "io/desc.h"

struct wefti_piece {
    struct wefti_piece *next;
    int64_t at; /* when it arrives */
    weft_addr from;
    size_t size, done;
    char bytes[];
};

enum { WEFTI_MEM_STREAM, WEFTI_MEM_LISTENER, WEFTI_MEM_DATAGRAM };

struct wefti_mem {
    struct wefti_net *net;
    struct wefti_mem *next, **at; /* all of the network */
    struct weft_io *io;           /* NULL: not accepted yet */
    int kind;
    bool no_read, no_write;       /* shut, or the other end of a pipe */
    bool pipe;
    bool ended, reset;            /* nothing more comes; all is lost */
    bool reset_on_close, is_tcp;
    weft_addr local, remote;
    int64_t ended_at, last_at;
    struct wefti_mem *peer;
    struct wefti_piece *first, **last; /* on its way to us */
    size_t queued;
    struct wefti_mem *waiting, *behind; /* of a listener: who wants in; the next of those */
    unsigned backlog, count;
};

#define WEFTI_PARTITIONS 64u
struct wefti_net {
    struct wefti_annex annex;
    struct weft_runtime *rt; /* NULL: it is gone */
    weft_sim_net options;
    struct wefti_mem *all;
    unsigned open, refs; /* descriptors; all who point here */
    uint16_t port;
    unsigned cuts;
    weft_addr cut[WEFTI_PARTITIONS][2];
};

static inline int wefti_addr_family(const weft_addr *addr) {
    sa_family_t family;
    memcpy(&family, (const char *)addr->storage + offsetof(struct sockaddr, sa_family), sizeof family);
    return family;
}

/* mem_net.c.  The network of the calling task, or NULL: then the system's. */
struct wefti_net *wefti_net_here(void);
void wefti_net_unref(struct wefti_net *net);
bool wefti_net_is_cut(const struct wefti_net *net, const weft_addr *a, const weft_addr *b);
/* Where the calling fiber is, with a free port; of that family. */
void wefti_net_own_address(struct wefti_net *net, int family, weft_addr *out);
/* When something sent now arrives; a chance. */
int64_t wefti_net_arrival(struct wefti_net *net);
bool wefti_net_chance(struct wefti_net *net, unsigned millionths);
size_t wefti_net_cut_short(struct wefti_net *net, size_t size);
/* Who has that address. */
struct wefti_mem *wefti_net_find(struct wefti_net *net, int kind, const weft_addr *addr);
/* Give it that address, or with port 0 a free one.  0; -EADDRINUSE. */
int wefti_net_bind(struct wefti_mem *mem, const weft_addr *addr);

/* mem.c.  One more, or NULL. */
struct wefti_mem *wefti_mem_new(struct wefti_net *net, int kind);
/* It gets a descriptor, or is closed.  0; -EMFILE, -ENOMEM. */
int wefti_mem_adopt(struct wefti_mem *mem, weft_io **out);
int wefti_mem_pair(struct wefti_net *net, bool pipe, weft_io **a, weft_io **b);
void wefti_mem_close(struct wefti_mem *mem);
void wefti_mem_event(struct wefti_mem *mem, uint32_t ready);
void wefti_mem_reset(struct wefti_mem *mem);
/* A piece on its way to `mem`.  False: no memory. */
bool wefti_mem_send(struct wefti_mem *mem, const void *bytes, size_t size, const weft_addr *from, int64_t at,
                    bool sorted);
/* Has the first piece arrived?  NULL: not yet. */
struct wefti_piece *wefti_mem_arrived(struct wefti_mem *mem);
void wefti_mem_take(struct wefti_mem *mem);
/* When there will be something to read, if nothing else is sent; INT64_MAX: nothing is on its way. */
int64_t wefti_mem_next(struct wefti_mem *mem, int direction);
/* Need a read or write, or an accept, not wait?  Draws nothing: looking changes no run. */
bool wefti_mem_is_ready(struct wefti_mem *mem, int direction);
/* Everything under way arrives now.  True: there was something. */
bool wefti_mem_hurry(struct wefti_mem *mem);

ssize_t wefti_mem_read(struct wefti_mem *mem, void *bytes, size_t size);
ssize_t wefti_mem_write(struct wefti_mem *mem, const void *bytes, size_t size);
int wefti_mem_shutdown(struct wefti_mem *mem, int how);
int wefti_mem_connect(const weft_addr *addr, weft_io **out, int64_t until);
ssize_t wefti_mem_accept(struct wefti_mem *mem, struct wefti_mem **out);
/* Without a descriptor for it: the first in the queue is reset. */
void wefti_mem_turn_away(struct wefti_mem *mem);
ssize_t wefti_mem_send_to(struct wefti_mem *mem, const void *bytes, size_t size, const weft_addr *to);
ssize_t wefti_mem_recv_from(struct wefti_mem *mem, void *bytes, size_t size, weft_addr *from);

#endif
