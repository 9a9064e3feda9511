/* date.c - the Date field: made once a second on each thread, however many answers it goes into. */
#include <string.h>

#include "http/exchange.h"

#define SECOND INT64_C(1000000000)

/* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
void wefti_http_date_at(int64_t seconds, char text[WEFTI_HTTP_DATE]) {
    static const char days[] = "ThuFriSatSunMonTueWed", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t day = seconds / 86400;
    unsigned left = (unsigned)(seconds % 86400);
    /* Years from 1 March, so that the odd day is the last; eras of 400 years have 146,097 days. */
    unsigned from = (unsigned)((day + 719468) % 146097), era = (unsigned)((day + 719468) / 146097);
    unsigned year = (from - from / 1460 + from / 36524 - from / 146096) / 365;
    unsigned in_year = from - (365 * year + year / 4 - year / 100), march = (5 * in_year + 2) / 153;
    unsigned in_month = in_year - (153 * march + 2) / 5 + 1, month = march < 10 ? march + 2 : march - 10;
    year += era * 400 + (month < 2);
    const unsigned two[] = {in_month, year / 100, year % 100, left / 3600, left / 60 % 60, left % 60};
    static const unsigned char at[] = {11, 18, 20, 23, 26, 29};
    memcpy(text, "Date: ___, 00 ___ 0000 00:00:00 GMT\r\n", WEFTI_HTTP_DATE);
    memcpy(text + 6, days + day % 7 * 3, 3);
    memcpy(text + 14, months + (size_t)month * 3, 3);
    for (unsigned i = 0; i < sizeof at; i++) {
        text[at[i]] = (char)('0' + two[i] / 10 % 10);
        text[at[i] + 1] = (char)('0' + two[i] % 10);
    }
}

/* Nobody switches fibers between the look and the copy. */
void wefti_http_date(int64_t now, bool sim, char text[WEFTI_HTTP_DATE]) {
    static __thread struct {
        int64_t from, until; /* of the monotonic clock */
        bool sim;
        char text[WEFTI_HTTP_DATE];
    } cache __attribute__((tls_model("initial-exec")));
    if (WEFTI_UNLIKELY(now < cache.from || now >= cache.until || sim != cache.sim)) {
        int64_t wall = sim ? now : wefti_wall_clock(); /* a simulation begins in 1970, always */
        wefti_http_date_at(wall / SECOND, cache.text);
        cache.from = now;
        cache.until = now + (SECOND - wall % SECOND);
        cache.sim = sim;
    }
    memcpy(text, cache.text, WEFTI_HTTP_DATE);
}
