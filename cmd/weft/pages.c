/* pages.c - a reader of LMDB's file that believes nothing (pages.h).
 *
 * Layout (little endian, 64 bits).  A page: its number (8), unused (2), flags (2), then `lower` and `upper` (2, 2), or the number of pages of a
 * large value (4); offsets of nodes from 16 to lower; nodes from upper to the end.  A node: 4 bytes and flags (2): size of the value, or the number of a
 * child page; size of the key (2); key; value, or the number of its first page (8).  Pages 0 and 1 hold, behind 16 bytes, the metas:
 * magic, version, address, map size, the tree of free pages, the tree, last page, transaction.
 */
#define _GNU_SOURCE
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE_HEAD = 16,
    NODE_HEAD = 8,
    BRANCH = 1,
    LEAF = 2,
    LARGE = 4,
    META = 8,
    IS_LARGE = 1,
    DEPTH_MAX = 32,
    META_SIZE = 152
};
#define NO_PAGE UINT64_MAX

struct tree {
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branches, leaves, large, entries, root;
};
struct meta {
    uint64_t size; /* of a page */
    uint64_t map, last, txn;
    struct tree free, main;
};

struct key {
    const unsigned char *at; /* NULL: no bound */
    size_t size;
};

struct walk {
    int fd;
    struct meta meta;
    unsigned char *used; /* a byte a page: it belongs to something */
    unsigned char *level[DEPTH_MAX]; /* a page each */
    unsigned char *tiles; /* a byte for each of a page */
    struct bytes value;
    struct tree found;
    bool numbers; /* keys are numbers: the tree of free pages */
    bool brief;   /* pages_check: large values are not read, and what the disk cannot read is left out */
    bool left_out; /* something was */
    pages_visit visit;
    void *arg;
    char *what;
    size_t room;
};

__attribute__((format(printf, 2, 3))) static int bad(struct walk *walk, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (walk->room)
        vsnprintf(walk->what, walk->room, format, args);
    va_end(args);
    return 1;
}

static uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] | at[1] << 8); }

static int read_at(int fd, void *to, size_t size, uint64_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t part = pread(fd, (char *)to + done, size - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return part < 0 ? -errno : -EBADMSG; /* the file ends before */
        done += (size_t)part;
    }
    return 0;
}

/* -- The meta pages ----------------------------------------------------------------------------------------------- */

static struct tree take_tree(struct reader *at) {
    struct tree tree = {.pad = reader_32(at)};
    uint32_t both = reader_32(at);
    tree.flags = (uint16_t)both, tree.depth = (uint16_t)(both >> 16);
    tree.branches = reader_64(at), tree.leaves = reader_64(at), tree.large = reader_64(at);
    tree.entries = reader_64(at), tree.root = reader_64(at);
    return tree;
}

/* 0; -EPROTO: LMDB, but another version; -EBADMSG. */
static int take_meta(const unsigned char *page, unsigned number, struct meta *out) {
    struct reader at = reader_of(page, META_SIZE);
    bool good = reader_64(&at) == number;
    reader_take(&at, 2);
    good &= reader_32(&at) << 16 == (uint32_t)META << 16; /* flags; behind them `lower`, unused */
    reader_take(&at, 2);
    good &= reader_32(&at) == 0xbeefc0de;
    if (reader_32(&at) != 1)
        return good ? -EPROTO : -EBADMSG;
    good &= reader_64(&at) == 0;
    out->map = reader_64(&at);
    out->free = take_tree(&at);
    out->main = take_tree(&at);
    out->last = reader_64(&at);
    out->txn = reader_64(&at);
    out->size = out->free.pad;
    good &= out->size >= 512 && out->size <= 65536 && (out->size & (out->size - 1)) == 0;
    good &= out->free.flags == 8 && out->main.flags == 0 && out->main.pad == 0 && (out->txn & 1) == number;
    good &= out->last >= 1 && out->last < UINT64_MAX / 65536 / 2;
    return good ? 0 : -EBADMSG;
}

__attribute__((format(printf, 3, 4))) static int wrong(char *what, size_t room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (room)
        vsnprintf(what, room, format, args);
    va_end(args);
    return -EBADMSG;
}

