/* relay.c - processes of two runtimes talk to each other: in one program by a direct call, and in two programs over a Unix socket. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

enum { HELLO = 1, ADD = 2, CRASH = 3, QUEUE = 256 };
enum { NAME_MAX_SIZE = 64, DATA_MAX = 1 << 20 }; /* of a frame; more ends the connection */

/* -- A relay by a direct call: what one runtime is given it delivers to the other. */

struct bridge {
    weft_runtime *other;
    unsigned back; /* the node number of this side, there */
};

static int cross(void *state, const weft_parcel *parcel) {
    struct bridge *bridge = state;
    return weft_relay_deliver(bridge->other, bridge->back, parcel, WEFT_NOW);
}

/* -- A relay over a socket: a bounded queue of frames, a fiber that writes them, a fiber that reads. */

struct frame {
    uint32_t type, hops, name_size; /* the name with its zero; 0: none */
    int32_t error;
    uint64_t to, from, tag, data_size;
};

/* Used by the fibers that read and write, by the relay until its release function is called, and by the client: the last one frees it. */
struct wire {
    atomic_int users;
    weft_runtime *rt;
    weft_io *io;
    weft_chan *queue; /* of frames, allocated */
    unsigned node;
};

static void wire_drop(struct wire *wire) {
    char *bytes;
    if (atomic_fetch_sub(&wire->users, 1) > 1)
        return;
    while (wire->queue && weft_chan_recv(wire->queue, &bytes, WEFT_NOW) == 0)
        free(bytes);
    weft_chan_drop(wire->queue);
    weft_close(wire->io);
    free(wire);
}

/* The relay is detached, by us, or by the runtime because a DOWN found no room in the queue: both sides are to learn of it. */
static void hang_up(void *state) {
    struct wire *wire = state;
    weft_shutdown(wire->io, SHUT_RDWR);
    wire_drop(wire);
}

/* Called by every sender, so it must not wait: a full queue is the sender's error. */
static int enqueue(void *state, const weft_parcel *parcel) {
    struct wire *wire = state;
    struct frame head = {(uint32_t)parcel->type,
                         parcel->hops,
                         parcel->name ? (uint32_t)strlen(parcel->name) + 1 : 0,
                         parcel->error,
                         parcel->to,
                         parcel->from,
                         parcel->tag,
                         parcel->data_size};
    if (parcel->data_size > DATA_MAX)
        return -EMSGSIZE;
    char *bytes = malloc(sizeof head + head.name_size + parcel->data_size);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, &head, sizeof head);
    if (head.name_size)
        memcpy(bytes + sizeof head, parcel->name, head.name_size);
    if (parcel->data_size)
        memcpy(bytes + sizeof head + head.name_size, parcel->data, parcel->data_size);
    int error = weft_chan_send(wire->queue, &bytes, WEFT_NOW);
    if (error)
        free(bytes);
    return error == -ETIMEDOUT ? -ENOBUFS : error ? -EHOSTUNREACH : 0;
}

static int write_frames(void *arg) {
    struct wire *wire = arg;
    char *bytes;
    while (weft_chan_recv(wire->queue, &bytes, WEFT_NEVER) == 0) { /* until it is closed, and empty */
        struct frame head;
        memcpy(&head, bytes, sizeof head);
        if (weft_write(wire->io, bytes, sizeof head + head.name_size + head.data_size, WEFT_NEVER) < 0)
            weft_shutdown(wire->io, SHUT_RDWR); /* the reader ends, and closes the queue */
        free(bytes);
    }
    return 0;
}

/* One frame, with its name and data in `bytes`.  The peer is not trusted: sizes are bounded, and a name has its zero. */
static bool read_frame(struct wire *wire, struct frame *head, char **bytes) {
    *bytes = NULL;
    if (weft_read_exact(wire->io, head, sizeof *head, WEFT_NEVER) != sizeof *head || head->name_size > NAME_MAX_SIZE ||
        head->data_size > DATA_MAX)
        return false;
    size_t size = head->name_size + (size_t)head->data_size;
    *bytes = malloc(size + 1);
    if (!*bytes || (size && weft_read_exact(wire->io, *bytes, size, WEFT_NEVER) != (ssize_t)size))
        return false;
    return !head->name_size || memchr(*bytes, 0, head->name_size) == *bytes + head->name_size - 1;
}

