/* fetch.c - a URL, wherever it has moved to: redirects, and connections that are used again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <weft/time.h>

#include "http/client.h"

#define URL_MAX 4096u
#define SKIP_TIME INT64_C(1000000000) /* ns ... */
#define SKIP_MAX 65536u /* bytes of a redirect's own body that are read, to keep the connection */

/* What is asked, as it changes from one redirect to the next. */
struct fetch {
    const char *method;
    const void *body;
    size_t size;
    char url[URL_MAX], next[URL_MAX], target[URL_MAX], fields[WEFTI_REQUEST_MAX];
};

static bool is_one_of(weft_text name, const char *const *names) {
    while (*names && !weft_text_is_nocase(name, *names))
        names++;
    return *names != NULL;
}

/* Without the fields of these names.  In `fields` itself, which only shrinks. */
static void remove_fields(char *fields, const char *const *names) {
    char *to = fields;
    for (char *at = fields, *end; *at; at = end) {
        end = strstr(at, "\r\n");
        end = end ? end + 2 : at + strlen(at);
        size_t size = (size_t)(end - at), name = 0;
        while (name < size && at[name] != ':')
            name++;
        if (is_one_of((weft_text){at, name}, names))
            continue;
        memmove(to, at, size);
        to += size;
    }
    *to = 0;
}

static bool is_idempotent(const char *method) { /* case counts: "get" is anybody's */
    static const char *const names[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", NULL};
    const char *const *at = names;
    while (*at && strcmp(method, *at))
        at++;
    return *at != NULL;
}

static bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool is_same_origin(const weft_url *a, const weft_url *b) {
    return a->secure == b->secure && a->port == b->port && a->host.size == b->host.size &&
           strncasecmp(a->host.at, b->host.at, a->host.size) == 0;
}

/* A WebSocket is asked for with weft_ws_open. */
static bool is_http(const weft_url *url) {
    return weft_text_is_nocase(url->scheme, "http") || weft_text_is_nocase(url->scheme, "https");
}

/* Servers send spaces and bytes above ASCII that a URL has encoded; what they mean is clear, and every browser goes there.  Without what follows
 * a "#", which may be long.  False: too long. */
static bool encode(weft_text text, char *to, size_t room) {
    static const char hex[] = "0123456789ABCDEF";
    size_t size = 0;
    for (size_t i = 0; i < text.size && text.at[i] != '#' && size + 3 < room; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c > ' ' && c < 127) {
            to[size++] = (char)c;
            continue;
        }
        to[size++] = '%';
        to[size++] = hex[c >> 4];
        to[size++] = hex[c & 15];
    }
    to[size] = 0;
    return size + 3 < room;
}

/* Where to next, and with what.  False: it is for the caller to see. */
static bool follow(struct fetch *f, weft_http_client *client, int status) {
    static const char *const secrets[] = {"Authorization", "Cookie", "Proxy-Authorization", NULL};
    static const char *const of_body[] = {"Content-Type",     "Content-Encoding", "Content-Language",
                                          "Content-Location", "Expect",           NULL};
    weft_text location = weft_http_answer_field(client, "Location");
    weft_url from, to;
    if (!location.at || !encode(location, f->target, URL_MAX) ||
        weft_url_join(f->url, (weft_text){f->target, strlen(f->target)}, f->next, URL_MAX) < 0 ||
        weft_url_parse(f->url, &from) || weft_url_parse(f->next, &to) || !is_http(&to) ||
        (from.secure && !to.secure)) /* what was secret would be sent in the open */
        return false;
    bool head = !strcmp(f->method, "HEAD");
    if ((status == 303 && !head) || ((status == 301 || status == 302) && !strcmp(f->method, "POST"))) {
        f->method = "GET"; /* RFC 9110, 15.4 */
        f->body = NULL;
        f->size = 0;
        remove_fields(f->fields, of_body);
    }
    if (!is_same_origin(&from, &to))
        remove_fields(f->fields, secrets);
    memcpy(f->url, f->next, URL_MAX);
    return true;
}

/* What is left of an answer that nobody wants: worth reading only for the connection's sake, and not worth waiting for long. */
static void skip(weft_http_client *client, int64_t until) {
    char bytes[1024];
    ssize_t n = client->pool && client->open;
    int64_t soon = weft_after(SKIP_TIME);
    for (size_t size = 0; n > 0 && size < SKIP_MAX; size += (size_t)n)
        n = weft_http_answer_read(client, bytes, sizeof bytes, soon < until ? soon : until);
    weft_http_client_close(client); /* which keeps it, if all was read */
}

/* Once, or twice: a server may end a connection in the moment in which we use it again. */
static int ask(struct fetch *f, weft_http_pool *pool, int64_t until, weft_http_client **out) {
    weft_url url;
    bool used = false;
    int status = weft_url_parse(f->url, &url);
    if (status)
        return status;
    memcpy(f->target, url.target.at, url.target.size);
    f->target[url.target.size] = 0;
    for (bool fresh = false;; fresh = true) {
        status = wefti_http_pool_connect(pool, f->url, fresh, until, out, &used);
        if (status)
            return status;
        status = weft_http_ask(*out, f->method, f->target, f->fields, f->body, f->size, until);
        if (status >= 0)
            return status;
        bool said = (*out)->said;
        weft_http_client_close(*out);
        if (!used || said || (status != -ECONNRESET && status != -EPIPE) || !is_idempotent(f->method))
            return status;
    }
}

static int run(struct fetch *f, weft_http_pool *pool, int64_t until, weft_http_client **out) {
    unsigned most = wefti_http_pool_redirects(pool);
    for (unsigned hops = 0;; hops++) {
        weft_http_client *client;
        int status = ask(f, pool, until, &client);
        if (status < 0)
            return status;
        if (most == WEFT_HTTP_NO_REDIRECTS || !is_redirect(status) || !follow(f, client, status)) {
            *out = client;
            return status;
        }
        skip(client, until);
        if (hops == most)
            return -ELOOP;
    }
}

/* A URL may have a query and no path ("http://a?b"), a request may not: there it is "/?b".  0; -EMSGSIZE. */
static int copy_url(char to[URL_MAX], const char *url) {
    const char *host = strstr(url, "://");
    size_t before = host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
    bool bare = url[before] == '?' && before;
    int size = snprintf(to, URL_MAX, "%.*s%s%s", (int)before, url, bare ? "/" : "", url + before);
    return size < 0 || (size_t)size >= URL_MAX ? -EMSGSIZE : 0;
}

int weft_http_fetch(weft_http_pool *pool, const char *method, const char *url, const char *fields, const void *body,
                    size_t size, weft_deadline until, weft_http_client **out) {
    if (!method || !url || !out || strlen(url) >= URL_MAX)
        return !method || !url || !out ? -EINVAL : -EMSGSIZE;
    if (fields && strlen(fields) >= WEFTI_REQUEST_MAX)
        return -EMSGSIZE;
    struct fetch *f = wefti_alloc(sizeof *f);
    if (!f)
        return -ENOMEM;
    f->method = method;
    f->body = body;
    f->size = size;
    snprintf(f->fields, sizeof f->fields, "%s", fields ? fields : "");
    int status = copy_url(f->url, url);
    status = status ? status : run(f, pool, until, out);
    wefti_free(f, sizeof *f);
    return status;
}
