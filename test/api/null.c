/* null.c - a handle that is NULL, and nowhere to put a result: an error, not a crash (weft/base.h has the rule).  misuse.c has those of tasks, runtimes
 * and channels. */
#include <sys/stat.h>
#include <weft/abi.h>
#include <weft/child.h>
#include <weft/file.h>
#include <weft/http.h>
#include <weft/shard.h>
#include <weft/signal.h>
#include <weft/stream.h>

#include "fixture.h"

#define INVALID(call) CHECK_EQ(call, -EINVAL)
#define NOTHING(call) CHECK_EQ(call, 0)

/* -- Descriptors ------------------------------------------------------------------------------------------ */

static int use_no_io(void *arg) {
    char bytes[4] = "abc";
    weft_io *io = NULL;
    weft_addr addr;
    weft_wait wait = {{0}};
    weft_stream_call call = {.until = WEFT_NEVER};
    int fds[1];
    unsigned count = 1;
    (void)arg;
    INVALID(weft_io_open(0, WEFT_IO_BORROW, NULL));
    INVALID(weft_io_fd(NULL));
    INVALID(weft_read(NULL, bytes, 1, WEFT_NEVER));
    INVALID(weft_read(NULL, bytes, 0, WEFT_NEVER));
    INVALID(weft_readv(NULL, NULL, 0, WEFT_NEVER));
    INVALID(weft_read_exact(NULL, bytes, 1, WEFT_NEVER));
    INVALID(weft_read_exact(NULL, bytes, 0, WEFT_NEVER));
    INVALID(weft_write(NULL, bytes, 1, WEFT_NEVER));
    INVALID(weft_write(NULL, bytes, 0, WEFT_NEVER));
    INVALID(weft_writev(NULL, NULL, 0, WEFT_NEVER));
    INVALID(weft_write_some(NULL, bytes, 1, WEFT_NEVER));
    INVALID(weft_sendfile(NULL, 0, NULL, 1, WEFT_NEVER));
    INVALID(weft_shutdown(NULL, 1));
    INVALID(weft_pipe(NULL, &io));
    INVALID(weft_pipe(&io, NULL));
    INVALID(weft_socketpair(NULL, &io));
    INVALID(weft_socketpair(&io, NULL));
    INVALID(weft_try_read(NULL, bytes, 1));
    INVALID(weft_try_write(NULL, bytes, 1));
    INVALID(weft_io_wait(NULL, WEFT_FD_READ, WEFT_NEVER));
    INVALID(weft_read_poll(NULL, NULL, &wait, bytes, 1));
    INVALID(weft_write_poll(NULL, NULL, &wait, bytes, 1));
    weft_reader reader;
    char *piece;
    weft_reader_init(&reader, NULL, bytes, sizeof bytes);
    INVALID(weft_read_until(&reader, '\n', &piece, WEFT_NEVER));
    INVALID(weft_read_until(&reader, '\n', NULL, WEFT_NEVER));
    INVALID(weft_reader_read(&reader, bytes, 1, WEFT_NEVER));
    INVALID(weft_addr_parse("127.0.0.1", 0, NULL));
    INVALID(weft_addr_format(NULL, bytes, sizeof bytes));
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &addr), 0);
    INVALID(weft_addr_format(&addr, NULL, 1));
    INVALID(weft_listen(&addr, NULL, NULL));
    INVALID(weft_listen(NULL, NULL, &io));
    INVALID(weft_udp_open(&addr, 0, NULL));
    INVALID(weft_connect(NULL, &io, WEFT_NEVER));
    INVALID(weft_connect(&addr, NULL, WEFT_NEVER));
    INVALID(weft_accept(NULL, &io, &addr, WEFT_NEVER));
    INVALID(weft_accept_poll(NULL, NULL, &wait, &io, &addr));
    INVALID(weft_send_to(NULL, bytes, 1, &addr, WEFT_NEVER));
    INVALID(weft_recv_from(NULL, bytes, 1, &addr, WEFT_NEVER));
    INVALID(weft_local_addr(NULL, &addr));
    INVALID(weft_peer_addr(NULL, &addr));
    INVALID(weft_peer_credentials(NULL, NULL, NULL, NULL));
    INVALID(weft_send_fds(NULL, bytes, 1, NULL, 0, WEFT_NEVER));
    INVALID(weft_recv_fds(NULL, bytes, 1, fds, &count, WEFT_NEVER));
    INVALID(weft_tcp_nodelay(NULL, true));
    INVALID(weft_tcp_keepalive(NULL, 1, 1, 1));
    INVALID(weft_tcp_keepalive(NULL, 0, 0, 0));
    INVALID(weft_tcp_user_timeout(NULL, 1));
    INVALID(weft_socket_buffers(NULL, 0, 0));
    INVALID(weft_socket_buffers(NULL, 1, 1));
    INVALID(weft_socket_reset_on_close(NULL, true));
    INVALID(weft_stream_open(NULL, NULL, -1, &io));
    NOTHING(weft_stream_enter(NULL, NULL));
    weft_stream_leave(NULL);
    INVALID(weft_stream_wait(NULL, &call, WEFT_FD_READ));
    NOTHING(weft_stream_mark(NULL, WEFT_FD_READ));
    weft_stream_again(NULL, WEFT_FD_READ);
    INVALID(weft_stream_accept(NULL, &call, &io, &addr));
    NOTHING(weft_close(NULL));
    CHECK(!io);
    return 0;
}

