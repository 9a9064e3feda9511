"""rpc_cases - JSON-RPC 2.0 to the letter, and the methods."""
import json
import re
import urllib.request

from harness import Node, claim, equal, eventually, group, node


def code(answer):
    return answer.get("error", {}).get("code") if isinstance(answer, dict) else answer


@group
def envelope():
    good = {"jsonrpc": "2.0", "id": 1, "method": "node_info"}
    cases = [
        (good, None, 1), ({**good, "params": {}}, None, 1), ({**good, "params": []}, None, 1), ({**good, "id": "x"}, None, "x"),
        ({**good, "id": None}, None, None), ({**good, "more": 1}, None, 1), ({**good, "id": ""}, None, ""),
        ({}, -32600, None), ({**good, "jsonrpc": "1.0"}, -32600, 1), ({**good, "jsonrpc": 2.0}, -32600, 1), ({**good, "jsonrpc": "2.0 "}, -32600, 1),
        ({**good, "jsonrpc": None}, -32600, 1), ({"id": 1, "method": "node_info"}, -32600, 1), ({**good, "jsonrpc": "2.0\0"}, -32600, 1),
        ({"jsonrpc": "2.0", "id": 1}, -32600, 1), ({**good, "method": 1}, -32600, 1), ({**good, "method": None}, -32600, 1), ({**good, "method": ["a"]}, -32600, 1),
        ({**good, "params": 1}, -32600, 1), ({**good, "params": "a"}, -32600, 1), ({**good, "params": None}, -32600, 1), ({**good, "params": True}, -32600, 1),
        ({**good, "id": True}, -32600, None), ({**good, "id": []}, -32600, None), ({**good, "id": {}}, -32600, None), ({**good, "id": False}, -32600, None),
        ({**good, "method": ""}, -32601, 1), ({**good, "method": "no_such"}, -32601, 1), ({**good, "method": "node_info\0"}, -32601, 1),
        ({**good, "method": "NODE_INFO"}, -32601, 1), ({**good, "method": "rpc.discover"}, -32601, 1),
        ({**good, "params": {"x": 1}}, -32602, 1), ({**good, "params": [1]}, -32602, 1), (1, -32600, None), ("a", -32600, None), (None, -32600, None), (True, -32600, None),
    ]
    for request, expected, id in cases:
        answer = node().raw(json.dumps(request))
        equal(f"code of {request}", code(answer), expected)
        equal(f"id of {request}", answer.get("id", "none"), id)
        equal(f"version of {request}", answer.get("jsonrpc"), "2.0")
        claim(f"result or error of {request}", ("result" in answer) != ("error" in answer), answer)


@group
def long_ids():
    """An id is only repeated, so any number will do; elsewhere an integer has 64 bits."""
    text = '{"jsonrpc":"2.0","id":%s,"method":"%s"}'
    for id in (str(2**63), str(-2**63 - 1), str(2**64), "9" * 30, "-" + "9" * 1000, "1e400", "-1E+999"):
        for method, expected in (("node_info", None), ("no_such", -32601)):
            body = node().post(text % (id, method))[2]
            claim(f"id {id[:40]} of {method}", body.startswith('{"jsonrpc":"2.0","id":%s,' % id), body[:200])
            equal(f"code of id {id[:40]}", code(json.loads(body)), expected)
        body = node().post("[%s,%s]" % (text % (id, "node_info"), text % (1, "node_info")))[2]
        claim(f"id {id[:40]} in a batch", body.startswith('[{"jsonrpc":"2.0","id":%s,' % id), body[:200])
    for id in (str(2**63 - 1), str(-2**63)):
        equal(f"id {id}", node().raw(text % (id, "node_info"))["id"], int(id))
    for request in ('{"jsonrpc":"2.0","id":1,"method":"state_get","params":{"id":%s}}', '{"jsonrpc":"2.0","id":[%s],"method":"node_info"}',
                    '[[{"id":%s}]]', '{"jsonrpc":"2.0","id":{"id":%s},"method":"node_info"}', "%s"):
        equal(f"{request} elsewhere", code(node().raw(request % 2**64)), -32700)
    equal("malformed", code(node().raw(text % ("01", "node_info"))), -32700)


def measured(n):
    with urllib.request.urlopen(n.url + "/metrics") as answer:
        return int(re.search(r"^weft_tx_latency_seconds_count (\d+)$", answer.read().decode(), re.M)[1])


