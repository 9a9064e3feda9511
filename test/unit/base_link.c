/* base_link.c - chains: lists in order, handed over as a whole. */
#include "base/link.h"
#include "harness.h"

TEST(chain_order, "") {
    struct wefti_link item[5];
    struct wefti_chain chain = {NULL, NULL, 0};
    CHECK_EQ(wefti_chain_take(&chain), NULL);
    for (int i = 0; i < 5; i++) {
        wefti_chain_append(&chain, &item[i]);
        CHECK_EQ(chain.count, i + 1);
        CHECK_EQ(chain.first, &item[0]);
        CHECK_EQ(chain.last, &item[i]);
        CHECK_EQ(chain.last->next, NULL);
    }
    for (int i = 0; i < 5; i++)
        CHECK_EQ(wefti_chain_take(&chain), &item[i]);
    CHECK_EQ(wefti_chain_take(&chain), NULL);
    wefti_chain_append(&chain, &item[3]); /* empty again, and usable */
    CHECK_EQ(wefti_chain_take(&chain), &item[3]);
    CHECK_EQ(chain.count, 0);
}
