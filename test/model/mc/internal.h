/* internal.h - the seams between the files of the model checker.
 *
 *   main.c     tests and command line; one process a test
 *   search.c   which executions: the choice stack and its modes
 *   engine.c   one execution: threads as fibers
 *   schedule.c who runs next
 *   minimise.c fewer choices for the same bug
 *   memory.c   atomics: what a load may return
 *   fence.c    and fences
 *   view.c     what a thread knows of the others
 *   shared.c   which of them need a choice of thread
 *   shadow.c   plain memory: races, dead memory, undoing of globals
 *   heap.c     wefti_alloc and wefti_map: objects, leaks
 *   hooks.c    the __tsan_* functions that compiled code calls
 *   plat_model.c  plat.h
 *   report.c   traces, symbols
 *   crash.c    signals become bugs of the test
 *
 * None of it is instrumented, and all of it runs on one OS thread; the state is one global, `mc`.
 */
#ifndef MC_INTERNAL_H
#define MC_INTERNAL_H

#include <stddef.h>

#include "mc.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum {
    MC_THREADS = 8,
    MC_LOCS = 4096,    /* atomic locations alive at once */
    MC_RING = 16,      /* messages kept of each; older ones are never read: an under-approximation */
    MC_FOREIGN = 64,   /* cells of a thread's live frames that other threads touched */
    MC_READS = 32,     /* loads remembered between two turns of a spin loop */
    MC_STACK = 256 << 10,
    MC_GRACE = 200, /* times that all threads may spin with nothing changing before it is a livelock */
};

struct mc_view; /* view.h */

/* -- Threads (engine.c) ------------------------------------------------------------------------------ */
enum mc_state { MC_ABSENT, MC_READY, MC_SPUN, MC_ASLEEP, MC_JOINING, MC_DONE };

enum mc_kind {
    OP_NONE,
    OP_LOAD,
    OP_STORE,
    OP_RMW,
    OP_CAS,
    OP_FENCE,
    OP_LIGHT,
    OP_HEAVY,
    OP_WAIT,
    OP_WAKE,
    OP_RELAX,
    /* only in traces and reports */
    OP_SPAWN,
    OP_JOIN,
    OP_END,
    OP_ALLOC,
    OP_FREE,
    OP_DEAD,
    OP_LIVE,
    OP_CHOOSE,
    OP_RESUME,
    OP_NOTE,
};

enum mc_order { MO_RELAXED, MO_CONSUME, MO_ACQUIRE, MO_RELEASE, MO_ACQ_REL, MO_SEQ_CST };
static inline bool mc_acquires(int order) { return order != MO_RELAXED && order != MO_RELEASE; }
static inline bool mc_releases(int order) { return order >= MO_RELEASE; }

struct mc_op {
    uintptr_t addr, pc;
    uint8_t kind, order, size;
};

struct mc_thread {
    void *sp;
    enum mc_state state;
    struct mc_op op; /* the visible operation it is about to do, or is blocked in */
    int joins, wait_result;
    int64_t until;
    struct mc_view *cur, *acq; /* what it knows; what it will know after an acquire fence */
    const struct mc_view *rel; /* what its relaxed stores publish: since the last release fence */
    /* The spin rule: what this thread read since it last relaxed, and at which timestamp. */
    struct {
        uint16_t loc, ts;
    } reads[MC_READS];
    unsigned read_count, relaxes, owed;
    uint64_t changes; /* mc.changes when it relaxed */
    int priority;
    int quiet;
    uintptr_t foreign[MC_FOREIGN];
    int foreign_count;
    void (*fn)(void *);
    void *arg;
    char *stack, *tls;
};

struct mc_choice {
    uint8_t n, c; /* option c of n was taken; n == 0: read from a replay string, not yet met */
};

/* The choices of the execution that is running.  In memory that the parent process sees too: if the child dies, it can
 * still say how to replay that. */
struct mc_list {
    int position, length;
    enum mc_mode mode;
    int bound;
    bool stale_counts, finished; /* finished: the child came to its end */
    struct mc_choice c[];
};

