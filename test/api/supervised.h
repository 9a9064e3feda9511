/* supervised.h - what supervisors of fibers and of processes told, and their settings.
 *
 * Under sim time is virtual, and the defaults (seconds) are tested; elsewhere a second is a millisecond. */
#ifndef TEST_API_SUPERVISED_H
#define TEST_API_SUPERVISED_H

#include <weft/supervisor.h>

#include "fixture.h"

#define EVENTS 256

static struct {
    unsigned count;
    struct {
        size_t child;
        weft_supervised what;
        int status;
        int64_t at;
    } event[EVENTS];
} told;

static void note(void *arg, size_t child, weft_supervised what, int status) {
    (void)arg;
    REQUIRE_LT(told.count, EVENTS);
    told.event[told.count].child = child;
    told.event[told.count].what = what;
    told.event[told.count].status = status;
    told.event[told.count++].at = weft_now();
}

/* What was told, as text: S0 E0 G0 and so on; X: exhausted, C: recharged, R: refused. */
static const char *story(void) {
    static char text[EVENTS * 4];
    char *at = text;
    for (unsigned i = 0; i < told.count; i++)
        at += sprintf(at, "%s%c%zu", i ? " " : "", "SEGXCR"[told.event[i].what], told.event[i].child);
    return text;
}

static int64_t second(void) { return fixture_on("sim") ? INT64_C(1000000000) : INT64_C(1000000); }

static weft_supervisor_config config_of(weft_strategy strategy, uint32_t intensity) {
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    config.strategy = strategy;
    config.intensity = intensity;
    config.report = note;
    if (!fixture_on("sim")) {
        config.period = 60 * INT64_C(1000000000); /* restarts on a loaded machine are late */
        config.backoff_min = second();
        config.backoff_max = 90 * second();
        config.stable = 60 * INT64_C(1000000000);
    }
    return config;
}

static atomic_int runs;

/* arg: how often it fails; then it ends well. */
static inline int fail_often(void *arg) { return atomic_fetch_add(&runs, 1) < (int)(intptr_t)arg ? -EIO : 0; }

#endif
