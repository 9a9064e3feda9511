/* select_end.c - how a select ends: by a time, by nothing, and what it still touches of the things that it did not get. */
#include "chan/chan.h"
#include "sync.h"

static bool is_idle(weft_task *task) { return strcmp(weft_task_state(task), "idle") == 0; }

/* -- No case at all ------------------------------------------------------------------------------------------ */

/* What a select finds on the stack must not matter to it: here lie what would be tokens. */
static __attribute__((noinline)) void litter(void) {
    volatile uint32_t words[2048];
    for (unsigned i = 0; i < 2048; i++)
        words[i] = 2;
    (void)words[7];
}

static int of_nothing(void *arg) {
    (void)arg;
    litter();
    CHECK_EQ(weft_select(NULL, 0, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_select(NULL, 0, WEFT_NOW), -ETIMEDOUT);
    if (weft_task_self()) {
        weft_task_cancel(weft_task_self());
        CHECK_EQ(weft_select(NULL, 0, WEFT_NEVER), -ECANCELED);
    }
    return 0;
}

static weft_poll of_nothing_poll(weft_task *self, void *state) {
    (void)state;
    litter();
    CHECK_EQ(weft_select(NULL, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_select(NULL, 0, WEFT_NOW), -ETIMEDOUT);
    return weft_done(self, 0, NULL);
}

API_TEST(select_of_nothing, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, of_nothing_poll, NULL));
    fixture_end(rt);
    in_fiber(of_nothing, NULL);
    of_nothing(NULL);
}

/* -- Times ----------------------------------------------------------------------------------------------------- */

/* Of several times that come at once, while it waits, each is drawn about as often; one that is as late as the deadline still happens. */
static int equal_times(void *arg) {
    (void)arg;
    enum { ROUNDS = 60 };
    int hits[3] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        weft_deadline at = weft_after(200000);
        weft_case cases[] = {weft_case_at(at), weft_case_at(at), weft_case_at(at)};
        int index = weft_select(cases, 3, WEFT_NEVER);
        REQUIRE(index >= 0 && index < 3);
        CHECK_EQ(cases[index].result, 0);
        CHECK_GE(weft_now(), at);
        hits[index]++;
    }
    for (int i = 0; i < 3; i++) /* 20 expected, 4 a deviation; more would take long on a busy machine */
        CHECK_GT(hits[i], 1);
    weft_deadline at = weft_after(200000);
    weft_case only = weft_case_at(at);
    CHECK_EQ(weft_select(&only, 1, at), 0);
    only = weft_case_at(weft_after(INT64_MAX));
    CHECK_EQ(weft_select(&only, 1, weft_after(200000)), -ETIMEDOUT);
    return 0;
}

API_TEST(select_equal_times, "R28 R29", .workers = {1}) {
    in_fiber(equal_times, NULL);
    equal_times(NULL); /* in a thread */
}

/* -- Things that it did not get ------------------------------------------------------------------------------------ */

/* A select has got something, and has not yet run; what else it waited for is emptied, closed or set by others, and destroyed.  It still comes
 * by to see that it is not waited for there: so this is refused until it has. */

struct pair {
    weft_chan *a, *b;
    weft_event *e, *f;
};

static int of_channels(void *arg) {
    struct pair *p = arg;
    int x = 0, y = 0;
    weft_case cases[] = {weft_case_recv(p->a, &x), weft_case_recv(p->b, &y), weft_case_recv(p->b, &y)};
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 0);
    CHECK_EQ(cases[0].result, 0);
    CHECK_EQ(x, 7);
    return 0;
}

static weft_chan *rendezvous(void) {
    weft_chan *ch = NULL;
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &ch), 0);
    return ch;
}

/* Destroy as soon as it may be; 0 in the end. */
#define DESTROY(call)                                                                                                  \
    do {                                                                                                               \
        int error_;                                                                                                    \
        while ((error_ = (call)) == -EBUSY)                                                                            \
            weft_yield();                                                                                              \
        CHECK_EQ(error_, 0);                                                                                           \
    } while (0)

static int channels(void *arg) {
    int how = (int)(intptr_t)arg, value = 7, got;
    struct pair p = {.a = rendezvous(), .b = rendezvous()};
    weft_task *task = go_fiber(of_channels, &p);
    UNTIL(is_idle(task));
    REQUIRE_EQ(weft_chan_send(p.a, &value, WEFT_NEVER), 0);
    weft_case other = weft_case_send(p.b, &value);
    if (how == 0)
        CHECK_EQ(weft_chan_send(p.b, &value, WEFT_NOW), -ETIMEDOUT);
    else if (how == 1)
        weft_chan_close(p.b);
    else if (how == 2)
        CHECK_EQ(weft_select(&other, 1, weft_after(1000)), -ETIMEDOUT);
    else
        CHECK_EQ(weft_chan_recv(p.b, &got, WEFT_NOW), -ETIMEDOUT);
    DESTROY(weft_chan_destroy(p.b));
    DESTROY(weft_chan_destroy(p.a));
    CHECK_EQ(finish(task), 0);
    return 0;
}

