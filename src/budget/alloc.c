/* alloc.c - memory that is charged to a fiber, and given back when it is freed. */
#include "budget/fund.h"
#include "fiber/slice.h"

/* Before each piece. */
struct header {
    struct weft_fund *fund; /* on whose account; NULL: nobody's */
    uint64_t number;        /* that account's */
    size_t size;            /* as asked for */
    void *unused;
};
_Static_assert(sizeof(struct header) % 16 == 0, "keeps the alignment of any type");

int weft_alloc(size_t size, void **memory) {
    wefti_slice_use(WEFT_NEVER);
    struct wefti_fiber *self = wefti_fiber_self();
    struct weft_fund *fund = NULL;
    weft_budget cost = {1, size, 0, 0, 0};
    if (!memory)
        return -EINVAL;
    if (size > SIZE_MAX / 2)
        return -ENOMEM;
    if (self && self->account) {
        int error = wefti_pay(self, &cost);
        if (error)
            return error;
        fund = self->account->unpaid ? NULL : self->account->fund;
    }
    struct header *header = wefti_alloc(sizeof *header + size);
    if (!header) {
        if (fund)
            wefti_pay_back(self, &cost);
        return -ENOMEM;
    }
    *header = (struct header){.fund = fund, .number = fund ? self->account->number : 0, .size = size};
    if (fund)
        add_relaxed(&fund->allocated, size + 1); /* the fiber keeps its fund alive; + 1: also none is a piece */
    *memory = header + 1;
    return 0;
}

void weft_free(void *memory) {
    if (!memory)
        return;
    struct header *header = (struct header *)memory - 1;
    struct weft_fund *fund = header->fund;
    uint64_t number = header->number;
    size_t size = header->size;
    wefti_free(header, sizeof *header + size);
    if (!fund)
        return;
    struct wefti_fiber *self = wefti_fiber_self();
    weft_budget back = {0, size, 0, 0, 0};
    const struct wefti_account *account = self ? self->account : NULL;
    if (account && account->fund == fund && account->number == number && !account->unpaid)
        weft_budget_add(&self->account->left, &back);
    else
        wefti_fund_give(fund, &back, 0);
    sub_release(&fund->allocated, size + 1); /* pairs with weft_fund_destroy: we are done with it */
}
