/* lua.c - contracts: what they can, what they cannot, and that nothing of it ends a node. */
#include <time.h>

#include "node.h"

/* deploy takes its source as one argument: not by words. */
static enum tx_status deploy(struct ledger *book, const char *sender, const char *name, const char *source,
                             size_t size) {
    struct bytes bytes = {0};
    struct tx tx = {.executor = "lua",
                    .method = "deploy",
                    .sender = sender,
                    .nonce = ledger_nonce(book, "s", sender) + 1,
                    .count = 2,
                    .args = {{name, strlen(name)}, {source, size}}};
    const char *why;
    REQUIRE_EQ(tx_encode(&tx, &bytes, &why), 0);
    weft_tx one = {0, bytes.data, bytes.size};
    REQUIRE_EQ(ledger_submit(book, "s", &one, 1, &node_id, node_reason, sizeof node_reason), 0);
    bytes_free(&bytes);
    enum tx_status status = node_wait(book, "s", &node_id);
    node_receipt(book, "s");
    return status;
}

/* A contract c whose function f has this body: its status, output and reason. */
static enum tx_status run(struct ledger *book, const char *body) {
    char source[4096];
    snprintf(source, sizeof source, "function f(a, b)\n%s\nend", body);
    REQUIRE_EQ(deploy(book, "ann", "c", source, strlen(source)), TX_OK);
    return node_run(book, "s", "ann", "lua invoke c f 1 two");
}

static void expect(struct ledger *book, const char *body, const char *output) {
    enum tx_status status = run(book, body);
    if (status != TX_OK)
        printf("%s: %s\n", body, node_reason);
    CHECK_EQ(status, TX_OK);
    CHECK_STR(node_output, output);
}

static void expect_failure(struct ledger *book, const char *body, const char *reason) {
    CHECK_EQ(run(book, body), TX_FAILED);
    CHECK_CONTAINS(node_reason, reason);
}

TEST(lua_state, "") {
    struct ledger *book = node_open(node_dir());
    expect(book, "return a .. b .. sender .. block.number .. ' ' .. nonce", "\"1twoann2 2\"");
    expect(book, "put('n', (get('n') or 0) + 1) return tonumber(get('n'))", "1");
    expect(book, "put('n', (get('n') or 0) + 1) return tonumber(get('n'))", "2");
    CHECK_STR(node_state(book, "s", "lua:c:n"), "2");
    expect(book, "put('n', nil) return get('n')", "");
    CHECK_STR(node_state(book, "s", "lua:c:n"), "(none)");
    expect(book, "emit('moved', 'x') log('text') return {1, {k = true, a = 'v'}, 2.5}",
           "[1,{\"a\":\"v\",\"k\":true},2.5]");
    expect_failure(book, "put('x', 1) error('no')", "no");
    CHECK_STR(node_state(book, "s", "lua:c:x"), "(none)"); /* undone */
    CHECK_EQ(node_run(book, "s", "ann", "lua invoke c g"), TX_FAILED);
    CHECK_CONTAINS(node_reason, "no function g");
    CHECK_EQ(node_run(book, "s", "ann", "lua invoke d g"), TX_FAILED);
    CHECK_STR(node_reason, "no contract d");
    CHECK_EQ(deploy(book, "bob", "c", "", 0), TX_FAILED);
    CHECK_STR(node_reason, "c is another's");
    CHECK_EQ(deploy(book, "bob", "d", "x = = 1", 7), TX_FAILED);
    CHECK_CONTAINS(node_reason, "contract:1:");
    CHECK_EQ(deploy(book, "bob", "d", "\x1bLuaT", 5), TX_FAILED); /* bytecode */
    CHECK_CONTAINS(node_reason, "attempt to load a binary chunk");
    CHECK_EQ(deploy(book, "bob", "D!", "", 0), TX_FAILED);
    ledger_close(book);
}

