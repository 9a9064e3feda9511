/* overlay.c - a hash table of what a batch has read and written. */
#include "overlay.h"

#include <errno.h>

#include "hash.h"

static struct overlay_entry *entry_at(struct overlay *overlay, uint32_t index) {
    return (struct overlay_entry *)(void *)overlay->entries.data + index;
}

static uint32_t entry_count(const struct overlay *overlay) {
    return (uint32_t)(overlay->entries.size / sizeof(struct overlay_entry));
}

static uint64_t hash_of(const unsigned char *key, size_t size) {
    uint64_t value = UINT64_C(0x9e3779b97f4a7c15) ^ size;
    for (; size >= 8; key += 8, size -= 8)
        value = (value ^ get64(key)) * UINT64_C(0xff51afd7ed558ccd), value ^= value >> 32;
    for (; size; key++, size--)
        value = (value ^ *key) * UINT64_C(0x100000001b3);
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

uint32_t state_crc(const void *key, size_t key_size, const void *value, size_t size) {
    return crc32c(crc32c((uint32_t)key_size, key, key_size), value, size);
}

int state_open(const void *key, size_t key_size, const void **value, size_t *size) {
    if (*size < 4 || get32(*value) != state_crc(key, key_size, (const unsigned char *)*value + 4, *size - 4))
        return -EBADMSG;
    *value = (const unsigned char *)*value + 4;
    *size -= 4;
    return 0;
}

void overlay_begin(struct overlay *overlay, struct keep_view *view) {
    overlay->view = view;
    bytes_clear(&overlay->text);
    bytes_clear(&overlay->entries);
    bytes_clear(&overlay->undo);
    if (overlay->slots)
        memset(overlay->slot, 0, overlay->slots * sizeof *overlay->slot);
}

static int grow(struct overlay *overlay) {
    size_t slots = overlay->slots ? overlay->slots * 2 : 256;
    uint32_t *larger = mem_new(slots * sizeof *larger);
    if (!larger)
        return -ENOMEM;
    for (uint32_t i = 0; i < entry_count(overlay); i++) {
        size_t at = entry_at(overlay, i)->hash & (slots - 1);
        while (larger[at])
            at = (at + 1) & (slots - 1);
        larger[at] = i + 1;
    }
    free(overlay->slot);
    overlay->slot = larger;
    overlay->slots = slots;
    return 0;
}

static int add_text(struct overlay *overlay, const void *data, size_t size, size_t *at) {
    *at = overlay->text.size;
    bytes_put(&overlay->text, data, size);
    if (!overlay->text.failed)
        return 0;
    overlay->text.failed = false; /* what is there is still good */
    return -ENOMEM;
}

struct loading {
    struct overlay *overlay;
    const void *key;
    size_t key_size;
    struct overlay_entry entry;
};

static int load_value(struct keep_view *view, void *arg) {
    struct loading *loading = arg;
    const void *value = NULL;
    size_t size = 0;
    int found = view->keep->ops->get(view, loading->key, loading->key_size, &value, &size);
    int error = found < 0 ? found : found ? state_open(loading->key, loading->key_size, &value, &size) : 0;
    if (!error && found)
        error = add_text(loading->overlay, value, size, &loading->entry.value);
    loading->entry.present = found;
    loading->entry.value_size = (uint32_t)size;
    return error;
}

/* A new entry, with what the keep has. */
static int load(struct overlay *overlay, uint64_t hash, const void *key, size_t key_size, uint32_t *out) {
    struct loading loading = {overlay, key, key_size, {.hash = hash, .key_size = (uint32_t)key_size}};
    int error = keep_use(overlay->view, load_value, &loading);
    if (error || (error = add_text(overlay, key, key_size, &loading.entry.key)))
        return error;
    *out = entry_count(overlay);
    bytes_put(&overlay->entries, &loading.entry, sizeof loading.entry);
    if (!overlay->entries.failed)
        return 0;
    overlay->entries.failed = false;
    return -ENOMEM;
}

static int find(struct overlay *overlay, const void *key, size_t key_size, uint32_t *out) {
    if ((entry_count(overlay) + 1) * 2 > overlay->slots) {
        int error = grow(overlay);
        if (error)
            return error;
    }
    uint64_t hash = hash_of(key, key_size);
    size_t at = hash & (overlay->slots - 1);
    for (; overlay->slot[at]; at = (at + 1) & (overlay->slots - 1)) {
        struct overlay_entry *entry = entry_at(overlay, *out = overlay->slot[at] - 1);
        if (entry->hash == hash && entry->key_size == key_size &&
            !memcmp(overlay->text.data + entry->key, key, key_size))
            return 0;
    }
    int error = load(overlay, hash, key, key_size, out);
    if (!error)
        overlay->slot[at] = *out + 1;
    return error;
}

int overlay_get(struct overlay *overlay, const void *key, size_t key_size, const void **value, size_t *size) {
    uint32_t index;
    int error = find(overlay, key, key_size, &index);
    if (error)
        return error;
    struct overlay_entry *entry = entry_at(overlay, index);
    *value = entry->present ? overlay->text.data + entry->value : NULL;
    *size = entry->present ? entry->value_size : 0;
    return entry->present;
}

int overlay_put(struct overlay *overlay, const void *key, size_t key_size, const void *value, size_t size) {
    uint32_t index;
    int error = find(overlay, key, key_size, &index);
    if (error)
        return error;
    struct overlay_undo undo = {index, *entry_at(overlay, index)};
    bytes_put(&overlay->undo, &undo, sizeof undo);
    if (overlay->undo.failed) {
        overlay->undo.failed = false;
        return -ENOMEM;
    }
    size_t at = undo.before.value;
    if (value && (error = add_text(overlay, value, size, &at))) /* the old one may be wanted again */
        return error;
    struct overlay_entry *entry = entry_at(overlay, index);
    entry->value = at;
    entry->value_size = (uint32_t)size;
    entry->present = value != NULL;
    entry->dirty = true;
    return 0;
}

void overlay_settle(struct overlay *overlay) { bytes_clear(&overlay->undo); }

void overlay_undo(struct overlay *overlay) {
    struct overlay_undo *undo = (struct overlay_undo *)(void *)overlay->undo.data;
    for (size_t i = overlay->undo.size / sizeof *undo; i--;)
        *entry_at(overlay, undo[i].entry) = undo[i].before;
    bytes_clear(&overlay->undo);
}

int overlay_diff(struct overlay *overlay, struct block_write **out, size_t *count) {
    struct block_write *diff = mem_resize(NULL, entry_count(overlay) * sizeof *diff + 1);
    size_t changed = 0;
    if (!diff)
        return -ENOMEM;
    for (uint32_t i = 0; i < entry_count(overlay); i++) {
        struct overlay_entry *entry = entry_at(overlay, i);
        if (entry->dirty)
            diff[changed++] = (struct block_write){overlay->text.data + entry->key,
                                                   entry->present ? overlay->text.data + entry->value : NULL,
                                                   entry->key_size, entry->present ? entry->value_size : 0};
    }
    *out = diff;
    *count = changed;
    return 0;
}

void overlay_free(struct overlay *overlay) {
    bytes_free(&overlay->text);
    bytes_free(&overlay->entries);
    bytes_free(&overlay->undo);
    free(overlay->slot);
    overlay->slot = NULL;
    overlay->slots = 0;
}
