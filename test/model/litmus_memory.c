/* litmus_memory.c - the checker's own view of memory (mc/shadow.c): what is live, and who may still be using what is freed. */
#include "litmus.h"

static _Atomic int x;
enum { CELL = 8, LINE = 64, CHUNK = 1 << 16, CHANGES = 3 };

/* -- Lives: of cells, of lines, of chunks ------------------------------------------------------------------------ */

/* Ranges begin and end here: in the midst of a line, at its ends, at those of a chunk. */
static const unsigned edge[] = {0, CELL, LINE, LINE + 2 * CELL, 3 * LINE, CHUNK - CELL, CHUNK, 2 * CHUNK};
enum { PARTS = sizeof edge / sizeof *edge - 1 };

/* The first and the last of each part, which are all that a mistake about its ends can spare. */
static void check_parts(const char *memory, const bool *dead) {
    for (int i = 0; i < PARTS; i++)
        mc_assert(mc_is_dead(memory + edge[i]) == dead[i] && mc_is_dead(memory + edge[i + 1] - 1) == dead[i]);
}

static void change_some(char *memory, bool *dead) {
    int from = mc_choose(PARTS), to = from + 1 + mc_choose(PARTS - from);
    bool die = mc_choose(2);
    if (die)
        wefti_memory_dead(memory + edge[from], edge[to] - edge[from]);
    else
        wefti_memory_live(memory + edge[from], edge[to] - edge[from]);
    for (int i = from; i < to; i++)
        dead[i] = die;
}

/* Whatever dies and lives again, in whatever order, is as dead as what was said of it last; and in the next execution all live. */
MC_TEST(litmus_lives) {
    char *memory = wefti_map(2 * CHUNK);
    bool dead[PARTS] = {false};
    check_parts(memory, dead);
    for (int i = 0; i < CHANGES; i++) {
        change_some(memory, dead);
        check_parts(memory, dead);
    }
    wefti_unmap(memory, 2 * CHUNK);
}

/* Of more chunks than are kept by themselves. */
MC_TEST(litmus_dead_much) {
    enum { MANY = 512 };
    char *memory = wefti_map((size_t)MANY * CHUNK);
    bool die = mc_choose(2) == 0;
    if (die)
        wefti_memory_dead(memory, (size_t)MANY * CHUNK);
    for (size_t i = 0; i < MANY; i++)
        mc_assert(mc_is_dead(memory + i * CHUNK) == die);
    wefti_unmap(memory, (size_t)MANY * CHUNK);
}

/* Each kind of access, by who has just made the same. */
static void use_dead_line(void) {
    char *p = wefti_alloc(3 * LINE);
    p[LINE] = 1;
    wefti_memory_dead(p + LINE, LINE);
    p[LINE] = 1;
}
MC_CASE(litmus_dead_line, use_dead_line, .expect = "use of dead memory: plain write");

MC_TEST(litmus_dead_line_atomic, .expect = "use of dead memory: atomic read") {
    _Atomic int *p = wefti_alloc(3 * LINE);
    store_relaxed(p + LINE / sizeof *p, 1);
    wefti_memory_dead((char *)p + LINE, LINE);
    load_relaxed(p + LINE / sizeof *p);
}

MC_TEST(litmus_dead_rest_of_line, .expect = "object 0 + 80 (") {
    char *p = wefti_alloc(3 * LINE);
    wefti_memory_dead(p, 3 * LINE);
    wefti_memory_live(p + LINE, 2 * CELL);
    p[LINE + 2 * CELL - 1] = 1;
    p[LINE + 2 * CELL] = 1;
}

MC_TEST(litmus_freed_line, .expect = "use after free: plain write") {
    char *p = wefti_alloc(3 * LINE);
    wefti_free(p, 3 * LINE);
    p[2 * LINE - 1] = 1;
}

MC_TEST(litmus_freed_chunk, .expect = "use after free: plain write") {
    char *p = wefti_alloc(3 * CHUNK);
    wefti_free(p, 3 * CHUNK);
    p[CHUNK + CHUNK / 2] = 1;
}

/* What lives anew may hold anything: an atomic of another size. */
static void live_anew(void) {
    char *p = wefti_alloc(2 * LINE);
    store_relaxed((_Atomic uint32_t *)(void *)p, 1);
    wefti_memory_live(p, (size_t)mc_arg());
    store_relaxed((_Atomic uint64_t *)(void *)p, 1);
    wefti_free(p, 2 * LINE);
}
MC_CASE(litmus_line_anew, live_anew, .arg = LINE);
MC_CASE(litmus_cell_anew, live_anew, .arg = CELL);

/* -- Freed while another's use of it is not known to be over ----------------------------------------------------- */

static void write_and_tell(void *p) {
    *(char *)p = 1;
    store_relaxed(&x, 1);
}

static void wait_for_x(void) {
    while (!load_relaxed(&x))
        wefti_relax();
}

#define AT(size, at) ((intptr_t)(size) << 32 | (at))

static void free_unordered(void) {
    size_t size = (size_t)(mc_arg() >> 32), at = (size_t)(mc_arg() & 0xffffffff);
    char *p = wefti_alloc(size);
    mc_spawn(write_and_tell, p + at);
    wait_for_x();
    wefti_free(p, size);
}
MC_CASE(litmus_free_first_line, free_unordered, .arg = AT(200, 63), .expect = "data race: freeing");
MC_CASE(litmus_free_mid_line, free_unordered, .arg = AT(200, 100), .expect = "data race: freeing");
MC_CASE(litmus_free_last_line, free_unordered, .arg = AT(200, 199), .expect = "data race: freeing");
MC_CASE(litmus_free_much, free_unordered, .arg = AT(2 * CHUNK, CHUNK + 1), .expect = "data race: freeing");

/* ... of which all lines were used, too. */
MC_TEST(litmus_free_much_used, .expect = "data race: freeing") {
    char *p = wefti_alloc(2 * CHUNK);
    for (size_t at = 0; at < 2 * CHUNK; at += LINE)
        p[at] = 1;
    mc_spawn(write_and_tell, p + CHUNK + LINE + CELL);
    wait_for_x();
    wefti_free(p, 2 * CHUNK);
}

/* What dies beside it, in the same line, is none of its business. */
MC_TEST(litmus_dead_beside) {
    char *p = wefti_alloc(LINE);
    size_t at = mc_choose(2) ? 0 : 3 * CELL;
    int t = mc_spawn(write_and_tell, p + at);
    wait_for_x();
    wefti_memory_dead(p + CELL, 2 * CELL);
    mc_join(t);
    wefti_memory_live(p + CELL, 2 * CELL);
    wefti_free(p, LINE);
}

/* ... nor what lies below and above something large. */
MC_TEST(litmus_free_much_beside) {
    char *below = wefti_alloc(LINE), *p = wefti_alloc(2 * CHUNK), *above = wefti_alloc(LINE);
    int t = mc_spawn(write_and_tell, mc_choose(2) ? below : above);
    wait_for_x();
    wefti_free(p, 2 * CHUNK);
    mc_join(t);
    wefti_free(above, LINE);
    wefti_free(below, LINE);
}
