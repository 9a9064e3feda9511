/* codec.c - hashes, transactions and blocks as bytes: known answers, round trips, any damage. */
#include "node.h"

#include "block.h"
#include "hash.h"
#include "index.h"

static void check_hash(const void *data, size_t size, const char *key, const char *expected) {
    struct hash hash;
    char text[65];
    for (size_t cut = 0; cut <= size; cut += 1 + size / 7) { /* however it arrives */
        hash_begin(&hash, key, strlen(key));
        hash_add(&hash, data, cut);
        hash_add(&hash, (const char *)data + cut, size - cut);
        hash32 found = hash_end(&hash);
        hash_to_text(&found, text);
        CHECK_STR(text, expected);
    }
}

TEST(codec_hashes, "") {
    unsigned char bytes[1000];
    for (int i = 0; i < 1000; i++)
        bytes[i] = (unsigned char)(i % 251);
    check_hash("", 0, "", "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    check_hash("abc", 3, "", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    check_hash("abc", 3, "weft", "5953d2ffb58e896c6281cead5f9c5545cbf2d3f17fa68e3f2c071818bf48a73e");
    check_hash(bytes, 128, "", "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1");
    check_hash(bytes, 1000, "", "b372d0608f720c8c3dd41e9c8eecb10143b41abe520b616607e754bf79c08331");
    CHECK_EQ(crc32c(0, "123456789", 9), 0xe3069283);
    CHECK_EQ(crc32c(crc32c(0, "12345", 5), "6789", 4), 0xe3069283);
}

TEST(codec_texts, "") {
    hash32 hash, again;
    char text[66];
    memset(&hash, 0xa7, sizeof hash);
    hash_to_text(&hash, text);
    CHECK(hash_from_text(text, &again) && !memcmp(&hash, &again, 32));
    text[10] = 'G';
    CHECK(!hash_from_text(text, &again));
    CHECK(!hash_from_text("", &again));
    CHECK(shard_name_is_valid("a") && shard_name_is_valid("\xc3\xa4 / ../x") && shard_name_is_valid("."));
    CHECK(!shard_name_is_valid("") && !shard_name_is_valid("\n") && !shard_name_is_valid("\x7f"));
    CHECK(!shard_name_is_valid("\xff") && !shard_name_is_valid("\xc3") && !shard_name_is_valid("\xed\xa0\x80"));
    CHECK(!shard_name_is_valid("\xc0\x80") && !shard_name_is_valid("\xc2\x85") &&
          !shard_name_is_valid("\xf4\x90\x80\x80"));
    memset(text, 'x', 63), text[63] = 0;
    CHECK(shard_name_is_valid(text));
    text[63] = 'x', text[64] = 0;
    CHECK(!shard_name_is_valid(text));
}

static struct tx sample(void) {
    return (struct tx){.executor = "kv",
                       .method = "set",
                       .sender = "\xc3\xa4nn",
                       .nonce = 7,
                       .gas = 9,
                       .count = 3,
                       .args = {{"key", 3}, {"", 0}, {"\0\xff", 2}}};
}

TEST(codec_tx, "") {
    struct bytes bytes = {0}, again = {0};
    const char *why = NULL;
    struct tx tx = sample(), back;
    REQUIRE_EQ(tx_encode(&tx, &bytes, &why), 0);
    REQUIRE_EQ(tx_decode(bytes.data, bytes.size, &back, &why), 0);
    CHECK_STR(back.sender, tx.sender);
    CHECK(back.nonce == 7 && back.gas == 9 && back.count == 3 && back.args[2].size == 2);
    for (size_t size = 0; size < bytes.size; size++)
        CHECK_EQ(tx_decode(bytes.data, size, &back, &why), -EINVAL);
    bytes_put8(&bytes, 0);
    CHECK_EQ(tx_decode(bytes.data, bytes.size, &back, &why), -EINVAL); /* too long */
    bytes.size--;
    for (size_t bit = 0; bit < bytes.size * 8; bit++) { /* another transaction, or none; never two encodings of one */
        bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (tx_decode(bytes.data, bytes.size, &back, &why) == 0) {
            bytes_clear(&again);
            REQUIRE_EQ(tx_encode(&back, &again, &why), 0);
            CHECK(again.size == bytes.size && !memcmp(again.data, bytes.data, bytes.size));
        }
        bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    bytes_free(&bytes);
    bytes_free(&again);
}

TEST(codec_tx_refused, "") {
    static char large[TX_SIZE_MAX];
    struct bytes bytes = {0};
    const char *why = NULL;
    struct tx wrong[9];
    for (int i = 0; i < 9; i++)
        wrong[i] = sample();
    wrong[0].executor = "", wrong[1].executor = "KV", wrong[2].method = "a b", wrong[3].sender = "", wrong[4].nonce = 0;
    wrong[5].count = 17, wrong[6].args[0] = (struct tx_arg){large, sizeof large}, wrong[7].sender = "a\nb";
    wrong[8].method = "abcdefghijabcdefghijabcdefghijabc";
    for (int i = 0; i < 9; i++) {
        why = NULL;
        CHECK_EQ(tx_encode(&wrong[i], &bytes, &why), -EINVAL);
        CHECK(why != NULL);
        CHECK_EQ(bytes.size, 0);
    }
    bytes_free(&bytes);
}

static void make_block(struct block_maker *maker, hash32 *hash) {
    struct bytes tx = {0};
    struct tx one = sample();
    const char *why;
    struct ledger_block about = {.number = 3, .time = 5, .env = {.number = 4}};
    struct block_write diff[2] = {{"sk", "v", 2, 1}, {"sgone", NULL, 5, 0}};
    REQUIRE_EQ(tx_encode(&one, &tx, &why), 0);
    hash32 id = tx_id("s", tx.data, tx.size);
    block_begin(maker);
    for (int i = 0; i < 2; i++) {
        block_record_begin(maker, &id, tx.data, tx.size);
        block_step(maker, STEP_GET, "k", 1, NULL, 0);
        block_step(maker, STEP_EMIT, "", 0, "text", 4);
        block_record_end(maker, i == 0, 77, i ? "why" : "", "null", 4);
    }
    REQUIRE_EQ(block_end(maker, "s", &about, diff, 2, hash), 0);
    bytes_free(&tx);
}

TEST(codec_block, "") {
    struct block_maker maker = {0};
    struct block_view view;
    struct block_record record;
    struct block_write write;
    struct reader diff;
    hash32 hash, *ids;
    make_block(&maker, &hash);
    REQUIRE_EQ(block_open(maker.bytes.data, maker.bytes.size, &view), 0);
    CHECK_EQ(block_check(&view), NULL);
    CHECK(view.about.number == 3 && view.about.txs == 2 && view.about.failed == 1 && view.about.writes == 2);
    CHECK(!memcmp(&view.about.hash, &hash, 32));
    REQUIRE_EQ(block_record_at(&view, 1, &record), 0);
    CHECK(record.receipt.status == TX_FAILED && record.receipt.gas == 77 && record.step_count == 2);
    CHECK_STR(record.receipt.reason, "why");
    CHECK_EQ(block_record_at(&view, 2, &record), -ENOENT);
    REQUIRE_EQ(block_ids(&view, &ids), 0);
    free(ids);
    REQUIRE_EQ(block_diff_begin(&view, &diff), 0);
    CHECK(block_diff_next(&diff, &write) && write.value_size == 1);
    CHECK(block_diff_next(&diff, &write) && !write.value);
    CHECK(!block_diff_next(&diff, &write) && !diff.bad);
    /* Every bit, every length: the whole sees it; a part that is read alone, in its own bytes. */
    for (size_t bit = 0; bit < maker.bytes.size * 8; bit++) {
        maker.bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (block_open(maker.bytes.data, maker.bytes.size, &view) == 0) {
            CHECK(block_check(&view) != NULL);
            for (uint32_t i = 0; i < 2; i++)
                if (block_record_at(&view, i, &record) == 0)
                    CHECK(record.receipt.index == i && record.receipt.gas == 77 && record.step_count == 2);
        }
        maker.bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t size = 0; size < maker.bytes.size; size++)
        CHECK_EQ(block_open(maker.bytes.data, size, &view), -EBADMSG);
    block_maker_free(&maker);
}

TEST(codec_head, "") {
    struct head head = {.number = 9, .txs = 10, .next_run = 3, .shard = "s"}, back;
    struct bytes bytes = {0};
    for (unsigned i = 0; i < 3; i++) {
        struct run run = {i, 1, 5};
        bytes_put(&head.runs, &run, sizeof run);
    }
    head_encode(&head, &bytes);
    REQUIRE_EQ(head_decode(bytes.data, bytes.size, &back), 0);
    CHECK(back.number == 9 && head_run_count(&back) == 3 && head_runs(&back)[2].seq == 2);
    bytes_free(&back.runs);
    for (size_t bit = 0; bit < bytes.size * 8; bit++) {
        bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK_EQ(head_decode(bytes.data, bytes.size, &back), -EBADMSG);
        bytes_free(&back.runs);
        bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    bytes_free(&bytes);
    bytes_free(&head.runs);
}
