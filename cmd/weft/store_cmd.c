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
};

/* Names come from a directory that may be damaged: nothing of it reaches the terminal as it is. */
static void found(void *arg, const char *shard, uint64_t block, const char *what) {
    struct text line = {0};
    (void)arg;
    text_json(&line, shard, strlen(shard));
    text_format(&line, " block %llu: ", (unsigned long long)block);
    text_json(&line, what, strlen(what));
    if (!line.failed)
        printf("%.*s\n", (int)line.size, line.at);
    text_free(&line);
}

static void walked(void *arg, const char *shard, uint64_t blocks) {
    struct walk *walk = arg;
    (void)shard;
    walk->shards++;
    walk->blocks += blocks;
}

static void fail(const char *command, const char *dir, int error) {
    complain(command, "%s: %s", dir,
             error == -EBUSY    ? "a node uses this directory"
             : error == -ENOENT ? "there is no store"
             : error == -EPROTO ? "a store of another version"
                                : weft_strerror(error));
}

int command_verify(int argc, char **argv) {
    static const char me[] = "weft node verify";
    static const char usage[] =
        "usage: weft node verify DIR\n\n"
        "Walks every chain of a store that no node uses: hashes, checksums, parents, receipts, state.\n"
        "Prints a line for each thing that is wrong, and ends with 1 if there is one.\n";
    const struct option options[] = {{0}};
    const char *dir;
    struct walk walk = {0};
    int count = options_read(me, usage, options, argc, argv, &dir, 1);
    if (count == -2)
        return EXIT_GOOD;
    if (count == 0)
        complain(me, "which directory? try %s --help", me);
    if (count != 1)
        return EXIT_USAGE;
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
    const struct option options[] = {{0}};
    const char *words[2];
    int count = options_read(me, usage, options, argc, argv, words, 2);
    if (count == -2)
        return EXIT_GOOD;
    if (count == 0)
        complain(me, "which directory? try %s --help", me);
    if (count < 1)
        return EXIT_USAGE;
    int error = ledger_export(words[0], count == 2 ? words[1] : NULL, STDOUT_FILENO);
    if (error) {
        fail(me, words[0], error);
        return EXIT_BAD;
    }
    return EXIT_GOOD;
}
