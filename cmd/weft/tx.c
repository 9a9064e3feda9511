/* tx.c - transactions to bytes and back. */
#include "tx.h"

#include <errno.h>

#include "hash.h"

#define FORMAT 1

static bool name_is_valid(const char *name, size_t size) {
    if (size == 0 || size > TX_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') || name[i] == '_' ||
              name[i] == '-'))
            return false;
    return true;
}

/* How long the character is that begins here; 0: none does. */
static size_t utf8_char(const unsigned char *at, size_t left) {
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (at[0] < 0xc2 || at[0] > 0xf4 || size > left)
        return 0;
    uint32_t value = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (at[i] & 0x3f);
    }
    return value < least[size] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : size;
}

static bool text_is(const char *text, size_t size, bool controls) {
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0, step; i < size; i += step) {
        step = utf8_char(at + i, size - i);
        if (step == 0 || (!controls && (at[i] < 0x20 || at[i] == 0x7f || (at[i] == 0xc2 && at[i + 1] < 0xa0))))
            return false;
    }
    return true;
}

bool text_is_utf8(const char *text, size_t size) { return text_is(text, size, true); }
bool text_is_printable(const char *text, size_t size) { return text_is(text, size, false); }

bool shard_name_is_valid(const char *name) {
    size_t size = strnlen(name, 64);
    return size > 0 && size < 64 && text_is_printable(name, size);
}

/* What is wrong with it, or NULL. */
static const char *complaint(const struct tx *tx) {
    size_t sender = strnlen(tx->sender, TX_SENDER_MAX + 1), size = 0;
    if (!name_is_valid(tx->executor, strnlen(tx->executor, TX_NAME_MAX + 1)))
        return "executor: 1 to 32 of a-z 0-9 _ -";
    if (!name_is_valid(tx->method, strnlen(tx->method, TX_NAME_MAX + 1)))
        return "method: 1 to 32 of a-z 0-9 _ -";
    if (sender == 0 || sender > TX_SENDER_MAX || !text_is_printable(tx->sender, sender))
        return "sender: 1 to 64 bytes of UTF-8 without control characters";
    if (tx->nonce == 0)
        return "nonces begin at 1";
    if (tx->count > TX_ARGS_MAX)
        return "more than 16 arguments";
    for (unsigned i = 0; i < tx->count; i++) {
        if (tx->args[i].size > TX_SIZE_MAX)
            return "larger than 256 KiB";
        size += tx->args[i].size;
    }
    return size + 256 > TX_SIZE_MAX ? "larger than 256 KiB" : NULL;
}

static void put_text(struct bytes *out, const char *text) {
    size_t size = strlen(text);
    bytes_put8(out, (unsigned)size);
    bytes_put(out, text, size + 1);
}

int tx_encode(const struct tx *tx, struct bytes *out, const char **why) {
    size_t before = out->size;
    const char *wrong = complaint(tx);
    if (wrong) {
        *why = wrong;
        return -EINVAL;
    }
    bytes_put8(out, FORMAT);
    bytes_put8(out, tx->count);
    bytes_put64(out, tx->nonce);
    bytes_put64(out, tx->gas);
    put_text(out, tx->executor);
    put_text(out, tx->method);
    put_text(out, tx->sender);
    for (unsigned i = 0; i < tx->count; i++)
        bytes_put_sized(out, tx->args[i].data, tx->args[i].size);
    if (!out->failed)
        return 0;
    out->size = before;
    out->failed = false;
    *why = "no memory";
    return -ENOMEM;
}

static const char *take_text(struct reader *reader) {
    unsigned size = reader_8(reader);
    const char *text = (const char *)reader_take(reader, (size_t)size + 1);
    if (text && (text[size] != 0 || memchr(text, 0, size)))
        reader->bad = true;
    return text && !reader->bad ? text : "";
}

int tx_decode(const void *data, size_t size, struct tx *out, const char **why) {
    struct reader reader = reader_of(data, size);
    *why = "not a transaction";
    if (size > TX_SIZE_MAX || reader_8(&reader) != FORMAT)
        return -EINVAL;
    out->count = reader_8(&reader);
    out->nonce = reader_64(&reader);
    out->gas = reader_64(&reader);
    out->executor = take_text(&reader);
    out->method = take_text(&reader);
    out->sender = take_text(&reader);
    for (unsigned i = 0; i < out->count && i < TX_ARGS_MAX; i++)
        out->args[i].data = reader_sized(&reader, &out->args[i].size);
    if (!reader_is_done(&reader))
        return -EINVAL;
    const char *wrong = complaint(out);
    *why = wrong ? wrong : "";
    return wrong ? -EINVAL : 0;
}

hash32 tx_id(const char *shard, const void *data, size_t size) {
    struct hash hash;
    hash_begin(&hash, NULL, 0);
    hash_add(&hash, "weft tx", 8); /* so that it is no other use's hash */
    hash_add(&hash, shard, strlen(shard) + 1);
    hash_add(&hash, data, size);
    return hash_end(&hash);
}

void hash_to_text(const hash32 *hash, char text[65]) {
    for (int i = 0; i < 32; i++) {
        text[2 * i] = "0123456789abcdef"[hash->bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[hash->bytes[i] & 15];
    }
    text[64] = 0;
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool hash_from_text(const char *text, hash32 *out) {
    for (int i = 0; i < 32; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        out->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return text[64] == 0;
}