/* Nothing of the outside, nothing that differs from run to run. */
TEST(lua_sandboxed, "") {
    struct ledger *book = node_open(NULL);
    expect(
        book,
        "local r = {} for _, n in ipairs{'io','os','debug','package','require','load','loadfile','dofile','coroutine',"
        "'collectgarbage','next','print','xpcall','utf8','warn'} do if _G[n] ~= nil then r[#r + 1] = n end end return "
        "r",
        "[]");
    expect(book,
           "local r = {} for _, n in ipairs{'dump','match','gmatch','gsub','pack','unpack'} do"
           " if string[n] ~= nil or ('').x ~= nil then r[#r + 1] = n end end return r",
           "[]");
    expect(book, "return math.random == nil and math.randomseed == nil", "true");
    expect(book, "return tostring({}) .. tostring(f) .. string.format('%s %5.1f', {}, 1)",
           "\"tablefunctiontable   1.0\"");
    expect_failure(book, "return string.format('%p', {})", "invalid format");
    expect_failure(book, "setmetatable({}, {__gc = function() end})", "not allowed");
    expect_failure(book, "setmetatable({}, {__mode = 'k'})", "not allowed");
    expect(book, "return getmetatable('') or 'hidden'", "\"hidden\"");
    expect(book,
           "local t = {} for i = 1, 30 do t['k' .. i] = i end local s = '' for k in pairs(t) do s = s .. k end return "
           "#s, s",
           "81");
    expect(book,
           "local t = {b = 1, a = 2, [2] = 3, [1] = 4, [true] = 5} local s = '' for k, v in pairs(t) do s = s .. v end "
           "return s",
           "\"43215\"");
    expect_failure(book, "for k in pairs({[{}] = 1}) do end", "keys must be");
    expect(book,
           "local t = {5, 3, 9, 1} table.sort(t) table.insert(t, 1, 0) table.insert(t, 7) table.remove(t, 2) return t",
           "[0,3,5,9,7]");
    expect(book,
           "local t = {} for i = 1, 300 do t[i] = {i % 3, i} end table.sort(t, function(a, b) return a[1] < b[1] end)"
           " for i = 2, 300 do if t[i][1] == t[i-1][1] and t[i][2] < t[i-1][2] then return i end end return 'stable'",
           "\"stable\"");
    expect(book, "return {('abc'):find('c'), ('abc'):find('.') or false, ('x'):rep(3), #table.concat({1,2},'-')}",
           "[3,false,\"xxx\",3]");
    expect(book, "return {1, 2, 3}", "[1,2,3]");
    expect_failure(book, "local t = {1, 2, nil, 4, a = 1} return t",
                   "keys must be strings"); /* as many as its length */
    expect_failure(book, "return f", "must not hold a function");
    expect_failure(book, "local t = {} t.t = t return t", "nested too deep");
    ledger_close(book);
}

/* What garbage was collected, and when, must not be seen: the tables stay whole, though __mode comes later and memory is short. */
TEST(lua_not_weak, "") {
    struct ledger *book = node_open_with((struct ledger_config){.workers = 1, .lua_memory = 1 << 20});
    static const char *const modes[] = {"k", "v", "kv"};
    for (int i = 0; i < 3; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "local mt = {} local t = setmetatable({}, mt) mt['__' .. 'mode'] = '%s' local n = 0\n"
                 "for i = 1, 20 do t[{}] = {} t[i] = {} end\n"
                 "for i = 1, 20000 do local s = 'x' .. i local u = {s, {}} end\n" /* some MiB of garbage */
                 "for i = 1, 20 do if t[i] then n = n + 1 end end return {n, mt.__mode}",
                 modes[i]);
        char expected[32];
        snprintf(expected, sizeof expected, "[20,\"%s\"]", modes[i]);
        expect(book, body, expected);
    }
    expect_failure(book,
                   "return setmetatable({}, setmetatable({}, {__index = {}})) and setmetatable({}, {__mode = false})",
                   "not allowed");
    /* After memory was refused nothing goes on, also if there is some again. */
    expect_failure(book,
                   "local n = 0 while true do n = n + 1 pcall(function() local t = {} for i = 1, 1e6 do t[i] = i end "
                   "end) put('n', n) end",
                   "out of memory");
    expect_failure(book, "return pcall(table.unpack, {}, 1, 900000)", "out of memory");
    expect_failure(book, "local s = ('x'):rep(8000) return pcall(function() return s .. s end)", "out of memory");
    CHECK_EQ(node_gas, 10000000); /* all of it, whatever was used */
    ledger_close(book);
}