@group
def latency():
    """Every transaction is measured, also when its block is there before the submission returns."""
    with Node() as n:
        for i in range(60):
            n.submit(f"measured-{i % 20}", "noop", nonce=i // 20 + 1)
        equal("all are measured", eventually(lambda: measured(n) == 60 and 60) or measured(n), 60)


@group
def batches():
    one = {"jsonrpc": "2.0", "id": 1, "method": "node_info"}
    equal("empty batch", code(node().raw([])), -32600)
    equal("100 requests", [a["id"] for a in node().raw([{**one, "id": i} for i in range(100)])], list(range(100)))
    equal("101 requests", code(node().raw([one] * 101)), -32600)
    equal("10,000 requests", code(node().raw([one] * 10000)), -32600)
    equal("nonsense in a batch", [code(a) for a in node().raw([1, {}, [], "a", one])], [-32600] * 4 + [None])
    mixed = node().raw([{**one, "id": "a"}, {"jsonrpc": "2.0", "method": "node_info"}, {**one, "id": "b", "method": "x"}])
    equal("notification in a batch", [(a["id"], code(a)) for a in mixed], [("a", None), ("b", -32601)])
    status, _, body = node().post(json.dumps([{"jsonrpc": "2.0", "method": "node_info"}] * 3))
    equal("only notifications", (status, body), (204, ""))
    equal("a batch in a batch", [code(a) for a in node().raw([[one]])], [-32600])


@group
def notifications():
    for request in [{"jsonrpc": "2.0", "method": "node_info"}, {"jsonrpc": "2.0", "method": "no_such"},
                    {"jsonrpc": "2.0", "method": "shard_status", "params": {"shard": 5}}]:
        status, fields, body = node().post(json.dumps(request))
        equal(f"notification {request['method']}", (status, body, fields.get("content-length")), (204, "", None))
    node().post(json.dumps({"jsonrpc": "2.0", "method": "tx_submit",
                            "params": {"shard": "noted", "tx": {"method": "set", "sender": "n", "nonce": 1, "args": ["k", "v"]}}}))
    equal("it is carried out", eventually(lambda: code(node().call("state_get", shard="noted", key="k")) is None and
                                          node().result("state_get", shard="noted", key="k")), "v")


@group
def parameters():
    node().submit("params", "set", "k", "v")
    cases = [
        ("shard_status", {}, "'shard' is missing"), ("shard_status", {"shard": 1}, "must be a string"), ("shard_status", {"shard": None}, "missing"),
        ("shard_status", {"shard": ""}, "name"), ("shard_status", {"shard": "x" * 64}, "name"), ("shard_status", {"shard": "a\nb"}, "name"),
        ("shard_status", {"shard": "a\0b"}, "name"), ("shard_status", {"shard": "none"}, "Shard not found"), ("shard_status", {"shard": "params", "x": 1}, "no parameter 'x'"),
        ("tx_status", {"shard": "none", "tx": "0" * 64}, "Shard not found"), ("tx_status", {"shard": "params", "tx": "0"}, "64 digits"),
        ("tx_status", {"shard": "params", "tx": "g" * 64}, "64 digits"), ("tx_status", {"shard": "params"}, "'tx' is missing"),
        ("tx_status", {"shard": "params", "tx": "0" * 64 + "\0"}, "64 digits"), ("nonce_get", {"shard": "params", "sender": "me\0x"}, "zero byte"),
        ("shard_list", {"prefix": "p\0x"}, "zero byte"), ("shard_list", {"after": "p\0x"}, "zero byte"),
        ("receipt_get", {"shard": "none", "tx": "0" * 64}, "Shard not found"), ("block_get", {"shard": "none"}, "Shard not found"),
        ("block_get", {"shard": "params", "number": -1}, "integer"), ("block_get", {"shard": "params", "number": 1.5}, "integer"),
        ("block_get", {"shard": "params", "number": "1"}, "integer"), ("state_get", {"shard": "none", "key": "k"}, "Shard not found"),
        ("state_get", {"shard": "params"}, "'key' is missing"), ("state_get", {"shard": "params", "key": []}, "'key' must be"),
        ("state_get", {"shard": "params", "key": {"hex": "0"}}, "half a byte"), ("state_get", {"shard": "params", "key": {"hex": "zz"}}, "hex"),
        ("trace_get", {"shard": "none", "tx": "0" * 64}, "Shard not found"), ("nonce_get", {"shard": "none", "sender": "a"}, "Shard not found"),
        ("shard_list", {"limit": 0}, "'limit'"), ("shard_list", {"limit": 1001}, "'limit'"), ("shard_list", {"prefix": 1}, "string"),
        ("events_subscribe", {"shard": "a\u0001"}, "name"),
        ("tx_submit", {}, "missing"), ("tx_submit", {"shard": "p"}, "either 'tx' or 'txs'"), ("tx_submit", {"shard": "p", "tx": {}, "txs": []}, "either"),
        ("tx_submit", {"shard": "p", "txs": []}, "1 to 4096"), ("tx_submit", {"shard": "p", "txs": [1]}, "object"), ("tx_submit", {"shard": "p", "tx": []}, "object"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set"}}, "sender"), ("tx_submit", {"shard": "", "tx": {}}, "name"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a", "nonce": 0}}, "nonce"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a", "nonce": -1}}, "'nonce'"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a", "nonce": 1, "args": "x"}}, "'args' must be an array"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a", "nonce": 1, "args": [None]}}, "argument 0"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a", "nonce": 1, "args": ["x"] * 17}}, "16 arguments"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a", "nonce": 1, "arg": []}}, "'arg'"),
        ("tx_submit", {"shard": "p", "tx": {"method": "SET", "sender": "a", "nonce": 1}}, "method"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "a\u0007", "nonce": 1}}, "sender"),
        ("tx_submit", {"shard": "p", "tx": {"method": "set", "sender": "", "nonce": 1}}, "sender"),
        ("tx_submit", {"shard": "p", "wait_ms": 30001, "tx": {"method": "set", "sender": "a", "nonce": 1}}, "wait_ms"),
    ]
    for method, params, words in cases:
        error = node().call(method, **params).get("error", {})
        claim(f"{method} {params}", error.get("code") == -32602 and words in error.get("message", ""), error)
    equal("by position", node().raw({"jsonrpc": "2.0", "id": 1, "method": "state_get", "params": ["params", "k"]})["result"], "v")
    claim("a read makes no shard", code(node().call("shard_status", shard="none")) == -32602, "")
    equal("all or nothing", code(node().call("shard_status", shard="p")), -32602)


