"""life_cases - starting, being refused, draining, ending; the command line."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import harness
from harness import Node, claim, equal, eventually, get, group, skip, weft


@group
def command_line():
    status, text, _ = weft("--version")
    claim("--version", status == 0 and text.startswith("weft 0."), text)
    for words in ([], ["node"], ["node", "verify"], ["node", "export"], ["tx"], ["tx", "load"]):
        for flag in ("--help", "-h"):
            status, text, errors = weft(*words, flag)
            claim(f"weft {' '.join(words)} {flag}", status == 0 and text.startswith("usage: weft") and not errors, (status, errors))
    for words, expected in [
        ([], "usage"), (["nonsense"], "unknown command 'nonsense'"), (["node", "--nonsense"], "unknown option '--nonsense'"), (["node", "-x"], "unknown option '-x'"),
        (["node", "word"], "one word too many"), (["node", "--data"], "needs a value"), (["node", "--memory=1"], "takes no value"), (["node", "--shard-workers", "two"], "'two'"),
        (["node", "--shard-workers", "-1"], "'-1'"), (["node", "--shard-workers", "2000"], "1024"), (["node", "--quantum", "soon"], "'soon'"), (["node", "--quantum", "1x"], "'1x'"),
        (["node", "--listen", "nowhere"], "'nowhere' is no address"), (["node", "--listen", "host.example:1"], "no address"), (["node", "--listen", "127.0.0.1:99999"], "no address"),
        (["node", "--listen", "127.0.0.1:"], "no address"), (["node", "--context", "moon"], "'moon'"), (["node", "--context", "https://x"], "--context"), (["node", "--context", "http://"], "--context"),
        (["node", "--context", "http://x:0/"], "--context"), (["node", "--context-every", "0"], "--context-every"), (["node", "--map-size", "1Q"], "'1Q'"), (["node", "--map-size", "99999999T"], "size"),
        (["node", "--max-connections", "0"], "--max-connections"), (["node", "\x1b[31mred"], "\\x1b[31mred"), (["tx", "\x07\x9b1m"], "\\x07\\xc2"),
        (["node", "verify"], "which directory"), (["node", "export"], "which directory"), (["node", "verify", "a", "b"], "too many"), (["node", "verify", "--data", "a", "b"], "'b' is one word too many"),
        (["node", "export", "--data", "a", "b", "c"], "'c' is one word too many"), (["node", "verify", "--data"], "needs a value"), (["tx"], "submit, or ask"), (["tx", "nonsense"], "unknown command"),
        (["tx", "submit"], "which shard"), (["tx", "submit", "a"], "which shard"), (["tx", "status", "a"], "missing"), (["tx", "block", "a", "x"], "no number"), (["tx", "info", "x"], "too many words"),
        (["tx", "info", "--node", "nonsense"], "no address"), (["tx", "info", "--node", "http://h:0"], "no address"), (["tx", "load", "--batch", "0"], "at least 1"),
        (["tx", "-n", "http://127.0.0.1:1", "load", "--batch", "0"], "at least 1"), (["tx", "--node=http://127.0.0.1:1", "load", "--batch", "0"], "at least 1"),
        (["node", "--memory", "--data", "d"], "cannot be given with --data"), (["node", "--data", ""], "is missing"), (["node", "--max-per-address", "2000"], "at most --max-connections"),
        (["tx", "call", "shard_status", '{"shard":}'], "at byte 9"),
    ]:
        status, _, errors = weft(*words)
        claim(f"weft {' '.join(words)}", status == 2 and expected in errors, (status, errors))


@group
def refused():
    with Node(memory=False) as n:
        status, _, errors = weft("node", "--memory", "--listen", f"127.0.0.1:{n.port}")
        claim("the port is taken", status == 1 and "taken" in errors, (status, errors))
        status, _, errors = weft("node", "--data", n.data, "--listen", "0")
        claim("the directory is in use", status == 1 and n.data in errors and ("in use" in errors or "another node" in errors), (status, errors))
        n.submit("a", "set", "k", "v")
        status, _, errors = weft("node", "verify", n.data)
        claim("verify beside a node", status == 1 and errors, (status, errors))
    status, _, errors = weft("node", "--data", "/proc/nonexistent/x", "--listen", "0")
    claim("a directory that cannot be made", status == 1 and "/proc/nonexistent/x" in errors, (status, errors))
    status, _, errors = weft("node", "verify", "/nonexistent")
    claim("verify nothing", status == 1 and "/nonexistent" in errors, (status, errors))
    with tempfile.NamedTemporaryFile() as file:
        status, _, errors = weft("node", "--data", file.name, "--listen", "0")
        claim("a file is no directory", status == 1 and errors, (status, errors))


@group
def kept():
    """What was acknowledged is there after a restart, and the store verifies."""
    with tempfile.TemporaryDirectory(prefix="weft-kept-") as data:
        data = os.path.join(data, "store")
        with Node(memory=False, data=data) as n:
            receipt = n.submit("a", "set", "k", "v")
            n.submit("b", "add", "n", "3")
            equal("stopped in order", n.stop()[0], 0)
            claim("it says so", "stopped" in n.words(), n.words())
        status, text, errors = weft("node", "verify", data)
        claim("verify", status == 0 and "0 findings" in text and "2 shards" in text, (status, text, errors))
        status, text, errors = weft("node", "export", data)
        lines = [json.loads(line) for line in text.splitlines()]
        claim("export", status == 0 and len(lines) >= 4, (status, text, errors))
        status, part, errors = weft("node", "export", data, "a")
        claim("export one", status == 0 and 0 < len(part.splitlines()) < len(lines), (status, part, errors))
        for words in (["verify", "--data", data], ["verify", "-d", data], ["verify", f"--data={data}"]):
            status, found, errors = weft("node", *words)
            claim(f"{words}", status == 0 and "0 findings" in found and "2 shards" in found, (status, found, errors))
        status, found, errors = weft("node", "export", data, "none")
        claim("export one that is not there", status == 1 and not found and "no shard 'none'" in errors, (status, found, errors))
        equal("export --data", weft("node", "export", "--data", data), (0, text, ""))
        for words in (["--data", data, "a"], ["a", "--data", data]):
            equal(f"export one {words}", weft("node", "export", *words), (0, part, ""))
        for words in (["--help"], ["--version"], ["node", "verify", data], ["node", "export", data], ["node", "--help"]):
            with open("/dev/full", "w") as nowhere:
                done = subprocess.run([harness.WEFT, *words], stdout=nowhere, stderr=subprocess.PIPE, text=True, timeout=30)
            claim(f"{words} that cannot be printed", done.returncode == 1 and "no space" in done.stderr.lower(), (done.returncode, done.stderr))
        with Node(memory=False, data=data) as n:
            equal("state", n.result("state_get", shard="a", key="k"), "v")
            equal("receipt", n.result("receipt_get", shard="a", tx=receipt["tx"]), receipt)
            equal("replay", n.call("tx_submit", shard="a", tx={"method": "set", "sender": "me", "nonce": 1, "args": ["k", "v"]})["error"]["code"], -32002)
            equal("it goes on", n.submit("a", "set", "k", "w", nonce=2)["block"], 2)


@group
def long_chain():
    """Verify counts each shard and each block once, also of a shard with thousands."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="weft-long-", dir=where) as data:
        data = os.path.join(data, "store")
        with Node("--max-batch", "1", memory=False, data=data) as n:
            for first in range(1, 2101, 700):
                txs = [{"method": "noop", "sender": "me", "nonce": first + i} for i in range(700)]
                n.result("tx_submit", shard="a", txs=txs, wait_ms=30000)
            n.submit("b", "noop")
            equal("blocks", n.result("shard_status", shard="a")["block"], 2100)
        status, text, errors = weft("node", "verify", data)
        claim("verify", status == 0 and "2 shards, 2101 blocks, 0 findings" in text, (status, text, errors))


