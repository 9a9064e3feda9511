/* mem.c - sockets and pipes in memory: streams, and who listens for them (mem.h has the design). */
#include "io/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECT_PAUSE INT64_C(1000000) /* ns, between two tries to get in */

static int64_t now(const struct wefti_mem *mem) { return wefti_now(mem->net->rt); }

/* -- Made and unmade ----------------------------------------------------------------------------------------- */

struct wefti_mem *wefti_mem_new(struct wefti_net *net, int kind) {
    struct wefti_mem *mem = wefti_alloc(sizeof *mem);
    if (!mem)
        return NULL;
    *mem = (struct wefti_mem){.net = net, .kind = kind, .next = net->all, .at = &net->all};
    mem->last = &mem->first;
    if (net->all)
        net->all->at = &mem->next;
    net->all = mem;
    net->refs++;
    return mem;
}

int wefti_mem_adopt(struct wefti_mem *mem, weft_io **out) {
    weft_io *io;
    bool full = mem->net->options.max_open && mem->net->open >= mem->net->options.max_open;
    int error = full ? -EMFILE : wefti_desc_new(-1, WEFTI_SOCKET, &io);
    if (error) {
        wefti_mem_close(mem);
        return error;
    }
    mem->net->open++;
    mem->io = io;
    io->mem = mem;
    *out = io;
    return 0;
}

void wefti_mem_event(struct wefti_mem *mem, uint32_t ready) {
    if (mem->io && mem->net->rt)
        wefti_desc_event(mem->io, ready);
}

void wefti_mem_take(struct wefti_mem *mem) {
    struct wefti_piece *piece = mem->first;
    mem->queued -= piece->size - piece->done;
    if (!(mem->first = piece->next))
        mem->last = &mem->first;
    wefti_free(piece, sizeof *piece + piece->size);
}

/* Both ends learn of it; what was under way is lost. */
void wefti_mem_reset(struct wefti_mem *mem) {
    struct wefti_mem *both[2] = {mem, mem->peer};
    for (int i = 0; i < 2 && both[i]; i++) {
        while (both[i]->first)
            wefti_mem_take(both[i]);
        both[i]->reset = true;
        both[i]->peer = NULL;
        wefti_mem_event(both[i], WEFTI_READABLE | WEFTI_WRITABLE);
    }
}

void wefti_mem_close(struct wefti_mem *mem) {
    struct wefti_net *net = mem->net;
    net->open -= mem->io != NULL;
    mem->io = NULL;
    if (mem->peer && (mem->reset_on_close || (mem->is_tcp && mem->queued))) {
        wefti_mem_reset(mem); /* as a kernel does when there was something to read */
    } else if (mem->peer) {
        struct wefti_mem *peer = mem->peer;
        peer->peer = NULL;
        peer->ended_at = mem->no_write ? peer->ended_at : net->rt ? wefti_net_arrival(net) : 0;
        peer->ended_at = peer->ended_at > peer->last_at ? peer->ended_at : peer->last_at;
        peer->ended = true;
        wefti_mem_event(peer, WEFTI_READABLE | WEFTI_WRITABLE);
    }
    while (mem->waiting) { /* never accepted */
        struct wefti_mem *other = mem->waiting;
        mem->waiting = other->behind;
        wefti_mem_reset(other);
        wefti_mem_close(other);
    }
    while (mem->first)
        wefti_mem_take(mem);
    *mem->at = mem->next;
    if (mem->next)
        mem->next->at = mem->at;
    wefti_free(mem, sizeof *mem);
    wefti_net_unref(net);
}

int wefti_mem_pair(struct wefti_net *net, bool pipe, weft_io **a, weft_io **b) {
    weft_io *first, *second;
    struct wefti_mem *one = wefti_mem_new(net, WEFTI_MEM_STREAM);
    struct wefti_mem *two = one ? wefti_mem_new(net, WEFTI_MEM_STREAM) : NULL;
    int error;
    if (!two) {
        if (one)
            wefti_mem_close(one);
        return -ENOMEM;
    }
    one->pipe = two->pipe = pipe;
    one->peer = two;
    two->peer = one;
    one->no_write = two->no_read = pipe;
    if ((error = wefti_mem_adopt(one, &first))) {
        wefti_mem_close(two);
        return error;
    }
    if ((error = wefti_mem_adopt(two, &second))) {
        weft_close(first);
        return error;
    }
    *a = first;
    *b = second;
    return 0;
}

/* -- On the way ---------------------------------------------------------------------------------------------- */

