/* curl.c - libcurl's multi interface in a fiber: it names its descriptors, they go into an epoll, and weft_fd_wait waits for that.
 * Twenty transfers at once from a server in the same program. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <weft/weft.h>

#define TRANSFERS 20

/* A library with many descriptors: an epoll is a descriptor, too. */
static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *arg, void *known) {
    int epoll = *(int *)arg;
    CURLM *multi = NULL;
    struct epoll_event event = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0),
                                .data.fd = fd};
    epoll_ctl(epoll, what == CURL_POLL_REMOVE ? EPOLL_CTL_DEL : known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (!known && curl_easy_getinfo(easy, CURLINFO_PRIVATE, &multi) == CURLE_OK)
        curl_multi_assign(multi, fd, multi); /* known from now on */
    return 0;
}

static int timer_changed(CURLM *multi, long ms, void *arg) {
    (void)multi;
    *(weft_deadline *)arg = ms < 0 ? WEFT_NEVER : weft_after(ms * INT64_C(1000000));
    return 0;
}

static size_t count_bytes(char *bytes, size_t size, size_t n, void *arg) {
    (void)bytes;
    *(size_t *)arg += size * n;
    return size * n;
}

/* Run all transfers of a multi handle to their end.  0 or a negative error. */
static int run(CURLM *multi, int *epoll, weft_deadline *timer) {
    int running = 1, error = 0;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, epoll);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer_changed);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, timer);
    curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (running) {
        struct epoll_event event[16];
        error = weft_fd_wait(*epoll, WEFT_FD_READ, *timer);
        if (error == -ETIMEDOUT) {
            *timer = WEFT_NEVER;
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
            continue;
        }
        if (error < 0)
            return error; /* cancelled */
        for (int i = 0, n = epoll_wait(*epoll, event, 16, 0); i < n; i++)
            curl_multi_socket_action(multi, event[i].data.fd,
                                     (event[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                         (event[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                                         (event[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0),
                                     &running);
    }
    return 0;
}

static int answer(weft_http *x, void *arg) {
    static const char body[10000];
    (void)arg;
    weft_sleep(10000000); /* time for the others */
    return weft_http_reply(x, 200, "application/octet-stream", body, sizeof body);
}

static int serve(void *listener) { return weft_http_serve(listener, NULL, answer, NULL); }

static int all(void *arg) {
    weft_io *listener;
    weft_addr addr;
    weft_task *server;
    char where[64], url[80];
    (void)arg;
    if (weft_tcp_listen("127.0.0.1", 0, NULL, &listener) || weft_local_addr(listener, &addr) ||
        weft_fiber_go(NULL, serve, listener, &server))
        return -ENOMEM;
    weft_addr_format(&addr, where, sizeof where);
    snprintf(url, sizeof url, "http://%s/", where);
    CURLM *multi = curl_multi_init();
    int epoll = epoll_create1(EPOLL_CLOEXEC), good = 0, left;
    weft_deadline timer = WEFT_NEVER;
    size_t bytes = 0;
    for (int i = 0; i < TRANSFERS; i++) {
        CURL *easy = curl_easy_init();
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(easy, CURLOPT_TIMEOUT, 20L);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &bytes);
        curl_easy_setopt(easy, CURLOPT_PRIVATE, multi);
        curl_multi_add_handle(multi, easy);
    }
    int error = run(multi, &epoll, &timer);
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
        CURL *easy = message->easy_handle;
        good += message->data.result == CURLE_OK;
        curl_multi_remove_handle(multi, easy);
        curl_easy_cleanup(easy);
    }
    printf("%d of %d transfers, %zu bytes\n", good, TRANSFERS, bytes);
    curl_multi_cleanup(multi);
    close(epoll);
    (void)weft_task_cancel(server);
    (void)weft_join(server, NULL, WEFT_NEVER);
    weft_task_drop(server);
    weft_close(listener);
    return error;
}

int main(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.stack_size = 256 << 10; /* libcurl has large buffers on its stack */
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int error = weft_fiber_run(&config, all, NULL, NULL);
    curl_global_cleanup();
    return error < 0;
}
