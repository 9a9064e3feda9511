/* message.c - messages: one node each, what is large beside it. */
#include <string.h>

#include "process/process.h"

/* Read anew: the caller may have waited, and be on another worker. */
static struct wefti_nodes_cache *cache_of(struct wefti_processes *table, struct wefti_worker *w) {
    return w && w->rt == table->rt ? &w->messages : NULL;
}

/* A larger message is copied into one block, with its size before it for giving it back. */
struct large {
    size_t size;
    uint64_t align;
};

static void free_large(void *data) {
    struct large *large = (struct large *)data - 1;
    wefti_free(large, large->size);
}

struct wefti_message *wefti_message_new(struct wefti_processes *table, uint8_t type, uint64_t tag, const void *data,
                                        size_t size) {
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_message *message = size <= UINT32_MAX ? wefti_nodes_take(&table->nodes, cache_of(table, w)) : NULL;
    if (!message)
        return NULL;
    struct wefti_process *self = w && w->current ? wefti_process_of(w->current) : NULL;
    message->type = type;
    message->tag = tag;
    message->from = self && self->table == table ? wefti_process_pid(self) : WEFT_PID_NONE;
    message->size = (uint32_t)size;
    message->error = 0;
    message->is_reply = false;
    message->is_inline = size <= WEFTI_MESSAGE_INLINE;
    if (message->is_inline) {
        if (size == 8)
            memcpy(message->bytes, data, 8);
        else if (size)
            memcpy(message->bytes, data, size);
    } else {
        struct large *large = wefti_alloc(sizeof *large + size);
        if (!large) {
            wefti_nodes_give(&table->nodes, cache_of(table, w), message);
            return NULL;
        }
        large->size = sizeof *large + size;
        message->outside.data = memcpy(large + 1, data, size);
        message->outside.release = free_large;
    }
    return message;
}

void wefti_message_free(struct wefti_processes *table, struct wefti_message *message) {
    if (!message->is_inline && message->outside.release)
        message->outside.release(message->outside.data);
    wefti_nodes_give(&table->nodes, cache_of(table, wefti_worker_here()), message);
}

void wefti_messages_free(struct wefti_processes *table, struct wefti_chain *chain) {
    for (struct wefti_link *item; (item = wefti_chain_take(chain));)
        wefti_message_free(table, wefti_message_of(item));
}

void wefti_message_show(struct wefti_message *message, weft_message *out) {
    *out = (weft_message){
        .type = (weft_message_type)message->type,
        .error = message->error,
        .tag = message->tag,
        .from = message->from,
        .data = message->is_inline ? message->bytes : message->outside.data,
        .size = message->size,
    };
}
