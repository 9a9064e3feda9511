/* task_word.c - the task word: its layout, every legal change, and that no other is possible. */
#include "harness.h"
#include "task/word.h"

#include <string.h>

static wefti_word word;

static const enum wefti_life lives[] = {WEFTI_FREE, WEFTI_IDLE, WEFTI_SCHEDULED, WEFTI_RUNNING, WEFTI_COMPLETE};
#define LIVES (sizeof lives / sizeof *lives)

/* A word with that life, some flags, and the fields that a change of life must not touch. */
#define REST (3 * WEFTI_REF_ONE | WEFTI_JOINABLE | (uint64_t)0xabcd << 48)

static void set(uint64_t value) { store_relaxed(&word, value); }
static uint64_t get(void) { return load_relaxed(&word); }
static void expect(uint64_t value) { CHECK_EQ(get(), value); }

TEST(word_layout, "B47") {
    CHECK_EQ(sizeof(wefti_word), 8);
    CHECK_EQ(WEFTI_LIFE_MASK | WEFTI_ASKED, 0x00000000000000ff);
    CHECK_EQ(WEFTI_LIFE_MASK & WEFTI_ASKED, 0);
    CHECK_EQ((WEFTI_NOTIFIED | WEFTI_CANCELLED | WEFTI_JOINABLE | WEFTI_JOINED | WEFTI_JOINING) & ~UINT64_C(0xff00), 0);
    CHECK_EQ(WEFTI_SHIELD_MASK, 0x0000000000ff0000);
    CHECK_EQ(WEFTI_REF_MASK, 0x0000ffffff000000);
    CHECK_EQ((intmax_t)WEFTI_SUB_MASK, (intmax_t)0xffff000000000000);
    CHECK_EQ(__builtin_popcountll(WEFTI_REF_MASK), 24);
    CHECK_EQ(__builtin_popcountll(WEFTI_SHIELD_MASK), 8);
    CHECK_EQ(WEFTI_FREE, 0); /* fresh memory holds no task */
}

TEST(word_spawn, "B47 B54") {
    wefti_word_spawn(&word, false);
    expect(WEFTI_SCHEDULED | WEFTI_REF_ONE);
    CHECK_EQ(wefti_word_refs(get()), 1);
    wefti_word_spawn(&word, true);
    expect(WEFTI_SCHEDULED | 2 * WEFTI_REF_ONE | WEFTI_JOINABLE);
    CHECK_EQ(wefti_word_refs(get()), 2);
}

/* A request to end is one bit that changes nothing else; the task is run as before, and its waits see to it. */
TEST(word_ask, "W36") {
    for (size_t i = 0; i < LIVES; i++) {
        set(REST | lives[i]);
        wefti_word_ask(&word);
        expect(REST | lives[i] | WEFTI_ASKED);
        CHECK_EQ(wefti_word_life(get()), lives[i]);
        CHECK(wefti_word_is_to_end(get()));
        CHECK(!wefti_word_must_end(get()));
        CHECK(!wefti_word_is_plain(get()));
        wefti_word_unask(&word);
        expect(REST | lives[i]);
        CHECK(!wefti_word_is_to_end(get()));
    }
    set(REST | WEFTI_SCHEDULED | WEFTI_ASKED);
    CHECK(wefti_word_enter(&word));
    CHECK(!wefti_word_enter_plain(&word));
    CHECK(!wefti_word_to_idle(&word));
    expect(REST | WEFTI_IDLE | WEFTI_ASKED);
    CHECK(wefti_word_wake(&word));
    expect(REST | WEFTI_SCHEDULED | WEFTI_ASKED);
    CHECK(wefti_word_is_to_end(WEFTI_CANCELLED));
}

/* -- Running ---------------------------------------------------------------------------------------------- */

TEST(word_to_running, "B48") {
    set(REST | WEFTI_SCHEDULED | WEFTI_NOTIFIED);
    wefti_word_to_running(&word);
    expect(REST | WEFTI_RUNNING | WEFTI_NOTIFIED); /* it is running already: there was another poll to be answered by */
}

