/* http_pool.c - a pool of connections that its user closes while a client is out: who is last frees it, after all that the other did.  The
 * source itself. */
#include "http/client.h"

#include "model.h"

#define weft_http_pool_open model_pool_open
#define weft_http_pool_idle model_pool_idle
#define weft_http_pool_close model_pool_close
#define wefti_http_pool_redirects model_pool_redirects
#define wefti_http_pool_ref model_pool_ref
#define wefti_http_pool_take model_pool_take
#define wefti_http_pool_give model_pool_give
#include "http/pool.c" /* NOLINT: its own functions, one by one */

static void look_and_leave(void *pool) {
    mc_assert(model_pool_take(pool, "host", 0) == NULL);
    unref(pool);
}

MC_TEST(http_pool_closed, .bound = 3) {
    weft_http_pool *pool;
    mc_assert(model_pool_open(NULL, &pool) == 0);
    model_pool_ref(pool);
    int a = mc_spawn(look_and_leave, pool);
    model_pool_close(pool);
    mc_join(a);
}
