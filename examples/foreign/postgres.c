/* postgres.c - libpq in fibers: its asynchronous calls, and weft_fd_wait where it would wait.  usage: postgres CONNECTION-STRING */
#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

static int open_database(const char *where, weft_deadline until, PGconn **out) {
    PGconn *db = PQconnectStart(where);
    int error = db && PQstatus(db) != CONNECTION_BAD ? 0 : -ECONNREFUSED;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (!error && state != PGRES_POLLING_OK) {
        int ready = weft_fd_wait(PQsocket(db), state == PGRES_POLLING_READING ? WEFT_FD_READ : WEFT_FD_WRITE, until);
        error = ready < 0 ? ready : (state = PQconnectPoll(db)) == PGRES_POLLING_FAILED ? -ECONNREFUSED : 0;
    }
    if (error)
        PQfinish(db);
    else
        *out = db;
    return error;
}

/* One statement; its result, to be cleared by the caller.  After an error the connection is of no more use. */
static int query(PGconn *db, const char *text, weft_deadline until, PGresult **out) {
    PGresult *next, *result = NULL;
    int ready = PQsetnonblocking(db, 1) || !PQsendQuery(db, text) ? -EIO : 0, left;
    while (ready >= 0 && (left = PQflush(db))) /* it may have to read before it can write */
        ready = left < 0 ? -EIO : weft_fd_wait(PQsocket(db), WEFT_FD_READ | WEFT_FD_WRITE, until);
    while (ready >= 0) {
        while (ready >= 0 && PQisBusy(db)) {
            ready = weft_fd_wait(PQsocket(db), WEFT_FD_READ, until);
            if (ready >= 0 && !PQconsumeInput(db))
                ready = -EIO;
        }
        if (ready < 0 || !(next = PQgetResult(db)))
            break;
        PQclear(result);
        result = next;
    }
    if (ready < 0)
        PQclear(result);
    else
        *out = result;
    return ready < 0 ? ready : 0;
}

struct job {
    const char *where, *text;
    int64_t patience;
};

/* A connection of its own; the one value of the one row, as a number. */
static int ask(void *arg) {
    const struct job *job = arg;
    weft_deadline until = weft_after(job->patience);
    PGconn *db;
    PGresult *result;
    int value = open_database(job->where, until, &db);
    if (value)
        return value;
    if (!(value = query(db, job->text, until, &result))) {
        value = PQntuples(result) == 1 ? atoi(PQgetvalue(result, 0, 0)) : -EIO;
        PQclear(result);
    }
    PQfinish(db);
    return value;
}

static int all(void *where) {
    struct job square[10], slow = {where, "select pg_sleep(60)", SECOND / 10};
    char text[10][64];
    weft_task *task[10];
    int sum = 0;
    for (int i = 0; i < 10; i++) { /* ten at once, on as many workers as there are */
        snprintf(text[i], sizeof text[i], "select %d * %d from pg_sleep(0.1)", i, i);
        square[i] = (struct job){where, text[i], 20 * SECOND};
        if (weft_fiber_go(NULL, ask, &square[i], &task[i]) < 0)
            return -ENOMEM;
    }
    for (int i = 0; i < 10; i++) {
        weft_result result = {0, NULL};
        if (weft_join(task[i], &result, WEFT_NEVER) < 0 || result.status < 0)
            printf("query %d: %s\n", i, weft_strerror(result.status));
        sum += (int)(intptr_t)result.value; /* what it returned */
        weft_task_drop(task[i]);
    }
    printf("sum of ten squares: %d\n", sum);
    printf("a slow query: %s\n", ask(&slow) == -ETIMEDOUT ? "too late" : "?");
    struct job count = {where, "select sum(n) from numbers", 20 * SECOND}, add = count;
    add.text = "insert into numbers values (58) returning n";
    printf("numbers: %d", ask(&count));
    printf(", then %d more\n", ask(&add));
    return 0;
}

int main(int argc, char **argv) {
    weft_config config = WEFT_CONFIG_INIT;
    config.stack_size = 256 << 10; /* libpq has large buffers on its stack */
    if (argc != 2)
        return fprintf(stderr, "usage: postgres CONNECTION-STRING\n"), 2;
    return weft_fiber_run(&config, all, argv[1], NULL) < 0;
}