/* There is one, but nowhere to put what comes. */
static int use_no_room(void *arg) {
    weft_io *listener, *a, *b;
    weft_wait wait = {{0}};
    char byte;
    (void)arg;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    INVALID(weft_accept(listener, NULL, NULL, WEFT_NEVER));
    INVALID(weft_accept_poll(listener, NULL, &wait, NULL, NULL));
    INVALID(weft_stream_wait(listener, NULL, WEFT_FD_READ));
    INVALID(weft_stream_accept(listener, NULL, &a, NULL));
    INVALID(weft_local_addr(listener, NULL));
    INVALID(weft_peer_addr(listener, NULL));
    weft_close(listener);
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    INVALID(weft_recv_fds(a, &byte, 1, NULL, NULL, WEFT_NEVER));
    INVALID(weft_http_client_open(a, "host", NULL));
    INVALID(weft_http_client_open(NULL, "host", &(weft_http_client *){NULL}));
    weft_http_client *client;
    weft_http *ws;
    REQUIRE_EQ(weft_http_client_open(a, "host", &client), 0);
    INVALID(weft_http_ask(client, NULL, "/", NULL, NULL, 0, WEFT_NEVER));
    INVALID(weft_http_ask(client, "GET", NULL, NULL, NULL, 0, WEFT_NEVER));
    INVALID(weft_ws_open(client, "/", NULL, WEFT_NEVER, NULL));
    INVALID(weft_ws_open(client, NULL, NULL, WEFT_NEVER, &ws));
    CHECK(!weft_http_answer_field(client, NULL).at);
    CHECK(weft_http_client_is_open(client)); /* nothing was sent */
    weft_http_client_close(client);
    weft_close(a);
    weft_close(b);
    return 0;
}

/* -- Selects ---------------------------------------------------------------------------------------------- */

static int select_nothing(void *arg) {
    (void)arg;
    weft_case cases[] = {weft_case_io(NULL, WEFT_FD_READ), weft_case_io(NULL, WEFT_FD_WRITE), weft_case_child(NULL),
                         weft_case_signal(NULL)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ(weft_select(&cases[i], 1, WEFT_NEVER), 0);
        INVALID(cases[i].result);
    }
    return 0;
}

/* -- Nurseries -------------------------------------------------------------------------------------------- */

static int child(void *arg) {
    (void)arg;
    return 0;
}

