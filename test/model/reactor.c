/* reactor.c - the reactor's hand-over: seats, news, driven workers that ask, what goes back; and the whole of it with real loops. */
#include "fake_reactor.h"
#include "model_rt.h"

/* -- One seat --------------------------------------------------------------------------------------------------- */

static struct wefti_seat seat;
static struct wefti_mpsc news;
static struct item thing; /* stands for a task */
static _Atomic int taken, back;

static uintptr_t task(void) { return (uintptr_t)(void *)&thing; }

static void hand(void *unused) {
    (void)unused;
    thing.payload = 100;
    thing.link.next = NULL;
    if (!wefti_seat_hand(&seat, task()))
        add_relaxed(&back, 1);
}

/* The worker gets it with all that was written, or the reactor has it back: one of the two. */
static void take_or_back(void) {
    int a = mc_spawn(hand, NULL);
    if (wefti_seat_take(&seat) == task()) {
        mc_assert(thing.payload == 100);
        thing.link.next = &thing.link; /* ours now */
        add_relaxed(&taken, 1);
    }
    mc_join(a);
    if (!load_relaxed(&taken))
        mc_assert(wefti_seat_take(&seat) == task()); /* still there */
}
MC_CASE(seat_take, take_or_back, .proves = "R33", .bound = 3);

/* The worker goes on with the task below while the reactor hands it another. */
MC_TEST(seat_close_or_hand, .proves = "R25 R33", .bound = 3, .outcomes = "back refused") {
    int a = mc_spawn(hand, NULL);
    uintptr_t found = wefti_seat_close(&seat);
    if (found == task()) {
        mc_assert(thing.payload == 100);
        thing.link.next = &thing.link;
    }
    mc_join(a);
    mc_assert((found == task()) != (load_relaxed(&back) == 1));
    mc_assert(load_relaxed(&seat.slot) == WEFTI_SEAT_CLOSED);
    mc_outcome(found == task() ? "back" : "refused");
}

static void take(void *unused) {
    (void)unused;
    if (wefti_seat_take(&seat) == task())
        add_relaxed(&taken, 1);
}

/* The reactor takes back what a driven worker is just taking. */
MC_TEST(seat_take_back, .proves = "R33", .bound = 3, .outcomes = "taken back") {
    hand(NULL);
    int a = mc_spawn(take, NULL);
    bool got = wefti_seat_take_back(&seat, task());
    mc_join(a);
    mc_assert(got != (load_relaxed(&taken) == 1));
    mc_outcome(got ? "back" : "taken");
}

/* -- A batch: one in the slot, one behind it ------------------------------------------------------------------------ */

static struct item second;

static struct weft_task *as_task(struct item *item) { return (struct weft_task *)(void *)item; }

static bool hand_two(void) {
    thing.payload = 100;
    second.payload = 200;
    wefti_seat_stage(&seat, 0, as_task(&second));
    return wefti_seat_hand_batch(&seat, as_task(&thing), 1);
}

static void hand_and_reclaim(void *unused) {
    (void)unused;
    struct weft_task *got[WEFTI_SEAT_ITEMS];
    mc_assert(hand_two());
    if (wefti_seat_reclaim(&seat, got)) {
        mc_assert(got[0] == as_task(&second));
        second.payload = 201; /* it is the reactor's again */
        add_relaxed(&back, 1);
    }
}

/* The worker runs the second task, with all that was written, or the reactor takes it back: one of the two. */
MC_TEST(seat_batch, .proves = "R33", .bound = 3, .outcomes = "popped back early") {
    int a = mc_spawn(hand_and_reclaim, NULL);
    uintptr_t first = wefti_seat_take(&seat);
    if (first == task()) {
        mc_assert(thing.payload == 100);
        mc_assert(seat.in_batch);
        struct weft_task *next = wefti_seat_pop(&seat);
        if (next) {
            mc_assert(next == as_task(&second) && second.payload == 200);
            second.payload = 202;
            mc_assert(!wefti_seat_pop(&seat));
            add_relaxed(&taken, 1);
        }
        mc_assert(!seat.in_batch);
    }
    mc_join(a);
    if (first == task())
        mc_assert(load_relaxed(&taken) + load_relaxed(&back) == 1);
    mc_outcome(first != task() ? "early" : load_relaxed(&taken) ? "popped" : "back");
}

