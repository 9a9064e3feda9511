/* unload.c - a host with a SIGSEGV handler of its own loads a library that contains weft, uses fibers, and unloads it.
 * usage: unload LIBRARY.  Prints "host handler ran", however the library was linked. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <weft/weft.h>

static sigjmp_buf back;

static void host(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    siglongjmp(back, 1);
}

static int nothing(void *arg) {
    (void)arg;
    return 0;
}

static int faults(int number) {
    if (sigsetjmp(back, 1))
        return 1;
    if (number == SIGSEGV)
        *(volatile int *)8 = 1;
    else
        raise(number);
    return 0;
}

int main(int count, char **arg) {
    struct sigaction action = {.sa_sigaction = host, .sa_flags = SA_SIGINFO};
    if (count != 2 || sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL))
        return 2;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(arg[1], RTLD_NOW);
        if (!library)
            return fprintf(stderr, "%s\n", dlerror()), 3;
        int (*run)(const weft_config *, weft_fiber_fn, void *, weft_result *);
        *(void **)&run = dlsym(library, "weft_fiber_run");
        if (!run || run(NULL, nothing, NULL, NULL))
            return 4;
        dlclose(library);
        if (!faults(SIGSEGV) || !faults(SIGBUS))
            return 5;
    }
    puts("host handler ran");
    return 0;
}
