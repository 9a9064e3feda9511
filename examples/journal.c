/* journal.c - an unbounded channel: fibers write to a journal without ever waiting, a poll task reads it, and it ends when it is closed. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

struct entry {
    int writer, number;
};

/* -- The reader: a poll task, woken when something has come. */

struct reader {
    weft_chan *journal;
    weft_wait wait;
    int entries, out_of_order, last[3];
};

static weft_poll read_journal(weft_task *self, void *state) {
    struct reader *reader = *(struct reader **)state;
    struct entry entry;
    int error;
    while ((error = weft_chan_recv_poll(reader->journal, self, &reader->wait, &entry)) == 0) {
        reader->entries++;
        reader->out_of_order += entry.number != ++reader->last[entry.writer];
    }
    if (error == -EAGAIN)
        return WEFT_PENDING;
    return weft_done(self, error == -EPIPE ? 0 : error, NULL); /* closed, and all was read */
}

static void end_reading(void *state) { weft_wait_end(&(*(struct reader **)state)->wait); }

/* -- Writers: one by one, or many at once. */

struct writer {
    weft_chan *journal;
    int index;
};

static int write_entries(void *arg) {
    struct writer *writer = arg;
    struct entry batch[10];
    for (int i = 0; i < 1000; i += 10) {
        for (int j = 0; j < 10; j++)
            batch[j] = (struct entry){writer->index, i + j + 1};
        if (weft_chan_send_many(writer->journal, batch, 10, WEFT_NOW) != 10) /* there is always room */
            return -ENOMEM;
    }
    return 0;
}

static int keep_journal(void *arg) {
    struct reader reader = {.journal = arg}, *state = &reader;
    struct writer writer[3];
    weft_task *reading;
    weft_spec spec = WEFT_SPEC_INIT;
    int status;
    spec.poll = read_journal;
    spec.state = &state;
    spec.state_size = sizeof state;
    spec.drop = end_reading;
    if (weft_spawn(NULL, &spec, &reading) < 0)
        return -1;
    WEFT_NURSERY(n, &status) {
        for (int i = 0; i < 3; i++) {
            writer[i] = (struct writer){arg, i};
            weft_nursery_go(&n, write_entries, &writer[i], NULL);
        }
    }
    weft_chan_close(arg);
    int error = weft_join(reading, NULL, WEFT_NEVER);
    weft_task_drop(reading);
    printf("%d entries, %d out of order\n", reader.entries, reader.out_of_order);
    return status ? status : error;
}

int main(void) {
    weft_chan *journal;
    if (weft_chan_create(sizeof(struct entry), WEFT_UNBOUNDED, &journal) < 0)
        return 1;
    int error = weft_fiber_run(NULL, keep_journal, journal, NULL);
    return weft_chan_destroy(journal) < 0 || error < 0;
}
