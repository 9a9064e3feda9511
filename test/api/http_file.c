/* http_file.c - answers out of files: by length, in chunks, parts, more than the file has. */
#include "http_fixture.h"

#define SIZE 700000 /* several pieces */

static char *content;
static int file = -1;

/* /whole and /chunked: all of it; /part: from the middle; /greedy, /greedy-chunked: more than there is; /over: more than was declared. */
static int serve_file(weft_http *x, void *arg) {
    struct site *site = arg;
    weft_text path = weft_http_path(x);
    bool chunked = weft_text_is(path, "/chunked") || weft_text_is(path, "/greedy-chunked");
    uint64_t size = weft_text_is(path, "/part") ? 10 : SIZE;
    off_t offset = weft_text_is(path, "/part") ? 350000 : 0;
    bool greedy = weft_text_is(path, "/greedy") || weft_text_is(path, "/greedy-chunked");
    CHECK_EQ(weft_http_write_file(x, file, 0, 1), -EINVAL);
    CHECK_EQ(weft_http_begin(x, 200, chunked ? -1 : (int64_t)size + (greedy ? 5 : 0)), 0);
    CHECK_EQ(weft_http_write_file(x, file, -1, 1), -EINVAL);
    if (weft_text_is(path, "/over"))
        CHECK_EQ(weft_http_write_file(x, file, 0, SIZE + 1), -EMSGSIZE);
    int error = weft_http_write_file(x, file, offset, size + (greedy ? 5 : 0));
    CHECK_EQ(error, greedy ? -EIO : 0);
    site->error = error;
    if (error) /* what is missing cannot be made up for */
        CHECK_EQ(weft_http_write(x, "12345", 5), -EINVAL);
    return 0; /* also when it was too little: the client must learn it */
}

static void get(struct site *site, const char *method, const char *path, const char *expected, size_t size, int end) {
    weft_http_client *client;
    weft_io *io = dial(site);
    char *found = malloc(SIZE + 100);
    size_t got = 0;
    ssize_t n;
    REQUIRE(found);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK_EQ(weft_http_ask(client, method, path, NULL, NULL, 0, fixture_soon()), 200);
    while ((n = weft_http_answer_read(client, found + got, SIZE + 100 - got, fixture_soon())) > 0)
        got += (size_t)n;
    CHECK_EQ(n, end);
    CHECK_EQ(got, size);
    CHECK(!memcmp(found, expected, size));
    CHECK_EQ(weft_http_client_is_open(client), end == 0);
    if (end == 0) /* and the next begins where it ends */
        CHECK_EQ(weft_http_ask(client, "HEAD", "/whole", NULL, NULL, 0, fixture_soon()), 200);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    free(found);
}

static int files(void *unused) {
    (void)unused;
    struct site site = SITE(serve_file);
    char path[] = "/tmp/weft-http-XXXXXX";
    content = malloc(SIZE);
    REQUIRE(content);
    io_fill(content, SIZE, 0);
    file = mkstemp(path);
    REQUIRE_GE(file, 0);
    unlink(path);
    REQUIRE_EQ(write(file, content, SIZE), SIZE);
    site_open(&site);
    get(&site, "GET", "/whole", content, SIZE, 0);
    get(&site, "GET", "/chunked", content, SIZE, 0);
    get(&site, "GET", "/part", content + 350000, 10, 0);
    get(&site, "GET", "/over", content, SIZE, 0);
    get(&site, "HEAD", "/whole", "", 0, 0);
    get(&site, "HEAD", "/chunked", "", 0, 0);
    get(&site, "GET", "/greedy", content, SIZE, -ECONNRESET);
    get(&site, "GET", "/greedy-chunked", content, SIZE, -ECONNRESET);
    site_close(&site);
    close(file);
    free(content);
    return 0;
}
API_TEST(http_file, "", .workers = {1, 2}) { io_run(files, NULL); }
