/* lua.c - the executor `lua`. */
#include "exec.h"

int lua_run(struct exec *exec) { return exec_fail(exec, "not yet"); }
