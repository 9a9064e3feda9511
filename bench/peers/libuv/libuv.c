/* libuv.c - libuv: one loop, timers, its thread pool, and servers.  It has one worker, so that nothing is run with two. */
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "../common/peer.h"

static uv_loop_t *loop;

static uint64_t next_ms(uint64_t *random) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return 1 + (*random >> 33) % 1000;
}

/* -- Timers ------------------------------------------------------------------------------------------------------ */

struct sleeper {
    uv_timer_t timer;
    int64_t until;
};

static long woke, early;

static void on_sleeper(uv_timer_t *timer) {
    struct sleeper *s = (struct sleeper *)timer;
    woke++;
    early += peer_now() < s->until;
}

/* libuv counts milliseconds from the loop's own clock, which is cut to whole ones: the next one is the first that is not early. */
static int sleepers(bool quick) {
    long count = quick ? 50000 : 1000000;
    uint64_t random = 1;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    int64_t start = peer_now();
    struct sleeper *all = malloc((size_t)count * sizeof *all);
    if (!all)
        return PEER_WRONG;
    for (long i = 0; i < count; i++) {
        uint64_t ms = next_ms(&random);
        if (i % PEER_GROUP == 0)
            uv_update_time(loop);
        all[i].until = peer_now() + (int64_t)ms * 1000000;
        uint64_t now_ms = uv_now(loop), until_ms = (uint64_t)(all[i].until + 999999) / 1000000;
        if (uv_timer_init(loop, &all[i].timer) || uv_timer_start(&all[i].timer, on_sleeper, until_ms - now_ms, 0))
            return PEER_WRONG;
    }
    uv_run(loop, UV_RUN_DEFAULT);
    peer_print("sleepers_wall", (double)(peer_now() - start) / 1e9, "s");
    getrusage(RUSAGE_SELF, &after);
    peer_print(
        "sleepers_cpu",
        (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
            (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                     before.ru_stime.tv_usec) /
                1e6,
        "s");
    peer_print("sleepers_rss", (double)after.ru_maxrss * 1024 / 1e6, "MB");
    free(all);
    return woke == count && early == 0 ? PEER_OK : PEER_WRONG;
}

static int timer(bool quick) {
    long count = quick ? 1000000 : 10000000, set = 0;
    uint64_t random = 1;
    uv_timer_t one;
    uv_timer_init(loop, &one);
    int64_t start = peer_now();
    for (long i = 0; i < count; i++) {
        uv_timer_start(&one, on_sleeper, 3600000 + next_ms(&random), 0);
        set += uv_is_active((uv_handle_t *)&one) != 0;
        uv_timer_stop(&one);
    }
    peer_print("timer", (double)(peer_now() - start) / (double)count, "ns");
    return set == count && !uv_is_active((uv_handle_t *)&one) ? PEER_OK : PEER_WRONG;
}

/* -- The thread pool --------------------------------------------------------------------------------------------- */

struct calls {
    uv_work_t work;
    long left, ran; /* ordered by the call */
};

static void job(uv_work_t *work) { ((struct calls *)work)->ran++; }

static void on_job(uv_work_t *work, int status) {
    struct calls *c = (struct calls *)work;
    if (status == 0 && --c->left > 0)
        uv_queue_work(loop, work, job, on_job);
}

static int blocking(bool quick) {
    long count = quick ? 2000 : 50000;
    struct calls c = {.left = count};
    int64_t start = peer_now();
    uv_queue_work(loop, &c.work, job, on_job);
    uv_run(loop, UV_RUN_DEFAULT);
    peer_print("blocking", (double)(peer_now() - start) / (double)count / 1e3, "us");
    return c.ran == count ? PEER_OK : PEER_WRONG;
}

/* -- Wake: a task is a handle, signalled by an outside thread ------------------------------------------------------ */

struct waker {
    uv_async_t async;
    size_t count, seen;
    int64_t *latency;
    int64_t sent; /* read by the loop before the next is written */
};

static void on_wake(uv_async_t *async) {
    struct waker *w = (struct waker *)async;
    w->latency[w->seen] = peer_now() - __atomic_load_n(&w->sent, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&w->seen, 1, __ATOMIC_RELEASE) == w->count)
        uv_close((uv_handle_t *)async, NULL);
}