@group
def read_only():
    """A store that may only be read can be looked at, unless a node uses it."""
    with tempfile.TemporaryDirectory(prefix="weft-ro-") as where:
        data, program = os.path.join(where, "store"), os.path.join(where, "weft")
        lower = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root may write whatever the mode is
        shutil.copy(harness.WEFT, program)  # where that one can reach it
        os.chmod(where, 0o755)
        try:
            subprocess.run([program, "--version"], capture_output=True, check=True, timeout=30, **lower)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            skip("a store that may only be read", error)
            return

        def weft(*words):
            done = subprocess.run([program, *words], capture_output=True, text=True, timeout=30, **lower)
            return done.returncode, done.stdout, done.stderr

        try:
            with Node(memory=False, data=data) as n:
                n.submit("a", "set", "k", "v")
                os.system(f"chmod -R a-w,a+rX '{data}'")
                status, _, errors = weft("node", "verify", data)
                claim("a node uses it", status == 1 and "a node uses this directory" in errors, (status, errors))
            status, text, errors = weft("node", "verify", data)
            claim("verify", status == 0 and "1 shards, 1 blocks, 0 findings" in text, (status, text, errors))
            status, text, errors = weft("node", "export", data)
            claim("export", status == 0 and len(text.splitlines()) >= 2, (status, text, errors))
            status, _, errors = weft("node", "--data", data, "--listen", "0")
            claim("a node", status == 1 and errors.count(data) == 1 and "ermission" in errors, (status, errors))
        finally:
            os.system(f"chmod -R u+w '{data}'")


