// boost_fiber.cpp - Boost.Fiber: one worker is its default scheduler, more are work_stealing, a thread each.
//
// Tuned as its own benchmarks are: small stacks from malloc, which must not give them back to the kernel each time, and new
// fibers that run at once (launch::dispatch) where the tree would not fit into memory otherwise.
#include <malloc.h>

#include <boost/fiber/all.hpp>
#include <boost/fiber/algo/work_stealing.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../common/peer.h"

namespace fibers = boost::fibers;

namespace {

constexpr size_t STACK = 16 * 1024;

fibers::fixedsize_stack stacks() { return fibers::fixedsize_stack(STACK); }

template <class Fn> fibers::fiber go(Fn fn) {
    return fibers::fiber(fibers::launch::post, std::allocator_arg, stacks(), std::move(fn));
}

// The threads that share the fibers with the calling one.
class Workers {
  public:
    explicit Workers(int count) : count_(count) {
        if (count == 1)
            return;
        for (int i = 1; i < count; i++)
            threads_.emplace_back([this] {
                fibers::use_scheduling_algorithm<fibers::algo::work_stealing>((uint32_t)count_, true);
                std::unique_lock<fibers::mutex> lock(mutex_);
                here_++;
                changed_.notify_all();
                changed_.wait(lock, [this] { return over_; });
            });
        fibers::use_scheduling_algorithm<fibers::algo::work_stealing>((uint32_t)count_, true);
        std::unique_lock<fibers::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return here_ == count_ - 1; });
    }
    ~Workers() {
        {
            std::unique_lock<fibers::mutex> lock(mutex_);
            over_ = true;
            changed_.notify_all();
        }
        for (auto &t : threads_)
            t.join();
    }

  private:
    int count_, here_ = 0;
    bool over_ = false;
    fibers::mutex mutex_;
    fibers::condition_variable changed_;
    std::vector<std::thread> threads_;
};

double ns_each(int64_t start, long count) { return (double)(peer_now() - start) / (double)count; }

int spawn_join(bool quick) {
    long count = quick ? 100000 : 1000000;
    std::vector<fibers::fiber> group(PEER_GROUP);
    int64_t start = peer_now();
    for (long g = 0; g < count / PEER_GROUP; g++) {
        for (auto &f : group)
            f = go([] {});
        for (auto &f : group)
            f.join();
    }
    peer_print("spawn_join", ns_each(start, count), "ns/task");
    return PEER_OK;
}

int yield(bool quick) {
    long count = quick ? 1000000 : 10000000, left[2] = {count / 2, count / 2};
    const long *last = nullptr;
    long repeats = 0;
    auto run = [&](long *mine) {
        for (; *mine > 0; --*mine) {
            repeats += last == mine;
            last = mine;
            boost::this_fiber::yield();
        }
    };
    fibers::fiber a = go([&] { run(&left[0]); }), b = go([&] { run(&left[1]); });
    int64_t start = peer_now();
    a.join();
    b.join();
    peer_print("yield", ns_each(start, count), "ns/yield");
    return left[0] == 0 && left[1] == 0 && repeats < count / 100 ? PEER_OK : PEER_WRONG;
}

// A channel of n places holds n - 1.
int pingpong(bool quick) {
    uint64_t rounds = quick ? 100000 : 1000000, wrong = 0;
    fibers::buffered_channel<uint64_t> there(2), back(2);
    fibers::fiber pong = go([&] {
        for (uint64_t ball; there.pop(ball) == fibers::channel_op_status::success;)
            back.push(ball + 1);
    });
    int64_t start = peer_now();
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t ball = 0;
        there.push(i);
        wrong += back.pop(ball) != fibers::channel_op_status::success || ball != i + 1;
    }
    peer_print("pingpong", ns_each(start, (long)rounds), "ns/rtt");
    there.close();
    pong.join();
    return wrong ? PEER_WRONG : PEER_OK;
}

