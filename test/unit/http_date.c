/* http_date.c - the Date field. */
#include <string.h>
#include <time.h>

#include "harness.h"
#include "http/exchange.h"

/* Against the C library, from 1970 to 2400: every day's first and last second, and some between. */
TEST(http_date_every_day, "") {
    char found[WEFTI_HTTP_DATE + 1] = "", expected[64];
    uint64_t random = harness_seed();
    for (int64_t day = 0; day < 157000; day++) {
        int64_t at[3] = {day * 86400, day * 86400 + 86399, day * 86400 + (int64_t)(harness_random(&random) % 86400)};
        time_t seconds = (time_t)at[day % 3];
        struct tm tm;
        wefti_http_date_at(seconds, found);
        REQUIRE(gmtime_r(&seconds, &tm));
        strftime(expected, sizeof expected, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        REQUIRE_STR(found, expected);
    }
}

/* Kept for its second, made anew after it. */
TEST(http_date_kept, "") {
    char first[WEFTI_HTTP_DATE + 1] = "", found[WEFTI_HTTP_DATE + 1] = "", later[WEFTI_HTTP_DATE + 1] = "";
    wefti_http_date(INT64_C(5000000000), false, first);
    wefti_http_date(INT64_C(5000000000), false, found);
    CHECK_STR(found, first);
    int64_t before = time(NULL);
    wefti_http_date(INT64_C(7000000000), false, found); /* by its clock two seconds have passed: it asks again */
    int64_t after = time(NULL);
    bool same = false;
    for (int64_t at = before - 1; at <= after; at++) { /* the kernel's tick may lag */
        wefti_http_date_at(at, later);
        same = same || !strcmp(found, later);
    }
    CHECK(same);
}
