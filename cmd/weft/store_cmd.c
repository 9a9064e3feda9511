/* store_cmd.c - the commands "weft node verify" and "weft node export": a store, without a node. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/base.h>

#include "commands.h"
#include "ledger.h"
#include "options.h"
#include "text.h"

struct walk {
    uint64_t shards, blocks;
    uint64_t before; /* blocks of the shards before this one */
    char shard[256];
};

/* Names come from a directory that may be damaged: nothing of it reaches the terminal as it is. */
static void found(void *arg, const char *shard, uint64_t block, const char *what) {
    struct text line = {0};
    (void)arg;
    text_json(&line, shard, strlen(shard));
    if (block)
        text_format(&line, " block %llu", (unsigned long long)block);
    text_put(&line, ": ");
    text_json(&line, what, strlen(what));
    if (!line.failed)
        printf("%.*s\n", (int)line.size, line.at);
    text_free(&line);
}

static void walked(void *arg, const char *shard, uint64_t blocks) {
    struct walk *walk = arg;
    if (strcmp(walk->shard, shard) != 0) { /* told several times of a long one */
        snprintf(walk->shard, sizeof walk->shard, "%s", shard);
        walk->shards++;
        walk->before = walk->blocks;
    }
    walk->blocks = walk->before + blocks;
}

static void fail(const char *command, const char *dir, int error) {
    complain(command, "%s: %s", dir,
             error == -EBUSY    ? "a node uses this directory"
             : error == -ENOENT ? "there is no store"
             : error == -EPROTO ? "a store of another version"
                                : strerror(-error));
}

/* The directory by its place or with --data, as for a node; NULL: it was said what is wrong.  `shard`: a second word may follow, if not NULL. */
static const char *directory(const char *me, const char *usage, int argc, char **argv, const char **shard,
                             int *status) {
    const char *words[2] = {NULL, NULL}, *data = NULL;
    const struct option options[] = {{"data", 'd', OPTION_TEXT, &data, "DIR", "the store, also as a word", 0}, {0}};
    int count = options_read(me, usage, options, argc, argv, words, shard ? 2 : 1), taken = data ? 0 : 1;
    *status = count == -2 ? EXIT_GOOD : EXIT_USAGE;
    if (count < 0)
        return NULL;
    if (count > taken + (shard != NULL)) {
        complain(me, "'%s' is one word too many; try %s --help", words[count - 1], me);
        return NULL;
    }
    if (shard)
        *shard = words[taken];
    if (!data && !count)
        complain(me, "which directory? try %s --help", me);
    return data ? data : words[0];
}

int command_verify(int argc, char **argv) {
    static const char me[] = "weft node verify";
    static const char usage[] =
        "usage: weft node verify DIR\n\n"
        "Walks every chain of a store that no node uses: hashes, checksums, parents, receipts, state.\n"
        "Prints a line for each thing that is wrong, and ends with 1 if there is one.\n";
    struct walk walk = {0};
    int status;
    const char *dir = directory(me, usage, argc, argv, NULL, &status);
    if (!dir)
        return status;
    int64_t findings = ledger_verify(dir, found, walked, &walk);
    if (findings < 0) {
        fail(me, dir, (int)findings);
        return EXIT_BAD;
    }
    printf("%s: %llu shards, %llu blocks, %lld findings\n", dir, (unsigned long long)walk.shards,
           (unsigned long long)walk.blocks, (long long)findings);
    return findings ? EXIT_BAD : EXIT_GOOD;
}

int command_export(int argc, char **argv) {
    static const char me[] = "weft node export";
    static const char usage[] =
        "usage: weft node export DIR [SHARD]\n\n"
        "Prints every block, receipt and state entry of a store that no node uses, as JSON lines.\n";
    const char *shard;
    int status;
    const char *dir = directory(me, usage, argc, argv, &shard, &status);
    if (!dir)
        return status;
    int error = ledger_export(dir, shard, STDOUT_FILENO);
    if (error == -ENOENT && shard && access(dir, F_OK) == 0)
        complain(me, "%s: there is no shard '%s'", dir, shard);
    else if (error)
        fail(me, dir, error);
    return error ? EXIT_BAD : EXIT_GOOD;
}