TEST(word_claim, "B48 B50") {
    const uint64_t rest = REST & ~WEFTI_SUB_MASK;
    set(rest | WEFTI_IDLE);
    CHECK(wefti_word_claim(&word));
    expect(rest | WEFTI_SCHEDULED);
    CHECK(!wefti_word_claim(&word)); /* whose it is */
    set(rest | WEFTI_SCHEDULED);
    CHECK(!wefti_word_claim(&word));
    set(rest | WEFTI_IDLE | UINT64_C(1) << 48); /* it sleeps through some wakes: not for us to say */
    CHECK(!wefti_word_claim(&word));
    expect(rest | WEFTI_IDLE | UINT64_C(1) << 48);
}

/* Who runs it leaves it as it is, but for a wake that came before: that is answered by the poll. */
TEST(word_enter, "B48 B51 J31") {
    const enum wefti_life active[] = {WEFTI_SCHEDULED, WEFTI_RUNNING};
    for (int i = 0; i < 2; i++) {
        set(REST | active[i]);
        CHECK(wefti_word_enter(&word));
        expect(REST | active[i]);
        set(REST | active[i] | WEFTI_NOTIFIED);
        CHECK(wefti_word_enter(&word));
        expect(REST | active[i]);
        set(REST | active[i] | WEFTI_CANCELLED); /* cancelled while queued: not to be entered */
        CHECK(!wefti_word_enter(&word));
        expect(REST | active[i] | WEFTI_CANCELLED);
        set(REST | active[i] | WEFTI_CANCELLED | WEFTI_NOTIFIED);
        CHECK(!wefti_word_enter(&word));
        set(REST | active[i] | WEFTI_CANCELLED | WEFTI_SHIELD_ONE);
        CHECK(wefti_word_enter(&word));
    }
}

/* Only one that there is nothing to see to goes on without. */
TEST(word_enter_plain, "B48 B51 J31") {
    set(REST | WEFTI_SCHEDULED);
    CHECK(wefti_word_enter_plain(&word));
    const uint64_t others[] = {WEFTI_RUNNING, WEFTI_SCHEDULED | WEFTI_NOTIFIED, WEFTI_SCHEDULED | WEFTI_CANCELLED,
                               WEFTI_SCHEDULED | WEFTI_CANCELLED | WEFTI_SHIELD_ONE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        set(REST | others[i]);
        CHECK(!wefti_word_enter_plain(&word));
        expect(REST | others[i]);
    }
}

TEST(word_to_idle, "B48 B51") {
    set(REST | WEFTI_RUNNING);
    CHECK(!wefti_word_to_idle(&word));
    expect(REST | WEFTI_IDLE);
    set(REST | WEFTI_RUNNING | WEFTI_NOTIFIED); /* captured, in the same step */
    CHECK(wefti_word_to_idle(&word));
    expect(REST | WEFTI_SCHEDULED);
    set(REST | WEFTI_RUNNING | WEFTI_CANCELLED); /* it must come by once more, to end */
    CHECK(wefti_word_to_idle(&word));
    expect(REST | WEFTI_SCHEDULED | WEFTI_CANCELLED);
    set(REST | WEFTI_RUNNING | WEFTI_CANCELLED | WEFTI_SHIELD_ONE);
    CHECK(!wefti_word_to_idle(&word));
    expect(REST | WEFTI_IDLE | WEFTI_CANCELLED | WEFTI_SHIELD_ONE);
}

TEST(word_to_yielded, "B48") {
    set(REST | WEFTI_RUNNING | WEFTI_NOTIFIED);
    wefti_word_to_yielded(&word);
    expect(REST | WEFTI_SCHEDULED);
}

TEST(word_to_complete, "B48 B54") {
    set(REST | WEFTI_RUNNING); /* nobody waits: the scheduler's reference goes in the same step */
    CHECK_EQ(wefti_word_to_complete(&word), REST - WEFTI_REF_ONE + WEFTI_COMPLETE);
    expect(REST - WEFTI_REF_ONE + WEFTI_COMPLETE);
    set(WEFTI_RUNNING | WEFTI_REF_ONE);
    CHECK_EQ(wefti_word_refs(wefti_word_to_complete(&word)), 0);
    set(REST | WEFTI_RUNNING | WEFTI_JOINED); /* kept until the waiter has been told */
    CHECK_EQ(wefti_word_to_complete(&word), REST | WEFTI_COMPLETE | WEFTI_JOINED);
    set(REST | WEFTI_RUNNING);
    CHECK(!wefti_word_is_complete(&word));
    wefti_word_to_complete(&word);
    CHECK(wefti_word_is_complete(&word));
}

/* -- Waking ----------------------------------------------------------------------------------------------- */

