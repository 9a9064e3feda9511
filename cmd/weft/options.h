/* options.h - the command line: a table of options, and clear words about what is wrong. */
#ifndef WEFT_CMD_OPTIONS_H
#define WEFT_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char * */
    OPTION_COUNT, /* uint64_t */
    OPTION_SIZE,  /* uint64_t: 64k, 8M, 1G */
    OPTION_TIME,  /* int64_t, ns: 100ms, 12s, 1m; a bare number is in `unit` */
    OPTION_MANY,  /* struct option_many: may be given several times */
};

struct option_many {
    const char *values[16];
    unsigned count;
};

struct option {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* or 0 */
    enum option_kind kind;
    void *value;
    const char *argument, *help; /* "DIR", "what it does" */
    int64_t unit;                /* of OPTION_TIME */
};

/* Exit codes. */
enum { EXIT_GOOD = 0, EXIT_BAD = 1, EXIT_USAGE = 2 };

/* Read options, up to the end or "--"; other words go to `words`, at most `room` of them.  `command` ("weft node") is named in messages.
 * Returns the number of words; -1: a message has been printed, end with EXIT_USAGE; -2: --help was printed, end with EXIT_GOOD. */
int options_read(const char *command, const char *usage, const struct option *options, int argc, char **argv,
                 const char **words, int room);
void options_help(const char *usage, const struct option *options);
/* "weft node: ..." on stderr. */
void complain(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool parse_count(const char *text, uint64_t *out);
bool parse_time(const char *text, int64_t unit, int64_t *out);

#endif