static void outside(void *arg) {
    struct waker *w = arg;
    usleep(50000);
    for (size_t i = 0; i < w->count; i++) {
        usleep(1000);
        while (__atomic_load_n(&w->seen, __ATOMIC_ACQUIRE) < i) /* two signals would become one */
            usleep(100);
        __atomic_store_n(&w->sent, peer_now(), __ATOMIC_RELEASE);
        uv_async_send(&w->async);
    }
}

static int wake(bool quick) {
    struct waker w = {.count = quick ? 300 : PEER_WAKES};
    uv_thread_t thread;
    w.latency = calloc(w.count, sizeof *w.latency);
    if (!w.latency || uv_async_init(loop, &w.async, on_wake) || uv_thread_create(&thread, outside, &w))
        return PEER_WRONG;
    uv_run(loop, UV_RUN_DEFAULT);
    uv_thread_join(&thread);
    int result = peer_print_wake(w.latency, w.count);
    free(w.latency);
    return result;
}

/* -- Servers on a listening socket that weft-bench passes as descriptor 3 ------------------------------------------ */

enum { BUFFER = 1024 };
static const char response[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
static bool http;

struct connection {
    uv_tcp_t tcp;
    char buffer[BUFFER];
};

struct answer { /* what the socket did not take at once */
    uv_write_t request;
    char bytes[BUFFER];
};

static void on_closed(uv_handle_t *handle) { free(handle); }
static void on_written(uv_write_t *request, int status) {
    (void)status;
    free(request);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer) {
    (void)wanted;
    *buffer = uv_buf_init(((struct connection *)handle)->buffer, BUFFER);
}

static void on_piece(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    if (n == 0)
        return;
    uv_buf_t said = http ? uv_buf_init((char *)response, sizeof response - 1) : uv_buf_init(buffer->base, (unsigned)n);
    int sent = n < 0 ? (int)n : uv_try_write(stream, &said, 1);
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent >= 0 && (unsigned)sent < said.len) {
        struct answer *rest = malloc(sizeof *rest);
        if (rest) {
            memcpy(rest->bytes, said.base + sent, said.len - (unsigned)sent);
            said = uv_buf_init(rest->bytes, (unsigned)said.len - (unsigned)sent);
            sent = uv_write(&rest->request, stream, &said, 1, on_written);
            if (sent < 0)
                free(rest);
        } else {
            sent = UV_ENOMEM;
        }
    }
    if (sent < 0)
        uv_close((uv_handle_t *)stream, on_closed);
}

static void on_connection(uv_stream_t *listener, int status) {
    struct connection *c = status == 0 ? malloc(sizeof *c) : NULL;
    if (!c)
        return;
    uv_tcp_init(loop, &c->tcp);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) || uv_tcp_nodelay(&c->tcp, 1) ||
        uv_read_start((uv_stream_t *)&c->tcp, on_room, on_piece))
        uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static int serve(void) {
    uv_tcp_t listener;
    uv_tcp_init(loop, &listener);
    if (uv_tcp_open(&listener, 3) || uv_listen((uv_stream_t *)&listener, 1024, on_connection))
        return PEER_WRONG;
    uv_run(loop, UV_RUN_DEFAULT); /* until weft-bench ends it */
    return PEER_WRONG;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    bool quick = argc > 3 && strcmp(argv[3], "quick") == 0;
    loop = uv_default_loop();
    http = strcmp(argv[1], "http") == 0;
    if (atoi(argv[2]) != 1)
        return PEER_SKIP;
    if (strcmp(argv[1], "sleepers") == 0)
        return sleepers(quick);
    if (strcmp(argv[1], "timer") == 0)
        return timer(quick);
    if (strcmp(argv[1], "blocking") == 0)
        return blocking(quick);
    if (strcmp(argv[1], "wake") == 0)
        return wake(quick);
    if (http || strcmp(argv[1], "echo") == 0)
        return serve();
    return PEER_SKIP;
}
