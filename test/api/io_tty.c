/* io_tty.c - terminals that are borrowed: lines, ends, echo, a hang-up, and that they are left as they were. */
#define _GNU_SOURCE
#include <termios.h>

#include "io_fixture.h"

static weft_io *keyboard; /* the other side of the terminal */

/* A terminal that was there before us, or a skip. */
static int open_terminal(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) || unlockpt(master))
        SKIP("no terminals here");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE_GE(slave, 0);
    REQUIRE_EQ(weft_io_open(master, 0, &keyboard), 0);
    return slave;
}

static void type(const char *text) { CHECK_EQ(weft_write(keyboard, text, strlen(text), fixture_soon()), strlen(text)); }

static void read_is(weft_io *io, const char *expected) {
    char text[256] = "";
    size_t size = strlen(expected);
    CHECK_EQ(weft_read_exact(io, text, size, fixture_soon()), size);
    CHECK_STR(text, expected);
}

static int lines(void *unused) {
    (void)unused;
    int slave = open_terminal(), flags = fcntl(slave, F_GETFL);
    struct termios before, after;
    weft_io *terminal;
    char text[64];
    REQUIRE_EQ(tcgetattr(slave, &before), 0);
    REQUIRE_EQ(weft_io_open(slave, WEFT_IO_BORROW, &terminal), 0);
    type("ab\177c\n"); /* a letter is rubbed out */
    CHECK_EQ(weft_read(terminal, text, sizeof text, fixture_soon()), 3);
    CHECK(memcmp(text, "ac\n", 3) == 0);
    read_is(keyboard, "ab\b \bc\r\n"); /* the echo */
    weft_case cases[] = {weft_case_io(terminal, WEFT_FD_READ), weft_case_at(weft_after(2000000))};
    type("half a line");
    CHECK_EQ(weft_select(cases, 2, WEFT_NEVER), 1); /* not readable before its end */
    type("\n");
    cases[1] = weft_case_at(fixture_soon());
    CHECK_EQ(weft_select(cases, 2, WEFT_NEVER), 0);
    CHECK_EQ(weft_read(terminal, text, sizeof text, WEFT_NOW), 12);
    type("\4"); /* ^D: an end, after which it goes on */
    CHECK_EQ(weft_read(terminal, text, sizeof text, fixture_soon()), 0);
    type("more\n");
    CHECK_EQ(weft_read(terminal, text, sizeof text, fixture_soon()), 5);
    read_is(keyboard, "half a line\r\n");
    CHECK_EQ(weft_write(terminal, "said\n", 5, fixture_soon()), 5);
    CHECK_EQ(weft_close(terminal), 0);
    CHECK_EQ(fcntl(slave, F_GETFL), flags); /* still open, and as it was */
    REQUIRE_EQ(tcgetattr(slave, &after), 0);
    CHECK_EQ(after.c_lflag, before.c_lflag);
    CHECK_EQ(after.c_iflag, before.c_iflag);
    CHECK_EQ(after.c_oflag, before.c_oflag);
    close(slave);
    weft_close(keyboard);
    return 0;
}

API_TEST(tty_lines, "", .workers = {1, 2}) { io_run(lines, NULL); }

/* Letter by letter. */
static int raw(void *unused) {
    (void)unused;
    int slave = open_terminal();
    struct termios mode;
    weft_io *terminal;
    char text[64];
    REQUIRE_EQ(tcgetattr(slave, &mode), 0);
    cfmakeraw(&mode);
    REQUIRE_EQ(tcsetattr(slave, TCSANOW, &mode), 0);
    REQUIRE_EQ(weft_io_open(slave, WEFT_IO_BORROW, &terminal), 0);
    for (int i = 0; i < 50; i++) {
        type("k");
        CHECK_EQ(weft_read(terminal, text, sizeof text, fixture_soon()), 1);
        CHECK_EQ(weft_read(terminal, text, sizeof text, WEFT_NOW), -ETIMEDOUT);
    }
    weft_close(terminal);
    close(slave);
    weft_close(keyboard);
    return 0;
}

API_TEST(tty_raw, "", .workers = {1, 2}) { io_run(raw, NULL); }

static int wait_for_key(void *terminal) {
    char text[8];
    ssize_t n = weft_read(terminal, text, sizeof text, fixture_soon());
    return n == 0 || n == -EIO ? 0 : -1;
}

static int hang_up(void *unused) {
    (void)unused;
    int slave = open_terminal();
    weft_io *terminal;
    char text[8];
    REQUIRE_EQ(weft_io_open(slave, WEFT_IO_BORROW, &terminal), 0);
    weft_task *task = io_go(NULL, wait_for_key, terminal);
    io_until_it_waits(task);
    weft_close(keyboard); /* the window is closed */
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(weft_write(terminal, "x", 1, fixture_soon()), -EIO);
    CHECK_LE(weft_read(terminal, text, 8, fixture_soon()), 0);
    weft_close(terminal);
    close(slave);
    return 0;
}

API_TEST(tty_hang_up, "", .workers = {1, 2}) { io_run(hang_up, NULL); }
