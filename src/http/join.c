/* join.c - what a reference in a document or a Location means: RFC 3986, section 5. */
#include <errno.h>
#include <string.h>

#include "http/parse.h"

/* Bytes appended to `out`, as long as there is room; `size` counts on. */
struct text {
    char *out;
    size_t room, size;
};

static void add(struct text *text, const char *at, size_t size) {
    for (size_t i = 0; i < size; i++, text->size++)
        if (text->size < text->room)
            text->out[text->size] = at[i];
}

/* 5.2.4: the path that has been written from `from` on, without "." and "..".  Its size can only shrink. */
static size_t remove_dots(char *path, size_t size) {
    size_t to = 0;
    for (size_t at = 0; at < size;) { /* a "/" and a segment at a time */
        size_t end = at + 1;
        while (end < size && path[end] != '/')
            end++;
        size_t length = end - at - 1;
        bool last = end == size;
        bool one = length == 1 && path[at + 1] == '.';
        bool two = length == 2 && path[at + 1] == '.' && path[at + 2] == '.';
        if (two)
            while (to > 0 && path[--to] != '/')
                ;
        if ((one || two) && last)
            path[to++] = '/';
        if (!one && !two) {
            memmove(path + to, path + at, end - at);
            to += end - at;
        }
        at = end;
    }
    return to;
}

static bool has_scheme(weft_text reference) {
    size_t i = 0;
    while (i < reference.size && reference.at[i] != ':' && !strchr("/?#", reference.at[i]))
        i++;
    return i > 0 && i < reference.size && reference.at[i] == ':';
}

/* What stands before the first of these, or all of it. */
static size_t before(weft_text text, const char *marks) {
    size_t i = 0;
    while (i < text.size && !strchr(marks, text.at[i]))
        i++;
    return i;
}

/* Scheme and authority of a URL without a path get one: "http://a?b" is "http://a/?b". */
static void add_absolute(struct text *text, weft_text url) {
    size_t slashes = 0, i = 0;
    while (i < url.size && slashes < 2)
        slashes += url.at[i++] == '/';
    weft_text rest = {url.at + i, url.size - i};
    size_t authority = before(rest, "/?"), path = before(rest, "?");
    add(text, url.at, i + authority);
    if (authority < rest.size && rest.at[authority] == '?')
        add(text, "/", 1);
    size_t from = text->size;
    add(text, rest.at + authority, path - authority);
    if (text->size < text->room)
        text->size = from + remove_dots(text->out + from, text->size - from);
    add(text, rest.at + path, rest.size - path);
}

static void add_relative(struct text *text, const weft_url *base, weft_text reference) {
    size_t path = before(base->target, "?");
    add(text, base->scheme.at, base->scheme.size);
    add(text, "://", 3);
    add(text, base->authority.at, base->authority.size);
    size_t from = text->size;
    if (reference.size == 0) {
        add(text, base->target.at, base->target.size);
        return;
    }
    size_t own = before(reference, "?");
    if (own == 0) /* another query of the same thing */
        add(text, base->target.at, path);
    else if (reference.at[0] != '/')
        while (path > 0 && base->target.at[path - 1] != '/')
            path--;
    if (own && reference.at[0] != '/')
        add(text, base->target.at, path);
    add(text, reference.at, own);
    if (text->size < text->room)
        text->size = from + remove_dots(text->out + from, text->size - from);
    add(text, reference.at + own, reference.size - own);
}

int weft_url_join(const char *base, weft_text reference, char *out, size_t room) {
    struct text text = {out, room, 0};
    weft_url url;
    if (!out || !reference.at || weft_url_parse(base, &url) || memchr(reference.at, 0, reference.size))
        return -EINVAL;
    reference.size = before(reference, "#");
    if (has_scheme(reference)) {
        add_absolute(&text, reference);
    } else if (reference.size >= 2 && reference.at[0] == '/' && reference.at[1] == '/') {
        add(&text, url.scheme.at, url.scheme.size);
        add(&text, ":", 1);
        add_absolute(&text, reference);
    } else {
        add_relative(&text, &url, reference);
    }
    if (text.size >= room)
        return -EMSGSIZE;
    out[text.size] = 0;
    return weft_url_parse(out, &url) ? -EINVAL : (int)text.size;
}
