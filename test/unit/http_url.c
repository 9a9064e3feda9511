/* http_url.c - URLs: what is accepted, what they mean, what is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weft/http.h>

#include "harness.h"

TEST(http_url_good, "") {
    static const struct {
        const char *text, *authority, *host, *target;
        int port;
        bool secure;
    } good[] = {
        {"http://a", "a", "a", "/", 80, false},
        {"http://a/", "a", "a", "/", 80, false},
        {"HTTP://A.b-c_d.example/x", "A.b-c_d.example", "A.b-c_d.example", "/x", 80, false},
        {"https://a", "a", "a", "/", 443, true},
        {"ws://a/chat", "a", "a", "/chat", 80, false},
        {"WsS://a/chat?x", "a", "a", "/chat?x", 443, true},
        {"http://a:8080/b?c=d&e=%20#f", "a:8080", "a", "/b?c=d&e=%20", 8080, false},
        {"http://a:1", "a:1", "a", "/", 1, false},
        {"http://a:65535", "a:65535", "a", "/", 65535, false},
        {"http://a:00080/", "a:00080", "a", "/", 80, false},
        {"http://a:", "a:", "a", "/", 80, false}, /* RFC 3986, 3.2.3 */
        {"https://a:/b", "a:", "a", "/b", 443, true},
        {"http://[::1]:/", "[::1]:", "::1", "/", 80, false},
        {"http://a#f", "a", "a", "/", 80, false},
        {"http://127.0.0.1:80/", "127.0.0.1:80", "127.0.0.1", "/", 80, false},
        {"http://[::1]/", "[::1]", "::1", "/", 80, false},
        {"https://[2001:db8::1]:8443/a:b", "[2001:db8::1]:8443", "2001:db8::1", "/a:b", 8443, true},
        {"http://[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]", "::ffff:1.2.3.4", "/", 80, false},
        {"http://a//b/../c", "a", "a", "//b/../c", 80, false},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        weft_url url;
        int error = weft_url_parse(good[i].text, &url);
        if (error || !weft_text_is(url.authority, good[i].authority) || !weft_text_is(url.host, good[i].host) ||
            !weft_text_is(url.target, good[i].target) || url.port != good[i].port || url.secure != good[i].secure)
            harness_note(__FILE__, __LINE__, "%s: found %d", good[i].text, error);
    }
}

TEST(http_url_bad, "") {
    static const char *const bad[] = {"",
                                      "http",
                                      "http:",
                                      "http:/",
                                      "http://",
                                      "http:///a",
                                      "http://?a",
                                      "http://#a",
                                      "http://a?b",
                                      "//a/b",
                                      "/a",
                                      "a",
                                      "a.example/x",
                                      "://a",
                                      "ftp://a",
                                      "file:///etc/passwd",
                                      "httpss://a",
                                      "htt://a",
                                      " http://a",
                                      "http ://a",
                                      "http://a b",
                                      "http://a/b c",
                                      "http://a/\t",
                                      "http://a/\r\nHost: b",
                                      "http://a\r\n",
                                      "http://a/#\n",
                                      "http://a/\x7f",
                                      "http://\xc3\xa4/",
                                      "http://a/\xc3\xa4",
                                      "http://u@a",
                                      "http://u:p@a",
                                      "http://a:0",
                                      "http://a:65536",
                                      "http://a:123456",
                                      "http://a:99999999999999999999",
                                      "http://a:-1",
                                      "http://a:+1",
                                      "http://a:0x50",
                                      "http://a:80a",
                                      "http://a:80:80",
                                      "http://:80",
                                      "http://[",
                                      "http://[]",
                                      "http://[::1",
                                      "http://[::1/",
                                      "http://[::1]x",
                                      "http://[::1]80",
                                      "http://[::1%25lo]",
                                      "http://[g::1]",
                                      "http://[1.2.3.4]",
                                      "http://[:]",
                                      "http://[:::]",
                                      "http://[::1.]",
                                      "http://[::.1.2]",
                                      "http://[::1.2.3]",
                                      "http://[0::0::0]",
                                      "http://[0:0:]",
                                      "http://[0:1:2:3:4:5:6:7:8]",
                                      "http://[::127.0.0.0.1]",
                                      "http://[::1.2.3.256]",
                                      "http://[00001::]",
                                      "http://[1111:2222:3333:4444:5555:6666:777:88:9999:0000]",
                                      "http://::1/",
                                      "http://a,b/",
                                      "http://a%41/",
                                      "http://a*b/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_url untouched = {.port = 7}, url = untouched;
        int error = weft_url_parse(bad[i], &url);
        if (error != -EINVAL || url.port != 7)
            harness_note(__FILE__, __LINE__, "\"%s\": found %d", bad[i], error);
    }
    weft_url url;
    CHECK_EQ(weft_url_parse(NULL, &url), -EINVAL);
    CHECK_EQ(weft_url_parse("http://a", NULL), -EINVAL);
    char *much = malloc(100000); /* a host that is no name */
    REQUIRE(much);
    memset(much, 'a', 99999);
    memcpy(much, "http://", 7);
    much[99999] = 0;
    CHECK_EQ(weft_url_parse(much, &url), -EINVAL);
    much[7 + 255] = '/'; /* the longest */
    CHECK_EQ(weft_url_parse(much, &url), 0);
    free(much);
}
