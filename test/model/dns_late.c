/* dns_late.c - an answer that comes late: it is read whole or not at all, and whoever of asker and job is last frees what they share.  The
 * source itself, with a name that the system cannot have. */
#include "dns/dns.h"
#include "dns/late.h"

#include "model.h"

#define GIVEN 7 /* bytes of the address that is found */

static int find_one(weft_addr *addrs) {
    addrs[0].size = GIVEN; /* plain: told of by the result */
    return 1;
}

#define wefti_lookup(name, service, family, addrs) ((void)(name), (void)(service), (void)(family), find_one(addrs))
#define wefti_late_new model_late_new
#define wefti_late_find model_late_find
#define wefti_late_result model_late_result
#define wefti_late_is_open model_late_is_open
#define wefti_late_end model_late_end
int model_late_result(const struct wefti_late_names *names, int kind);
#include "dns/late.c" /* NOLINT: its own functions, one by one */

static void run_job(void *question) {
    ask(question);
    drop(question);
}

MC_TEST(dns_late_answer, .bound = 3) {
    struct wefti_late_names *names = model_late_new("name", "1", WEFT_NEVER);
    names->question[WEFTI_SIX] = (struct wefti_question){names, WEFTI_SIX};
    names->asked[WEFTI_SIX] = true;
    store_relaxed(&names->refs, 2);
    int a = mc_spawn(run_job, &names->question[WEFTI_SIX]);
    if (!model_late_is_open(names))
        mc_assert(model_late_result(names, WEFTI_SIX) == 1 && names->answer[WEFTI_SIX].addrs[0].size == GIVEN);
    model_late_end(names);
    mc_join(a);
}