/* The worker goes on with the task below: it gives both back, or the reactor still has both. */
static void hand_both(void *unused) {
    (void)unused;
    if (!hand_two()) {
        mc_assert(wefti_seat_staged(&seat, 0) == as_task(&second));
        mc_assert(wefti_seat_length(&seat) == 0);
        add_relaxed(&back, 2);
    }
}

MC_TEST(seat_close_or_hand_batch, .proves = "R25 R33", .bound = 3, .outcomes = "back refused") {
    int a = mc_spawn(hand_both, NULL);
    struct weft_task *got[WEFTI_SEAT_ITEMS];
    uintptr_t found = wefti_seat_close(&seat);
    uint32_t more = seat.in_batch ? wefti_seat_reclaim(&seat, got) : 0;
    if (found == task())
        mc_assert(more == 1 && got[0] == as_task(&second) && thing.payload == 100 && second.payload == 200);
    mc_join(a);
    mc_assert((found == task()) != (load_relaxed(&back) == 2));
    mc_outcome(found == task() ? "back" : "refused");
}

/* A seat that was opened is heard of, however the news met: the reactor waits for it as it does, without looking elsewhere. */
static struct wefti_park park;

static void open_twice(void *unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        store_relaxed(&seat.slot, WEFTI_SEAT_CLOSED);
        wefti_seat_tell(&seat, &news);
        wefti_park_wake(&park);
    }
    wefti_seat_open(&seat, &news);
    wefti_park_wake(&park);
}

MC_TEST(seat_news, .proves = "R4 R25", .bound = 3) {
    store_relaxed(&seat.slot, WEFTI_SEAT_CLOSED);
    int a = mc_spawn(open_twice, NULL);
    bool open = false;
    while (!open) {
        wefti_park_sleep(&park, INT64_MAX);
        struct wefti_chain chain = wefti_mpsc_take(&news);
        for (struct wefti_link *link; (link = wefti_chain_take(&chain));) {
            mc_assert(link == &seat.link);
            open = wefti_seat_hear(&seat);
        }
    }
    mc_join(a);
}

/* -- A reactor and a worker made by hand: who is woken, who does not sleep --------------------------------------- */

/* The worker goes to sleep while the reactor hands it a task: it does not, or is woken. */
static void hand_out(void *unused) {
    (void)unused;
    turn();
}

MC_TEST(reactor_hand_against_sleep, .proves = "R11", .bound = 3) {
    fake_begin(1);
    wefti_inject_push_one(&fake.inject, &tasks[0]->link);
    int a = mc_spawn(hand_out, NULL);
    wefti_self_set(&fake_worker[0]);
    while (!wefti_worker_turn(&fake_worker[0])) {
        if (wefti_worker_announce(&fake_worker[0]))
            wefti_park_sleep(&fake_worker[0].park, INT64_MAX);
        wefti_worker_return(&fake_worker[0]);
    }
    wefti_self_set(NULL);
    mc_join(a);
    mc_assert(load_relaxed(&polled) == 1);
    fake_end();
}

/* The other searches (it has been woken, and has not found its task yet): that is no reason to leave ours. */
MC_TEST(reactor_sees_its_own_seat, .proves = "R11") {
    fake_begin(2);
    add_relaxed(&fake.idle.searching, 1);
    mc_assert(wefti_seat_hand(&fake.reactor->seat[0], (uintptr_t)(void *)tasks[0]));
    mc_assert(!wefti_worker_announce(&fake_worker[0]));
    wefti_worker_return(&fake_worker[0]);
    fake_end();
}

/* Whatever happens comes with a wake for the reactor, which sleeps without limit. */
static struct wefti_io io;
static struct wefti_link changed;
static _Atomic int heard;
static struct wefti_park other; /* a thread that waits for I/O */

static uint64_t on_route(struct wefti_io *unused) {
    (void)unused;
    store_relaxed(&heard, 1);
    return 1;
}
static void on_complete(struct wefti_io *unused) {
    (void)unused;
    wefti_park_wake(&other);
}
static uint64_t on_resolve(struct wefti_link *link) {
    mc_assert(link == &changed);
    store_relaxed(&heard, 1);
    return 1;
}

