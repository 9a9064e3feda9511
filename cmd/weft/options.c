/* options.c - the command line (options.h). */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* What is said may come from elsewhere (a file, a node): control characters, and what a terminal might take for one, become \xNN. */
void complain(const char *command, const char *format, ...) {
    char line[1024];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    size_t end = size < 0 ? 0 : (size_t)size < sizeof line ? (size_t)size : sizeof line - 1;
    fprintf(stderr, "%s: ", command);
    for (size_t i = 0, length; i < end; i += length ? length : 1) {
        length = text_harmless(line + i, end - i);
        if (length)
            fwrite(line + i, 1, length, stderr);
        else
            fprintf(stderr, "\\x%02x", (unsigned char)line[i]);
    }
    fputc('\n', stderr);
}

void options_help(const char *usage, const struct option *options) {
    printf("%s\n", usage);
    for (const struct option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ',' : ' ', o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        printf("  %-30s %s\n", left, o->help);
    }
    printf("  %-30s %s\n", "-h, --help", "this text");
}

/* -- Values ------------------------------------------------------------------------------------------- */

bool parse_count(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || errno)
        return false;
    *out = value;
    return true;
}

static bool parse_size(const char *text, uint64_t *out) {
    char digits[24];
    size_t size = strlen(text);
    static const char units[] = "kMGT";
    const char *unit = size ? strchr(units, text[size - 1]) : NULL;
    int shift = unit && *unit ? 10 * (int)(unit - units + 1) : 0;
    if (size == 0 || size >= sizeof digits)
        return false;
    memcpy(digits, text, size + 1);
    digits[size - (shift > 0)] = 0;
    if (!parse_count(digits, out) || *out > UINT64_MAX >> shift)
        return false;
    *out <<= shift;
    return true;
}

bool parse_time(const char *text, int64_t unit, int64_t *out) {
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    char *end;
    if ((*text < '0' || *text > '9') && *text != '.')
        return false;
    double value = strtod(text, &end);
    if (end - text > 18 || strspn(text, "0123456789.") != (size_t)(end - text))
        return false;
    if (*end) {
        unit = 0;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (!strcmp(end, units[i].name))
                unit = units[i].ns;
    }
    if (!unit || value * (double)unit > 9e18)
        return false;
    *out = (int64_t)(value * (double)unit);
    return true;
}

static bool take_value(const char *command, const struct option *o, const char *text) {
    struct option_many *many = o->value;
    bool good = true;
    switch (o->kind) {
    case OPTION_FLAG: *(bool *)o->value = true; break;
    case OPTION_TEXT: *(const char **)o->value = text; break;
    case OPTION_COUNT: good = parse_count(text, o->value); break;
    case OPTION_SIZE: good = parse_size(text, o->value); break;
    case OPTION_TIME: good = parse_time(text, o->unit, o->value); break;
    case OPTION_MANY:
        good = many->count < sizeof many->values / sizeof *many->values;
        if (good)
            many->values[many->count++] = text;
        break;
    }
    if (!good)
        complain(command, "--%s: '%s' is not a good value; %s", o->name, text,
                 o->kind == OPTION_COUNT  ? "expected a number"
                 : o->kind == OPTION_SIZE ? "expected a size, such as 64k, 8M or 1G"
                 : o->kind == OPTION_TIME ? "expected a time, such as 100ms, 12s or 1m"
                                          : "given too often");
    return good;
}

/* -- The line ----------------------------------------------------------------------------------------- */

static const struct option *find(const struct option *options, const char *word, size_t size) {
    for (const struct option *o = options; o->name; o++)
        if (word[1] == '-' ? strlen(o->name) == size - 2 && !memcmp(o->name, word + 2, size - 2)
                           : size == 2 && o->letter && word[1] == o->letter)
            return o;
    return NULL;
}

int options_read(const char *command, const char *usage, const struct option *options, int argc, char **argv,
                 const char **words, int room) {
    int count = 0;
    bool more = true; /* options may come */
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *equals = strchr(word, '=');
        if (!more || word[0] != '-' || !word[1] || (word[1] >= '0' && word[1] <= '9')) { /* a number is no option */
            if (count >= room) {
                complain(command, "'%s' is one word too many; try %s --help", word, command);
                return -1;
            }
            words[count++] = word;
            continue;
        }
        if (!strcmp(word, "--")) {
            more = false;
            continue;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            options_help(usage, options);
            return -2;
        }
        const struct option *o = find(options, word, equals ? (size_t)(equals - word) : strlen(word));
        if (!o) {
            complain(command, "unknown option '%s'; try %s --help", word, command);
            return -1;
        }
        const char *value = equals ? equals + 1 : NULL;
        if (o->kind == OPTION_FLAG && value) {
            complain(command, "--%s takes no value", o->name);
            return -1;
        }
        if (o->kind != OPTION_FLAG && !value && !(value = ++i < argc ? argv[i] : NULL)) {
            complain(command, "--%s needs a value: %s", o->name, o->argument);
            return -1;
        }
        if (!take_value(command, o, value))
            return -1;
    }
    return count;
}
