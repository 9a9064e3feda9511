/* cut.c - the power goes at every moment: nothing that was acknowledged is lost, nothing is half there, whatever of the unsynced writes is on the disk.
 *
 *     weft-node-cut [IMAGES [SEED]]
 *
 * A child writes transactions; what it does to the disk is recorded (record.h).  After each record the power is cut: of what was not synced nothing, all, or some is kept,
 * every subset of pages if there are not too many (disk.h), and the directory that is left is verified, opened, and looked through.  Within a round the
 * child is killed and started again, since a page that only the kernel has outlives that, and not a cut.  The next round begins with a directory
 * that a cut has left.  Ends after so many directories.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"
#include "work.h"

enum { LIVES = 3, CALLS = 90, PAGES_ALL = 4 };

static char root[64], image[80], kept[80];
static uint64_t seed, first_seed, images, points, unsynced_most, by_subset;
static struct bytes acks; /* struct ack */

__attribute__((format(printf, 1, 2))) _Noreturn static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\nseed %llu; %s is left as it is\n0 passed, 1 failed\n", (unsigned long long)first_seed, image);
    exit(1);
}

static void told(void *arg, weft_shard *shard, const struct ledger_block *block, const struct ledger_receipt *receipts,
                 size_t count) {
    struct ack out[64];
    (void)arg, (void)block;
    work_acks(shard, receipts, count, out);
    record_ack(out, count * sizeof *out);
}

/* One life: to its end by the recorder. */
static void live(const char *dir) {
    uint64_t calls = disk_random(&seed) % CALLS;
    size_t batch = 1 + disk_random(&seed) % 64;
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        alarm(60);
        record_life(calls);
        work_write(dir, batch, told, NULL);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        die("the child ended by itself: %x", (unsigned)status);
}

static void cut_here(struct disk *disk, enum disk_keep keep, uint64_t bits) {
    char dir[96], why[300];
    disk_cut(disk, keep, bits, &seed, image);
    snprintf(dir, sizeof dir, "%s/data", image);
    images++;
    if (!work_check(dir, (struct ack *)(void *)acks.data, acks.size / sizeof(struct ack), images % 16 == 0, why,
                    sizeof why))
        die("image %llu, point %llu, kept %d %llx: %s", (unsigned long long)images, (unsigned long long)points,
            (int)keep, (unsigned long long)bits, why);
}

/* All images of one moment.  One of them may become the next round's beginning. */
static void cut_all(struct disk *disk, unsigned random_images, bool keep_one) {
    size_t unsynced = disk_unsynced(disk);
    unsynced_most = unsynced > unsynced_most ? unsynced : unsynced_most;
    points++;
    for (uint64_t bits = 0; unsynced && unsynced <= PAGES_ALL && bits >> unsynced == 0; bits++) {
        cut_here(disk, DISK_PAGES, bits);
        by_subset++;
        work_remove(image);
    }
    for (unsigned i = 0; i < 2 + random_images; i++) {
        cut_here(disk, i == 0 ? DISK_NONE : i == 1 ? DISK_ALL : DISK_RANDOM, 0);
        if (keep_one && i == 1 + random_images && rename(image, kept))
            die("rename: %s", strerror(errno));
        work_remove(image);
    }
}

int main(int argc, char **argv) {
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : 800, asked = wanted, rounds = 0, told_of = 0;
    const char *above =
        access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm"; /* what is tested is the order of calls, not the disk below */
    char dir[80];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    first_seed = seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now.tv_nsec << 20 | (uint64_t)now.tv_sec | 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(root, sizeof root, "%s/weft-cut-XXXXXX", above);
    if (!mkdtemp(root))
        die("mkdtemp: %s", strerror(errno));
    snprintf(image, sizeof image, "%s-image", root);
    snprintf(kept, sizeof kept, "%s-kept", root);
    snprintf(dir, sizeof dir, "%s/data", root);
    record_open();
    while (images < wanted) {
        record_begin(root);
        struct disk *disk = disk_of(root);
        for (int i = 0; i < LIVES; i++)
            live(dir);
        uint64_t count = 0, at = 0, chosen;
        for (const struct record *record = NULL; (record = record_next(record));)
            count++;
        chosen = count - 1 - disk_random(&seed) % (count / 3 + 1);
        for (const struct record *record = NULL; (record = record_next(record)) && images < wanted; at++) {
            disk_do(disk, record);
            if (record->kind == RECORD_ACK) {
                bytes_put(&acks, record->data, record->data_size);
                told_of += record->data_size / sizeof(struct ack);
            }
            cut_all(disk, wanted > 10000 ? 8 : 1, at == chosen);
            if (at == chosen)
                break; /* what came afterwards is another history */
        }
        disk_free(disk);
        work_remove(root);
        if (++rounds % 6 == 0 || access(kept, F_OK)) { /* a new store now and then */
            work_remove(kept);
            bytes_clear(&acks);
            if (mkdir(root, 0700))
                die("mkdir: %s", strerror(errno));
        } else if (rename(kept, root)) {
            die("rename: %s", strerror(errno));
        }
        if (images >= wanted && (told_of == 0 || unsynced_most == 0) && wanted < 20 * asked)
            wanted += asked; /* so far nothing was at stake */
    }
    work_remove(root);
    printf("%llu power cuts at %llu moments of %llu rounds, %llu of them every subset of the unsynced pages (at most "
           "%llu at once); "
           "%llu acknowledged transactions, none lost (seed %llu)\n",
           (unsigned long long)images, (unsigned long long)points, (unsigned long long)rounds,
           (unsigned long long)by_subset, (unsigned long long)unsynced_most, (unsigned long long)told_of,
           (unsigned long long)first_seed);
    if (told_of == 0 || unsynced_most == 0)
        die("nothing was at stake: the cuts prove nothing");
    printf("%llu passed, 0 failed\n", (unsigned long long)images);
    bytes_free(&acks);
    return 0;
}