/* Nothing tells two tables, two calls or two moments apart. */
TEST(lua_no_addresses, "") {
    struct ledger *book = node_open(NULL);
    expect(book, "return tostring(setmetatable({}, {__name = 'x'})) .. tostring(print) .. tostring(string.rep)",
           "\"tablenilfunction\"");
    expect(book, "return string.format('%s %s', setmetatable({}, {__name = 'x'}), f)", "\"table function\"");
    expect(book, "return select(2, pcall(error, setmetatable({}, {__name = 'x'}))) ~= nil", "true");
    expect_failure(book, "local x = {} .. ''", "attempt to concatenate a table value");
    expect_failure(book, "return ({}) < ({})", "attempt to compare two table values");
    expect_failure(book, "return string.rep({}, 1)", "string expected, got table");
    expect_failure(book, "return string.format('%d', 'x')", "number expected, got string");
    expect_failure(book, "string.format('%5p', f)", "invalid format");
    expect(book, "return {pcall(string.format, '%a', 1.5)}", "[true,\"0x1.8p+0\"]");
    expect(book, "local s = 0 for k, v in pairs(_G) do if type(v) == 'function' then s = s + 1 end end return s > 10",
           "true");
    expect(book, "return {pcall(setmetatable, '', {})}",
           "[false,\"bad argument #1 to '?' (table expected, got string)\"]");
    expect(book, "return rawequal(getmetatable(''), false)", "true");
    ledger_close(book);
}

/* What never ends, ends; what wants all memory gets none; and pcall does not help. */
TEST(lua_bounded, "", .timeout = 120) {
    uint64_t limit = harness_is_slow() ? 200000 : 1000000;
    struct ledger *book =
        node_open_with((struct ledger_config){.workers = 1, .gas_limit = limit, .lua_memory = 1 << 20});
    static const char *const bombs[][2] = {
        {"while true do end", "out of gas"},
        {"while true do pcall(function() while true do end end) end", "out of gas"},
        {"local function g() pcall(g) g() end g()", ""},
        {"local function g() return g() end g()", "out of gas"},
        {"local function g() return 1 + g() end g()", ""},
        {"local s = 'x' while true do s = s .. s end", "out of memory"},
        {"while true do pcall(function() local s = 'x' while true do s = s .. s end end) end", "out of memory"},
        {"return ('x'):rep(1 << 40)", "at most"},
        {"return (''):rep(1 << 60)", "at most"},
        {"while true do pcall(string.rep, 'x', 1 << 40) end", "out of gas"},
        {"local t = {} while true do t[#t + 1] = {} end", "out of memory"},
        {"while true do local t = {} pcall(function() while true do t[#t + 1] = 1 end end) end", "out of memory"},
        {"local s = ('a'):rep(8000) while true do (s .. 'b'):find(s .. 'c') end", "out of gas"},
        {"local a, b = ('a'):rep(8000) .. 'b', ('a'):rep(8000) .. 'c' while true do local x = a == b or a < b end",
         "out of gas"},
        {"while true do put('k', ('v'):rep(8000)) end", "its trace has more than"},
        {"while true do get('k') end", ""},
        {"while true do emit('e', 'v') log('x') end", "out of gas"},
        {"local t = {} for i = 1, 3000 do t[i] = i end while true do table.unpack(t, 1, 3000) end", ""},
        {"local t = {} for i = 1, 3000 do t[i] = 'v' end while true do table.concat(t) end", "out of gas"},
        {"setmetatable(_G, {__index = function(t, k) return t[k] end}) return zz", ""},
        {"return string.format('%99.99f', 1e308)", ""},
        {"return table.concat(setmetatable({}, {__index = getmetatable, __metatable = ''}), '', 1, math.maxinteger)",
         "out of gas"},
        {"return table.concat(setmetatable({}, {__index = getmetatable, __metatable = '', __len = function() return 1 "
         "<< 62 end}))",
         "out of gas"},
        {"return table.concat({}, '', math.mininteger, math.maxinteger)", "out of gas"},
        {"local s = ('1'):rep(8000) while true do tonumber(s) end", "out of gas"},
        {"error({})", "an error that is no text"},
        {"error()", "an error that is no text"},
        {"put(('k'):rep(500), 1)", "too long"},
        {"put('k', ('v'):rep(8000)) while true do get('k') end", "its trace has more than"},
        {"while true do pcall(put, 'k', ('v'):rep(8000)) end", "out of gas"},
    };
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        enum tx_status status = run(book, bombs[i][0]);
        if (bombs[i][1][0]) {
            CHECK_EQ(status, TX_FAILED);
            if (!strstr(node_reason, bombs[i][1]))
                printf("%s\n", bombs[i][0]);
            CHECK_CONTAINS(node_reason, bombs[i][1]);
        }
        CHECK_LE(node_gas, limit);
    }
    CHECK_EQ(node_run(book, "s", "ann", "kv noop"), TX_OK); /* the node is well */
    ledger_close(book);
}

