"""auth_cases - the token: needed beyond loopback, read from a file of one's own, compared in constant time, tried ten times a second."""
import json
import os
import socket
import tempfile

from harness import Connection, Node, claim, equal, get, group, weft

TOKEN = "s3cret-token-of-enough-length"
WRITE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tx_submit",
                    "params": {"shard": "a", "wait_ms": 5000, "tx": {"method": "add", "sender": "x", "nonce": 1, "args": ["n", "1"]}}})
READ = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_info"})


def token_file(text=TOKEN + "\n", mode=0o600):
    fd, path = tempfile.mkstemp(prefix="weft-token-")
    os.write(fd, text.encode("latin-1"))
    os.close(fd)
    os.chmod(path, mode)
    return path


@group
def files():
    for name, text, mode, words in [("others can read", TOKEN, 0o644, "chmod 600"), ("the group can read", TOKEN, 0o640, "chmod 600"), ("others can write", TOKEN, 0o602, "chmod 600"),
                                    ("empty", "", 0o600, "16 to 256"), ("too short", "short", 0o600, "16 to 256"), ("too long", "x" * 257, 0o600, "16 to 256"),
                                    ("a space", "a token with spaces in it", 0o600, "printable"), ("two lines", TOKEN + "\n" + TOKEN, 0o600, "printable")]:
        path = token_file(text, mode)
        status, _, errors = weft("node", "--memory", "--listen", "0", "--token-file", path)
        claim(f"token file: {name}", status == 1 and words in errors, (status, errors))
        os.unlink(path)
    for path in ("/nonexistent/token", "/dev/null", "/"):
        status, _, errors = weft("node", "--memory", "--listen", "0", "--token-file", path)
        claim(f"token file {path}", status == 1 and path in errors, (status, errors))
    for address in ("0.0.0.0:0", ":0", "[::]:0"):
        status, _, errors = weft("node", "--memory", "--listen", address)
        claim(f"{address} needs a token", status == 2 and "--token-file" in errors, (status, errors))


@group
def needed():
    path = token_file()
    with Node("--token-file", path, listen="0.0.0.0:0") as n:
        ask = lambda body, value=None: n.post(body, **({"Authorization": value} if value is not None else {}))
        status, fields, body = ask(WRITE)
        equal("a write without a token", (status, json.loads(body)["error"]["code"], fields.get("www-authenticate")), (401, -32001, "Bearer"))
        equal("a read without a token", ask(READ)[0], 200)
        batch = json.loads(ask(json.dumps([json.loads(WRITE), json.loads(READ)]))[2])
        equal("in a batch", [a.get("error", {}).get("code") for a in batch], [-32001, None])
        status, _, body = ask(json.dumps({k: v for k, v in json.loads(WRITE).items() if k != "id"}))
        equal("a notification", (status, body), (204, ""))
        equal("nothing was written", json.loads(ask(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "shard_list"}))[2])["result"]["total"], 0)
        claim("the page and figures need none", get(n.port, "/")[0] == 200 and get(n.port, "/metrics")[0] == 200, "")
        equal("the right one", json.loads(ask(WRITE, "Bearer " + TOKEN)[2])["result"]["receipts"][0]["status"], "ok")
        equal("scheme in any case", json.loads(ask(WRITE.replace('"nonce": 1', '"nonce": 2'), "bearer " + TOKEN)[2])["result"]["receipts"][0]["status"], "ok")
        wrong = ["", "Bearer", "Bearer ", "Bearer x", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Basic " + TOKEN, TOKEN, "Bearer  " + TOKEN]
        for value in wrong:
            status, _, body = ask(WRITE, value)
            claim(f"wrong: {value!r}", status == 401 and "result" not in body, (status, body))
        others = [Connection(n.port) for _ in range(30)]
        for one in others:  # all at once: more than ten within a second
            one.send(f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer wrong\r\nContent-Length: {len(READ)}\r\n\r\n{READ}")
        equal("the right one is never locked out", [ask(READ, "Bearer " + TOKEN)[0] for _ in range(20)], [200] * 20)
        statuses = [one.line().split()[1] for one in others]
        claim("too many wrong ones are delayed", b"429" in statuses and set(statuses) <= {b"401", b"429"}, statuses)
        for one in others:
            one.close()
        metrics = get(n.port, "/metrics")[2]
        claim("they are counted", 'why="token"} ' in metrics and 'why="throttled"} 0' not in metrics, metrics)
        claim("the token is nowhere", TOKEN not in n.words() + n.first + "".join(n.rest) + metrics + get(n.port, "/")[2], "")
    with Node("--token-file", path) as n:  # also on loopback, when it is given
        equal("asked for on loopback", n.post(WRITE)[0], 401)
    os.unlink(path)


@group
def loopback_only():
    """Without --listen nobody else reaches it."""
    addresses = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1", "127.0.1.1"}
    with Node() as n:
        for address in addresses:
            try:
                Connection(n.port, address).close()
                claim(f"not on {address}", False, "it answers")
            except OSError:
                claim(f"not on {address}", True)
        claim("on 127.0.0.1", "127.0.0.1" in n.first, n.first)
