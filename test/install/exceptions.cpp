// exceptions.cpp - C++ exceptions in fibers: each fiber has its own, also when others run while it throws or handles one.
// usage: exceptions     on the scheduler of WEFT_SCHED; exit status 0: all is well
// With -DMETERED it must be compiled by weft-cc.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <weft/weft.h>

static std::atomic<int> wrong{0};

static void require(bool good, int line) {
    if (!good && wrong++ < 5)
        std::fprintf(stderr, "exceptions.cpp:%d: not so\n", line);
}
#define REQUIRE(claim) require((claim), __LINE__)

static bool caught_none() { return std::current_exception() == nullptr && std::uncaught_exceptions() == 0; }

struct yields { // as its exception goes by
    int uncaught;
    ~yields() {
        REQUIRE(std::uncaught_exceptions() == uncaught);
        weft_yield();
        REQUIRE(std::uncaught_exceptions() == uncaught);
    }
};

struct throws_inside { // throws and catches another one while an exception goes by, and waits in its handler
    std::string text;
    ~throws_inside() {
        try {
            yields here = {2};
            throw std::logic_error("inner " + text);
        } catch (std::logic_error &found) {
            weft_yield();
            REQUIRE(found.what() == "inner " + text && std::uncaught_exceptions() == 1);
        }
        REQUIRE(std::uncaught_exceptions() == 1);
    }
};

// Handlers in handlers, each of which waits; the innermost throws the oldest again.
static void nest(int depth, const std::string &text) {
    try {
        throw std::runtime_error(text + std::to_string(depth));
    } catch (std::runtime_error &found) {
        weft_yield();
        if (depth > 0)
            nest(depth - 1, text);
        weft_yield();
        REQUIRE(found.what() == text + std::to_string(depth));
        try {
            weft_yield();
            throw; // this one, and not another fiber's
        } catch (std::runtime_error &again) {
            weft_yield();
            REQUIRE(&again == &found);
        }
    }
}

static int throws(void *arg) {
    for (int i = 0; i < 50; i++) {
        std::string text = std::to_string(reinterpret_cast<intptr_t>(arg)) + "." + std::to_string(i);
        REQUIRE(caught_none());
        try {
            try {
                throws_inside inside = {text};
                yields here = {1};
                throw std::runtime_error(text);
            } catch (std::runtime_error &found) {
                weft_yield();
                REQUIRE(found.what() == text && std::uncaught_exceptions() == 0);
                if (i % 2)
                    weft_sleep(1000);
                if (i % 3 == 0)
                    throw;
            }
        } catch (std::exception &found) {
            weft_yield();
            REQUIRE(found.what() == text);
        }
        REQUIRE(caught_none());
        int mine = 1 + i + 100 * static_cast<int>(reinterpret_cast<intptr_t>(arg));
        *weft_errno() = mine; // and its own errno, on whatever thread it goes on
        weft_yield();
        REQUIRE(*weft_errno() == mine);
        if (i % 10 == 0)
            nest(5, text);
    }
    return 0;
}

// Cancelled in the midst of a handler.
static int cancelled(void *) {
    try {
        throw std::runtime_error("mine");
    } catch (std::runtime_error &found) {
        int error;
        while ((error = weft_sleep(1000000)) == 0)
            ;
        REQUIRE(error == -ECANCELED && found.what() == std::string("mine"));
    }
    REQUIRE(caught_none());
    return -ECANCELED;
}

#ifdef METERED
// Ended in the midst of a handler that never waits: whoever comes next on the stack finds nothing of it.
static int endless(void *) {
    try {
        throw 1;
    } catch (int) {
        for (volatile int i = 0;; i++)
            ;
    }
}
static int nothing(void *) {
    REQUIRE(caught_none());
    return 0;
}
static int discarding() {
    for (int i = 0; i < 10; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_task *task;
        weft_result result;
        spec.fn = endless;
        spec.discard = true;
        if (weft_fiber_spawn(nullptr, &spec, &task))
            return -EIO;
        for (int k = 0; k < 3; k++)
            weft_yield();
        weft_task_cancel(task);
        REQUIRE(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == -ECANCELED);
        weft_task_drop(task);
        if (weft_fiber_go(nullptr, nothing, nullptr, &task))
            return -EIO;
        REQUIRE(weft_join(task, &result, WEFT_NEVER) == 0);
        weft_task_drop(task);
        REQUIRE(caught_none());
    }
    return 0;
}
#else
static int discarding() { return 0; }
#endif

static int spawn(weft_nursery *nursery, weft_fiber_fn fn, intptr_t number, bool migrate) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = reinterpret_cast<void *>(number);
    spec.migrate = migrate;
    spec.stack_size = 256 * 1024; // unwinding takes a few KiB
    return weft_nursery_spawn(nursery, &spec, nullptr);
}

static int first(void *) {
    weft_nursery nursery, doomed;
    if (weft_nursery_init(&nursery, nullptr, nullptr))
        return -EIO;
    for (intptr_t i = 0; i < 10; i++)
        if (spawn(&nursery, throws, i, i % 2))
            return -EIO;
    if (weft_nursery_init(&doomed, nullptr, nullptr))
        return -EIO;
    for (intptr_t i = 0; i < 4; i++)
        if (spawn(&doomed, cancelled, i, i % 2))
            return -EIO;
    for (int i = 0; i < 20; i++)
        weft_yield();
    weft_nursery_cancel(&doomed);
    REQUIRE(weft_nursery_await(&doomed) == -ECANCELED);
    int error = discarding();
    return error ? error : weft_nursery_await(&nursery);
}

// A thread that drives a runtime from a handler keeps its own, and the fibers see none of it.
static int driven() {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = nullptr;
    weft_task *task = nullptr;
    config.driven = true;
    config.workers = 1;
    int error = weft_runtime_create(&config, &rt);
    if (error == -EINVAL && std::getenv("WEFT_SCHED"))
        return 0; // not every scheduler can be driven
    if (error || weft_fiber_go(rt, first, nullptr, &task))
        return -EIO;
    try {
        throw std::runtime_error("mine");
    } catch (std::runtime_error &found) {
        while (!weft_task_is_done(task))
            weft_drive(rt, 0);
        REQUIRE(found.what() == std::string("mine"));
        try {
            throw;
        } catch (std::runtime_error &again) {
            REQUIRE(&again == &found);
        }
    }
    REQUIRE(caught_none());
    weft_task_drop(task);
    return weft_runtime_destroy(rt);
}

int main() {
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_config config = WEFT_CONFIG_INIT;
        weft_result result = {-EIO, nullptr};
        config.workers = workers;
        int error = weft_fiber_run(&config, first, nullptr, &result);
        error = error ? error : result.status;
        if (error)
            std::printf("%u workers: %s\n", workers, weft_strerror(error));
        wrong += error != 0;
    }
    int error = driven();
    if (error)
        std::printf("driven: %s\n", weft_strerror(error));
    return error || wrong;
}