@group
def methods():
    with Node() as n:
        info = n.result("node_info")
        claim("node_info", info["version"] and info["limits"]["depth"] == 64 and info["context"]["updates"] >= 0 and not info["token_needed"], info)
        receipt = n.submit("a", "set", "k", "v")
        claim("receipt", receipt["status"] == "ok" and receipt["block"] == 1 and receipt["index"] == 0, receipt)
        equal("receipt_get", n.result("receipt_get", shard="a", tx=receipt["tx"]), receipt)
        equal("tx_status", n.result("tx_status", shard="a", tx=receipt["tx"]), {"status": "ok"})
        equal("unknown tx_status", n.result("tx_status", shard="a", tx="0" * 64), {"status": "unknown"})
        equal("unknown receipt", n.result("receipt_get", shard="a", tx="0" * 64), None)
        equal("unknown trace", n.result("trace_get", shard="a", tx="0" * 64), None)
        equal("unknown key", n.result("state_get", shard="a", key="none"), None)
        equal("unknown block", n.result("block_get", shard="a", number=99), None)
        equal("no block is 0", n.result("block_get", shard="a", number=0), None)
        block = n.result("block_get", shard="a", number=1)
        claim("block_get", block["number"] == 1 and block["txs"] == [receipt["tx"]] and len(block["hash"]) == 64, block)
        equal("nonce", n.result("nonce_get", shard="a", sender="me"), {"nonce": 1, "next": 2})
        equal("nonce of nobody", n.result("nonce_get", shard="a", sender="nobody"), {"nonce": 0, "next": 1})
        for bad in (0, 2, 7):
            answer = n.call("tx_submit", shard="new", tx={"method": "noop", "sender": "me", "nonce": bad})
            claim(f"a shard's first nonce {bad}", code(answer) in (-32602, -32002), answer)
        two = [{"method": "noop", "sender": "me", "nonce": i} for i in (1, 1)]
        claim("a nonce twice", code(n.call("tx_submit", shard="new", txs=two)) == -32002, two)
        equal("what was refused made no shard", code(n.call("shard_status", shard="new")), -32602)
        second = n.submit("a", "add", "n", 5, nonce=2)
        equal("add", (second["status"], n.result("state_get", shard="a", key="n")), ("ok", "5"))
        equal("parent", n.result("block_get", shard="a")["parent"], block["hash"])
        trace = n.result("trace_get", shard="a", tx=second["tx"])
        claim("trace", any(s["kind"] == "put" and s["key"] == "n" and s["value"] == "5" for s in trace), trace)
        bad = n.submit("a", "transfer", "bob", "7", nonce=3)
        claim("a failure has a reason", bad["status"] == "failed" and bad["reason"], bad)
        equal("replay", code(n.call("tx_submit", shard="a", tx={"method": "add", "sender": "me", "nonce": 2, "args": ["n", "1"]})), -32002)
        binary = n.submit("a", "set", {"hex": "00ff"}, {"hex": "fe00"}, nonce=4)
        equal("binary", (binary["status"], n.result("state_get", shard="a", key={"hex": "00ff"})), ("ok", {"hex": "fe00"}))
        empty = n.submit("a", "set", {"hex": ""}, "", nonce=5)
        claim("an empty key", n.result("state_get", shard="a", key="") == n.result("state_get", shard="a", key={"hex": ""}), empty)
        many = n.result("tx_submit", shard="b", txs=[{"method": "add", "sender": "m", "nonce": i + 1, "args": ["n", 1]} for i in range(500)])["txs"]
        claim("a batch", len(set(many)) == 500, len(many))
        equal("all of it", eventually(lambda: n.result("state_get", shard="b", key="n") == "500" or None), True)
        names = [s["shard"] for s in n.result("shard_list")["shards"]]
        equal("shard_list", names, ["a", "b"])
        equal("shard_list behind", [s["shard"] for s in n.result("shard_list", after="a")["shards"]], ["b"])
        equal("shard_list prefix", [s["shard"] for s in n.result("shard_list", prefix="a", limit=1)["shards"]], ["a"])
        listed = n.result("shard_list", limit=1)
        equal("shard_list limit", (len(listed["shards"]), listed["more"], listed["total"]), (1, True, 2))
        equal("shard_status", n.result("shard_status", shard="a")["block"], 5)
        equal("events_subscribe", n.result("events_subscribe", shard="a b")["url"], "/events?shard=a%20b")
        metrics = eventually(lambda: n.result("node_metrics")["ok"] >= 503 and n.result("node_metrics"))
        claim("node_metrics", metrics["ok"] >= 503 and metrics["failed"] == 2 and metrics["requests"]["shard_list"] >= 4, metrics)