bool wefti_mem_send(struct wefti_mem *mem, const void *bytes, size_t size, const weft_addr *from, int64_t at,
                    bool sorted) {
    struct wefti_piece *piece = wefti_alloc(sizeof *piece + size), **place = mem->last;
    if (!piece)
        return false;
    *piece = (struct wefti_piece){.at = at, .size = size};
    if (from)
        piece->from = *from;
    if (size)
        memcpy(piece->bytes, bytes, size);
    if (sorted)
        for (place = &mem->first; *place && (*place)->at <= at;)
            place = &(*place)->next;
    piece->next = *place;
    *place = piece;
    if (!piece->next)
        mem->last = &piece->next;
    mem->queued += size;
    wefti_mem_event(mem, WEFTI_READABLE); /* who waits looks when it arrives */
    return true;
}

static bool is_cut(const struct wefti_mem *mem) { return wefti_net_is_cut(mem->net, &mem->local, &mem->remote); }

struct wefti_piece *wefti_mem_arrived(struct wefti_mem *mem) {
    struct wefti_piece *piece = mem->first;
    return piece && piece->at <= now(mem) && !(mem->kind == WEFTI_MEM_STREAM && is_cut(mem)) ? piece : NULL;
}

int64_t wefti_mem_next(struct wefti_mem *mem, int direction) {
    if (direction == WEFTI_OUT || mem->kind == WEFTI_MEM_LISTENER || is_cut(mem))
        return INT64_MAX;
    return mem->first ? mem->first->at : mem->ended ? mem->ended_at : INT64_MAX;
}

static bool has_ended(const struct wefti_mem *mem) {
    return !mem->first && mem->ended && mem->ended_at <= now(mem) && !is_cut(mem);
}

bool wefti_mem_is_ready(struct wefti_mem *mem, int direction) {
    if (mem->kind == WEFTI_MEM_LISTENER)
        return direction == WEFTI_IN && mem->waiting;
    if (mem->kind == WEFTI_MEM_DATAGRAM)
        return direction == WEFTI_OUT || wefti_mem_arrived(mem);
    if (direction == WEFTI_OUT) /* there is room, or an error to be told */
        return mem->reset || mem->no_write || !mem->peer || mem->peer->no_read ||
               mem->peer->queued < mem->net->options.buffer;
    return mem->reset || mem->no_read || wefti_mem_arrived(mem) || has_ended(mem);
}

bool wefti_mem_hurry(struct wefti_mem *mem) {
    bool any = false;
    if (mem->kind == WEFTI_MEM_LISTENER || is_cut(mem))
        return false;
    for (struct wefti_piece *piece = mem->first; piece; piece = piece->next) {
        any = any || piece->at > now(mem);
        piece->at = 0;
    }
    any = any || (mem->ended && mem->ended_at > now(mem));
    mem->ended_at = 0;
    return any;
}

/* -- Streams ------------------------------------------------------------------------------------------------- */

/* 0; what every call says first. */
static int check(struct wefti_mem *mem, bool forbidden) {
    if (wefti_net_here() != mem->net || mem->kind != WEFTI_MEM_STREAM)
        return -EINVAL;
    if (!mem->reset && mem->is_tcp && mem->peer && wefti_net_chance(mem->net, mem->net->options.reset))
        wefti_mem_reset(mem);
    return mem->reset ? -ECONNRESET : forbidden ? -EPIPE : 0;
}

ssize_t wefti_mem_read(struct wefti_mem *mem, void *bytes, size_t size) {
    int error = check(mem, false);
    if (error)
        return error;
    if (mem->no_read)
        return mem->pipe ? -EBADF : 0; /* the wrong end; or shut */
    if (!size)
        return 0;
    struct wefti_piece *piece = wefti_mem_arrived(mem);
    if (!piece)
        return has_ended(mem) ? 0 : -EAGAIN;
    size_t want = wefti_net_cut_short(mem->net, size), done = 0;
    for (; done < want && (piece = wefti_mem_arrived(mem));) {
        size_t left = piece->size - piece->done, n = left < want - done ? left : want - done;
        memcpy((char *)bytes + done, piece->bytes + piece->done, n);
        done += n;
        piece->done += n;
        mem->queued -= n;
        if (piece->done == piece->size)
            wefti_mem_take(mem);
    }
    if (mem->peer)
        wefti_mem_event(mem->peer, WEFTI_WRITABLE);
    return (ssize_t)done;
}

