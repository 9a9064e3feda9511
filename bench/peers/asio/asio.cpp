// asio.cpp - Boost.Asio: an io_context with one thread a worker, handlers posted to it.
#include <atomic>
#include <boost/asio.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../common/peer.h"

namespace asio = boost::asio;

namespace {

// Run `body` beside `workers` threads that are inside io.run(), then let them end.
template <class Body> void with_workers(asio::io_context &io, int workers, Body body) {
    auto guard = asio::make_work_guard(io);
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; i++)
        threads.emplace_back([&io] { io.run(); });
    body();
    guard.reset();
    for (auto &t : threads)
        t.join();
}

int wake(int workers, bool quick) {
    size_t count = quick ? 300 : PEER_WAKES;
    std::vector<int64_t> latency(count, -1);
    asio::io_context io(workers);
    with_workers(io, workers, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        for (size_t i = 0; i < count; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            int64_t start = peer_now();
            asio::post(io, [&latency, i, start] { latency[i] = peer_now() - start; });
        }
    });
    return peer_print_wake(latency.data(), count);
}

// Two handlers that post themselves again, in turn.
struct Yielder {
    asio::io_context *io;
    long *left;
    void operator()() const {
        if (--*left > 0)
            asio::post(*io, *this);
    }
};

int yield(bool quick) {
    long count = quick ? 1000000 : 10000000;
    long left[2] = {count / 2, count / 2};
    asio::io_context io(1);
    for (auto &l : left)
        asio::post(io, Yielder{&io, &l});
    int64_t start = peer_now();
    io.run();
    peer_print("yield", (double)(peer_now() - start) / (double)count, "ns/yield");
    return left[0] == 0 && left[1] == 0 ? PEER_OK : PEER_WRONG;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    std::string workload = argv[1];
    int workers = atoi(argv[2]);
    bool quick = argc > 3 && std::string(argv[3]) == "quick";
    if (workload == "wake")
        return wake(workers, quick);
    if (workload == "yield" && workers == 1)
        return yield(quick);
    return PEER_SKIP;
}
