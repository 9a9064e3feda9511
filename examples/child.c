/* child.c - a program as a filter: numbers go in through one pipe, and come back sorted through another. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

#define SECOND INT64_C(1000000000)

static int feed(void *arg) {
    weft_io *in = arg;
    for (int i = 0; i < 5; i++) {
        char line[16];
        int size = snprintf(line, sizeof line, "%d\n", i * 7 % 5);
        if (weft_write(in, line, (size_t)size, weft_after(10 * SECOND)) < 0)
            break;
    }
    return weft_close(in); /* the end of its input */
}

static int run(void *arg) {
    (void)arg;
    const char *argv[] = {"sort", "-n", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    weft_child *child;
    weft_child_end end;
    spec.argv = argv;
    spec.in = spec.out = WEFT_CHILD_PIPE;
    spec.leash = true; /* it is killed should we be cancelled */
    int error = weft_child_start(&spec, &child, WEFT_NEVER);
    if (error)
        return error;
    weft_io *out = weft_child_take(child, 1);
    if (weft_fiber_go(NULL, feed, weft_child_take(child, 0), NULL) == 0) {
        char text[64];
        ssize_t n = weft_read_exact(out, text, sizeof text, weft_after(10 * SECOND));
        printf("%.*s", n > 0 ? (int)n : 0, text);
    }
    weft_close(out);
    if (weft_child_wait(child, &end, weft_after(10 * SECOND)) == 0)
        printf("ended with %d\n", end.code);
    weft_child_close(child);

    argv[0] = "no-such-program";
    printf("%s\n", weft_strerror(weft_child_start(&spec, &child, WEFT_NEVER)));
    return 0;
}

int main(void) { return weft_fiber_run(NULL, run, NULL, NULL) < 0; }
