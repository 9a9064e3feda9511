/* hello.c - one task on a runtime of its own. */
#include <stdio.h>
#include <weft/weft.h>

static weft_poll hello(weft_task *self, void *state) {
    printf("hello, %s\n", (const char *)state);
    return weft_done(self, 0, NULL);
}

int main(void) {
    int error = weft_run(NULL, hello, "world", NULL);
    if (error < 0)
        fprintf(stderr, "hello: %s\n", weft_strerror(error));
    return error < 0;
}
