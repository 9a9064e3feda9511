/* report.c - what a failing execution did: its trace, with the names of variables and source lines.
 *
 * The failing choices are run once more with tracing on, which fills `events`.  Addresses become names at the
 * very end, by one run of llvm-symbolizer (or addr2line, which knows lines but not variables).
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

extern char __data_start[], _end[]; /* from the linker: the globals of the program */

enum { EVENTS = 1 << 16, NAMES = 4096, SHOWN = 400 };

struct event {
    uintptr_t addr, pc;
    uint64_t a, b;
    int note;
    uint8_t kind, order, size, thread;
};

struct name {
    uintptr_t addr;
    bool data;
    char text[160];
};

static struct event *events;
static int event_count;
static struct name *names;
static int name_count;
static char notes[256][160];
static int note_count;

void mc_trace_reset(void) {
    if (!events)
        events = calloc(EVENTS, sizeof *events);
    event_count = note_count = 0;
}

void mc_trace(enum mc_kind kind, int order, uintptr_t addr, int size, uint64_t a, uint64_t b, int note, uintptr_t pc) {
    if (!events || event_count == EVENTS)
        return;
    events[event_count++] =
        (struct event){addr, pc, a, b, note, (uint8_t)kind, (uint8_t)order, (uint8_t)size, (uint8_t)mc.run};
}

void mc_note(const char *format, ...) {
    if (!mc.tracing || note_count == 256)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(notes[note_count], sizeof notes[0], format, args);
    va_end(args);
    mc_trace(OP_NOTE, 0, 0, 0, (uint64_t)note_count++, 0, 0, (uintptr_t)__builtin_return_address(0));
}

