/* registry.c - shards by name: made once, never removed, found without a lock. */
#include <errno.h>
#include <string.h>

#include "shard/lane.h"

static uint32_t hash(const char *name) {
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        value = (value ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (uint32_t)(value >> 32 ^ value) % WEFTI_SHARD_BUCKETS;
}

weft_shard *weft_shard_find(weft_lane *lane, const char *name) {
    if (!lane || !name)
        return NULL;
    struct weft_shard *shard = load_acquire(&lane->bucket[hash(name)]); /* pairs with make */
    while (shard && strcmp(shard->name, name))
        shard = shard->next;
    return shard;
}

/* Under made_lock. */
static int make(struct weft_lane *lane, const char *name, struct weft_shard **out) {
    struct weft_shard *shard = wefti_alloc(sizeof *shard);
    uint64_t next = 1;
    if (!shard)
        return -ENOMEM;
    shard->lane = lane;
    memcpy(shard->name, name, strlen(name) + 1);
    int error = lane->config.store.open(lane->config.store.self, name, &shard->state, &next);
    if (error < 0) {
        wefti_free(shard, sizeof *shard);
        return error;
    }
    store_relaxed(&shard->block, next ? next - 1 : 0); /* published with the shard, as the rest */
    store_relaxed(&shard->word, WEFTI_IDLE | WEFTI_REF_ONE);
    _Atomic(struct weft_shard *) *bucket = &lane->bucket[hash(name)];
    shard->next = load_own(bucket);
    shard->next_made = load_own(&lane->made);
    store_release(&lane->made, shard); /* pairs with each */
    store_release(bucket, shard);      /* pairs with find */
    *out = shard;
    return 0;
}

int weft_shard_get(weft_lane *lane, const char *name, weft_shard **out) {
    if (!lane || !name || !*name || strlen(name) >= WEFTI_SHARD_NAME || !out)
        return -EINVAL;
    struct weft_shard *shard = weft_shard_find(lane, name);
    int error = 0;
    if (!shard && wefti_is_forked())
        return -ENOTRECOVERABLE;
    if (!shard) {
        wefti_lock_take(&lane->made_lock);
        shard = weft_shard_find(lane, name); /* made meanwhile? */
        if (!shard)
            error = wefti_lane_is_shut(lane) ? -ESHUTDOWN : make(lane, name, &shard);
        wefti_lock_give(&lane->made_lock);
    }
    if (!error)
        *out = shard;
    return error;
}

void weft_shard_each(weft_lane *lane, void (*visit)(weft_shard *shard, void *arg), void *arg) {
    if (!lane || !visit)
        return;
    for (struct weft_shard *shard = load_acquire(&lane->made); shard; shard = shard->next_made) /* pairs with make */
        visit(shard, arg);
}