struct mc_fault { /* what went wrong */
    char message[1024];
    uintptr_t pc, other_pc; /* where; and the other side of a race, or 0 */
    bool found;
};

struct mc_engine {
    const struct mc_test *test;
    struct mc_thread t[MC_THREADS];
    bool running, tracing, out_of_sleep;
    int run, last, count; /* whose stack we are on; who did the last visible operation; threads made */
    unsigned ready, raw, spun, asleep; /* sets of threads; raw: ready, but not at a visible operation yet */
    int steps, max_steps, preemptions, grace;
    int timeouts, idle_timeouts, spurious, failures, stale_reads; /* left in this execution */
    int stale_depth, stale_limit, spins;
    bool stale_counts;
    uint64_t changes, grace_changes; /* stores that changed a value */
    int64_t clock;
    struct mc_fault fault;
    void *main_sp;
    struct mc_view *order_view; /* what seq_cst fences share */
    uintptr_t stacks; /* of all modelled threads, one after the other */
    char *tls;        /* the thread-locals of the program */
    size_t tls_size;
    /* search */
    enum mc_mode mode;
    int bound, depth;
    bool bound_hit, replaying, lenient; /* lenient: a replayed choice that does not fit becomes 0 */
    struct mc_list *list;
    unsigned sleeping;
    uint64_t random;
    int change_points[16], lowest, longest;
    uint64_t total_steps, executions, pruned;
};
extern struct mc_engine mc;

/* engine.c */
void *mc_reserve(size_t size); /* zeroed address space, for the life of the process */
void mc_engine_init(void);
void mc_execute(void); /* run the test once, following and extending the choice stack */
int mc_spawn_at(void (*fn)(void *), void *arg, uintptr_t pc);
void mc_join_at(int thread, uintptr_t pc);
void mc_enter(int thread); /* returns when somebody enters the caller's thread again */
_Noreturn void mc_leave(void); /* end this execution */