/* One of the two; `at`: where it is, which the first one says. */
static int read_meta(int fd, unsigned number, uint64_t at, struct meta *out, char *what, size_t room) {
    unsigned char page[META_SIZE];
    int error = read_at(fd, page, sizeof page, at);
    if (error == -EBADMSG)
        return wrong(what, room, "the file ends within meta page %u", number);
    if (error)
        wrong(what, room, "meta page %u cannot be read: %s", number, strerror(-error));
    else if ((error = take_meta(page, number, out)) == -EPROTO)
        wrong(what, room, "meta page %u is of another version of LMDB", number);
    else if (error)
        wrong(what, room, "meta page %u is damaged", number);
    return error;
}

/* Both metas, the newer first.  0; -EBADMSG, -EPROTO, -errno: `what` says why. */
static int take_metas(int fd, struct meta out[2], char *what, size_t room) {
    struct meta meta[2];
    struct stat file;
    int error = read_meta(fd, 0, 0, &meta[0], what, room);
    if (error || (error = read_meta(fd, 1, meta[0].size, &meta[1], what, room)))
        return error;
    unsigned newer = meta[1].txn > meta[0].txn;
    out[0] = meta[newer], out[1] = meta[!newer];
    if (fstat(fd, &file)) {
        error = -errno;
        wrong(what, room, "its length cannot be read: %s", strerror(-error));
        return error;
    }
    /* The first transaction that was ever made is the head's: there are always two. */
    bool good = out[0].txn == out[1].txn + 1 && out[0].size == out[1].size && out[0].last >= out[1].last &&
                out[0].map >= out[1].map && out[0].map % out[0].size == 0 && out[1].map % out[0].size == 0;
    if (!good)
        return wrong(what, room, "the two meta pages do not fit each other");
    if ((uint64_t)file.st_size / out[0].size <= out[0].last)
        return wrong(what, room, "the file ends after %llu pages of %llu",
                     (unsigned long long)((uint64_t)file.st_size / out[0].size), (unsigned long long)out[0].last + 1);
    return 0;
}

static int open_file(const char *path) {
    char name[4096];
    if ((size_t)snprintf(name, sizeof name, "%s/data.mdb", path) >= sizeof name)
        return -ENAMETOOLONG;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int pages_look(const char *path) {
    struct meta metas[2];
    int fd = open_file(path);
    if (fd < 0)
        return fd == -ENOENT ? -EBADMSG : fd; /* a shard's folder always has it */
    int error = take_metas(fd, metas, NULL, 0);
    close(fd);
    return error;
}

/* -- Pages -------------------------------------------------------------------------------------------------------- */

static int claim(struct walk *walk, uint64_t number, uint64_t count) {
    if (number < 2 || number > walk->meta.last || count > walk->meta.last + 1 - number)
        return bad(walk, "page %llu is outside the file", (unsigned long long)number);
    for (uint64_t i = 0; i < count; i++)
        if (walk->used[number + i]++)
            return bad(walk, "page %llu is used twice", (unsigned long long)(number + i));
    return 0;
}

enum { LEFT_OUT = 2 };

/* So many pages from one on, into `to`. 0; the disk cannot read them: 1, or LEFT_OUT. */
static int read_pages(struct walk *walk, uint64_t number, uint64_t count, void *to) {
    int error = read_at(walk->fd, to, count * walk->meta.size, number * walk->meta.size);
    if (error && walk->brief) {
        walk->left_out = true;
        return LEFT_OUT;
    }
    return error ? bad(walk, "page %llu cannot be read: %s", (unsigned long long)number,
                       error == -EBADMSG ? "the file ends before it" : strerror(-error))
                 : 0;
}

static int compare(const struct walk *walk, struct key a, struct key b) {
    if (walk->numbers) {
        uint64_t x = get64(a.at), y = get64(b.at);
        return x < y ? -1 : x > y;
    }
    int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
    return order ? order : a.size < b.size ? -1 : a.size > b.size;
}

struct node {
    struct key key;
    uint64_t number; /* a child, or a value's size */
    uint16_t flags;
    size_t size;
};

/* A node within its page; `tile`: its bytes are not another's too. */
static int take_node(struct walk *walk, const unsigned char *page, uint64_t number, unsigned index, bool leaf,
                     bool tile, struct node *out) {
    size_t room = walk->meta.size, at = get16(page + PAGE_HEAD + 2 * index), upper = get16(page + 14);
    if (at < upper || at + NODE_HEAD > room)
        return bad(walk, "page %llu: a node is outside", (unsigned long long)number);
    const unsigned char *node = page + at;
    out->key.size = get16(node + 6);
    out->key.at = node + NODE_HEAD;
    out->flags = get16(node + 4);
    out->number = get32(node) | (leaf ? 0 : (uint64_t)out->flags << 32);
    if (leaf && out->flags > IS_LARGE)
        return bad(walk, "page %llu: a node of an unknown kind", (unsigned long long)number);
    out->size = NODE_HEAD + out->key.size + (!leaf ? 0 : out->flags ? 8 : out->number);
    if (out->size > room - at || (walk->numbers && leaf && out->key.size != 8) ||
        (walk->numbers && !leaf && index && out->key.size != 8))
        return bad(walk, "page %llu: a node is too long", (unsigned long long)number);
    for (size_t i = 0; tile && i < ((out->size + 1) & ~(size_t)1); i++)
        if (at + i >= room || walk->tiles[at + i]++)
            return bad(walk, "page %llu: nodes overlap", (unsigned long long)number);
    return 0;
}

/* The list of free pages in one value: how many, then the numbers, the highest first. */
static int take_free(struct walk *walk, struct key key, const unsigned char *value, size_t size) {
    uint64_t count = size >= 8 ? get64(value) : UINT64_MAX, before = UINT64_MAX;
    if (size % 8 || count > size / 8 - 1 || get64(key.at) == 0 || get64(key.at) > walk->meta.txn)
        return bad(walk, "a list of free pages is damaged");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = get64(value + 8 + 8 * i);
        if (number >= before)
            return bad(walk, "a list of free pages is not in order");
        before = number;
        if (claim(walk, number, 1))
            return 1;
    }
    return 0;
}

