/* dns_order.c - the order in which addresses are tried: families in turn, and each family's own order kept. */
#include "dns/dns.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

/* "646" becomes addresses of these families, the nth with port n. */
static size_t addresses(const char *families, weft_addr *out) {
    size_t count = strlen(families);
    for (size_t i = 0; i < count; i++)
        REQUIRE_EQ(weft_addr_parse(families[i] == '4' ? "127.0.0.1" : "::1", (int)i, &out[i]), 0);
    return count;
}

static void check(const char *families, const char *expected) {
    weft_addr in[WEFTI_ADDRS_MAX] = {{0}}, out[WEFTI_ADDRS_MAX] = {{0}};
    char found[64] = "", text[64];
    size_t count = addresses(families, in);
    wefti_addrs_interleave(in, count, out);
    for (size_t i = 0; i < count; i++) {
        weft_addr_format(&out[i], text, sizeof text);
        snprintf(found + strlen(found), sizeof found - strlen(found), "%c%s ", text[0] == '[' ? '6' : '4',
                 strrchr(text, ':') + 1);
    }
    CHECK_STR(found, expected);
}

TEST(dns_interleave, "") {
    check("", "");
    check("4", "40 ");
    check("444", "40 41 42 ");
    check("6644", "60 42 61 43 ");
    check("4466", "40 62 41 63 ");
    check("66664", "60 44 61 62 63 ");
    check("4666646", "40 61 45 62 63 64 66 ");
}