/* schedule.c */
void mc_decide(void); /* returns in a thread when it is that thread's turn */
/* Each visible operation calls this first; it returns when the operation may be done. */
void mc_point(enum mc_kind kind, uintptr_t addr, int size, int order, uintptr_t pc);
void mc_block(enum mc_state state, uintptr_t pc); /* give up the core until woken */
void mc_unblock(int thread);
void mc_relax(uintptr_t pc);
_Noreturn void mc_fail_at(uintptr_t pc, uintptr_t other_pc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline struct mc_thread *mc_me(void) { return &mc.t[mc.run]; }
static inline bool mc_in_tls(uintptr_t addr) { return addr - (uintptr_t)mc.tls < mc.tls_size; }
static inline bool mc_on_thread_stack(uintptr_t addr, int *owner) {
    *owner = (int)((addr - mc.stacks) / MC_STACK);
    return addr - mc.stacks < (uintptr_t)MC_THREADS * MC_STACK;
}

/* search.c */
int mc_pick(int n, int hint); /* hint: what a random mode prefers, or -1 */
void mc_pick_none(void);      /* choice 0, the only one, because a switch here could not be noticed */
bool mc_is_random(void);
uint64_t mc_draw(void);
int mc_choices_print(char *text, size_t size);
bool mc_choices_parse(const char *text);

/* memory.c */
void mc_memory_init(void);
void mc_memory_reset(void);
/* A thread's life begins, knowing what its parent knows (NULL: the first); another's end is known. */
void mc_memory_spawn(struct mc_thread *child, struct mc_thread *parent);
void mc_memory_join(struct mc_thread *thread, const struct mc_thread *ended);
uint64_t mc_load(uintptr_t addr, int size, int order, uintptr_t pc);
void mc_store(uintptr_t addr, int size, uint64_t value, int order, uintptr_t pc);
enum mc_rmw { RMW_XCHG, RMW_ADD, RMW_SUB, RMW_AND, RMW_OR, RMW_XOR, RMW_NAND };
uint64_t mc_rmw(uintptr_t addr, int size, enum mc_rmw rmw, uint64_t operand, int order, uintptr_t pc);
bool mc_cas(uintptr_t addr, int size, uint64_t *expect, uint64_t value, int order, int fail_order, bool weak,
            uintptr_t pc);
/* Read the latest value, as the kernel does in futex_wait: later loads cannot be older. */
uint64_t mc_read_latest(uintptr_t addr, int size, uintptr_t pc);

bool mc_may_spin_on(const struct mc_thread *thread); /* something it read has a newer value */
void mc_spin_resume(struct mc_thread *thread);       /* ...which it must now read */
uint64_t mc_peek(uintptr_t addr, int size);
/* A plain access to bytes of location `id`, one of those in `cell`: checks that it does not race with the
 * atomic ones.  After a plain write the location takes its value from memory anew, or is forgotten. */
struct mc_cell;
void mc_loc_plain(struct mc_cell *cell, uint32_t id, uintptr_t addr, size_t size, bool write, const char *how,
                  uintptr_t pc);
uint32_t mc_loc_next(uint32_t id);
void mc_locs_forget(struct mc_cell *cell);

/* May another thread notice when this operation happens?  (shared.c) */
bool mc_op_is_shared(const struct mc_op *op);

/* fence.c */
void mc_fence(int order, uintptr_t pc);
void mc_fence_heavy(uintptr_t pc);
void mc_tick(struct mc_thread *thread); /* it has published something: its clock goes on */

/* shared.c */
uint64_t mc_shared_key(uintptr_t addr);
bool mc_shared_has(uint64_t key);
void mc_shared_add(uint64_t key);
bool mc_shared_grow(void);
bool mc_is_exclusive(uintptr_t addr);
void mc_shared_reset(void);

/* shadow.c: the state of 8 bytes of memory */
enum mc_life { LIFE_OK, LIFE_FREED, LIFE_DEAD, LIFE_EDGE, LIFE_WILD };
struct mc_cell {
    uint32_t accesses; /* list of plain accesses, 0: none */
    uint32_t locs;     /* list of atomic locations in these bytes */
    uint8_t life;
    bool touched, foreign; /* foreign: in a stack, and touched by another thread than its owner */
};
void mc_shadow_init(void);
void mc_shadow_reset(void);
void mc_plain(uintptr_t addr, size_t size, bool write, uintptr_t pc);
/* Check an atomic access against the plain ones, and give the cell. */
struct mc_cell *mc_cell_atomic(uintptr_t addr, int size, bool write, uintptr_t pc);
struct mc_cell *mc_cell_look(uintptr_t addr); /* without touching it */
void mc_mark(uintptr_t addr, size_t size, enum mc_life life);
void mc_check_quiescent(uintptr_t addr, size_t size, uintptr_t pc); /* as if all of it were written now */
/* The running thread's frames below `end` have returned. */
void mc_frames_gone(uintptr_t end, uintptr_t pc);

/* minimise.c */
void mc_minimise(void);

/* heap.c */
void mc_heap_init(void);
void mc_heap_reset(void);
void mc_heap_leaks(void);
void *mc_heap_alloc(size_t size, bool pages, uintptr_t pc);
void mc_heap_free(void *memory, size_t size, bool pages, uintptr_t pc);
bool mc_heap_is_wild(uintptr_t addr);
bool mc_in_heap(uintptr_t addr);
bool mc_in_map(uintptr_t addr);
/* Describe the object at an address; false if there is none.  The sites are return addresses. */
bool mc_heap_describe(uintptr_t addr, char *text, size_t size, uintptr_t *made, uintptr_t *freed);
bool mc_heap_place(uintptr_t addr, uintptr_t *made, size_t *offset); /* the site and offset of its object */
void mc_plat_reset(void);

/* report.c */
void mc_trace(enum mc_kind kind, int order, uintptr_t addr, int size, uint64_t a, uint64_t b, int note, uintptr_t pc);
void mc_trace_reset(void);
void mc_report(const char *command);

/* crash.c */
void mc_watch_crashes(void);
#endif