static int take_value(struct walk *walk, const struct node *node) {
    const unsigned char *value = node->key.at + node->key.size;
    size_t size = node->number;
    if (node->flags) { /* on pages of its own */
        uint64_t first = get64(value), room = walk->meta.size;
        uint64_t count = (PAGE_HEAD - 1 + size) / room + 1;
        if (claim(walk, first, count))
            return 1;
        bytes_clear(&walk->value);
        uint64_t wanted = walk->brief && !walk->numbers ? 1 : count;
        unsigned char *pages = bytes_add(&walk->value, wanted * room);
        if (!pages)
            return -ENOMEM;
        int error = read_pages(walk, first, wanted, pages);
        if (error)
            return error == LEFT_OUT ? 0 : 1;
        if (get64(pages) != first || get16(pages + 10) != LARGE || get32(pages + 12) != count)
            return bad(walk, "page %llu is not what its node says", (unsigned long long)first);
        walk->found.large += count;
        value = pages + PAGE_HEAD;
    }
    walk->found.entries++;
    if (walk->numbers)
        return take_free(walk, node->key, value, size);
    return walk->visit ? walk->visit(walk->arg, node->key.at, node->key.size, value, size) : 0;
}

static int take_page(struct walk *walk, uint64_t number, unsigned depth, unsigned deepest, struct key low,
                     struct key high) {
    unsigned char *page = walk->level[depth];
    size_t room = walk->meta.size;
    bool leaf = depth + 1 == deepest;
    int error = claim(walk, number, 1);
    if (error || (error = read_pages(walk, number, 1, page)))
        return error == LEFT_OUT ? 0 : error;
    size_t lower = get16(page + 12), upper = get16(page + 14);
    if (get64(page) != number || get16(page + 10) != (leaf ? LEAF : BRANCH))
        return bad(walk, "page %llu is not what its parent says", (unsigned long long)number);
    if (lower < PAGE_HEAD + (leaf ? 2 : 4) || lower % 2 || lower > upper || upper > room)
        return bad(walk, "page %llu: its bounds are wrong", (unsigned long long)number);
    unsigned count = (unsigned)(lower - PAGE_HEAD) / 2;
    struct node node;
    size_t bytes = 0;
    memset(walk->tiles, 0, room);
    for (unsigned i = 0; i < count; i++) {
        if (take_node(walk, page, number, i, leaf, true, &node))
            return 1;
        bytes += (node.size + 1) & ~(size_t)1;
    }
    if (bytes != room - upper)
        return bad(walk, "page %llu: its nodes do not fill it", (unsigned long long)number);
    *(leaf ? &walk->found.leaves : &walk->found.branches) += 1;
    struct key before = low;
    for (unsigned i = 0; i < count; i++) {
        take_node(walk, page, number, i, leaf, false, &node); /* a second look */
        struct node next = {.key = high};
        if (!leaf && i + 1 < count)
            take_node(walk, page, number, i + 1, leaf, false, &next);
        bool first = i == 0;
        if (leaf || !first) { /* a branch's first key stands for the lower bound */
            if (before.at && (first || (!leaf && i == 1) ? compare(walk, node.key, before) < 0
                                                         : compare(walk, node.key, before) <= 0))
                return bad(walk, "page %llu: keys are not in order", (unsigned long long)number);
            if (high.at && compare(walk, node.key, high) >= 0)
                return bad(walk, "page %llu: a key is above its parent's", (unsigned long long)number);
            before = node.key;
        }
        error = leaf ? take_value(walk, &node)
                     : take_page(walk, node.number, depth + 1, deepest, first ? low : node.key, next.key);
        if (error)
            return error;
    }
    return 0;
}

