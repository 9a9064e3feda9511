/* message.c - messages: one node each, what is large beside it. */
#include <string.h>

#include "process/process.h"

/* A larger message is copied into one block, with its size before it for giving it back. */
struct large {
    size_t size;
    uint64_t align;
};

void *wefti_large_new(size_t size) {
    struct large *large = wefti_alloc(sizeof *large + size);
    if (!large)
        return NULL;
    large->size = sizeof *large + size;
    return large + 1;
}

void wefti_large_free(void *data) {
    struct large *large = (struct large *)data - 1;
    wefti_free(large, large->size);
}

bool wefti_message_fill_large(struct wefti_message *message, const void *data, size_t size) {
    void *large = wefti_large_new(size);
    if (!large)
        return false;
    message->outside.data = memcpy(large, data, size);
    message->outside.release = wefti_large_free;
    return true;
}

struct wefti_message *wefti_message_new(struct wefti_processes *table, uint8_t type, uint64_t tag, const void *data,
                                        size_t size) {
    return wefti_message_new_on(table, wefti_worker_here(), type, tag, data, size);
}

void wefti_message_free(struct wefti_processes *table, struct wefti_message *message) {
    if (!message->is_inline && message->outside.release)
        message->outside.release(message->outside.data);
    wefti_nodes_give(&table->nodes, wefti_messages_cache(table, wefti_worker_here()), message);
}

void wefti_messages_free(struct wefti_processes *table, struct wefti_chain *chain) {
    struct wefti_nodes_cache *cache = wefti_messages_cache(table, wefti_worker_here());
    struct wefti_link *item = chain->first;
    uint32_t left = chain->count;
    for (chain->count = 0; left; left--) {
        struct wefti_message *message = wefti_message_of(item);
        item = item->next; /* of the last: whatever */
        if (!message->is_inline && message->outside.release) {
            message->outside.release(message->outside.data);
            cache = wefti_messages_cache(table, wefti_worker_here()); /* it may have waited */
        }
        wefti_nodes_give(&table->nodes, cache, message);
    }
}
