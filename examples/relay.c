/* relay.c - processes of two runtimes talk to each other: in one program by a direct call, and in two programs over a Unix socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

enum { HELLO = 1, ADD = 2, CRASH = 3, QUEUE = 256 };

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

struct wire {
    weft_runtime *rt;
    weft_io *io;
    weft_chan *queue; /* of frames, allocated */
    unsigned node;
};

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
        weft_write(wire->io, bytes, sizeof head + head.name_size + head.data_size, WEFT_NEVER);
        free(bytes);
    }
    return 0;
}

/* Until the connection ends: then the relay is detached, and every process that monitors one of the other side is told. */
static int read_frames(void *arg) {
    struct wire *wire = arg;
    struct frame head;
    while (weft_read_exact(wire->io, &head, sizeof head, WEFT_NEVER) == sizeof head) {
        size_t size = head.name_size + head.data_size;
        char *bytes = malloc(size + 1);
        if (!bytes || (size && weft_read_exact(wire->io, bytes, size, WEFT_NEVER) != (ssize_t)size)) {
            free(bytes);
            break;
        }
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
        weft_relay_deliver(wire->rt, wire->node, &parcel, WEFT_NEVER); /* a full mailbox holds up the connection */
        free(bytes);
    }
    weft_relay_detach(wire->rt, wire->node, -ECONNRESET);
    weft_chan_close(wire->queue);
    return 0;
}

/* Both fibers, until the connection ends. */
static int run_wire(struct wire *wire) {
    weft_task *writer;
    int error = weft_fiber_go(wire->rt, write_frames, wire, &writer);
    if (error)
        return error;
    read_frames(wire);
    weft_join(writer, NULL, WEFT_NEVER);
    weft_task_drop(writer);
    weft_chan_destroy(wire->queue);
    return weft_close(wire->io);
}

/* -- One side has two processes, which are found by name. */

static int counter(void *arg) {
    int total = 0;
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL) {
        if (m.tag == CRASH)
            return -EIO;
        if (m.tag == ADD)
            total += *(const int *)m.data;
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
    if (weft_ask(pid, NULL, 0, &m, WEFT_NEVER) == 0)
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

static int attach_wire(struct wire *wire, int fd) {
    weft_relay relay = WEFT_RELAY_INIT;
    relay.send = enqueue;
    relay.takes_names = true;
    wire->rt = weft_runtime_current();
    int error = weft_io_open(fd, 0, &wire->io);
    if (!error)
        error = weft_chan_create(sizeof(char *), QUEUE, &wire->queue);
    return error ? error : weft_relay_attach(NULL, &relay, wire, &wire->node);
}

static int serve(void *arg) {
    struct wire wire;
    int error = attach_wire(&wire, *(int *)arg);
    if (!error)
        error = start_servers(NULL);
    return error ? error : run_wire(&wire);
}

static int run_wire_fiber(void *arg) { return run_wire(arg); }

static int use(void *arg) {
    struct wire wire;
    weft_task *task;
    int error = attach_wire(&wire, *(int *)arg);
    struct link link = {wire.node, wire.io};
    if (error || (error = weft_fiber_go(NULL, run_wire_fiber, &wire, &task)))
        return error;
    error = run_client(NULL, &link);
    weft_join(task, NULL, WEFT_NEVER);
    weft_task_drop(task);
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