/* Blocks end when they have used much gas; what is left is in the next ones. */
TEST(lua_short_blocks, "") {
    static const char loop[] = "function f() while true do end end";
    struct ledger *book =
        node_open_with((struct ledger_config){.workers = 1, .gas_limit = 10000, .block_gas = 20000, .max_batch = 100});
    hash32 ids[20];
    REQUIRE_EQ(deploy(book, "ann", "c", loop, sizeof loop - 1), TX_OK);
    for (unsigned i = 0; i < 20; i++)
        REQUIRE_EQ(node_try(book, "s", "ann", 2 + i, "lua invoke c f", &ids[i]), 0);
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQ(node_wait(book, "s", &ids[i]), TX_FAILED);
    CHECK_GE(node_height(book, "s"), 11); /* two a block at most */
    CHECK_EQ(ledger_nonce(book, "s", "ann"), 21);
    ledger_close(book);
}

/* What takes long for little gas; pcall does not help. */
TEST(lua_out_of_time, "") {
    static const char *const slow[] = {
        "while true do pcall(function() while true do end end) end",
        "local t = {} for i = 1, 1900 do t = setmetatable({}, {__index = t}) end while true do local x = t.x end",
        "local z = ('\\0'):rep(8000) local a, b = z .. 'a', z .. 'b' while true do local x = a < b end",
        "local t = {} for i = 1, 10000 do t[i] = 1 end for i = 1, 10000 do t[i] = nil end while true do pairs(t) end",
    };
    struct ledger *book =
        node_open_with((struct ledger_config){.workers = 1, .gas_limit = UINT64_MAX / 4, .lua_time = 50000000});
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        expect_failure(book, slow[i], "out of time");
    CHECK_EQ(node_run(book, "s", "ann", "kv noop"), TX_OK);
    ledger_close(book);
}

static bool is_tsan(void) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

static int64_t cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Work inside one instruction or one C function is interrupted, at most 50 ms of CPU time after the limit. */
TEST(lua_out_of_time_inside, "", .timeout = 120) {
    if (is_tsan())
        SKIP("ThreadSanitizer delays signals until a call of the C library");
    static const char chain[] = "local m = {__metatable = ''} m.__index = getmetatable local t = setmetatable({}, m)"
                                " for i = 1, 1900 do local u = {} u.__index = t setmetatable(u, u) t = u end ";
    static const char *const slow[] = {
        "local m = {} local t = setmetatable({}, m) m.__call = t t()",
        "local t = function() end for i = 1, 20000 do local u = {} u.__call = t setmetatable(u, u) t = u end"
        " while true do t() end",
        "table.concat(chained(), '', 1, 5000000)",
        "while true do table.unpack(chained(), 1, 100000) end",
        "local t = {} for i = 1, 60000 do t['k' .. i] = 1 end for i = 1, 60000 do t['k' .. i] = nil end"
        " local r = {} for i = 1, 20000 do r[i] = t end return r",
        "local t = {} for i = 1, 1000 do t[i + 0.5] = 1 end while true do pairs(t) end",
        "local s = '0.' .. ('123456789'):rep(900) local x while true do x = s + s + s + s + s + s + s + s end",
    };
    struct ledger *book =
        node_open_with((struct ledger_config){.workers = 1, .gas_limit = UINT64_MAX / 4, .lua_time = 100000000});
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        char source[4096];
        snprintf(source, sizeof source, "function chained() %s return t end function f() %s end", chain, slow[i]);
        REQUIRE_EQ(deploy(book, "ann", "c", source, strlen(source)), TX_OK);
        int64_t before = cpu_ms();
        CHECK_EQ(node_run(book, "s", "ann", "lua invoke c f"), TX_FAILED);
        if (strcmp(node_reason, "out of time"))
            printf("%s\n", slow[i]);
        CHECK_STR(node_reason, "out of time");
        CHECK_LT(cpu_ms() - before, harness_is_slow() ? 1000 : 100 + 50 + 30); /* 30: for what is around it */
    }
    CHECK_EQ(node_run(book, "s", "ann", "kv noop"), TX_OK);
    ledger_close(book);
}

