// user.cpp - the same from C++.
#include <cstdio>
#include <weft/weft.h>

static weft_poll hello(weft_task *self, void *state) { return weft_done(self, 0, state); }

int main() {
    weft_config config = WEFT_CONFIG_INIT;
    weft_result result;
    int answer = 42;
    config.workers = 1;
    if (weft_run(&config, hello, &answer, &result) != 0 || result.value != &answer)
        return 1;
    std::printf("weft %s\n", weft_version());
}