/* -- Names ------------------------------------------------------------------------------------------- */
static int find_base(struct dl_phdr_info *info, size_t size, void *base) {
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

static void want(uintptr_t addr, bool data) {
    if (!addr || (data && addr - (uintptr_t)__data_start >= (uintptr_t)(_end - __data_start)))
        return;
    for (int i = 0; i < name_count; i++)
        if (names[i].addr == addr && names[i].data == data)
            return;
    if (name_count < NAMES)
        names[name_count++] = (struct name){.addr = addr, .data = data};
}

static const char *name_of(uintptr_t addr, bool data) {
    for (int i = 0; i < name_count; i++)
        if (names[i].addr == addr && names[i].data == data && names[i].text[0])
            return names[i].text;
    return NULL;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One answer: for code a function and file:line:column, for data a name and "start size". */
static void read_answer(FILE *pipe, struct name *n, uintptr_t base, bool symbolizer) {
    char first[512] = "", second[512] = "", line[512];
    if (!fgets(first, sizeof first, pipe) || !fgets(second, sizeof second, pipe))
        return;
    while (symbolizer && fgets(line, sizeof line, pipe) && line[0] != '\n') {
    }
    first[strcspn(first, "\n")] = 0;
    second[strcspn(second, "\n")] = 0;
    if (first[0] == '?')
        return;
    if (n->data) {
        unsigned long long start = strtoull(second, NULL, 10);
        unsigned long long off = n->addr - base - start;
        if (off && start)
            snprintf(n->text, sizeof n->text, "%.100s+%llu", first, off);
        else
            snprintf(n->text, sizeof n->text, "%.100s", first);
        return;
    }
    char *colon = strchr(base_name(second), ':');
    if (symbolizer && colon && (colon = strchr(colon + 1, ':')))
        *colon = 0;
    snprintf(n->text, sizeof n->text, "%.90s %.60s", base_name(second), first);
}

static void resolve(void) {
    uintptr_t base = 0;
    dl_iterate_phdr(find_base, &base);
    char exe[512], file[] = "/tmp/mc-names-XXXXXX", command[1200];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int fd = mkstemp(file);
    if (n <= 0 || fd < 0)
        return;
    exe[n] = 0;
    static const char *const tools[] = {"llvm-symbolizer-19", "llvm-symbolizer", "addr2line"};
    for (int k = 0; k < 3; k++) {
        bool symbolizer = k < 2;
        snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", tools[k]);
        if (system(command) != 0)
            continue;
        FILE *in = fopen(file, "w");
        if (!in)
            break;
        for (int i = 0; i < name_count; i++)
            fprintf(in, "%s0x%zx\n", symbolizer ? (names[i].data ? "DATA " : "CODE ") : "",
                    (size_t)(names[i].addr - base - !names[i].data));
        fclose(in);
        snprintf(command, sizeof command, "%s %s '%s' < %s 2>/dev/null", tools[k],
                 symbolizer ? "--no-inlines --functions=short --obj" : "-f -e", exe, file);
        FILE *pipe = popen(command, "r");
        if (!pipe)
            break;
        for (int i = 0; i < name_count; i++) {
            if (!symbolizer && names[i].data)
                names[i].data = false; /* its answer is nonsense; never found again */
            read_answer(pipe, &names[i], base, symbolizer);
        }
        pclose(pipe);
        break;
    }
    close(fd);
    unlink(file);
}

/* -- Printing ---------------------------------------------------------------------------------------- */
static void print_where(uintptr_t pc) {
    const char *name = name_of(pc, false);
    if (name)
        printf("%s", name);
    else if (pc)
        printf("%p", (void *)pc);
}

/* The message, with {0xaddress} replaced by its place in the source. */
static void each_place(const char *message, void (*act)(uintptr_t), bool print) {
    for (const char *s = message; *s; s++) {
        if (*s != '{' || s[1] != '0') {
            if (print)
                putchar(*s);
            continue;
        }
        char *end;
        act((uintptr_t)strtoull(s + 1, &end, 16));
        s = end;
    }
}

static void want_code(uintptr_t pc) { want(pc, false); }

static const char *location(uintptr_t addr, char *text, size_t size) {
    uintptr_t made, freed;
    int owner;
    const char *name = name_of(addr, true);
    if (name)
        snprintf(text, size, "%s", name);
    else if (mc_heap_describe(addr, text, size, &made, &freed))
        *strchrnul(text, '(') = 0;
    else if (mc_on_thread_stack(addr, &owner))
        snprintf(text, size, "T%d's stack %p", owner, (void *)addr);
    else
        snprintf(text, size, "%p", (void *)addr);
    return text;
}

static const char *const order_name[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
static const char *const rmw_name[] = {"xchg", "add", "sub", "and", "or", "xor", "nand"};

static const char *number(uint64_t v, char *text) {
    if (v < 100000 || v > UINT64_MAX - 100000)
        sprintf(text, "%lld", (long long)v);
    else
        sprintf(text, "0x%llx", (unsigned long long)v);
    return text;
}

static void print_event(int number_of, const struct event *e) {
    char at[240], va[32], vb[32], what[420];
    const char *where = e->addr ? location(e->addr, at, sizeof at) : "", *order = order_name[e->order % 6];
    const char *a = number(e->a, va), *b = number(e->b, vb);
    switch (e->kind) {
    case OP_LOAD:
        snprintf(what, sizeof what, "load %s  %s -> %s", order, where, a);
        if (e->note)
            snprintf(what + strlen(what), 60, "  (stale: %d newer)", e->note);
        break;
    case OP_STORE: snprintf(what, sizeof what, "store %s  %s = %s", order, where, a); break;
    case OP_RMW: snprintf(what, sizeof what, "%s %s  %s: %s -> %s", rmw_name[e->note % 7], order, where, a, b); break;
    case OP_CAS:
        if (e->note < 0)
            snprintf(what, sizeof what, "cas %s  %s: %s -> %s", order, where, a, b);
        else
            snprintf(what, sizeof what, "cas %s  %s failed: found %s%s", order, where, a, e->note ? " (stale)" : "");
        break;
    case OP_FENCE: snprintf(what, sizeof what, "fence %s", order); break;
    case OP_LIGHT: snprintf(what, sizeof what, "fence light"); break;
    case OP_HEAVY: snprintf(what, sizeof what, "fence heavy"); break;
    case OP_WAIT:
        snprintf(what, sizeof what, "futex wait  %s == %s%s", where, b, e->note == 1 ? ": sleeps" : "");
        if (e->note != 1)
            snprintf(what + strlen(what), 60, ": no, it is %s", a);
        break;
    case OP_RESUME:
        snprintf(what, sizeof what, "futex wait  %s returns: %s", where, e->note ? "time-out" : "woken");
        break;
    case OP_WAKE:
        snprintf(what, sizeof what, "futex wake  %s, at most %s: ", where, b);
        for (int i = 0; i < MC_THREADS; i++)
            if (e->a >> i & 1)
                snprintf(what + strlen(what), 10, "T%d ", i);
        if (!e->a)
            strcat(what, "nobody sleeps");
        break;
    case OP_RELAX: snprintf(what, sizeof what, "relax"); break;
    case OP_SPAWN: snprintf(what, sizeof what, "starts T%s", a); break;
    case OP_JOIN: snprintf(what, sizeof what, "joined T%s", a); break;
    case OP_END: snprintf(what, sizeof what, "ends"); break;
    case OP_ALLOC: snprintf(what, sizeof what, "alloc %s bytes: %s", a, where); break;
    case OP_FREE: snprintf(what, sizeof what, "free %s", where); break;
    case OP_DEAD: snprintf(what, sizeof what, "dead  %s, %s bytes", where, a); break;
    case OP_LIVE: snprintf(what, sizeof what, "live  %s, %s bytes", where, a); break;
    case OP_CHOOSE: snprintf(what, sizeof what, "choice %s of %s", a, b); break;
    case OP_NOTE: snprintf(what, sizeof what, "-- %s", notes[e->a]); break;
    default: what[0] = 0;
    }
    printf("  %4d %*sT%d  %-*s  ", number_of, e->thread * 2, "", e->thread, 62 - 2 * e->thread, what);
    print_where(e->pc);
    putchar('\n');
}

void mc_report(const char *command) {
    names = calloc(NAMES, sizeof *names);
    int from = event_count > SHOWN ? event_count - SHOWN : 0;
    want(mc.fault.pc, false);
    want(mc.fault.other_pc, false);
    each_place(mc.fault.message, want_code, false);
    for (int i = from; i < event_count; i++) {
        want(events[i].pc, false);
        want(events[i].addr, true);
    }
    resolve();
    if (mc.fault.found) {
        printf("  bug: ");
        each_place(mc.fault.message, print_where, true);
        if (mc.fault.pc)
            printf("\n    at "), print_where(mc.fault.pc);
        if (mc.fault.other_pc)
            printf("\n    other side: "), print_where(mc.fault.other_pc);
        printf("\n");
    }
    printf("  trace:\n");
    if (from)
        printf("       ... %d events before\n", from);
    for (int i = from; i < event_count; i++)
        print_event(i + 1, &events[i]);
    printf("  replay: %s\n", command);
    free(names);
}
