"""context_cases - the block context: from the clock, a file, an upstream node; the last good one stays.  proves K27"""
import http.server
import json
import os
import tempfile
import threading

from harness import Node, claim, equal, eventually, group


def context(n):
    return n.result("node_info")["context"]


@group
def wall():
    with Node("--context-every", "20ms") as n:
        first = eventually(lambda: context(n)["updates"] and context(n))
        claim("it goes on", eventually(lambda: context(n)["number"] > first["number"] and context(n)["updates"] > first["updates"]), context(n))
        receipt = n.submit("a", "set", "k", "v")
        claim("blocks see it", n.result("block_get", shard="a", number=receipt["block"])["env"]["timestamp"] > 1600000000, "")


@group
def file():
    with tempfile.TemporaryDirectory(prefix="weft-context-") as where:
        path = os.path.join(where, "context.json")

        def write(text):
            with open(path + ".new", "w") as f:
                f.write(text)
            os.rename(path + ".new", path)

        write(json.dumps({"number": 7, "timestamp": 1000, "gas_price": 3, "blob_gas_price": 4, "sequencer": "0xabcd"}))
        with Node("--context", "file:" + path, "--context-every", "10ms") as n:
            found = eventually(lambda: context(n)["number"] == 7 and context(n))
            claim("read", found and (found["gas_price"], found["blob_gas_price"], found["timestamp"]) == (3, 4, 1000) and found["sequencer"].endswith("00abcd"), found)
            for text in ["", "nonsense", "[]", '{"number": 8}', '{"number": -1, "timestamp": 1}', '{"number": "8", "timestamp": 1}', '{"number": 8, "timestamp": 1, "sequencer": "xyz"}',
                         '{"number": 8, "timestamp": 1, "sequencer": "' + "00" * 33 + '"}', '{"number": "0x", "timestamp": 1}', '{"number":' * 5000, '{"number": "0x11112222333344445", "timestamp": 1}']:
                before = context(n)["failures"]
                write(text)
                claim(f"refused: {text[:50]}", eventually(lambda: context(n)["failures"] > before + 1), context(n))
                equal(f"the last good one stays: {text[:50]}", context(n)["number"], 7)
            os.unlink(path)
            before = context(n)["failures"]
            claim("gone", eventually(lambda: context(n)["failures"] > before + 1 and "No such file" in context(n)["last_failure"]), context(n))
            equal("it stays", context(n)["number"], 7)
            write('{"number": 9, "timestamp": 1001}')
            claim("again", eventually(lambda: context(n)["number"] == 9), context(n))
            claim("said once", n.words().count("block context") == 1, n.words())


@group
def upstream():
    answers = {"status": 200, "body": ""}
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            body = answers["body"].encode()
            self.send_response(answers["status"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    block = {"number": "0x10", "timestamp": "0x65000000", "baseFeePerGas": "0x7", "miner": "0x" + "ab" * 20}
    answers["body"] = json.dumps({"jsonrpc": "2.0", "id": 1, "result": block})
    with Node("--context", f"http://localhost:{server.server_port}/v1", "--context-every", "20ms") as n:
        found = eventually(lambda: context(n)["number"] == 16 and context(n))
        claim("asked", found and found["gas_price"] == 7 and found["timestamp"] == 0x65000000 and found["sequencer"].endswith("ab" * 20), found)
        claim("as it should", asked[0][0] == "/v1" and asked[0][1]["method"] == "eth_getBlockByNumber", asked[:1])
        for name, status, body in [("an error", 200, '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}'), ("nothing", 200, ""), ("null", 200, '{"result":null}'),
                                   ("status 500", 500, answers["body"]), ("too much", 200, "x" * 300000)]:
            before = context(n)["failures"]
            answers.update(status=status, body=body)
            claim(f"{name} is a failure", eventually(lambda: context(n)["failures"] > before + 1), context(n))
            equal(f"{name}: the last good one stays", context(n)["number"], 16)
        server.shutdown()
        server.server_close()
        before = context(n)["failures"]
        claim("no upstream", eventually(lambda: context(n)["failures"] > before), context(n))
        equal("it answers all the same", n.submit("a", "set", "k", "v")["status"], "ok")