static void make_happen(void *unused) {
    (void)unused;
    switch (mc_arg()) {
    case 0:
        io.route = on_route;
        wefti_io_submit(&fake, &io);
        wefti_notify(&fake, NULL);
        break;
    case 1:
        io.complete = on_complete;
        wefti_io_complete(&fake, &io);
        wefti_park_sleep(&other, INT64_MAX);
        store_relaxed(&heard, 1);
        break;
    case 2:
        wefti_control_resolve(&fake, &changed, on_resolve);
        wefti_notify(&fake, NULL);
        break;
    default:
        wefti_inject_push_one(&fake.inject, &tasks[0]->link);
        wefti_notify(&fake, NULL);
        store_relaxed(&heard, 1);
        break;
    }
}

static void reactor_hears(void) {
    fake_begin(1);
    fake.reactor->idle_look = INT64_MAX;
    int a = mc_spawn(make_happen, NULL);
    do {
        wefti_reactor_step(fake.reactor, 9);
        turn();
    } while (mc_arg() == 3 ? load_relaxed(&fake.reactor->now_is.active) == 0 : !load_relaxed(&heard) && mc_arg() != 1);
    mc_join(a);
    fake_end();
}
MC_CASE(reactor_hears_submission, reactor_hears, .arg = 0, .proves = "R5 R12", .bound = 3);
MC_CASE(reactor_hears_completion, reactor_hears, .arg = 1, .proves = "R6 R12 R18", .bound = 3);
MC_CASE(reactor_hears_channel, reactor_hears, .arg = 2, .proves = "R8 R12", .bound = 3);
MC_CASE(reactor_hears_spawn, reactor_hears, .arg = 3, .proves = "R9 R12 R35", .bound = 3);

/* A task that another joins ends: the joiner is woken in step 1, and the task is freed by whoever drops the last reference. */
static void joined_ends(void *unused) {
    (void)unused;
    wefti_self_set(&fake_worker[0]);
    wefti_worker_finish(&fake_worker[0], tasks[0], (weft_result){0, NULL});
    fake.sched->done(&fake_worker[0]);
    wefti_self_set(NULL);
}

MC_TEST(reactor_resumes_join, .proves = "R13 R34", .bound = 3) {
    fake_begin(1);
    fake.reactor->idle_look = INT64_MAX;
    struct weft_task *task = tasks[0], *joiner = tasks[1];
    wefti_word_ref(&task->word); /* the test's handle */
    mc_assert(!wefti_word_to_idle(&joiner->word));
    store_relaxed(&fake.reactor->seat[0].slot, WEFTI_SEAT_CLOSED);
    mc_assert(wefti_word_join_begin(&task->word));
    wefti_word_ref(&joiner->word);
    store_relaxed(&task->joiner, wefti_waker_task(joiner));
    mc_assert(wefti_word_join_register(&task->word));
    int a = mc_spawn(joined_ends, NULL);
    while (load_relaxed(&fake.reactor->seat[0].slot) != (uintptr_t)(void *)joiner)
        wait_and_turn();
    mc_assert(wefti_word_is_complete(&task->word));
    mc_join(a);
    mc_assert(wefti_word_refs(load_relaxed(&task->word)) == 1);
    fake_end();
}

/* A driven worker asks, and gets its answer with all that came before. */
static void answer(void *unused) {
    (void)unused;
    while (!load_relaxed(&heard)) {
        wefti_reactor_step(fake.reactor, 9);
        turn();
    }
}

MC_TEST(reactor_answers, .proves = "R11", .bound = 2) {
    fake_begin(1);
    fake.driven = fake_worker[0].driven = true;
    int a = mc_spawn(answer, NULL);
    mc_assert(fake.sched->next(&fake_worker[0]) == NULL);
    wefti_inject_push_one(&fake.inject, &tasks[0]->link);
    mc_assert(fake.sched->next(&fake_worker[0]) == tasks[0]);
    store_relaxed(&heard, 1);
    wefti_park_wake(&fake.control->park);
    mc_join(a);
    fake_end();
}

/* The turn that answers may have begun for another reason: it has seen what came before the question all the same. */
static void happen_elsewhere(void *unused) {
    (void)unused;
    wefti_park_wake(&fake.control->park);
}

MC_TEST(reactor_answers_fully, .proves = "R11", .bound = 2) {
    fake_begin(1);
    fake.driven = fake_worker[0].driven = true;
    int a = mc_spawn(happen_elsewhere, NULL), b = mc_spawn(answer, NULL);
    wefti_inject_push_one(&fake.inject, &tasks[0]->link);
    mc_assert(fake.sched->next(&fake_worker[0]) == tasks[0]);
    store_relaxed(&heard, 1);
    wefti_park_wake(&fake.control->park);
    mc_join(a);
    mc_join(b);
    fake_end();
}

