/* redis.c - hiredis in fibers: commands and replies in its buffers, and weft_fd_wait where it would wait.  usage: redis SOCKET */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

/* Send a command, and wait for its reply, which the caller frees.  After an error the connection is of no more use. */
__attribute__((format(printf, 4, 5))) static int redis(redisContext *db, weft_deadline until, redisReply **out,
                                                       const char *format, ...) {
    va_list args;
    void *reply = NULL;
    int sent = 0, ready = 0;
    va_start(args, format);
    if (redisvAppendCommand(db, format, args) != REDIS_OK)
        ready = -ENOMEM;
    va_end(args);
    while (ready >= 0 && !sent) {
        ready = weft_fd_wait(db->fd, WEFT_FD_WRITE, until);
        if (ready >= 0 && redisBufferWrite(db, &sent) != REDIS_OK)
            ready = -EIO;
    }
    while (ready >= 0 && !reply) {
        ready = weft_fd_wait(db->fd, WEFT_FD_READ, until);
        if (ready >= 0 && (redisBufferRead(db) != REDIS_OK || redisGetReplyFromReader(db, &reply) != REDIS_OK))
            ready = -EIO;
    }
    if (ready >= 0)
        *out = reply;
    return ready < 0 ? ready : 0;
}

/* A hundred times one more. */
static int count(void *where) {
    redisContext *db = redisConnectUnixNonBlock(where);
    weft_deadline until = weft_after(20 * SECOND);
    int error = db && !db->err ? 0 : -ECONNREFUSED;
    for (int i = 0; i < 100 && !error; i++) {
        redisReply *reply;
        if (!(error = redis(db, until, &reply, "INCR weft:count")))
            freeReplyObject(reply);
    }
    redisFree(db);
    return error;
}

/* Whatever is put into a list, within a time. */
static int receive(redisContext *db, const char *list, int64_t patience) {
    redisReply *reply;
    int error = redis(db, weft_after(patience), &reply, "BLPOP %s 0", list);
    if (!error) {
        printf("%s: %s\n", list, reply->elements == 2 ? reply->element[1]->str : "?");
        freeReplyObject(reply);
    } else {
        printf("%s: %s\n", list, error == -ETIMEDOUT ? "too late" : weft_strerror(error));
    }
    return error;
}

static int all(void *where) {
    weft_task *task[10];
    for (int i = 0; i < 10; i++)
        if (weft_fiber_go(NULL, count, where, &task[i]) < 0)
            return -ENOMEM;
    for (int i = 0; i < 10; i++) {
        weft_result result = {0, NULL};
        if (weft_join(task[i], &result, WEFT_NEVER) < 0 || result.status < 0)
            printf("fiber %d: %s\n", i, weft_strerror(result.status));
        weft_task_drop(task[i]);
    }
    redisContext *db = redisConnectUnixNonBlock(where);
    redisReply *reply;
    int error = redis(db, weft_after(20 * SECOND), &reply, "GET weft:count");
    if (!error) {
        printf("counted to %s\n", reply->str);
        freeReplyObject(reply);
    }
    receive(db, "weft:words", 20 * SECOND);
    receive(db, "weft:nothing", SECOND / 10);
    redisFree(db);
    return error;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return fprintf(stderr, "usage: redis SOCKET\n"), 2;
    return weft_fiber_run(NULL, all, argv[1], NULL) < 0;
}
