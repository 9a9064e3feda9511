// user.cpp - the same from C++.
#include <cstdio>
#include <weft/weft.h>

static weft_poll hello(weft_task *self, void *state) { return weft_done(self, 0, state); }

// Macros with casts: no warning in a program that is compiled with -Wold-style-cast.
static const weft_grant grant = WEFT_GRANT_INIT;
static const bool same = WEFT_NOW == 0 && WEFT_PID_NONE == 0 && grant.max_tasks == 0 &&
                         WEFT_CHAN_VALUE_MAX < WEFT_CHAN_CAPACITY_MAX;

int main() {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result;
    int answer = 42;
    config.workers = 1;
    if (weft_run(&config, hello, &answer, &result) != 0 || result.value != &answer || !same)
        return 1;
    std::printf("weft %s\n", weft_version());
}
