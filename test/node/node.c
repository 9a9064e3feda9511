/* node.c - help for tests of the ledger. */
#define _GNU_SOURCE
#include "node.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

char node_reason[256], node_output[4096];
hash32 node_id;
uint64_t node_gas;

static char made[128][32];
static unsigned made_count;

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_made(void) {
    while (made_count)
        nftw(made[--made_count], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *node_dir(void) {
    REQUIRE_LT(made_count, 128);
    strcpy(made[made_count], "/tmp/weft-node-XXXXXX");
    REQUIRE(mkdtemp(made[made_count]) != NULL);
    if (made_count == 0)
        atexit(remove_made);
    return made[made_count++];
}

unsigned char *node_bytes(const char *path, size_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
    *size = (size_t)info.st_size;
    unsigned char *bytes = malloc(*size);
    REQUIRE(bytes);
    REQUIRE_EQ(read(fd, bytes, *size), (ssize_t)*size);
    close(fd);
    return bytes;
}

struct ledger *node_open_with(struct ledger_config config) {
    struct ledger *book = NULL;
    char why[256] = "";
    int error = ledger_open(&config, &book, why, sizeof why);
    if (error)
        printf("ledger_open: %s\n", why);
    REQUIRE_EQ(error, 0);
    return book;
}

struct ledger *node_open(const char *dir) { return node_open_with((struct ledger_config){.dir = dir, .workers = 2}); }

static int encode(const char *sender, uint64_t nonce, const char *words, struct bytes *out) {
    char *copy = strdup(words), *rest = copy;
    struct tx tx = {.sender = sender, .nonce = nonce};
    const char *why = "";
    tx.executor = strsep(&rest, " ");
    tx.method = strsep(&rest, " ");
    for (char *word; (word = strsep(&rest, " "));)
        tx.args[tx.count++] = (struct tx_arg){word, strlen(word)};
    int error = tx_encode(&tx, out, &why);
    REQUIRE(error == 0 || error == -ENOMEM);
    free(copy);
    return error;
}

int node_try(struct ledger *book, const char *shard, const char *sender, uint64_t nonce, const char *words,
             hash32 *id) {
    struct bytes bytes = {0};
    int error = encode(sender, nonce, words, &bytes);
    weft_tx tx = {0, bytes.data, bytes.size};
    node_reason[0] = 0;
    if (!error)
        error = ledger_submit(book, shard, &tx, 1, id, node_reason, sizeof node_reason);
    bytes_free(&bytes);
    return error;
}

static void take_receipt(void *arg, const struct ledger_receipt *receipt) {
    (void)arg;
    snprintf(node_reason, sizeof node_reason, "%s", receipt->reason);
    snprintf(node_output, sizeof node_output, "%.*s", (int)receipt->output_size, (const char *)receipt->output);
    node_gas = receipt->gas;
}

enum tx_status node_wait(struct ledger *book, const char *shard, const hash32 *id) {
    enum tx_status status = TX_PENDING;
    REQUIRE_EVENTUALLY((status = ledger_tx_status(book, shard, id)) != TX_PENDING);
    return status;
}

void node_receipt(struct ledger *book, const char *shard) {
    REQUIRE_EQ(ledger_receipt_get(book, shard, &node_id, take_receipt, NULL), 0);
}

enum tx_status node_run(struct ledger *book, const char *shard, const char *sender, const char *words) {
    int error = node_try(book, shard, sender, ledger_nonce(book, shard, sender) + 1, words, &node_id);
    if (error)
        printf("%s: %s\n", words, node_reason);
    REQUIRE_EQ(error, 0);
    enum tx_status status = node_wait(book, shard, &node_id);
    if (status == TX_OK || status == TX_FAILED)
        node_receipt(book, shard);
    return status;
}

static void take_state(void *arg, const void *value, size_t size) {
    snprintf(arg, sizeof node_output, "%.*s", (int)size, (const char *)value);
}

int node_state_try(struct ledger *book, const char *shard, const char *key, char *text) {
    return ledger_state_get(book, shard, key, strlen(key), take_state, text);
}

void node_id_of(const char *shard, const char *sender, uint64_t nonce, const char *words, hash32 *id) {
    struct bytes bytes = {0};
    REQUIRE_EQ(encode(sender, nonce, words, &bytes), 0);
    *id = tx_id(shard, bytes.data, bytes.size);
    bytes_free(&bytes);
}

const char *node_state(struct ledger *book, const char *shard, const char *key) {
    static char text[4096];
    strcpy(text, "(none)");
    int error = node_state_try(book, shard, key, text);
    REQUIRE(error == 0 || error == -ENOENT);
    return text;
}

uint64_t node_height(struct ledger *book, const char *shard) {
    weft_shard *found = weft_shard_find(ledger_lane(book), shard);
    weft_shard_info info = {0};
    if (found)
        weft_shard_info_read(found, &info);
    return info.block;
}