static int use_no_nursery(void *arg) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_wait wait = {{0}};
    weft_async call = {NULL};
    weft_nursery unopened = {{0}};
    int result = 7;
    spec.fn = child;
    INVALID(weft_nursery_spawn(&unopened, &spec, NULL));
    INVALID(weft_nursery_go(&unopened, child, NULL, NULL));
    INVALID(weft_nursery_init(NULL, arg, NULL));
    INVALID(weft_nursery_create(arg, NULL, NULL));
    INVALID(weft_nursery_spawn(NULL, &spec, NULL));
    INVALID(weft_nursery_go(NULL, child, NULL, NULL));
    INVALID(weft_nursery_await(NULL));
    INVALID(weft_nursery_await_poll(NULL, NULL, &wait, &result));
    INVALID(weft_nursery_next(NULL, NULL, NULL, WEFT_NEVER));
    INVALID(weft_nursery_next_poll(NULL, NULL, &wait, NULL, NULL));
    INVALID(weft_nursery_set_deadline(NULL, WEFT_NEVER));
    weft_nursery_close(NULL);
    weft_nursery_cancel(NULL);
    CHECK_EQ(weft_nursery_state_of(NULL), WEFT_NURSERY_CLOSED);
    CHECK_EQ(weft_nursery_reason(NULL), WEFT_REASON_NONE);
    NOTHING(weft_nursery_count(NULL));
    NOTHING(weft_nursery_owner(NULL));
    NOTHING(weft_nursery_enter(NULL, NULL, &result));
    INVALID(result);
    weft_nursery_leave(NULL);
    NOTHING(weft_nursery_destroy(NULL));
    NOTHING(weft_abi_nursery_spawn(NULL, child, NULL));
    INVALID(weft_abi_nursery_await(NULL));
    weft_abi_nursery_cancel(NULL);
    weft_abi_nursery_destroy(NULL);
    INVALID(weft_async_call(NULL, child, NULL, &call));
    INVALID(weft_async_call(NULL, child, NULL, NULL));
    INVALID(weft_async_await(&call, NULL));
    INVALID(weft_async_await(NULL, NULL));
    weft_async_drop(NULL);
    return 0;
}

/* -- Budgets ---------------------------------------------------------------------------------------------- */

static int use_no_fund(void *arg) {
    weft_budget budget = WEFT_BUDGET_CHILD, left = {.ops = 7};
    weft_task *tasks[1], *self = weft_task_self();
    weft_fund *fund = NULL;
    REQUIRE_EQ(weft_fund_create(arg, NULL, &budget, &fund), 0);
    INVALID(weft_fund_create(arg, NULL, &budget, NULL));
    INVALID(weft_fund_create(arg, NULL, NULL, &fund));
    INVALID(weft_fund_add(NULL, &budget));
    INVALID(weft_fund_add(fund, NULL));
    INVALID(weft_fund_transfer(NULL, fund, &budget, NULL));
    INVALID(weft_fund_transfer(fund, NULL, &budget, NULL));
    INVALID(weft_fund_transfer(fund, fund, NULL, NULL));
    NOTHING(weft_fund_exhausted(NULL, tasks, 1));
    NOTHING(weft_fund_exhausted(fund, NULL, 1));
    INVALID(weft_fund_wait_exhausted(NULL, WEFT_NEVER));
    INVALID(weft_fund_recharge(NULL, self, &budget, NULL));
    INVALID(weft_fund_recharge(fund, self, NULL, NULL));
    INVALID(weft_fund_refuse(NULL, self));
    weft_fund_left(NULL, &left);
    CHECK_EQ(left.ops, 7);
    weft_fund_left(fund, NULL);
    NOTHING(weft_fund_destroy(NULL));
    REQUIRE_EQ(weft_fund_destroy(fund), 0);
    CHECK(!weft_budget_covers(NULL, &budget) && !weft_budget_covers(&budget, NULL));
    CHECK(!weft_budget_take(NULL, &budget) && !weft_budget_take(&budget, NULL));
    weft_budget_add(NULL, &budget);
    weft_budget_add(&left, NULL);
    INVALID(weft_budget_left(NULL));
    INVALID(weft_alloc(1, NULL));
    INVALID(weft_local_create(NULL, NULL));
    INVALID(weft_pool_create(NULL, NULL));
    NOTHING(weft_pool_destroy(NULL, WEFT_NEVER));
    weft_pool_stats stats = {.threads = 7};
    weft_pool_stats_read(NULL, &stats);
    CHECK_EQ(stats.threads, 7);
    weft_pool_stats_read(weft_runtime_pool(arg), NULL);
    return 0;
}

/* -- Files, children, signals ----------------------------------------------------------------------------- */

