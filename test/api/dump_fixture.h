/* dump_fixture.h - a dump as text, and dumps made while something goes on. */
#ifndef TEST_API_DUMP_FIXTURE_H
#define TEST_API_DUMP_FIXTURE_H

#include "fixture.h"

#include <fcntl.h>

static char text[1 << 18];

static inline const char *dump(weft_runtime *rt) {
    FILE *file = tmpfile();
    REQUIRE(file);
    CHECK_EQ(weft_dump(rt, fileno(file)), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* That fiber some hundred times, one after the other, while another thread makes one dump after the other. */
struct dump_beside {
    weft_runtime *rt;
    weft_fiber_fn fn;
    void *arg;
    atomic_bool over;
};

static inline void dump_or_run(unsigned index, void *arg) {
    struct dump_beside *beside = arg;
    weft_task *task;
    if (index) {
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        while (!beside->over)
            REQUIRE_EQ(weft_dump(beside->rt, fd), 0);
        close(fd);
        return;
    }
    for (int i = 0; i < (fixture_is_slow() ? 100 : 500); i++) {
        REQUIRE_EQ(weft_fiber_go(beside->rt, beside->fn, beside->arg, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    beside->over = true;
}

static inline void dump_beside(weft_fiber_fn fn, void *arg) {
    struct dump_beside beside = {fixture_begin(NULL), fn, arg, false};
    harness_threads(2, dump_or_run, &beside);
    fixture_end(beside.rt);
}

#endif
