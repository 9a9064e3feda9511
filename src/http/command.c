/* command.c - an HTTP request as a command of a process: a fiber that fetches, and completes the command with the whole answer. */
#include <errno.h>
#include <string.h>
#include <weft/http.h>

#include "process/helper.h"

#define BODY_MAX (1u << 20) /* unless the command says otherwise */
#define LARGEST ((size_t)1 << 31) /* with its head it is less than 4 GiB, the largest message */
#define ROOM_FIRST 4096u /* bytes for a body of unknown length, at first */

/* An answer that grows. */
struct answer {
    unsigned char *bytes; /* of wefti_large_new */
    size_t used, room;
};

static int reserve(struct answer *answer, size_t more) {
    if (answer->room - answer->used >= more)
        return 0;
    size_t room = 2 * answer->room > answer->used + more ? 2 * answer->room : answer->used + more;
    unsigned char *larger = wefti_large_new(room);
    if (!larger)
        return -ENOMEM;
    if (answer->bytes) {
        memcpy(larger, answer->bytes, answer->used);
        wefti_large_free(answer->bytes);
    }
    answer->bytes = larger;
    answer->room = room;
    return 0;
}

/* The bytes are there. */
static void append(struct answer *answer, const void *bytes, size_t size) {
    memcpy(answer->bytes + answer->used, bytes, size);
    answer->used += size;
}

static int copy_fields(struct answer *answer, const weft_http_client *client) {
    weft_text name, value;
    unsigned count = weft_http_answer_fields(client, 0, NULL, NULL);
    for (unsigned i = 0; i < count; i++) {
        weft_http_answer_fields(client, i, &name, &value);
        if (reserve(answer, name.size + value.size + 4))
            return -ENOMEM;
        append(answer, name.at, name.size);
        append(answer, ": ", 2);
        append(answer, value.at, value.size);
        append(answer, "\r\n", 2);
    }
    return 0;
}

static int copy_body(struct answer *answer, weft_http_client *client, size_t most, weft_deadline until) {
    size_t begin = answer->used;
    for (;;) {
        int error = reserve(answer, ROOM_FIRST);
        if (error)
            return error;
        ssize_t got = weft_http_answer_read(client, answer->bytes + answer->used, answer->room - answer->used, until);
        if (got <= 0)
            return (int)got;
        answer->used += (size_t)got;
        if (answer->used - begin > most)
            return -EMSGSIZE;
    }
}

/* Behind the struct, three texts that end with a zero, as the command has checked, and the body. */
static void fetch(struct wefti_job_for *job) {
    const weft_command_http *asked = (const weft_command_http *)(const void *)job->data;
    const char *method = (const char *)(asked + 1), *url = method + strlen(method) + 1, *fields = url + strlen(url) + 1;
    const char *body = fields + strlen(fields) + 1;
    size_t size = job->size - (size_t)(body - (const char *)asked);
    struct answer answer = {NULL, 0, 0};
    weft_command_http_answer head = {0, 0, 0};
    weft_http_client *client;
    int error = reserve(&answer, ROOM_FIRST);
    int status =
        error ? error
              : weft_http_fetch(asked->pool, method, url, *fields ? fields : NULL, body, size, asked->until, &client);
    if (status >= 0) {
        answer.used = sizeof head;
        error = copy_fields(&answer, client);
        head.fields_size = (uint32_t)(answer.used - sizeof head);
        if (!error)
            error = copy_body(&answer, client, asked->max_body ? asked->max_body : BODY_MAX, asked->until);
        weft_http_client_close(client);
    } else {
        error = status;
    }
    job->helper.error = error;
    if (!error) {
        head.status = status;
        head.body_size = answer.used - sizeof head - head.fields_size;
        memcpy(answer.bytes, &head, sizeof head);
        job->helper.large = answer.bytes;
        job->helper.size = (uint32_t)answer.used;
        job->helper.release = wefti_large_free;
    } else if (answer.bytes) {
        wefti_large_free(answer.bytes);
    }
}

int wefti_command_http(const weft_command *command, void *arg) {
    (void)arg;
    const weft_command_http *asked = command->data;
    if (command->size < sizeof *asked || asked->max_body > LARGEST)
        return -EINVAL;
    const char *at = (const char *)(asked + 1), *end = (const char *)command->data + command->size;
    for (int texts = 0; texts < 3; texts++) {
        const char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero || (zero == at && texts < 2)) /* a method and a URL are needed */
            return -EINVAL;
        at = zero + 1;
    }
    return wefti_helper_go(command, fetch, "HTTP");
}
