/* nursery.c - a tree of fibers: add up the sizes of a folder and all below it, a child for each. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

struct folder {
    const char *name;
    int bytes;               /* of its own files; below 0: it cannot be read */
    struct folder *below[3]; /* NULL ends them */
    int total;
};

/* Runs for every folder.  When it returns, so has everything below. */
static int measure(void *arg) {
    struct folder *folder = arg;
    int status;
    if (folder->bytes < 0)
        return -EACCES; /* ends the whole search: siblings are cancelled, all the way up */
    WEFT_NURSERY(n, &status) {
        for (int i = 0; i < 3 && folder->below[i]; i++)
            if ((status = weft_nursery_go(&n, measure, folder->below[i], NULL)))
                return status;
    }
    folder->total = folder->bytes;
    for (int i = 0; i < 3 && folder->below[i]; i++)
        folder->total += folder->below[i]->total;
    return status;
}

int main(void) {
    struct folder c = {"c", 30, {NULL}, 0}, b = {"b", 7, {&c, NULL}, 0}, a = {"a", 5, {NULL}, 0};
    struct folder root = {"root", 100, {&a, &b, NULL}, 0};

    int error = weft_fiber_run(NULL, measure, &root, NULL);
    if (error)
        return 1;
    printf("%s: %d bytes\n", root.name, root.total);

    c.bytes = -1;
    error = weft_fiber_run(NULL, measure, &root, NULL);
    printf("%s: %s\n", root.name, error == -EACCES ? "a folder cannot be read" : "?");
    return 0;
}
