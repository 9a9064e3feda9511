/* config.c - configuration: what is refused and why, what the environment overrides, what the codes say. */
#include "fixture.h"

static int create_with(weft_config config) {
    weft_runtime *rt = (weft_runtime *)&config;
    config.name = "crew";
    int error = weft_runtime_create(&config, &rt);
    if (error == 0) {
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    } else {
        CHECK_EQ(rt, &config); /* untouched */
        REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
    }
    return error;
}

TEST(config_refuses, "B57 B58") {
    weft_config config = WEFT_CONFIG_INIT;
    CHECK_EQ(create_with(config), 0);
    config.sched = (weft_sched)6;
    CHECK_EQ(create_with(config), -EINVAL);
    config.sched = (weft_sched)-1;
    CHECK_EQ(create_with(config), -EINVAL);
    config.sched = WEFT_SCHED_RING;
    config.workers = 1025;
    CHECK_EQ(create_with(config), -EINVAL);
    config.workers = UINT32_MAX;
    CHECK_EQ(create_with(config), -EINVAL);
    config.sched = WEFT_SCHED_SIM; /* which starts one */
    config.workers = 1024;         /* as many as may be */
    CHECK_EQ(create_with(config), 0);
    config.sched = WEFT_SCHED_RING;
    config.workers = 1;
    config.poller = (weft_poller)3;
    CHECK_EQ(create_with(config), -EINVAL);
    config.poller = WEFT_POLLER_URING; /* or what there is */
    CHECK_EQ(create_with(config), 0);
    config.max_io_completions = 65537;
    CHECK_EQ(create_with(config), -EINVAL);
    config.max_io_completions = 65536;
    CHECK_EQ(create_with(config), 0);
    config.size = 0;
    CHECK_EQ(create_with(config), -EINVAL);
    config.size = offsetof(weft_config, workers) - 1;
    CHECK_EQ(create_with(config), -EINVAL);
    config.size = SIZE_MAX; /* never set */
    CHECK_EQ(create_with(config), -EINVAL);
    CHECK_EQ(weft_runtime_create(NULL, NULL), -EINVAL);
}