TEST(word_wake_idle, "B49") {
    set(REST | WEFTI_IDLE);
    CHECK(wefti_word_wake(&word)); /* this caller queues it */
    expect(REST | WEFTI_SCHEDULED);
    CHECK(!wefti_word_wake(&word)); /* and no other */
}

TEST(word_wake_busy, "B50") {
    set(REST | WEFTI_SCHEDULED);
    CHECK(!wefti_word_wake(&word));
    expect(REST | WEFTI_SCHEDULED | WEFTI_NOTIFIED);
    set(REST | WEFTI_RUNNING);
    for (int i = 0; i < 3; i++)
        CHECK(!wefti_word_wake(&word));
    expect(REST | WEFTI_RUNNING | WEFTI_NOTIFIED);
}

TEST(word_wake_complete, "B53") {
    set(REST | WEFTI_COMPLETE);
    CHECK(!wefti_word_wake(&word));
    expect(REST | WEFTI_COMPLETE);
}

/* The whole protocol in both orders: a wake before the transition is captured, one after it finds IDLE. */
TEST(word_wake_is_never_lost, "B49 B50 B51") {
    set(REST | WEFTI_RUNNING);
    bool woke = wefti_word_wake(&word), again = wefti_word_to_idle(&word);
    CHECK(!woke && again);
    set(REST | WEFTI_RUNNING);
    again = wefti_word_to_idle(&word), woke = wefti_word_wake(&word);
    CHECK(woke && !again);
}

/* -- Cancelling and shields --------------------------------------------------------------------------------- */

#define EXPLICIT (WEFTI_CANCELLED | UINT64_C(1) << WEFTI_WHY_SHIFT)

TEST(word_cancel, "B48 B56") {
    set(REST | WEFTI_IDLE);
    CHECK(wefti_word_cancel(&word)); /* this caller queues it, so that it ends */
    expect(REST | WEFTI_SCHEDULED | EXPLICIT);
    CHECK(!wefti_word_cancel_for(&word, 4)); /* idempotent, and the first reason stays */
    CHECK_EQ(wefti_word_why(load_relaxed(&word)), 1);
    expect(REST | WEFTI_SCHEDULED | EXPLICIT);
    set(REST | WEFTI_SCHEDULED);
    CHECK(!wefti_word_cancel(&word));
    expect(REST | WEFTI_SCHEDULED | EXPLICIT);
    set(REST | WEFTI_RUNNING);
    CHECK(!wefti_word_cancel(&word));
    expect(REST | WEFTI_RUNNING | EXPLICIT);
    set(REST | WEFTI_COMPLETE);
    CHECK(!wefti_word_cancel(&word));
    expect(REST | WEFTI_COMPLETE);
    set(REST | WEFTI_IDLE | WEFTI_SHIELD_ONE); /* put off: it stays idle */
    CHECK(!wefti_word_cancel(&word));
    expect(REST | WEFTI_IDLE | WEFTI_SHIELD_ONE | EXPLICIT);
}

TEST(word_must_end, "B56") {
    CHECK(!wefti_word_must_end(WEFTI_RUNNING));
    CHECK(wefti_word_must_end(WEFTI_RUNNING | WEFTI_CANCELLED));
    for (uint64_t depth = 1; depth <= 255; depth++)
        CHECK(!wefti_word_must_end(WEFTI_RUNNING | WEFTI_CANCELLED | depth * WEFTI_SHIELD_ONE));
}

TEST(word_shield_nests, "B47 B56") {
    uint64_t before = REST | WEFTI_RUNNING | WEFTI_CANCELLED;
    set(before);
    CHECK(!wefti_word_unshield(&word));
    for (uint64_t depth = 1; depth <= 255; depth++) {
        REQUIRE(wefti_word_shield(&word));
        REQUIRE_EQ(get(), before + depth * WEFTI_SHIELD_ONE);
        REQUIRE(!wefti_word_must_end(get()));
    }
    CHECK(!wefti_word_shield(&word)); /* and does not spill into the references */
    expect(before + 255 * WEFTI_SHIELD_ONE);
    for (int depth = 254; depth >= 0; depth--) {
        REQUIRE(wefti_word_unshield(&word));
        REQUIRE_EQ(wefti_word_must_end(get()), depth == 0);
    }
    CHECK(!wefti_word_unshield(&word));
    expect(before);
}