SYNC_FAILS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
/* Every sync fails while the file is there. */
int fdatasync(int fd) {
    if (!access(getenv("WEFT_TEST_EIO"), F_OK)) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


@group
def stopped():
    """A sync that fails stops the shard, with a code of its own; reads go on, others go on, and a restart goes on with what was durable."""
    with tempfile.TemporaryDirectory(prefix="weft-stopped-") as where:
        shim, trigger, data = (os.path.join(where, name) for name in ("shim.so", "trigger", "data"))
        done = subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", shim, "-ldl"], input=SYNC_FAILS, text=True, capture_output=True)
        equal("shim", (done.returncode, done.stderr), (0, ""))
        with Node(memory=False, data=data, env={"LD_PRELOAD": shim, "WEFT_TEST_EIO": trigger}) as n:
            tx = lambda shard, nonce: n.call("tx_submit", shard=shard, wait_ms=10000, tx={"method": "add", "sender": "me", "nonce": nonce, "args": ["n", 1]})
            for shard in ("a", "b"):
                equal(f"{shard} before", tx(shard, 1)["result"]["receipts"][0]["status"], "ok")
            open(trigger, "w").close()
            equal("no receipt for what was not synced", tx("a", 2)["result"]["receipts"][0]["status"], "refused")
            os.unlink(trigger)
            answer = tx("a", 2)
            equal("it is stopped for good", answer.get("error", {}).get("code"), -32003)
            equal("it says so", n.result("shard_status", shard="a")["state"], "stopped")
            equal("reads go on", n.result("state_get", shard="a", key="n"), "1")
            equal("others go on", tx("b", 2)["result"]["receipts"][0]["status"], "ok")
            claim("it is counted", "weft_shards_stopped 1" in get(n.port, "/metrics")[2], "")
            claim("and said", "stopped" in n.words(), n.words())
        with Node(memory=False, data=data) as n:
            equal("after a restart", (n.result("state_get", shard="a", key="n"), n.submit("a", "add", "n", 1, nonce=2)["status"]), ("1", "ok"))


@group
def unreadable():
    """A store that cannot be read any more (its file is cut: SIGBUS) stops its shard, whoever finds it; the node and the others go on."""
    for finder in ("read", "submit"):
        with tempfile.TemporaryDirectory(prefix="weft-unreadable-") as data:
            with Node(memory=False, data=os.path.join(data, "store")) as n:
                tx = lambda shard, nonce: n.call("tx_submit", shard=shard, wait_ms=10000, tx={"method": "add", "sender": "me", "nonce": nonce, "args": ["n", 1]})
                receipts = [tx("a", i)["result"]["receipts"][0] for i in range(1, 20)]
                equal("b before", tx("b", 1)["result"]["receipts"][0]["status"], "ok")
                os.truncate(os.path.join(n.data, "shards/a/data.mdb"), 3 * 4096)
                if finder == "read":
                    answer = n.call("receipt_get", shard="a", tx=receipts[0]["tx"])
                    claim("a read that fails", answer.get("error", {}).get("code") == -32003 and "cannot be read" in answer["error"]["message"], answer)
                    equal("it is stopped", n.result("shard_status", shard="a")["state"], "stopped")
                equal(f"a submission, found by a {finder}", tx("a", 20).get("error", {}).get("code"), -32003)
                equal("it says so", n.result("shard_status", shard="a")["state"], "stopped")
                for method, params in (("state_get", {"key": "n"}), ("tx_status", {"tx": receipts[3]["tx"]}), ("trace_get", {"tx": receipts[3]["tx"]}),
                                       ("block_get", {}), ("nonce_get", {"sender": "me"})):
                    answer = n.call(method, shard="a", **params)
                    equal(f"{method}", answer.get("error", {}).get("code"), -32003)
                equal("others go on", tx("b", 2)["result"]["receipts"][0]["status"], "ok")
                equal("and can be read", n.result("state_get", shard="b", key="n"), "2")
                claim("it is counted", "weft_shards_stopped 1" in get(n.port, "/metrics")[2], "")
                claim("said once", n.words().count("its store cannot be read") == 1 and "the shard is stopped" in n.words(), n.words())
                equal("it ends in order", n.stop()[0], 0)
            status, text, errors = weft("node", "verify", os.path.join(data, "store"))
            claim("verify says which and why", status == 1 and '"a": "the file ends after 3 pages of ' in text and "1 findings" in text and '"b"' not in text, (status, text, errors))
            with Node(memory=False, data=os.path.join(data, "store")) as n:  # what is damaged does not keep the others from running
                equal("after a restart", (n.result("shard_status", shard="a")["state"], n.result("state_get", shard="b", key="n")), ("stopped", "2"))
                answer = n.call("state_get", shard="a", key="n")
                claim("what is damaged is not read", answer.get("error", {}).get("code") == -32003 and "damaged" in answer["error"]["message"], answer)
                equal("nor written", n.call("tx_submit", shard="a", tx={"method": "noop", "sender": "x", "nonce": 1}).get("error", {}).get("code"), -32003)
                equal("others go on after a restart", n.submit("b", "add", "n", 1, nonce=3)["status"], "ok")
                claim("it says so", 'shard "a": its store is damaged' in n.words(), n.words())
                equal("it ends in order too", n.stop()[0], 0)


@group
def disk_full():
    """On a disk that is full batches are refused, reads and shards with room go on, and so do all when there is room again."""
    with tempfile.TemporaryDirectory(prefix="weft-full-") as where:
        if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", where], capture_output=True).returncode:
            skip("a full disk", "a tmpfs cannot be mounted")
            return
        try:
            with Node(memory=False, data=os.path.join(where, "store")) as n:
                tx = lambda shard, nonce, size: n.call("tx_submit", shard=shard, wait_ms=10000, tx={"method": "set", "sender": "me", "nonce": nonce, "args": [f"k{nonce}", "x" * size]})
                status = lambda answer: answer["result"]["receipts"][0]["status"] if "result" in answer else answer["error"]["code"]
                equal("before", status(tx("a", 1, 10)), "ok")
                nonce, found = 2, "ok"
                while found == "ok" and nonce < 100:
                    found = status(tx("a", nonce, 30000))
                    nonce += found == "ok"
                equal("refused when full", found, "refused")
                with open(os.path.join(where, "rest"), "wb") as rest:
                    try:
                        while True:
                            os.write(rest.fileno(), bytes(4096))
                    except OSError:
                        pass
                shards = [status(tx(f"new{i}", 1, 10)) for i in range(3)]
                equal("no room for a shard", shards, [-32000] * 3)
                equal("still refused", status(tx("a", nonce, 30000)), "refused")
                equal("reads go on", n.result("state_get", shard="a", key="k1"), "x" * 10)
                equal("it goes on", n.result("shard_status", shard="a")["state"], "idle")
                for path in ("/", "/metrics"):
                    equal(f"{path}", get(n.port, path)[0], 200)
                os.unlink(os.path.join(where, "rest"))
                subprocess.run(["mount", "-o", "remount,size=8m", where], check=True)
                equal("with room again", status(tx("a", nonce, 30000)), "ok")
                equal("also for a shard", status(tx("new0", 1, 10)), "ok")
                equal("it ends in order", n.stop()[0], 0)
            code, text, errors = weft("node", "verify", os.path.join(where, "store"))
            claim("it verifies", code == 0 and "0 findings" in text, (code, text, errors))
        finally:
            subprocess.run(["umount", where])


@group
def full():
    """A shard that may not grow refuses what does not fit, and takes what does."""
    with Node("--map-size", "64k", memory=False) as n:
        statuses = [n.submit("a", "set", f"k{i}", "x" * 4000, nonce=1, sender=f"s{i}")["status"] for i in range(5)]
        claim("refused when full", "refused" in statuses and statuses[0] == "ok", statuses)
        equal("others go on", n.submit("b", "set", "k", "v")["status"], "ok")
        equal("what was taken is there", n.result("state_get", shard="a", key="k0"), "x" * 4000)


def load(n, shards, stop, accepted):
    """Submit until told to stop; what was accepted is counted by shard."""
    sender, c = f"load-{threading.get_ident()}", harness.Connection(n.port)
    nonces = [0] * shards
    try:
        while not stop.is_set():
            for s in range(shards):
                txs = [{"method": "add", "sender": sender, "nonce": nonces[s] + k + 1, "args": ["n", 1]} for k in range(50)]
                _, _, body = c.post(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tx_submit", "params": {"shard": f"s{s}", "txs": txs}}))
                answer = json.loads(body)
                if "result" in answer:
                    nonces[s] += 50
                    accepted[s] += 50
                elif answer["error"]["code"] == -32005:
                    return
    except (OSError, EOFError):
        pass  # it has ended
    finally:
        c.close()


@group
def drained():
    """SIGTERM under load: everything accepted is in a block, and that within 30 s."""
    with Node(memory=False) as n:
        stop, accepted = threading.Event(), [[0] * 8 for _ in range(3)]
        threads = [threading.Thread(target=load, args=(n, 8, stop, accepted[i])) for i in range(3)]
        for t in threads:
            t.start()
        eventually(lambda: sum(map(sum, accepted)) > 3000)
        status, took = n.stop()
        stop.set()
        for t in threads:
            t.join(10)
        equal("status", status, 0)
        claim("within 30 s", took < 30, took)
        claim("it said what it does", "finishing" in n.words() and "lost" not in n.words(), n.words())
        totals = [sum(a[s] for a in accepted) for s in range(8)]
        with Node(memory=False, data=n.data) as again:
            equal("nothing accepted was lost", [int(again.result("state_get", shard=f"s{s}", key="n") or 0) for s in range(8)], totals)
        status, text, _ = weft("node", "verify", n.data)
        claim("the chains are whole", status == 0, text)


@group
def interrupted():
    with Node() as n:
        equal("Ctrl-C", n.stop(signal.SIGINT)[0], 0)
    with Node() as n:
        equal("the end of its terminal", n.stop(signal.SIGHUP)[0], 0)
        claim("it says so", "terminal" in n.words() and "stopped" in n.words(), n.words())
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Node() as n:
            n.child.send_signal(signal.SIGHUP)
            equal("nohup", n.submit("a", "set", "k", "v")["status"], "ok")
            equal("and then stopped", n.stop()[0], 0)
    finally:
        signal.signal(signal.SIGHUP, before)
    with Node() as n:  # requests under way are answered
        c = harness.Connection(n.port)
        tx = {"method": "add", "sender": "a", "nonce": 1, "args": ["n", 1]}
        c.post(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tx_submit", "params": {"shard": "a", "tx": tx}}))
        body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "node_info"}).encode()
        c.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:10])
        eventually(lambda: n.result("node_info")["uptime_ms"] > 0)
        n.child.send_signal(signal.SIGTERM)
        eventually(lambda: "asked to stop" in n.words())
        c.send(body[10:])
        equal("a request under way", c.answer()[0], 200)
        c.close()
        equal("status", n.child.wait(30), 0)
    with Node() as n:  # twice: at once
        stuck = harness.Connection(n.port)
        stuck.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
        eventually(lambda: n.result("node_info")["uptime_ms"] > 0)
        n.child.send_signal(signal.SIGTERM)
        eventually(lambda: "asked to stop" in n.words())
        equal("a second signal", n.stop(signal.SIGTERM)[0], -signal.SIGTERM)
        stuck.close()


@group
def notified():
    """systemd's protocol: READY=1 when it listens, STOPPING=1 when it ends."""
    import socket
    with tempfile.TemporaryDirectory(prefix="weft-notify-") as where, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        path = os.path.join(where, "notify")
        s.bind(path)
        s.settimeout(10)
        os.environ["NOTIFY_SOCKET"] = path
        try:
            with Node() as n:
                equal("ready", s.recv(100), b"READY=1")
                n.stop()
                equal("stopping", s.recv(100), b"STOPPING=1")
        finally:
            del os.environ["NOTIFY_SOCKET"]


@group
def many_connections():
    with Node() as n:
        crowd = [harness.Connection(n.port) for _ in range(500)]
        for c in crowd:
            c.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n"
                   b'{"jsonrpc":"2.0","id":1,"method":"node_info" }')
        equal("all are answered", {c.answer()[0] for c in crowd}, {200})
        equal("stopped with idle connections", n.stop()[0], 0)
        for c in crowd:
            c.close()