/* What a task spawns or wakes is offered while that task still runs. */
MC_TEST(reactor_submit_wakes, .proves = "R9") {
    fake_begin(2);
    store_relaxed(&fake.reactor->seat[0].slot, WEFTI_SEAT_CLOSED);
    fake.sched->submit(&fake_worker[0], tasks[0], WEFTI_SUBMIT_SPAWN);
    mc_assert(load_relaxed(&fake.control->park.word) == WEFTI_PARK_NOTIFIED);
    fake_end();
}

/* No seat is open, so a spawn need not wake the reactor; but one opens meanwhile: the task gets there. */
static void open_second(void *unused) {
    (void)unused;
    fake.sched->done(&fake_worker[1]);
}

static void spawn_by_first(void *unused) {
    (void)unused;
    fake.sched->submit(&fake_worker[0], tasks[0], WEFTI_SUBMIT_SPAWN);
}

MC_TEST(reactor_submit_against_open, .proves = "R9 R11", .bound = 2) {
    fake_begin(2);
    for (int i = 0; i < 2; i++) {
        store_relaxed(&fake.reactor->seat[i].slot, WEFTI_SEAT_CLOSED);
        wefti_seat_tell(&fake.reactor->seat[i], &fake.reactor->news);
    }
    turn();
    mc_assert(load_relaxed(&fake.reactor->now_is.active) == 2);
    int a = mc_spawn(open_second, NULL), b = mc_spawn(spawn_by_first, NULL);
    while (load_relaxed(&fake.reactor->seat[1].slot) != (uintptr_t)(void *)tasks[0])
        wait_and_turn();
    mc_join(a);
    mc_join(b);
    fake_end();
}

/* While no seat is open, a spawn costs no wake. */
MC_TEST(reactor_submit_is_quiet, .proves = "R9") {
    fake_begin(1);
    store_relaxed(&fake.reactor->seat[0].slot, WEFTI_SEAT_CLOSED);
    wefti_seat_tell(&fake.reactor->seat[0], &fake.reactor->news);
    turn();
    fake.sched->submit(&fake_worker[0], tasks[0], WEFTI_SUBMIT_SPAWN);
    mc_assert(load_relaxed(&fake.control->park.word) == WEFTI_UNPARKED);
    fake.sched->done(&fake_worker[0]);
    mc_assert(load_relaxed(&fake.control->park.word) == WEFTI_PARK_NOTIFIED);
    turn();
    mc_assert(load_relaxed(&fake.reactor->seat[0].slot) == (uintptr_t)(void *)tasks[0]);
    fake_end();
}

/* A poll that helps goes on while the reactor hands its worker another task: that one is not lost, and comes to the front. */
static void keep_turning(void *unused) {
    (void)unused;
    turn();
    turn();
}

MC_TEST(reactor_resume_against_hand, .proves = "R13 R25 R33", .bound = 2) {
    fake_begin(1);
    struct wefti_reactor *r = fake.reactor;
    store_relaxed(&r->seat[0].slot, WEFTI_SEAT_CLOSED);
    wefti_seat_tell(&r->seat[0], &r->news);
    turn(); /* it runs something */
    wefti_inject_push_one(&fake.inject, &tasks[0]->link);
    int a = mc_spawn(keep_turning, NULL);
    struct weft_task *got = fake.sched->next(&fake_worker[0]); /* opens the seat */
    if (got)
        fake.sched->done(&fake_worker[0]);
    fake.sched->resume(&fake_worker[0]);
    mc_join(a);
    turn();
    mc_assert(load_relaxed(&r->now_is.active) == 1);
    mc_assert(r->ready.count == (got ? 0 : 1)); /* it is in one place */
    mc_assert(load_relaxed(&r->seat[0].slot) == WEFTI_SEAT_CLOSED);
    fake_end();
}