/* Until the connection ends: then the relay is detached, and every process that monitors one of the other side is told. */
static void read_frames(struct wire *wire) {
    struct frame head;
    char *bytes;
    int error = 0;
    while (error != -EINVAL && error != -ENOTCONN && read_frame(wire, &head, &bytes)) {
        weft_parcel parcel = WEFT_PARCEL_INIT;
        parcel.type = (weft_parcel_type)head.type;
        parcel.error = head.error;
        parcel.hops = head.hops;
        parcel.to = head.to;
        parcel.from = head.from;
        parcel.name = head.name_size ? bytes : NULL;
        parcel.tag = head.tag;
        parcel.data = bytes + head.name_size;
        parcel.data_size = head.data_size;
        error =
            weft_relay_deliver(wire->rt, wire->node, &parcel, WEFT_NEVER); /* a full mailbox holds up the connection */
        free(bytes);
        bytes = NULL;
    }
    free(bytes);
    weft_relay_detach(wire->rt, wire->node, -ECONNRESET);
    weft_chan_close(wire->queue);
}

/* Both fibers, until the connection ends. */
static int run_wire(void *arg) {
    struct wire *wire = arg;
    weft_task *writer;
    int error = weft_fiber_go(wire->rt, write_frames, wire, &writer);
    if (!error) {
        read_frames(wire);
        weft_join(writer, NULL, WEFT_NEVER);
        weft_task_drop(writer);
    } else {
        weft_relay_detach(wire->rt, wire->node, error);
    }
    wire_drop(wire);
    return error;
}

/* -- One side has two processes, which are found by name. */

static int counter(void *arg) {
    int total = 0;
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL) {
        if (m.tag == CRASH)
            return -EIO;
        int more = 0;
        if (m.size == sizeof more) /* it may come from another program */
            memcpy(&more, m.data, sizeof more);
        if (m.tag == ADD)
            total += more;
        else
            weft_reply(&m, &total, sizeof total); /* a question, or HELLO: the pid is in the answer */
    }
    return 0;
}

static int start_servers(weft_runtime *rt) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = counter;
    spec.registered = "counter";
    int error = weft_process_spawn(rt, &spec, NULL, NULL);
    spec.registered = "store";
    return error ? error : weft_process_spawn(rt, &spec, NULL, NULL);
}

/* -- The other side has a client, which does not know what is between them. */

struct link {
    unsigned node;
    weft_io *io; /* NULL: a direct call */
};

static weft_pid find(const char *name) {
    weft_message m;
    if (weft_send_name(NULL, name, HELLO, NULL, 0) || weft_receive(&m, NULL, NULL, WEFT_NEVER))
        return WEFT_PID_NONE;
    return m.from; /* of the other side: replies, questions and monitors go there */
}

static int client(void *arg) {
    const struct link *link = arg;
    weft_message m;
    uint64_t monitor;
    weft_pid pid = find("counter"), store = find("store");
    if (!pid || !store || weft_pid_node(pid) != link->node)
        return -ESRCH;
    for (int n = 1; n <= 10; n++)
        if (weft_send(NULL, pid, ADD, &n, sizeof n))
            return -EPIPE;
    if (weft_ask(pid, NULL, 0, &m, WEFT_NEVER) == 0 && m.size == sizeof(int))
        printf("total %d\n", *(const int *)m.data);
    weft_monitor(pid, &monitor);
    weft_send(NULL, pid, CRASH, NULL, 0);
    if (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE_DOWN)
        printf("the counter has ended: %s\n", m.error == -EIO ? "EIO" : weft_strerror(m.error));
    printf("nobody: %s\n", weft_send_name(NULL, "nobody", 1, NULL, 0) == -ESRCH ? "ESRCH" : "accepted by the relay");
    weft_monitor(store, &monitor);
    if (link->io)
        weft_shutdown(link->io, SHUT_RDWR);
    else
        weft_relay_detach(NULL, link->node, -ECONNRESET);
    if (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE_DOWN)
        printf("the store is out of reach: %s\n", m.error == -ECONNRESET ? "ECONNRESET" : weft_strerror(m.error));
    if (weft_send(NULL, store, ADD, NULL, 0) == -EHOSTUNREACH)
        printf("EHOSTUNREACH\n");
    return 0;
}