API_TEST(select_leaves_channels, "R27 R30", .workers = {1, 2}) {
    for (intptr_t how = 0; how < 4; how++)
        in_fiber(channels, (void *)how);
}

static int of_events(void *arg) {
    struct pair *p = arg;
    weft_case cases[] = {weft_case_event(p->e), weft_case_event(p->f), weft_case_event(p->f)};
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 0);
    return 0;
}

static int events(void *arg) {
    bool again = arg;
    struct pair p = {.e = calloc(1, sizeof *p.e), .f = calloc(1, sizeof *p.f)};
    weft_task *task = go_fiber(of_events, &p);
    UNTIL(waiting(&p.e->room) == 1 && waiting(&p.f->room) == 2);
    CHECK_EQ(weft_event_set(p.e), 0);
    CHECK_EQ(weft_event_set(p.f), 0);
    if (again) { /* whatever happens to it meanwhile */
        CHECK_EQ(weft_event_clear(p.f), 1);
        CHECK_EQ(weft_event_wait(p.f, weft_after(1000)), -ETIMEDOUT);
        CHECK_EQ(weft_event_set(p.f), 0);
        CHECK_EQ(weft_event_set(p.f), 0);
        CHECK(weft_event_is_set(p.f));
        CHECK_EQ(weft_event_clear(p.f), 1);
        CHECK_EQ(weft_event_clear(p.f), 0);
        CHECK(!weft_event_is_set(p.f));
    }
    DESTROY(weft_event_destroy(p.f));
    free(p.f);
    DESTROY(weft_event_destroy(p.e));
    free(p.e);
    CHECK_EQ(finish(task), 0);
    return 0;
}

API_TEST(select_leaves_events, "R27", .workers = {1, 2}) {
    in_fiber(events, NULL);
    in_fiber(events, "again");
}

/* The same at any moment, many times, by threads and fibers. */

struct round {
    weft_chan a, b;
    weft_event e;
};

static void one_of_three(struct round *r) {
    int x;
    weft_case cases[] = {weft_case_recv(&r->a, &x), weft_case_event(&r->e), weft_case_recv(&r->b, &x)};
    REQUIRE_GE(weft_select(cases, 3, WEFT_NEVER), 0);
}

static int one_of_three_fiber(void *arg) {
    one_of_three(arg);
    return 0;
}

static void *one_of_three_thread(void *arg) {
    one_of_three(arg);
    return NULL;
}

static bool is_waited_for(weft_chan *ch) {
    struct wefti_chan *inside = wefti_chan_of(ch);
    wefti_chan_lock(inside);
    bool some = inside->receivers.first;
    wefti_bias_give(&inside->lock);
    return some;
}

static int rounds(void *arg) {
    bool threads = arg;
    for (int i = 0; i < (threads ? 50 : 200); i++) {
        struct round *r = calloc(1, sizeof *r);
        weft_task *task = NULL;
        pthread_t thread;
        REQUIRE_EQ(weft_chan_init(&r->a, sizeof(int), 0, NULL), 0);
        REQUIRE_EQ(weft_chan_init(&r->b, sizeof(int), 0, NULL), 0);
        if (threads)
            REQUIRE_EQ(pthread_create(&thread, NULL, one_of_three_thread, r), 0);
        else
            task = go_fiber(one_of_three_fiber, r);
        if (i % 3)
            UNTIL(waiting(&r->e.room) && is_waited_for(&r->a) && is_waited_for(&r->b));
        weft_chan_close(&r->b);
        weft_event_set(&r->e);
        weft_chan_close(&r->a);
        if (i % 3 == 0) { /* it may not have begun */
            if (threads)
                pthread_join(thread, NULL);
            else
                CHECK_EQ(finish(task), 0);
        }
        DESTROY(weft_chan_fini(&r->a));
        DESTROY(weft_event_destroy(&r->e));
        DESTROY(weft_chan_fini(&r->b));
        memset(r, 0xa5, sizeof *r);
        free(r);
        if (i % 3 && threads)
            pthread_join(thread, NULL);
        else if (i % 3)
            CHECK_EQ(finish(task), 0);
    }
    return 0;
}

API_TEST(select_ends_with_its_things, "R27 R30", .workers = {1, 2, 4}) {
    in_fiber(rounds, NULL);
    in_fiber(rounds, "threads");
}
