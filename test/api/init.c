/* init.c - what bindings to other languages rely on: an _INIT macro is its struct's size, and zeros; objects may be zeroed memory. */
#include "fixture.h"

/* Bytes after `size` that are not 0. */
static size_t set_bytes(const void *made, size_t size) {
    size_t count = 0;
    for (size_t i = sizeof(size_t); i < size; i++)
        count += ((const unsigned char *)made)[i] != 0;
    return count;
}

#define CHECK_INIT(type, ...)                                                                                          \
    do {                                                                                                               \
        static const type made = __VA_ARGS__;                                                                          \
        CHECK_EQ(made.size, sizeof(type));                                                                             \
        CHECK_EQ(offsetof(type, size), 0);                                                                             \
        CHECK_EQ(set_bytes(&made, sizeof made), 0);                                                                    \
    } while (0)

TEST(init_is_a_size_and_zeros, "") {
    CHECK_INIT(weft_config, WEFT_CONFIG_INIT);
    CHECK_INIT(weft_spec, WEFT_SPEC_INIT);
    CHECK_INIT(weft_fiber_spec, WEFT_FIBER_SPEC_INIT);
    CHECK_INIT(weft_nursery_config, WEFT_NURSERY_CONFIG_INIT);
    CHECK_INIT(weft_supervisor_config, WEFT_SUPERVISOR_CONFIG_INIT);
    CHECK_INIT(weft_grant, WEFT_GRANT_INIT);
    CHECK_INIT(weft_blocking_spec, WEFT_BLOCKING_SPEC_INIT);
    CHECK_INIT(weft_pool_config, WEFT_POOL_CONFIG_INIT);
    CHECK_INIT(weft_child_spec, WEFT_CHILD_SPEC_INIT);
    CHECK_INIT(weft_http_options, WEFT_HTTP_OPTIONS_INIT);
    CHECK_INIT(weft_http_pool_options, WEFT_HTTP_POOL_INIT);
    CHECK_INIT(weft_listen_options, WEFT_LISTEN_INIT);
    CHECK_INIT(weft_process_spec, WEFT_PROCESS_SPEC_INIT);
    CHECK_INIT(weft_sim_net, WEFT_SIM_NET_INIT);
    static weft_lane_config lane = WEFT_LANE_CONFIG_INIT; /* the one exception */
    CHECK_EQ(lane.quantum, WEFT_LANE_QUANTUM);
    lane.quantum = 0;
    CHECK_EQ(set_bytes(&lane, sizeof lane), 0);
}

/* What init makes is all zero, and so is what the macro makes. */
#define CHECK_ZERO(type, macro, init)                                                                                  \
    do {                                                                                                               \
        static type object = macro, zero;                                                                              \
        CHECK(memcmp(&object, &zero, sizeof zero) == 0);                                                               \
        memset(&object, 0xff, sizeof object);                                                                          \
        init;                                                                                                          \
        CHECK(memcmp(&object, &zero, sizeof zero) == 0);                                                               \
    } while (0)

TEST(objects_begin_as_zeros, "") {
    CHECK_ZERO(weft_mutex, WEFT_MUTEX_INIT, weft_mutex_init(&object, 0));
    CHECK_ZERO(weft_rwlock, WEFT_RWLOCK_INIT, weft_rwlock_init(&object));
    CHECK_ZERO(weft_cond, WEFT_COND_INIT, weft_cond_init(&object));
    CHECK_ZERO(weft_sem, WEFT_SEM_INIT(0), weft_sem_init(&object, 0));
    CHECK_ZERO(weft_event, WEFT_EVENT_INIT, weft_event_init(&object));
    CHECK_ZERO(weft_once, WEFT_ONCE_INIT, weft_once_init(&object));
    CHECK_ZERO(weft_group, WEFT_GROUP_INIT, weft_group_init(&object));
}
