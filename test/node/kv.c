/* kv.c - the executor kv, on both keeps: what each method does, and how it fails. */
#include "node.h"

static void methods(struct ledger *book) {
    CHECK_EQ(node_run(book, "s", "ann", "kv set ann 100"), TX_OK);
    CHECK_EQ(node_run(book, "s", "ann", "kv get ann"), TX_OK);
    CHECK_STR(node_output, "\"100\"");
    CHECK_EQ(node_run(book, "s", "ann", "kv get nobody"), TX_OK);
    CHECK_STR(node_output, "null");
    CHECK_EQ(node_run(book, "s", "ann", "kv add n 5"), TX_OK);
    CHECK_EQ(node_run(book, "s", "ann", "kv add n -7"), TX_OK);
    CHECK_STR(node_output, "-2");
    CHECK_EQ(node_run(book, "s", "ann", "kv transfer bob 30"), TX_OK);
    CHECK_EQ(node_run(book, "s", "bob", "kv transfer cy 31"), TX_FAILED);
    CHECK_STR(node_reason, "balance is 30");
    CHECK_EQ(node_run(book, "s", "bob", "kv transfer bob 30"), TX_OK);
    CHECK_STR(node_state(book, "s", "ann"), "70");
    CHECK_STR(node_state(book, "s", "bob"), "30");
    CHECK_STR(node_state(book, "s", "cy"), "(none)");
    CHECK_EQ(node_run(book, "s", "bob", "kv cas lock mine"), TX_OK);
    CHECK_EQ(node_run(book, "s", "bob", "kv cas lock mine"), TX_FAILED);
    CHECK_EQ(node_run(book, "s", "bob", "kv cas lock yours other"), TX_FAILED);
    CHECK_EQ(node_run(book, "s", "bob", "kv cas lock mine other"), TX_OK);
    CHECK_STR(node_state(book, "s", "lock"), "other");
    CHECK_EQ(node_run(book, "s", "bob", "kv del lock"), TX_OK);
    CHECK_STR(node_state(book, "s", "lock"), "(none)");
    CHECK_EQ(node_run(book, "s", "bob", "kv noop"), TX_OK);
}

static void failures(struct ledger *book) {
    static const char *const wrong[][2] = {
        {"kv add ann x", "not an integer"},
        {"kv add text 1", "the value is not an integer"},
        {"kv add max 1", "the sum has more than 64 bits"},
        {"kv transfer bob -1", "not an amount"},
        {"kv transfer bob 99999999999999999999", "not an amount"},
        {"kv set one", "set wants 2 arguments"},
        {"kv frob", "kv has no method frob"},
        {"kv set lua:x 1", "keys that begin with lua: are contracts'"},
        {"evm call", "no executor evm"},
        {"kv set  v", "a key has 1 to 400 bytes"},
    };
    CHECK_EQ(node_run(book, "s", "eve", "kv set text abc"), TX_OK);
    CHECK_EQ(node_run(book, "s", "eve", "kv set max 9223372036854775807"), TX_OK);
    uint64_t nonce = ledger_nonce(book, "s", "eve");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(node_run(book, "s", "eve", wrong[i][0]), TX_FAILED);
        CHECK_STR(node_reason, wrong[i][1]);
        CHECK_EQ(ledger_nonce(book, "s", "eve"), ++nonce); /* used all the same */
    }
    CHECK_EQ(node_run(book, "s", "lua:c:k", "kv transfer x 0"), TX_FAILED); /* its account would be a contract's key */
    CHECK_STR(node_state(book, "s", "max"), "9223372036854775807");
}

TEST(kv_in_memory, "K15 K16") {
    struct ledger *book = node_open(NULL);
    methods(book);
    failures(book);
    ledger_close(book);
}

TEST(kv_on_disk, "K15 K16") {
    struct ledger *book = node_open(node_dir());
    methods(book);
    failures(book);
    ledger_close(book);
}

/* Writes before the failure are undone, within a batch too. */
TEST(kv_undone, "") {
    struct ledger *book = node_open(NULL);
    CHECK_EQ(node_run(book, "s", "a", "kv set a 10"), TX_OK);
    CHECK_EQ(node_run(book, "s", "a", "kv set b 9223372036854775800"), TX_OK);
    CHECK_EQ(node_run(book, "s", "a", "kv transfer b 9"), TX_FAILED); /* a was lowered already */
    CHECK_STR(node_state(book, "s", "a"), "10");
    CHECK_STR(node_state(book, "s", "b"), "9223372036854775800");
    ledger_close(book);
}

TEST(kv_gas, "") {
    struct ledger *book = node_open_with((struct ledger_config){.workers = 1, .gas_limit = 60});
    CHECK_EQ(node_run(book, "s", "a", "kv noop"), TX_OK);
    CHECK_GT(node_gas, 9);
    CHECK_EQ(node_run(book, "s", "a", "kv set a 10"), TX_OK);
    CHECK_EQ(node_run(book, "s", "a", "kv transfer b 1"), TX_FAILED); /* two reads, two writes */
    CHECK_STR(node_reason, "out of gas");
    CHECK_EQ(node_gas, 60);
    CHECK_STR(node_state(book, "s", "a"), "10");
    ledger_close(book);
}