/* A node that ends does not wait for a contract, whatever it is in the middle of. */
TEST(lua_given_up_inside, "") {
    if (is_tsan())
        SKIP("ThreadSanitizer delays signals until a call of the C library");
    static const char source[] = "function f() local m = {} local t = setmetatable({}, m) m.__call = t t() end";
    struct ledger *book =
        node_open_with((struct ledger_config){.workers = 1, .gas_limit = UINT64_MAX / 4, .lua_time = INT64_MAX});
    hash32 id;
    REQUIRE_EQ(deploy(book, "ann", "c", source, sizeof source - 1), TX_OK);
    REQUIRE_EQ(node_try(book, "s", "ann", 2, "lua invoke c f", &id), 0);
    int64_t before = cpu_ms();
    CHECK(!ledger_drain(book, 1));
    CHECK_EQ(node_wait(book, "s", &id), TX_REFUSED);
    CHECK_LT(cpu_ms() - before, 2000); /* it would take half a minute */
    ledger_close(book);
}

/* Compiling is paid for by what it may take, not by the source's size alone, and the same whether the chunk is in the cache or not. */
TEST(lua_compiling_is_paid, "") {
    struct ledger *book = node_open(NULL);
    static const char before[] = "function f() end local function u() local x=a";
    static char source[60000];
    size_t size = sizeof before - 1;
    memcpy(source, before, size);
    while (size < sizeof source - 20)
        memcpy(source + size, " and a", 6), size += 6;
    memcpy(source + size, " end", 4), size += 4;
    CHECK_EQ(deploy(book, "ann", "c", source, size), TX_FAILED);
    CHECK_STR(node_reason, "out of gas");
    size = sizeof before - 1; /* a tenth of it */
    while (size < sizeof source / 10)
        memcpy(source + size, " and a", 6), size += 6;
    memcpy(source + size, " end", 4), size += 4;
    CHECK_EQ(deploy(book, "ann", "c", source, size), TX_OK);
    CHECK_GT(node_gas, 100000);
    CHECK_EQ(node_run(book, "s", "ann", "lua invoke c f"), TX_OK);
    uint64_t gas = node_gas;
    CHECK_GT(gas, 100000);
    for (int i = 0; i < 300; i++) { /* more than the cache holds */
        char other[64];
        snprintf(other, sizeof other, "x = %d", i);
        REQUIRE_EQ(deploy(book, "ann", "other", other, strlen(other)), TX_OK);
    }
    CHECK_EQ(node_run(book, "s", "ann", "lua invoke c f"), TX_OK);
    CHECK_EQ(node_gas, gas);
    ledger_close(book);
}

/* What would run for years ends when the time to drain is over, and nobody was told that it was done. */
TEST(lua_given_up, "") {
    static const char loop[] = "function f() while true do pcall(function() while true do end end) end end";
    struct ledger *book =
        node_open_with((struct ledger_config){.workers = 1, .gas_limit = UINT64_MAX / 4, .lua_time = INT64_MAX});
    hash32 id;
    REQUIRE_EQ(deploy(book, "ann", "c", loop, sizeof loop - 1), TX_OK);
    REQUIRE_EQ(node_try(book, "s", "ann", 2, "lua invoke c f", &id), 0);
    uint64_t used, next;
    CHECK_EQ(ledger_nonces(book, "s", "ann", &used, &next), 0); /* it waits, or runs */
    CHECK_EQ(used, 1);
    CHECK_EQ(next, 3);
    CHECK_EQ(ledger_nonces(book, "s", "bob", &used, &next), 0);
    CHECK_EQ(next, 1);
    CHECK_EQ(ledger_nonces(book, "none", "bob", &used, &next), -ENOENT);
    CHECK(!ledger_drain(book, 1));
    CHECK_EQ(node_wait(book, "s", &id), TX_REFUSED);
    CHECK_EQ(node_height(book, "s"), 1);
    ledger_close(book);
}

/* Equal transactions on two nodes: equal gas, equal output. */
TEST(lua_deterministic, "") {
    uint64_t gas = 0;
    char output[4096] = "";
    for (int i = 0; i < 5; i++) {
        struct ledger *book = node_open(NULL);
        expect(book,
               "local t = {} for i = 1, 200 do t['key' .. i] = {} end for i = 1, 200, 3 do t['key' .. i] = nil end"
               " for i = 1, 90 do t['new' .. i] = i end local s = {} for k in pairs(t) do s[#s + 1] = k end"
               " return table.concat(s):sub(1, 200)",
               i ? output : node_output);
        if (i)
            CHECK_EQ(node_gas, gas);
        gas = node_gas;
        strcpy(output, node_output);
        ledger_close(book);
    }
}
