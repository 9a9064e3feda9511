// tbb.cpp - oneTBB: tasks that run to their end and cannot suspend.
#include <oneapi/tbb.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../common/peer.h"

namespace {

int spawn_join(bool quick) {
    long count = quick ? 100000 : 1000000;
    int64_t start = peer_now();
    for (long g = 0; g < count / PEER_GROUP; g++) {
        tbb::task_group group;
        for (int i = 0; i < PEER_GROUP; i++)
            group.run([] {});
        if (group.wait() != tbb::task_group_status::complete)
            return PEER_WRONG;
    }
    peer_print("spawn_join", (double)(peer_now() - start) / (double)count, "ns/task");
    return PEER_OK;
}

long fib(int n) {
    if (n < 2)
        return n;
    long a, b;
    tbb::task_group group;
    group.run([&a, n] { a = fib(n - 1); });
    b = fib(n - 2);
    group.wait();
    return a + b;
}

int fork_join() {
    int64_t start = peer_now();
    long value = fib(PEER_FIB);
    peer_print("fib", (double)(peer_now() - start) / PEER_FIB_FORKS, "ns/fork");
    return value == PEER_FIB_VALUE ? PEER_OK : PEER_WRONG;
}

int wake(int workers, bool quick) {
    size_t count = quick ? 300 : PEER_WAKES;
    static std::vector<int64_t> latency(count, -1);
    static std::atomic<size_t> done{0};
    tbb::task_arena arena(workers, 0); // no slot kept for the submitting thread
    arena.enqueue([] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (size_t i = 0; i < count; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        int64_t start = peer_now();
        arena.enqueue([i, start] {
            latency[i] = peer_now() - start;
            done.fetch_add(1);
        });
    }
    while (done.load() < count)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return peer_print_wake(latency.data(), count);
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    std::string workload = argv[1];
    int workers = atoi(argv[2]);
    bool quick = argc > 3 && std::string(argv[3]) == "quick";
    int result = PEER_SKIP;
    if (workload == "wake") {
        tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)workers + 1);
        return wake(workers, quick);
    }
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)workers);
    tbb::task_arena arena(workers);
    arena.execute([&] {
        if (workload == "spawn_join")
            result = spawn_join(quick);
        else if (workload == "fib")
            result = fork_join();
    });
    return result;
}