@group
def pool_bytes():
    with Node("--max-pool-bytes", "2M", "--shard-workers", 1) as n:
        spin = "function f() while true do end end"
        n.call("tx_submit", shard="a", wait_ms=5000, tx={"executor": "lua", "method": "deploy", "sender": "m", "nonce": 1, "args": ["c", spin]})
        txs = [{"executor": "lua", "method": "invoke", "sender": "m", "nonce": i + 2, "args": ["c", "f"]} for i in range(40)]  # seconds of work
        n.call("tx_submit", shard="a", txs=txs)
        taken, answer = 0, None
        for i in range(10):
            txs = [{"method": "set", "sender": f"s{i}", "nonce": k + 1, "args": [f"k{k}", "x" * 60000]} for k in range(12)]
            answer = n.call("tx_submit", shard="a", txs=txs)
            if "error" in answer:
                break
            taken += 12
        claim("a pool is bounded by bytes", taken <= 36 and code(answer) == -32000, (taken, answer))


@group
def refused_and_restarted():
    with Node(memory=False) as n:
        n.call("tx_submit", shard="a", wait_ms=5000, tx={"method": "add", "sender": "m", "nonce": 1, "args": ["n", 1]})
        answer = n.call("shard_restart", shard="a")
        equal("a shard that runs is left alone", answer["result"]["shard"], "a")
        equal("no such shard", code(n.call("shard_restart", shard="none")), -32602)


@group
def pool_full():
    with Node("--max-pool", 10) as n:
        txs = [{"method": "add", "sender": "m", "nonce": i + 1, "args": ["n", 1]} for i in range(11)]
        answer = n.call("tx_submit", shard="a", txs=txs)
        claim("more than a pool holds", code(answer) in (-32000, -32602), answer)
        full = None
        for i in range(2000):  # faster than it can be emptied, sooner or later
            batch = [{"method": "add", "sender": f"s{i}", "nonce": k + 1, "args": ["n", 1]} for k in range(10)]
            requests = [{"jsonrpc": "2.0", "id": j, "method": "tx_submit", "params": {"shard": "a", "txs": [dict(t, sender=f"s{i}.{j}") for t in batch]}} for j in range(50)]
            full = next((a["error"] for a in n.raw(requests) if "error" in a), None)
            if full:
                break
        claim("pool full", full and full["code"] == -32000 and full["data"]["retry_after_ms"] > 0 and "try again" in full["message"], full)