static int run_client(weft_runtime *rt, struct link *link) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_result result = {0, NULL};
    spec.fn = client;
    spec.arg = link;
    int error = weft_process_spawn(rt, &spec, NULL, &task);
    if (error)
        return error;
    error = weft_join(task, &result, WEFT_NEVER);
    weft_task_drop(task);
    return error ? error : result.status;
}

static int in_one_program(void) {
    weft_runtime *here, *there;
    struct bridge out, back;
    struct link link = {0, NULL};
    weft_relay relay = WEFT_RELAY_INIT;
    relay.send = cross;
    relay.takes_names = true;
    if (weft_runtime_create(NULL, &here) || weft_runtime_create(NULL, &there))
        return -1;
    out.other = there;
    back.other = here;
    if (weft_relay_attach(here, &relay, &out, &link.node) || weft_relay_attach(there, &relay, &back, &out.back))
        return -1;
    back.back = link.node;
    int error = start_servers(there);
    if (!error)
        error = run_client(here, &link);
    weft_runtime_stop(there, WEFT_NEVER); /* its processes are asked to end */
    weft_runtime_stop(here, WEFT_NEVER);
    weft_runtime_destroy(there);
    weft_runtime_destroy(here);
    return error;
}

/* A wire with two users: the relay, and the caller. */
static int attach_wire(int fd, struct wire **out) {
    weft_relay relay = WEFT_RELAY_INIT;
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return -ENOMEM;
    relay.send = enqueue;
    relay.release = hang_up;
    relay.takes_names = true;
    atomic_init(&wire->users, 2);
    wire->rt = weft_runtime_current();
    int error = weft_io_open(fd, 0, &wire->io);
    if (!error)
        error = weft_chan_create(sizeof(char *), QUEUE, &wire->queue);
    if (!error)
        error = weft_relay_attach(NULL, &relay, wire, &wire->node);
    if (error) {
        atomic_store(&wire->users, 1);
        wire_drop(wire);
        return error;
    }
    *out = wire;
    return 0;
}

static int serve(void *arg) {
    struct wire *wire;
    int error = attach_wire(*(int *)arg, &wire);
    if (error)
        return error;
    if ((error = start_servers(NULL))) {
        weft_relay_detach(NULL, wire->node, error);
        wire_drop(wire);
        return error;
    }
    return run_wire(wire);
}

static int use(void *arg) {
    struct wire *wire;
    weft_task *task;
    int error = attach_wire(*(int *)arg, &wire);
    if (error)
        return error;
    atomic_fetch_add(&wire->users, 1); /* the fibers' */
    error = weft_fiber_go(NULL, run_wire, wire, &task);
    if (error) {
        weft_relay_detach(NULL, wire->node, error);
        wire_drop(wire);
    } else {
        struct link link = {wire->node, wire->io};
        error = run_client(NULL, &link);
        weft_join(task, NULL, WEFT_NEVER);
        weft_task_drop(task);
    }
    wire_drop(wire);
    return error;
}

int main(void) {
    int fds[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return 1;
    pid_t child = fork(); /* before the first runtime: a forked child has none of its parent's threads */
    if (child == 0) {
        close(fds[0]);
        return weft_fiber_run(NULL, serve, &fds[1], NULL) < 0;
    }
    close(fds[1]);
    printf("two runtimes in one program\n");
    int error = in_one_program();
    printf("two programs\n");
    fflush(stdout);
    if (!error)
        error = weft_fiber_run(NULL, use, &fds[0], NULL);
    return waitpid(child, &status, 0) != child || status || error < 0;
}
