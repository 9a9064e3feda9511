/* user.c - the smallest program of a user: does the installed library compile, link and run? */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static weft_poll hello(weft_task *self, void *state) { return weft_done(self, 0, state); }

int main(void) {
    char version[32];
    weft_result result;
    snprintf(version, sizeof version, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    if (strcmp(version, weft_version()) != 0)
        return 1;
    if (weft_run(NULL, hello, version, &result) != 0 || result.value != version)
        return 2;
    printf("weft %s\n", weft_version());
    return 0;
}
