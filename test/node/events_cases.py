"""events_cases - server-sent events: blocks, failures and figures, for all shards or one; many onlookers; those that do not read."""
import json
import socket
import threading
import time

from harness import Connection, Node, claim, equal, eventually, get, group


class Events:
    def __init__(self, port, path="/events", **headers):
        self.c = Connection(port)
        head = "".join(f"{n.replace('_', '-')}: {v}\r\n" for n, v in headers.items())
        self.c.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n")
        self.status, self.fields = self.c.head()
        self.text = ""

    def next(self, *kinds):
        """The next event of these kinds: (id, kind, data)."""
        while True:
            while "\n\n" not in self.text:
                piece = self.c.chunk()
                if not piece:
                    raise EOFError("the stream has ended")
                self.text += piece.decode()
            event, self.text = self.text.split("\n\n", 1)
            fields = dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
            if "event" in fields and (not kinds or fields["event"] in kinds):
                return fields.get("id"), fields["event"], json.loads(fields["data"])

    def close(self):
        self.c.close()


@group
def stream():
    with Node() as n:
        e = Events(n.port)
        equal("head", (e.status, e.fields["content-type"], e.fields.get("transfer-encoding")), (200, "text/event-stream", "chunked"))
        receipt = n.submit("a", "set", "k", "v")
        id, _, block = e.next("block")
        claim("a block", block["shard"] == "a" and block["number"] == 1 and block["txs"] == 1 and block["failed"] == 0 and
              block["hash"] == n.result("block_get", shard="a")["hash"], block)
        bad = n.submit("b", "transfer", "x", "1")
        _, _, failure = e.next("failed")
        equal("a failure", (failure["shard"], failure["tx"], failure["reason"]), ("b", bad["tx"], bad["reason"]))
        number, _, stats = e.next("stats")
        equal("figures have no number to come back to", number, None)
        claim("figures", stats["shards"] >= 1 and "p99_us" in stats and receipt, stats)
        one = Events(n.port, "/events?shard=b")
        n.submit("a", "set", "k", "w", nonce=2)
        n.submit("b", "set", "k", "v", nonce=2)
        found = [one.next("block")[2]["shard"] for _ in range(2)]
        equal("of one shard", found, ["b", "b"])
        later = Events(n.port, Last_Event_ID=id)
        first = later.next("block")[2]
        equal("from where it was", (first["shard"], first["number"]), ("b", 1))
        nonsense = Events(n.port, Last_Event_ID="x" * 30)
        equal("from nowhere", nonsense.next("block")[2]["number"], 1)
        n.submit("quiet", "set", "k", "v")
        for i in range(60):
            n.submit("busy", "add", "n", 1, nonce=i + 1)
        quiet = Events(n.port, "/events?shard=quiet")
        equal("what a quiet shard did before all that", quiet.next("block")[2]["shard"], "quiet")
        for s in (e, one, later, nonsense, quiet):
            s.close()
        eventually(lambda: n.submit("a", "add", "n", 1, nonce=n.result("nonce_get", shard="a", sender="me")["nonce"] + 1) and
                   n.result("node_metrics")["onlookers"] == 0)
        equal("they have gone", n.result("node_metrics")["onlookers"], 0)


@group
def crowd():
    with Node() as n:
        crowd = [Events(n.port) for _ in range(50)]
        silent = []
        for _ in range(5):  # never read
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect(("127.0.0.1", n.port))
            c.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            silent.append(c)
        seen = []

        def watch(e):
            numbers = []
            while not numbers or numbers[-1] < 50:
                numbers.append(e.next("block")[2]["number"])
            seen.append(numbers)

        threads = [threading.Thread(target=watch, args=(e,), daemon=True) for e in crowd]
        for t in threads:
            t.start()
        for i in range(50):
            n.submit("a", "add", "n", 1, nonce=i + 1)
        for t in threads:
            t.join(10)
        claim("everyone sees every block, in order", len(seen) == 50 and all(s == list(range(1, 51)) for s in seen), [len(s) for s in seen])
        began = time.monotonic()
        equal("stopped with onlookers", n.stop()[0], 0)
        claim("at once", time.monotonic() - began < 5, time.monotonic() - began)
        for c in silent:
            c.close()
        for e in crowd:
            e.close()


@group
def too_many():
    with Node() as n:
        crowd = [Events(n.port) for _ in range(256)]
        equal("one too many", get(n.port, "/events")[0], 503)
        for e in crowd:
            e.close()