/* -- Joining ---------------------------------------------------------------------------------------------- */

TEST(word_join, "B33 B55") {
    for (enum wefti_life life = WEFTI_IDLE; life <= WEFTI_RUNNING; life++) {
        set(REST | life);
        CHECK(wefti_word_join_begin(&word)); /* one at a time: a claim, then the joiner is filled, then published */
        expect(REST | life | WEFTI_JOINING);
        CHECK(!wefti_word_join_begin(&word));
        CHECK(wefti_word_join_register(&word));
        expect(REST | life | WEFTI_JOINED);
        CHECK(!wefti_word_join_begin(&word));
        CHECK(wefti_word_join_unregister(&word));
        expect(REST | life);
    }
    set(REST | WEFTI_COMPLETE);
    CHECK(!wefti_word_join_begin(&word));
    expect(REST | WEFTI_COMPLETE);
    set(REST | WEFTI_RUNNING | WEFTI_JOINING); /* complete before it was published: nobody looks at the joiner */
    CHECK_EQ(wefti_word_refs(wefti_word_to_complete(&word)), 2);
    CHECK(!wefti_word_join_register(&word));
    set(REST | WEFTI_RUNNING | WEFTI_JOINED); /* complete first: the completer has the joiner */
    wefti_word_to_complete(&word);
    CHECK(!wefti_word_join_unregister(&word));
    expect(REST | WEFTI_COMPLETE | WEFTI_JOINED);
}

/* -- References ------------------------------------------------------------------------------------------- */

TEST(word_refs, "B47 B54") {
    set(WEFTI_IDLE | WEFTI_REF_ONE);
    for (uint32_t i = 2; i < 1000; i++) {
        wefti_word_ref(&word);
        REQUIRE_EQ(wefti_word_refs(get()), i);
    }
    for (uint32_t i = 998; i > 0; i--) {
        REQUIRE(!wefti_word_unref(&word, 0));
        REQUIRE_EQ(wefti_word_refs(get()), i);
    }
    CHECK(wefti_word_unref(&word, 0)); /* exactly at 0 */
    set(WEFTI_IDLE | (WEFTI_REF_MASK - WEFTI_REF_ONE));
    wefti_word_ref(&word); /* 2^24 - 1 fit */
    expect(WEFTI_IDLE | WEFTI_REF_MASK);
}

TEST(word_unref_clears, "B54") {
    set(WEFTI_IDLE | WEFTI_JOINABLE | 2 * WEFTI_REF_ONE);
    CHECK(!wefti_word_unref(&word, WEFTI_JOINABLE));
    expect(WEFTI_IDLE | WEFTI_REF_ONE);
    set(WEFTI_COMPLETE | WEFTI_JOINABLE | WEFTI_REF_ONE); /* the last one of a complete task */
    CHECK(wefti_word_unref(&word, WEFTI_JOINABLE));
}

/* Who only found the memory gets a reference to a living task, and to nothing else. */
TEST(word_try_ref, "B54") {
    for (size_t i = 0; i < LIVES; i++) {
        set(lives[i] | WEFTI_REF_ONE);
        bool living = lives[i] != WEFTI_FREE && lives[i] != WEFTI_COMPLETE;
        CHECK_EQ(wefti_word_try_ref(&word), living);
        expect(lives[i] | (1 + living) * WEFTI_REF_ONE);
    }
}

TEST(word_sub_state, "B47") {
    set(0x00000fff00030f03);
    for (unsigned sub = 0; sub < 65536; sub += 4369) {
        wefti_word_set_sub(&word, (uint16_t)sub);
        CHECK_EQ(wefti_word_sub(get()), sub);
        CHECK_EQ(get() & ~WEFTI_SUB_MASK, 0x00000fff00030f03);
    }
}

/* -- What must not happen ends the process ------------------------------------------------------------------ */

static void call_enter(void *at) { wefti_word_enter(at); }
static void call_to_running(void *at) { wefti_word_to_running(at); }
static void call_to_idle(void *at) { wefti_word_to_idle(at); }
static void call_to_yielded(void *at) { wefti_word_to_yielded(at); }
static void call_to_complete(void *at) { wefti_word_to_complete(at); }
static void call_cancel(void *at) { wefti_word_cancel(at); }
static void call_ref(void *at) { wefti_word_ref(at); }
static void call_unref(void *at) { wefti_word_unref(at, 0); }
static void call_register(void *at) { wefti_word_join_register(at); }

