"""tx_cases - `weft tx`."""
import json
import os
import subprocess
import tempfile

import harness
from auth_cases import token_file
from harness import Node, claim, equal, group, weft


@group
def commands():
    with Node() as n, tempfile.TemporaryDirectory(prefix="weft-tx-") as where:
        tx = lambda *words: weft("tx", "--node", n.url, *words)
        status, text, errors = tx("submit", "demo", "set", "greeting", "hello")
        receipt = json.loads(text)
        equal("submit", (status, receipt["status"], errors), (0, "ok", ""))
        equal("state", tx("state", "demo", "greeting")[:2], (0, '"hello"\n'))
        equal("status", json.loads(tx("status", "demo", receipt["tx"])[1]), {"status": "ok"})
        equal("receipt", json.loads(tx("receipt", "demo", receipt["tx"])[1])["block"], 1)
        claim("trace", json.loads(tx("trace", "demo", receipt["tx"])[1]), "")
        equal("block", json.loads(tx("block", "demo", 1)[1])["number"], 1)
        equal("the last block", json.loads(tx("block", "demo")[1])["number"], 1)
        equal("nonce", json.loads(tx("nonce", "demo", "cli")[1]), {"nonce": 1, "next": 2})
        equal("the next nonce is found", json.loads(tx("submit", "demo", "add", "n", "2")[1])["status"], "ok")
        status, _, errors = tx("submit", "demo", "transfer", "bob", "5")
        claim("a failed one", status == 1 and "failed" in errors, (status, errors))
        status, _, errors = tx("submit", "demo", "add", "n", "2", "--nonce", "1")
        claim("a replay", status == 1 and "-32002" in errors, (status, errors))
        status, text, _ = tx("submit", "demo", "add", "n", "2", "--no-wait")
        claim("without waiting", status == 0 and len(json.loads(text)) == 64, text)
        equal("shards", json.loads(tx("shards")[1])["total"], 1)
        equal("shard", json.loads(tx("shard", "demo")[1])["shard"], "demo")
        claim("info", json.loads(tx("info")[1])["version"], "")
        claim("metrics", json.loads(tx("metrics")[1])["ok"] >= 2, "")
        claim("call", json.loads(tx("call", "shard_status", '{"shard":"demo"}')[1])["block"] >= 2, "")
        status, _, errors = tx("shard", "none")
        claim("an error of the node", status == 1 and "Shard not found" in errors, (status, errors))
        tx("submit", "demo", "add", "less", "-5")
        equal("a number below zero is no option", tx("state", "demo", "less")[1], '"-5"\n')
        path = os.path.join(where, "txs.json")
        with open(path, "w") as file:
            json.dump([{"method": "add", "sender": "f", "nonce": i + 1, "args": ["m", i]} for i in range(5)], file)
        status, text, _ = tx("submit", "demo", "--file", path)
        equal("from a file", (status, len(text.splitlines())), (0, 5))
        for wrong, words in (('[\n  {"method": "add"},\n  {"method" "add"}\n]', "line 3, column 13: expected :"), ("", "line 1, column 1: it ends too early"),
                             ('[1, 2', "line 1, column 6: expected , or ]"), ("[]]", "line 1, column 3: something behind its end"),
                             ('{"method": "add"}', "not an array of transactions"), ('[], "shard": "other", "txs": []', "line 1, column 3: something behind its end")):
            with open(path, "w") as file:
                file.write(wrong)
            status, text, errors = tx("submit", "demo", "--file", path)
            equal(f"the file {wrong!r}", (status, text, errors), (1, "", f"weft tx: {path}: {words}\n"))
            done = subprocess.run([harness.WEFT, "tx", "-n", n.url, "submit", "demo", "-f", "-"], input=wrong, capture_output=True, text=True, timeout=30)
            equal(f"{wrong!r} from standard input", (done.returncode, done.stderr), (1, f"weft tx: standard input: {words}\n"))
        with open(path, "wb") as file:
            file.write(b"\x00\xffbytes")
        equal("an argument from a file", tx("submit", "demo", "set", "blob", "@" + path)[0], 0)
        equal("it is what it was", json.loads(tx("state", "demo", "blob")[1]), {"hex": "00ff6279746573"})
        equal("an @ of its own", tx("submit", "demo", "set", "at", "@@home")[0], 0)
        equal("it is one", tx("state", "demo", "at")[1], '"@home"\n')
        tx("submit", "demo", "set", "evil", "\x1b[2J\x7f\u009b1m")
        shown = tx("state", "demo", "evil")[1]
        equal("nothing that a terminal obeys is printed", (json.loads(shown), shown.strip().isprintable()), ("\x1b[2J\x7f\u009b1m", True))
        status, _, errors = tx("submit", "demo", "set", "k", "@/nonexistent")
        claim("a file that is not there", status == 1 and "/nonexistent" in errors, (status, errors))
        status, text, errors = weft("tx", "load", "--node", n.url, "--count", 2000, "--shards", 4, "--batch", 50, "--connections", 4)
        figures = json.loads(text) if text else {}
        claim("load", status == 0 and figures["txs"] == 2000 and figures["failed"] == 0, (status, text, errors))
        for count in (10, 150):
            status, text, errors = weft("tx", "load", "--node", n.url, "--count", count, "--shards", 4, "--batch", 100, "--connections", 3)
            claim(f"load of {count}", status == 0 and json.loads(text)["txs"] == count, (status, text, errors))
    status, _, errors = weft("tx", "info", "--node", n.url)
    status, _, errors2 = weft("tx", "info", "--node", "http://no-such-name.invalid:1")
    claim("no such name", status == 1 and "no-such-name.invalid" in errors2, (status, errors2))
    claim("no node there", status == 1 and "nobody listens" in errors, (status, errors))


@group
def with_token():
    path = token_file()
    with Node("--token-file", path) as n:
        status, _, errors = weft("tx", "--node", n.url, "submit", "a", "set", "k", "v")
        claim("without the token", status == 1 and "-32001" in errors, (status, errors))
        equal("with it", weft("tx", "--node", n.url, "--token-file", path, "submit", "a", "set", "k", "v")[0], 0)
        other = token_file("another-token-of-some-length")
        status, _, errors = weft("tx", "--node", n.url, "--token-file", other, "submit", "a", "set", "k", "v")
        claim("with another", status == 1 and "401" in errors, (status, errors))
        os.chmod(other, 0o644)
        status, _, errors = weft("tx", "--node", n.url, "--token-file", other, "info")
        claim("one that others can read", status == 1 and "chmod 600" in errors, (status, errors))
        os.unlink(other)
    os.unlink(path)