static int use_no_file(void *arg) {
    char bytes[1];
    struct stat about;
    weft_file *file;
    weft_child_end end;
    (void)arg;
    INVALID(weft_file_open("/dev/null", 0, 0, NULL, WEFT_NEVER));
    INVALID(weft_file_open(NULL, 0, 0, &file, WEFT_NEVER));
    INVALID(weft_file_adopt(0, NULL));
    INVALID(weft_file_fd(NULL));
    INVALID(weft_file_read(NULL, bytes, 1, 0, WEFT_NEVER));
    INVALID(weft_file_write(NULL, bytes, 1, 0, WEFT_NEVER));
    INVALID(weft_file_sync(NULL, WEFT_NEVER));
    INVALID(weft_file_sync_data(NULL, WEFT_NEVER));
    INVALID(weft_file_stat(NULL, &about, WEFT_NEVER));
    REQUIRE_EQ(weft_file_open("/dev/null", 0, 0, &file, WEFT_NEVER), 0);
    INVALID(weft_file_stat(file, NULL, WEFT_NEVER));
    REQUIRE_EQ(weft_file_close(file), 0);
    INVALID(weft_file_truncate(NULL, 0, WEFT_NEVER));
    INVALID(weft_path_stat("/dev/null", NULL, WEFT_NEVER));
    INVALID(weft_path_stat(NULL, &about, WEFT_NEVER));
    INVALID(weft_dir_list("/", NULL, WEFT_NEVER));
    NOTHING(weft_dir_count(NULL));
    NOTHING(weft_dir_name(NULL, 0));
    CHECK_EQ(weft_dir_kind(NULL, 0), WEFT_DIR_OTHER);
    INVALID(weft_file_load("/dev/null", 1, NULL, WEFT_NEVER));
    NOTHING(weft_file_close(NULL));
    weft_dir_free(NULL);
    weft_file_free(NULL);
    INVALID(weft_child_start(NULL, &(weft_child *){NULL}, WEFT_NEVER));
    INVALID(weft_child_start(&(weft_child_spec)WEFT_CHILD_SPEC_INIT, NULL, WEFT_NEVER));
    NOTHING(weft_child_take(NULL, 0));
    INVALID(weft_child_pid(NULL));
    INVALID(weft_child_wait(NULL, &end, WEFT_NEVER));
    INVALID(weft_child_kill(NULL, 0));
    weft_child_close(NULL);
    INVALID(weft_signal_open(&(int){1}, 1, NULL));
    INVALID(weft_signal_wait(NULL, WEFT_NEVER));
    weft_signal_close(NULL);
    return 0;
}

/* -- HTTP ------------------------------------------------------------------------------------------------- */

static int handle(weft_http *x, void *arg) {
    (void)x, (void)arg;
    return 0;
}

static int use_no_http(void *arg) {
    char bytes[4] = "abc";
    int kind;
    void *all;
    weft_http *ws;
    weft_text text = {"abc", 3};
    weft_http_client *client;
    (void)arg;
    CHECK(!weft_text_is(text, NULL) && !weft_text_is_nocase(text, NULL));
    INVALID(weft_http_serve(NULL, NULL, handle, NULL));
    INVALID(weft_http_serve_one(NULL, NULL, handle, NULL));
    CHECK(!weft_http_method(NULL).at && !weft_http_target(NULL).at && !weft_http_path(NULL).at);
    CHECK(!weft_http_query(NULL).at && !weft_http_field(NULL, "a").at);
    NOTHING(weft_http_fields(NULL, 0, NULL, NULL));
    NOTHING(weft_http_length(NULL));
    NOTHING(weft_http_io(NULL));
    INVALID(weft_http_read(NULL, bytes, 1));
    INVALID(weft_http_read_all(NULL, &all));
    INVALID(weft_http_reply(NULL, 200, NULL, NULL, 0));
    INVALID(weft_http_set(NULL, "a", "b"));
    INVALID(weft_http_begin(NULL, 200, -1));
    INVALID(weft_http_write(NULL, bytes, 1));
    INVALID(weft_http_write_file(NULL, 0, 0, 1));
    INVALID(weft_http_end(NULL));
    INVALID(weft_http_events(NULL));
    INVALID(weft_http_event(NULL, NULL, "a"));
    INVALID(weft_ws_accept(NULL));
    INVALID(weft_ws_read(NULL, bytes, 1, &kind, WEFT_NEVER));
    INVALID(weft_ws_write(NULL, WEFT_WS_TEXT, bytes, 1));
    INVALID(weft_ws_heard(NULL));
    INVALID(weft_ws_reason(NULL, &text));
    INVALID(weft_url_parse("http://a", NULL));
    INVALID(weft_url_join("http://a", text, NULL, 1));
    INVALID(weft_http_connect("http://127.0.0.1:1", WEFT_NEVER, NULL));
    INVALID(weft_http_connect(NULL, WEFT_NEVER, &client));
    INVALID(weft_http_ask(NULL, "GET", "/", NULL, NULL, 0, WEFT_NEVER));
    INVALID(weft_http_ask_begin(NULL, "GET", "/", NULL, 0, WEFT_NEVER));
    INVALID(weft_http_ask_write(NULL, bytes, 1, WEFT_NEVER));
    INVALID(weft_http_ask_end(NULL, WEFT_NEVER));
    CHECK(!weft_http_answer_field(NULL, "a").at);
    NOTHING(weft_http_answer_fields(NULL, 0, NULL, NULL));
    INVALID(weft_http_answer_read(NULL, bytes, 1, WEFT_NEVER));
    NOTHING(weft_http_answer_status(NULL));
    CHECK(!weft_http_client_is_open(NULL));
    NOTHING(weft_http_client_io(NULL));
    weft_http_client_close(NULL);
    INVALID(weft_http_pool_open(NULL, NULL));
    NOTHING(weft_http_pool_idle(NULL));
    INVALID(weft_http_pool_connect(NULL, "http://127.0.0.1:1", WEFT_NEVER, &client));
    weft_http_pool *pool;
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    INVALID(weft_http_pool_connect(pool, "http://127.0.0.1:1", WEFT_NEVER, NULL));
    INVALID(weft_http_fetch(pool, "GET", "http://127.0.0.1:1", NULL, NULL, 0, WEFT_NEVER, NULL));
    weft_http_pool_close(pool);
    weft_http_pool_close(NULL);
    INVALID(weft_ws_open(NULL, "/", NULL, WEFT_NEVER, &ws));
    return 0;
}