static void aborts_unless(void (*fn)(void *), enum wefti_life legal, enum wefti_life legal_too) {
    for (size_t i = 0; i < LIVES; i++)
        if (lives[i] != legal && lives[i] != legal_too) {
            set(REST | lives[i]);
            REQUIRE_ABORTS(fn, &word, "weft: broken invariant");
        }
}

TEST(word_illegal_changes_abort, "B48") {
    aborts_unless(call_enter, WEFTI_SCHEDULED, WEFTI_RUNNING);
    aborts_unless(call_to_running, WEFTI_SCHEDULED, WEFTI_SCHEDULED);
    aborts_unless(call_to_idle, WEFTI_SCHEDULED, WEFTI_RUNNING);
    aborts_unless(call_to_yielded, WEFTI_SCHEDULED, WEFTI_RUNNING);
    aborts_unless(call_to_complete, WEFTI_SCHEDULED, WEFTI_RUNNING);
    set(WEFTI_FREE);
    CHECK(!wefti_word_wake(&word)); /* a loose wake may meet nobody */
    CHECK_EQ(load_relaxed(&word), WEFTI_FREE);
    REQUIRE_ABORTS(call_cancel, &word, "life != WEFTI_FREE");
    set(REST | WEFTI_RUNNING | WEFTI_JOINED);
    REQUIRE_ABORTS(call_register, &word, "WEFTI_JOINED"); /* without a claim */
    set(REST | WEFTI_RUNNING);
    REQUIRE_ABORTS(call_register, &word, "WEFTI_JOINING");
}

static void call_try_ref(void *arg) { wefti_word_try_ref(arg); }

TEST(word_reference_errors_abort, "B54") {
    set(WEFTI_IDLE);
    REQUIRE_ABORTS(call_ref, &word, "wefti_word_refs(found) > 0"); /* nobody had one to make another from */
    REQUIRE_ABORTS(call_unref, &word, "wefti_word_refs(found) > 0");
    set(WEFTI_IDLE | WEFTI_REF_MASK);
    REQUIRE_ABORTS(call_ref, &word,
                   "weft: weft_waker_of: the task has 16,777,215 handles and wakers"); /* 2^24 do not fit */
    REQUIRE_ABORTS(call_try_ref, &word, "weft: weft_waker_of: the task has 16,777,215 handles and wakers");
    set(WEFTI_RUNNING);
    REQUIRE_ABORTS(call_to_complete, &word, "wefti_word_refs(found) > 0");
}

/* -- All at once -------------------------------------------------------------------------------------------- */

#define WAKERS 3

static struct {
    wefti_word word;
    _Atomic unsigned queued, polls, written, woken;
    unsigned each;
} race;

/* Threads wake one task; whoever is told to queue it "queues" it, and the runner runs it. */
static void wake_or_run(unsigned index, void *arg) {
    (void)arg;
    if (index < WAKERS) {
        for (unsigned i = 0; i < race.each; i++) {
            add_relaxed(&race.written, 1);
            if (wefti_word_wake(&race.word))
                REQUIRE_EQ(add_release(&race.queued, 1), 0); /* never a second entry */
            add_relaxed(&race.woken, 1);
        }
        return;
    }
    for (unsigned seen = 0; seen < WAKERS * race.each;) {
        if (load_acquire(&race.queued) == 0) {
            /* All wakes are over and the task is not queued: then the last poll has seen them all. */
            if (load_acquire(&race.woken) == WAKERS * race.each && load_acquire(&race.queued) == 0)
                REQUIRE_EQ(seen, WAKERS * race.each);
            continue;
        }
        sub_relaxed(&race.queued, 1);
        bool again = true;
        while (again) {
            REQUIRE(wefti_word_enter(&race.word));
            seen = load_relaxed(&race.written);
            add_relaxed(&race.polls, 1);
            again = wefti_word_to_idle(&race.word);
        }
    }
}

TEST(word_racing_wakes, "B49 B50 B51 B52 W21") {
    race.each = harness_is_slow() ? 20000 : 200000;
    store_relaxed(&race.word, WEFTI_IDLE | WEFTI_REF_ONE);
    harness_threads(WAKERS + 1, wake_or_run, NULL);
    CHECK_EQ(wefti_word_refs(load_relaxed(&race.word)), 1);
    CHECK_LE(race.polls, WAKERS * race.each);
}
