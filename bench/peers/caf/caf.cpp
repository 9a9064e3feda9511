// caf.cpp - CAF, the C++ Actor Framework: event-based actors that are called with a number.
#include <atomic>
#include <caf/all.hpp>
#include <string>
#include <vector>

#include "../common/peer.h"

namespace {

using caf::actor;
using caf::behavior;
using caf::event_based_actor;

double ns_each(int64_t start, long count) { return (double)(peer_now() - start) / (double)count; }

actor sender(event_based_actor *self) { return caf::actor_cast<actor>(self->current_sender()); }

int pingpong(caf::actor_system &system, bool quick) {
    uint64_t rounds = quick ? 100000 : 1000000;
    static std::atomic<uint64_t> right{0};
    int64_t start = peer_now();
    actor pong = system.spawn([rounds](event_based_actor *self) -> behavior {
        return {[self, rounds, seen = uint64_t{0}](uint64_t value) mutable {
            self->send(sender(self), value + 1);
            if (++seen == rounds)
                self->quit();
        }};
    });
    system.spawn([rounds, pong](event_based_actor *self) -> behavior {
        self->send(pong, uint64_t{0});
        return {[self, rounds, pong, i = uint64_t{0}](uint64_t value) mutable {
            right += value == 2 * i + 1;
            if (++i == rounds)
                self->quit();
            else
                self->send(pong, 2 * i);
        }};
    });
    pong = nullptr;
    system.await_all_actors_done();
    peer_print("actor_pingpong", ns_each(start, (long)rounds), "ns/rtt");
    return right == rounds ? PEER_OK : PEER_WRONG;
}

int ring(caf::actor_system &system, bool quick) {
    constexpr uint64_t RING = 503;
    uint64_t hops = quick ? 200000 : 2000000;
    static std::vector<actor> all;
    static std::atomic<uint64_t> ended{0};
    int64_t start = peer_now();
    for (uint64_t i = 0; i < RING; i++)
        all.push_back(system.spawn([i](event_based_actor *self) -> behavior {
            return {[self, i](uint64_t value) {
                if (value > 0)
                    self->send(all[(i + 1) % RING], value - 1);
                if (value < RING) {
                    ended++;
                    self->quit();
                }
            }};
        }));
    caf::anon_send(all[0], hops);
    system.await_all_actors_done();
    peer_print("actor_ring", ns_each(start, (long)hops), "ns/hop");
    all.clear();
    return ended == RING ? PEER_OK : PEER_WRONG;
}

constexpr uint64_t BIG = 120, PING = 0, PONG = 1, BEGIN = 2, END = 3;

int big(caf::actor_system &system, bool quick) {
    uint64_t rounds = quick ? 1000 : 10000;
    static std::vector<actor> all;
    static std::atomic<uint64_t> done{0}, pongs{0};
    struct State {
        uint64_t random, sent, seen;
    };
    int64_t start = peer_now();
    for (uint64_t i = 0; i < BIG; i++)
        all.push_back(system.spawn([i, rounds](event_based_actor *self) -> behavior {
            return {[self, rounds, s = State{i * 0x9e3779b97f4a7c15 + 1, 0, 0}](uint64_t value) mutable {
                auto somebody = [&] {
                    s.random ^= s.random << 13;
                    s.random ^= s.random >> 7;
                    s.random ^= s.random << 17;
                    s.sent++;
                    self->send(all[s.random % BIG], PING);
                };
                if (value == PING) {
                    self->send(sender(self), PONG);
                } else if (value == BEGIN) {
                    somebody();
                } else if (value == END) {
                    pongs += s.seen;
                    self->quit();
                } else if (s.seen++; s.sent < rounds) {
                    somebody();
                } else if (s.seen == rounds && ++done == BIG) {
                    for (auto &to : all)
                        self->send(to, END);
                }
            }};
        }));
    for (auto &to : all)
        caf::anon_send(to, BEGIN);
    system.await_all_actors_done();
    peer_print("actor_big", ns_each(start, (long)(2 * rounds * BIG)), "ns/message");
    all.clear();
    return pongs == rounds * BIG ? PEER_OK : PEER_WRONG;
}

// In groups, by an actor that lets others run between them, which the other peers do not need: stealing walks the whole queue in CAF, so it must be short.
int create(caf::actor_system &system, bool quick) {
    uint64_t count = quick ? 20000 : 200000;
    static std::atomic<uint64_t> right{0};
    int64_t start = peer_now();
    system.spawn([count](event_based_actor *creator) -> behavior {
        creator->send(creator, uint64_t{0});
        return {[creator, count](uint64_t first) {
            for (uint64_t i = first; i < first + PEER_GROUP; i++)
                creator->send(creator->spawn([i](event_based_actor *self) -> behavior {
                    return {[self, i](uint64_t value) {
                        right += value == i;
                        self->quit();
                    }};
                }),
                              i);
            if (first + PEER_GROUP < count)
                creator->send(creator, first + PEER_GROUP);
            else
                creator->quit();
        }};
    });
    system.await_all_actors_done();
    peer_print("actor_create", ns_each(start, (long)count), "ns/process");
    return right == count ? PEER_OK : PEER_WRONG;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    std::string workload = argv[1];
    int workers = atoi(argv[2]);
    bool quick = argc > 3 && std::string(argv[3]) == "quick";
    caf::actor_system_config config;
    config.set("scheduler.max-threads", workers);
    if (workload == "actor_create")
        config.set("scheduler.max-throughput", 1); // a group, then the others' turn
    caf::actor_system system{config};
    if (workload == "actor_pingpong")
        return pingpong(system, quick);
    if (workload == "actor_ring")
        return ring(system, quick);
    if (workload == "actor_big")
        return big(system, quick);
    if (workload == "actor_create")
        return create(system, quick);
    return PEER_SKIP;
}
