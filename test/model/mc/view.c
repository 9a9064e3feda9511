/* view.c - the memory of views, and what is not worth inlining. */
#include "view.h"

static const size_t ARENA = 256 << 20;
static char *arena, *arena_at;

void mc_views_init(void) { arena = mc_reserve(ARENA); }
void mc_views_reset(void) { arena_at = arena; }

struct mc_view *mc_view_make(void) { return mc_reserve(sizeof(struct mc_view) + VIEW_MAX * sizeof(uint16_t)); }

void mc_view_reset(struct mc_view *view) {
    view->n = VIEW_STEP;
    memset(view->t, 0, VIEW_STEP * sizeof view->t[0]);
}

void mc_view_join(struct mc_view *into, const struct mc_view *from) { mc_view_join_from(into, from, 0); }

struct mc_view *mc_view_copy(const struct mc_view *view, uint32_t room) {
    uint32_t n = room > view->n ? room : view->n;
    struct mc_view *c = (struct mc_view *)arena_at;
    arena_at += sizeof *c + n * sizeof c->t[0];
    if (unlikely(arena_at > arena + ARENA))
        mc_fail_at(0, 0, "too many release operations in one execution");
    memcpy(c, view, sizeof *view + view->n * sizeof view->t[0]);
    mc_view_grow(c, n);
    return c;
}

bool mc_view_no_more(const struct mc_view *a, const struct mc_view *b) {
    if (!a || a == b)
        return true;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->t[i] > (b && i < b->n ? b->t[i] : 0))
            return false;
    return true;
}