/* Going on, it says so: what was handed to it may be for others. */
MC_TEST(reactor_resume_wakes, .proves = "R13") {
    fake_begin(2);
    struct wefti_reactor *r = fake.reactor;
    store_relaxed(&r->seat[0].slot, WEFTI_SEAT_CLOSED);
    mc_assert(fake.sched->next(&fake_worker[0]) == NULL); /* opens the seat */
    mc_assert(wefti_park_sleep(&fake.control->park, INT64_MAX));
    turn();
    mc_assert(wefti_seat_hand(&r->seat[0], (uintptr_t)(void *)tasks[0]));
    fake.sched->resume(&fake_worker[0]);
    mc_assert(load_relaxed(&fake.control->park.word) == WEFTI_PARK_NOTIFIED);
    turn();
    mc_assert(load_relaxed(&r->seat[1].slot) == (uintptr_t)(void *)tasks[0]);
    fake_end();
}

/* A driven worker that is not driven keeps nobody waiting. */
MC_TEST(reactor_taken_back, .proves = "R11") {
    fake_begin(2);
    fake.driven = fake_worker[0].driven = true;
    struct wefti_reactor *r = fake.reactor;
    store_relaxed(&r->seat[1].slot, WEFTI_SEAT_CLOSED);
    wefti_seat_tell(&r->seat[1], &r->news);
    wefti_inject_push_one(&fake.inject, &tasks[0]->link);
    turn();
    mc_assert(load_relaxed(&r->seat[0].slot) == (uintptr_t)(void *)tasks[0]);
    fake.sched->done(&fake_worker[1]);
    turn();
    mc_assert(load_relaxed(&r->seat[1].slot) == (uintptr_t)(void *)tasks[0]);
    mc_assert(load_relaxed(&r->seat[0].slot) == WEFTI_SEAT_OPEN);
    fake_end();
}

/* -- The whole runtime ------------------------------------------------------------------------------------------- */

static weft_runtime *rt;
static int ran; /* plain */

static void start(unsigned count, bool driven) {
    weft_config config = model_config(WEFT_SCHED_REACTOR, count);
    config.driven = driven;
    rt = model_create(&config);
}

static weft_poll once(weft_task *self, void *state) {
    (void)state;
    ran++;
    return weft_done(self, 0, NULL);
}

/* Two wakers against a task that suspends: it is run again, on one worker at a time. */
static weft_waker waker;
static _Atomic int have_waker, woken, inside;

static weft_poll wait_for_two(weft_task *self, void *state) {
    (void)state;
    mc_assert(add_relaxed(&inside, 1) == 0); /* R33 */
    bool enough = load_acquire(&woken) == 2;
    if (!load_relaxed(&have_waker)) {
        waker = weft_waker_of(self);
        store_release(&have_waker, 1);
    }
    sub_relaxed(&inside, 1);
    return enough ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static void wake_it(void *unused) {
    (void)unused;
    while (!load_acquire(&have_waker))
        wefti_relax();
    add_release(&woken, 1);
    weft_waker_wake_keep(waker);
}

static void wake_against_suspend(void) {
    start(2, false);
    weft_task *task;
    mc_assert(weft_go(rt, wait_for_two, NULL, &task) == 0);
    int a = mc_spawn(wake_it, NULL);
    wake_it(NULL);
    mc_join(a);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    weft_waker_drop(waker);
    model_close(rt);
}
MC_CASE(rt_reactor_wake_against_suspend, wake_against_suspend, .proves = "R19 R20 R33", .mode = MC_PCT,
        .max_exec = 10000);

/* The last task ends, and all threads are joined: nothing is on a worker then, and the books say so. */
MC_TEST(rt_reactor_last_active, .proves = "R25 R36", .mode = MC_PCT, .max_exec = 10000) {
    start(2, false);
    mc_assert(weft_go(rt, once, NULL, NULL) == 0);
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(ran == 1);
    mc_atomic_begin();
    weft_reactor_stats stats = {.size = sizeof stats};
    mc_assert(weft_reactor_stats_read(rt, &stats) == 0);
    mc_assert(stats.dispatched == 1 && stats.active <= 1);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

/* Driven, by a thread that looks again only when it is called. */
MC_TEST(rt_reactor_driven, .bound = 1, .stale_counts = true, .seconds = 6) {
    start(1, true);
    mc_assert(weft_go(rt, once, NULL, NULL) == 0 && weft_go(rt, once, NULL, NULL) == 0);
    mc_assert(weft_drive(rt, 1) == 1);
    mc_assert(weft_drive(rt, 0) == 1);
    mc_assert(weft_drive(rt, 0) == 0);
    mc_assert(ran == 2);
    mc_atomic_begin();
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(weft_drive(rt, 0) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}
