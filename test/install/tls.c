/* tls.c - a program outside the tree that uses libweft-tls. */
#include <weft/tls.h>
#include <weft/weft.h>

int main(void) {
    weft_tls *tls;
    if (weft_tls_client(NULL, &tls) < 0)
        return 1;
    weft_tls_free(tls);
    return 0;
}
