/* signal.c - a signal against whoever opens, waits and takes.  The source itself, its handler called by hand; an eventfd is a poke. */
#include <fcntl.h>
#include <weft/signal.h>

#include "io/case.h"
#include "io/desc.h"

#include "model.h"
#include "poke.h"

#define weft_signal_open model_signal_open
#define weft_signal_close model_signal_close
#define weft_signal_wait model_signal_wait
#define weft_case_signal model_case_signal
#define weft_io_open(number, flags, out) wefti_desc_new(number, 0, out)
#define wefti_signal_catch(number, handler) ((void)(handler), 0)
#define wefti_poke poke_write
#include "signal/signal.c" /* NOLINT: its own functions, one by one */

enum { NUMBER = SIGUSR1 };
static const int wanted = NUMBER;
static weft_signals *signals;
static int before; /* plain: what was done before the signal */

static int wait_for_one(void) {
    int number;
    while ((number = take(signals)) == 0) /* W1 */
        poke_read(signals->poke); /* W2 */
    return number;
}

static void send(void *unused) {
    (void)unused;
    before = 1;
    on_signal(NUMBER);
}

static void end(void) {
    signals->io->borrowed = true;
    signals->io->was_flags = O_NONBLOCK;
    model_signal_close(signals);
}

/* While it is waited for: it is told, with all that came before. */
MC_TEST(signal_against_wait, .leaks_ok = true, .bound = 3) {
    mc_assert(model_signal_open(&wanted, 1, &signals) == 0);
    int a = mc_spawn(send, NULL);
    mc_assert(wait_for_one() == NUMBER);
    mc_assert(before == 1);
    mc_join(a);
    end();
}

/* While another, for whom it has been caught all along, is opened: told or not, and never poked where there is nothing yet. */
MC_TEST(signal_against_open, .leaks_ok = true, .bound = 3, .outcomes = "told untold") {
    int a = mc_spawn(send, NULL);
    mc_assert(model_signal_open(&wanted, 1, &signals) == 0);
    mc_join(a);
    mc_outcome(take(signals) ? "told" : "untold");
    end();
}

/* Two signals, whose pokes one may read away, and two who wait. */
static void send_two(void *unused) {
    (void)unused;
    on_signal(NUMBER);
    on_signal(NUMBER);
}

static void wait_too(void *unused) {
    (void)unused;
    mc_assert(wait_for_one() == NUMBER);
}

MC_TEST(signal_two_waiters, .leaks_ok = true, .bound = 2) {
    mc_atomic_begin();
    mc_assert(model_signal_open(&wanted, 1, &signals) == 0);
    mc_atomic_end();
    int a = mc_spawn(wait_too, NULL), b = mc_spawn(send_two, NULL);
    wait_too(NULL);
    mc_join(a), mc_join(b);
    mc_assert(take(signals) == 0);
    end();
}
