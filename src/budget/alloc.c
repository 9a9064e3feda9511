/* alloc.c - memory that is charged to a fiber, and credited when it is freed.
 *
 * What.   A piece begins with a header that names the account it is charged to.  The account lists its pieces, so that those of a
 *         killed fiber can be credited to the fund without it: they are disowned, and from then on simply memory.
 * Who.    The list: under the fund's lock.  `account`: whoever swaps it for NULL takes the charge off the account, once; that is the
 *         thread that frees the piece, or the end of the killed fiber.
 * Race.   free: F1 swap account for NULL                      end: E1 lock; look at a piece, remember its neighbours
 *               F2 it was NULL: free the memory                    E2 swap account for NULL
 *               F3 else lock; unlink; credit; unlock               E3 it was NULL: leave the piece in the list
 *               F4 free the memory                                 E4 else unlink it by its neighbours; credit; next; unlock
 * Claim.  Each piece is credited once; no header is read after its memory was freed; the fund exists until F3 is over.
 * Why.    F1 and E2 swap one word: one of them finds the account.  If E2 does, E1 comes before F2, and E4 touches only the neighbours,
 *         which cannot leave the list without the lock.  If F1 does, the piece stays in the list until F3, the account is not reused
 *         while its list has a piece, and a fund with such an account cannot be destroyed.
 * Checked by.  test/model/budget.c
 */
#include "budget/fund.h"
#include "fiber/slice.h"

/* Before the memory of each piece. */
struct wefti_piece {
    _Atomic(struct wefti_account *) account; /* NULL: it is charged to nobody */
    size_t size; /* as asked for */
    struct wefti_piece *next, *prev; /* in the account's list */
};
_Static_assert(sizeof(struct wefti_piece) % 16 == 0, "keeps the alignment of any type");

/* Under the lock. */
static void unlink_piece(struct wefti_account *account, struct wefti_piece *next, struct wefti_piece *prev) {
    *(prev ? &prev->next : &account->pieces) = next;
    if (next)
        next->prev = prev;
}

static void charge_to(struct wefti_account *account, struct wefti_piece *piece) {
    store_relaxed(&piece->account, account); /* nobody else knows of it yet */
    wefti_lock_take(&account->fund->lock);
    piece->next = account->pieces;
    if (piece->next)
        piece->next->prev = piece;
    account->pieces = piece;
    wefti_lock_give(&account->fund->lock);
}

int weft_alloc(size_t size, void **memory) {
    wefti_slice_use(WEFT_NEVER);
    struct wefti_fiber *self = wefti_fiber_self();
    struct wefti_account *account = self ? self->account : NULL;
    weft_budget cost = {1, size, 0, 0, 0};
    if (!memory)
        return -EINVAL;
    if (size > SIZE_MAX / 2)
        return -ENOMEM;
    int error = wefti_charge(self, &cost);
    if (error)
        return error;
    struct wefti_piece *piece = wefti_alloc(sizeof *piece + size); /* zeroed */
    if (!piece) {
        if (account)
            wefti_pay_back(self, &cost);
        return -ENOMEM;
    }
    piece->size = size;
    if (account && !account->unpaid)
        charge_to(account, piece);
    *memory = piece + 1;
    return 0;
}

void weft_free(void *memory) {
    if (!memory)
        return;
    struct wefti_piece *piece = (struct wefti_piece *)memory - 1;
    size_t size = piece->size;
    /* F1.  Acquires what E2 released: E1 has read the header. */
    struct wefti_account *account = xchg_acquire(&piece->account, NULL);
    if (account) {
        struct weft_fund *fund = account->fund; /* the account keeps it, as long as the piece is in its list */
        const struct wefti_fiber *self = wefti_fiber_self();
        weft_budget back = {0, size, 0, 0, 0};
        wefti_lock_take(&fund->lock); /* F3 */
        unlink_piece(account, piece->next, piece->prev);
        weft_budget_add(self && self->account == account && !account->unpaid ? &account->left : &fund->left, &back);
        if (account->closed && !account->pieces)
            wefti_account_reuse(account);
        wefti_lock_give(&fund->lock); /* the fund may be gone */
    }
    wefti_free(piece, sizeof *piece + size);
}

uint64_t wefti_pieces_disown(struct wefti_account *account) {
    uint64_t bytes = 0;
    for (struct wefti_piece *piece = account->pieces, *next; piece; piece = next) {
        struct wefti_piece *prev = piece->prev; /* E1 */
        size_t size = piece->size;
        next = piece->next;
        if (xchg_release(&piece->account, NULL)) { /* E2, pairs with F1 */
            unlink_piece(account, next, prev); /* E4 */
            bytes += size;
        }
    }
    return bytes;
}