/* -- Shards ----------------------------------------------------------------------------------------------- */

static void visit(weft_shard *shard, void *arg) { (void)shard, (void)arg; }

static int use_no_shard(void *arg) {
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    weft_lane *lane;
    weft_shard *shard;
    weft_block_env env = {.number = 7};
    weft_shard_info info = {.block = 7};
    weft_tx tx = {0, "a", 1};
    uint64_t id = 7;
    (void)arg;
    config.workers = 1;
    INVALID(weft_lane_create(&config, NULL));
    weft_lane_shutdown(NULL);
    weft_lane_destroy(NULL);
    INVALID(weft_shard_get(NULL, "a", &shard));
    NOTHING(weft_shard_find(NULL, "a"));
    weft_shard_each(NULL, visit, NULL);
    INVALID(weft_shard_submit(NULL, "a", 1, &id));
    INVALID(weft_shard_submit_many(NULL, &tx, 1, &id));
    CHECK(!weft_shard_schedule(NULL));
    weft_lane_set_env(NULL, &env);
    weft_lane_env(NULL, &env);
    weft_shard_info_read(NULL, &info);
    NOTHING(weft_shard_store_state(NULL));
    CHECK_EQ(weft_lane_workers(NULL) + weft_lane_queued(NULL) + weft_lane_wakes(NULL), 0);
    REQUIRE_EQ(weft_lane_create(&config, &lane), 0);
    REQUIRE_EQ(weft_shard_get(lane, "a", &shard), 0);
    INVALID(weft_shard_get(lane, "a", NULL));
    INVALID(weft_shard_get(lane, NULL, &shard));
    NOTHING(weft_shard_find(lane, NULL));
    weft_shard_each(lane, NULL, NULL);
    INVALID(weft_shard_submit(shard, NULL, 1, &id));
    INVALID(weft_shard_submit_many(shard, NULL, 1, &id));
    weft_lane_set_env(lane, NULL);
    weft_lane_env(lane, NULL);
    weft_shard_info_read(shard, NULL);
    weft_lane_destroy(lane);
    CHECK_EQ(env.number + info.block + id, 21);
    return 0;
}

/* -- Everywhere: on a plain thread, and in a fiber --------------------------------------------------------- */

static int (*const all[])(void *rt) = {use_no_io,   use_no_room, select_nothing, use_no_nursery,
                                       use_no_fund, use_no_file, use_no_http,    use_no_shard};

static int use_none(void *rt) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i](rt);
    return 0;
}

API_TEST(null_handle, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task = NULL;
    use_none(rt);
    REQUIRE_EQ(weft_fiber_go(rt, use_none, rt, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
