/* command.h - other programs, run from the test's own thread. */
#ifndef WEFT_TEST_TLS_COMMAND_H
#define WEFT_TEST_TLS_COMMAND_H

#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tls_fixture.h"

static inline bool command_exists(const char *name) {
    char text[128];
    snprintf(text, sizeof text, "command -v %s >/dev/null", name);
    return system(text) == 0;
}

/* Run a shell command, 20 s at most; what it prints goes to `out`.  Its exit status. */
__attribute__((format(printf, 3, 4))) static inline int command(char *out, size_t room, const char *format, ...) {
    char text[2048], line[2304];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(line, sizeof line, "exec 2>&1; cd '%s'; %s", tls_file(""), text);
    FILE *pipe = popen(line, "r");
    REQUIRE(pipe);
    size_t size = fread(out, 1, room - 1, pipe);
    out[size] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A program that goes on until command_stop; its standard input stays open and empty. */
struct server_program {
    pid_t pid;
    int in;
    FILE *out;
};

static inline struct server_program command_start(char *const argv[]) {
    int in[2], out[2];
    REQUIRE_EQ(pipe2(in, O_CLOEXEC), 0);
    REQUIRE_EQ(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    REQUIRE_GE(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not longer than the test */
        dup2(in[0], 0), dup2(out[1], 1), dup2(out[1], 2);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    return (struct server_program){pid, in[1], fdopen(out[0], "r")};
}

static inline void command_stop(struct server_program *program) {
    int status;
    CHECK_EQ(kill(program->pid, SIGKILL), 0);
    CHECK_EQ(waitpid(program->pid, &status, 0), program->pid);
    close(program->in);
    fclose(program->out);
}

#endif
