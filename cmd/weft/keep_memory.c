/* keep_memory.c - a keep in memory: a hash table under a lock.  For tests and for nodes that keep nothing. */
#include "keep.h"
#include "queue/lock.h"

struct entry {
    struct entry *next;
    uint64_t hash;
    unsigned char *value; /* behind the key */
    size_t key_size, value_size;
    unsigned char key[];
};

struct keep_memory {
    struct keep keep;
    struct wefti_lock lock;
    struct entry **bucket;
    size_t buckets, count;
};

static uint64_t hash_of(const unsigned char *key, size_t size) {
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        value = (value ^ key[i]) * UINT64_C(0x100000001b3);
    return value ^ value >> 29;
}

static struct entry **find(struct keep_memory *self, const void *key, size_t size) {
    uint64_t hash = hash_of(key, size);
    struct entry **at = &self->bucket[hash & (self->buckets - 1)];
    while (*at && ((*at)->hash != hash || (*at)->key_size != size || memcmp((*at)->key, key, size)))
        at = &(*at)->next;
    return at;
}

static int begin(struct keep *keep, bool own, struct keep_view *view) {
    struct keep_memory *self = (struct keep_memory *)(void *)keep;
    *view = (struct keep_view){keep, NULL, own};
    if (!own) /* the runner is the only one that changes anything */
        wefti_lock_take(&self->lock);
    return 0;
}

static int get(struct keep_view *view, const void *key, size_t key_size, const void **value, size_t *size) {
    struct entry *found = *find((struct keep_memory *)(void *)view->keep, key, key_size);
    if (!found)
        return 0;
    *value = found->value;
    *size = found->value_size;
    return 1;
}

static void end(struct keep_view *view) {
    if (!view->own)
        wefti_lock_give(&((struct keep_memory *)(void *)view->keep)->lock);
}

static void grow(struct keep_memory *self, size_t want) {
    size_t buckets = self->buckets;
    while (buckets < want)
        buckets *= 2;
    struct entry **larger = buckets > self->buckets ? mem_new(buckets * sizeof(struct entry *)) : NULL;
    if (!larger)
        return; /* longer chains, then */
    for (size_t i = 0; i < self->buckets; i++)
        for (struct entry *entry = self->bucket[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = larger[entry->hash & (buckets - 1)];
            larger[entry->hash & (buckets - 1)] = entry;
        }
    free(self->bucket);
    self->bucket = larger;
    self->buckets = buckets;
}

/* All memory is asked for before anything is changed. */
static int commit(struct keep *keep, const struct keep_write *writes, size_t count) {
    struct keep_memory *self = (struct keep_memory *)(void *)keep;
    struct entry **made = mem_new(count * sizeof(struct entry *) + 1);
    size_t done = 0;
    for (; made && done < count; done++) {
        const struct keep_write *write = &writes[done];
        if (!write->value)
            continue;
        struct entry *entry = mem_resize(NULL, sizeof *entry + write->key_size + write->value_size);
        if (!(made[done] = entry))
            break;
        *entry = (struct entry){NULL, hash_of(write->key, write->key_size), entry->key + write->key_size,
                                write->key_size, write->value_size};
        memcpy(entry->key, write->key, write->key_size);
        if (write->value_size)
            memcpy(entry->value, write->value, write->value_size);
    }
    if (done < count) {
        while (made && done--)
            free(made[done]);
        free(made);
        return -ENOMEM;
    }
    wefti_lock_take(&self->lock);
    grow(self, self->count + count);
    for (size_t i = 0; i < count; i++) {
        struct entry **at = find(self, writes[i].key, writes[i].key_size), *old = *at;
        if (made[i])
            made[i]->next = old ? old->next : NULL;
        *at = made[i] ? made[i] : old ? old->next : NULL;
        self->count += (size_t)(made[i] != NULL) - (size_t)(old != NULL);
        free(old);
    }
    wefti_lock_give(&self->lock);
    free(made);
    return 0;
}

static void close_keep(struct keep *keep) {
    struct keep_memory *self = (struct keep_memory *)(void *)keep;
    for (size_t i = 0; i < self->buckets; i++)
        for (struct entry *entry = self->bucket[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    free(self->bucket);
    free(self);
}

static int reopen(struct keep *keep) {
    store_relaxed(&keep->unreadable, false); /* a look */
    return 0;
}

int keep_memory_open(struct keep **out) {
    static const struct keep_ops ops = {begin, get, end, commit, close_keep, reopen};
    struct keep_memory *self = mem_new(sizeof *self);
    if (!self || !(self->bucket = mem_new(64 * sizeof(struct entry *)))) {
        free(self);
        return -ENOMEM;
    }
    self->keep.ops = &ops;
    self->buckets = 64;
    *out = &self->keep;
    return 0;
}

size_t keep_memory_count(struct keep *keep) { return ((struct keep_memory *)(void *)keep)->count; }
