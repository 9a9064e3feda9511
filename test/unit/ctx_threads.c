/* ctx_threads.c - contexts that threads hand to each other. */
#define _GNU_SOURCE
#include "ctx.h"

/* -- Threads --------------------------------------------------------------------------------------------- */

/* A context that goes home to whoever continued it, with its registers unchanged. */
struct job {
    struct side side;
    uint64_t random, steps;
    pthread_t seen;
};
struct visit {
    struct job *job;
    struct side *host;
};
/* A function of its own, since the compiler may take a thread for the same before and after a switch. */
static NOINLINE pthread_t this_thread(void) {
    __asm__ volatile("" ::: "memory");
    return pthread_self();
}
static void job_entry(void *pass) {
    struct visit *visit = pass;
    struct job *job = visit->job;
    arrived(&job->side);
    for (;;) {
        struct regs mine;
        job->steps++;
        job->seen = this_thread();
        regs_random(&mine, &job->random);
        visit = go_regs(&job->side, visit->host, NULL, &mine);
        regs_check(&mine);
    }
}
static void job_step(struct job *job) {
    struct side host;
    struct regs mine;
    uint64_t random = (uintptr_t)&host;
    side_is_thread(&host);
    regs_random(&mine, &random);
    go_regs(&host, &job->side, &(struct visit){job, &host}, &mine);
    regs_check(&mine);
    CHECK(pthread_equal(job->seen, this_thread()));
}
static void *job_step_thread(void *job) {
    job_step(job);
    return NULL;
}

TEST(resumed_by_a_new_thread_each_time, "J15") {
    struct job job = {.random = harness_seed()};
    side_make(&job.side, job_entry);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        REQUIRE_EQ(pthread_create(&thread, NULL, job_step_thread, &job), 0);
        pthread_join(thread, NULL); /* the thread that saved it is gone */
        job_step(&job);
    }
    CHECK_EQ(job.steps, 40);
    side_free(&job.side);
}

/* Two threads, turn by turn. */
static sem_t turns[2];
enum { TURNS = 2000 };
static void relay(unsigned index, void *job) {
    for (int i = 0; i < TURNS; i++) {
        while (sem_wait(&turns[index]))
            continue;
        job_step(job);
        sem_post(&turns[1 - index]);
    }
}
TEST(resumed_by_two_threads_in_turn, "J15") {
    struct job job = {.random = harness_seed()};
    side_make(&job.side, job_entry);
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    harness_threads(2, relay, &job);
    CHECK_EQ(job.steps, 2 * TURNS);
    side_free(&job.side);
}

/* Four threads take contexts from one list as a scheduler would. */
enum { JOBS = 16 };
static struct {
    pthread_mutex_t lock;
    struct job job[JOBS];
    unsigned free[JOBS], count;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
static void pool_work(unsigned index, void *arg) {
    uint64_t random = *(uint64_t *)arg + index;
    for (int i = 0, rounds = harness_is_slow() ? 300 : 5000; i < rounds; i++) {
        pthread_mutex_lock(&pool.lock);
        unsigned at = (unsigned)(harness_random(&random) % pool.count), job = pool.free[at];
        pool.free[at] = pool.free[--pool.count];
        pthread_mutex_unlock(&pool.lock);
        job_step(&pool.job[job]);
        pthread_mutex_lock(&pool.lock);
        pool.free[pool.count++] = job;
        pthread_mutex_unlock(&pool.lock);
    }
}
TEST(resumed_by_many_threads, "J15 J16") {
    uint64_t seed = harness_seed(), steps = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        pool.job[i].random = seed + i;
        pool.free[pool.count++] = i;
        side_make(&pool.job[i].side, job_entry);
    }
    harness_threads(4, pool_work, &seed);
    for (unsigned i = 0; i < JOBS; i++) {
        steps += pool.job[i].steps;
        side_free(&pool.job[i].side);
    }
    CHECK_EQ(steps, 4 * (harness_is_slow() ? 300 : 5000));
}