int mpsc(bool quick) {
    constexpr uint64_t PRODUCERS = 4;
    uint64_t each = (quick ? 400000 : 4000000) / PRODUCERS, sum = 0;
    fibers::buffered_channel<uint64_t> ch(1024);
    std::vector<fibers::fiber> producers;
    int64_t start = peer_now();
    for (uint64_t p = 0; p < PRODUCERS; p++)
        producers.push_back(go([&] {
            for (uint64_t i = 0; i < each; i++)
                ch.push(i);
        }));
    for (uint64_t i = 0; i < PRODUCERS * each; i++) {
        uint64_t value = 0;
        ch.pop(value);
        sum += value;
    }
    peer_print("mpsc", ns_each(start, (long)(PRODUCERS * each)), "ns/message");
    for (auto &p : producers)
        p.join();
    return sum == PRODUCERS * (each * (each - 1) / 2) ? PEER_OK : PEER_WRONG;
}

using Sums = fibers::buffered_channel<uint64_t>;

void node(Sums &parent, uint64_t first, uint64_t leaves) {
    constexpr uint64_t CHILDREN = 10;
    uint64_t sum = first;
    if (leaves > 1) {
        Sums ch(16);
        uint64_t share = leaves / CHILDREN;
        for (uint64_t i = 0; i < CHILDREN; i++)
            fibers::fiber(fibers::launch::dispatch, std::allocator_arg, stacks(), [&ch, first, share, i] {
                node(ch, first + i * share, share);
            }).detach();
        sum = 0;
        for (uint64_t i = 0; i < CHILDREN; i++) {
            uint64_t part = 0;
            ch.pop(part);
            sum += part;
        }
    }
    parent.push(sum);
}

int skynet(bool quick) {
    uint64_t leaves = quick ? 100000 : 1000000, sum = 0;
    Sums root(2);
    int64_t start = peer_now();
    fibers::fiber first = go([&] { node(root, 0, leaves); });
    root.pop(sum);
    peer_print("skynet", (double)(peer_now() - start) / 1e6, "ms");
    first.join();
    return sum == leaves * (leaves - 1) / 2 ? PEER_OK : PEER_WRONG;
}

int fight(bool quick) {
    constexpr int FIBERS = 8;
    uint64_t times = quick ? 100000 : 1000000, inside = 0;
    fibers::mutex mutex;
    std::vector<fibers::fiber> all;
    int64_t start = peer_now();
    for (int k = 0; k < FIBERS; k++)
        all.push_back(go([&] {
            for (uint64_t i = 0; i < times; i++) {
                mutex.lock();
                inside++;
                mutex.unlock();
            }
        }));
    for (auto &f : all)
        f.join();
    peer_print("mutex", ns_each(start, (long)times * FIBERS), "ns/op");
    return inside == times * FIBERS ? PEER_OK : PEER_WRONG;
}

// Not a million: that takes 10 GB.
int idle_memory() {
    constexpr uint64_t count = 100000;
    fibers::mutex mutex;
    fibers::condition_variable opened;
    bool open = false;
    uint64_t parked = 0, passed = 0;
    std::vector<fibers::fiber> all(count);
    double before = peer_rss();
    for (auto &f : all)
        f = go([&] {
            std::unique_lock<fibers::mutex> lock(mutex);
            parked++;
            opened.wait(lock, [&] { return open; });
            passed++;
        });
    for (uint64_t seen = 0; seen < count; boost::this_fiber::yield()) {
        std::unique_lock<fibers::mutex> lock(mutex);
        seen = parked;
    }
    peer_print("idle_memory_100k", (peer_rss() - before) / (double)count, "bytes");
    {
        std::unique_lock<fibers::mutex> lock(mutex);
        open = true;
        opened.notify_all();
    }
    for (auto &f : all)
        f.join();
    return before > 0 && passed == count ? PEER_OK : PEER_WRONG;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    std::string workload = argv[1];
    int workers = atoi(argv[2]);
    bool quick = argc > 3 && std::string(argv[3]) == "quick";
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    if (workers < 1)
        return 2;
    Workers others(workers);
    if (workload == "spawn_join")
        return spawn_join(quick);
    if (workload == "yield" && workers == 1)
        return yield(quick);
    if (workload == "pingpong")
        return pingpong(quick);
    if (workload == "mpsc")
        return mpsc(quick);
    if (workload == "skynet")
        return skynet(quick);
    if (workload == "mutex")
        return fight(quick);
    if (workload == "idle_memory_100k")
        return idle_memory();
    return PEER_SKIP;
}
