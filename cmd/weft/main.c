/* main.c - the program "weft": which command it is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/base.h>

#include "arena.h"
#include "commands.h"
#include "options.h"

static const char usage[] = "usage: weft COMMAND [OPTION...]\n"
                            "\n"
                            "  node           run a node: transactions over many independent shards\n"
                            "  node verify    check every chain of a node's store\n"
                            "  node export    print a node's store as JSON lines\n"
                            "  tx             submit transactions to a node, and ask it about them\n"
                            "  tx load        submit as many as it takes, and measure\n"
                            "\n"
                            "  --help         this text; each command has its own\n"
                            "  --version      the version\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"node", command_node}, {"tx", command_tx}};

/* A result that nobody got is no success. */
static int printed(int status) {
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != EXIT_GOOD)
        return status;
    complain("weft", "cannot print: %s", strerror(errno));
    return EXIT_BAD;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    arena_install();
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
        return printf("%s", usage), printed(EXIT_GOOD);
    if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        return printf("weft %s\n", weft_version()), printed(EXIT_GOOD);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(name, commands[i].name))
            return printed(commands[i].run(argc - 2, argv + 2));
    if (argc > 1)
        complain("weft", "unknown command '%s'; try weft --help", name);
    else
        fputs(usage, stderr);
    return EXIT_USAGE;
}