/* What belongs to the thread stays with it: errno, thread-locals, the signal mask.  A context that goes on elsewhere
 * finds those of the other thread, and has to look them up anew (the compiler may have kept the address of the old). */
static _Thread_local int local;
static NOINLINE void local_set(int value) {
    __asm__ volatile("" ::: "memory");
    local = errno = value;
}
static NOINLINE int local_get(void) {
    __asm__ volatile("" ::: "memory");
    return local == errno ? local : -1;
}
static int locals_found[3];
static bool masks_found[3];
static struct side *locals_host;
static void locals_entry(void *pass) {
    (void)pass;
    arrived(&away);
    for (int i = 0; i < 3; i++) {
        locals_found[i] = local_get();
        masks_found[i] = usr2_blocked();
        local_set(local_get() + 1);
        go(&away, locals_host, NULL);
    }
    abort();
}
static void *locals_thread(void *arg) {
    struct side host;
    sigset_t set;
    side_is_thread(&host);
    locals_host = &host;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    local_set(100);
    go(&host, &away, NULL);
    CHECK_EQ(local_get(), 101);
    CHECK(usr2_blocked());
    return arg;
}
TEST(thread_locals_are_the_threads, "J15") {
    pthread_t thread;
    side_is_thread(&home);
    side_make(&away, locals_entry);
    locals_host = &home;
    local_set(5);
    go(&home, &away, NULL);
    CHECK_EQ(local_get(), 6);
    REQUIRE_EQ(pthread_create(&thread, NULL, locals_thread, NULL), 0);
    pthread_join(thread, NULL);
    locals_host = &home;
    local_set(7);
    go(&home, &away, NULL);
    CHECK_EQ(local_get(), 8);
    CHECK_EQ(locals_found[0], 5);
    CHECK_EQ(locals_found[1], 100);
    CHECK_EQ(locals_found[2], 7);
    CHECK_EQ(masks_found[0] * 4 + masks_found[1] * 2 + masks_found[2], 2);
    side_free(&away);
}

/* pthread_exit from within a context unwinds to the first frame and ends the thread there. */
static bool cleaned;
static void clean(void *arg) {
    (void)arg;
    cleaned = true;
}
static void thread_exit_entry(void *pass) {
    pthread_cleanup_push(clean, NULL);
    pthread_exit(pass);
    pthread_cleanup_pop(0);
}
static void *thread_exit_thread(void *arg) {
    wefti_ctx_switch(&home.ctx, &away.ctx, arg);
    abort();
}
TEST(thread_exit_in_a_context, "J16") {
    PLAIN_BUILD_ONLY("does not expect a thread to end on a foreign stack");
    pthread_t thread;
    void *result;
    side_make(&away, thread_exit_entry);
    REQUIRE_EQ(pthread_create(&thread, NULL, thread_exit_thread, &cleaned), 0);
    REQUIRE_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ(result, &cleaned);
    CHECK(cleaned);
    side_free(&away);
}

/* The same for the whole process, and for a fork, which continues on the same stack in the child. */
static void exit_entry(void *pass) {
    (void)pass;
    arrived(&away);
    exit(21);
}
static void at_exit(void) { _exit(42); }
static void fork_entry(void *pass) {
    arrived(&away);
    fflush(NULL);
    *(pid_t *)pass = fork();
    go(&away, &home, NULL);
    abort();
}
TEST(exit_and_fork_in_a_context, "J16") {
    pid_t child = -1;
    int status;
    side_is_thread(&home);
    side_make(&away, fork_entry);
    go(&home, &away, &child);
    REQUIRE_GE(child, 0);
    side_free(&away);
    if (child == 0) {
        side_make(&away, exit_entry);
        atexit(at_exit);
        go(&home, &away, NULL);
        _exit(1);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    REQUIRE(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
}
