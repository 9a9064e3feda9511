/* kill.c - a node killed at random moments: nothing that was acknowledged is lost, nothing is half there.
 *
 *     weft-node-kill [ROUNDS [SEED]]
 *
 * A child writes transactions and tells of each that became durable through a pipe; the parent kills it (SIGKILL), verifies the directory, opens it, and looks for
 * everything it was told of.  The next round goes on with the same directory; every 20th begins a new one, so that kills hit the making too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

enum { BATCH_MAX = 64, ROUNDS_A_DIR = 20 };

static char dir[64];
static struct bytes acks; /* struct ack: since the directory was made */
static uint64_t seed;

static uint64_t next_random(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((format(printf, 1, 2))) _Noreturn static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n%s is left as it is\n0 passed, 1 failed\n", dir);
    exit(1);
}

/* -- The child ------------------------------------------------------------------------------------------------------- */

static void told(void *arg, weft_shard *shard, const struct ledger_block *block, const struct ledger_receipt *receipts,
                 size_t count) {
    struct ack out[BATCH_MAX];
    (void)block;
    work_acks(shard, receipts, count, out);
    for (size_t i = 0; i < count; i++)
        if (write(*(int *)arg, &out[i], sizeof *out) != sizeof *out) /* less than PIPE_BUF: whole or not */
            _exit(3);
}

/* -- The parent ------------------------------------------------------------------------------------------------------ */

/* Read what the child tells until it has ended.  It is killed so many microseconds after it began, or after it told of the first. */
static void listen(int pipe, pid_t child, int64_t wait, bool at_work) {
    bool killed = false;
    int64_t kill_at = now_us() + (at_work ? 10000000 : wait);
    for (;;) {
        int64_t left = killed ? 1000000 : kill_at - now_us();
        struct pollfd poller = {pipe, POLLIN, 0};
        if (!killed && left <= 0) {
            kill(child, SIGKILL);
            killed = true;
            continue;
        }
        if (poll(&poller, 1, (int)(left / 1000) + 1) <= 0)
            continue;
        struct ack batch[256];
        ssize_t size = read(pipe, batch, sizeof batch);
        if (size == 0)
            return;
        if (size < 0 || size % (ssize_t)sizeof *batch)
            die("the pipe gave %zd bytes", size);
        bytes_put(&acks, batch, (size_t)size);
        kill_at = at_work ? now_us() + wait : kill_at;
        at_work = false;
    }
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now_us() | 1, told_of = 0;
    seed = first;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned round = 0; round < rounds; round++) {
        if (round % ROUNDS_A_DIR == 0) {
            if (round)
                work_remove(dir);
            told_of += acks.size / sizeof(struct ack);
            bytes_clear(&acks);
            strcpy(dir, "/tmp/weft-kill-XXXXXX");
            if (!mkdtemp(dir))
                die("mkdtemp: %s", strerror(errno));
        }
        int ends[2], status;
        char why[300];
        if (pipe(ends))
            die("pipe: %s", strerror(errno));
        int64_t wait = (int64_t)(next_random() % (round % 3 ? 60000 : 8000));
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            work_write(dir, BATCH_MAX, told, &ends[1]);
        }
        close(ends[1]);
        listen(ends[0], child, wait, round % 3 != 0);
        close(ends[0]);
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            die("round %u, seed %llu: the child ended by itself: %x", round, (unsigned long long)first,
                (unsigned)status);
        if (!work_check(dir, (struct ack *)(void *)acks.data, acks.size / sizeof(struct ack), false, why, sizeof why))
            die("round %u: %s", round, why);
    }
    told_of += acks.size / sizeof(struct ack);
    work_remove(dir);
    bytes_free(&acks);
    printf("%u kills, %llu acknowledged transactions, none lost (seed %llu)\n", rounds, (unsigned long long)told_of,
           (unsigned long long)first);
    if (told_of == 0)
        die("nothing was acknowledged: the kills prove nothing");
    printf("%u passed, 0 failed\n", rounds);
    return 0;
}
