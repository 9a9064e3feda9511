/* sum.cpp - weft from C++20: lambdas as fibers of a nursery, exceptions between them, and coroutines that wakers resume.
 *
 * usage: c++ -std=c++20 sum.cpp -lweft
 */
#include <cerrno>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <stdexcept>
#include <weft/weft.h>

/* -- A nursery as a scope: its destructor cancels and awaits, wait() throws what the first child threw. -- */
class scope {
    struct child {
        scope *in;
        std::function<void()> body;
    };
    weft_nursery nursery;
    std::list<child> children; // where they are stays
    std::exception_ptr thrown; // the first; children of one scope may be on several threads
    std::mutex lock;

    static int run(void *arg) {
        child *self = static_cast<child *>(arg);
        try {
            self->body();
            return 0;
        } catch (...) { // nothing leaves a fiber
            std::lock_guard<std::mutex> guard(self->in->lock); // nothing below waits: a thread's lock will do
            if (!self->in->thrown)
                self->in->thrown = std::current_exception();
            return -EIO;
        }
    }

  public:
    scope() {
        if (weft_nursery_init(&nursery, nullptr, nullptr) < 0)
            throw std::bad_alloc();
    }
    scope(const scope &) = delete;
    ~scope() { weft_nursery_destroy(&nursery); }
    void go(std::function<void()> body) {
        children.push_back({this, std::move(body)});
        int error = weft_nursery_go(&nursery, run, &children.back(), nullptr);
        if (error < 0 && error != -ECANCELED) // then another has failed, and wait() says so
            throw std::bad_alloc();
    }
    void wait() {
        weft_nursery_await(&nursery);
        if (thrown)
            std::rethrow_exception(thrown);
    }
};

/* -- A coroutine as a poll task: `co_await ready(call)` makes a call that ends in _poll, until it does not say -EAGAIN. -- */
struct coroutine {
    struct promise_type {
        weft_task *self = nullptr;
        coroutine get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;

    struct state {
        std::coroutine_handle<promise_type> handle;
    };
    static weft_poll poll(weft_task *self, void *arg) {
        state *s = static_cast<state *>(arg);
        s->handle.promise().self = self;
        s->handle.resume();
        return s->handle.done() ? weft_done(self, 0, nullptr) : WEFT_PENDING;
    }
    static void drop(void *arg) { static_cast<state *>(arg)->handle.destroy(); } // also when it was cancelled

    int spawn(weft_runtime *rt, weft_task **task) {
        state first{handle};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = poll;
        spec.drop = drop;
        spec.state = &first;
        spec.state_size = sizeof first;
        return weft_spawn(rt, &spec, task);
    }
};

struct self_of {
    weft_task *self = nullptr;
    bool await_ready() { return false; }
    bool await_suspend(std::coroutine_handle<coroutine::promise_type> h) { return self = h.promise().self, false; }
    weft_task *await_resume() { return self; }
};

static coroutine add_up(weft_chan *channel, long *sum) {
    struct room { // ended when the coroutine is, wherever it stands
        weft_wait wait = {};
        ~room() { weft_wait_end(&wait); }
    } room;
    long value;
    for (int error;;) {
        while ((error = weft_chan_recv_poll(channel, co_await self_of{}, &room.wait, &value)) == -EAGAIN)
            co_await std::suspend_always{}; // until the channel's waker has us polled
        if (error < 0)
            co_return;
        *sum += value;
    }
}

static int program(void *) {
    long sum = 0;
    weft_chan *channel;
    weft_task *adder;
    if (weft_chan_create(sizeof(long), 2, &channel) < 0 || add_up(channel, &sum).spawn(nullptr, &adder) < 0)
        return -ENOMEM;
    {
        scope s;
        for (long first = 0; first <= 2000; first += 1000)
            s.go([=] {
                for (long i = first; i < first + 100; i++)
                    if (weft_chan_send(channel, &i, WEFT_NEVER) < 0)
                        throw std::runtime_error("not sent");
            });
        s.wait();
    }
    weft_chan_close(channel);
    if (weft_join(adder, nullptr, WEFT_NEVER) < 0)
        return -EIO;
    weft_task_drop(adder);
    weft_chan_drop(channel);
    std::printf("300 numbers, sum %ld\n", sum);
    try {
        scope s;
        s.go([] { (void)weft_sleep(INT64_MAX); }); // cancelled, because of the other
        s.go([] { throw std::runtime_error("a child threw"); });
        s.wait();
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}

int main() { return weft_fiber_run(nullptr, program, nullptr, nullptr) < 0; }
