/* news.c - the same news to all (broadcast), the newest only (watch), a reading room (rwlock), an event that opens it, a steady beat. */
#include <stdio.h>
#include <weft/weft.h>

/* -- Every reader gets every headline, unless it falls behind: then it is told how many it has missed. */

struct paper {
    weft_broadcast *headlines;
    weft_subscriber *reader;
    weft_event printed;
    int first; /* what the reader saw first */
    uint64_t skipped; /* and how many it had missed by then */
};

static int read_late(void *arg) {
    struct paper *paper = arg;
    int headline, read = 0;
    uint64_t missed;
    if (weft_event_wait(&paper->printed, WEFT_NEVER) != 0)
        return -1;
    while (weft_subscriber_recv(paper->reader, &headline, &missed, WEFT_NEVER) == 0) {
        if (read++ == 0)
            paper->first = headline, paper->skipped = missed;
    }
    return read;
}

static int broadcast(void) {
    struct paper paper = {.printed = WEFT_EVENT_INIT};
    weft_task *reader;
    weft_result result;
    if (weft_broadcast_create(sizeof(int), 4, &paper.headlines) != 0 ||
        weft_subscribe(paper.headlines, &paper.reader) != 0 || weft_fiber_go(NULL, read_late, &paper, &reader) != 0)
        return -1;
    for (int i = 1; i <= 10; i++)
        weft_broadcast_send(paper.headlines, &i);
    weft_broadcast_close(paper.headlines);
    weft_event_set(&paper.printed);
    if (weft_join(reader, &result, WEFT_NEVER) != 0)
        return -1;
    printf("10 headlines, room for 4: missed %llu, first read %d\n", (unsigned long long)paper.skipped, paper.first);
    weft_task_drop(reader);
    weft_unsubscribe(paper.reader);
    weft_broadcast_drop(paper.headlines);
    return 0;
}

/* -- A setting: who looks sees the newest, and waits only for a change. */

static int follow(void *arg) {
    weft_watch *level = arg;
    uint64_t version = 0;
    int value = 0;
    while (weft_watch_wait(level, &version, &value, WEFT_NEVER) == 0)
        ;
    return value;
}

static int watch(void) {
    weft_watch *level;
    weft_task *follower;
    weft_result result;
    if (weft_watch_create(sizeof(int), NULL, &level) != 0 || weft_fiber_go(NULL, follow, level, &follower) != 0)
        return -1;
    for (int i = 1; i <= 1000; i++)
        weft_watch_set(level, &i);
    weft_watch_close(level);
    if (weft_join(follower, &result, WEFT_NEVER) != 0)
        return -1;
    printf("the level is %d at the end\n", (int)(intptr_t)result.value);
    weft_task_drop(follower);
    weft_watch_drop(level);
    return 0;
}

/* -- Readers together, a writer alone; ten times, one beat apart. */

struct room {
    weft_rwlock lock;
    int pages[2]; /* always the same */
    weft_mutex count;
    int torn;
};

static int read_pages(void *arg) {
    struct room *room = arg;
    weft_interval beat;
    weft_interval_init(&beat, 100000);
    for (int i = 0; i < 10; i++) {
        if (weft_interval_wait(&beat) < 0 || weft_rwlock_read(&room->lock, WEFT_NEVER) != 0)
            return -1;
        bool torn = room->pages[0] != room->pages[1];
        weft_rwlock_read_unlock(&room->lock);
        if (weft_mutex_lock(&room->count, WEFT_NEVER) != 0)
            return -1;
        room->torn += torn;
        weft_mutex_unlock(&room->count);
    }
    return 0;
}

static int rwlock(void) {
    struct room room = {.lock = WEFT_RWLOCK_INIT, .count = WEFT_MUTEX_INIT};
    weft_task *reader[3];
    for (int i = 0; i < 3; i++)
        if (weft_fiber_go(NULL, read_pages, &room, &reader[i]) != 0)
            return -1;
    for (int i = 0; i < 100; i++) {
        if (weft_rwlock_write(&room.lock, WEFT_NEVER) != 0)
            return -1;
        room.pages[0]++;
        weft_yield();
        room.pages[1]++;
        weft_rwlock_write_unlock(&room.lock);
    }
    for (int i = 0; i < 3; i++) {
        if (weft_join(reader[i], NULL, WEFT_NEVER) != 0)
            return -1;
        weft_task_drop(reader[i]);
    }
    printf("%d pages, %d torn\n", room.pages[0], room.torn);
    return 0;
}

static int all(void *arg) {
    (void)arg;
    return broadcast() || watch() || rwlock() ? -1 : 0;
}

int main(void) { return weft_fiber_run(NULL, all, NULL, NULL) < 0; }