ssize_t wefti_mem_write(struct wefti_mem *mem, const void *bytes, size_t size) {
    int error = check(mem, mem->no_write || !mem->peer || mem->peer->no_read);
    if (error)
        return mem->pipe && mem->no_write ? -EBADF : error;
    struct wefti_mem *peer = mem->peer;
    size_t room = mem->net->options.buffer > peer->queued ? mem->net->options.buffer - peer->queued : 0;
    if (!size)
        return 0;
    if (!room)
        return -EAGAIN;
    size = wefti_net_cut_short(mem->net, size < room ? size : room);
    int64_t at = wefti_net_arrival(mem->net);
    peer->last_at = at > peer->last_at ? at : peer->last_at;
    return wefti_mem_send(peer, bytes, size, NULL, peer->last_at, false) ? (ssize_t)size : -ENOBUFS;
}

int wefti_mem_shutdown(struct wefti_mem *mem, int how) {
    if (wefti_net_here() != mem->net || mem->kind != WEFTI_MEM_STREAM)
        return -EINVAL;
    if (!mem->peer && !mem->ended)
        return -ENOTCONN;
    if ((how == SHUT_WR || how == SHUT_RDWR) && !mem->no_write) {
        mem->no_write = true;
        if (mem->peer) {
            int64_t at = wefti_net_arrival(mem->net);
            mem->peer->ended = true;
            mem->peer->ended_at = at > mem->peer->last_at ? at : mem->peer->last_at;
            wefti_mem_event(mem->peer, WEFTI_READABLE);
        }
    }
    if (how == SHUT_RD || how == SHUT_RDWR) {
        mem->no_read = true;
        wefti_mem_event(mem, WEFTI_READABLE);
    }
    return 0;
}

/* -- Connecting ---------------------------------------------------------------------------------------------- */

/* 0; -EAGAIN: no room there, or no way. */
static int connect_once(struct wefti_net *net, const weft_addr *from, const weft_addr *to, weft_io **out) {
    struct wefti_mem *listener = wefti_net_find(net, WEFTI_MEM_LISTENER, to), *client, *server;
    bool tcp = wefti_addr_family(to) != AF_UNIX;
    if (wefti_net_is_cut(net, from, to))
        return -EAGAIN;
    if (!listener)
        return tcp ? -ECONNREFUSED : -ENOENT;
    if (listener->count >= listener->backlog)
        return -EAGAIN;
    client = wefti_mem_new(net, WEFTI_MEM_STREAM);
    server = client ? wefti_mem_new(net, WEFTI_MEM_STREAM) : NULL;
    if (!server) {
        if (client)
            wefti_mem_close(client);
        return -ENOMEM;
    }
    client->peer = server;
    server->peer = client;
    client->is_tcp = server->is_tcp = tcp;
    client->local = server->remote = *from;
    client->remote = server->local = *to;
    int error = wefti_mem_adopt(client, out);
    if (error) {
        wefti_mem_close(server);
        return error;
    }
    struct wefti_mem **last = &listener->waiting;
    while (*last)
        last = &(*last)->behind;
    *last = server;
    listener->count++;
    wefti_mem_event(listener, WEFTI_READABLE);
    return 0;
}

int wefti_mem_connect(const weft_addr *addr, weft_io **out, int64_t until) {
    struct wefti_net *net = wefti_net_here();
    weft_addr from;
    wefti_net_own_address(net, wefti_addr_family(addr), &from);
    int64_t at = wefti_net_arrival(net);
    bool late = at > weft_now() && at > until;
    int error = at > weft_now() ? weft_sleep_until(late ? until : at) : 0; /* the way there and back */
    if (!error && late)
        return -ETIMEDOUT;
    while (!error && (error = connect_once(net, &from, addr, out)) == -EAGAIN) {
        if (until != WEFT_NEVER && weft_now() >= until)
            return -ETIMEDOUT;
        int64_t later = weft_after(CONNECT_PAUSE);
        error = weft_sleep_until(later < until ? later : until);
    }
    return error;
}

ssize_t wefti_mem_accept(struct wefti_mem *mem, struct wefti_mem **out) {
    struct wefti_net *net = mem->net;
    if (wefti_net_here() != net || mem->kind != WEFTI_MEM_LISTENER)
        return -EINVAL;
    if (!mem->waiting)
        return -EAGAIN;
    if (net->options.max_open && net->open >= net->options.max_open)
        return -EMFILE;
    *out = mem->waiting;
    mem->waiting = (*out)->behind;
    mem->count--;
    return 0;
}

void wefti_mem_turn_away(struct wefti_mem *mem) {
    struct wefti_mem *away = mem->waiting;
    if (!away)
        return;
    mem->waiting = away->behind;
    mem->count--;
    wefti_mem_reset(away);
    wefti_mem_close(away);
}
