/* cares.c - a program outside the tree that uses libweft-cares. */
#include <weft/cares.h>
#include <weft/weft.h>

int main(void) {
    weft_cares *cares;
    weft_runtime *rt;
    if (weft_cares_create(NULL, &cares) < 0 || weft_runtime_create(NULL, &rt) < 0 || weft_cares_use(rt, cares) < 0)
        return 1;
    weft_cares_free(cares);
    return weft_runtime_stop(rt, WEFT_NEVER) < 0 || weft_runtime_destroy(rt) < 0;
}