/* Which of the settings it was. */
static weft_config bad_config;
static void create_bad(void *arg) {
    weft_runtime *rt = arg;
    CHECK_EQ(weft_runtime_create(&bad_config, &rt), -EINVAL);
    CHECK_EQ(rt, NULL);
}
TEST(config_says_what_is_bad, "B57") {
    static const struct {
        size_t at;
        const char *says;
    } fields[] = {
        {offsetof(weft_config, workers), "weft: config.workers=2000: expected a number up to 1024\n"},
        {offsetof(weft_config, sched), "weft: config.sched=2000: expected a weft_sched\n"},
        {offsetof(weft_config, poller), "weft: config.poller=2000: expected a weft_poller\n"},
        {offsetof(weft_config, profile), "weft: config.profile=2000: expected a weft_profile\n"},
        {offsetof(weft_config, size), "weft: config.size=0: expected WEFT_CONFIG_INIT's\n"},
        {offsetof(weft_config, stack_size), "weft: config.stack_size=2147483648: expected 1 GiB at most\n"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        static const weft_config good = WEFT_CONFIG_INIT;
        bad_config = good;
        size_t size = i == 4 ? 0 : (size_t)2 << 30;
        unsigned number = 2000;
        if (i < 4)
            memcpy((char *)&bad_config + fields[i].at, &number, sizeof number);
        else
            memcpy((char *)&bad_config + fields[i].at, &size, sizeof size);
        CHECK_STR(fixture_said(create_bad, NULL), fields[i].says);
    }
    bad_config = (weft_config)WEFT_CONFIG_INIT;
    setenv("WEFT_WORKERS", "2x", 1);
    CHECK_STR(fixture_said(create_bad, NULL), "weft: WEFT_WORKERS=2x: expected a number up to 1024\n");
    setenv("WEFT_WORKERS", "", 1);
    bad_config.workers = 2000;
    CHECK_STR(fixture_said(create_bad, NULL), "weft: config.workers=2000: expected a number up to 1024\n");
    bad_config = (weft_config)WEFT_CONFIG_INIT;
    bad_config.max_io_completions = 100000;
    CHECK_STR(fixture_said(create_bad, NULL),
              "weft: config.max_io_completions=100000: expected a number up to 65536\n");
}

struct newer_config {
    weft_config known;
    uint64_t unknown[2];
};

TEST(config_other_versions, "") {
    struct newer_config newer = {.known = WEFT_CONFIG_INIT};
    weft_runtime *rt = NULL;
    newer.known.size = sizeof newer;
    newer.known.workers = 3;
    REQUIRE_EQ(weft_runtime_create(&newer.known, &rt), 0); /* it sets nothing that we do not know */
    CHECK_EQ(weft_runtime_workers(rt), 3);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    newer.unknown[1] = 1;
    CHECK_EQ(weft_runtime_create(&newer.known, &rt), -E2BIG);
    /* An older header ended after `workers`: the rest has its default. */
    newer.known.size = offsetof(weft_config, seed);
    newer.known.driven = true;
    REQUIRE_EQ(weft_runtime_create(&newer.known, &rt), 0);
    CHECK_EQ(weft_runtime_workers(rt), 3);
    CHECK_EQ(weft_drive(rt, 0), -EINVAL); /* not driven */
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

TEST(config_default, "K10") {
    weft_runtime *rt = NULL;
    REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
    CHECK_STR(weft_runtime_sched(rt), "ring");
    CHECK_GE(weft_runtime_workers(rt), 1);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* The largest that is allowed really works. */
static void count_all(weft_runtime *rt, unsigned tasks) {
    atomic_uint ran = 0;
    for (unsigned i = 0; i < tasks; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(ran == tasks);
}

TEST(config_many_workers, "B42", .timeout = 60) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = harness_is_slow() ? 130 : 1024;
    config.park_timeout_ns = -1;
    weft_runtime *rt = fixture_begin(&config);
    CHECK_LE(weft_runtime_workers(rt), config.workers); /* fewer, if the system has no more threads */
    CHECK_GE(weft_runtime_workers(rt), 1);
    count_all(rt, 1000);
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
    count_all(rt, 3);
    fixture_end(rt);
}

/* -- The environment ------------------------------------------------------------------------------------------ */

static int with_env(const char *name, const char *value) {
    weft_config config = WEFT_CONFIG_INIT;
    setenv(name, value, 1);
    int error = create_with(config);
    unsetenv(name);
    return error;
}

TEST(config_env_sched, "") {
    static const char *const good[] = {"ring", "deque", "fifo", "sim", "reactor"};
    static const char *const bad[] = {"Ring", "rings", "reactors", "ring ", "1", "default"};
    for (int i = 0; i < 4; i++) {
        weft_config config = WEFT_CONFIG_INIT;
        weft_runtime *rt = NULL;
        setenv("WEFT_SCHED", good[i], 1);
        config.sched = WEFT_SCHED_FIFO;
        REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
        CHECK_STR(weft_runtime_sched(rt), good[i]); /* stronger than the program */
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
    for (int i = 0; i < 6; i++)
        CHECK_EQ(with_env("WEFT_SCHED", bad[i]), -EINVAL);
    CHECK_EQ(with_env("WEFT_SCHED", ""), 0); /* empty is unset */
}

TEST(config_env_io, "B57") {
    static const char *const good[] = {"epoll", "uring", "auto", ""};
    static const char *const bad[] = {"Epoll", "io_uring", "uring ", "0", "select"};
    for (int i = 0; i < 4; i++)
        CHECK_EQ(with_env("WEFT_IO", good[i]), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(with_env("WEFT_IO", bad[i]), -EINVAL);
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    setenv("WEFT_IO", "epoll", 1);
    config.poller = WEFT_POLLER_URING;
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    CHECK_STR(weft_runtime_poller(rt), "epoll"); /* stronger than the program */
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

TEST(config_env_workers, "K10") {
    static const char *const bad[] = {"1025", "99999999999999999999", "-1", "+1", "two", "2x", " 2", "2 ", "0x2",
                                      "2.0"};
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    setenv("WEFT_WORKERS", "3", 1);
    config.workers = 1;
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    CHECK_EQ(weft_runtime_workers(rt), 3);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(with_env("WEFT_WORKERS", bad[i]), -EINVAL);
    setenv("WEFT_WORKERS", "", 1); /* says nothing */
    config.workers = 5;
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    CHECK_EQ(weft_runtime_workers(rt), 5);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    CHECK_EQ(with_env("WEFT_WORKERS", "0"), 0); /* as in the config: one a CPU */
    setenv("WEFT_WORKERS", "4", 1); /* a good value in the environment repairs a bad one in the program */
    config.workers = 5000;
    CHECK_EQ(create_with(config), 0);
}

TEST(config_env_seed, "") {
    static const char *const bad[] = {"18446744073709551616", "-1", "0x10", "x", "1 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(with_env("WEFT_SEED", bad[i]), -EINVAL);
    CHECK_EQ(with_env("WEFT_SEED", "0"), 0);
    CHECK_EQ(with_env("WEFT_SEED", "12345678901234567890"), 0);
    CHECK_EQ(with_env("WEFT_SEED", "18446744073709551609"), 0);
    CHECK_EQ(with_env("WEFT_SEED", "18446744073709551610"), 0);
    CHECK_EQ(with_env("WEFT_SEED", "18446744073709551615"), 0); /* the largest 64-bit number */
}

/* -- Codes, version, deadlines ---------------------------------------------------------------------------------- */

TEST(config_strerror, "") {
    static const int codes[] = {
        EINVAL,       E2BIG,         ENOMEM,          EAGAIN,       ESHUTDOWN,    ETIMEDOUT,       ETIME,
        ECANCELED,    EDEADLK,       EBUSY,           EOVERFLOW,    ERANGE,       ENOSYS,          EBADF,
        EIO,          ENOSPC,        EFBIG,           EPIPE,        ELOOP,        EACCES,          EPERM,
        EDQUOT,       ENOENT,        ESRCH,           EEXIST,       ENAMETOOLONG, EMFILE,          ENFILE,
        EADDRINUSE,   EADDRNOTAVAIL, EAFNOSUPPORT,    ECONNREFUSED, ECONNRESET,   ENOTCONN,        EHOSTUNREACH,
        EMSGSIZE,     ENOBUFS,       EBADMSG,         EPROTO,       EINTR,        ECHILD,          ENOTDIR,
        EISDIR,       ENOTEMPTY,     ENOEXEC,         EROFS,        EOPNOTSUPP,   EPROTONOSUPPORT, EKEYREJECTED,
        EDESTADDRREQ, ENETDOWN,      ENOTRECOVERABLE, EHOSTDOWN,    ECONNABORTED, ESPIPE,          ENOTSOCK,
        ENOPROTOOPT,  EPROTOTYPE,    EISCONN,         EINPROGRESS,  ENETRESET,    EFAULT,          EXDEV,
        ENXIO,        ENOTTY,        ETXTBSY,         EMLINK,       ESTALE};
    CHECK_STR(weft_strerror(0), "success");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const char *text = weft_strerror(-codes[i]);
        REQUIRE(text);
        CHECK_STR(weft_strerror(codes[i]), text); /* either sign */
        CHECK_GT(strlen(text), 5);
        CHECK(strcmp(text, "unknown error") != 0);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(text, weft_strerror(codes[k])) != 0);
    }
    static const int unknown[] = {99999, -99999, -4095, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        CHECK_STR(weft_strerror(unknown[i]), "unknown error");
}

TEST(config_version, "") { CHECK_STR(weft_version(), "0.1.0"); }

TEST(config_deadlines, "") {
    int64_t now = weft_now(), clock = harness_clock();
    CHECK_LE(now, clock);
    CHECK_LT(clock - now, 1000000000);
    CHECK_GE(weft_after(1000), now + 1000);
    CHECK_GE(weft_after(0), now);
    CHECK_LT(weft_after(-5), now + 1000000000);
    CHECK_GE(weft_after(-5), now);
    CHECK_GE(weft_after(INT64_MIN), now);
    CHECK_EQ(weft_after(INT64_MAX), WEFT_NEVER);
    CHECK_EQ(weft_after(INT64_MAX - now + 1), WEFT_NEVER);
    CHECK_LT(weft_after(INT64_MAX / 2), WEFT_NEVER);
}