static int take_whole(struct walk *walk, const struct tree *tree, bool numbers) {
    const struct key none = {NULL, 0};
    walk->found = (struct tree){0};
    walk->numbers = numbers;
    if (tree->root == NO_PAGE)
        return tree->depth || tree->branches || tree->leaves || tree->large || tree->entries
                   ? bad(walk, "an empty tree that is not")
                   : 0;
    if (tree->depth == 0 || tree->depth > DEPTH_MAX)
        return bad(walk, "a tree's depth is %u", tree->depth);
    int error = take_page(walk, tree->root, 0, tree->depth, none, none);
    if (!error && !walk->left_out &&
        (walk->found.branches != tree->branches || walk->found.leaves != tree->leaves ||
         walk->found.large != tree->large || walk->found.entries != tree->entries))
        return bad(walk, "a tree's figures are others");
    return error;
}

/* -- The whole ---------------------------------------------------------------------------------------------------- */

static int take_all(struct walk *walk) {
    size_t room = walk->meta.size;
    walk->used = mem_new(walk->meta.last + 1);
    walk->tiles = mem_new(room);
    bool good = walk->used && walk->tiles;
    for (int i = 0; i < DEPTH_MAX && good; i++)
        good = (walk->level[i] = mem_new(room)) != NULL;
    if (!good)
        return -ENOMEM;
    int error = take_whole(walk, &walk->meta.main, false);
    if (!error)
        error = take_whole(walk, &walk->meta.free, true);
    for (uint64_t i = 2; !error && !walk->left_out && i <= walk->meta.last; i++)
        if (!walk->used[i])
            error = bad(walk, "page %llu belongs to nothing", (unsigned long long)i);
    return error;
}

static int take_file(struct walk *walk, unsigned older) {
    struct meta metas[2];
    int error = take_metas(walk->fd, metas, walk->what, walk->room) ? 1 : 0;
    if (!error) {
        walk->meta = metas[older];
        error = take_all(walk);
    }
    free(walk->used);
    free(walk->tiles);
    for (int i = 0; i < DEPTH_MAX; i++)
        free(walk->level[i]);
    bytes_free(&walk->value);
    return error;
}

int pages_walk_file(int fd, unsigned older, pages_visit visit, void *arg, uint64_t *txn, char *what, size_t room) {
    struct walk walk = {.fd = fd, .visit = visit, .arg = arg, .what = what, .room = room};
    int error = take_file(&walk, older);
    *txn = walk.meta.txn;
    return error;
}

int pages_check(const char *path) {
    char what[160];
    struct walk walk = {.fd = open_file(path), .what = what, .room = sizeof what, .brief = true};
    if (walk.fd < 0)
        return walk.fd;
    int error = take_file(&walk, 0);
    close(walk.fd);
    return error == 1 ? -EBADMSG : error;
}

int pages_walk(const char *path, unsigned older, pages_visit visit, void *arg, uint64_t *txn, char *what, size_t room) {
    int fd = open_file(path);
    if (fd == -ENOENT)
        wrong(what, room, "there is no data.mdb");
    else if (fd < 0)
        wrong(what, room, "data.mdb cannot be opened: %s", strerror(-fd));
    if (fd < 0)
        return 1;
    int error = pages_walk_file(fd, older, visit, arg, txn, what, room);
    close(fd);
    return error;
}
